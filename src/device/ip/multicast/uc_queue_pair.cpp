#include "device/ip/multicast/uc_queue_pair.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "device/ip/chunk_shape.hpp"

namespace tutti::device::ip {

namespace {

// Size in bytes of `aside_`, the buffer for bytes that are not received directly to their
// destination. One half has room for the expected fragments of a receive, and the other half for
// the longest message of a socket.
constexpr std::size_t kAsideBytes = 2 * 65536;
constexpr std::size_t kFlatSlots = 4;
// Size in bytes at which a batch ends, so that tags are computed while the bytes are in the
// second-level cache.
constexpr std::size_t kBatchBytes = 128 * 1024;
// The number of receives per poll is bounded, so that a flood of unwanted datagrams cannot keep the
// thread busy.
constexpr int kMaxReceives = 1024;

}  // namespace

UcQueuePair::UcQueuePair(const GroupSettings& settings, std::uint32_t subgroup, bool offload)
    : IpMulticastQueuePair(settings, subgroup, offload),
      sources_(settings.size),
      flat_(kFlatSlots),
      aside_(std::make_unique_for_overwrite<std::byte[]>(kAsideBytes)) {}

// ---- sending ------------------------------------------------------------------------------------

Result<std::uint32_t> UcQueuePair::post(const ChunkRun& run) {
  if (run.chunk_bytes == 0 || run.chunk_bytes > message_bytes_for_fragment(fragment_bytes_)) {
    return failure(Code::invalid_argument,
                   "a UC message with fragments of {} bytes cannot carry a chunk of {} bytes: "
                   "use chunks of 1 to {} bytes",
                   fragment_bytes_, run.chunk_bytes, message_bytes_for_fragment(fragment_bytes_));
  }
  const std::size_t end = begin_post(run);
  const auto count = static_cast<std::uint32_t>((end + run.chunk_bytes - 1) / run.chunk_bytes);
  std::uint32_t accepted = 0;
  while (accepted < count) {
    std::uint32_t messages = 0;
    while (accepted + messages < count) {
      const std::size_t at = std::size_t{accepted + messages} * run.chunk_bytes;
      const std::size_t bytes = std::min<std::size_t>(run.chunk_bytes, run.data.size() - at);
      if (messages > 0 && !joins(bytes)) break;
      add_message(run.epoch, run.first_psn + accepted + messages, run.data.subspan(at, bytes));
      ++messages;
    }
    const std::size_t fragments = sender().count();
    auto sent = sender().flush(send_fd(), nullptr);
    if (!sent) return sent.status();
    counters().multicast_datagrams_sent += *sent;
    // If only some fragments of a message were accepted, the message is sent again from its start.
    const std::size_t a_message = fragments_of(run.chunk_bytes);
    const std::uint32_t whole =
        *sent == fragments ? messages : static_cast<std::uint32_t>(*sent / a_message);
    const std::size_t from = std::size_t{accepted} * run.chunk_bytes;
    accepted += whole;
    counters().multicast_bytes_sent +=
        std::min(run.data.size(), std::size_t{accepted} * run.chunk_bytes) - from;
    if (*sent < fragments) return posted(run, accepted, true);
  }
  return posted(run, accepted, end < run.data.size());
}

/// True if one more message fits into the segmented send that is being filled.
bool UcQueuePair::joins(std::size_t message_bytes) {
  const std::size_t fragments = fragments_of(message_bytes);
  const std::size_t first = std::min<std::size_t>(message_bytes, fragment_bytes_);
  return sender().fits(wire::kFragmentHeaderBytes + first) &&
         sender().has_room(fragments, message_bytes + fragments * wire::kFragmentHeaderBytes);
}

void UcQueuePair::add_message(std::uint32_t epoch, std::uint32_t psn,
                              std::span<const std::byte> message) {
  std::byte* header = sender().header_slot();
  write_header(wire::PacketKind::message, epoch, psn, message, header);
  const auto encoded = wire::decode(std::span<const std::byte>(header, wire::kHeaderBytes));
  if (!encoded) return;
  wire::UcFragment fragment{.message = *encoded,
                            .message_bytes = static_cast<std::uint32_t>(message.size())};
  while (fragment.offset < message.size()) {
    fragment.bytes = std::min(fragment_bytes_, fragment.message_bytes - fragment.offset);
    wire::encode(fragment, sender().header_slot());
    sender().add(wire::kFragmentHeaderBytes, message.subspan(fragment.offset, fragment.bytes));
    fragment.offset += fragment.bytes;
  }
}

// ---- receiving ----------------------------------------------------------------------------------

bool UcQueuePair::Batch::holds(const wire::Header& message) const {
  return std::any_of(chunks.begin(), chunks.begin() + static_cast<std::ptrdiff_t>(filled),
                     [&](const ReceivedChunk& one) {
                       return one.epoch == message.epoch && one.psn == message.psn;
                     });
}

std::size_t UcQueuePair::poll(std::span<ReceivedChunk> chunks) {
  ++polls_;
  Batch batch{.chunks = chunks.first(std::min(chunks.size(), kMaxMessages))};
  take_aside(batch);
  for (int i = 0; i < kMaxReceives && !batch.over; ++i) {
    if (!receive(batch)) break;
    take_aside(batch);
  }
  return batch.filled;
}

/// Receives the first waiting message. Returns false if no message waits, or if the message is left
/// for the next poll because it does not belong to this batch.
bool UcQueuePair::receive(Batch& batch) {
  ++received().calls;
  const auto waiting = look(receive_descriptor());
  if (!waiting) return false;
  ++received().calls;
  if (receive_in_place(*waiting, batch)) return true;
  return !batch.over && flat_.receive(receive_descriptor()) > 0;
}

bool UcQueuePair::receive_in_place(const WaitingMessage& waiting, Batch& batch) {
  if (waiting.head_bytes < wire::kFragmentHeaderBytes) return false;
  const auto first =
      wire::decode_fragment(waiting.head(), waiting.datagram_bytes - wire::kFragmentHeaderBytes);
  if (!first || !ours(first->message, waiting.sender)) return false;
  if (batch.holds(first->message)) {
    batch.over = true;
    return false;
  }
  std::byte* const at = admit(waiting.storage.data(), *first);
  if (at == nullptr) return false;
  const std::size_t foreseen = foresee(waiting, *first, at + first->offset);
  if (foreseen == 0) return false;
  const std::size_t bytes =
      receive_scattered(receive_descriptor(), std::span(vectors_).first(2 * foreseen + 1));
  check_foreseen(waiting, *first, foreseen, bytes, batch);
  return true;
}

/// Prepares `vectors_` so that one receive writes the payloads of the waiting datagrams directly to
/// `at`. Returns how many of the datagrams belong to the same message as the fragment `first`,
/// provided that none was lost. Returns 0 if a direct receive saves nothing: most of the datagrams
/// belong to another message, or only one of many fragments is waiting.
std::size_t UcQueuePair::foresee(const WaitingMessage& waiting, const wire::UcFragment& first,
                                 std::byte* at) {
  const std::size_t left = first.message_bytes - first.offset;
  const std::size_t step = first.bytes;
  const std::size_t stride = waiting.datagram_bytes;
  const std::size_t waits = (waiting.bytes + stride - 1) / stride;
  const std::size_t count = std::min({waits, (left + step - 1) / step, kMaxFragments});
  if (2 * count < waits || (count == 1 && left > step)) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    vectors_[2 * i] = {headers_[i].data(), wire::kFragmentHeaderBytes};
    vectors_[2 * i + 1] = {at + i * step, std::min(step, left - i * step)};
  }
  // The bytes after the expected fragments go to `aside_`. Their offset in `aside_` is their offset
  // in the whole receive.
  const std::size_t before =
      (count - 1) * stride + wire::kFragmentHeaderBytes + vectors_[2 * count - 1].iov_len;
  vectors_[2 * count] = {aside_.get() + before, kAsideBytes - before};
  return count;
}

