#include "protocol/fetch_ring.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace tutti::protocol {

namespace {

/// Collects ranges into as few messages to one rank as possible.
class Batch {
 public:
  Batch(Outbox& outbox, Rank to, MessageKind kind, std::uint32_t epoch, std::uint64_t argument = 0)
      : outbox_(outbox), to_(to) {
    message_.kind = kind;
    message_.epoch = epoch;
    message_.argument = argument;
  }
  void add(Range range) {
    if (message_.add(range)) return;
    flush();
    message_.add(range);
  }
  void flush() {
    if (message_.range_count > 0) outbox_.send(to_, message_);
    message_.range_count = 0;
  }

 private:
  Outbox& outbox_;
  Rank to_;
  Message message_;
};

/// Collects "ready" answers to one rank. Ranges with the same memory key share a message.
class ReadyBatch {
 public:
  ReadyBatch(Outbox& outbox, Rank to, std::uint32_t epoch, const FetchRing::KeyOf& key_of)
      : outbox_(outbox), to_(to), epoch_(epoch), key_of_(key_of) {}
  void add(std::uint32_t block_index, Range range) {
    const std::uint64_t key = key_of_(block_index);
    if (!batch_ || key != key_) {
      flush();
      batch_.emplace(outbox_, to_, MessageKind::fetch_ready, epoch_, key);
      key_ = key;
    }
    batch_->add(range);
  }
  void flush() {
    if (batch_) batch_->flush();
  }

 private:
  Outbox& outbox_;
  Rank to_;
  std::uint32_t epoch_;
  const FetchRing::KeyOf& key_of_;
  std::optional<Batch> batch_;
  std::uint64_t key_ = 0;
};

/// The argument of a fetch request for chunks that may not have been sent yet.
constexpr std::uint64_t kEnquiry = 1;

bool nothing_came(const ChunkMap& map, std::uint32_t block_index) {
  const Block& block = map.layout().blocks()[block_index];
  for (std::uint32_t s = 0; s < map.layout().subgroups(); ++s) {
    if (map.horizon(block_index, s) != block.psns.first) return false;
  }
  return true;
}

}  // namespace

FetchRing::FetchRing(Rank me, std::uint32_t size, std::uint32_t epoch, const ChunkMap& map,
                     const Settings& settings, FetchFrom from)
    : me_(me), size_(size), epoch_(epoch), map_(&map), settings_(settings), from_(from) {
  const std::uint32_t chunks = map.layout().chunk_count();
  declared_ = Bitmap(chunks);
  proven_ = Bitmap(chunks);
  reading_ = Bitmap(chunks);
  again_ = Bitmap(chunks);
}

void FetchRing::lost(const LostRun& run) { ask_for(run, false); }

void FetchRing::enquire(const LostRun& run) { ask_for(run, true); }

void FetchRing::ask_for(const LostRun& run, bool enquiry) {
  if (enquiry && !std::exchange(enquires_, true)) enquired_ = Bitmap(map_->layout().chunk_count());
  Range fresh{run.psns.first, run.psns.first};
  const auto close = [&] {
    if (!fresh.empty())
      asks_.push_back({run.block_index,
                       fresh,
                       first_target(run.block_index),
                       {},
                       false,
                       enquiry && from_ == FetchFrom::neighbours});
  };
  for (std::uint32_t psn = run.psns.first; psn < run.psns.last; ++psn) {
    if (run.proven && proven_.set(psn)) newly_proven_ = true;
    if (declared_.set(psn)) {
      if (enquiry) {
        enquired_.set(psn);
      } else {
        ++counters_.chunks_lost;
      }
      fresh.last = psn + 1;
      continue;
    }
    close();
    fresh = {psn + 1, psn + 1};
  }
  close();
}

bool FetchRing::wanted(const Ask& ask) const {
  return !map_->first_missing(ask.block_index, ask.psns).empty();
}

Rank FetchRing::next_target(const Ask& ask) const {
  return ask.target == root_of(ask.block_index) ? first_target(ask.block_index)
                                                : left_of(ask.target);
}

