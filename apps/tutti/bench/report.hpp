// The results of `tutti bench`: the table that the field knows, and the same as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/measurement.hpp"
#include "session.hpp"
#include "size_option.hpp"

namespace tutti::app {

struct BenchOptions {
  SessionOptions session;
  MeasureOptions measure;
  Operation operation = Operation::allgather;
  Rank root{0};
  Reduction reduction;
  SizeRange range;  ///< of ExerciseOptions::send_bytes
  bool percentiles = false;
  std::string json_path;
};

/// One size.
struct BenchRow {
  std::uint64_t send_bytes = 0;          ///< see ExerciseOptions
  std::uint64_t size_bytes = 0;          ///< the size that the field quotes
  std::optional<Measured> out_of_place;  ///< where it can be called so, too
  Measured in_place;
};

/// The comment lines above the rows.
void print_header(const BenchOptions& options, Session& session);
void print_row(const BenchOptions& options, const BenchRow& row, std::uint32_t ranks);
void print_summary(const BenchOptions& options, const std::vector<BenchRow>& rows);

/// Everything, by the schema of docs/bench.md.
nlohmann::json to_json(const BenchOptions& options, Session& session,
                       const std::vector<BenchRow>& rows);

std::uint64_t wrong_bytes(const std::vector<BenchRow>& rows);

}  // namespace tutti::app
