// Sends valid and mutated datagrams of a job through the receive paths of the `ip` device: each
// valid datagram is accepted once, no mutated one is accepted, and every other delivery is counted
// as refused.
//
// The linker replaces the system calls of sockets (--wrap). The test records the datagrams that the
// device sends, and chooses those that the device receives; the device's own code is unchanged.
#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "count_wanted.hpp"
#include "device/ip/multicast/group.hpp"
#include "device/ip/multicast/uc_queue_pair.hpp"
#include "device/ip/multicast/ud_queue_pair.hpp"
#include "device/rc/frame_datagrams.hpp"
#include "device/slots/datagram_slot_exchange.hpp"
#include "mutation.hpp"

namespace tutti::device {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint16_t kCommunicator = 3;
constexpr std::uint32_t kRanks = 3;
constexpr Rank kReceiver = rank_of(0);
constexpr Rank kSender = rank_of(1);
constexpr std::uint32_t kChunkBytes = 1200;
constexpr std::uint32_t kFragmentBytes = 400;
constexpr std::uint32_t kSlotSubgroup = 1;
/// A random delivery is unchanged with the probability 1 / kUnchangedOneOf. Each round then
/// delivers the valid datagrams that are still missing, which raises the unchanged share to about a
/// tenth.
constexpr std::uint64_t kUnchangedOneOf = 25;

/// Number of datagrams that the test delivers, over all receive paths (lanes).
std::uint64_t datagrams_wanted() {
  return test::count_wanted("TUTTI_TEST_MUTATED_DATAGRAMS", 200'000);
}

/// One message as recvmsg returns it: joined datagrams of `segment_bytes` bytes each.
struct Message {
  Bytes bytes;
  std::size_t segment_bytes = 0;  ///< bytes of each joined datagram; 0 for a single datagram
};

/// The network behind the replaced system calls.
struct Network {
  std::vector<Bytes> sent;
  std::deque<Message> waiting;
  ip::SocketAddress sender;
};
Network g_network;

void append(Bytes& bytes, const iovec& piece) {
  const auto* const from = static_cast<const std::byte*>(piece.iov_base);
  bytes.insert(bytes.end(), from, from + piece.iov_len);
}

/// Records the datagrams of a sent message. A control record (UDP_SEGMENT) gives the datagram size
/// into which the kernel would split the message.
ssize_t record(const msghdr& header) {
  Bytes bytes;
  for (std::size_t i = 0; i < header.msg_iovlen; ++i) append(bytes, header.msg_iov[i]);
  std::size_t step = bytes.size();
  if (const cmsghdr* const control = CMSG_FIRSTHDR(&header)) {
    std::uint16_t size = 0;
    std::memcpy(&size, CMSG_DATA(control), sizeof size);
    step = size;
  }
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    g_network.sent.emplace_back(
        from, from + static_cast<std::ptrdiff_t>(std::min(step, bytes.size() - at)));
  }
  return static_cast<ssize_t>(bytes.size());
}

/// Hands out the first waiting message as recvmsg does.
ssize_t hand_out(msghdr& header, int flags) {
  if (g_network.waiting.empty()) {
    errno = EAGAIN;
    return -1;
  }
  const Message& message = g_network.waiting.front();
  std::size_t given = 0;
  for (std::size_t i = 0; i < header.msg_iovlen && given < message.bytes.size(); ++i) {
    const std::size_t part = std::min(header.msg_iov[i].iov_len, message.bytes.size() - given);
    if (part > 0) std::memcpy(header.msg_iov[i].iov_base, message.bytes.data() + given, part);
    given += part;
  }
  if (header.msg_name != nullptr)
    std::memcpy(header.msg_name, g_network.sender.get(), g_network.sender.length());
  if (message.segment_bytes > 0 && header.msg_control != nullptr) {
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_UDP;
    control->cmsg_type = UDP_GRO;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    const int size = static_cast<int>(message.segment_bytes);
    std::memcpy(CMSG_DATA(control), &size, sizeof size);
    header.msg_controllen = CMSG_SPACE(sizeof(int));
  } else {
    header.msg_controllen = 0;
  }
  const auto length = static_cast<ssize_t>((flags & MSG_TRUNC) != 0 ? message.bytes.size() : given);
  if ((flags & MSG_PEEK) == 0) g_network.waiting.pop_front();
  return length;
}

}  // namespace
}  // namespace tutti::device

