// The results of `tutti bench` as a table in the format of NCCL tests and as JSON.
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
  SizeRange range;  ///< range of ExerciseOptions::send_bytes
  bool percentiles = false;
  std::string json_path;
};

/// The results for one size.
struct BenchRow {
  std::uint64_t send_bytes = 0;          ///< see ExerciseOptions
  std::uint64_t size_bytes = 0;          ///< quoted size
  std::optional<Measured> out_of_place;  ///< result with two buffers, if the collective allows them
  Measured in_place;
};

/// Prints the comment lines above the rows.
void print_header(const BenchOptions& options, Session& session);
void print_row(const BenchOptions& options, const BenchRow& row, std::uint32_t ranks);
void print_summary(const BenchOptions& options, const std::vector<BenchRow>& rows);

/// The JSON document, with the schema of docs/bench.md.
nlohmann::json to_json(const BenchOptions& options, Session& session,
                       const std::vector<BenchRow>& rows);

std::uint64_t wrong_bytes(const std::vector<BenchRow>& rows);

}  // namespace tutti::app
