// Writes the JSON files of the commands that have an option --json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

/// Writes the file of an option --json. Names of hosts and files may contain bytes that are not
/// UTF-8; these bytes are replaced.
Status write_json_file(const std::string& path, const nlohmann::json& json);

}  // namespace tutti::app
