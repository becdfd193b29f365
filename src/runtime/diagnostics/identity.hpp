// Identities of host, kernel and namespaces, which are equal for processes that share them.
#pragma once

#include <string>

namespace tutti::runtime {

/// The name of this host, for messages; "unknown" if the system does not tell.
std::string host_name();

/// Identifies the present boot of this machine's kernel; "" if unknown.
const std::string& boot_identity();

/// Identifies the namespace of a kind ("net", "pid", "time") in which this process is, among all
/// namespaces of one boot; "" if unknown.
std::string namespace_identity(const char* kind);

}  // namespace tutti::runtime
