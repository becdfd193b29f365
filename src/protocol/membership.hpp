// The membership check: a path is used only after a probe has arrived over it. A switch begins to
// forward to a host some time after the host joins a group. A probe proves that the switch
// forwards; a fixed delay would prove nothing. Probes of full length prove that the longest
// datagrams pass, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::protocol {

/// The paths to this rank and the probes that have arrived over them. There is one multicast path
/// for each other rank and subgroup, and one unicast path from each partner (some of the ranks).
class Membership {
 public:
  /// A path over which no probe of full length has arrived: the rank at its start, and the length
  /// of the longest probe that has arrived.
  struct Narrow {
    Rank source = kNoRank;
    std::uint32_t bytes = 0;
  };

  /// `full_bytes` is the length of the longest datagram that the job wants to use.
  Membership(Rank me, std::uint32_t size, std::uint32_t subgroups, std::vector<Rank> partners = {},
             std::uint32_t full_bytes = 0)
      : me_(me),
        size_(size),
        subgroups_(subgroups),
        partners_(std::move(partners)),
        full_bytes_(full_bytes),
        paths_(std::size_t{size} * subgroups + partners_.size()) {}

  /// Records a probe that came by multicast; values out of range are ignored.
  void on_probe(Rank source, std::uint64_t subgroup, std::uint32_t bytes = 0) {
    if (index(source) >= size_ || subgroup >= subgroups_ || source == me_) return;
    record(paths_[path_of(source, static_cast<std::uint32_t>(subgroup))], bytes);
  }
  /// Records a probe that came by unicast; a probe of a rank that is not a partner is ignored.
  void on_unicast_probe(Rank source, std::uint32_t bytes) {
    for (std::size_t i = 0; i < partners_.size(); ++i) {
      if (partners_[i] == source) record(paths_[first_unicast() + i], bytes);
    }
  }

  /// True if at least one probe has arrived over every path.
  bool heard_all() const { return heard_ == count(); }
  /// True if at least one probe of full length has arrived over every path.
  bool complete() const { return full_ == count(); }
  /// The ranks from which no probe has arrived on at least one subgroup.
  std::vector<Rank> missing() const {
    std::vector<Rank> ranks;
    for (std::uint32_t r = 0; r < size_; ++r) {
      const auto first = paths_.begin() + static_cast<std::ptrdiff_t>(path_of(rank_of(r), 0));
      const bool heard =
          std::all_of(first, first + subgroups_, [](const Path& path) { return path.heard; });
      if (rank_of(r) != me_ && !heard) ranks.push_back(rank_of(r));
    }
    return ranks;
  }
  /// Of the paths over which only probes shorter than full length have arrived, returns the one
  /// whose longest probe is the shortest. Returns nothing if there is no such path.
  std::optional<Narrow> narrowest() const {
    std::optional<Narrow> narrow;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const bool longer = narrow && paths_[i].bytes >= narrow->bytes;
      if (!paths_[i].heard || paths_[i].bytes >= full_bytes_ || longer) continue;
      narrow = Narrow{source_of(i), paths_[i].bytes};
    }
    return narrow;
  }

 private:
  struct Path {
    bool heard = false;
    std::uint32_t bytes = 0;  ///< length of the longest probe that has arrived
  };

  void record(Path& path, std::uint32_t bytes) {
    const bool was_full = path.heard && path.bytes >= full_bytes_;
    heard_ += path.heard ? 0 : 1;
    path.heard = true;
    path.bytes = std::max(path.bytes, bytes);
    full_ += !was_full && path.bytes >= full_bytes_ ? 1 : 0;
  }
  std::size_t path_of(Rank source, std::uint32_t subgroup) const {
    return std::size_t{index(source)} * subgroups_ + subgroup;
  }
  std::size_t first_unicast() const { return std::size_t{size_} * subgroups_; }
  Rank source_of(std::size_t path) const {
    return path < first_unicast() ? rank_of(static_cast<std::uint32_t>(path / subgroups_))
                                  : partners_[path - first_unicast()];
  }
  std::size_t count() const { return std::size_t{size_ - 1} * subgroups_ + partners_.size(); }

  Rank me_;
  std::uint32_t size_;
  std::uint32_t subgroups_;
  std::vector<Rank> partners_;
  std::uint32_t full_bytes_;
  std::vector<Path> paths_;
  std::size_t heard_ = 0;  ///< number of paths over which a probe has arrived
  std::size_t full_ = 0;   ///< number of paths over which a probe of full length has arrived
};

}  // namespace tutti::protocol
