#include "output_file.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace tutti::app {

Status cannot_write(const char* option, const std::string& path, Code code) {
  return failure(code, "cannot write {} file {}: name a file in a writable folder with free space",
                 option, path);
}

Status write_json_file(const std::string& path, const nlohmann::json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  std::ofstream file(path);
  file << text << "\n";
  file.close();
  if (file) return {};
  return cannot_write("--json", path);
}

}  // namespace tutti::app
