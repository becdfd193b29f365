// The host memory that a node's units may read and write: regions, each of one job.
//
// An address from the network is only as good as this check: its region must be of the packet's
// job, and the bytes must lie within it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trigger/packet.hpp"
#include "tutti/status.hpp"

namespace tutti::trigger {

class MemoryMap {
 public:
  static constexpr unsigned kOffsetBits = 48;
  static constexpr std::size_t kMaxRegions = (std::size_t{1} << (64 - kOffsetBits)) - 1;

  /// Registers memory, which stays the caller's and must outlive the job. resource_exhausted where
  /// no region is free.
  Result<Address> add(JobId job, std::span<std::byte> memory);
  /// Forgets all regions of a job.
  void remove(JobId job);
  /// The bytes at an address, where they are all the job's.
  std::optional<std::span<std::byte>> find(JobId job, Address address,
                                           std::uint64_t size_bytes) const;

 private:
  struct Region {
    bool used = false;
    JobId job{};
    std::span<std::byte> memory;
  };
  std::vector<Region> regions_;
};

}  // namespace tutti::trigger