/// A rank that was asked is skipped if it stays silent for this time. From the second unsuccessful
/// round up to the root on, each round doubles the time: the root probably has not begun the
/// collective, and will answer once it begins.
Nanoseconds FetchRing::patience_of(const Ask& ask) const {
  constexpr std::uint32_t kMaxRounds = 11;
  return settings_.patience * (std::int64_t{1} << (std::clamp(ask.rounds, 1u, kMaxRounds) - 1));
}

void FetchRing::poll(Instant now, Outbox& outbox) {
  if (std::exchange(newly_proven_, false) && !deferred_.empty()) correct_deferred(outbox);
  if (asks_.empty()) return;
  std::erase_if(asks_, [this](const Ask& ask) { return !wanted(ask); });
  for (Ask& ask : asks_) {
    // With FetchFrom::root a silent root is not skipped, because only the root has the block, and
    // it answers once it has sent the block.
    if (!ask.sent || from_ == FetchFrom::root || now - ask.heard < patience_of(ask)) continue;
    if (ask.target == root_of(ask.block_index)) ++ask.rounds;
    ask.target = next_target(ask);
    ask.sent = false;
    ++counters_.targets_skipped;
  }
  for (std::size_t i = 0; i < asks_.size(); ++i) {
    if (asks_[i].sent) continue;
    // One request carries every range that goes to the same target.
    Batch batch(outbox, asks_[i].target, MessageKind::fetch_request, epoch_,
                asks_[i].enquiry ? kEnquiry : 0);
    for (std::size_t j = i; j < asks_.size(); ++j) {
      Ask& ask = asks_[j];
      if (ask.sent || ask.target != asks_[i].target || ask.enquiry != asks_[i].enquiry) continue;
      batch.add(ask.psns);
      ask.sent = true;
      ask.heard = now;
      ++counters_.ranges_asked;
    }
    batch.flush();
  }
}

bool FetchRing::split(const Message& message, std::vector<LostRun>& runs) const {
  const BlockLayout& layout = map_->layout();
  for (const Range range : message.range_list()) {
    if (range.last > layout.chunk_count()) return false;
    const std::uint32_t block = layout.block_of(range.first);
    if (range.last > layout.blocks()[block].psns.last) return false;
    runs.push_back({block, range, true});
  }
  return true;
}

bool FetchRing::on_answer(Instant now, Rank from, const Message& message, Outbox& outbox,
                          std::vector<ReadOrder>& reads) {
  std::vector<LostRun> runs;
  if (!split(message, runs)) return false;
  for (Ask& ask : asks_) {
    if (ask.target != from) continue;
    ask.heard = now;
    if (message.kind == MessageKind::fetch_ready) ask.rounds = 0;
  }
  for (const LostRun& run : runs) {
    if (message.kind == MessageKind::fetch_ready) {
      order_reads(from, message.argument, run, reads);
    } else if (message.kind == MessageKind::fetch_expired) {
      for (Ask& ask : asks_) {
        if (ask.target != from || ask.block_index != run.block_index) continue;
        if (from == first_target(run.block_index) && wanted(ask)) unserved_by_ = from;
        ask.target = next_target(ask);
        ask.sent = false;
        ++counters_.targets_skipped;
      }
    }
  }
  if (message.kind == MessageKind::fetch_lost) send_retransmit_requests(from, runs, outbox);
  return true;
}

void FetchRing::send_retransmit_requests(Rank responder, const std::vector<LostRun>& runs,
                                         Outbox& outbox) {
  for (std::size_t i = 0; i < runs.size();) {
    // Ranges are sorted by block, so that one message carries all ranges of one root.
    const std::uint32_t block = runs[i].block_index;
    const Rank root = map_->layout().blocks()[block].root;
    Batch batch(outbox, root, MessageKind::retransmit_request, epoch_);
    for (; i < runs.size() && runs[i].block_index == block; ++i) batch.add(runs[i].psns);
    if (responder == root) continue;
    batch.flush();
    ++counters_.retransmit_requests_sent;
  }
}

