// The files that the options --json name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

/// Writes the file of an option --json. Bytes that are not UTF-8, as names of hosts and files may
/// have, are replaced.
Status write_json_file(const std::string& path, const nlohmann::json& json);

}  // namespace tutti::app
