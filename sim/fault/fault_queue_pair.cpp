#include "sim/fault/fault_queue_pair.hpp"

#include <algorithm>
#include <limits>

#include "wire/header.hpp"

namespace tutti::device::fault {

namespace {

constexpr std::uint64_t kNotByCount = std::numeric_limits<std::uint64_t>::max();

std::uint32_t chunk_count(const ChunkRun& run) {
  return static_cast<std::uint32_t>((run.data.size() + run.chunk_bytes - 1) / run.chunk_bytes);
}

}  // namespace

FaultQueuePair::FaultQueuePair(MulticastQueuePair& inner, FaultContext& context)
    : inner_(&inner),
      context_(&context),
      sends_(context.plan.concerns(FaultSite::sender, Packet::chunk)),
      receives_(context.plan.concerns(FaultSite::receiver, Packet::chunk)) {}

// ---- sender -------------------------------------------------------------------------------------

Result<std::uint32_t> FaultQueuePair::post_part(const ChunkRun& run, std::uint32_t first,
                                                std::uint32_t count) {
  const std::size_t at = std::size_t{first} * run.chunk_bytes;
  const std::size_t size = std::min(std::size_t{count} * run.chunk_bytes, run.data.size() - at);
  return inner_->post({.epoch = run.epoch,
                       .first_psn = run.first_psn + first,
                       .data = run.data.subspan(at, size),
                       .chunk_bytes = run.chunk_bytes,
                       .to = run.to});
}

Result<std::uint32_t> FaultQueuePair::post(const ChunkRun& run) {
  if (!sends_) return inner_->post(run);
  const std::uint32_t count = chunk_count(run);
  const auto fate_of = [&](std::uint32_t chunk) {
    const std::uint32_t psn = run.first_psn + chunk;
    return fate({.place = FaultSite::sender,
                 .epoch = run.epoch,
                 .psn = psn,
                 .source = context_->rank,
                 .occurrence = sent_.of(run.epoch, psn, context_->rank)});
  };
  std::uint32_t done = 0;
  while (done < count) {
    const FaultRule* rule = fate_of(done);
    std::uint32_t accepted = 1;
    if (rule == nullptr || rule->action == Action::duplicate) {
      // Consecutive chunks to which no rule applies are posted by one call.
      std::uint32_t end = done + 1;
      while (rule == nullptr && end < count && fate_of(end) == nullptr) ++end;
      auto posted = post_part(run, done, end - done);
      if (!posted) return posted.status();
      accepted = *posted;
      if (rule != nullptr && accepted > 0) {
        auto again = post_part(run, done, 1);
        if (!again) return again.status();
        context_->counters->add(&Injected::chunks_duplicated, *again);
      }
      for (std::uint32_t i = 0; i < accepted; ++i) {
        sent_.count(run.epoch, run.first_psn + done + i, context_->rank);
      }
      if (accepted < end - done) return done + accepted;
    } else {
      const std::size_t at = std::size_t{done} * run.chunk_bytes;
      sent_.count(run.epoch, run.first_psn + done, context_->rank);
      context_->counters->add(&Injected::chunks_dropped_at_sender);
      context_->counters->add(&Injected::bytes_dropped_at_sender,
                              std::min<std::size_t>(run.chunk_bytes, run.data.size() - at));
    }
    done += accepted;
  }
  return done;
}

Status FaultQueuePair::post_probe(std::uint32_t attempt, std::uint32_t bytes) {
  const FaultRule* rule = fate({.place = FaultSite::sender,
                                .packet = Packet::probe,
                                .source = context_->rank,
                                .occurrence = probes_sent_++});
  if (rule == nullptr) return inner_->post_probe(attempt, bytes);
  context_->counters->add(&Injected::probes_dropped);
  return {};
}

// ---- receiver -----------------------------------------------------------------------------------

std::size_t FaultQueuePair::poll(std::span<ReceivedChunk> chunks) {
  if (!receives_) return inner_->poll(chunks);
  const Instant now{context_->now_ns.load(std::memory_order_relaxed)};
  std::size_t filled = let_go(now, chunks);
  // A result of 0 would tell the caller that the queue is empty. If all chunks of a batch are
  // dropped, the next batch is therefore polled at once.
  while (filled < chunks.size()) {
    const std::size_t arrived = inner_->poll(chunks.subspan(filled));
    if (arrived == 0) break;
    const std::size_t before = filled;
    for (std::size_t i = 0; i < arrived; ++i) {
      ReceivedChunk chunk = chunks[before + i];
      if (pass(now, chunk)) chunks[filled++] = chunk;
    }
    if (filled > before) break;
    inner_->release();
  }
  note_due();
  return filled;
}

void FaultQueuePair::release() {
  out_.clear();
  inner_->release();
}

Instant FaultQueuePair::next_arrival(Instant now) {
  context_->now_ns.store(now.nanoseconds, std::memory_order_relaxed);
  return std::min(next_due(), inner_->next_arrival(now));
}

std::size_t FaultQueuePair::let_go(Instant now, std::span<ReceivedChunk> chunks) {
  std::size_t filled = 0;
  for (std::size_t i = 0; i < held_.size() && filled < chunks.size();) {
    Held& one = held_[i];
    if (one.due > now && one.due_count > passed_) {
      ++i;
      continue;
    }
    chunks[filled++] = one.chunk;
    // The bytes keep their address when the vector is moved, so the chunk can still refer to them.
    out_.push_back(std::move(one));
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return filled;
}

bool FaultQueuePair::pass(Instant now, ReceivedChunk& chunk) {
  const Subject subject{.place = FaultSite::receiver,
                        .epoch = chunk.epoch,
                        .psn = chunk.psn,
                        .source = chunk.source,
                        .receiver = context_->rank,
                        .occurrence = received_.count(chunk.epoch, chunk.psn, chunk.source)};
  const FaultRule* rule = fate(subject);
  InjectedCounters& counters = *context_->counters;
  ++passed_;
  if (rule == nullptr) return true;
  switch (rule->action) {
    case Action::drop:
      --passed_;
      counters.add(&Injected::chunks_dropped_at_receiver);
      counters.add(&Injected::bytes_dropped_at_receiver, chunk.payload.size());
      return false;
    case Action::delay:
      hold(chunk, now + rule->by, kNotByCount);
      counters.add(&Injected::chunks_delayed);
      return false;
    case Action::reorder:
      hold(chunk, now + rule->by, passed_ + rule->distance);
      counters.add(&Injected::chunks_reordered);
      return false;
    case Action::duplicate:
      hold(chunk, now + rule->by, kNotByCount);
      counters.add(&Injected::chunks_duplicated);
      return true;
    case Action::corrupt:
      damage(subject, chunk);
      counters.add(&Injected::chunks_corrupted);
      counters.add(&Injected::bytes_corrupted, chunk.payload.size());
      return true;
  }
  return true;
}

void FaultQueuePair::hold(const ReceivedChunk& chunk, Instant due, std::uint64_t due_count) {
  Held held{.chunk = chunk, .bytes = {}, .due = due, .due_count = due_count};
  held.bytes.assign(chunk.header, chunk.header + wire::kHeaderBytes);
  held.bytes.insert(held.bytes.end(), chunk.payload.begin(), chunk.payload.end());
  held.chunk.header = held.bytes.data();
  held.chunk.payload = std::span<const std::byte>(held.bytes).subspan(wire::kHeaderBytes);
  held_.push_back(std::move(held));
}

void FaultQueuePair::damage(const Subject& subject, ReceivedChunk& chunk) {
  hold(chunk, {}, 0);
  Held copy = std::move(held_.back());
  held_.pop_back();
  // Corrupts only the tag or the payload, because a changed PSN or epoch would turn the chunk into
  // another chunk.
  const std::size_t bits = (copy.bytes.size() - wire::kTagOffset) * 8;
  const std::uint64_t bit = wire::kTagOffset * 8 + detail(context_->plan, subject) % bits;
  copy.bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  chunk = copy.chunk;
  out_.push_back(std::move(copy));
}

void FaultQueuePair::note_due() {
  if (held_.empty() && next_due() == kNever) return;
  Instant due = kNever;
  for (const Held& held : held_) {
    due = std::min(due, held.due_count <= passed_ ? Instant{} : held.due);
  }
  next_due_ns_.store(due.nanoseconds, std::memory_order_relaxed);
}

}  // namespace tutti::device::fault
