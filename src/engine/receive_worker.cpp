#include "engine/receive_worker.hpp"

#include <algorithm>
#include <cstring>

#include "base/circular.hpp"

namespace tutti::engine {

using protocol::Block;

class ReceiveWorker::Pin {
 public:
  explicit Pin(ReceiveWorker& worker) : pin_(worker.pin_) { move(); }
  ~Pin() { move(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  void move() { pin_.store(pin_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst); }

  std::atomic<std::uint64_t>& pin_;
};

std::vector<int> ReceiveWorker::descriptors() const {
  std::vector<int> descriptors;
  for (const Stream& stream : streams_) descriptors.push_back(stream.pair->receive_descriptor());
  return descriptors;
}

bool ReceiveWorker::due() const {
  if (board_.looks_asked.load(std::memory_order_seq_cst) !=
      looks_answered_.load(std::memory_order_relaxed)) {
    return true;
  }
  const std::uint64_t publications = board_.publications.load(std::memory_order_seq_cst);
  return std::any_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    return !stream.early.empty() && stream.early_checked != publications;
  });
}

bool ReceiveWorker::poll(Instant now) {
  // Read first: the answer is about what was there when the question was asked.
  const std::uint64_t asked = board_.looks_asked.load(std::memory_order_seq_cst);
  bool worked = false;
  Instant next = kNever;
  for (Stream& stream : streams_) {
    worked |= place_early(now, stream);
    (void)stream.pair->next_arrival(now);
    worked |= receive(now, stream);
    next = std::min(next, stream.pair->next_arrival(now));
  }
  next_arrival_ = next;
  const bool glanced = answer(looks_glanced_, asked);
  const bool answered = !worked && answer(looks_answered_, asked);
  if (glanced || answered) tell(true);
  return worked;
}

bool ReceiveWorker::answer(std::atomic<std::uint64_t>& answered, std::uint64_t asked) {
  if (answered.load(std::memory_order_relaxed) == asked) return false;
  answered.store(asked, std::memory_order_seq_cst);
  return true;
}

bool ReceiveWorker::receive(Instant now, Stream& stream) {
  const std::size_t count = stream.pair->poll(chunks_);
  if (count == 0) return false;
  ++counters_.batches;
  bool urgent = false;
  {
    const Pin pin(*this);
    Batch batch{board_.view.load(std::memory_order_seq_cst), now};
    for (std::size_t i = 0; i < count; ++i) on_chunk(batch, stream, chunks_[i]);
    urgent = close(batch, stream.subgroup);
  }
  stream.pair->release();
  tell(urgent);
  return true;
}

void ReceiveWorker::on_chunk(Batch& batch, Stream& stream, const device::ReceivedChunk& chunk) {
  const ReceiveView& view = *batch.view;
  if (view.state == ReceiveView::State::closed) return;
  if (chunk.epoch != view.epoch) {
    if (circular_before(chunk.epoch, view.epoch)) {
      ++counters_.stale;
    } else {
      keep(stream, chunk);
    }
    return;
  }
  if (view.state == ReceiveView::State::over) {
    ++counters_.stale;
    return;
  }
  if (!belongs(view, stream, chunk.psn, chunk.source, chunk.payload.size())) {
    ++counters_.malformed;
    return;
  }
  if (here(view, stream, chunk.psn)) {
    ++counters_.duplicate;
    return;
  }
  const std::uint32_t b = stream.last_block;
  const Block& block = view.layout->blocks()[b];
  if (!stream.pair->place(chunk, view.buffer + view.layout->offset_of(block, chunk.psn))) {
    ++counters_.damaged;
    return;
  }
  if (chunk.psn + 1 < view.map->horizon(b, stream.subgroup)) ++counters_.out_of_order;
  note(batch, stream.subgroup, b, chunk.psn, chunk.payload.size());
}

bool ReceiveWorker::belongs(const ReceiveView& view, Stream& stream, std::uint32_t psn, Rank source,
                            std::size_t bytes) {
  if (view.map == nullptr || !plausible(*view.layout, psn, source, bytes, stream.last_block)) {
    return false;
  }
  // Another subgroup's chunks are another worker's to mark.
  const Block& block = view.layout->blocks()[stream.last_block];
  return view.layout->subgroup_of(block, psn) == stream.subgroup;
}

// A chunk that is being read may be in place in part, verified: a datagram that turns out damaged
// must not overwrite it.
bool ReceiveWorker::here(const ReceiveView& view, const Stream& stream, std::uint32_t psn) const {
  return view.map->has(stream.last_block, psn) || view.kept_off->test(psn);
}

void ReceiveWorker::note(Batch& batch, std::uint32_t subgroup, std::uint32_t block_index,
                         std::uint32_t psn, std::size_t bytes) {
  const ReceiveView& view = *batch.view;
  if (!view.map->mark_beside(block_index, subgroup, psn)) return;
  ++counters_.received;
  ++batch.fresh;
  if (psn + 1 == view.layout->blocks()[block_index].psns.last) batch.block_ended = true;
  Arrival& arrival = batch.arrival;
  if (arrival.bytes > 0 && arrival.block_index != block_index) {
    arrivals_.push(arrival);
    arrival.bytes = 0;
  }
  arrival = {view.epoch, block_index, arrival.bytes + bytes, batch.now};
}

/// Makes the batch count; returns whether the driver has something to do at once.
bool ReceiveWorker::close(Batch& batch, std::uint32_t subgroup) {
  if (batch.fresh == 0) return false;
  arrivals_.push(batch.arrival);
  batch.view->map->count(subgroup, batch.fresh);
  // An exchange: of two workers that count their last chunks together one sees the other's.
  board_.news.exchange(true, std::memory_order_seq_cst);
  return batch.block_ended || batch.view->map->complete();
}

void ReceiveWorker::tell(bool urgent) {
  board_.news.store(true, std::memory_order_seq_cst);
  if (urgent || board_.eager.load(std::memory_order_seq_cst)) board_.wake_driver();
}

// ---- chunks that come before their collective has begun here
// ------------------------------------

void ReceiveWorker::keep(Stream& stream, const device::ReceivedChunk& chunk) {
  bool damaged = false;
  if (stream.early.keep(chunk, *stream.pair, damaged)) {
    ++counters_.early;
    holds_early_.store(true, std::memory_order_seq_cst);
  } else {
    ++(damaged ? counters_.damaged : counters_.early_dropped);
  }
}

bool ReceiveWorker::place_early(Instant now, Stream& stream) {
  if (stream.early.empty()) return false;
  const std::uint64_t publications = board_.publications.load(std::memory_order_seq_cst);
  if (publications == stream.early_checked) return false;
  stream.early_checked = publications;
  bool urgent = false;
  {
    const Pin pin(*this);
    const ReceiveView& view = *board_.view.load(std::memory_order_seq_cst);
    counters_.stale.add(stream.early.drop_before(view.epoch));
    Batch batch{&view, now};
    for (const EarlyStore::Chunk& chunk : stream.early.take(view.epoch)) {
      on_early_chunk(batch, stream, chunk);
    }
    urgent = close(batch, stream.subgroup);
  }
  const bool held = std::any_of(streams_.begin(), streams_.end(),
                                [](const Stream& one) { return !one.early.empty(); });
  holds_early_.store(held, std::memory_order_seq_cst);
  tell(urgent);
  return true;
}

void ReceiveWorker::on_early_chunk(Batch& batch, Stream& stream, const EarlyStore::Chunk& chunk) {
  const ReceiveView& view = *batch.view;
  if (view.state != ReceiveView::State::receiving) {
    ++counters_.stale;
  } else if (!belongs(view, stream, chunk.psn, chunk.source, chunk.payload.size())) {
    ++counters_.malformed;
  } else if (here(view, stream, chunk.psn)) {
    ++counters_.duplicate;
  } else {
    const Block& block = view.layout->blocks()[stream.last_block];
    std::memcpy(view.buffer + view.layout->offset_of(block, chunk.psn), chunk.payload.data(),
                chunk.payload.size());
    note(batch, stream.subgroup, stream.last_block, chunk.psn, chunk.payload.size());
  }
}

}  // namespace tutti::engine
