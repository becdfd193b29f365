// A network of trigger units in memory. Packets arrive in an order drawn from a seed. A packet that
// a node pushes back stays in the network and is delivered again later.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "trigger/pulsed_collective.hpp"
#include "trigger/pulsed_credits.hpp"
#include "trigger/unit_bank.hpp"

namespace tutti::trigger {

class UnitNetwork {
 public:
  struct Settings {
    std::uint32_t ranks = 2;
    UnitBank::Settings bank;
    PulsedCredits::Settings credits;
  };

  UnitNetwork(const Settings& settings, std::uint64_t seed) : random_(seed) {
    for (std::uint32_t rank = 0; rank < settings.ranks; ++rank) {
      UnitBank::Settings bank = settings.bank;
      // Node numbers differ from ranks, so that code which confuses the two fails.
      nodes_.push_back(static_cast<NodeId>(1000 + 7 * rank));
      bank.node = nodes_.back();
      auto credits = PulsedCredits::create(settings.credits);
      EXPECT_TRUE(credits.ok()) << credits.status().to_string();
      hosts_.push_back(std::make_unique<Host>(bank, std::move(*credits)));
    }
  }

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(nodes_.size()); }
  std::span<const NodeId> nodes() const { return nodes_; }
  UnitBank& bank(std::uint32_t rank) { return hosts_[rank]->bank; }
  PulsedCredits& credits(std::uint32_t rank) { return hosts_[rank]->credits; }
  Random& random() { return random_; }
  void set_now(Instant now) { now_ = now; }
  void reseed(std::uint64_t seed) { random_ = Random(seed); }

  /// Begins a rank's part of a call. The caller must have registered the memory at the call's
  /// addresses.
  void start(std::uint32_t rank, const CollectiveCall& call, std::uint32_t segment_elements) {
    Host& host = *hosts_[rank];
    auto made = PulsedCollective::create(host.bank, host.credits, call, segment_elements);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    host.calls.push_back(std::make_unique<PulsedCollective>(std::move(*made)));
  }
  PulsedCollective* call(std::uint32_t rank, JobId job) {
    for (const auto& call : hosts_[rank]->calls) {
      if (call->job() == job) return call.get();
    }
    return nullptr;
  }
  /// Closes all calls, and expects that none of them left a packet in a buffer or in the network.
  void finish() {
    for (const auto& host : hosts_) {
      for (const auto& call : host->calls) {
        EXPECT_TRUE(call->close());
        EXPECT_EQ(host->bank.close_job(call->job()), 0u)
            << "the job left packets that no descriptor named";
      }
      host->calls.clear();
      EXPECT_EQ(host->bank.directory().jobs(), 0u);
    }
    EXPECT_TRUE(packets_.empty());
  }

  /// Takes random steps until every call has ended; false if no step is possible any more.
  bool run() {
    std::uint32_t idle_rounds = 0;
    while (!all_done()) {
      // A round tries a random part of the possible steps. After a few rounds without an effect, a
      // round tries all steps.
      const bool thorough = idle_rounds >= 4;
      const bool moved = round(thorough);
      if (!moved && thorough) return false;
      idle_rounds = moved ? 0 : idle_rounds + 1;
    }
    for (int i = 0; i < 8 && round(true); ++i) {
    }
    return true;
  }
  /// Takes one round of steps; returns whether anything has changed.
  bool round(bool thorough) {
    bool moved = false;
    for (std::uint32_t i = 0; i < ranks(); ++i) {
      if (thorough || random_.below(4) != 0) moved = host_turn(*hosts_[i]) || moved;
      if (thorough || random_.below(4) != 0) moved = hosts_[i]->bank.poll(now_) != 0 || moved;
      if (thorough || random_.below(4) != 0) moved = collect(hosts_[i]->bank, thorough) || moved;
    }
    return deliver_some(thorough) || moved;
  }

