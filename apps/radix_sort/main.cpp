// An example application: a radix sort over all ranks of a job. It times two variants of the
// sort: one overlaps an Allgather with local work, the other does not. It uses only Tutti's public
// interface.
//
//   tutti run -n 4 -- radix_sort --radix 2^4,2^8 --keys 2^12,2^16
//
// Exit status: 0; 1 if keys are wrong or a collective failed; 2 for a bad argument.
#include <tutti/communicator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exchange.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "report.hpp"

namespace {

using namespace radix_sort;

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

int complain(const tutti::Status& status) {
  std::string text = "radix_sort: " + status.to_string();
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::fprintf(stderr, "%s\n", text.c_str());
  return status.code() == tutti::Code::invalid_argument ? kExitUsage : kExitFailed;
}

tutti::Result<std::vector<Row>> measure_all(tutti::Communicator& communicator,
                                            const Options& options, bool prints) {
  std::vector<Row> rows;
  for (const std::uint64_t keys : options.keys_per_rank) {
    for (const std::uint32_t radix : options.radices) {
      auto row = measure(communicator, options, radix, keys);
      if (!row) return row.status();
      if (prints) print_row(*row);
      rows.push_back(std::move(*row));
    }
  }
  return rows;
}

tutti::Status write_json(const Options& options, const tutti::Communicator& communicator,
                         const std::vector<Row>& rows) {
  // Names of hosts and files may contain bytes that are not UTF-8; dump() replaces these bytes.
  const std::string text = to_json(options, communicator, rows)
                               .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  std::ofstream file(options.json_path);
  file << text << "\n";
  file.close();
  if (file) return {};
  return {
      tutti::Code::system,
      fmt::format("cannot write --json file {}: name a file in a writable folder with free space",
                  options.json_path)};
}

int run(const Options& options) {
  auto communicator = tutti::Communicator::create(options.communicator);
  if (!communicator) return complain(communicator.status());
  const bool is_first = communicator->rank() == tutti::Rank{0};
  if (is_first) print_header(options, *communicator);
  auto rows = measure_all(*communicator, options, is_first);
  if (!rows) return complain(rows.status());
  tutti::Status status;
  if (is_first) {
    print_summary(*rows);
    if (!options.json_path.empty()) status = write_json(options, *communicator, *rows);
  }
  // The final barrier keeps each rank alive until no peer needs data from that rank.
  if (tutti::Status end = finish(communicator->barrier({.will_wait = true})); status.ok())
    status = end;
  if (!status) return complain(status);
  const bool wrong =
      std::any_of(rows->begin(), rows->end(), [](const Row& row) { return !row.wrong.empty(); });
  return wrong ? kExitFailed : kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (tutti::Status status = read(argc, argv, options); !status) return complain(status);
    return options.radices.empty() ? kExitOk : run(options);
  } catch (const std::exception& error) {
    return complain({tutti::Code::internal, error.what()});
  }
}
