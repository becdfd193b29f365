// Two reliable channels and a lossy link between them, in virtual time, reproducible by seed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "device/rc/rc_channel.hpp"

namespace tutti::device::rc::test {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(std::mt19937_64& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline WorkRequest send_of(Bytes& bytes, std::uint64_t work_id = 0) {
  return {.opcode = Opcode::send, .work_id = work_id, .local = bytes};
}

inline WorkRequest one_sided(Opcode opcode, std::span<std::byte> local, MemoryKey key,
                             std::uint64_t offset = 0, std::uint64_t work_id = 0) {
  return {.opcode = opcode,
          .work_id = work_id,
          .local = local,
          .remote_key = key,
          .remote_offset = offset};
}

inline RcKind kind_of(const Bytes& bytes) { return static_cast<RcKind>(bytes[0]); }

/// The faults of a link, which are the same in both directions.
struct LinkOptions {
  double loss = 0;
  double duplication = 0;
  Nanoseconds latency{20'000};
  /// Largest additional delay of a datagram, which causes reordering.
  Nanoseconds jitter{0};
  double bytes_per_nanosecond = 1.25;  ///< rate of the link, 10 Gbit/s
};

/// The link faults for a seed. A few seeds cover loss alone, duplication alone and all faults
/// together.
inline LinkOptions faults_of(std::uint64_t seed, double loss) {
  LinkOptions options;
  options.loss = seed % 3 == 0 ? 0 : loss;
  options.duplication = seed % 2 == 0 ? 0.3 : 0;
  options.jitter = std::chrono::microseconds(seed % 4 == 0 ? 200 : 0);
  return options;
}

/// A completion that owns its payload.
struct Recorded {
  Completion completion;
  Bytes payload;
  Instant at;
};

/// One end of a link: channel, memory and completions so far.
struct End : CompletionSink {
  RcCounters counters;
  MemoryTable memory;
  std::unique_ptr<RcChannel> channel;
  std::vector<Recorded> completions;
  MessageMatcher* matcher = nullptr;
  Instant now{0};

  std::optional<MessagePlace> match(Rank source, std::span<const std::byte> first,
                                    std::size_t bytes) override {
    return matcher == nullptr ? std::nullopt : matcher->match(source, first, bytes);
  }
  void push(const Completion& completion) override {
    completions.push_back(
        {completion, {completion.payload.begin(), completion.payload.end()}, now});
    completions.back().completion.payload = {};
  }
  std::vector<Recorded> of(Opcode opcode) const {
    std::vector<Recorded> found;
    for (const Recorded& each : completions) {
      if (each.completion.opcode == opcode) found.push_back(each);
    }
    return found;
  }
};

class Pair {
 public:
  explicit Pair(std::uint64_t seed, LinkOptions options = {}, RcConfig config = {},
                const RcPosition& begin = {})
      : random_(seed), options_(options) {
    config.own_incarnation = 0xaaaa;
    config.peer_incarnation = 0xbbbb;
    ends_[0].channel =
        std::make_unique<RcChannel>(rank_of(1), config, ends_[0].memory, ends_[0].counters, begin);
    std::swap(config.own_incarnation, config.peer_incarnation);
    ends_[1].channel =
        std::make_unique<RcChannel>(rank_of(0), config, ends_[1].memory, ends_[1].counters, begin);
  }

  End& operator[](std::size_t end) { return ends_[end]; }
  RcChannel& channel(std::size_t end) { return *ends_[end].channel; }
  Instant now() const { return now_; }
  LinkOptions& options() { return options_; }
  std::mt19937_64& random() { return random_; }
  /// Called with the sender and the bytes of each datagram before the link carries it; false drops
  /// the datagram.
  std::function<bool(std::size_t from, const Bytes&)> filter;

  Status post(std::size_t end, const WorkRequest& request) {
    return channel(end).post(now_, request);
  }

  /// Runs until `done` returns true, but at most for `limit`. Returns false if the limit ended the
  /// run.
  bool run(const std::function<bool()>& done, Nanoseconds limit = Nanoseconds(60'000'000'000)) {
    const Instant end = now_ + limit;
    while (true) {
      transmit(0);
      transmit(1);
      if (done()) return true;
      Instant next = std::min(channel(0).next_deadline(), channel(1).next_deadline());
      if (!flying_.empty()) next = std::min(next, flying_.begin()->first);
      if (next > end) {
        now_ = end;
        return false;
      }
      now_ = std::max(now_, next);
      deliver();
      for (End& each : ends_) {
        each.now = now_;
        if (each.channel->next_deadline() <= now_) each.channel->on_timer(now_, each);
      }
    }
  }
  void run_for(Nanoseconds time) {
    run([] { return false; }, time);
  }
  bool run_until_quiet() {
    return run([this] { return channel(0).quiet() && channel(1).quiet(); });
  }
  /// Puts bytes on the wire to `end`, to arrive at once.
  void inject(std::size_t end, Bytes bytes) {
    flying_.emplace(now_, Flight{end, std::move(bytes)});
  }

 private:
  struct Flight {
    std::size_t to;
    Bytes bytes;
  };

  bool chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }
  void transmit(std::size_t from) {
    OutgoingFrame frame;
    while (channel(from).next_frame(now_, frame)) {
      const Bytes bytes = frame.bytes();
      if (filter && !filter(from, bytes)) continue;
      const auto wire = static_cast<std::int64_t>(static_cast<double>(bytes.size() + 66) /
                                                  options_.bytes_per_nanosecond);
      link_free_[from] = std::max(link_free_[from], now_) + Nanoseconds(wire);
      if (chance(options_.loss)) continue;
      const int copies = chance(options_.duplication) ? 2 : 1;
      for (int i = 0; i < copies; ++i) {
        Nanoseconds delay = options_.latency;
        if (options_.jitter.count() > 0) {
          delay += Nanoseconds(static_cast<std::int64_t>(
              random_() % static_cast<std::uint64_t>(options_.jitter.count())));
        }
        flying_.emplace(link_free_[from] + delay, Flight{1 - from, bytes});
      }
    }
  }
  void deliver() {
    while (!flying_.empty() && flying_.begin()->first <= now_) {
      const Flight flight = std::move(flying_.begin()->second);
      flying_.erase(flying_.begin());
      ends_[flight.to].now = now_;
      channel(flight.to).on_frame(now_, flight.bytes, ends_[flight.to]);
    }
  }

  std::mt19937_64 random_;
  LinkOptions options_;
  End ends_[2];
  Instant now_{1'000'000'000};
  Instant link_free_[2]{};
  std::multimap<Instant, Flight> flying_;
};

}  // namespace tutti::device::rc::test