extern "C" {

ssize_t __wrap_sendmsg(int, const msghdr* header, int) { return tutti::device::record(*header); }

int __wrap_sendmmsg(int, mmsghdr* messages, unsigned count, int) {
  for (unsigned i = 0; i < count; ++i) tutti::device::record(messages[i].msg_hdr);
  return static_cast<int>(count);
}

ssize_t __wrap_recvmsg(int, msghdr* header, int flags) {
  return tutti::device::hand_out(*header, flags);
}

int __wrap_recvmmsg(int, mmsghdr* messages, unsigned count, int flags, timespec*) {
  unsigned given = 0;
  for (; given < count; ++given) {
    const ssize_t length = tutti::device::hand_out(messages[given].msg_hdr, flags);
    if (length < 0) break;
    messages[given].msg_len = static_cast<unsigned>(length);
  }
  return given > 0 ? static_cast<int>(given) : -1;
}

}  // extern "C"

namespace tutti::device {
namespace {

Bytes pattern(std::size_t size, Random& random) {
  Bytes bytes(size);
  for (std::size_t at = 0; at < size; at += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(&bytes[at], &word, std::min<std::size_t>(8, size - at));
  }
  return bytes;
}

wire::TagKeys keys() {
  Random random(1);
  return *wire::TagKeys::keyed(pattern(32, random), kCommunicator);
}

/// Counts of the datagrams of one receive path so far.
struct Tally {
  std::uint64_t recorded = 0;   ///< valid datagrams that were made
  std::uint64_t delivered = 0;  ///< datagrams handed to the receiver
  std::uint64_t changed = 0;    ///< changed datagrams among those delivered
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;  ///< refused datagrams, as the receiver's counters report them
};

/// One receive path with its sender.
class Lane {
 public:
  virtual ~Lane() = default;
  /// Delivers about `count` datagrams, of which about nine in ten are changed. Each recorded
  /// datagram is delivered at least once and accepted exactly once.
  virtual void round(Random& random, std::uint32_t count) = 0;
  virtual Tally tally() const = 0;
  virtual const char* name() const = 0;
};

/// A receive path on which each datagram is accepted by itself. A round delivers unchanged
/// datagrams of this round and of the round before, and changed datagrams of this round.
class DatagramLane : public Lane {
 public:
  void round(Random& random, std::uint32_t count) override {
    old_ = std::move(stock_);
    stock_ = fresh(random);
    tally_.recorded += stock_.size();
    std::vector<bool> came(stock_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t at = random.below(stock_.size());
      if (random.below(kUnchangedOneOf) == 0) {
        const bool again = !old_.empty() && random.below(4) == 0;
        give(again ? old_[random.below(old_.size())] : stock_[at]);
        if (!again) came[at] = true;
        continue;
      }
      const Bytes& other = stock_[random.below(stock_.size())];
      Bytes made = test::change(stock_[at], other, random);
      if (made == stock_[at] || made == other) continue;
      ++tally_.changed;
      give(std::move(made));
    }
    for (std::size_t at = 0; at < stock_.size(); ++at) {
      if (!came[at]) give(stock_[at]);
    }
    end_round();
  }

 protected:
  /// Makes the valid datagrams of one round, so few that the replay window holds all of them at the
  /// end of the round.
  virtual std::vector<Bytes> fresh(Random& random) = 0;
  virtual void deliver(Bytes datagram) = 0;
  virtual void end_round() = 0;

  void give(Bytes datagram) {
    ++tally_.delivered;
    deliver(std::move(datagram));
  }
  /// Counts an accepted datagram and checks it: a valid datagram of this round has the counter
  /// `counter`, and behind its header the bytes `body`.
  void accept(std::uint64_t counter, std::span<const std::byte> body) {
    ++tally_.accepted;
    const auto valid = std::find_if(stock_.begin(), stock_.end(), [&](const Bytes& one) {
      return wire::counter_of(one.data()) == counter;
    });
    ASSERT_NE(valid, stock_.end()) << name() << ": counter " << counter;
    EXPECT_TRUE(
        std::equal(body.begin(), body.end(), valid->begin() + wire::kHeaderBytes, valid->end()))
        << name() << ": counter " << counter;
  }

