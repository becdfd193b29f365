#include "runtime/bootstrap/store/store_state.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "crypto/secret.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime {

Rendezvous::Rendezvous(std::string where, const JobToken& token, const JobToken& owner_token,
                       std::optional<std::uint32_t> size, std::size_t max_exchange_bytes)
    : where_(std::move(where)),
      token_(token),
      owner_token_(owner_token),
      max_exchange_bytes_(max_exchange_bytes),
      members_(size.value_or(0)) {}

Status Rendezvous::check(const Hello& hello) const {
  const bool owner = hello.rank == 0 && crypto::equal(hello.token, owner_token_);
  if (!owner && !crypto::equal(hello.token, token_)) {
    return failure(Code::invalid_argument,
                   "the store at {} belongs to another job: give every job its own address and "
                   "port, or set the same TUTTI_RUN_ID on all ranks of this job",
                   where_);
  }
  const auto size = static_cast<std::uint32_t>(members_.size());
  if (size != 0 && hello.size != size) {
    return failure(
        Code::invalid_argument,
        "rank {} expects {} ranks, but the job at {} has {}: give all ranks the same number of "
        "ranks",
        hello.rank, hello.size, where_, size);
  }
  if (hello.size == 0 || hello.size > kMaxBootstrapRanks || hello.rank >= hello.size) {
    return failure(Code::invalid_argument,
                   "rank {} of {} ranks is not possible: use 1 to {} ranks, and number them from 0",
                   hello.rank, hello.size, kMaxBootstrapRanks);
  }
  if (hello.rank == 0 && !owner) {
    return failure(Code::invalid_argument,
                   "a process joined the job at {} as rank 0, but another process is rank 0 and "
                   "runs the store there: give every process a rank of its own",
                   where_);
  }
  if (hello.remaining_ms == 0) {
    return failure(Code::timeout,
                   "rank {} connected to {} after its own timeout of {}: start this rank earlier, "
                   "or give it a longer timeout",
                   hello.rank, where_,
                   describe_duration(std::chrono::milliseconds(hello.timeout_ms)));
  }
  return {};
}

Rendezvous::Verdict Rendezvous::hello(const Hello& hello, const std::string& from, Deadline now) {
  Status status = check(hello);
  if (!status.ok()) return {Admission::refused, std::move(status)};
  if (members_.empty()) members_.resize(hello.size);
  Member& member = members_[hello.rank];
  // The rank has left this job and already joins its next job, while rank 0 still serves this job.
  if (member.presence == Presence::left) return {Admission::busy, {}};
  if (failure_) return {Admission::refused, *failure_};
  if (member.presence == Presence::present) {
    fail(failure_of({rank_of(hello.rank)}, Code::invalid_argument,
                    "rank {} joined twice at {}, from {} and from {}: give every process a rank of "
                    "its own, or stop the process that does not belong to the job",
                    hello.rank, where_, member.address, from));
    return {Admission::refused, *failure_};
  }
  member.presence = Presence::present;
  member.address = from;
  wait(member, std::chrono::milliseconds(hello.timeout_ms),
       std::chrono::milliseconds(hello.remaining_ms), now);
  return {Admission::joined, {}};
}

Status Rendezvous::contribute(std::uint32_t rank, Gather gather, Deadline now) {
  if (failure_) return *failure_;
  Member& member = members_[rank];
  if (!joined_ || member.waiting || gather.exchange != exchange_) {
    Status status = failure_of({rank_of(rank)}, Code::internal,
                               "rank {} is at exchange {} of the bootstrap while the job is at "
                               "exchange {}: use one version of Tutti on all ranks",
                               rank, gather.exchange, exchange_);
    fail(status);
    return status;
  }
  contributed_bytes_ += gather.bytes.size();
  if (contributed_bytes_ > max_exchange_bytes_) {
    fail(failure(Code::resource_exhausted,
                 "the ranks contributed at least {} bytes to one bootstrap exchange, above the "
                 "limit of {}: contribute at most {} bytes per rank",
                 contributed_bytes_, max_exchange_bytes_, max_exchange_bytes_ / members_.size()));
    return *failure_;
  }
  member.contribution = std::move(gather.bytes);
  const Nanoseconds timeout = std::chrono::milliseconds(gather.timeout_ms);
  wait(member, timeout, timeout, now);
  return {};
}

