// Measures how fast the engine receives chunks that are already in memory. The engine validates the
// header, copies and verifies the payload, and marks the chunk in the chunk map. For comparison,
// memcpy of the same bytes is timed alternately on the same core.
//
//   receive_datapath_bench [--chunk-bytes N] [--mib N] [--repeat N] [--json FILE] [--only KIND]
// receive_datapath_bench --count REPEAT         receives REPEAT times, for an instruction counter
//
// In the results, staging "ring" means that payloads repeat after 128 KiB, so that they stay in the
// second-level cache as after a receive call. Staging "memory" means that every payload is read for
// the first time.
#include <fmt/format.h>
#include <sched.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "datapath/staged_endpoint.hpp"
#include "engine/core/communicator_context.hpp"
#include "engine/multicast/multicast_operation.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::bench {
namespace {

constexpr std::uint32_t kRingBytes = 128 * 1024;
constexpr int kUsage = 2;

struct Options {
  std::uint32_t chunk_bytes = 4096;
  std::uint32_t mib = 32;
  std::uint32_t repeat = 15;
  /// Number of receptions, if an external tool counts instructions; 0: measure time instead.
  std::uint32_t count = 0;
  std::string only;  ///< kind of integrity word to measure, "keyed" or "crc"; empty: both
  std::string json;
};

struct Sample {
  double seconds = 0;
  std::uint64_t cycles = 0;  ///< increase of cycle_counter() during the work
};

/// The time stamp counter on x86-64, or the monotonic clock in nanoseconds on other processors.
std::uint64_t cycle_counter() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(runtime::now().nanoseconds);
#endif
}

template <typename Work>
Sample timed(const Work& work) {
  const Instant begun = runtime::now();
  const std::uint64_t cycles = cycle_counter();
  work();
  const std::uint64_t spent = cycle_counter() - cycles;
  return {static_cast<double>((runtime::now() - begun).count()) / 1e9, spent};
}

/// Creates new engine objects for rank 0 of two ranks and times how they receive one block.
Sample receive_once(const Staging& staging, const wire::Integrity& integrity,
                    std::span<std::byte> buffer, std::uint32_t chunk_bytes) {
  auto endpoint = std::make_unique<StagedEndpoint>(staging, integrity, chunk_bytes);
  StagedQueuePair& pair = endpoint->staged();
  engine::CommunicatorContext context(rank_of(0), 2, {}, std::move(endpoint), {});
  auto operation = engine::MulticastOperation::broadcast(buffer, rank_of(1));
  const auto completion = operation->completion();
  context.operations().submit(std::move(operation));
  context.poll(runtime::now());
  pair.open();
  const Sample sample = timed([&] {
    while (!pair.drained()) context.poll(runtime::now());
    context.poll(runtime::now());
  });
  if (context.counters().chunks_received != staging.count() || pair.rejected() != 0 ||
      completion->chunks_present != staging.count()) {
    fmt::print(stderr, "receive_datapath_bench: {} of {} chunks were received, {} rejected\n",
               context.counters().chunks_received, staging.count(), pair.rejected());
    std::exit(1);
  }
  return sample;
}

Sample copy_once(const Staging& staging, std::span<std::byte> buffer, std::uint32_t chunk_bytes) {
  return timed([&] {
    for (std::uint32_t psn = 0; psn < staging.count(); ++psn) {
      std::memcpy(buffer.data() + std::size_t{psn} * chunk_bytes, staging.payload(psn).data(),
                  chunk_bytes);
    }
  });
}

Sample median(std::vector<Sample> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end(),
                   [](const Sample& a, const Sample& b) { return a.cycles < b.cycles; });
  return *middle;
}

void pin(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  (void)::sched_setaffinity(0, sizeof one, &one);
}

wire::Integrity integrity_of(std::string_view kind) {
  if (kind == "crc") return wire::Integrity::crc();
  std::vector<std::byte> secret(32, std::byte{0x5a});
  auto keyed = wire::Integrity::keyed(secret, 0);
  if (keyed) return *keyed;
  fmt::print(stderr, "receive_datapath_bench: {}\n", keyed.status().message());
  std::exit(1);
}

class Case {
 public:
  Case(const Options& options, std::string_view kind, bool ring)
      : options_(options),
        integrity_(integrity_of(kind)),
        count_(options.mib * (1u << 20) / options.chunk_bytes),
        staging_(integrity_, rank_of(1), 1, count_,
                 ring ? std::min(count_, std::max(1u, kRingBytes / options.chunk_bytes)) : count_,
                 options.chunk_bytes),
        buffer_(std::size_t{count_} * options.chunk_bytes, std::byte{1}) {}

  Sample receive() { return receive_once(staging_, integrity_, buffer_, options_.chunk_bytes); }
  Sample copy() { return copy_once(staging_, buffer_, options_.chunk_bytes); }
  std::uint32_t count() const { return count_; }
  double gigabytes() const { return static_cast<double>(buffer_.size()) / 1e9; }
  const char* implementation() const { return integrity_.implementation(); }

 private:
  const Options& options_;
  wire::Integrity integrity_;
  std::uint32_t count_;
  Staging staging_;
  std::vector<std::byte> buffer_;
};

