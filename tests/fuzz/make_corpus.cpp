// Makes the first inputs of the fuzz targets by the encoders of the library, and writes them to
// files DIRECTORY/TARGET/NAME.
//
//   make_corpus DIRECTORY          (tools/fuzz.sh --corpus calls it for tests/fuzz/corpus)
//
// Run it when a format changes, and commit what it writes.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/registry.hpp"
#include "device/host/segment.hpp"
#include "device/ip/address_record.hpp"
#include "device/rc/rc_frame.hpp"
#include "engine/aggregate/window_plan.hpp"
#include "protocol/codec/data_message.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/codec/tagged_message.hpp"
#include "runtime/aggregator/aggregation_plan.hpp"
#include "runtime/aggregator/aggregator_frame.hpp"
#include "runtime/bootstrap/store/store_frame.hpp"
#include "runtime/communicator/greeting.hpp"
#include "runtime/keys/key_agreement.hpp"
#include "schedule/text.hpp"
#include "trigger/descriptor.hpp"
#include "trigger/packet.hpp"
#include "wire/header.hpp"
#include "wire/uc_fragment.hpp"

namespace {

using namespace tutti;  // NOLINT: no other file includes this source file
using Bytes = std::vector<std::byte>;

/// Nesting depth that would overflow the stack of a recursive decoder.
constexpr std::size_t kNested = 16 * 1024;

class Corpus {
 public:
  explicit Corpus(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& target, const std::string& name, std::span<const std::byte> bytes) {
    const auto folder = folder_ / target;
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    good_ = good_ && file.good();
  }
  void add(const std::string& target, const std::string& name, std::string_view text) {
    add(target, name, std::as_bytes(std::span(text)));
  }
  bool good() const { return good_; }

