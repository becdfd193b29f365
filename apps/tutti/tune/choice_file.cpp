#include "tune/choice_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "size_text.hpp"

namespace tutti::app {
namespace {

/// The largest block size to which the choice measured at `size` applies: the geometric mean of
/// `size` and `next`, the next measured size.
std::uint64_t bound_between(std::uint64_t size, std::uint64_t next) {
  const double middle =
      std::sqrt(std::max(static_cast<double>(size), 1.0) * static_cast<double>(next));
  return std::clamp(static_cast<std::uint64_t>(middle), size, next - 1);
}

std::string line(const TunedRow& row, std::uint64_t bound) {
  const std::string size = row.operation == Operation::barrier ? "" : fmt::format("[{}]", bound);
  const std::string rule = fmt::format("{}{}={}", to_string(row.operation), size, row.chosen);
  return fmt::format("{:<44} # at {}: {:.1f} us, {} {:.1f} us\n", rule, size_text(row.block_bytes),
                     row.chosen_us, row.usual, row.usual_us);
}

}  // namespace

std::string choice_file(const collectives::ChoicePlace& place, const std::vector<TunedRow>& rows,
                        const std::string& title) {
  std::string text = "# " + title + "\n" + to_string(place) + "\n";
  for (auto first = rows.begin(); first != rows.end();) {
    const auto last = std::find_if(
        first, rows.end(), [&](const TunedRow& one) { return one.operation != first->operation; });
    for (auto row = first; row != last; ++row) {
      const auto next = row + 1;
      if (next != last && next->chosen == row->chosen) continue;
      text += line(*row, next == last ? row->block_bytes
                                      : bound_between(row->block_bytes, next->block_bytes));
    }
    first = last;
  }
  return text;
}

}  // namespace tutti::app
