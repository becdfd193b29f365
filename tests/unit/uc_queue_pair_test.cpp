// Tests UC multicast on loopback with missing, late, repeated, damaged and forged fragments. A
// chunk is accepted only if it is complete and right, and no later fragment changes it afterwards.
#include "device/ip/multicast/uc_queue_pair.hpp"

#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <poll.h>

#include <map>
#include <set>

#include "base/random.hpp"
#include "device/ip/chunk_shape.hpp"
#include "device/ip/multicast/group.hpp"
#include "wire/message_assembly.hpp"

namespace tutti::device::ip {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kCommunicator = 3;
constexpr std::uint32_t kRanks = 20;
constexpr std::uint32_t kEpoch = 7;
constexpr std::uint32_t kFragment = 128;
// Chunk of six fragments, of which the last is short.
constexpr std::uint32_t kChunk = 5 * kFragment + 32;
constexpr std::uint32_t kChunks = 24;
constexpr std::byte kUntouched{0xee};

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(draw(seed, i / 8) >> (i % 8 * 8));
  return bytes;
}

/// A group seed that no other test uses at the same time.
GroupSeed seed_of_this_process() {
  GroupSeed seed{};
  const Bytes bytes = pattern(seed.size(), static_cast<std::uint64_t>(::getpid()));
  std::copy(bytes.begin(), bytes.end(), seed.begin());
  return seed;
}

wire::TagKeys keys() { return *wire::TagKeys::keyed(pattern(32, 1), kCommunicator); }

/// Chooses the destinations of the chunks of one collective, and stores the accepted chunks.
class Place final : public PlacementResolver {
 public:
  std::uint32_t epoch = kEpoch;
  bool begun = true;
  std::set<std::uint32_t> refused;
  std::map<std::uint32_t, Bytes> counted;
  Bytes memory = Bytes(std::size_t{kChunks} * kChunk, kUntouched);
  std::uint32_t began = 0;

  std::byte* at(std::uint32_t psn) { return memory.data() + std::size_t{psn} * kChunk; }
  Bytes content(std::uint32_t psn) { return {at(psn), at(psn) + kChunk}; }
  bool untouched(std::uint32_t psn) { return content(psn) == Bytes(kChunk, kUntouched); }

  Placement landing(const MessageHead& message, bool begins) override {
    if (begins) ++began;
    if (message.epoch != epoch) return {};
    if (!begun) return {Placement::Where::staging};
    if (message.psn >= kChunks || message.bytes != kChunk || refused.contains(message.psn) ||
        counted.contains(message.psn)) {
      return {};
    }
    return {Placement::Where::buffer, at(message.psn)};
  }
};

/// A queue pair of rank 0, and a plain socket that sends arbitrary bytes to the multicast group of
/// the queue pair.
class Uc : public testing::Test {
 protected:
  void SetUp() override {
    auto chosen = choose_interface("", true, AF_INET);
    ASSERT_TRUE(chosen.ok()) << chosen.status().to_string();
    interface_ = *chosen;
    group_ = group_address(seed_of_this_process(), 0, AF_INET, interface_.index);
    receiver_ = open(0);
    ASSERT_NE(receiver_, nullptr);
    receiver_->set_resolver(&place_);
    auto socket = open_udp(AF_INET);
    ASSERT_TRUE(socket.ok());
    raw_ = std::move(*socket);
    ip_mreqn request{};
    request.imr_ifindex = static_cast<int>(interface_.index);
    ASSERT_EQ(::setsockopt(raw_.get(), IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request), 0);
    ASSERT_EQ(::bind(raw_.get(), interface_.address.get(), interface_.address.length()), 0);
    ASSERT_EQ(::connect(raw_.get(), group_.get(), group_.length()), 0);
  }