  std::uint64_t pushed_back() const {
    std::uint64_t count = 0;
    for (const auto& host : hosts_) count += host->bank.counters().pushed_back;
    return count;
  }
  std::uint64_t stalled() const {
    std::uint64_t count = 0;
    for (const auto& host : hosts_) {
      for (std::uint32_t u = 0; u < host->bank.units(); ++u) {
        count += host->bank.unit(u).counters().stalled;
      }
    }
    return count;
  }
  /// Expects that no hash buffer exceeded its capacity: one packet per slot, and one per sequence
  /// that its unit can run at the same time. Expects that no host used more credits than it has.
  void expect_no_overrun() const {
    for (const auto& host : hosts_) {
      for (std::uint32_t u = 0; u < host->bank.units(); ++u) {
        const HashBuffer& buffer = host->bank.unit(u).buffer();
        EXPECT_LE(buffer.counters().occupied_high_water,
                  buffer.slots() + host->bank.unit(u).places());
        EXPECT_LE(buffer.counters().reserve_high_water, buffer.slots() - buffer.home_slots());
      }
      EXPECT_LE(host->credits.counters().in_flight_high_water, host->credits.credits());
    }
  }
  std::vector<Completion>& stray_completions() { return stray_; }

 private:
  struct Host {
    Host(const UnitBank::Settings& settings, PulsedCredits made)
        : bank(settings), credits(std::move(made)) {}
    UnitBank bank;
    PulsedCredits credits;
    std::vector<std::unique_ptr<PulsedCollective>> calls;
  };
  struct Packet {
    PacketHeader header;
    std::vector<std::byte> payload;
  };

  bool all_done() const {
    for (const auto& host : hosts_) {
      for (const auto& call : host->calls) {
        if (!call->done()) return false;
      }
    }
    return true;
  }
  bool host_turn(Host& host) {
    bool moved = false;
    while (!host.bank.completions().empty()) {
      const Completion completion = host.bank.completions().front();
      host.bank.completions().pop();
      bool taken = false;
      for (const auto& call : host.calls) taken = taken || call->on_completion(completion);
      if (!taken) stray_.push_back(completion);
      moved = true;
    }
    for (const auto& call : host.calls) moved = call->poll(now_) || moved;
    return moved;
  }
  /// Moves packets from the outboxes of a node's trigger units into the network, which copies their
  /// payload as a wire would.
  bool collect(UnitBank& bank, bool all) {
    bool moved = false;
    for (std::uint64_t some = all ? ~std::uint64_t{0} : 1 + random_.below(8); some != 0; --some) {
      PacketOutbox* outbox = bank.next_outbox();
      if (outbox == nullptr) break;
      const OutgoingPacket& packet = outbox->front();
      packets_.push_back({packet.header, {packet.payload.begin(), packet.payload.end()}});
      outbox->pop();
      moved = true;
    }
    return moved;
  }
  /// Offers packets in random order to their nodes; accepted packets leave the network.
  bool deliver_some(bool all) {
    bool moved = false;
    for (std::size_t i = packets_.size(); i > 1; --i) {
      std::swap(packets_[i - 1], packets_[random_.below(i)]);
    }
    const std::size_t tries = all ? packets_.size() : random_.below(packets_.size() + 1);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < packets_.size(); ++i) {
      const bool gone = i < tries && deliver(packets_[i]);
      moved = moved || gone;
      if (gone) continue;
      if (kept != i) packets_[kept] = std::move(packets_[i]);
      ++kept;
    }
    packets_.resize(kept);
    return moved;
  }
  bool deliver(const Packet& packet) {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      if (nodes_[rank] != packet.header.destination) continue;
      // The header is encoded into words and decoded again, as on a wire.
      std::array<std::uint64_t, kMaxPacketHeaderWords> words{};
      const std::size_t count = encode(packet.header, words);
      const auto header = decode_packet_header(std::span(words).first(count));
      EXPECT_EQ(header, packet.header);
      const auto delivered = hosts_[rank]->bank.deliver(*header, packet.payload);
      EXPECT_NE(delivered, UnitBank::Delivered::refused) << to_string(header->key);
      return delivered != UnitBank::Delivered::pushed_back;
    }
    ADD_FAILURE() << "a packet to an unknown node: " << to_string(packet.header.key);
    return true;
  }

  Random random_;
  Instant now_;
  std::vector<NodeId> nodes_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Packet> packets_;
  std::vector<Completion> stray_;
};

}  // namespace tutti::trigger
