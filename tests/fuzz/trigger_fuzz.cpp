// Fuzzes the descriptors and packets of a node's trigger units. Decoded descriptors and packets
// encode to the same bytes, accepted descriptors access no memory outside their job, and no hash
// buffer holds more packets than it has room for.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "trigger/unit_bank.hpp"

namespace {

using namespace tutti::trigger;

void require(bool holds) {
  if (!holds) std::abort();
}

UnitBank::Settings settings() {
  UnitBank::Settings settings;
  settings.node = static_cast<NodeId>(1);
  settings.units = 2;
  settings.jobs = 4;
  settings.ports = 8;
  settings.messages = 2;
  settings.unit = {.buffer_bytes = 512, .slot_bytes = 64, .sequences = 3, .outbox_packets = 2};
  settings.unit.wait_limit = tutti::Nanoseconds(20);
  return settings;
}

/// Takes words from the front of the input.
std::vector<std::uint64_t> take_words(std::span<const std::uint8_t>& input, std::size_t count) {
  std::vector<std::uint64_t> words(std::min(count, input.size() / 8));
  if (!words.empty()) std::memcpy(words.data(), input.data(), words.size() * 8);
  input = input.subspan(words.size() * 8);
  return words;
}

void post(UnitBank& bank, std::span<const std::uint8_t>& input, tutti::Instant now) {
  const std::vector<std::uint64_t> words = take_words(input, 24);
  std::span<const std::uint64_t> rest = words;
  DescriptorList sequence;
  while (sequence.size() < 4) {
    const std::size_t before = rest.size();
    const auto descriptor = decode_descriptor(rest);
    if (!descriptor) break;
    std::vector<std::uint64_t> again;
    encode(*descriptor, again);
    require(again.size() == before - rest.size());
    require(std::memcmp(again.data(), words.data() + (words.size() - before), again.size() * 8) ==
            0);
    sequence.push_back(*descriptor);
  }
  if (sequence.empty()) return;
  if (!sequence[0].collective) static_cast<void>(bank.send_point_to_point(sequence[0]));
  sequence.front().head = true;
  sequence.back().tail = true;
  static_cast<void>(bank.post(std::move(sequence), now));
}

void deliver(UnitBank& bank, std::span<const std::uint8_t>& input) {
  const std::vector<std::uint64_t> words = take_words(input, 3);
  auto header = decode_packet_header(words);
  if (!header && words.size() == 3) header = decode_packet_header(std::span(words).first(2));
  if (!header) return;
  std::array<std::uint64_t, kMaxPacketHeaderWords> again{};
  const std::size_t count = encode(*header, again);
  require(std::memcmp(again.data(), words.data(), count * 8) == 0);
  header->destination = bank.node();
  header->payload_bytes %= 80;
  std::array<std::byte, 80> payload{};
  static_cast<void>(bank.deliver(*header, std::span(payload).first(header->payload_bytes)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> input(data, size);
  UnitBank bank(settings());
  std::vector<std::byte> memory(96);
  for (std::uint8_t job = 0; job < 2; ++job) {
    require(bank.add_memory(static_cast<JobId>(job), memory).ok());
  }
  for (std::int64_t now = 0; !input.empty(); ++now) {
    const std::uint8_t what = input[0];
    input = input.subspan(1);
    if (what % 4 == 0) post(bank, input, {now});
    if (what % 4 == 1) deliver(bank, input);
    if (what % 4 == 2) bank.poll({now});
    if (what % 4 == 3) {
      if (PacketOutbox* outbox = bank.next_outbox()) outbox->pop();
      if (!bank.completions().empty()) bank.completions().pop();
      if (!bank.messages().empty()) bank.messages().pop();
      if (what == 255) bank.close_job(static_cast<JobId>(1));
    }
  }
  for (std::uint32_t u = 0; u < bank.units(); ++u) {
    const HashBuffer& buffer = bank.unit(u).buffer();
    require(buffer.counters().occupied <= buffer.slots() + 3);
  }
  return 0;
}
