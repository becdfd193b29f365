// Fuzzes the headers of UC fragments. A decoded fragment lies within its message and encodes to the
// same bytes, and no sequence of fragments is placed beyond the end of its message.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "wire/message_assembly.hpp"
#include "wire/uc_fragment.hpp"

namespace {

using namespace tutti;

// Number of input bytes that describe one fragment: its header and the length of its payload.
constexpr std::size_t kEntryBytes = wire::kFragmentHeaderBytes + 2;

void check(std::span<const std::byte> header, const wire::UcFragment& fragment) {
  if (std::uint64_t{fragment.offset} + fragment.bytes > fragment.message_bytes) std::abort();
  std::array<std::byte, wire::kFragmentHeaderBytes> again{};
  wire::encode(fragment, again.data());
  if (!std::equal(again.begin(), again.end(), header.begin())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span input(reinterpret_cast<const std::byte*>(data), size);
  wire::MessageAssembly assembly;
  std::uint32_t next = 0;
  while (input.size() >= kEntryBytes) {
    std::uint16_t payload_bytes = 0;
    std::memcpy(&payload_bytes, input.data() + wire::kFragmentHeaderBytes, 2);
    const auto header = input.first(wire::kFragmentHeaderBytes);
    input = input.subspan(kEntryBytes);
    const auto fragment = wire::decode_fragment(header, payload_bytes);
    if (!fragment) continue;
    check(header, *fragment);
    using enum wire::MessageAssembly::Verdict;
    const auto verdict = assembly.admit(header.data(), *fragment);
    if (verdict == begins) next = 0;
    if (verdict != begins && verdict != continues) continue;
    if (fragment->offset != next) std::abort();
    next += fragment->bytes;
    const bool complete = assembly.advance(fragment->bytes);
    if (complete != (next == fragment->message_bytes)) std::abort();
  }
  return 0;
}