  std::unique_ptr<IpMulticastQueuePair> open(std::uint32_t rank) {
    const GroupSettings settings{.rank = rank_of(rank),
                                 .size = kRanks,
                                 .communicator = kCommunicator,
                                 .multicast = Multicast::uc,
                                 .shared_host = true,
                                 .send_buffer_bytes = 1 << 20,
                                 .receive_buffer_bytes = 4 << 20};
    auto pair = IpMulticastQueuePair::open(settings, interface_, group_, 0);
    EXPECT_TRUE(pair.ok()) << pair.status().to_string();
    if (!pair) return nullptr;
    (*pair)->set_tag_keys(keys());
    (*pair)->set_members(
        std::make_shared<const std::vector<SocketAddress>>(kRanks, interface_.address));
    (*pair)->set_fragment_bytes(kFragment);
    return std::move(*pair);
  }

  inline static std::uint64_t sent_ = 0;  ///< counter of the last message that was made

  static Bytes bytes_of(std::uint32_t psn) { return pattern(kChunk, 100 + psn); }

  /// The fragments of a message; if `forged`, they are made without the secret.
  static std::vector<Bytes> fragments(std::uint32_t source, std::uint32_t psn, const Bytes& payload,
                                      bool forged = false, std::uint32_t step = kFragment) {
    wire::UcFragment fragment{.message = {.kind = wire::PacketKind::message,
                                          .communicator = kCommunicator,
                                          .source = rank_of(source),
                                          .epoch = kEpoch,
                                          .psn = psn,
                                          .counter = ++sent_},
                              .message_bytes = static_cast<std::uint32_t>(payload.size())};
    Bytes head(wire::kHeaderBytes);
    wire::encode(fragment.message, head.data());
    fragment.message.tag = keys().of(sent_)->tag(head.data(), payload) ^ (forged ? 1 : 0);
    std::vector<Bytes> all;
    for (; fragment.offset < payload.size(); fragment.offset += step) {
      const std::size_t size = std::min<std::size_t>(step, payload.size() - fragment.offset);
      Bytes datagram(wire::kFragmentHeaderBytes);
      wire::encode(fragment, datagram.data());
      const auto from = payload.begin() + fragment.offset;
      datagram.insert(datagram.end(), from, from + static_cast<std::ptrdiff_t>(size));
      all.push_back(std::move(datagram));
    }
    return all;
  }
  static std::vector<Bytes> fragments(std::uint32_t source, std::uint32_t psn) {
    return fragments(source, psn, bytes_of(psn));
  }

