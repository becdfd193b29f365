// Fuzzes the parser of unique ids, whose text may come from any source. A text is refused, or gives
// an id that parses to the same id again.
#include <algorithm>
#include <string>

#include "fuzz.hpp"
#include "runtime/bootstrap/unique_id.hpp"

namespace {

using namespace tutti::runtime;  // NOLINT: no other file includes this source file
using tutti::fuzz::require;

void check(std::string_view text) {
  const auto id = parse_unique_id(text);
  if (!id.ok()) {
    require(id.status().code() == tutti::Code::invalid_argument);
    return;
  }
  require(id->back() == '\0');
  const std::string_view whole(id->data(), id->size() - 1);
  require(whole.substr(0, std::min(text.size(), whole.size())) == text.substr(0, whole.size()));
  require(std::all_of(whole.begin(), whole.end(), [](char c) { return c > ' ' && c <= '~'; }));
  const auto again = parse_unique_id(whole);
  require(again.ok() && *again == *id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text);
  // A valid id whose parts come from the input.
  check("tutti1/0123456789abcdef0123456789abcdef/" + std::string(text.substr(0, 80)));
  // discard_unique_id() discards only ids that this process has made. This process has made none,
  // so every id must be ignored, whatever its bytes.
  UniqueId id{};
  std::copy_n(text.begin(), std::min(text.size(), id.size()), id.begin());
  discard_unique_id(id);
  return 0;
}
