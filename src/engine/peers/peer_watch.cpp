#include "engine/peers/peer_watch.hpp"

#include <algorithm>
#include <utility>

namespace tutti::engine {

void PeerWatch::watch(Rank peer) {
  if (peer == me_ || closed_.contains(peer)) return;
  if (std::find(watched_.begin(), watched_.end(), peer) != watched_.end()) return;
  watched_.push_back(peer);
  endpoint_.watch(peer, true);
}

void PeerWatch::watch_all() {
  if (watched_.size() + closed_.count() + 1 >= size_) return;
  for (std::uint32_t r = 0; r < size_; ++r) watch(rank_of(r));
}

void PeerWatch::watch_neighbours() {
  const std::uint32_t me = index(me_);
  watch(rank_of((me + 1) % size_));
  watch(rank_of((me + size_ - 1) % size_));
}

void PeerWatch::unwatch(Rank peer) {
  std::erase(watched_, peer);
  endpoint_.watch(peer, false);
}

void PeerWatch::unwatch_all() {
  for (const Rank peer : watched_) endpoint_.watch(peer, false);
  watched_.clear();
}

void PeerWatch::test_paths(Instant now, std::uint64_t progress) {
  if (std::exchange(progress_, progress) == progress) {
    for (const Rank peer : watched_) endpoint_.test_path(peer);
  }
  path_test_at_ = now + path_test_interval_;
}

}  // namespace tutti::engine
