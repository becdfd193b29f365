#include "json_file.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace tutti::app {

Status write_json_file(const std::string& path, const nlohmann::json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  std::ofstream file(path);
  file << text << "\n";
  file.close();
  if (file) return {};
  return failure(Code::system,
                 "cannot write --json file {}: name a file in a writable folder with free space",
                 path);
}

}  // namespace tutti::app
