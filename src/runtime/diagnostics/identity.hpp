// Identities of host, kernel and namespaces: equal for processes that share them.
#pragma once

#include <string>

namespace tutti::runtime {

/// For messages; "unknown" where the system does not say.
std::string host_name();

/// Of this run of this machine's kernel; "" where it is not known.
const std::string& boot_identity();

/// Of the namespace ("net", "pid", "time") that this process is in, among those of one boot; ""
/// where it is not known.
std::string namespace_identity(const char* kind);

}  // namespace tutti::runtime
