// Why a communicator fails, and which ranks are told. The first failure is the cause; later ones
// are its consequences and are ignored. A failure is noted when it is found and settled, once, when
// the collectives end because of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "device/device.hpp"
#include "engine/core/operation.hpp"
#include "engine/peers/rank_names.hpp"
#include "protocol/codec/message.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class FailureCoordinator {
 public:
  /// `names` outlives this.
  FailureCoordinator(Rank me, std::uint32_t size, const RankNames& names)
      : me_(me), size_(size), names_(names) {}

  /// Ends every collective with an error of this rank's own, at the end of the context's current or
  /// next `poll`; the other ranks learn that this one has given up.
  void fail(const Status& status) { note(status, me_, true); }
  /// Ends every collective here and, with an error that names this rank, at the peers.
  void abort(const std::string& reason);
  /// The same because of a rank of the job, `culprit`, that need not be in this communicator.
  void abort_for(Rank culprit, const std::string& reason);
  /// Ends every collective because of an unusable chunk of `source`, which will not be sent again.
  void fail_without_slow_path(Rank source);
  /// A device reports the loss of a peer, or of the longer packets to it.
  void on_peer_failure(const device::Completion& completion);
  /// A notice, by MessageKind::failed, that `from` has failed.
  void on_notice(Rank from, const protocol::Message& notice);

  /// Whether the communicator has failed or is about to.
  bool noted() const { return !noted_.ok(); }
  /// The settled failure: no collective runs any more.
  const Status& status() const { return settled_; }
  bool settled() const { return !settled_.ok(); }
  /// The rank of this communicator whose loss was the cause or, if the cause was outside it,
  /// `culprit` as a rank of the job. kNoRank: none.
  Rank lost() const { return lost_; }
  Rank culprit() const { return culprit_; }

  /// Settles the noted failure; returns whether the peers have to be told, by `notices`.
  bool settle(protocol::Outbox& notices);
  /// The settled failure as the error of a collective that it ends.
  Status status_of(Instant now, const Operation& operation) const;
  /// Calls `hook` with the error when every collective ends, before any completion.
  void on_failure(std::function<void(const Status&)> hook) { hook_ = std::move(hook); }
  void call_hook(const Status& status) const {
    if (hook_) hook_(status);
  }

 private:
  void note(const Status& status, Rank lost, bool notify_peers);
  Status undelivered_status(Rank from, Rank to, std::uint32_t bytes) const;

  Rank me_;
  std::uint32_t size_;
  const RankNames& names_;
  Status noted_;
  Status settled_;
  bool notify_peers_ = false;
  /// Length of the packets that do not reach lost_, while short messages do; 0: lost_ is silent.
  std::uint32_t undelivered_bytes_ = 0;
  Rank culprit_ = kNoRank;
  Rank lost_ = kNoRank;  ///< rank whose loss is the cause; this rank if it gave up
  std::function<void(const Status&)> hook_;
};

}  // namespace tutti::engine
