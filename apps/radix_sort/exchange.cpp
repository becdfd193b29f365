#include "exchange.hpp"

#include <algorithm>
#include <cstring>

namespace radix_sort {
namespace {

void copy_bytes(const std::byte* from, std::byte* to, std::uint64_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

tutti::Status Exchange::run(const Routes& routes, std::span<const std::byte> parts,
                            std::span<std::byte> arrived, std::size_t key_bytes) {
  const std::uint32_t ranks = routes.ranks();
  const std::uint32_t me = routes.me();
  leaving_.assign(ranks, {});
  arriving_.assign(ranks, {});
  std::uint64_t left = 0;
  std::uint64_t come = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    leaving_[rank] = {left, routes.part(me, rank) * key_bytes};
    arriving_[rank] = {come, routes.part(rank, me) * key_bytes};
    left += leaving_[rank].bytes;
    come += arriving_[rank].bytes;
  }
  copy_bytes(parts.data() + leaving_[me].offset, arrived.data() + arriving_[me].offset,
             leaving_[me].bytes);
  leaving_[me].bytes = arriving_[me].bytes = 0;

  const std::uint64_t largest = routes.largest_part() * key_bytes;
  const std::uint64_t piece = std::max<std::uint64_t>(piece_bytes_ / key_bytes, 1) * key_bytes;
  for (std::uint64_t begin = 0; begin < largest; begin += piece) {
    const std::uint64_t block = std::min(piece, largest - begin);
    if (tutti::Status status = run_piece(begin, block, parts, arrived); !status) return status;
  }
  moved_bytes_ += routes.moved() * key_bytes;
  carried_bytes_ += largest * ranks * (ranks - 1);
  return {};
}

tutti::Status Exchange::run_piece(std::uint64_t begin, std::uint64_t block_bytes,
                                  std::span<const std::byte> parts, std::span<std::byte> arrived) {
  const std::size_t bytes = leaving_.size() * block_bytes;
  if (send_.size() < bytes) {
    send_.resize(bytes);
    receive_.resize(bytes);
  }
  const auto held = [&](const Part& part) {
    return part.bytes > begin ? std::min(block_bytes, part.bytes - begin) : 0;
  };
  for (std::size_t rank = 0; rank < leaving_.size(); ++rank) {
    copy_bytes(parts.data() + leaving_[rank].offset + begin, send_.data() + rank * block_bytes,
               held(leaving_[rank]));
  }
  tutti::Status status = finish(
      communicator_->alltoall(std::span(send_).first(bytes), std::span(receive_).first(bytes),
                              {.algorithm = tutti::Algorithm(algorithm_), .will_wait = true}));
  if (!status) return status;
  for (std::size_t rank = 0; rank < arriving_.size(); ++rank) {
    copy_bytes(receive_.data() + rank * block_bytes,
               arrived.data() + arriving_[rank].offset + begin, held(arriving_[rank]));
  }
  return {};
}

}  // namespace radix_sort