void FetchRing::order_reads(Rank from, std::uint64_t key, const LostRun& run,
                            std::vector<ReadOrder>& reads) {
  Range rest = run.psns;
  while (!rest.empty()) {
    Range missing = map_->first_missing(run.block_index, rest);
    if (missing.empty()) return;
    rest.first = missing.last;
    // Leaves out chunks for which an earlier answer has already started a READ.
    while (!missing.empty()) {
      const std::uint32_t from_psn = reading_.first_clear(missing);
      std::uint32_t to_psn = from_psn;
      while (to_psn < missing.last && reading_.set(to_psn)) ++to_psn;
      if (from_psn < to_psn) reads.push_back({from, key, run.block_index, {from_psn, to_psn}});
      missing.first = std::max(to_psn, from_psn + 1);
    }
  }
}

void FetchRing::on_read_end(const ReadOrder& order, bool success, std::uint64_t bytes) {
  for (std::uint32_t psn = order.psns.first; psn < order.psns.last; ++psn) reading_.clear(psn);
  if (success) {
    if (enquires_) count_enquired(order.psns);
    counters_.chunks_read += order.psns.size();
    counters_.bytes_read += bytes;
    return;
  }
  for (Ask& ask : asks_) {
    const bool touched = ask.psns.first < order.psns.last && order.psns.first < ask.psns.last;
    if (!touched || ask.target != order.from) continue;
    ask.target = next_target(ask);
    ask.sent = false;
    ++counters_.targets_skipped;
  }
}

void FetchRing::count_enquired(Range psns) {
  for (std::uint32_t psn = psns.first; psn < psns.last; ++psn) {
    if (enquired_.test(psn)) ++counters_.chunks_lost;
    enquired_.clear(psn);
  }
}

bool FetchRing::on_request(Rank from, const Message& message, const KeyOf& key_of, Outbox& outbox) {
  std::vector<LostRun> runs;
  if (!split(message, runs)) return false;
  ReadyBatch ready(outbox, from, epoch_, key_of);
  Batch pending(outbox, from, MessageKind::fetch_pending, epoch_);
  Batch lost_here(outbox, from, MessageKind::fetch_lost, epoch_);
  for (const LostRun& run : runs) {
    forget_deferred(from, run.psns);
    Range rest = run.psns;
    while (!rest.empty()) {
      const Range missing = first_unavailable(run.block_index, rest);
      if (rest.first < missing.first) {
        ready.add(run.block_index, {rest.first, missing.first});
        ++counters_.ranges_served;
      }
      rest.first = missing.last;
      for (Range left = missing; !left.empty();) {
        const Range part = lost_or_late(left);
        left.first = part.last;
        (proven_.test(part.first) ? lost_here : pending).add(part);
        deferred_.insert({from, run.block_index, part, proven_.test(part.first)});
        ++counters_.ranges_deferred;
        // If no chunk of another rank's block has arrived here, this rank cannot know whether the
        // block was sent. So it also asks its left neighbour, and requests travel around the ring
        // to the root ([Khalilov24] 3.3).
        if (root_of(run.block_index) != me_ && nothing_came(*map_, run.block_index))
          ask_for({run.block_index, part, false}, message.argument == kEnquiry);
      }
    }
  }
  ready.flush();
  pending.flush();
  lost_here.flush();
  return true;
}

/// Removes `psns` from the deferred ranges of a rank, because the answer to its new request
/// replaces the earlier answers.
void FetchRing::forget_deferred(Rank from, Range psns) {
  auto at = deferred_.lower_bound({from, 0, psns, false});
  // The range before may reach into `psns`.
  if (at != deferred_.begin() && std::prev(at)->from == from) --at;
  while (at != deferred_.end() && at->from == from && at->psns.first < psns.last) {
    if (at->psns.last <= psns.first) {
      ++at;
      continue;
    }
    const Deferred old = *at;
    at = deferred_.erase(at);
    for (const Range rest : {Range{old.psns.first, std::min(old.psns.last, psns.first)},
                             Range{std::max(old.psns.first, psns.last), old.psns.last}}) {
      if (!rest.empty()) deferred_.insert({from, old.block_index, rest, old.answered_lost});
    }
  }
}

