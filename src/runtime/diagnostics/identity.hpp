// Identities of host, kernel and namespaces, which are equal for processes that share them.
#pragma once

#include <string>

namespace tutti::runtime {

/// The name of this host, for error texts; "unknown" if the system call fails.
std::string host_name();

/// Identifies the present boot of this machine's kernel; "" if unknown.
const std::string& boot_identity();

/// The identity of this process's namespace of a kind ("net", "pid", "time"), unique within one
/// boot; "" if unknown.
std::string namespace_identity(const char* kind);

}  // namespace tutti::runtime
