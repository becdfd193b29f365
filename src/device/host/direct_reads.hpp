// READs from the memory of other processes of this host. The reader copies the bytes itself, by a
// system call, so that they are copied once and the peer does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "device/device.hpp"
#include "device/host/segment.hpp"
#include "device/rc/channel_set.hpp"
#include "device/rc/completion_queue.hpp"

namespace tutti::device::host {

class DirectReads {
 public:
  /// `segments` contains the shared segments of all ranks in rank order. The segments and
  /// `channels` must outlive this object.
  DirectReads(std::span<const Segment> segments, rc::ChannelSet& channels)
      : segments_(segments), channels_(channels) {}

  /// Queues a READ; false if the READ must go through the connection, because the system forbids
  /// direct access, the peer has not published the region, or an earlier WRITE is not complete.
  bool take(const WorkRequest& request);
  /// Copies at most kBytesAtOnce bytes. A READ whose copy fails is posted to the connection, which
  /// completes or refuses it.
  void poll(Instant now, rc::CompletionSink& sink);
  /// Drops all queued READs, so that their callers get their buffers back (Endpoint::abandon).
  void abandon() { reads_.clear(); }
  bool empty() const { return reads_.empty(); }
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  /// Limit of the bytes that one poll copies, so that other work of the caller is not delayed for
  /// long.
  static constexpr std::size_t kBytesAtOnce = 512 * 1024;

  struct Read {
    WorkRequest request;
    std::size_t done = 0;  ///< bytes copied so far
  };

  bool copy(Read& read, std::size_t limit);
  void end(const WorkRequest& request, Code code, rc::CompletionSink& sink);

  std::span<const Segment> segments_;
  rc::ChannelSet& channels_;
  std::deque<Read> reads_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace tutti::device::host
