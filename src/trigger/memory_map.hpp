// The regions of host memory that the units of a node may read and write; each region belongs to
// one job.
//
// Every address from the network is checked here: its region must belong to the packet's job, and
// the bytes must lie within the region.
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

  /// Registers memory, which must remain valid until the job ends. Fails with resource_exhausted if
  /// no region is free.
  Result<Address> add(JobId job, std::span<std::byte> memory);
  /// Removes all regions of a job.
  void remove(JobId job);
  /// Finds the bytes at an address, if all of them belong to the job; otherwise returns nothing.
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
