// The files that options of the commands name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tutti/status.hpp"

namespace tutti::app {

/// The error for the file `path`, named by `option`, that cannot be written.
Status cannot_write(const char* option, const std::string& path, Code code = Code::system);

/// Writes the file of an option --json. Names of hosts and files may contain bytes that are not
/// UTF-8; these bytes are replaced.
Status write_json_file(const std::string& path, const nlohmann::json& json);

}  // namespace tutti::app
