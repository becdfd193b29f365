#include "runtime/communicator/membership_check.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "device/device.hpp"
#include "protocol/membership.hpp"
#include "runtime/communicator/call_planner.hpp"
#include "runtime/communicator/closing.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::runtime {

namespace {

constexpr Nanoseconds kProbeInterval{5'000'000};
/// Time within which a switch forwards to a rank that has joined the group, if it ever does.
constexpr Nanoseconds kPatience{5'000'000'000};

/// The message of one rank to all others.
struct Report {
  std::uint32_t heard_all = 0;
  std::uint32_t unheard = 0;  ///< the first rank that was not heard; meaningless if heard_all
};

class MembershipCheck {
 public:
  MembershipCheck(engine::CommunicatorContext& context, const std::vector<std::string>& names)
      : context_(context),
        names_(names),
        membership_(context.rank(), context.size(), context.endpoint().subgroup_count()),
        reports_(context.size()) {
    context_.router().keep_probes(true);
  }
  ~MembershipCheck() { context_.router().keep_probes(false); }

  Result<MulticastGap> run(bool probes, Nanoseconds timeout);

 private:
  Status prepare_exchange();
  Status multicast_probes();
  void take_probes();
  void report();
  bool done() const { return exchanged_->done.load(std::memory_order_acquire); }
  Status late(Nanoseconds timeout);
  MulticastGap gap() const;

  engine::CommunicatorContext& context_;
  const std::vector<std::string>& names_;
  protocol::Membership membership_;
  Report own_;
  std::vector<Report> reports_;
  std::unique_ptr<engine::Operation> exchange_;  ///< Allgather of the reports, until it starts
  std::shared_ptr<engine::Completion> exchanged_;
  std::uint32_t attempt_ = 0;
};

/// Plans the Allgather of the reports from rank to rank, because multicast may not pass.
Status MembershipCheck::prepare_exchange() {
  CallPlanner planner({.rank = context_.rank(),
                       .size = context_.size(),
                       .max_data_bytes = context_.messages().max_data_bytes()},
                      collectives::ChoiceTable::defaults());
  auto made = planner.make({.collective = Collective::allgather,
                            .send = std::as_bytes(std::span(&own_, 1)),
                            .receive = std::as_writable_bytes(std::span(reports_)),
                            .options = {.algorithm = Algorithm("bruck")}});
  if (!made) return made.status();
  exchange_ = std::move(*made);
  exchanged_ = exchange_->completion();
  return {};
}

Status MembershipCheck::multicast_probes() {
  for (std::uint32_t s = 0; s < context_.endpoint().subgroup_count(); ++s) {
    const Status sent = context_.endpoint().multicast(s).post_probe(attempt_);
    if (!sent) return sent;
  }
  ++attempt_;
  return {};
}

void MembershipCheck::take_probes() {
  for (const auto& probe : context_.router().take_probes()) {
    membership_.on_probe(probe.source, probe.subgroup);
  }
}

void MembershipCheck::report() {
  own_.heard_all = membership_.complete() ? 1 : 0;
  if (own_.heard_all == 0) own_.unheard = index(membership_.missing().front());
  context_.operations().submit(std::move(exchange_));
}

/// The error of a check that did not end in time. Afterwards the engine no longer uses the reports.
Status MembershipCheck::late(Nanoseconds timeout) {
  if (!exchange_) {
    context_.failures().abort("the ranks did not all report on multicast in time");
    context_.poll(now());
  }
  std::vector<std::uint32_t> unheard;
  for (const Rank one : membership_.missing()) unheard.push_back(index(one));
  const std::string names =
      unheard.empty() ? "hears the multicast of every rank"
                      : fmt::format("hears no multicast from rank(s) {}", fmt::join(unheard, ", "));
  return failure(Code::timeout,
                 "rank {} ({}) {}, and after {} s a rank has still not reported: see the errors of "
                 "the other ranks, and check that firewalls let UDP pass between the hosts",
                 index(context_.rank()), names_[index(context_.rank())], names,
                 timeout.count() / 1'000'000'000);
}

/// The first gap in the reports; empty if there is none.
MulticastGap MembershipCheck::gap() const {
  const auto deaf = std::find_if(reports_.begin(), reports_.end(),
                                 [](const Report& one) { return one.heard_all == 0; });
  if (deaf == reports_.end()) return {};
  const auto rank = static_cast<std::size_t>(deaf - reports_.begin());
  const std::size_t unheard = std::min<std::size_t>(deaf->unheard, names_.size() - 1);
  return {fmt::format("rank {} ({}) hears no multicast from rank {} ({})", rank, names_[rank],
                      unheard, names_[unheard]),
          context_.names().in_job({rank_of(rank), rank_of(unheard)})};
}

Result<MulticastGap> MembershipCheck::run(bool probes, Nanoseconds timeout) {
  if (Status status = prepare_exchange(); !status) return status;
  const Instant begin = now();
  const Instant give_up = begin + (probes ? std::min(kPatience, timeout / 2) : Nanoseconds(0));
  Instant next_probe = begin;
  while (!done()) {
    const Instant at = now();
    if (at >= begin + timeout) return late(timeout);
    if (probes && at >= next_probe) {
      if (Status status = multicast_probes(); !status) return status;
      next_probe = at + kProbeInterval;
    }
    context_.poll(at);
    take_probes();
    if (exchange_ && (membership_.complete() || at >= give_up)) report();
    wait_readable(context_.endpoint());
  }
  if (!exchanged_->status) return exchanged_->status;
  return gap();
}

}  // namespace

Result<MulticastGap> check_membership(engine::CommunicatorContext& context,
                                      const std::vector<std::string>& names, bool probes,
                                      Nanoseconds timeout) {
  if (context.size() == 1) return MulticastGap();
  return MembershipCheck(context, names).run(probes, timeout);
}

}  // namespace tutti::runtime