  Tally tally_;

 private:
  std::vector<Bytes> stock_, old_;
};

/// Accepts datagrams from any host, because those of a FrameLane have no sender address.
bool any_host(Rank) { return true; }

/// Frames and probes of the reliable connections.
class FrameLane final : public DatagramLane {
 public:
  FrameLane() {
    sender_.set_tag_keys(keys());
    receiver_.set_tag_keys(keys());
  }
  const char* name() const override { return "frames"; }
  Tally tally() const override {
    Tally tally = tally_;
    tally.refused =
        counters_.rejected_foreign + counters_.rejected_integrity + counters_.rejected_replayed;
    return tally;
  }

 private:
  std::vector<Bytes> fresh(Random& random) override {
    std::vector<Bytes> made;
    for (int i = 0; i < 256; ++i) {
      const Bytes data =
          pattern(random.below(4) == 0 ? random.below(64) : random.below(1400), random);
      Bytes datagram(rc::FrameDatagrams::kMaxHeadBytes);
      if (random.below(16) == 0) {
        sender_.encode_probe(kReceiver, data, datagram.data());
        datagram.resize(wire::kHeaderBytes);
        datagram.insert(datagram.end(), data.begin(), data.end());
      } else {
        rc::OutgoingFrame frame;
        rc::RcFrame header;
        header.kind = rc::RcKind::write;
        header.remaining = data.size();
        frame.header_bytes = rc::encode(header, frame.header.data());
        frame.payload = data;
        const auto head = sender_.encode(kReceiver, frame, datagram.data());
        datagram.resize(head.head_bytes);
        datagram.insert(datagram.end(), head.rest.begin(), head.rest.end());
      }
      made.push_back(std::move(datagram));
    }
    return made;
  }
  void deliver(Bytes datagram) override {
    const auto received = receiver_.decode(datagram, any_host, counters_);
    if (!received) return;
    EXPECT_EQ(received->source, kSender);
    accept(wire::counter_of(datagram.data()), received->frame);
  }
  void end_round() override {}

  rc::FrameDatagrams sender_{kSender, kRanks, kCommunicator};
  rc::FrameDatagrams receiver_{kReceiver, kRanks, kCommunicator};
  EndpointCounters counters_;
};

/// Opens a queue pair of one rank. Its sockets carry nothing, since the system calls are replaced.
std::unique_ptr<ip::IpMulticastQueuePair> open(Rank rank, ip::Multicast kind,
                                               std::uint32_t subgroup) {
  const auto interface = ip::choose_interface("", true, AF_INET);
  EXPECT_TRUE(interface.ok()) << interface.status().to_string();
  if (!interface) return nullptr;
  GroupSeed seed{};
  const pid_t process = ::getpid();
  std::memcpy(seed.data(), &process, sizeof process);
  const ip::GroupSettings settings{.rank = rank,
                                   .size = kRanks,
                                   .communicator = kCommunicator,
                                   .multicast = kind,
                                   .shared_host = true,
                                   .send_buffer_bytes = 1 << 20,
                                   .receive_buffer_bytes = 1 << 20};
  auto pair = ip::IpMulticastQueuePair::open(
      settings, *interface, ip::group_address(seed, subgroup, AF_INET, interface->index), subgroup);
  EXPECT_TRUE(pair.ok()) << pair.status().to_string();
  if (!pair) return nullptr;
  (*pair)->set_tag_keys(keys());
  (*pair)->set_members(
      std::make_shared<const std::vector<ip::SocketAddress>>(kRanks, interface->address));
  (*pair)->set_fragment_bytes(kFragmentBytes);
  g_network.sender = interface->address;
  return std::move(*pair);
}

std::uint64_t refused_by(const ip::IpMulticastQueuePair& pair) {
  EndpointCounters counters;
  pair.add_to(counters);
  return counters.rejected_foreign + counters.rejected_integrity + counters.rejected_replayed;
}

/// Multicast chunks, membership probes, and frames that go through the group.
class ChunkLane final : public DatagramLane {
 public:
  const char* name() const override { return "chunks"; }
  Tally tally() const override {
    Tally tally = tally_;
    tally.refused = refused_by(*receiver_);
    return tally;
  }

