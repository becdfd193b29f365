// Moves keys to the ranks that own them, by Alltoall. All blocks of an Alltoall have the same size,
// so every block is padded to the largest number of keys that one rank sends to another. Blocks
// longer than a limit are sent by several Alltoalls, which bounds the memory for padded blocks.
#pragma once

#include <tutti/communicator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routes.hpp"

namespace radix_sort {

/// Waits for the end of a collective. If the collective could not be started, returns the error.
inline tutti::Status finish(tutti::Result<tutti::Request> request) {
  return request ? request->wait() : request.status();
}

class Exchange {
 public:
  Exchange(tutti::Communicator& communicator, std::uint64_t piece_bytes, std::string algorithm)
      : communicator_(&communicator), piece_bytes_(piece_bytes), algorithm_(std::move(algorithm)) {}

  /// Moves the keys of all ranks to the ranks that `routes` names; every rank must call it. `parts`
  /// holds this rank's keys in order of their target ranks, and `arrived` receives keys in order of
  /// their source ranks. `key_bytes` is the size of one key.
  tutti::Status run(const Routes& routes, std::span<const std::byte> parts,
                    std::span<std::byte> arrived, std::size_t key_bytes);

  /// Totals over all ranks and all exchanges so far: the bytes of the keys that had to move to
  /// another rank, and the bytes of the padded blocks that were sent to another rank.
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
  /// Offset and size, in bytes, of the keys that this rank sends to one rank or receives from it.
  /// Sent keys lie in `parts` of run(), received keys in `arrived`.
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
