// Keys to their owners. Parts differ in size and the library has no Alltoall for that; so all
// blocks are as long as the largest part between two ranks, cut in pieces that bound the memory.
// Nobody has to be asked for sizes: the histograms have told them.
#pragma once

#include <tutti/communicator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routes.hpp"

namespace radix_sort {

/// The end of a collective.
inline tutti::Status finish(tutti::Result<tutti::Request> request) {
  return request ? request->wait() : request.status();
}

class Exchange {
 public:
  Exchange(tutti::Communicator& communicator, std::uint64_t piece_bytes, std::string algorithm)
      : communicator_(&communicator), piece_bytes_(piece_bytes), algorithm_(std::move(algorithm)) {}

  /// Moves this rank's `parts`, in the order of their targets, to the others, and theirs into
  /// `arrived`, in the order of their sources. Collective. `key_bytes`: of one key.
  tutti::Status run(const Routes& routes, std::span<const std::byte> parts,
                    std::span<std::byte> arrived, std::size_t key_bytes);

  /// Of all ranks, since the beginning: what belonged elsewhere, and what the blocks carried to
  /// other ranks for it.
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
  /// One part for each rank: where it begins, and its bytes.
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
