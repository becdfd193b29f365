// Measures the time to compute the integrity word of a datagram, alone and combined with the copy
// out of staging.
//
// The datagrams lie in memory as after a receive call, each payload behind its wire header, and
// stay in the second-level cache. The benchmarks named `cold` read more memory than a cache holds.
// memcpy of the same bytes is the lower bound. The argument of a benchmark is the payload in bytes.
#include "wire/integrity.hpp"

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "wire/header.hpp"

namespace {

using tutti::wire::Integrity;
using tutti::wire::IntegrityKind;
using tutti::wire::kHeaderBytes;

constexpr std::size_t kStagingBytes = 128 * 1024;
constexpr std::size_t kColdBytes = 256 * 1024 * 1024;

/// Datagrams in a staging buffer, and the positions in a user buffer to which their payloads are
/// copied. advance() goes to the next datagram.
class Datagrams {
 public:
  Datagrams(std::size_t payload_bytes, std::size_t staging_bytes)
      : payload_bytes_(payload_bytes), staging_(staging_bytes) {
    for (std::size_t i = 0; i < staging_.size(); ++i) staging_[i] = static_cast<std::byte>(i * 7);
  }

  void advance() {
    header_ += kHeaderBytes + payload_bytes_;
    target_ += payload_bytes_;
    if (header_ + kHeaderBytes + payload_bytes_ > staging_.size()) header_ = 0;
    if (target_ + payload_bytes_ > user_.size()) target_ = 0;
  }

  const std::byte* header() const { return staging_.data() + header_; }
  std::span<const std::byte> payload() const { return {header() + kHeaderBytes, payload_bytes_}; }
  std::byte* target() { return user_.data() + target_; }

 private:
  std::size_t payload_bytes_;
  std::size_t header_ = 0;
  std::size_t target_ = 0;
  std::vector<std::byte> staging_;
  std::vector<std::byte> user_ = std::vector<std::byte>(kStagingBytes);
};

template <typename Work>
void measure(benchmark::State& state, const Work& work, std::size_t staging_bytes) {
  const auto payload_bytes = static_cast<std::size_t>(state.range(0));
  Datagrams datagrams(payload_bytes, staging_bytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(work(datagrams));
    datagrams.advance();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

std::byte* copy(Datagrams& at) {
  std::memcpy(at.target(), at.payload().data(), at.payload().size());
  benchmark::ClobberMemory();
  return at.target();
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int payload_bytes : {64, 1440, 4096, 8192, 65000}) benchmark->Arg(payload_bytes);
}

template <typename Work>
void register_one(const std::string& name, const Work& work,
                  std::size_t staging_bytes = kStagingBytes) {
  benchmark::RegisterBenchmark(name.c_str(), [work, staging_bytes](benchmark::State& state) {
    measure(state, work, staging_bytes);
  })->Apply(sizes);
}

void register_all(const Integrity& integrity) {
  for (const std::string_view name : Integrity::implementations(integrity.kind())) {
    const Integrity one = integrity.with_implementation(name).value();
    const std::string label(name);
    const auto tag = [one](Datagrams& at) { return one.tag(at.header(), at.payload()); };
    const auto copy_and_tag = [one](Datagrams& at) {
      return one.copy_and_tag(at.target(), at.header(), at.payload());
    };
    register_one("tag/" + label, tag);
    register_one("copy_and_tag/" + label, copy_and_tag);
    register_one("cold/copy_and_tag/" + label, copy_and_tag, kColdBytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::array<std::byte, 32> secret{};
  const auto keyed = Integrity::keyed(secret, 1);
  if (!keyed) {
    std::fprintf(stderr, "%s\n", keyed.status().to_string().c_str());
    return 1;
  }
  register_one("memcpy", copy);
  register_one("cold/memcpy", copy, kColdBytes);
  register_all(*keyed);
  register_all(Integrity::crc());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
