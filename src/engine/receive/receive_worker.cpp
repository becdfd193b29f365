#include "engine/receive/receive_worker.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/circular.hpp"

namespace tutti::engine {

using protocol::Block;

class ReceiveWorker::Pin {
 public:
  explicit Pin(ReceiveWorker& worker) : worker_(worker) {}
  ~Pin() {
    if (view_ != nullptr) move();
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  /// Returns the present view. The first call takes the read guard, which protects the view from
  /// then on.
  const ReceiveView& view() {
    if (view_ == nullptr) {
      move();
      view_ = worker_.board_.view.load(std::memory_order_seq_cst);
    }
    return *view_;
  }
  bool held() const { return view_ != nullptr; }

 private:
  void move() {
    std::atomic<std::uint64_t>& pin = worker_.pin_;
    pin.store(pin.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  }

  ReceiveWorker& worker_;
  const ReceiveView* view_ = nullptr;
};

bool ReceiveWorker::due() const {
  if (board_.drains_requested.load(std::memory_order_seq_cst) !=
      drains_answered_.load(std::memory_order_relaxed)) {
    return true;
  }
  const std::uint64_t publications = board_.publications.load(std::memory_order_seq_cst);
  return std::any_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    return !stream.unexpected.empty() && stream.publications_checked != publications;
  });
}

bool ReceiveWorker::poll(Instant now) {
  // The drain request is read before the queue pairs are polled, so that the answer covers all
  // chunks that had arrived when the drain was requested.
  const std::uint64_t asked = board_.drains_requested.load(std::memory_order_seq_cst);
  bool worked = false;
  Instant next = kNever;
  for (Stream& stream : streams_) {
    worked |= place_unexpected(now, stream);
    (void)stream.pair->next_arrival(now);
    worked |= receive(now, stream);
    next = std::min(next, stream.pair->next_arrival(now));
  }
  next_arrival_ = next;
  const bool polled_once = answer(drains_polled_once_, asked);
  const bool answered = !worked && answer(drains_answered_, asked);
  if (polled_once || answered) tell(true);
  return worked;
}

bool ReceiveWorker::answer(std::atomic<std::uint64_t>& answered, std::uint64_t asked) {
  if (answered.load(std::memory_order_relaxed) == asked) return false;
  answered.store(asked, std::memory_order_seq_cst);
  return true;
}

// Takes a batch from one queue pair. During the poll the queue pair may ask `landing` for the
// address of a chunk. The worker holds the read guard from the first call of `landing` until the
// chunks are marked.
bool ReceiveWorker::receive(Instant now, Stream& stream) {
  bool urgent = false;
  bool held = false;
  std::size_t count = 0;
  {
    Pin pin(*this);
    polled_ = &stream;
    poll_pin_ = &pin;
    count = stream.pair->poll(chunks_);
    poll_pin_ = nullptr;
    if (count > 0) {
      Batch batch{&pin.view(), now};
      for (std::size_t i = 0; i < count; ++i) on_chunk(batch, stream, chunks_[i]);
      urgent = close(batch, stream.subgroup);
    }
    held = pin.held();
  }
  if (count > 0) {
    ++counters_.batches;
    stream.pair->release();
  }
  // The owner may be waiting until this worker releases its read guard, or sleep although a frame
  // of a reliable connection or a probe has arrived for it.
  const bool arrivals = stream.pair->arrivals_wait();
  if (held || arrivals) tell(urgent || arrivals);
  return count > 0;
}

ReceiveWorker::Judgement ReceiveWorker::judge(const ReceiveView& view, Stream& stream,
                                              const device::MessageHead& chunk) const {
  if (view.state == ReceiveView::State::closed) return Judgement::unwanted;
  if (chunk.epoch != view.epoch) {
    return circular_before(chunk.epoch, view.epoch) ? Judgement::stale : Judgement::unexpected;
  }
  if (view.state == ReceiveView::State::over) return Judgement::stale;
  return judge_current(view, stream, chunk.psn, chunk.source, chunk.bytes);
}

ReceiveWorker::Judgement ReceiveWorker::judge_current(const ReceiveView& view, Stream& stream,
                                                      std::uint32_t psn, Rank source,
                                                      std::size_t bytes) const {
  if (view.map == nullptr) return Judgement::misfit;
  if (!plausible(*view.layout, psn, source, bytes, stream.last_block)) return Judgement::misfit;
  // A chunk of another subgroup is rejected, because another worker marks the chunks of that
  // subgroup.
  const Block& block = view.layout->blocks()[stream.last_block];
  if (view.layout->subgroup_of(block, psn) != stream.subgroup) return Judgement::malformed;
  return here(view, stream, psn) ? Judgement::duplicate : Judgement::place;
}

void ReceiveWorker::count(Judgement judgement) {
  if (judgement == Judgement::stale) ++counters_.stale;
  if (judgement == Judgement::malformed || judgement == Judgement::misfit) ++counters_.malformed;
  if (judgement == Judgement::duplicate) ++counters_.duplicate;
}

device::Placement ReceiveWorker::landing(const device::MessageHead& chunk, bool begins) {
  using Where = device::Placement::Where;
  if (poll_pin_ == nullptr) return {};
  const ReceiveView& view = poll_pin_->view();
  const Judgement judgement = judge(view, *polled_, chunk);
  // A chunk that does not fit the layout goes to staging, where `on_misfit` checks its integrity.
  if (judgement == Judgement::unexpected || judgement == Judgement::misfit) return {Where::staging};
  if (judgement == Judgement::place) {
    const Block& block = view.layout->blocks()[polled_->last_block];
    return {Where::buffer, view.buffer + view.layout->offset_of(block, chunk.psn)};
  }
  if (begins) count(judgement);
  return {};
}

void ReceiveWorker::on_chunk(Batch& batch, Stream& stream, const device::ReceivedChunk& chunk) {
  const ReceiveView& view = *batch.view;
  const Judgement judgement =
      judge(view, stream, {chunk.epoch, chunk.psn, chunk.source, chunk.payload.size()});
  if (judgement == Judgement::unexpected) keep(stream, chunk);
  if (judgement == Judgement::misfit) on_misfit(stream, chunk);
  if (judgement != Judgement::place) {
    count(judgement);
    return;
  }
  const std::uint32_t b = stream.last_block;
  const Block& block = view.layout->blocks()[b];
  if (!stream.pair->copy_and_verify(chunk,
                                    view.buffer + view.layout->offset_of(block, chunk.psn))) {
    ++counters_.damaged;
    return;
  }
  if (chunk.psn + 1 < view.map->horizon(b, stream.subgroup)) ++counters_.out_of_order;
  note(batch, stream.subgroup, b, chunk.psn, chunk.payload.size());
}

/// Reports an intact chunk that does not fit the layout. If the integrity check fails, the header
/// is damaged or forged, and the chunk is ignored.
void ReceiveWorker::on_misfit(Stream& stream, const device::ReceivedChunk& chunk) {
  std::vector<std::byte> aside(chunk.payload.size());
  if (stream.pair->copy_and_verify(chunk, aside.data()))
    report({chunk.epoch, chunk.source, aside.size()});
}

void ReceiveWorker::report(const Misfit& misfit) {
  if (misfit_reported_.load(std::memory_order_acquire)) return;
  misfit_ = misfit;
  misfit_reported_.store(true, std::memory_order_release);
  tell(true);
}

std::optional<Misfit> ReceiveWorker::take_misfit() {
  if (!misfit_reported_.load(std::memory_order_acquire)) return std::nullopt;
  const Misfit misfit = misfit_;
  misfit_reported_.store(false, std::memory_order_release);
  return misfit;
}

// True if a chunk must not be written, because it is present or being READ. A READ may already have
// written verified bytes, which a damaged datagram must not overwrite.
bool ReceiveWorker::here(const ReceiveView& view, const Stream& stream, std::uint32_t psn) const {
  return view.map->has(stream.last_block, psn) || view.read_locked->test(psn);
}

void ReceiveWorker::note(Batch& batch, std::uint32_t subgroup, std::uint32_t block_index,
                         std::uint32_t psn, std::size_t bytes) {
  const ReceiveView& view = *batch.view;
  if (!view.map->mark_atomic(block_index, subgroup, psn)) return;
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

/// Publishes the results of a batch; returns true if the owner has something to do at once.
bool ReceiveWorker::close(Batch& batch, std::uint32_t subgroup) {
  if (batch.fresh == 0) return false;
  arrivals_.push(batch.arrival);
  batch.view->map->count(subgroup, batch.fresh);
  // Two workers may count their last chunks at the same time. The atomic exchange makes sure that
  // one of them sees the count of the other.
  board_.news.exchange(true, std::memory_order_seq_cst);
  return batch.block_ended || batch.view->map->complete();
}

void ReceiveWorker::tell(bool urgent) {
  board_.news.store(true, std::memory_order_seq_cst);
  if (urgent || board_.eager.load(std::memory_order_seq_cst)) board_.wake_owner();
}

void ReceiveWorker::fail(Status reason) {
  if (failed_.load(std::memory_order_relaxed)) return;
  failure_ = std::move(reason);
  failed_.store(true, std::memory_order_release);
  tell(true);
}

// ---- unexpected chunks --------------------------------------------------------------------------

void ReceiveWorker::keep(Stream& stream, const device::ReceivedChunk& chunk) {
  using Kept = UnexpectedChunks::Kept;
  const Kept kept = stream.unexpected.keep(chunk, *stream.pair);
  if (kept == Kept::duplicate) ++counters_.duplicate;
  if (kept == Kept::damaged) ++counters_.damaged;
  if (kept == Kept::no_room) ++counters_.unexpected_dropped;
  if (kept != Kept::stored) return;
  ++counters_.unexpected;
  holds_unexpected_.store(true, std::memory_order_seq_cst);
}

bool ReceiveWorker::place_unexpected(Instant now, Stream& stream) {
  if (stream.unexpected.empty()) return false;
  const std::uint64_t publications = board_.publications.load(std::memory_order_seq_cst);
  if (publications == stream.publications_checked) return false;
  stream.publications_checked = publications;
  bool urgent = false;
  {
    Pin pin(*this);
    const ReceiveView& view = pin.view();
    counters_.stale.add(stream.unexpected.drop_before(view.epoch));
    Batch batch{&view, now};
    for (const UnexpectedChunks::Chunk& chunk : stream.unexpected.take(view.epoch)) {
      on_unexpected_chunk(batch, stream, chunk);
    }
    urgent = close(batch, stream.subgroup);
  }
  const bool held = std::any_of(streams_.begin(), streams_.end(),
                                [](const Stream& one) { return !one.unexpected.empty(); });
  holds_unexpected_.store(held, std::memory_order_seq_cst);
  tell(urgent);
  return true;
}

void ReceiveWorker::on_unexpected_chunk(Batch& batch, Stream& stream,
                                        const UnexpectedChunks::Chunk& chunk) {
  const ReceiveView& view = *batch.view;
  const std::span<const std::byte> payload = chunk.payload();
  if (view.state != ReceiveView::State::receiving) {
    ++counters_.stale;
    return;
  }
  const Judgement judgement = judge_current(view, stream, chunk.psn, chunk.source, payload.size());
  if (judgement == Judgement::misfit) report({view.epoch, chunk.source, payload.size()});
  if (judgement != Judgement::place) {
    count(judgement);
    return;
  }
  const Block& block = view.layout->blocks()[stream.last_block];
  std::memcpy(view.buffer + view.layout->offset_of(block, chunk.psn), payload.data(),
              payload.size());
  note(batch, stream.subgroup, stream.last_block, chunk.psn, payload.size());
}

}  // namespace tutti::engine
