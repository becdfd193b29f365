#include "runtime/bootstrap/packed_json.hpp"

#include <cstdint>
#include <string>

#include "base/error.hpp"

namespace tutti::runtime {

namespace {

using Json = nlohmann::json;

/// Accepts every value up to the permitted depth. The parser calls this handler before it recurses
/// into an array or object, so the limit also bounds the parser's stack.
class DepthLimit final : public nlohmann::json_sax<Json> {
 public:
  bool exceeded() const { return depth_ > kMaxPackedDepth; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  bool enter() { return ++depth_ <= kMaxPackedDepth; }
  bool leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

}  // namespace

Result<Json> unpack(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxPackedBytes) {
    return failure(Code::invalid_argument,
                   "the msgpack record has {} bytes: at most {} are allowed", bytes.size(),
                   kMaxPackedBytes);
  }
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto* last = first + bytes.size();
  DepthLimit limit;
  if (!Json::sax_parse(first, last, &limit, Json::input_format_t::msgpack)) {
    if (limit.exceeded()) {
      return failure(
          Code::invalid_argument,
          "the msgpack record nests deeper than {} levels: use the same build of Tutti everywhere",
          kMaxPackedDepth);
    }
    return failure(
        Code::invalid_argument,
        "the record of the peer is not valid msgpack: use the same build of Tutti everywhere");
  }
  return Json::from_msgpack(first, last, /*strict=*/true, /*allow_exceptions=*/false);
}

}  // namespace tutti::runtime