nlohmann::json one_core(const Options& options, std::string_view kind, bool ring) {
  Case one(options, kind, ring);
  std::vector<Sample> received;
  std::vector<Sample> copied;
  one.receive();
  one.copy();
  for (std::uint32_t i = 0; i < options.repeat; ++i) {
    received.push_back(one.receive());
    copied.push_back(one.copy());
  }
  const Sample ours = median(received);
  const Sample floor = median(copied);
  return {{"workers", 1},
          {"integrity", kind},
          {"implementation", one.implementation()},
          {"staging", ring ? "ring" : "memory"},
          {"chunk_bytes", options.chunk_bytes},
          {"chunks", one.count()},
          {"cycles_per_chunk", static_cast<double>(ours.cycles) / one.count()},
          {"memcpy_cycles_per_chunk", static_cast<double>(floor.cycles) / one.count()},
          {"gigabytes_per_second", one.gigabytes() / ours.seconds},
          {"memcpy_gigabytes_per_second", one.gigabytes() / floor.seconds},
          {"to_memcpy", static_cast<double>(floor.cycles) / static_cast<double>(ours.cycles)}};
}

/// Receives on two cores at the same time, with separate engine objects and buffers. The time is
/// that of the slower core.
nlohmann::json two_cores(const Options& options, std::string_view kind, double alone) {
  if (std::thread::hardware_concurrency() < 2) return nullptr;
  std::vector<double> rates;
  std::vector<std::unique_ptr<Case>> cases;
  for (int i = 0; i < 2; ++i) cases.push_back(std::make_unique<Case>(options, kind, true));
  for (std::uint32_t round = 0; round < options.repeat; ++round) {
    std::atomic<int> waiting{2};
    std::array<double, 2> seconds{};
    std::vector<std::thread> threads;
    for (int worker = 0; worker < 2; ++worker) {
      threads.emplace_back([&, worker] {
        pin(worker);
        Case& mine = *cases[static_cast<std::size_t>(worker)];
        waiting.fetch_sub(1);
        while (waiting.load() > 0) ::sched_yield();
        seconds[static_cast<std::size_t>(worker)] = mine.receive().seconds;
      });
    }
    for (std::thread& thread : threads) thread.join();
    rates.push_back(2 * cases[0]->gigabytes() / std::max(seconds[0], seconds[1]));
  }
  std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2),
                   rates.end());
  const double both = rates[rates.size() / 2];
  return {{"workers", 2},
          {"integrity", kind},
          {"staging", "ring"},
          {"gigabytes_per_second", both},
          {"to_one_worker", both / alone}};
}

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const auto number = static_cast<std::uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    if (name == "--chunk-bytes")
      options.chunk_bytes = number;
    else if (name == "--mib")
      options.mib = number;
    else if (name == "--repeat")
      options.repeat = number;
    else if (name == "--count")
      options.count = number;
    else if (name == "--only")
      options.only = argv[i + 1];
    else if (name == "--json")
      options.json = argv[i + 1];
    else
      return false;
  }
  return argc % 2 == 1 && options.chunk_bytes >= 32 && options.chunk_bytes % 32 == 0 &&
         options.mib > 0 && options.repeat > 0;
}

void print(const nlohmann::json& row) {
  if (row["workers"] == 2) {
    fmt::print("{:<6} {:<7} two workers {:.2f} GB/s, {:.2f} x one\n",
               row["integrity"].get<std::string>(), row["staging"].get<std::string>(),
               row["gigabytes_per_second"].get<double>(), row["to_one_worker"].get<double>());
    return;
  }
  fmt::print(
      "{:<6} {:<7} {:7.1f} cycles/chunk, memcpy {:7.1f}; {:.2f} GB/s, memcpy {:.2f}: {:.2f}  "
      "({})\n",
      row["integrity"].get<std::string>(), row["staging"].get<std::string>(),
      row["cycles_per_chunk"].get<double>(), row["memcpy_cycles_per_chunk"].get<double>(),
      row["gigabytes_per_second"].get<double>(), row["memcpy_gigabytes_per_second"].get<double>(),
      row["to_memcpy"].get<double>(), row["implementation"].get<std::string>());
}

int run(const Options& options) {
  if (options.count > 0) {
    Case one(options, options.only.empty() ? "keyed" : options.only, true);
    for (std::uint32_t i = 0; i < options.count; ++i) one.receive();
    return 0;
  }
  pin(0);
  nlohmann::json rows = nlohmann::json::array();
  for (const char* kind : {"keyed", "crc"}) {
    if (!options.only.empty() && options.only != kind) continue;
    double alone = 0;
    for (const bool ring : {true, false}) {
      rows.push_back(one_core(options, kind, ring));
      print(rows.back());
      if (ring) alone = rows.back()["gigabytes_per_second"];
    }
    if (auto both = two_cores(options, kind, alone); !both.is_null()) {
      rows.push_back(std::move(both));
      print(rows.back());
    }
  }
  if (options.json.empty()) return 0;
  std::ofstream file(options.json);
  file << rows.dump(1) << '\n';
  return file ? 0 : 1;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  tutti::bench::Options options;
  if (!tutti::bench::read_options(argc, argv, options)) {
    std::fprintf(
        stderr,
        "usage: %s [--chunk-bytes N] [--mib N] [--repeat N] [--only keyed|crc] [--json FILE]"
        " [--count N]\n",
        argv[0]);
    return tutti::bench::kUsage;
  }
  return tutti::bench::run(options);
}