// Sends "lost" for each range for which this rank answered "pending", if the range now proves to be
// lost here, too. Otherwise the requester would not learn that two ranks lost the range, and would
// not ask the root to retransmit.
void FetchRing::correct_deferred(Outbox& outbox) {
  std::set<Deferred> corrected;
  for (const Deferred& waiting : std::exchange(deferred_, {})) {
    if (waiting.answered_lost) {
      corrected.insert(corrected.end(), waiting);
      continue;
    }
    Batch lost_here(outbox, waiting.from, MessageKind::fetch_lost, epoch_);
    for (Range left = waiting.psns; !left.empty();) {
      const Range part = lost_or_late(left);
      left.first = part.last;
      // If the range has meanwhile arrived, this rank does not send "lost", because it sends
      // "ready" next.
      const bool lost = proven_.test(part.first);
      if (lost && !map_->first_missing(waiting.block_index, part).empty()) lost_here.add(part);
      corrected.insert(corrected.end(), {waiting.from, waiting.block_index, part, lost});
    }
    lost_here.flush();
  }
  deferred_ = std::move(corrected);
}

Range FetchRing::lost_or_late(Range psns) const {
  const bool lost = proven_.test(psns.first);
  std::uint32_t end = psns.first + 1;
  while (end < psns.last && proven_.test(end) == lost) ++end;
  return {psns.first, end};
}

Range FetchRing::first_unavailable(std::uint32_t block_index, Range psns) const {
  Range missing = map_->first_missing(block_index, psns);
  if (missing.empty()) missing = {psns.last, psns.last};
  // Chunks in withheld_ (not multicast yet) are marked as present, so withheld_ and `missing` never
  // overlap.
  const Range held{std::max(withheld_.first, psns.first), std::min(withheld_.last, psns.last)};
  return !held.empty() && held.first < missing.first ? held : missing;
}

void FetchRing::serve_deferred(const KeyOf& key_of, Outbox& outbox) {
  Rank to = kNoRank;
  std::optional<ReadyBatch> batch;
  std::erase_if(deferred_, [&](const Deferred& waiting) {
    if (!first_unavailable(waiting.block_index, waiting.psns).empty()) return false;
    if (waiting.from != to) {
      if (batch) batch->flush();
      to = waiting.from;
      batch.emplace(outbox, to, epoch_, key_of);
    }
    batch->add(waiting.block_index, waiting.psns);
    ++counters_.ranges_served;
    return true;
  });
  if (batch) batch->flush();
}

bool FetchRing::on_retransmit_request(Instant now, const Message& message,
                                      std::vector<Range>& again) {
  std::vector<LostRun> runs;
  if (!split(message, runs)) return false;
  if (now - again_since_ > settings_.linger) {
    again_ = Bitmap(map_->layout().chunk_count());
    again_since_ = now;
  }
  const std::vector<Block>& blocks = map_->layout().blocks();
  const bool ours = std::all_of(runs.begin(), runs.end(), [&](const LostRun& run) {
    return blocks[run.block_index].root == me_;
  });
  if (!ours) return false;
  for (const LostRun& run : runs) {
    for (std::uint32_t psn = run.psns.first; psn < run.psns.last; ++psn) {
      // A chunk in withheld_ has not been multicast yet, so its first transmission will answer the
      // request.
      const bool withheld = psn >= withheld_.first && psn < withheld_.last;
      if (withheld || !again_.set(psn)) continue;
      if (!again.empty() && again.back().last == psn) {
        ++again.back().last;
      } else {
        again.push_back({psn, psn + 1});
      }
    }
  }
  return true;
}

Instant FetchRing::next_deadline() const {
  Instant deadline = kNever;
  for (const Ask& ask : asks_) {
    if (ask.sent && from_ == FetchFrom::root) continue;
    deadline = std::min(deadline, ask.sent ? ask.heard + patience_of(ask) : Instant{});
  }
  return deadline;
}

}  // namespace tutti::protocol
