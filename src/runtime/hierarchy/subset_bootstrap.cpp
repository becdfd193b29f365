#include "runtime/hierarchy/subset_bootstrap.hpp"

#include <algorithm>

namespace tutti::runtime {

Rank SubsetBootstrap::rank() const {
  const auto found = std::find(members_.begin(), members_.end(), whole_.rank());
  return rank_of(static_cast<std::uint32_t>(found - members_.begin()));
}

Result<std::vector<Bytes>> SubsetBootstrap::allgather(std::span<const std::byte> mine,
                                                      Nanoseconds timeout) {
  ++exchanges_;
  auto all = whole_.allgather(mine, timeout);
  if (!all) return all.status();
  std::vector<Bytes> parts;
  for (const Rank member : members_) parts.push_back(std::move((*all)[index(member)]));
  return parts;
}

Status SubsetBootstrap::participate_idle(std::uint32_t exchanges, Nanoseconds timeout) {
  while (exchanges_ < exchanges) {
    auto all = allgather({}, timeout);
    if (!all) return all.status();
  }
  return {};
}

}  // namespace tutti::runtime