 private:
  std::filesystem::path folder_;
  bool good_ = true;
};

template <typename... Part>
Bytes join(const Part&... parts) {
  Bytes all;
  const auto append = [&all](std::span<const std::byte> part) {
    all.insert(all.end(), part.begin(), part.end());
  };
  (append(std::as_bytes(std::span(parts))), ...);
  return all;
}

void add_addresses(Corpus& corpus) {
  using namespace device;
  for (const bool six : {false, true}) {
    const auto socket = six ? ip::SocketAddress::v6(in6addr_loopback, 4000, 0)
                            : ip::SocketAddress::v4({htonl(INADDR_LOOPBACK)}, 4000);
    const std::string name = six ? "ipv6" : "ipv4";
    corpus.add("socket_address_fuzz", name, socket.encode());
    corpus.add("socket_address_fuzz", name + "_text", socket.to_string());
    corpus.add("address_record_fuzz", name,
               encode(ip::AddressRecord{.chunk_bytes = 1408,
                                        .incarnation = 0x0a0b0c0d,
                                        .receive_window_bytes = 1 << 20,
                                        .datagram_bytes = 1408,
                                        .multicast = six ? ip::Multicast::uc : ip::Multicast::ud,
                                        .slot_port = 4001,
                                        .socket = socket}));
  }
  const host::SegmentAddress segment{.token = 7, .process = 100, .memory = 5, .bell = 7};
  corpus.add("shared_memory_fuzz", "address", segment.encode());
  // A frame ring with one record of 16 bytes, which contains a frame of 5 bytes. The fuzz target
  // also takes the lengths of its own valid frames from this input.
  corpus.add("shared_memory_fuzz", "frame",
             join(std::array<std::uint64_t, 3>{16, 5, 0x0504030201}));
  // A frame ring with a forged count of written bytes, which exceeds the size of the ring. The
  // length of the first record is kSkip: skip the rest of the ring.
  corpus.add("shared_memory_fuzz", "forged_count",
             join(std::array<std::uint64_t, 2>{std::uint64_t{1} << 63, host::kSkip}));
}

void add_wire(Corpus& corpus) {
  const wire::Header header{.kind = wire::PacketKind::chunk,
                            .communicator = 3,
                            .source = rank_of(1),
                            .epoch = 2,
                            .psn = 9};
  Bytes bytes(wire::kHeaderBytes);
  wire::encode(header, bytes.data());
  corpus.add("header_fuzz", "chunk", bytes);
  Bytes fragments;
  for (const std::uint32_t offset : {0u, 256u, 512u}) {
    Bytes one(wire::kFragmentHeaderBytes);
    wire::encode(wire::UcFragment{header, offset, 256, 768}, one.data());
    fragments = join(fragments, one, std::array<std::uint16_t, 1>{256});
  }
  corpus.add("uc_fragment_fuzz", "three_fragments", fragments);
}

void add_messages(Corpus& corpus) {
  using namespace protocol;
  for (auto kind = MessageKind::barrier; kind <= MessageKind::last_kind;
       kind = static_cast<MessageKind>(static_cast<int>(kind) + 1)) {
    Message message{.kind = kind, .epoch = 2, .argument = 1};
    if (kind == MessageKind::fetch_request || kind == MessageKind::retransmit_request) {
      message.add({3, 5});
      message.add({9, 10});
    }
    std::array<std::byte, kMaxMessageBytes> bytes;
    const std::size_t size = encode(message, bytes.data());
    corpus.add("message_fuzz", to_string(kind), std::span(bytes).first(size));
  }
  Bytes header(kDataHeaderBytes);
  encode_data_header(1, 0, header.data());
  const Bytes answer(24, std::byte{1});
  corpus.add("data_message_fuzz", "data", join(header, answer));
  corpus.add("data_message_fuzz", "clear_to_send",
             encode(ClearToSend{.key = 3, .offset = 64, .size_bytes = 100}));
  corpus.add("data_message_fuzz", "ready_to_send",
             encode(ReadyToSend{.slot = 2, .size_bytes = 100}));
  for (const auto& [name, message] :
       {std::pair<const char*, TaggedMessage>{"eager", {.kind = TaggedKind::eager, .tag = 5}},
        {"ready", {.kind = TaggedKind::ready, .number = 1, .tag = 5, .length_bytes = 9, .key = 7}},
        {"pulled", {.kind = TaggedKind::pulled, .number = 1}},
        {"credit", {.kind = TaggedKind::credit, .number = 65536}}}) {
    std::array<std::byte, kMaxTaggedHeaderBytes> bytes;
    const std::size_t length = encode_tagged(message, bytes);
    corpus.add("tagged_message_fuzz", name, std::span<const std::byte>(bytes).first(length));
  }
  // In this input, each of the two other ranks sends a data message in match slot 0. A message is
  // one byte for kind and sender, one byte for the match slot, and 24 bytes for the answer.
  corpus.add("clock_exchange_fuzz", "answer",
             join(std::array<std::uint8_t, 2>{0x82, 0}, answer,
                  std::array<std::uint8_t, 2>{0x86, 0}, answer));
  corpus.add("clock_exchange_fuzz", "end_of_range",
             join(std::array<std::uint8_t, 2>{0x86, 0},
                  std::array<std::int64_t, 3>{INT64_MIN, INT64_MIN, 0}));
  // The operations of this input: the root retains the block of the first epoch, one receiver
  // requests this block, and both receivers acknowledge it.
  corpus.add("retained_blocks_fuzz", "kept_and_asked",
             join(std::array<std::uint8_t, 13>{0, 0, 1, 0, 1, 2, 0, 0, 0, 3, 2, 0, 10}));
}

void add_reliable(Corpus& corpus) {
  using namespace device::rc;
  const Bytes payload(8, std::byte{5});
  for (int k = 1; k <= static_cast<int>(RcKind::atomic_answer); ++k) {
    RcFrame frame;
    frame.kind = static_cast<RcKind>(k);
    frame.source_incarnation = 0x0b0b0b0b;
    frame.destination_incarnation = 0x0a0a0a0a;
    if (frame.kind != RcKind::ack) frame.sequence = 1;
    Bytes rest;
    switch (frame.kind) {
      case RcKind::ack:
        frame.count = 1;
        rest.resize(kRcWordBytes);
        encode_word(6, rest.data());
        break;
      case RcKind::send:
        frame.message_bytes = 8;
        rest = payload;
        break;
      case RcKind::write:
      case RcKind::write_immediate:
        frame.operation = frame.key = 1;
        frame.remaining = 8;
        rest = payload;
        break;
      case RcKind::read_request:
        frame.count = 1;
        rest.resize(kRcReadRangeBytes);
        encode_range({.operation = 1, .key = 1, .offset = 0, .length = 100}, rest.data());
        break;
      case RcKind::read_response:
        frame.operation = 1;
        rest = payload;
        break;
      case RcKind::atomic_request:
      case RcKind::atomic_answer:
        frame.operation = frame.key = 1;
        break;
      case RcKind::refused:
        frame.operation = 1;
        frame.count = static_cast<std::uint16_t>(Code::invalid_argument);
        break;
      default:
        break;
    }
    std::array<std::byte, kRcHeaderMax> header;
    const std::size_t size = encode(frame, header.data());
    const Bytes whole = join(std::span(header).first(size), rest);
    corpus.add("rc_frame_fuzz", fmt::format("kind_{}", k), whole);
    const std::array<std::uint16_t, 1> length{static_cast<std::uint16_t>(whole.size())};
    corpus.add("rc_frame_fuzz", fmt::format("fed_{}", k), join(length, whole));
  }
}

void add_bootstrap(Corpus& corpus) {
  using namespace runtime;
  corpus.add("bootstrap_frame_fuzz", "hello",
             encode(Hello{.rank = 1, .size = 3, .timeout_ms = 9, .remaining_ms = 8}));
  const Bytes contribution(5, std::byte{1});
  corpus.add("bootstrap_frame_fuzz", "gather", encode_gather(0, 1000, contribution));
  corpus.add("bootstrap_frame_fuzz", "result",
             encode_result(0, std::vector<Bytes>{contribution, {}, contribution}));
  corpus.add("bootstrap_frame_fuzz", "failed",
             encode_failed(Status(Code::timeout, "late", {Rank{1}})));
  const Bytes nested(kNested, std::byte{0x91});
  PeerOptions greeting;
  greeting.host = "host";
  greeting.network = "network";
  greeting.memory = "memory";
  greeting.processors = "0-1";
  greeting.device = "auto";
  corpus.add("greeting_fuzz", "plain", greeting.encode());
  KeyOffer offer{.rank = 0, .size = 2};
  offer.public_key.fill(std::byte{9});
  Bytes offers;
  append(offers, offer);
  corpus.add("key_agreement_fuzz", "keyless", offers);
  offer.rank = 1;
  offer.keyed = true;
  offer.proof.fill(std::byte{7});
  append(offers, offer);
  corpus.add("key_agreement_fuzz", "two_offers", offers);
  corpus.add("key_agreement_fuzz", "sealed", Bytes(kSealedSecretBytes + 20, std::byte{5}));
  corpus.add("pmi_line_fuzz", "value", "cmd=get_result rc=0 msg=success value=tutti1/0123");
  corpus.add("pmi_line_fuzz", "failure", "cmd=get_result rc=-1 msg=key not found value=unknown");
  corpus.add("unique_id_fuzz", "whole", "tutti1/0123456789abcdef0123456789abcdef/4000/127.0.0.1/");
  corpus.add("unique_id_fuzz", "parts", "4000/host.example/");

  AggregationPlan plan;
  plan.status = Status(Code::timeout, "late");
  corpus.add("aggregation_plan_fuzz", "none", encode(plan));
  plan = {};
  plan.fallback = true;
  plan.sides = {{.address = "127.0.0.1:4000", .unique_id = "id", .terms = {}},
                {.address = "[::1]:4000", .unique_id = "other", .terms = {}}};
  corpus.add("aggregation_plan_fuzz", "two_sides", encode(plan));
  corpus.add("aggregation_plan_fuzz", "nested", nested);
  const JoinRequest request{
      .unique_id = "id", .address = "127.0.0.1:4000", .job = "host:1", .ranks = 3};
  corpus.add("aggregator_frame_fuzz", "header", encode_control(ControlKind::go, {}));
  corpus.add("aggregator_frame_fuzz", "request", encode(request));
  corpus.add("aggregator_frame_fuzz", "reply", encode(JoinReply{}));
  engine::CallRecord record;
  record.call.elements = 1000;
  corpus.add("aggregator_frame_fuzz", "call_record", engine::encode(record));
}

void add_schedules(Corpus& corpus) {
  for (const collectives::AlgorithmEntry& entry : collectives::algorithms()) {
    const auto schedule = collectives::build({.collective = entry.collective,
                                              .algorithm = std::string(entry.name),
                                              .ranks = 4,
                                              .rank = rank_of(1)});
    if (!schedule) continue;
    corpus.add("schedule_text_fuzz", fmt::format("{}_{}", to_string(entry.collective), entry.name),
               schedule::to_text(*schedule));
  }
}

void add_triggers(Corpus& corpus) {
  using namespace trigger;
  Descriptor descriptor;
  descriptor.destination = static_cast<NodeId>(2);
  descriptor.data_bytes = 4;
  std::vector<std::uint64_t> words;
  encode(descriptor, words);
  words.resize(24);
  const std::array<std::uint8_t, 1> post{0};
  const std::array<std::uint8_t, 1> deliver{1};
  const std::array<std::uint8_t, 2> poll{2, 3};
  std::array<std::uint64_t, kMaxPacketHeaderWords> header{};
  PacketHeader packet;
  packet.destination = static_cast<NodeId>(1);
  packet.payload_bytes = 4;
  encode(packet, header);
  corpus.add("trigger_fuzz", "post_and_deliver", join(post, words, poll, deliver, header, poll));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  Corpus corpus(argv[1]);
  add_addresses(corpus);
  add_wire(corpus);
  add_messages(corpus);
  add_reliable(corpus);
  add_bootstrap(corpus);
  add_schedules(corpus);
  add_triggers(corpus);
  // The inputs of slot_exchange_fuzz and hash_buffer_fuzz are operations, for which there is no
  // encoder. Their first input therefore contains every byte value once.
  Bytes every(256);
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = std::byte(i * 37);
  corpus.add("slot_exchange_fuzz", "every_byte", every);
  corpus.add("hash_buffer_fuzz", "every_byte", every);
  if (!corpus.good()) fmt::print(stderr, "cannot write below {}\n", argv[1]);
  return corpus.good() ? 0 : 1;
}