void Rendezvous::wait(Member& member, Nanoseconds timeout, Nanoseconds remaining, Deadline now) {
  member.waiting = true;
  member.timeout = timeout;
  member.deadline = now + remaining;
  ++waiting_;
  if (waiting_ == members_.size()) return complete();
  if (!joined_) return;
  std::vector<std::uint32_t> gone;
  for (const std::uint32_t rank : ranks_that_do_not_wait()) {
    if (members_[rank].presence == Presence::left) gone.push_back(rank);
  }
  if (gone.empty()) return;
  fail(failure_of(to_ranks(gone), Code::peer_failed,
                  "{} left the job at {} before exchange {} of the bootstrap", describe_ranks(gone),
                  where_, exchange_));
}

void Rendezvous::leave(std::uint32_t rank) {
  Member& member = members_[rank];
  if (!joined_) {
    // While a rank waits for the others to join, it may leave and join again.
    if (member.waiting) --waiting_;
    member = Member();
    return;
  }
  const bool contributed = member.waiting;
  member.presence = Presence::left;
  if (contributed || waiting_ == 0 || failure_) return;
  fail(failure_of({rank_of(rank)}, Code::peer_failed,
                  "rank {} left the job at {} before exchange {} of the bootstrap", rank, where_,
                  exchange_));
}

void Rendezvous::complete() {
  if (!joined_) {
    joined_ = true;
    return tell_waiting(std::make_shared<Bytes>(encode_frame(FrameKind::welcome, {})));
  }
  std::vector<Bytes> contributions;
  contributions.reserve(members_.size());
  for (Member& member : members_) contributions.push_back(std::move(member.contribution));
  const auto result = std::make_shared<Bytes>(encode_result(exchange_, contributions));
  ++exchange_;
  contributed_bytes_ = 0;
  tell_waiting(result);
}

void Rendezvous::expire(Deadline now) {
  if (failure_ || waiting_ == 0) return;
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (!member.waiting || member.deadline > now) continue;
    if (joined_) {
      return fail(failure_of(to_ranks(ranks_that_do_not_wait()), Code::timeout,
                             "{} did not join exchange {} of the bootstrap at {} within {}: check "
                             "that all ranks run, or give them a longer timeout",
                             describe_ranks(ranks_that_do_not_wait()), exchange_, where_,
                             describe_duration(member.timeout)));
    }
    if (rank == 0) return fail(missing_ranks(member.timeout));
    give_up(rank);
  }
}

void Rendezvous::give_up(std::uint32_t rank) {
  Member& member = members_[rank];
  const Status status = missing_ranks(member.timeout);
  member = Member();
  member.presence = Presence::gave_up;
  --waiting_;
  messages_.push_back({rank, std::make_shared<Bytes>(encode_failed(status)), true});
}

Status Rendezvous::missing_ranks(Nanoseconds timeout) const {
  std::vector<std::uint32_t> absent;
  std::vector<std::uint32_t> gave_up;
  for (const std::uint32_t rank : ranks_that_do_not_wait()) {
    (members_[rank].presence == Presence::gave_up ? gave_up : absent).push_back(rank);
  }
  if (!absent.empty()) {
    return failure_of(to_ranks(absent), Code::timeout,
                      "{} did not join at {} within {}: check that all ranks run, or give them a "
                      "longer timeout",
                      describe_ranks(absent), where_, describe_duration(timeout));
  }
  return failure_of(to_ranks(gave_up), Code::timeout,
                    "{} joined at {} but gave up before the other ranks had joined, which waited "
                    "{}: give all ranks the same timeout",
                    describe_ranks(gave_up), where_, describe_duration(timeout));
}

Deadline Rendezvous::next_deadline() const {
  Deadline next = Deadline::max();
  if (failure_ || waiting_ == 0) return next;
  for (const Member& member : members_) {
    if (member.waiting) next = std::min(next, member.deadline);
  }
  return next;
}

void Rendezvous::fail(const Status& status) {
  if (failure_) return;
  failure_ = status;
  tell_waiting(std::make_shared<Bytes>(encode_failed(status)));
}

void Rendezvous::tell_waiting(const std::shared_ptr<const Bytes>& frame) {
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    Member& member = members_[rank];
    if (!member.waiting) continue;
    member.waiting = false;
    messages_.push_back({rank, frame});
  }
  waiting_ = 0;
}

std::vector<std::uint32_t> Rendezvous::ranks_that_do_not_wait() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (!members_[rank].waiting) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Rendezvous::Message> Rendezvous::take_messages() {
  return std::exchange(messages_, {});
}

}  // namespace tutti::runtime
