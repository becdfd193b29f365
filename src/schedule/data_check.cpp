#include "schedule/data_check.hpp"

#include "schedule/text.hpp"

namespace tutti::schedule {

CellSpace::CellSpace(const AllRanks& all, const Grid& grid, bool in_place)
    : all_(all), grid_(grid), in_place_(in_place), bases_(all.ranks()) {
  for (std::uint32_t r = 0; r < all.ranks(); ++r) {
    for (std::uint32_t b = 0; b < kBufferKinds; ++b) {
      bases_[r][b] = size_;
      size_ += all.at(r).blocks(static_cast<Buffer>(b)) * grid.cells();
    }
  }
}

BufferSlice CellSpace::storage_of(std::uint32_t rank, const BufferSlice& slice) const {
  if (!in_place_) return slice;
  const Alias alias = in_place_alias(all_.at(rank).purpose());
  if (alias.name.empty() || !contains(alias.name, slice)) return slice;
  BufferSlice place = slice;
  place.buffer = alias.storage.buffer;
  place.first_block = alias.storage.first_block;
  return place;
}

std::uint32_t CellSpace::rank_of_cell(std::uint32_t cell) const {
  std::uint32_t rank = 0;
  while (rank + 1 < bases_.size() && bases_[rank + 1][0] <= cell) ++rank;
  return rank;
}

std::string CellSpace::name(std::uint32_t rank, std::uint32_t cell) const {
  std::uint32_t buffer = kBufferKinds - 1;
  while (buffer > 0 && bases_[rank][buffer] > cell) --buffer;
  const std::uint32_t offset = cell - bases_[rank][buffer];
  return to_string(block_of(static_cast<Buffer>(buffer), offset / grid_.cells()));
}

}  // namespace tutti::schedule