 private:
  std::vector<Bytes> fresh(Random& random) override {
    g_network.sent.clear();
    const Bytes data = pattern(kChunkBytes * 200 + random.below(kChunkBytes), random);
    EXPECT_TRUE(sender_->post({.epoch = ++epoch_, .data = data, .chunk_bytes = kChunkBytes}).ok());
    for (int i = 0; i < 16; ++i) {
      EXPECT_TRUE(sender_->post_probe(epoch_, static_cast<std::uint32_t>(random.below(1400))).ok());
    }
    frame_ = pattern(1 + random.below(1400), random);
    for (int i = 0; i < 16; ++i) sender_->post_frame(kReceiver, frame_);
    return std::exchange(g_network.sent, {});
  }
  void deliver(Bytes datagram) override {
    g_network.waiting.push_back({std::move(datagram), 0});
    if (g_network.waiting.size() == 64) take();
  }
  void end_round() override { take(); }
  void take() {
    std::array<ReceivedChunk, 16> chunks;
    while (true) {
      const std::size_t count = receiver_->poll(chunks);
      for (const ReceivedChunk& one : std::span(chunks).first(count)) {
        place_.resize(one.payload.size());
        if (receiver_->copy_and_verify(one, place_.data()))
          accept(wire::counter_of(one.header), place_);
      }
      if (count > 0) receiver_->release();
      if (count == 0 && g_network.waiting.empty()) break;
    }
    tally_.accepted += receiver_->take_probes().size();
    for (const ip::FrameArrival& one : receiver_->frames().take()) {
      EXPECT_EQ(one.source, kSender);
      EXPECT_EQ(one.frame, frame_);
      ++tally_.accepted;
    }
  }

  std::unique_ptr<ip::IpMulticastQueuePair> sender_ = open(kSender, ip::Multicast::ud, 0);
  std::unique_ptr<ip::IpMulticastQueuePair> receiver_ = open(kReceiver, ip::Multicast::ud, 0);
  std::uint32_t epoch_ = 0;
  Bytes place_, frame_;
};

/// Mutates entries of slot exchanges. Each round runs one exchange, which must complete with the
/// right block.
class SlotLane final : public DatagramLane {
 public:
  const char* name() const override { return "slots"; }
  Tally tally() const override {
    Tally tally = tally_;
    tally.refused = refused_by(*pairs_[1]) + receiver_.rejected();
    // A slot exchange does not show which datagrams it accepts, but it completes only once it has
    // accepted all recorded ones.
    tally.accepted = completed_;
    return tally;
  }

 private:
  std::vector<Bytes> fresh(Random& random) override {
    g_network.sent.clear();
    block_ = pattern(1 + random.below(sender_.max_block_bytes()), random);
    const ExchangeHeader header{.flow = ExchangeHeader::Flow::root_to_all,
                                .purpose = 1,
                                .root = kSender,
                                .block_bytes = block_.size()};
    EXPECT_TRUE(sender_.enter(header, block_).ok());
    EXPECT_TRUE(receiver_.enter(header, {}).ok());
    EXPECT_TRUE(sender_.complete());
    sender_.leave();
    pieces_ = g_network.sent.size();
    return std::exchange(g_network.sent, {});
  }
  void deliver(Bytes datagram) override {
    g_network.waiting.push_back({std::move(datagram), 0});
    if (g_network.waiting.size() == 64) take();
  }
  void take() {
    while (!g_network.waiting.empty()) {
      for (const SlotEntry& entry : receiver_.collect()) {
        EXPECT_EQ(entry.from, kSender);
        EXPECT_TRUE(
            std::equal(entry.block.begin(), entry.block.end(), block_.begin(), block_.end()));
        completed_ += pieces_;
      }
    }
    (void)receiver_.collect();  // takes datagrams that the last poll left
    EXPECT_TRUE(pairs_[1]->frames().take().empty());
  }
  void end_round() override {
    take();
    EXPECT_TRUE(receiver_.complete());
    receiver_.leave();
    for (std::uint32_t r = 0; r < kRanks; ++r) sender_.on_acked(rank_of(r), receiver_.acked());
  }

