// Helpers of the bootstrap tests: ranks as threads, environments as maps.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"
#include "runtime/bootstrap/store/socket.hpp"

namespace tutti::runtime::test {

using Made = Result<std::unique_ptr<Bootstrap>>;
using Variables = std::map<std::string, std::string>;

inline constexpr Nanoseconds kLong = std::chrono::seconds(60);
/// A time that is long enough for all threads of a test to reach the same point, even on a busy
/// host.
inline constexpr Nanoseconds kPatience = std::chrono::seconds(2);
/// A time to wait for events that must not happen.
inline constexpr Nanoseconds kShort = std::chrono::milliseconds(300);

inline Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

/// Runs `body(rank)` in a thread for each rank and returns the results.
template <typename Body>
auto on_ranks(std::uint32_t size, Body body) {
  std::vector<decltype(body(0u))> results(size, decltype(body(0u))());
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { results[rank] = body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

inline Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

/// Runs three exchanges with contributions of different lengths; returns "" or the problem.
inline std::string exchange_problem(Bootstrap& bootstrap, std::uint32_t rank, std::uint32_t size) {
  if (index(bootstrap.rank()) != rank || bootstrap.size() != size) return "wrong rank or size";
  for (std::uint32_t round = 0; round < 3; ++round) {
    const auto all = bootstrap.allgather(Bytes(rank * 1000 + round, std::byte(rank)), kLong);
    if (!all.ok()) return all.status().to_string();
    if (all->size() != size) return "wrong number of contributions";
    for (std::uint32_t peer = 0; peer < size; ++peer) {
      if ((*all)[peer] != Bytes(peer * 1000 + round, std::byte(peer))) return "wrong contribution";
    }
  }
  return "";
}

/// Makes a bootstrap on each rank and exchanges over it; returns one problem or "" for each rank.
template <typename Make>
std::vector<std::string> exchange_problems(std::uint32_t size, Make make) {
  return on_ranks(size, [&](std::uint32_t rank) -> std::string {
    Made bootstrap = make(rank);
    if (!bootstrap.ok()) return bootstrap.status().to_string();
    return exchange_problem(**bootstrap, rank, size);
  });
}

inline std::vector<std::string> no_problems(std::uint32_t size) {
  return std::vector<std::string>(size);
}

/// A port of the loopback interface that was free a moment ago.
inline std::uint16_t free_port() {
  const auto socket = listen_on({"127.0.0.1", 0});
  return socket.ok() ? bound_port(*socket).value() : std::uint16_t{0};
}

}  // namespace tutti::runtime::test
