// The cause of a communicator's failure, and the ranks that get a failure notice. The first failure
// is the cause; later ones are its consequences and are ignored.
//
// A failure has two stages. It is noted when this rank finds it or learns of it: the cause is
// stored, but no collective has ended yet. It is settled at the end of this or a later `poll` of
// the context, once no receive worker uses the callers' buffers: every collective ends, and no
// further one begins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "device/device.hpp"
#include "engine/core/operation.hpp"
#include "engine/peers/rank_names.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class FailureCoordinator {
 public:
  /// `names` must outlive this object.
  FailureCoordinator(Rank me, std::uint32_t size, const RankNames& names)
      : me_(me), size_(size), names_(names) {}

  /// Stores a failure of this rank as the cause, unless another failure came first. The failure
  /// then ends every collective (see the top of this file), and the other ranks learn that this
  /// rank has given up.
  void fail(const Status& status);
  /// Like `fail` above, but also sends the messages `reasons`, each before the failure notice to
  /// the same rank.
  void fail(const Status& status, protocol::Outbox reasons);
  /// Handles work that a device refused to take. The refusal is a failure unless the queue was
  /// full (the caller tries again) or the peer is lost (a completion reports the loss).
  void on_refusal(const Status& refusal);
  /// Ends every collective of the communicator, at this rank and at its peers. The error at the
  /// peers names this rank.
  void abort(const std::string& reason);
  /// Ends every collective like `abort`, but the error names the job ranks `culprits`: the rank at
  /// fault, or two ranks of which one is at fault. The culprits need not be in this communicator.
  /// If `culprits` has neither one nor two ranks, the error names this rank.
  void abort_for(std::span<const Rank> culprits, const std::string& reason);
  /// Ends every collective with `cause`, at this rank and at its peers. The error at the peers
  /// names the ranks at fault if `cause` names one or two, and no rank if `cause` is the loss of a
  /// peer that is no rank (Code::peer_failed without ranks). Otherwise it names this rank.
  void fail_because(const Status& cause);
  /// Ends every collective, because `absent` has closed its communicator without taking part in a
  /// collective of this rank.
  void fail_without(Rank absent);
  /// Ends every collective, because `source` sent a chunk that this rank cannot use and that
  /// `source` will not send again.
  void fail_without_slow_path(Rank source);
  /// Ends every collective, because `source` sent an intact chunk of `bytes` bytes that does not
  /// fit the layout of this rank's call.
  void fail_with_other_sizes(Rank source, std::size_t bytes);
  /// An error for a call of this rank that does not fit the call of `peer`. Either rank may be
  /// wrong, so the error names both as ranks at fault.
  template <typename... Args>
  Status misfit(Rank peer, Code code, fmt::format_string<Args...> format, Args&&... args) const {
    return failure_of(names_.in_job({peer, me_}), code, format, std::forward<Args>(args)...);
  }
  /// Handles a device's report that a peer is lost, or that only short packets reach the peer.
  void on_peer_failure(const device::Completion& completion);
  /// Handles the failure notice (MessageKind::failed) of rank `from`.
  void on_notice(Rank from, const protocol::Message& notice);

  /// True as soon as a failure is stored, before and after it takes effect.
  bool noted() const { return !noted_.ok(); }
  /// The failure once `settle` has made it take effect; until then ok. Any thread may call this
  /// function and `settled`.
  const Status& status() const;
  bool settled() const { return over_.load(std::memory_order_acquire); }
  /// The rank of this communicator that is lost or has given up; kNoRank: no failure.
  Rank lost() const { return lost_; }

  /// Makes the stored failure take effect: from now on `status` returns it. Writes the messages for
  /// the peers to `notices`: first the `reasons` of `fail`, then the failure notices. Returns false
  /// if there are no messages.
  bool settle(protocol::Outbox& notices);
  /// The error with which `operation` ends because of the failure.
  Status status_of(Instant now, const Operation& operation) const;
  /// Adds a function that is called with the error when a failure ends every collective, before any
  /// collective completes.
  void on_failure(std::function<void(const Status&)> hook) { hooks_.push_back(std::move(hook)); }
  /// Calls the functions of `on_failure`, at the first call only. An exception in one is logged,
  /// because the collectives must end anyway.
  void call_hooks(const Status& status);

 private:
  void note(const Status& status, Rank lost, bool notify_peers);
  void add_notice(Rank rank, protocol::Outbox& notices) const;
  bool tells(Rank rank) const;
  bool neighbours(Rank one, Rank other) const;
  Status undelivered_status(Rank from, Rank to, std::uint32_t bytes) const;
  Status told_status(Rank from, Rank lost) const;
  Status alone_status(Rank from, Rank silent) const;
  Status given_up_status(Rank by) const;

  Rank me_;
  std::uint32_t size_;
  const RankNames& names_;
  Status noted_;
  Status settled_;                 ///< the failure in effect; constant once over_ is true
  std::atomic<bool> over_{false};  ///< true: the failure has taken effect
  bool notify_peers_ = false;
  /// The kind of failure:
  /// - protocol::kGaveUp: lost_ has given up.
  /// - protocol::kNoneAtFault: lost_ has given up, and no rank is known to be at fault.
  /// - protocol::kAlone: no rank, lost_ included, answers the rank that found the failure.
  /// - 0: lost_ is silent, or culprits_ names the ranks at fault.
  /// - Any other value: packets of this many bytes do not reach lost_, although shorter ones do.
  std::uint32_t undelivered_bytes_ = 0;
  /// Job ranks that errors name instead of lost_: none, the rank at fault, or two ranks of which
  /// one is at fault. They need not be in this communicator.
  std::vector<Rank> culprits_;
  protocol::Outbox reasons_;  ///< messages to be sent before the failure notices
  Rank finder_ = kNoRank;     ///< rank that found the failure; kNoRank: not known
  Rank told_by_ = kNoRank;    ///< rank whose failure notice came first; kNoRank: none
  Rank lost_ = kNoRank;       ///< rank that is lost or has given up; may be this rank
  std::vector<std::function<void(const Status&)>> hooks_;
  bool hooks_called_ = false;
};

}  // namespace tutti::engine
