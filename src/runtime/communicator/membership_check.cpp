#include "runtime/communicator/membership_check.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "device/device.hpp"
#include "protocol/membership.hpp"
#include "runtime/communicator/call_planner.hpp"
#include "runtime/communicator/closing.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

namespace {

constexpr Nanoseconds kProbeInterval{5'000'000};
/// Longest time for which a rank waits for the multicast of the other ranks: a switch begins to
/// forward the group's datagrams some time after the rank has joined the group. Multicast that has
/// not arrived by then counts as not passing.
constexpr Nanoseconds kPatience{5'000'000'000};

/// Time for which a rank waits for long probes after short probes have passed every path. A long
/// probe that has not arrived by then counts as too long for its path.
constexpr Nanoseconds kSizePatience{300'000'000};
/// Long probes are sent only in every N-th round of probes: N is kLongSpacing in the first check,
/// and kSizeSpacing in the second check, which finds the longest size that passes.
constexpr std::uint32_t kLongSpacing = 16;
constexpr std::uint32_t kSizeSpacing = 4;

/// The result of the check at one rank, which the rank sends to all others.
struct Report {
  std::uint32_t heard_all = 0;  ///< 1 if this rank received the multicast of every other rank
  /// First rank whose multicast this rank did not receive; unused if `heard_all` is 1.
  std::uint32_t unheard = 0;
  std::uint32_t narrow = 0;  ///< 1 if a path to this rank does not pass datagrams of full length
  /// Sender of the path to this rank that has the lowest limit on the length of datagrams; unused
  /// if `narrow` is 0.
  std::uint32_t narrow_source = 0;
  std::uint32_t narrow_bytes = 0;  ///< longest datagram that passes the path from narrow_source
  ExchangeView view{};             ///< this rank's exchange view
};

/// The inputs of a check. `names` contains the hosts of the ranks.
struct CheckRequest {
  const std::vector<std::string>& names;
  const ExchangeView& view;
  bool multicast;
  std::vector<std::uint32_t> sizes;  ///< lengths of probes, descending
};

/// The ranks with which a rank exchanges unicast probes: those at distances 1, 2, 4 and so on in
/// both directions, with which most algorithms exchange their data.
std::vector<Rank> partners_of(Rank rank, std::uint32_t size) {
  std::vector<Rank> partners;
  for (std::uint32_t distance = 1; distance < size; distance *= 2) {
    for (const std::uint32_t other :
         {(index(rank) + distance) % size, (index(rank) + size - distance) % size}) {
      if (std::find(partners.begin(), partners.end(), rank_of(other)) == partners.end())
        partners.push_back(rank_of(other));
    }
  }
  return partners;
}

class MembershipCheck {
 public:
  /// If `request.multicast` is false, only unicast paths are tested.
  MembershipCheck(engine::CommunicatorContext& context, CheckRequest request)
      : context_(context),
        names_(request.names),
        multicast_(request.multicast),
        sizes_(std::move(request.sizes)),
        partners_(sizes_.front() > 0 ? partners_of(context.rank(), context.size())
                                     : std::vector<Rank>()),
        membership_(context.rank(), context.size(),
                    multicast_ ? context.endpoint().subgroup_count() : 0, partners_,
                    sizes_.front()),
        reports_(context.size()) {
    own_.view = request.view;
    context_.router().keep_probes(true);
  }
  ~MembershipCheck() { context_.router().keep_probes(false); }

  Result<MembershipFindings> run(Nanoseconds timeout);

 private:
  Status prepare_exchange();
  Status send_probes();
  Status send_probes_of(std::uint32_t bytes);
  void take_probes(Instant at);
  bool settled(Instant at) const;
  void report();
  bool done() const { return exchanged_->done.load(std::memory_order_acquire); }
  Status late(Nanoseconds timeout);
  std::string name(std::uint32_t rank) const;
  Status compare_views() const;
  MulticastGap gap() const;
  std::optional<NarrowPath> narrow_path() const;

  engine::CommunicatorContext& context_;
  const std::vector<std::string>& names_;
  bool multicast_;
  std::vector<std::uint32_t> sizes_;  ///< sizes of probes, descending
  std::vector<Rank> partners_;
  protocol::Membership membership_;
  Instant heard_all_at_ = kNever;  ///< time by which a probe had arrived over every path
  Report own_;
  std::vector<Report> reports_;
  /// Allgather of the reports; null once it has been submitted.
  std::unique_ptr<engine::Operation> exchange_;
  std::shared_ptr<engine::Completion> exchanged_;
  std::uint32_t attempt_ = 0;
};

/// Plans the Allgather of the reports by unicast, because the network may not pass multicast.
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

/// Sends short probes in every round, but long probes only in some rounds, because long probes in
/// every round could exceed the traffic of a short job. A few long probes suffice, because all
/// sockets are open by now.
Status MembershipCheck::send_probes() {
  const std::uint32_t spacing = sizes_.size() > 1 ? kSizeSpacing : kLongSpacing;
  const bool sends_long = sizes_.front() > 0 && attempt_ % spacing == 0;
  for (std::size_t i = 0; sends_long && i < sizes_.size(); ++i) {
    if (Status status = send_probes_of(sizes_[i]); !status) return status;
  }
  ++attempt_;
  return send_probes_of(0);
}

Status MembershipCheck::send_probes_of(std::uint32_t bytes) {
  device::Endpoint& endpoint = context_.endpoint();
  for (const Rank partner : partners_) endpoint.probe_path(partner, bytes);
  for (std::uint32_t s = 0; multicast_ && s < endpoint.subgroup_count(); ++s) {
    if (Status status = endpoint.multicast(s).post_probe(attempt_, bytes); !status) return status;
  }
  return {};
}

void MembershipCheck::take_probes(Instant at) {
  for (const auto& probe : context_.router().take_probes()) {
    if (probe.subgroup == device::kUnicast) {
      membership_.on_unicast_probe(probe.source, probe.bytes);
    } else {
      membership_.on_probe(probe.source, probe.subgroup, probe.bytes);
    }
  }
  if (membership_.heard_all()) heard_all_at_ = std::min(heard_all_at_, at);
}

bool MembershipCheck::settled(Instant at) const {
  return membership_.complete() || (membership_.heard_all() && at >= heard_all_at_ + kSizePatience);
}

void MembershipCheck::report() {
  const std::vector<Rank> missing = membership_.missing();
  own_.heard_all = missing.empty() ? 1 : 0;
  if (!missing.empty()) own_.unheard = index(missing.front());
  if (const auto narrow = membership_.narrowest()) {
    own_.narrow = 1;
    own_.narrow_source = index(narrow->source);
    own_.narrow_bytes = narrow->bytes;
  }
  context_.operations().submit(std::move(exchange_));
}

/// The error of a check that did not end in time.
Status MembershipCheck::late(Nanoseconds timeout) {
  std::vector<std::uint32_t> unheard;
  for (const Rank one : membership_.missing()) unheard.push_back(index(one));
  const std::string names =
      unheard.empty() ? "hears the multicast of every rank"
                      : fmt::format("hears no multicast from rank(s) {}", fmt::join(unheard, ", "));
  return failure(Code::timeout,
                 "rank {} ({}) {}, but within {} s at least one rank has not reported from which "
                 "ranks it hears multicast: see the errors of the other ranks, and check that "
                 "firewalls let UDP pass between the hosts",
                 index(context_.rank()), names_[index(context_.rank())], names,
                 timeout.count() / 1'000'000'000);
}

std::string MembershipCheck::name(std::uint32_t rank) const {
  const std::size_t known = std::min<std::size_t>(rank, names_.size() - 1);
  return fmt::format("rank {} ({})", known, names_[known]);
}

/// The narrowest path in the reports; nothing if datagrams of full length pass all paths.
std::optional<NarrowPath> MembershipCheck::narrow_path() const {
  std::optional<NarrowPath> narrowest;
  for (std::uint32_t r = 0; r < reports_.size(); ++r) {
    const Report& one = reports_[r];
    // If not even a probe of the shortest size in `sizes_` has arrived over a path, this size is
    // used nevertheless. The job then fails at its first long frame and names the ranks.
    const std::uint32_t bytes = std::max(one.narrow_bytes, sizes_.back());
    if (one.narrow == 0 || (narrowest && narrowest->bytes <= bytes)) continue;
    const auto passes =
        std::lower_bound(sizes_.begin(), sizes_.end(), bytes, std::greater<std::uint32_t>());
    const std::uint32_t lost = passes == sizes_.begin() ? bytes : *(passes - 1);
    narrowest = {fmt::format("datagrams of {} bytes do not pass from {} to {}", lost,
                             name(one.narrow_source), name(r)),
                 bytes};
  }
  return narrowest;
}

/// Every rank compares all views with its own, so if any two differ, the check fails on all ranks.
Status MembershipCheck::compare_views() const {
  const auto other = std::find_if(reports_.begin(), reports_.end(),
                                  [&](const Report& one) { return one.view != own_.view; });
  if (other == reports_.end()) return {};
  return failure(Code::invalid_argument,
                 "the bootstrap gave {} other bytes than {}: use a bootstrap that delivers the "
                 "bytes of each rank unchanged to all ranks",
                 name(static_cast<std::uint32_t>(other - reports_.begin())),
                 name(index(context_.rank())));
}

/// The first pair of ranks between which multicast does not pass; empty if there is none.
MulticastGap MembershipCheck::gap() const {
  const auto deaf = std::find_if(reports_.begin(), reports_.end(),
                                 [](const Report& one) { return one.heard_all == 0; });
  if (deaf == reports_.end()) return {};
  const auto rank = static_cast<std::uint32_t>(deaf - reports_.begin());
  const auto unheard = std::min<std::uint32_t>(deaf->unheard, context_.size() - 1);
  return {fmt::format("{} hears no multicast from {}", name(rank), name(unheard)),
          context_.names().in_job({rank_of(rank), rank_of(unheard)})};
}

Result<MembershipFindings> MembershipCheck::run(Nanoseconds timeout) {
  if (Status status = prepare_exchange(); !status) return status;
  const Instant begin = now();
  const Instant give_up = begin + (multicast_ ? std::min(kPatience, timeout / 2) : kSizePatience);
  Instant next_probe = begin;
  while (!done()) {
    const Instant at = now();
    if (at >= begin + timeout) return late(timeout);
    if (at >= next_probe) {
      if (Status status = send_probes(); !status) return status;
      next_probe = at + kProbeInterval;
    }
    context_.poll(at);
    take_probes(at);
    if (exchange_ && (settled(at) || at >= give_up)) report();
    wait_readable(context_.endpoint());
  }
  if (!exchanged_->status) return exchanged_->status;
  if (Status status = compare_views(); !status) return status;
  return MembershipFindings{gap(), narrow_path()};
}

Result<MembershipFindings> run_check(engine::CommunicatorContext& context, CheckRequest request,
                                     Nanoseconds timeout) {
  MembershipCheck check(context, std::move(request));
  auto findings = guarded([&] { return check.run(timeout); });
  // After an error, the Allgather of the reports may still write to `check`, a variable of this
  // function. The Allgather is therefore ended before the function returns.
  if (!findings) end_operations(context, findings.status());
  return findings;
}

}  // namespace

Result<MembershipFindings> check_membership(engine::CommunicatorContext& context,
                                            const std::vector<std::string>& names,
                                            const ExchangeView& view, bool multicast,
                                            Nanoseconds timeout) {
  if (context.size() == 1) return MembershipFindings();
  const std::vector<std::uint32_t> sizes = context.endpoint().probe_sizes();
  auto findings = run_check(context, {names, view, multicast, {sizes.front()}}, timeout);
  if (!findings || !findings->narrow) return findings;
  // The second check finds the longest size that passes every path. All ranks run it or none
  // does, because the findings of the first check are equal on all ranks.
  auto sized = run_check(context, {names, view, multicast, sizes}, timeout);
  if (!sized) return sized.status();
  findings->narrow = std::move(sized->narrow);
  return findings;
}

}  // namespace tutti::runtime