  std::array<std::unique_ptr<ip::IpMulticastQueuePair>, 2> pairs_{
      open(kSender, ip::Multicast::ud, kSlotSubgroup),
      open(kReceiver, ip::Multicast::ud, kSlotSubgroup)};
  slots::DatagramSlotExchange sender_{kSender, kRanks, *pairs_[0], kChunkBytes};
  slots::DatagramSlotExchange receiver_{kReceiver, kRanks, *pairs_[1], kChunkBytes};
  Bytes block_;
  std::uint64_t pieces_ = 0;
  std::uint64_t completed_ = 0;
};

/// UC messages of one or more fragments; a message is accepted as a whole or not at all. A changed
/// message has a fragment that is changed, missing, out of order or from another message.
class FragmentLane final : public Lane, private PlacementResolver {
 public:
  FragmentLane() { receiver_->set_resolver(this); }
  const char* name() const override { return "fragments"; }
  Tally tally() const override {
    Tally tally = tally_;
    EndpointCounters counters;
    receiver_->add_to(counters);
    // A fragment counts as refused if it was received but not accepted, or if its datagram was
    // dropped before it counted as received. `refused_by` also counts refused messages; they are
    // subtracted, because their fragments are counted already.
    tally.refused = counters.uc_segments_received - tally_.accepted + refused_by(*receiver_) -
                    refused_messages_;
    return tally;
  }

  void round(Random& random, std::uint32_t count) override {
    old_ = std::move(stock_);
    stock_ = fresh(random);
    for (const auto& message : stock_) tally_.recorded += message.size();
    const std::uint64_t until = tally_.delivered + count;
    while (tally_.delivered < until) {
      const std::size_t at = random.below(stock_.size());
      if (random.below(kUnchangedOneOf) == 0) {
        const bool again = !old_.empty() && random.below(4) == 0;
        give(again ? old_[random.below(old_.size())] : stock_[at], random);
        continue;
      }
      give(changed(stock_[at], stock_[random.below(stock_.size())], random), random);
    }
    take();
    for (std::size_t at = 0; at < stock_.size(); ++at) {
      if (accepted(stock_[at])) continue;
      // Earlier forged fragments with the header of this message prevent its completion. The
      // receiver forgets them when another message begins, so the test first delivers another
      // message.
      give(stock_[(at + 1) % stock_.size()], random);
      give(stock_[at], random);
      take();
      EXPECT_TRUE(accepted(stock_[at])) << "counter " << wire::counter_of(stock_[at][0].data());
    }
  }

 private:
  using Fragments = std::vector<Bytes>;

  std::vector<Fragments> fresh(Random& random) {
    std::vector<Fragments> made;
    accepted_.clear();
    for (int i = 0; i < 48; ++i) {
      g_network.sent.clear();
      const Bytes data = pattern(1 + random.below(6 * kFragmentBytes), random);
      EXPECT_TRUE(sender_
                      ->post({.epoch = ++epoch_,
                              .first_psn = static_cast<std::uint32_t>(i),
                              .data = data,
                              .chunk_bytes = static_cast<std::uint32_t>(data.size())})
                      .ok());
      made.push_back(std::exchange(g_network.sent, {}));
    }
    return made;
  }

