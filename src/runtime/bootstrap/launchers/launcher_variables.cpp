#include "runtime/bootstrap/launchers/launcher_variables.hpp"

#include <cstdlib>

#include "base/error.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

Result<std::optional<std::uint64_t>> read_number(const Environment& environment,
                                                 const std::string& name, std::uint64_t max) {
  const auto text = environment(name);
  if (!text) return std::optional<std::uint64_t>();
  const auto number = parse_number(*text, max);
  if (number) return number;
  return failure(Code::invalid_argument,
                 "{}='{}' is not a number from 0 to {}: correct or unset this variable", name,
                 *text, max);
}

Result<std::optional<LauncherRank>> read_place(const Environment& environment,
                                               const std::string& rank_name,
                                               const std::string& size_name) {
  const auto rank = read_number(environment, rank_name, kMaxBootstrapRanks);
  if (!rank.ok()) return rank.status();
  const auto size = read_number(environment, size_name, kMaxBootstrapRanks);
  if (!size.ok()) return size.status();
  if (!*rank && !*size) return std::optional<LauncherRank>();
  if (!*rank || !*size) {
    return failure(Code::invalid_argument, "{} is set but {} is not: set both, or neither",
                   *rank ? rank_name : size_name, *rank ? size_name : rank_name);
  }
  const LauncherRank place{rank_of(**rank), static_cast<std::uint32_t>(**size)};
  if (!check_place(place.rank, place.size).ok()) {
    return failure(
        Code::invalid_argument,
        "{}={} is not a rank of a job with {}={}: set {} to a number from 1 to {}, and {} to "
        "a smaller number",
        rank_name, **rank, size_name, **size, size_name, kMaxBootstrapRanks, rank_name);
  }
  return std::optional<LauncherRank>(place);
}

Result<std::optional<LauncherRank>> launcher_place(const Environment& environment) {
  auto place = read_place(environment, "RANK", "WORLD_SIZE");
  if (!place.ok() || *place) return place;
  place = read_place(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (!place.ok() || *place) return place;
  place = read_place(environment, "PMI_RANK", "PMI_SIZE");
  if (!place.ok() || *place) return place;
  // Slurm also sets SLURM_PROCID in a batch script, but a batch script is only one process, even if
  // SLURM_NTASKS is larger. Only a step started by srun has SLURM_STEP_ID.
  if (!environment("SLURM_STEP_ID")) return std::optional<LauncherRank>();
  return read_place(environment, "SLURM_PROCID", "SLURM_NTASKS");
}

std::string run_identity(const Environment& environment) {
  if (const auto run = environment("TUTTI_RUN_ID")) return *run;
  const auto elastic = environment("TORCHELASTIC_RUN_ID");
  if (!elastic) return {};
  return *elastic + "." + environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
}

}  // namespace tutti::runtime
