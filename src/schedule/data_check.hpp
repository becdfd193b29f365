// Phases 4 and 5 of the validator: the order of accesses to each cell, and the final contents of
// the cells.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedule/event_graph.hpp"
#include "schedule/validate/validate_parts.hpp"
#include "schedule/validate/values.hpp"

namespace tutti::schedule {

struct Validation;

/// The memory of all ranks as cells with consecutive numbers. In an in-place call, slices of two
/// buffers that share memory have the same cells.
class CellSpace {
 public:
  CellSpace(const AllRanks& all, const Grid& grid, bool in_place);

  std::uint32_t size() const { return size_; }
  /// Calls visit(cell) for each cell of a buffer slice at a rank, in the order of the slice's
  /// bytes.
  template <typename Visit>
  void for_each(std::uint32_t rank, const BufferSlice& slice, const Visit& visit) const {
    if (slice.empty()) return;
    const BufferSlice place = storage_of(rank, slice);
    const Range cells = grid_.cells_of(place);
    for (std::uint32_t b = place.first_block; b < place.last_block(); ++b) {
      const std::uint32_t base = cell(rank, place.buffer, b);
      for (std::uint32_t c = cells.first; c < cells.last; ++c) visit(base + c);
    }
  }
  /// The name of a cell's block for error texts, such as "receive[3]".
  std::string name(std::uint32_t rank, std::uint32_t cell) const;
  std::uint32_t rank_of_cell(std::uint32_t cell) const;

 private:
  std::uint32_t cell(std::uint32_t rank, Buffer buffer, std::uint32_t block) const {
    return bases_[rank][static_cast<std::size_t>(buffer)] + block * grid_.cells();
  }
  BufferSlice storage_of(std::uint32_t rank, const BufferSlice& slice) const;

  const AllRanks& all_;
  const Grid& grid_;
  bool in_place_;
  /// Index of the first cell of each buffer, by rank and kind of buffer.
  std::vector<std::array<std::uint32_t, kBufferKinds>> bases_;
  std::uint32_t size_ = 0;
};

/// Phase 4 checks that two tasks that access the same cell are ordered if at least one of them
/// writes. It also checks that one-sided accesses reach a peer only during the peer's call and,
/// with `receives_first`, that multicasts are sent only after their receives are posted.
void check_accesses(const AllRanks& all, const CellSpace& cells, const EventGraph& graph,
                    const Matching& matching, const ValidateOptions& options, Findings& findings);

/// Phase 5 runs the schedules on symbolic values, compares the final contents with the result that
/// the collective must have, and records the order in which a reduction was folded.
void check_values(const AllRanks& all, const CellSpace& cells, const EventGraph& graph,
                  const Matching& matching, const ValidateOptions& options, Findings& findings,
                  Validation& validation);

}  // namespace tutti::schedule
