#include "runtime/bootstrap/subset_bootstrap.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace tutti::runtime {

namespace {

// First byte of a contribution: kFinished if the rank has called `finish`, otherwise kExchanges.
constexpr std::byte kFinished{0};
constexpr std::byte kExchanges{1};

bool exchanges(const Bytes& contribution) {
  return !contribution.empty() && contribution.front() == kExchanges;
}

}  // namespace

Rank SubsetBootstrap::rank() const {
  const auto found = std::find(members_.begin(), members_.end(), whole_.rank());
  return rank_of(static_cast<std::uint32_t>(found - members_.begin()));
}

Result<std::vector<Bytes>> SubsetBootstrap::allgather(std::span<const std::byte> mine,
                                                      Nanoseconds timeout) {
  Bytes own{kExchanges};
  own.insert(own.end(), mine.begin(), mine.end());
  const auto all = whole_.allgather(own, timeout);
  if (!all) return all.status();
  std::vector<Bytes> parts;
  for (const Rank member : members_) {
    const Bytes& part = (*all)[index(member)];
    if (!exchanges(part))
      return failure_of(
          {member}, Code::peer_failed,
          "rank {} has given up the creation of this communicator: see the error of that rank",
          index(member));
    parts.emplace_back(part.begin() + 1, part.end());
  }
  return parts;
}

Status SubsetBootstrap::finish(Nanoseconds timeout) {
  const Nanoseconds longest = 2 * std::min(timeout, Nanoseconds::max() / 2);
  for (;;) {
    const auto all = whole_.allgather(std::span(&kFinished, 1), longest);
    if (!all) return all.status();
    if (std::none_of(all->begin(), all->end(), exchanges)) return {};
  }
}

}  // namespace tutti::runtime
