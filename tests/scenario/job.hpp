// A job whose ranks are threads of this process, on a network that misbehaves by plan.
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
  std::string faults{};                     ///< a FaultPlan's text
  std::shared_ptr<device::FrameTap> tap{};  ///< instead of the plan's rules about reliable frames
  /// Puts a device of the test's own around the job's.
  std::function<std::shared_ptr<device::Device>(std::shared_ptr<device::Device>)> wrap{};
  CommunicatorOptions options{};
  /// All ranks have finished before the first closes; false: each closes when it is done.
  bool close_together = true;
};

/// What a job's ranks did together.
struct Outcome {
  std::uint32_t size = 0;
  std::uint64_t chunk_bytes = 0;         ///< as the options asked
  std::uint32_t subgroups = 1;           ///< as the options asked
  std::uint64_t longest_call_bytes = 0;  ///< that one rank received in one collective, at most
  Nanoseconds duration{};                ///< from the first call to the last
  Counters total{};
  std::vector<Counters> by_rank{};
  device::fault::Injected injected{};

  std::uint64_t of(const std::string& counter) const;
  /// Bytes that the plan took from receivers: what all lost counts once for each of them.
  std::uint64_t lost_bytes() const;
  /// Bytes that recovery moved, without the tails that senders repeat on suspicion, and without
  /// what was fetched in vain from a sender that the machine had stopped: it was late, not lost.
  std::uint64_t recovered_bytes() const;
  /// Bytes that recovery moved in all, but for repeated tails.
  std::uint64_t moved_bytes() const;
  /// What ranks may fetch in vain: each cutoff for silence gives up one collective's senders, which
  /// the machine may only have held up.
  std::uint64_t given_up_bytes() const;
  /// Tails that senders may repeat: in each collective a few, at intervals that double up to 100
  /// ms.
  std::uint64_t most_tails() const;
  /// The counters of recovery, for messages.
  std::string describe() const;

 private:
  std::uint64_t late_bytes() const;
};

/// One rank's hands on the job.
class Member {
 public:
  explicit Member(Communicator& communicator) : communicator_(&communicator) {}

  Communicator& communicator() { return *communicator_; }
  std::uint32_t rank() const { return index(communicator_->rank()); }
  std::uint32_t size() const { return communicator_->size(); }

  /// Runs a collective and checks every byte of the result. False, with a failed expectation, where
  /// it does not end well.
  bool allgather(std::size_t block_bytes, std::uint64_t seed);
  /// Blocks of `sizes_bytes`, by rank, with gaps between them that must stay as they are.
  bool allgatherv(const std::vector<std::uint64_t>& sizes_bytes, std::uint64_t seed);
  bool broadcast(std::size_t bytes, std::uint32_t root, std::uint64_t seed);
  /// The most that this rank has received in one collective.
  std::uint64_t longest_call_bytes() const { return longest_call_bytes_; }

 private:
  bool finish(Request& request, const char* what);

  void note(std::uint64_t received_bytes) {
    longest_call_bytes_ = std::max(longest_call_bytes_, received_bytes);
  }

  Communicator* communicator_;
  std::uint64_t longest_call_bytes_ = 0;
};

/// Bytes that follow from a seed.
Bytes pattern(std::size_t size, std::uint64_t seed);

/// Options of most scenarios: small chunks, no turn learning, what is lost is fetched along the
/// ring, and no rank is dead for being slow.
CommunicatorOptions small_chunks();

/// Runs `body` on every rank, and collects the counters when all have come back.
Outcome run_job(const JobSpec& spec, const std::function<void(Member&)>& body);

}  // namespace tutti::scenario
