#include "device/host/direct_reads.hpp"

#include <algorithm>
#include <atomic>

namespace tutti::device::host {

bool DirectReads::take(const WorkRequest& request) {
  const bool reads = request.opcode == Opcode::read && !request.local.empty();
  if (!reads || index(request.peer) >= segments_.size()) return false;
  const Segment& peer = segments_[index(request.peer)];
  if (!peer.readable()) return false;
  if (!peer.regions().find(request.remote_key, request.remote_offset, request.local.size()))
    return false;
  const rc::RcChannel& channel = channels_[request.peer];
  if (channel.failed() || channel.backlog().stores) return false;
  reads_.push_back({.request = request});
  return true;
}

void DirectReads::poll(Instant now, rc::CompletionSink& sink) {
  std::size_t left = kBytesAtOnce;
  while (!reads_.empty() && left > 0) {
    Read& read = reads_.front();
    const WorkRequest request = read.request;
    const std::size_t before = read.done;
    const bool copied = !channels_[request.peer].failed() && copy(read, left);
    left -= read.done - before;
    if (copied && read.done < request.local.size()) return;
    const Status posted = copied ? Status() : channels_.post(now, request);
    const bool queue_full = posted.code() == Code::resource_exhausted;
    if (queue_full) reads_.push_back(read);  // a later poll retries this READ, after all others
    if (!queue_full && (copied || !posted)) end(request, posted.code(), sink);
    reads_.pop_front();
    if (queue_full) return;
  }
}

/// Copies the next bytes of a READ, at most `limit`. Returns false if the system refuses the copy,
/// if the peer has not published the region, or if the peer withdraws the region during the copy.
bool DirectReads::copy(Read& read, std::size_t limit) {
  const WorkRequest& request = read.request;
  const Segment& peer = segments_[index(request.peer)];
  const std::span<std::byte> part =
      request.local.subspan(read.done, std::min(limit, request.local.size() - read.done));
  const auto address =
      peer.regions().find(request.remote_key, request.remote_offset + read.done, part.size());
  if (!address || !peer.read_owner(*address, part)) return false;
  // The owner may have deregistered the region during the copy and reused its memory, so the region
  // is looked up again after the copy.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!peer.regions().holds(request.remote_key)) return false;
  read.done += part.size();
  return true;
}

void DirectReads::end(const WorkRequest& request, Code code, rc::CompletionSink& sink) {
  if (code == Code::ok) bytes_read_ += request.local.size();
  sink.push(
      {.opcode = Opcode::read, .code = code, .peer = request.peer, .work_id = request.work_id});
}

}  // namespace tutti::device::host
