// Compares the time of the reduction kernels with the lower bound that the memory bandwidth of one
// core sets.
//
// Each repetition times a kernel and two plain loops that move as many bytes: a sum over the same
// vectors and a copy. The best time of the faster loop is the bound. The counter `of_bound` is the
// bound divided by the best time of the kernel; 1 means that the arithmetic takes no extra time.
// The vectors exceed the caches unless --cached is given.
//
//   reduction_bench [--cached] [--implementation=NAME] [google-benchmark's own options]
//   --benchmark_format=json prints the same records for programs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "reduction/reducer.hpp"

namespace {

using tutti::reduction::ElementType;
using tutti::reduction::Operation;
using tutti::reduction::Reducer;

// Size of one vector in bytes, larger than the caches.
constexpr std::size_t kMemoryBytes = 32u << 20;
constexpr std::size_t kCachedBytes = 16u << 10;
constexpr std::size_t kMaxOperands = 16;

using Words = std::vector<std::uint64_t>;

/// The operands and the result of all benchmarks. The bits are chosen so that results neither
/// overflow nor underflow in any floating-point type.
class Streams {
 public:
  explicit Streams(std::size_t bytes) : bytes_(bytes), result_(bytes / 8) {
    for (std::size_t i = 0; i < kMaxOperands; ++i) {
      Words words(bytes / 8);
      // Each group of 16 bits has a value from 0x3f00 to 0x3fff. As float16 this is a number
      // between 1 and 2; as the upper bits of any other floating-point type it is a number between
      // 2^-15 and 2.
      for (std::size_t w = 0; w < words.size(); ++w) {
        words[w] = (tutti::draw(i, w) & 0x00ff'00ff'00ff'00ffu) | 0x3f00'3f00'3f00'3f00u;
      }
      operands_.push_back(std::move(words));
    }
  }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t* result() { return result_.data(); }
  const std::uint64_t* operand(std::size_t i) const { return operands_[i].data(); }

 private:
  std::size_t bytes_;
  Words result_;
  std::vector<Words> operands_;
};

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Computes dst[i] += a[i]. This file is compiled with -O3, so that the compiler vectorises the
// loop.
[[gnu::noinline]] void triad_update(std::uint64_t* __restrict dst,
                                    const std::uint64_t* __restrict a, std::size_t words) {
  for (std::size_t i = 0; i < words; ++i) dst[i] += a[i];
}

// Computes dst[i] = a0[i] + a1[i] + ... It reads each operand once and writes the result once.
template <std::size_t kOperands>
[[gnu::noinline]] void triad_of(std::uint64_t* __restrict dst, const Streams& streams,
                                std::size_t words) {
  const std::uint64_t* operands[kOperands];
  for (std::size_t k = 0; k < kOperands; ++k) operands[k] = streams.operand(k);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t sum = operands[0][i];
    for (std::size_t k = 1; k < kOperands; ++k) sum += operands[k][i];
    dst[i] = sum;
  }
}

void triad(Streams& streams, std::size_t operands) {
  const std::size_t words = streams.bytes() / 8;
  if (operands == 1) return triad_update(streams.result(), streams.operand(0), words);
  if (operands == 2) return triad_of<2>(streams.result(), streams, words);
  if (operands == 4) return triad_of<4>(streams.result(), streams, words);
  if (operands == 8) return triad_of<8>(streams.result(), streams, words);
  triad_of<16>(streams.result(), streams, words);
}

/// Copies half the bytes of `streams_moved` vectors. A copy reads and writes each byte, so it moves
/// as many bytes as a kernel that reads or writes all `streams_moved` vectors once.
void copy(Streams& streams, std::size_t streams_moved) {
  std::size_t left = streams.bytes() * streams_moved / 2;
  for (std::size_t i = 0; left != 0; ++i) {
    const std::size_t some = std::min(left, streams.bytes());
    std::memcpy(streams.result(), streams.operand(i % kMaxOperands), some);
    left -= some;
  }
}

/// Times one kernel. With one operand it computes dst = dst op a0, with more operands dst = a0 op
/// a1 op ...
void measure(benchmark::State& state, Streams& streams, const Reducer& reducer,
             std::size_t operands) {
  const std::size_t count = streams.bytes() / element_bytes(reducer.type());
  auto* dst = reinterpret_cast<std::byte*>(streams.result());
  std::vector<const std::byte*> pointers;
  for (std::size_t i = 0; i < operands; ++i) {
    pointers.push_back(reinterpret_cast<const std::byte*>(streams.operand(i)));
  }
  const std::size_t streams_moved = operands == 1 ? 3 : operands + 1;
  double kernel = 1e9;
  double best_triad = 1e9;
  double best_copy = 1e9;
  std::memcpy(dst, pointers[0], streams.bytes());
  for (auto _ : state) {
    const double seconds = seconds_of([&] {
      if (operands == 1) {
        reducer.accumulate(dst, pointers[0], count);
      } else {
        reducer.combine(dst, pointers, count);
      }
    });
    state.SetIterationTime(seconds);
    kernel = std::min(kernel, seconds);
    best_triad = std::min(best_triad, seconds_of([&] { triad(streams, operands); }));
    best_copy = std::min(best_copy, seconds_of([&] { copy(streams, streams_moved); }));
    std::memcpy(dst, pointers[0], streams.bytes());
  }
  const double gigabytes = static_cast<double>(streams.bytes() * streams_moved) / 1e9;
  state.counters["kernel_GBps"] = gigabytes / kernel;
  state.counters["triad_GBps"] = gigabytes / best_triad;
  state.counters["copy_GBps"] = gigabytes / best_copy;
  state.counters["of_bound"] = std::min(best_triad, best_copy) / kernel;
}

void register_all(Streams& streams, std::string_view implementation) {
  for (std::size_t t = 0; t < tutti::reduction::kElementTypes; ++t) {
    for (const Operation operation : {Operation::sum, Operation::min, Operation::prod}) {
      const auto type = static_cast<ElementType>(t);
      const Reducer reducer =
          Reducer::create(operation, type).value().with_implementation(implementation).value();
      for (const std::size_t operands : {1u, 2u, 4u, 8u, 16u}) {
        const std::string name =
            std::string(to_string(operation)) + "/" + to_string(type) + "/" +
            std::string(implementation) + "/" +
            (operands == 1 ? "accumulate" : "combine" + std::to_string(operands));
        const auto run = [&streams, reducer, operands](benchmark::State& state) {
          measure(state, streams, reducer, operands);
        };
        benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->MinTime(0.1);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string implementation(Reducer::implementations().front());
  bool cached = false;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--cached") {
      cached = true;
    } else if (argument.starts_with("--implementation=")) {
      implementation = argument.substr(argument.find('=') + 1);
    } else {
      rest.push_back(argv[i]);
    }
  }
  const auto known = Reducer::implementations();
  if (std::find(known.begin(), known.end(), implementation) == known.end()) {
    std::fprintf(stderr, "reduction_bench: implementation %s does not run here\n",
                 implementation.c_str());
    return 1;
  }
  auto rest_count = static_cast<int>(rest.size());
  benchmark::Initialize(&rest_count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(rest_count, rest.data())) return 1;
  Streams streams(cached ? kCachedBytes : kMemoryBytes);
  register_all(streams, implementation);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
