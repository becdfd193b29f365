// A job whose ranks are threads of this process, on a network with planned faults.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/frame_tap.hpp"
#include "sim/fault/fault_device.hpp"
#include "tutti/communicator.hpp"

namespace tutti::scenario {

using Bytes = std::vector<std::byte>;
using Counters = std::map<std::string, std::uint64_t>;

struct JobSpec {
  std::uint32_t size = 3;
  std::string faults{};  ///< text form of a fault plan
  /// Hook that drops or repeats frames of reliable connections; null: the fault plan decides about
  /// these frames.
  std::shared_ptr<device::FrameTap> tap{};
  /// If set, wraps the job's device in a device of the test.
  std::function<std::shared_ptr<device::Device>(std::shared_ptr<device::Device>)> wrap{};
  CommunicatorOptions options{};
  std::uint32_t first_epoch = 1;
  /// True: each rank closes after all ranks have finished `body`. False: each rank closes as soon
  /// as it has finished.
  bool close_together = true;
};

/// The outcome of all ranks of a job.
struct Outcome {
  std::uint32_t size = 0;
  std::uint64_t chunk_bytes = 0;  ///< configured size of a chunk, in bytes
  std::uint32_t subgroups = 1;    ///< configured number of subgroups
  /// Largest number of bytes that one rank received in one collective.
  std::uint64_t longest_call_bytes = 0;
  /// Time from the start of the job until the communicator has closed at every rank.
  Nanoseconds duration{};
  Counters total{};
  std::vector<Counters> by_rank{};
  device::fault::Injected injected{};

  std::uint64_t of(const std::string& counter) const;
  /// The bytes that the fault plan dropped or corrupted. A chunk dropped at its sender counts once
  /// for each receiver.
  std::uint64_t lost_bytes() const;
  /// The bytes that recovery moved, without tail probes and without chunks that were only late
  /// because the machine had paused their sender.
  std::uint64_t recovered_bytes() const;
  /// The bytes that recovery moved, without tail probes.
  std::uint64_t moved_bytes() const;
  /// An upper bound of the bytes that were fetched although they were late and not lost. After a
  /// cutoff for silence, a rank fetches at most all data of one collective.
  std::uint64_t given_up_bytes() const;
  /// An upper bound of the number of chunks that were fetched although they were late and not lost.
  /// The multicast copy of a late chunk arrives after the READ or after the collective, or the
  /// receiver drops the copy for lack of buffers.
  std::uint64_t late_chunks() const;
  /// An upper bound of the number of tail probes: a few in each collective, at intervals that
  /// double up to 100 ms.
  std::uint64_t most_tails() const;
  /// The counters of recovery as text, for failure messages.
  std::string describe() const;

 private:
  std::uint64_t late_bytes() const;
};

/// One rank's access to the job.
class Member {
 public:
  explicit Member(Communicator& communicator) : communicator_(&communicator) {}

  Communicator& communicator() { return *communicator_; }
  std::uint32_t rank() const { return index(communicator_->rank()); }
  std::uint32_t size() const { return communicator_->size(); }

  /// Runs a collective and checks every byte of the result. After an error it records a failed
  /// expectation and returns false.
  bool allgather(std::size_t block_bytes, std::uint64_t seed);
  /// Runs an Allgatherv in which the block of rank r has `sizes_bytes[r]` bytes. The gaps between
  /// the blocks must stay unchanged.
  bool allgatherv(const std::vector<std::uint64_t>& sizes_bytes, std::uint64_t seed);
  bool broadcast(std::size_t bytes, std::uint32_t root, std::uint64_t seed);
  /// The largest number of bytes that this rank has received in one collective.
  std::uint64_t longest_call_bytes() const { return longest_call_bytes_; }

 private:
  bool finish(Request& request, const char* what);

  void note(std::uint64_t received_bytes) {
    longest_call_bytes_ = std::max(longest_call_bytes_, received_bytes);
  }

  Communicator* communicator_;
  std::uint64_t longest_call_bytes_ = 0;
};

/// Bytes that are derived from a seed.
Bytes pattern(std::size_t size, std::uint64_t seed);

/// The options of most scenarios: small chunks, no learned send schedule, recovery by the fetch
/// ring, and a long peer timeout.
CommunicatorOptions small_chunks();

/// A fault plan with every kind of fault at once, at rates that small collectives survive quickly.
inline constexpr const char* kEveryFault =
    "seed=3; drop receiver chunk rate=0.5%; drop sender chunk rate=0.5%;"
    "duplicate receiver chunk rate=2% by=1ms; reorder receiver chunk rate=2%;"
    "corrupt receiver chunk rate=0.2%; drop sender reliable rate=0.2%";

/// Expects that each fault of kEveryFault struck at least once.
void expect_every_fault(const Outcome& outcome);

/// Runs `count` Broadcasts and Allgathers of up to a few chunks; stops after an error.
void run_small_collectives(Member& member, std::uint32_t count);

/// Runs `body` on every rank, and collects the counters of each rank before the rank closes.
Outcome run_job(const JobSpec& spec, const std::function<void(Member&)>& body);

}  // namespace tutti::scenario