  void send(const std::vector<Bytes>& datagrams) {
    for (const Bytes& one : datagrams) {
      ASSERT_EQ(::send(raw_.get(), one.data(), one.size(), 0), static_cast<ssize_t>(one.size()));
    }
  }
  /// Sends all datagrams by one call with UDP segmentation, so that they arrive together. All
  /// datagrams except the last must have equal length.
  void send_together(const std::vector<Bytes>& datagrams) {
    Bytes all;
    for (const Bytes& one : datagrams) all.insert(all.end(), one.begin(), one.end());
    const int size = static_cast<int>(datagrams[0].size());
    ASSERT_EQ(::setsockopt(raw_.get(), SOL_UDP, UDP_SEGMENT, &size, sizeof size), 0);
    EXPECT_EQ(::send(raw_.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    const int off = 0;
    ASSERT_EQ(::setsockopt(raw_.get(), SOL_UDP, UDP_SEGMENT, &off, sizeof off), 0);
  }
  void send(const std::vector<Bytes>& datagrams, bool together) {
    together ? send_together(datagrams) : send(datagrams);
  }

  /// Receives chunks as the engine does; returns the number of chunks that became complete.
  std::uint32_t receive() {
    std::uint32_t fresh = 0;
    for (;;) {
      std::array<ReceivedChunk, 64> chunks;
      const std::size_t count = receiver_->poll(chunks);
      if (count == 0) return fresh;
      for (std::size_t i = 0; i < count; ++i) fresh += mark(chunks[i]) ? 1 : 0;
      receiver_->release();
    }
  }
  bool mark(const ReceivedChunk& chunk) {
    if (chunk.payload.size() != kChunk || place_.counted.contains(chunk.psn)) return false;
    if (!receiver_->copy_and_verify(chunk, place_.at(chunk.psn))) return false;
    place_.counted[chunk.psn] = place_.content(chunk.psn);
    EXPECT_EQ(place_.counted[chunk.psn], bytes_of(chunk.psn)) << "chunk " << chunk.psn;
    return true;
  }
  void expect_counted_unchanged() {
    for (const auto& [psn, bytes] : place_.counted) {
      ASSERT_EQ(place_.content(psn), bytes) << "chunk " << psn << " was overwritten";
    }
  }
  EndpointCounters counters() const {
    EndpointCounters sum;
    receiver_->add_to(sum);
    return sum;
  }

  Interface interface_;
  SocketAddress group_;
  Place place_;
  std::unique_ptr<IpMulticastQueuePair> receiver_;
  Descriptor raw_;
};

std::vector<Bytes> without(std::vector<Bytes> all, std::size_t at) {
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  return all;
}

std::vector<Bytes> joined(std::vector<Bytes> all, const std::vector<Bytes>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(Uc, PostedChunkRun_isPlaced_andEachMessageCompletesOnce) {
  const auto sender = open(1);
  Bytes data;
  for (std::uint32_t psn = 2; psn < 12; ++psn) {
    const Bytes chunk = bytes_of(psn);
    data.insert(data.end(), chunk.begin(), chunk.end());
  }
  auto posted =
      sender->post({.epoch = kEpoch, .first_psn = 2, .data = data, .chunk_bytes = kChunk});
  ASSERT_TRUE(posted.ok());
  EXPECT_EQ(*posted, 10u);
  EXPECT_EQ(receive(), 10u);
  EXPECT_TRUE(place_.untouched(1) && place_.untouched(12));
  EXPECT_EQ(counters().uc_messages_completed, 10u);
  EXPECT_EQ(counters().uc_segments_received, 60u);
  EXPECT_EQ(counters().uc_segments_direct, 60u) << "no fragment may pass through staging";
  EXPECT_EQ(counters().uc_messages_gapped, 0u);
  EXPECT_EQ(place_.began, 10u);
}

TEST_F(Uc, ChunkRunWithImpossibleChunkSizeIsRefused) {
  const Bytes data(2 * 65536);
  for (const std::uint32_t chunk_bytes : {0u, message_bytes_for_fragment(kFragment) + 1, 65536u}) {
    const auto posted = receiver_->post(
        {.epoch = kEpoch, .first_psn = 0, .data = data, .chunk_bytes = chunk_bytes});
    ASSERT_FALSE(posted.ok());
    EXPECT_EQ(posted.status().code(), Code::invalid_argument);
  }
  const auto longest = receiver_->post({.epoch = kEpoch,
                                        .first_psn = 0,
                                        .data = data,
                                        .chunk_bytes = message_bytes_for_fragment(kFragment)});
  EXPECT_TRUE(longest.ok());
}

TEST_F(Uc, MessagesOfFullFragments_shareOneSendCall) {
  const auto sender = open(1);
  constexpr std::uint32_t kFull = 4 * kFragment;
  const Bytes data = pattern(8 * kFull, 5);
  auto posted =
      sender->post({.epoch = kEpoch + 1, .first_psn = 0, .data = data, .chunk_bytes = kFull});
  ASSERT_TRUE(posted.ok());
  EXPECT_EQ(*posted, 8u);
  EndpointCounters sent;
  sender->add_to(sent);
  EXPECT_EQ(sent.multicast_datagrams_sent, 32u);
  EXPECT_EQ(sent.multicast_bytes_sent, data.size());
  EXPECT_EQ(sent.send_calls, 1u);
}

class UcBothWays : public Uc, public testing::WithParamInterface<bool> {
 protected:
  bool together() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Arrival, UcBothWays, testing::Bool(), [](const auto& arrival) {
  return arrival.param ? "AsOneMessage" : "OneByOne";
});

TEST_P(UcBothWays, MessageWithAllFragments_isAccepted) {
  send(fragments(1, 4), together());
  EXPECT_EQ(receive(), 1u);
  EXPECT_EQ(counters().uc_segments_direct, together() ? 6u : 0u);
}

TEST_P(UcBothWays, MessageWithAMissingFragment_isAcceptedOnlyWhenSentAgainComplete) {
  for (std::uint32_t psn = 0; psn < 6; ++psn) {
    send(without(fragments(1, psn), psn), together());
    send(fragments(2, psn + 10), together());
    EXPECT_EQ(receive(), 1u) << "the message of the other source must count";
    EXPECT_FALSE(place_.counted.contains(psn));
    send(fragments(1, psn), together());
    EXPECT_EQ(receive(), 1u);
    EXPECT_EQ(counters().uc_messages_gapped, psn + 1);
    expect_counted_unchanged();
  }
}

TEST_P(UcBothWays, NextMessageOfASource_discardsAnUnfinishedOne) {
  send(without(fragments(1, 0), 5), together());
  send(fragments(1, 1), together());
  EXPECT_EQ(receive(), 1u);
  EXPECT_EQ(counters().uc_messages_gapped, 1u);
  EXPECT_TRUE(place_.counted.contains(1));
}

TEST_P(UcBothWays, ReorderedFragments_discardTheMessage) {
  for (std::size_t at = 1; at + 2 < 6; ++at) {
    auto all = fragments(1, static_cast<std::uint32_t>(at));
    std::swap(all[at], all[at + 1]);
    send(all, together());
    EXPECT_EQ(receive(), 0u) << at;
  }
  EXPECT_EQ(counters().uc_messages_gapped, 3u);
  EXPECT_EQ(counters().rejected_integrity, 0u);
}

TEST_P(UcBothWays, RepeatedFragments_changeNothing) {
  auto all = fragments(1, 3);
  for (std::size_t at = 0; at < 10; at += 2) all.insert(all.begin() + at, all[at]);
  send(all, together());
  EXPECT_EQ(receive(), 1u);
  EXPECT_EQ(counters().uc_messages_completed, 1u);
  EXPECT_EQ(counters().uc_messages_gapped, 0u);
}

TEST_P(UcBothWays, AcceptedChunk_isNeverOverwritten) {
  send(fragments(1, 3), together());
  EXPECT_EQ(receive(), 1u);
  send(fragments(1, 3), together());
  send(fragments(1, 3, pattern(kChunk, 9), true), together());
  send(fragments(1, 3, pattern(kChunk, 9)), together());
  EXPECT_EQ(receive(), 0u);
  expect_counted_unchanged();
}

TEST_P(UcBothWays, DamagedMessage_isAcceptedOnlyWhenItArrivesAgainIntact) {
  for (std::uint32_t at = 0; at < 6; ++at) {
    auto all = fragments(1, at);
    all[at][wire::kFragmentHeaderBytes + at] ^= std::byte{0x10};
    send(all, together());
    EXPECT_EQ(receive(), 0u);
    EXPECT_EQ(counters().rejected_integrity, at + 1);
    send(fragments(1, at), together());
    EXPECT_EQ(receive(), 1u);
  }
}

TEST_P(UcBothWays, ForgedMessage_doesNotPreventAcceptanceOfTheGenuineMessage) {
  send(fragments(1, 3, pattern(kChunk, 9), true), together());
  EXPECT_EQ(receive(), 0u);
  EXPECT_EQ(counters().rejected_integrity, 1u);
  send(fragments(1, 3), together());
  EXPECT_EQ(receive(), 1u);
}

TEST_P(UcBothWays, DuplicateAlreadyInTheSocket_doesNotOverwriteTheChunk) {
  // All three messages have the same PSN. The second and the third one already wait in the socket
  // when the queue pair hands out the first one.
  send(fragments(1, 3), together());
  send(fragments(1, 3, pattern(kChunk, 9), true), together());
  send(fragments(1, 3), together());
  EXPECT_EQ(receive(), 1u);
  EXPECT_EQ(counters().rejected_integrity, 0u);
  EXPECT_EQ(counters().uc_messages_completed, 1u);
}

TEST_P(UcBothWays, ForgedFragmentInAMessage_discardsAtMostThatMessage) {
  const auto forged = fragments(1, 3, pattern(kChunk, 9), true);
  for (std::size_t at = 1; at < 6; ++at) {
    auto all = fragments(1, 3);
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), forged[at == 5 ? 4 : at]);
    send(all, together());
    send(fragments(1, static_cast<std::uint32_t>(at) + 10), together());
    EXPECT_EQ(receive(), 1u) << "the next message must count";
    EXPECT_FALSE(place_.counted.contains(3));
  }
  send(fragments(1, 3), together());
  EXPECT_EQ(receive(), 1u);
}

TEST_P(UcBothWays, FragmentWithWrongBytes_failsTheCheckOfTheTag) {
  auto all = fragments(1, 3);
  auto copy = all[2];
  copy[wire::kFragmentHeaderBytes] ^= std::byte{1};
  all.insert(all.begin() + 2, copy);
  send(all, together());
  EXPECT_EQ(receive(), 0u);
  EXPECT_EQ(counters().rejected_integrity, 1u);
  EXPECT_EQ(counters().uc_messages_completed, 1u)
      << "the message is complete, but its bytes are wrong";
}

TEST_P(UcBothWays, ConsecutiveMessages_allArrive) {
  // Each message has four equal fragments, so that one segmented send can carry several messages.
  std::vector<Bytes> all;
  for (std::uint32_t psn = 0; psn < 8; ++psn) {
    all = joined(all, fragments(1, psn, bytes_of(psn), false, kChunk / 4));
  }
  send(all, together());
  EXPECT_EQ(receive(), 8u);
  EXPECT_EQ(counters().uc_messages_gapped, 0u);
}

TEST_P(UcBothWays, MessageReceivedBehindAnIncompleteMessage_isStillAccepted) {
  const std::uint32_t step = kChunk / 4;
  for (std::uint32_t lost = 0; lost < 4; ++lost) {
    const std::uint32_t psn = 2 * lost;
    send(joined(without(fragments(1, psn, bytes_of(psn), false, step), lost),
                fragments(1, psn + 1, bytes_of(psn + 1), false, step)),
         together());
    EXPECT_EQ(receive(), 1u) << lost;
    EXPECT_TRUE(place_.counted.contains(psn + 1));
  }
  EXPECT_EQ(counters().uc_messages_gapped, 4u);
}

TEST_P(UcBothWays, UnexpectedMessages_areKeptInStaging) {
  place_.begun = false;
  send(fragments(1, 3), together());
  send(fragments(2, 4), together());
  for (const std::uint32_t psn : {3u, 4u}) {
    std::array<ReceivedChunk, 8> chunks;
    ASSERT_EQ(receiver_->poll(chunks), 1u) << "a staged message ends a poll";
    EXPECT_EQ(chunks[0].psn, psn);
    Bytes kept(kChunk);
    EXPECT_TRUE(receiver_->copy_and_verify(chunks[0], kept.data()));
    EXPECT_EQ(kept, bytes_of(psn));
    receiver_->release();
  }
  EXPECT_TRUE(place_.untouched(3) && place_.untouched(4));
}

TEST_F(Uc, MessageThatWasUnexpectedAtItsStart_staysInStaging) {
  place_.begun = false;
  const auto all = fragments(1, 3);
  send({all[0], all[1]});
  EXPECT_EQ(receive(), 0u);
  place_.begun = true;
  send({all[2], all[3], all[4], all[5]});
  std::array<ReceivedChunk, 8> chunks;
  ASSERT_EQ(receiver_->poll(chunks), 1u);
  EXPECT_NE(chunks[0].payload.data(), place_.at(3));
  EXPECT_TRUE(place_.untouched(3));
  EXPECT_TRUE(mark(chunks[0]));
}

TEST_F(Uc, UnexpectedMessageBeyondTheLimit_replacesTheOldestOne) {
  place_.begun = false;
  std::vector<std::vector<Bytes>> messages;
  for (std::uint32_t source = 1; source < kRanks; ++source) {
    messages.push_back(fragments(source, source));
  }
  for (const auto& all : messages) send({all[0], all[1], all[2]});
  EXPECT_EQ(receive(), 0u);
  std::set<std::uint32_t> whole;
  for (const auto& all : messages) send({all[3], all[4], all[5]});
  std::array<ReceivedChunk, 8> chunks;
  while (receiver_->poll(chunks) == 1) {
    Bytes kept(kChunk);
    EXPECT_TRUE(receiver_->copy_and_verify(chunks[0], kept.data()));
    EXPECT_EQ(kept, bytes_of(chunks[0].psn));
    whole.insert(chunks[0].psn);
  }
  EXPECT_EQ(whole.size(), 16u);
  EXPECT_FALSE(whole.contains(1) || whole.contains(2) || whole.contains(3));
}

TEST_F(Uc, StagingAreaTakenOverInTheSamePoll_isNotWrittenByItsFormerSource) {
  place_.begun = false;
  const auto former = fragments(1, 1);
  std::vector<Bytes> mixed{former[0]};
  // 16 further sources take over all areas; their longer messages reallocate the areas.
  for (std::uint32_t source = 2; source < 18; ++source)
    mixed.push_back(fragments(source, source, pattern(20 * kChunk, source))[0]);
  mixed.insert(mixed.end(), former.begin() + 1, former.end());
  send(mixed);
  EXPECT_EQ(receive(), 0u);
  EXPECT_EQ(counters().uc_messages_completed, 0u);
}

TEST_F(Uc, DestinationWithdrawnDuringAMessage_isNotWritten) {
  const auto all = fragments(1, 3);
  send({all[0], all[1]});
  EXPECT_EQ(receive(), 0u);
  place_.refused.insert(3);
  std::fill_n(place_.at(3), kChunk, kUntouched);
  send({all[2], all[3], all[4], all[5]});
  EXPECT_EQ(receive(), 0u);
  EXPECT_TRUE(place_.untouched(3));
  EXPECT_EQ(counters().uc_messages_gapped, 0u);
}

TEST_F(Uc, InterleavedMessagesOfSeveralSources_areAllAccepted) {
  std::vector<std::vector<Bytes>> messages;
  for (std::uint32_t source = 1; source < 9; ++source) {
    messages.push_back(fragments(source, source));
  }
  std::vector<Bytes> mixed;
  for (std::size_t at = 0; at < 6; ++at) {
    for (const auto& all : messages) mixed.push_back(all[at]);
  }
  send(mixed);
  EXPECT_EQ(receive(), 8u);
}

TEST_F(Uc, RepeatedMessage_isRejected_evenIfItsDestinationIsFree) {
  const auto all = fragments(1, 3);
  send(all);
  EXPECT_EQ(receive(), 1u);
  place_.counted.clear();
  send(fragments(1, 4));  // the receiver then forgets the first message
  send(all);
  EXPECT_EQ(receive(), 1u);
  EXPECT_EQ(counters().rejected_replayed, 1u);
  EXPECT_EQ(counters().rejected_integrity, 0u);
}

TEST_F(Uc, FragmentsFromAnotherHost_areRejected) {
  in_addr other{};
  other.s_addr = htonl(0x7f00'0002);  // 127.0.0.2, an address of this machine but not of a rank
  receiver_->set_members(
      std::make_shared<const std::vector<SocketAddress>>(kRanks, SocketAddress::v4(other, 0)));
  const auto all = fragments(1, 3);
  send(all);
  EXPECT_EQ(receive(), 0u);
  EXPECT_EQ(counters().rejected_foreign, all.size());
  EXPECT_TRUE(place_.untouched(3));
}

TEST_F(Uc, FragmentsWithFalseHeaders_areRejected) {
  const auto tell = [&](auto&& change) {
    wire::UcFragment fragment{.message = {.kind = wire::PacketKind::message,
                                          .communicator = kCommunicator,
                                          .source = rank_of(1),
                                          .epoch = kEpoch,
                                          .psn = 3},
                              .message_bytes = kChunk};
    change(fragment);
    Bytes datagram(wire::kFragmentHeaderBytes + kFragment);
    wire::encode(fragment, datagram.data());
    send({datagram});
  };
  tell([](wire::UcFragment& one) { one.offset = kChunk - kFragment + 1; });
  tell([](wire::UcFragment& one) { one.offset = 0xffff'ffff; });
  tell([](wire::UcFragment& one) { one.message_bytes = 0xffff'ffff; });
  tell([](wire::UcFragment& one) { one.message_bytes = kFragment - 1; });
  tell([](wire::UcFragment& one) { one.message.source = rank_of(kRanks); });
  tell([](wire::UcFragment& one) { one.message.communicator = kCommunicator + 1; });
  tell([](wire::UcFragment& one) { one.message.kind = wire::PacketKind::chunk; });
  send({Bytes(wire::kFragmentHeaderBytes - 1, std::byte{0xff})});
  EXPECT_EQ(receive(), 0u);
  EXPECT_EQ(counters().rejected_foreign, 8u);
  EXPECT_EQ(place_.began, 0u);
  EXPECT_EQ(place_.memory, Bytes(place_.memory.size(), kUntouched));
}

// Traffic arrives in any order and in any pieces. Accepted chunks must be right and stay unchanged,
// and no byte outside the destinations that the resolver chose may be written.
TEST_F(Uc, RandomTraffic_leavesAcceptedChunksUnchanged) {
  std::uint64_t counted = 0;
  for (std::uint64_t round = 0; round < 60; ++round) {
    place_.counted.clear();
    std::fill(place_.memory.begin(), place_.memory.end(), kUntouched);
    for (std::uint64_t step = 0; step < 40; ++step) {
      const std::uint64_t chance = draw(round, step);
      const auto psn = static_cast<std::uint32_t>(chance >> 8 & 7);
      const auto source = static_cast<std::uint32_t>(1 + psn % 3);
      const bool forged = (chance >> 12 & 3) == 0;
      auto all =
          forged ? fragments(source, psn, pattern(kChunk, chance), true) : fragments(source, psn);
      const std::size_t at = (chance >> 16) % all.size();
      switch (chance >> 24 & 7) {
        case 0:
          all = without(all, at);
          break;
        case 1:
          std::swap(all[at], all[(chance >> 32) % all.size()]);
          break;
        case 2:
          all[at][(chance >> 32) % all[at].size()] ^= std::byte{4};
          break;
        case 3:
          all.resize(at + 1);
          break;
        case 4:
          all = joined(all, fragments(source, psn ^ 1));
          break;
        default:
          break;
      }
      bool equal = true;
      for (std::size_t i = 0; i + 1 < all.size(); ++i) equal &= all[i].size() == all[0].size();
      send(all, equal && all.back().size() <= all[0].size() && (chance >> 40 & 1) == 0);
      if (chance >> 41 & 1) counted += receive();
      ASSERT_NO_FATAL_FAILURE(expect_counted_unchanged());
    }
    counted += receive();
    expect_counted_unchanged();
    for (std::uint32_t psn = 8; psn < kChunks; ++psn) ASSERT_TRUE(place_.untouched(psn)) << psn;
  }
  EXPECT_GT(counted, 300u) << "the test needs many valid messages";
}

TEST(MessageAssembly, FirstFragment_isAdmittedAgain_ifItsFirstCopyWasNotPlaced) {
  using enum wire::MessageAssembly::Verdict;
  wire::UcFragment fragment{
      .message = {.kind = wire::PacketKind::message, .psn = 1}, .bytes = 10, .message_bytes = 25};
  Bytes header(wire::kFragmentHeaderBytes);
  wire::encode(fragment, header.data());
  wire::MessageAssembly assembly;
  EXPECT_EQ(assembly.admit(header.data(), fragment), begins);
  EXPECT_EQ(assembly.admit(header.data(), fragment), continues);
  EXPECT_FALSE(assembly.advance(10));
  EXPECT_EQ(assembly.admit(header.data(), fragment), repeated);
  fragment.offset = 10;
  EXPECT_EQ(assembly.admit(header.data(), fragment), continues);
  EXPECT_FALSE(assembly.advance(10));
  fragment.offset = 20;
  fragment.bytes = 5;
  EXPECT_EQ(assembly.admit(header.data(), fragment), continues);
  EXPECT_TRUE(assembly.advance(5));
  EXPECT_EQ(assembly.admit(header.data(), fragment), dropped);
  fragment.offset = 0;
  EXPECT_EQ(assembly.admit(header.data(), fragment), begins)
      << "the assembly admits it; whether the chunk is wanted is decided elsewhere";
  EXPECT_EQ(assembly.gaps(), 0u);
}

}  // namespace
}  // namespace tutti::device::ip
