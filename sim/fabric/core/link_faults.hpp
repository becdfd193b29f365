// Faults of a fabric's links: lost packets, and links that are down.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sim/fabric/fabric_types.hpp"
#include "sim/fabric/topology.hpp"

namespace tutti::sim {

/// Decides by a random draw whether a packet is lost. Each draw depends only on seed, link and
/// packet, so that a test can invert one draw without an effect on the others.
class LinkFaults {
 public:
  /// `topology` must outlive this object.
  LinkFaults(const Topology& topology, std::uint64_t seed);

  void set_loss(LinkClass link_class, double probability);
  void toggle_loss(LinkId link, std::uint64_t identity);
  void set_link(LinkId link, bool up);

  /// Whether a link that is up can lose packets.
  bool any_loss() const { return any_loss_; }
  bool any_down() const { return !down_.empty(); }
  bool is_down(LinkId link) const { return !down_.empty() && down_.contains(index(link)); }
  /// Whether packet `i` of a train is lost on a link.
  bool lost(LinkId link, const Packet& packet, std::uint32_t i);
  void count_loss(LinkId link, std::uint32_t packets) { losses_[index(link)] += packets; }
  /// The sum of count_loss() for a link.
  std::uint64_t losses(LinkId link) const {
    const auto found = losses_.find(index(link));
    return found == losses_.end() ? 0 : found->second;
  }

 private:
  struct Threshold {
    std::uint32_t wire_bytes = 0;
    std::uint64_t value = 0;
  };
  std::uint64_t threshold(LinkId link, std::uint32_t wire_bytes);

  const Topology& topology_;
  const std::uint64_t seed_;
  bool any_loss_ = false;
  std::array<double, kLinkClasses> class_loss_{};
  std::vector<Threshold> thresholds_;  ///< cached threshold of each LinkSpec and LinkClass
  std::unordered_set<std::uint64_t> toggled_;
  std::unordered_set<std::uint32_t> down_;
  std::unordered_map<std::uint32_t, std::uint64_t> losses_;  ///< only links that lost packets
};

}  // namespace tutti::sim