void UcQueuePair::check_foreseen(const WaitingMessage& waiting, const wire::UcFragment& first,
                                 std::size_t foreseen, std::size_t received_bytes, Batch& batch) {
  const std::size_t stride = waiting.datagram_bytes;
  Source& source = source_of(first);
  wire::UcFragment expected = first;
  std::size_t right = 0;
  for (; right < foreseen; ++right) {
    const std::size_t begin = right * stride;
    expected.bytes = static_cast<std::uint32_t>(vectors_[2 * right + 1].iov_len);
    const std::size_t came = begin < received_bytes ? std::min(stride, received_bytes - begin) : 0;
    if (came != wire::kFragmentHeaderBytes + expected.bytes) break;
    if (wire::decode_fragment(headers_[right], expected.bytes) != expected) break;
    if (admit(headers_[right].data(), expected) == nullptr) break;
    count_fragment(!source.staged);
    placed(source, expected, batch);
    expected.offset += expected.bytes;
  }
  put_aside(right, foreseen, stride, received_bytes);
  aside_sender_ = waiting.sender;
}

/// Copies the first unexpected datagram, at index `from`, and all later ones to `aside_`, where
/// `take_aside` handles them. The offset of a datagram in `aside_` is its offset in the whole
/// receive.
void UcQueuePair::put_aside(std::size_t from, std::size_t foreseen, std::size_t stride,
                            std::size_t received_bytes) {
  for (std::size_t i = from; i < foreseen; ++i) {
    std::byte* const at = aside_.get() + i * stride;
    const iovec& payload = vectors_[2 * i + 1];
    std::memcpy(at, headers_[i].data(), wire::kFragmentHeaderBytes);
    std::memcpy(at + wire::kFragmentHeaderBytes, payload.iov_base, payload.iov_len);
  }
  const std::size_t begin = std::min(from * stride, received_bytes);
  aside_left_ = {aside_.get() + begin, received_bytes - begin};
  aside_datagram_ = stride;
}

