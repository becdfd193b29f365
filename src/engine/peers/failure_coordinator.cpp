#include "engine/peers/failure_coordinator.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "observe/log.hpp"

namespace tutti::engine {

namespace {

/// A failure notice names one rank at fault, or two of which one is at fault.
bool fit_a_notice(std::span<const Rank> culprits) {
  constexpr std::size_t kMostNamed = 2;
  return !culprits.empty() && culprits.size() <= kMostNamed;
}

}  // namespace

void FailureCoordinator::note(const Status& status, Rank lost, bool notify_peers) {
  if (noted()) return;
  Status copy = status;  // copied first: if the copy throws, this object has not changed
  lost_ = lost;
  if (notify_peers) finder_ = me_;
  notify_peers_ = notify_peers;
  noted_ = std::move(copy);
}

void FailureCoordinator::fail(const Status& status) {
  if (!noted() && culprits_.empty()) {
    const bool none_at_fault = status.code() == Code::peer_failed && status.ranks().empty();
    undelivered_bytes_ = none_at_fault ? protocol::kNoneAtFault : protocol::kGaveUp;
  }
  note(status, me_, true);
}

void FailureCoordinator::fail(const Status& status, protocol::Outbox reasons) {
  if (!noted()) reasons_ = std::move(reasons);
  fail(status);
}

void FailureCoordinator::on_refusal(const Status& refusal) {
  if (refusal.code() != Code::resource_exhausted && refusal.code() != Code::peer_failed) {
    fail(refusal);
  }
}

void FailureCoordinator::abort(const std::string& reason) {
  fail(
      failure_of(names_.in_job({me_}), Code::aborted, "aborted by {}: {}", names_.of(me_), reason));
}

void FailureCoordinator::abort_for(std::span<const Rank> culprits, const std::string& reason) {
  const bool named = fit_a_notice(culprits);
  std::vector<Rank> ranks =
      named ? std::vector(culprits.begin(), culprits.end()) : names_.in_job({me_});
  if (!noted() && named) culprits_ = ranks;
  fail(failure_of(std::move(ranks), Code::aborted, "{} has ended this communicator: {}",
                  names_.of(me_), reason));
}

void FailureCoordinator::fail_because(const Status& cause) {
  const std::span<const Rank> ranks = cause.ranks();
  if (!noted() && fit_a_notice(ranks)) culprits_ = {ranks.begin(), ranks.end()};
  fail(cause);
}

void FailureCoordinator::fail_without(Rank absent) {
  fail_because(failure_of(names_.in_job({absent}), Code::peer_failed,
                          "{} has closed its communicator without taking part in this collective: "
                          "call the same collectives on all ranks before closing",
                          names_.of(absent)));
}

void FailureCoordinator::fail_without_slow_path(Rank source) {
  fail(misfit(source, Code::peer_failed,
              "{} sent a chunk that this rank cannot use: call the same collectives in "
              "the same order on all ranks",
              names_.of(source)));
}

void FailureCoordinator::fail_with_other_sizes(Rank source, std::size_t bytes) {
  fail(misfit(source, Code::invalid_argument,
              "{} sent {} bytes by multicast that do not fit this rank's call: call the same "
              "collective with the same sizes, root and algorithm on all ranks",
              names_.of(source), bytes));
}

void FailureCoordinator::on_peer_failure(const device::Completion& completion) {
  const Rank peer = completion.peer;
  if (const std::uint32_t bytes = completion.undelivered_bytes; bytes > 0) {
    if (!noted()) undelivered_bytes_ = bytes;
    return note(undelivered_status(me_, peer, bytes), peer, true);
  }
  if (completion.blame == device::Blame::self) return fail(given_up_status(peer));
  if (completion.blame == device::Blame::either) {
    if (!noted()) undelivered_bytes_ = protocol::kAlone;
    return note(alone_status(me_, peer), peer, true);
  }
  note(failure_of(names_.in_job({peer}), Code::peer_failed,
                  "{} does not answer: it has died, is stopped, or cannot be reached from {}",
                  names_.of(peer), names_.of(me_)),
       peer, true);
}

Status FailureCoordinator::given_up_status(Rank by) const {
  return failure_of(names_.in_job({me_}), Code::peer_failed,
                    "the other ranks have given up on {0}, as {1} reports, because {0} did not "
                    "answer: check whether {0} was stopped, and check its network paths",
                    names_.of(me_), names_.of(by));
}

Status FailureCoordinator::alone_status(Rank from, Rank silent) const {
  return failure_of(
      names_.in_job({silent, from}), Code::peer_failed,
      "{0} does not answer {1}, and no other rank answers {1}: check whether {0} or {1} has "
      "died, is stopped, or is cut off from the network",
      names_.of(silent), names_.of(from));
}

Status FailureCoordinator::undelivered_status(Rank from, Rank to, std::uint32_t bytes) const {
  return failure_of(
      names_.in_job({from, to}), Code::peer_failed,
      "packets of {} bytes do not pass between {} and {}, although shorter ones do: set "
      "the MTU of the ranks' interfaces to what every switch and firewall between them "
      "forwards, or raise the MTU of these switches and firewalls",
      bytes, names_.of(from), names_.of(to));
}

// MessageKind::failed defines the content of a notice. Its epoch is kEither, or the kind of failure
// as undelivered_bytes_ stores it. A notice that names a rank that does not exist is ignored.
void FailureCoordinator::on_notice(Rank from, const protocol::Message& notice) {
  const auto lost_index = static_cast<std::uint32_t>(notice.argument);
  const auto upper = static_cast<std::uint32_t>(notice.argument >> 32);
  if (noted()) return;
  const std::uint32_t job_size = names_.job_size(size_);
  if (notice.epoch == protocol::kEither) {
    if (std::max(upper, lost_index) >= job_size) return;
    told_by_ = from;
    culprits_ = {rank_of(upper), rank_of(lost_index)};
    return note(told_status(from, from), from, false);
  }
  if (lost_index >= size_) return;
  const Rank lost = rank_of(lost_index);
  if (notice.epoch != 0) {
    if (upper >= size_) return;
    finder_ = rank_of(upper);
  } else if (upper != 0) {
    if (upper - 1 >= job_size) return;
    culprits_ = {rank_of(upper - 1)};
  }
  told_by_ = from;
  undelivered_bytes_ = notice.epoch;
  note(told_status(from, lost), lost, false);
}

Status FailureCoordinator::told_status(Rank from, Rank lost) const {
  if (!culprits_.empty()) {
    const bool either = culprits_.size() > 1;
    return failure_of(
        culprits_, Code::peer_failed, "{} is lost, as reported by {}",
        names_.of_job(culprits_.front()) + (either ? " or " + names_.of_job(culprits_.back()) : ""),
        names_.of(from));
  }
  if (undelivered_bytes_ == protocol::kGaveUp) {
    return failure_of(names_.in_job({lost}), Code::peer_failed,
                      "{0} gave up the communicator after an error: see the error of {0}",
                      names_.of(lost));
  }
  if (undelivered_bytes_ == protocol::kNoneAtFault) {
    return failure(Code::peer_failed,
                   "{0} reports a failure of which no rank is known to be at fault, such as the "
                   "loss of an aggregator: see the error of {0}",
                   names_.of(lost));
  }
  if (undelivered_bytes_ == protocol::kAlone) return alone_status(finder_, lost);
  if (undelivered_bytes_ > 0) return undelivered_status(finder_, lost, undelivered_bytes_);
  if (lost == me_) return given_up_status(from);
  return failure_of(names_.in_job({lost}), Code::peer_failed, "{} is lost, as reported by {}",
                    names_.of(lost), names_.of(from));
}

const Status& FailureCoordinator::status() const {
  static const Status none;
  return settled() ? settled_ : none;
}

bool FailureCoordinator::settle(protocol::Outbox& notices) {
  Status copy = noted_;
  notices = reasons_;
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (tells(rank_of(r))) add_notice(rank_of(r), notices);
  }
  // The failure takes effect here, and no step from here on throws. If an earlier step throws, the
  // caller may call this function again.
  settled_ = std::move(copy);
  over_.store(true, std::memory_order_release);
  return !notices.empty();
}