  Fragments changed(const Fragments& one, const Fragments& other, Random& random) {
    Fragments made = one;
    const std::size_t at = random.below(made.size());
    const std::size_t there = std::min(at, other.size() - 1);
    const std::uint64_t kind = made.size() == 1 ? 0 : random.below(8);
    if (kind == 1) {
      made.erase(made.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (kind == 2) {
      std::swap(made[at], made[random.below(made.size())]);
    } else if (kind == 3) {
      made[at] = other[there];
    } else {
      made[at] = test::change(one[at], other[there], random);
    }
    if (made != one && made != other) tally_.changed += made.size();
    return made;
  }

  /// Delivers fragments one by one or, if their sizes allow it, joined as the kernel joins them.
  void give(const Fragments& fragments, Random& random) {
    const std::size_t step = fragments.front().size();
    const bool alike = fragments.size() > 1 && step > 0 &&
                       std::all_of(fragments.begin(), fragments.end() - 1,
                                   [&](const Bytes& one) { return one.size() == step; }) &&
                       fragments.back().size() <= step && !fragments.back().empty();
    tally_.delivered += fragments.size();
    if (alike && random.below(2) == 0) {
      Message message{.bytes = {}, .segment_bytes = step};
      for (const Bytes& one : fragments)
        message.bytes.insert(message.bytes.end(), one.begin(), one.end());
      g_network.waiting.push_back(std::move(message));
    } else {
      for (const Bytes& one : fragments) g_network.waiting.push_back({one, 0});
    }
    if (g_network.waiting.size() >= 64) take();
  }

  void take() {
    std::array<ReceivedChunk, 16> chunks;
    while (true) {
      const std::size_t count = receiver_->poll(chunks);
      for (const ReceivedChunk& one : std::span(chunks).first(count)) check(one);
      if (count > 0) receiver_->release();
      if (count == 0 && g_network.waiting.empty()) break;
    }
  }

  void check(const ReceivedChunk& one) {
    const std::uint64_t counter = wire::counter_of(one.header);
    if (!receiver_->copy_and_verify(one, nullptr)) {
      ++refused_messages_;
      return;
    }
    const auto valid = std::find_if(stock_.begin(), stock_.end(), [&](const Fragments& message) {
      return wire::counter_of(message.front().data()) == counter;
    });
    ASSERT_NE(valid, stock_.end()) << "counter " << counter;
    Bytes expected;
    for (const Bytes& fragment : *valid) {
      expected.insert(expected.end(), fragment.begin() + wire::kFragmentHeaderBytes,
                      fragment.end());
    }
    EXPECT_TRUE(
        std::equal(one.payload.begin(), one.payload.end(), expected.begin(), expected.end()));
    EXPECT_FALSE(accepted(*valid)) << "counter " << counter << " a second time";
    accepted_[counter] = true;
    tally_.accepted += valid->size();
  }

  bool accepted(const Fragments& message) const {
    return accepted_.contains(wire::counter_of(message.front().data()));
  }

  /// Messages with an odd PSN go to staging. Each message with an even PSN gets a buffer of its
  /// own, which no other message of its batch shares.
  Placement landing(const MessageHead& message, bool begins) override {
    if (message.psn % 2 == 1) return {Placement::Where::staging};
    if (begins) next_place_ = (next_place_ + 1) % places_.size();
    Bytes& place = places_[next_place_];
    place.resize(std::max<std::size_t>(place.size(), message.bytes));
    return {Placement::Where::buffer, place.data()};
  }

  std::unique_ptr<ip::IpMulticastQueuePair> sender_ = open(kSender, ip::Multicast::uc, 0);
  std::unique_ptr<ip::IpMulticastQueuePair> receiver_ = open(kReceiver, ip::Multicast::uc, 0);
  std::vector<Fragments> stock_, old_;
  std::map<std::uint64_t, bool> accepted_;
  std::array<Bytes, 64> places_;
  std::size_t next_place_ = 0;
  std::uint32_t epoch_ = 0;
  std::uint64_t refused_messages_ = 0;
  Tally tally_;
};

TEST(MutatedDatagrams, ChangedDatagrams_areRefusedAndCounted_andValidOnesAreAcceptedOnce) {
  constexpr std::uint32_t kRoundDatagrams = 5000;
  std::vector<std::unique_ptr<Lane>> lanes;
  lanes.push_back(std::make_unique<FrameLane>());
  lanes.push_back(std::make_unique<ChunkLane>());
  lanes.push_back(std::make_unique<SlotLane>());
  lanes.push_back(std::make_unique<FragmentLane>());
  Random random(7);
  for (std::uint64_t done = 0; done < datagrams_wanted();) {
    for (const auto& lane : lanes) {
      const std::uint64_t before = lane->tally().delivered;
      lane->round(random, kRoundDatagrams);
      done += lane->tally().delivered - before;
    }
    ASSERT_FALSE(HasFailure());
  }
  for (const auto& lane : lanes) {
    const Tally tally = lane->tally();
    EXPECT_EQ(tally.accepted, tally.recorded) << lane->name();
    EXPECT_EQ(tally.refused, tally.delivered - tally.recorded) << lane->name();
    EXPECT_GE(tally.changed, tally.delivered / 10 * 9) << lane->name();
    std::printf("[ figures  ] %s: %llu delivered, %llu changed, %llu accepted, %llu refused\n",
                lane->name(), static_cast<unsigned long long>(tally.delivered),
                static_cast<unsigned long long>(tally.changed),
                static_cast<unsigned long long>(tally.accepted),
                static_cast<unsigned long long>(tally.refused));
  }
}

}  // namespace
}  // namespace tutti::device
