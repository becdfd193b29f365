// Prints the results of radix_sort as a table and as JSON.
#pragma once

#include <tutti/communicator.hpp>

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "measure.hpp"
#include "options.hpp"

namespace radix_sort {

/// Prints the comment lines above the table, which explain the columns.
void print_header(const Options& options, const tutti::Communicator& communicator);
void print_row(const Row& row);
void print_summary(const std::vector<Row>& rows);

nlohmann::json to_json(const Options& options, const tutti::Communicator& communicator,
                       const std::vector<Row>& rows);

}  // namespace radix_sort