std::optional<std::span<const std::byte>> UcQueuePair::next_aside() {
  if (!held_.empty()) return std::exchange(held_, {});
  if (aside_left_.empty()) {
    const auto datagram = flat_.next();
    sender_ = &flat_.sender();
    return datagram;
  }
  sender_ = &aside_sender_;
  const auto datagram = aside_left_.first(std::min(aside_datagram_, aside_left_.size()));
  aside_left_ = aside_left_.subspan(datagram.size());
  return datagram;
}

void UcQueuePair::take_aside(Batch& batch) {
  while (!batch.over) {
    const auto datagram = next_aside();
    if (!datagram) return;
    take(*datagram, batch);
  }
}

void UcQueuePair::take(std::span<const std::byte> datagram, Batch& batch) {
  const auto header = accept(wire::PacketKind::message, datagram, *sender_);
  if (!header) return;
  if (batch.holds(*header)) {
    held_ = datagram;
    batch.over = true;
    return;
  }
  const std::size_t front = std::min(datagram.size(), wire::kFragmentHeaderBytes);
  const auto payload = datagram.subspan(front);
  const auto fragment = wire::decode_fragment(datagram.first(front), payload.size());
  if (!fragment) {
    ++received().rejected_foreign;
    return;
  }
  count_fragment(false);
  std::byte* const at = admit(datagram.data(), *fragment);
  if (at == nullptr) return;
  std::memcpy(at + fragment->offset, payload.data(), payload.size());
  placed(source_of(*fragment), *fragment, batch);
}

void UcQueuePair::count_fragment(bool direct) {
  ++received().datagrams;
  ++counts_.fragments;
  if (direct) ++counts_.direct;
}

/// Returns the destination of the fragment's message; null if the fragment is dropped.
std::byte* UcQueuePair::admit(const std::byte* header, const wire::UcFragment& fragment) {
  Source& source = source_of(fragment);
  const std::uint64_t gaps = source.assembly.gaps();
  const auto verdict = source.assembly.admit(header, fragment);
  counts_.gapped.add(source.assembly.gaps() - gaps);
  const bool begins = verdict == wire::MessageAssembly::Verdict::begins;
  if (!begins && verdict != wire::MessageAssembly::Verdict::continues) return nullptr;
  std::byte* const at = place_of(source, fragment, begins);
  if (at == nullptr) source.assembly.refuse();
  return at;
}

std::byte* UcQueuePair::place_of(Source& source, const wire::UcFragment& fragment, bool begins) {
  const wire::Header& message = fragment.message;
  // Within one poll another source may take over a staging area, so it is checked for each
  // fragment.
  if (!begins && source.staged) {
    Staging& staging = stagings_[source.staging];
    return staging.owner == message.source ? staging.bytes.data() : nullptr;
  }
  if (!begins && source.asked_in == polls_) return source.at;
  source.ask(resolver_, {message.epoch, message.psn, message.source, fragment.message_bytes},
             begins, polls_);
  if (source.staged) source.at = stage(source, fragment);
  return source.at;
}

std::byte* UcQueuePair::stage(Source& source, const wire::UcFragment& fragment) {
  if (stagings_[source.staging].owner != fragment.message.source) {
    source.staging = next_staging_++ % kStagings;
    stagings_[source.staging].owner = fragment.message.source;
  }
  std::vector<std::byte>& bytes = stagings_[source.staging].bytes;
  bytes.resize(std::max<std::size_t>(bytes.size(), fragment.message_bytes));
  return bytes.data();
}

/// Records that the bytes of a fragment are in place; a complete message is added to the batch.
void UcQueuePair::placed(Source& source, const wire::UcFragment& fragment, Batch& batch) {
  if (!source.assembly.advance(fragment.bytes)) return;
  ++counts_.completed;
  auto& header = message_headers_[batch.filled];
  std::memcpy(header.data(), source.assembly.header(), header.size());
  const wire::Header& message = fragment.message;
  batch.chunks[batch.filled++] = {message.epoch,
                                  message.psn,
                                  message.source,
                                  {source.at, fragment.message_bytes},
                                  header.data()};
  batch.bytes += fragment.message_bytes;
  // A message in staging ends the batch, because the next message of the same source rank may reuse
  // its memory.
  batch.over = batch.over || source.staged || batch.bytes >= kBatchBytes ||
               batch.filled == batch.chunks.size();
}

void UcQueuePair::add_to(EndpointCounters& counters) const {
  IpMulticastQueuePair::add_to(counters);
  counters.uc_messages_completed += counts_.completed.value();
  counters.uc_messages_gapped += counts_.gapped.value();
  counters.uc_segments_received += counts_.fragments.value();
  counters.uc_segments_direct += counts_.direct.value();
}

}  // namespace tutti::device::ip