void FailureCoordinator::add_notice(Rank rank, protocol::Outbox& notices) const {
  // This notice goes to the rank that seems to be lost. If the notice arrives, that rank is alive,
  // and finder_, the rank that found the failure, is cut off: so finder_ is named as lost.
  if (undelivered_bytes_ == protocol::kAlone && rank == lost_) {
    return notices.send(rank, protocol::MessageKind::failed, 0, index(finder_));
  }
  if (culprits_.size() > 1) {
    const std::uint64_t first = index(culprits_.front());
    return notices.send(rank, protocol::MessageKind::failed, protocol::kEither,
                        first << 32 | index(culprits_.back()));
  }
  std::uint64_t upper = 0;
  if (undelivered_bytes_ > 0) upper = index(finder_);
  if (!culprits_.empty()) upper = index(culprits_.front()) + 1;
  notices.send(rank, protocol::MessageKind::failed, undelivered_bytes_, upper << 32 | index(lost_));
}

/// True if this rank sends `rank` a failure notice. The rank that found the failure notifies all
/// others, except lost_ if lost_ is silent. A rank that gets a notice notifies its two neighbours,
/// because a notice of the first rank may be lost.
bool FailureCoordinator::tells(Rank rank) const {
  if (rank == me_) return false;
  if (!notify_peers_) return rank != told_by_ && rank != finder_ && neighbours(me_, rank);
  const bool silent = undelivered_bytes_ == 0 || undelivered_bytes_ == protocol::kAlone;
  return rank != lost_ || !silent;
}

bool FailureCoordinator::neighbours(Rank one, Rank other) const {
  const std::uint32_t apart = (index(one) + size_ - index(other)) % size_;
  return apart == 1 || apart == size_ - 1;
}

Status FailureCoordinator::status_of(Instant now, const Operation& operation) const {
  const Description& what = operation.description();
  std::string text = fmt::format("{} #{} ({}", what.operation, operation.epoch(), what.algorithm);
  if (what.root != kNoRank) text += fmt::format(", root {}", index(what.root));
  text += fmt::format(", {} bytes) at {} in phase {} after {:.3f} s: {}", what.bytes,
                      names_.of(me_), observe::to_string(operation.phase()),
                      static_cast<double>((now - operation.started()).count()) / 1e9,
                      settled_.message());
  const std::string missing = operation.missing().text;
  if (!missing.empty()) text += "; missing here: " + missing;
  return failure_from(settled_, "{}", text);
}

void FailureCoordinator::call_hooks(const Status& status) {
  if (std::exchange(hooks_called_, true)) return;
  for (const auto& hook : hooks_) {
    try {
      hook(status);
    } catch (const std::exception& error) {
      observe::complain(
          fmt::format("the failure hook threw, so the reports of the failure may be missing: {}",
                      error.what()));
    }
  }
}

}  // namespace tutti::engine
