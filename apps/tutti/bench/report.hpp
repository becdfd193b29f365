// Writes the results of `tutti bench` as a table in the format of the NCCL tests and as JSON.
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
  SizeRange range;  ///< sizes to measure, in bytes, of the message or of one rank's block
  bool percentiles = false;
  std::string json_path;
};

/// The results for one size.
struct BenchRow {
  /// Size of the message or of one rank's block, in bytes, as in ExerciseOptions.
  std::uint64_t send_bytes = 0;
  std::uint64_t size_bytes = 0;  ///< size that the table shows, in bytes
  /// Result with separate send and receive buffers. If the collective has only one form, this is
  /// unset and `in_place` has the result.
  std::optional<Measured> out_of_place;
  Measured in_place;
};

/// Prints the comment lines above the rows of the table.
void print_header(const BenchOptions& options, Session& session);
void print_row(const BenchOptions& options, const BenchRow& row, std::uint32_t ranks);
void print_summary(const BenchOptions& options, const std::vector<BenchRow>& rows);

/// The results as a JSON document with the schema of docs/bench.md.
nlohmann::json to_json(const BenchOptions& options, Session& session,
                       const std::vector<BenchRow>& rows);

std::uint64_t wrong_bytes(const std::vector<BenchRow>& rows);

}  // namespace tutti::app
