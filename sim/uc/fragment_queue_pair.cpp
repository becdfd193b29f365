#include "sim/uc/fragment_queue_pair.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace tutti::device::sim {

// ---- sending ------------------------------------------------------------------------------------

Result<std::uint32_t> FragmentQueuePair::post(const ChunkRun& run) {
  if (!inner_.reads_posted()) sending_.clear();
  const std::uint32_t frame_bytes =
      shape_.fragment_bytes + static_cast<std::uint32_t>(wire::kFragmentHeaderBytes);
  std::uint32_t accepted = 0;
  for (std::size_t at = 0; at < run.data.size(); at += run.chunk_bytes, ++accepted) {
    const std::uint32_t psn = run.first_psn + accepted;
    const auto message =
        run.data.subspan(at, std::min<std::size_t>(run.chunk_bytes, run.data.size() - at));
    const std::size_t fragments =
        (message.size() + shape_.fragment_bytes - 1) / shape_.fragment_bytes;
    const auto posted = inner_.post({.epoch = run.epoch,
                                     .first_psn = psn * shape_.fragments,
                                     .data = sending_.emplace_back(framed(run.epoch, psn, message)),
                                     .chunk_bytes = frame_bytes,
                                     .to = run.to,
                                     .priority = run.priority});
    if (!posted) return posted.status();
    // A message counts as accepted only if all its fragments are accepted. Otherwise the fragments
    // that were accepted are void, and the caller posts the message again from its start.
    if (*posted < fragments) break;
  }
  return accepted;
}

/// The fragments of a message, each behind its header.
std::vector<std::byte> FragmentQueuePair::framed(std::uint32_t epoch, std::uint32_t psn,
                                                 std::span<const std::byte> message) {
  const wire::Header header{.kind = wire::PacketKind::message,
                            .source = me_,
                            .epoch = epoch,
                            .psn = psn,
                            .counter = ++sent_};
  std::array<std::byte, wire::kHeaderBytes> sealed;
  wire::encode(header, sealed.data());
  keys_.seal(sealed.data(), message);
  wire::UcFragment fragment{.message = header,
                            .message_bytes = static_cast<std::uint32_t>(message.size())};
  fragment.message.tag = wire::tag_of(sealed.data());
  std::vector<std::byte> frames;
  for (; fragment.offset < message.size(); fragment.offset += fragment.bytes) {
    fragment.bytes = std::min(shape_.fragment_bytes, fragment.message_bytes - fragment.offset);
    const std::size_t begin = frames.size();
    frames.resize(begin + wire::kFragmentHeaderBytes);
    wire::encode(fragment, frames.data() + begin);
    const auto payload = message.subspan(fragment.offset, fragment.bytes);
    frames.insert(frames.end(), payload.begin(), payload.end());
  }
  return frames;
}

// ---- receiving ----------------------------------------------------------------------------------

std::size_t FragmentQueuePair::poll(std::span<ReceivedChunk> chunks) {
  ++polls_;
  ReceivedChunk fragment;
  while (inner_.poll({&fragment, 1}) > 0) {
    const bool whole = take(fragment, chunks.front());
    inner_.release();
    if (whole) return 1;
  }
  return 0;
}

/// Handles a fragment; true if it completes `message`.
bool FragmentQueuePair::take(const ReceivedChunk& chunk, ReceivedChunk& message) {
  frame_.resize(chunk.payload.size());
  // A damaged fragment counts as lost, so its message has a gap.
  if (!inner_.copy_and_verify(chunk, frame_.data())) return false;
  const auto data = std::span<const std::byte>(frame_).subspan(
      std::min(frame_.size(), wire::kFragmentHeaderBytes));
  const auto fragment = wire::decode_fragment(
      std::span<const std::byte>(frame_).first(frame_.size() - data.size()), data.size());
  if (!fragment || index(fragment->message.source) >= sources_.size()) return false;
  using enum wire::MessageAssembly::Verdict;
  Source& source = sources_[index(fragment->message.source)];
  const auto verdict = source.assembly.admit(frame_.data(), *fragment);
  if (verdict != begins && verdict != continues) return false;
  find_place(source, *fragment, verdict == begins);
  if (source.at == nullptr) {
    source.assembly.refuse();
    return false;
  }
  std::memcpy(source.at + fragment->offset, data.data(), data.size());
  if (!source.assembly.advance(fragment->bytes)) return false;
  const wire::Header& header = fragment->message;
  message = {header.epoch,
             header.psn,
             header.source,
             {source.at, fragment->message_bytes},
             source.assembly.header()};
  return true;
}

/// Finds the destination of the message to which a fragment belongs. A destination is valid in one
/// poll only, so each poll asks the resolver again.
void FragmentQueuePair::find_place(Source& source, const wire::UcFragment& fragment, bool begins) {
  if (!begins && (source.staged || source.asked_in == polls_)) return;
  const wire::Header& message = fragment.message;
  source.ask(resolver_, {message.epoch, message.psn, message.source, fragment.message_bytes},
             begins, polls_);
  if (!source.staged) return;
  source.staging.resize(fragment.message_bytes);
  source.at = source.staging.data();
}

bool FragmentQueuePair::copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) {
  const wire::Integrity* const word = keys_.of(wire::counter_of(chunk.header));
  if (word == nullptr) return false;
  const bool there = destination == nullptr || destination == chunk.payload.data();
  const std::uint64_t tag = there ? word->tag(chunk.header, chunk.payload)
                                  : word->copy_and_tag(destination, chunk.header, chunk.payload);
  return tag == wire::tag_of(chunk.header);
}

}  // namespace tutti::device::sim
