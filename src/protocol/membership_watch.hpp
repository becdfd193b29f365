// Watches the membership of this rank in its multicast groups while a job runs. A switch may drop a
// membership, for example because no querier confirms it. Then no chunk arrives by multicast, and
// this rank fetches every chunk by unicast: the results are right, but the calls are slow.
//
// A rank suspects that its membership is lost if several blocks of one source came without a single
// multicast chunk. It then joins its groups again. If that does not help, the network drops
// multicast.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::protocol {

class MembershipWatch {
 public:
  enum class Verdict : std::uint8_t {
    none,
    rejoin,            ///< join the groups again
    rejoin_and_report  ///< join the groups again, and report that an earlier rejoin did not help
  };

  /// This rank joins its groups again if no chunk of one sender came by multicast in at least
  /// kMissedCollectives consecutive collectives, in which that sender sent at least kMissedChunks
  /// chunks in total. Random loss does not reach both thresholds, even at a loss of 30 %.
  static constexpr std::uint32_t kMissedCollectives = 3;
  static constexpr std::uint32_t kMissedChunks = 16;
  /// Time within which a switch forwards to a rank that has joined a group, if it forwards at all.
  static constexpr Nanoseconds kJoinTime{5'000'000'000};
  /// Longest time between two attempts to join again while the network drops multicast.
  static constexpr Nanoseconds kMaxInterval{320'000'000'000};

  explicit MembershipWatch(std::uint32_t size) : size_(size) {}

  /// True if multicast may be lost. Either no chunk of some sender came by multicast in the
  /// sender's last collective, or this rank has rejoined because of a sender and has received no
  /// multicast chunk of this sender since. While false, calls of `heard` have no effect.
  bool suspects() const { return suspected_ > 0 || state_ != State::member; }
  /// True if a chunk of this source by multicast would be news, so that `heard` has an effect.
  bool suspects(Rank source) const {
    return (state_ != State::member && source == suspect_) ||
           (index(source) < missed_.size() && missed_[index(source)].collectives > 0);
  }
  /// True if multicast is probably lost. Either no chunk of some sender came by multicast in
  /// kMissedCollectives consecutive collectives, or this rank has rejoined because of a sender and
  /// has received no multicast chunk of this sender since.
  bool lost() const { return doubted_ > 0 || state_ != State::member; }
  /// Records that a chunk of this source came by multicast.
  void heard(Rank source) {
    if (source == suspect_) {
      state_ = State::member;
      suspect_ = kNoRank;
      interval_ = kJoinTime;
    }
    if (index(source) >= missed_.size() || missed_[index(source)].collectives == 0) return;
    if (missed_[index(source)].collectives >= kMissedCollectives) --doubted_;
    missed_[index(source)] = {};
    --suspected_;
  }
  /// Records a collective in which none of `chunks` chunks of this source came by multicast.
  void missed(Rank source, std::uint32_t chunks) {
    if (index(source) >= size_ || chunks == 0) return;
    if (missed_.empty()) missed_.resize(size_);
    Missed& one = missed_[index(source)];
    if (one.collectives++ == 0) ++suspected_;
    if (one.collectives == kMissedCollectives) ++doubted_;
    one.chunks += std::min(chunks, kMissedChunks);
  }
  /// Decides whether to join the groups again. The caller first records all sources of a collective
  /// with `heard` and `missed`.
  Verdict judge(Instant now) {
    if (suspected_ == 0 || now < next_rejoin_) return Verdict::none;
    const Rank source = ripe();
    if (source == kNoRank) return Verdict::none;
    suspect_ = source;
    std::fill(missed_.begin(), missed_.end(), Missed());
    suspected_ = doubted_ = 0;
    next_rejoin_ = now + interval_;
    if (state_ == State::member) {
      state_ = State::rejoined;
      return Verdict::rejoin;
    }
    interval_ = std::min(2 * interval_, kMaxInterval);
    state_ = State::reported;
    if (said_) return Verdict::rejoin;
    said_ = true;
    return Verdict::rejoin_and_report;
  }
  /// The sender whose missing multicast caused the last rejoin. kNoRank if there was no rejoin, or
  /// once a chunk of this sender has come by multicast.
  Rank suspect() const { return suspect_; }

 private:
  enum class State : std::uint8_t {
    member,    ///< no sign that the membership is lost
    rejoined,  ///< groups joined again, but no multicast chunk of the suspect has arrived since
    reported,  ///< an earlier rejoin did not help, and this was reported
  };
  /// The present series of collectives in which no chunk of one sender came by multicast: the
  /// number of collectives, and the number of chunks that this sender sent in them.
  struct Missed {
    std::uint32_t collectives = 0;
    std::uint32_t chunks = 0;
  };

  /// The first source that has reached both thresholds, kMissedCollectives and kMissedChunks;
  /// kNoRank: none.
  Rank ripe() const {
    const auto found = std::find_if(missed_.begin(), missed_.end(), [](const Missed& one) {
      return one.collectives >= kMissedCollectives && one.chunks >= kMissedChunks;
    });
    if (found == missed_.end()) return kNoRank;
    return rank_of(static_cast<std::uint32_t>(found - missed_.begin()));
  }

  std::uint32_t size_;
  State state_ = State::member;
  bool said_ = false;  ///< true: this rank has reported once and reports no more
  Rank suspect_ = kNoRank;
  /// Number of sources of which no chunk came by multicast in their last collective.
  std::uint32_t suspected_ = 0;
  /// Number of sources from which no chunk came by multicast in kMissedCollectives or more
  /// collectives in a row.
  std::uint32_t doubted_ = 0;
  std::vector<Missed> missed_;  ///< counts by rank; empty until the first call of `missed`
  Instant next_rejoin_{};
  Nanoseconds interval_ = kJoinTime;
};

}  // namespace tutti::protocol
