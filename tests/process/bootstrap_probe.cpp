// A program that joins the job described by the environment, exchanges data a few times over the
// bootstrap, and prints the outcome.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/bootstrap/detect.hpp"

namespace {

using tutti::runtime::Bytes;

/// Makes the exchange `round` and checks its result. Rank r contributes r + round bytes, each with
/// the value r.
bool exchange_is_right(tutti::runtime::Bootstrap& bootstrap, std::uint32_t round) {
  const std::uint32_t rank = tutti::index(bootstrap.rank());
  const Bytes mine(rank + round, static_cast<std::byte>(rank));
  const auto all = bootstrap.allgather(mine, std::chrono::seconds(20));
  if (!all.ok()) {
    std::fputs((all.status().to_string() + "\n").c_str(), stderr);
    return false;
  }
  for (std::uint32_t peer = 0; peer < bootstrap.size(); ++peer) {
    if ((*all)[peer] != Bytes(peer + round, static_cast<std::byte>(peer))) return false;
  }
  return all->size() == bootstrap.size();
}

}  // namespace

int main() {
  const auto bootstrap = tutti::runtime::detect();
  if (!bootstrap.ok()) {
    std::fputs((bootstrap.status().to_string() + "\n").c_str(), stderr);
    return 2;
  }
  for (std::uint32_t round = 0; round < 3; ++round) {
    if (!exchange_is_right(**bootstrap, round)) return 3;
  }
  const std::string line = fmt::format("rank {} of {} by {}\n", tutti::index((*bootstrap)->rank()),
                                       (*bootstrap)->size(), (*bootstrap)->description());
  std::fputs(line.c_str(), stdout);
  return 0;
}
