// Moves keys to the ranks that own them. The library has no Alltoall with parts of different size,
// so every block has the size of the largest part, cut into pieces that bound the memory. The ranks
// know all sizes from the histograms.
#pragma once

#include <tutti/communicator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routes.hpp"

namespace radix_sort {

/// Waits for the end of a collective that was started.
inline tutti::Status finish(tutti::Result<tutti::Request> request) {
  return request ? request->wait() : request.status();
}

class Exchange {
 public:
  Exchange(tutti::Communicator& communicator, std::uint64_t piece_bytes, std::string algorithm)
      : communicator_(&communicator), piece_bytes_(piece_bytes), algorithm_(std::move(algorithm)) {}

  /// Sends this rank's `parts`, in order of their targets, and receives into `arrived`, in order of
  /// the sources; a collective. `key_bytes` is the size of one key.
  tutti::Status run(const Routes& routes, std::span<const std::byte> parts,
                    std::span<std::byte> arrived, std::size_t key_bytes);

  /// Bytes of all ranks since the start: those of keys that had to move, and those of the blocks
  /// that carried them to other ranks.
  std::uint64_t moved_bytes() const { return moved_bytes_; }
  std::uint64_t carried_bytes() const { return carried_bytes_; }

 private:
  tutti::Status run_piece(std::uint64_t begin, std::uint64_t block_bytes,
                          std::span<const std::byte> parts, std::span<std::byte> arrived);

  tutti::Communicator* communicator_;
  std::uint64_t piece_bytes_;
  std::string algorithm_;
  std::vector<std::byte> send_;
  std::vector<std::byte> receive_;
  /// The offset and the size in bytes of each rank's part.
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Part> leaving_;
  std::vector<Part> arriving_;
  std::uint64_t moved_bytes_ = 0;
  std::uint64_t carried_bytes_ = 0;
};

}  // namespace radix_sort
