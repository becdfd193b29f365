// Broadcast over a double binary tree: each half of the data goes down a separate tree, by RDMA
// writes on a separate port. A child first sends its parent the address at which it wants the data.
// The parent's descriptor uses this address as the target of the write, so no write arrives before
// the child is ready.
#include "trigger/build/builder_parts.hpp"
#include "trigger/build/double_tree.hpp"

namespace tutti::trigger {
namespace {

constexpr std::uint32_t kReadyStep = 0;
constexpr std::uint32_t kDataStep = 1;

/// Builds the sequence of one rank for one half of the data.
class HalfBroadcast {
 public:
  HalfBroadcast(const CollectiveCall& call, std::uint32_t tree)
      : call_(call),
        tree_(tree),
        below_root_(static_cast<std::uint32_t>(call.nodes.size()) - 1),
        builder_(call.job, static_cast<Port>(index(call.port) + tree), call.nodes[call.rank]) {
    const std::uint32_t first_half = (call.elements + 1) / 2;
    elements_ = tree == 0 ? first_half : call.elements - first_half;
    const auto bytes = static_cast<std::uint32_t>(reduction::element_bytes(call.type));
    size_bytes_ = elements_ * bytes;
    address_ = call.output + (tree == 0 ? 0 : std::uint64_t{first_half} * bytes);
  }

  DescriptorList build() {
    const std::uint32_t me = position_of(call_.rank);
    TreeNode node;
    if (me == 0) {
      node.children[0] = double_tree_root(tree_, below_root_);
    } else {
      node = double_tree_node(tree_, me, below_root_);
      builder_.send_address(node_at(node.parent), kReadyStep, address_);
    }
    // True at a rank that forwards data: it must wait for the data before it sends to its first
    // child.
    bool first = me != 0;
    for (const std::uint32_t child : node.children) {
      if (child == 0) continue;
      forward_to(child, first ? &node : nullptr);
      first = false;
    }
    // At a leaf of the tree, the data packet ends the collective, because the parent has set the
    // end flag in this packet.
    if (first) builder_.wait(node_at(node.parent), kDataStep);
    if (!first) builder_.end();
    return builder_.finish();
  }

 private:
  /// The position of a rank, counted cyclically from the root. Position 0 is the root; the
  /// other positions are the nodes of the trees.
  std::uint32_t position_of(std::uint32_t rank) const {
    return (rank + below_root_ + 1 - call_.root) % (below_root_ + 1);
  }
  NodeId node_at(std::uint32_t position) const {
    return call_.nodes[(position + call_.root) % (below_root_ + 1)];
  }

  void forward_to(std::uint32_t child, const TreeNode* wait_for_parent) {
    Descriptor& d = builder_.send(node_at(child), kDataStep, address_, size_bytes_);
    d.collective_end = double_tree_node(tree_, child, below_root_).children[0] == 0;
    if (wait_for_parent != nullptr) builder_.name(node_at(wait_for_parent->parent), kDataStep);
    builder_.name(node_at(child), kReadyStep);
  }

  const CollectiveCall& call_;
  std::uint32_t tree_;
  std::uint32_t below_root_;
  std::uint32_t elements_ = 0;
  std::uint32_t size_bytes_ = 0;
  Address address_ = kNoAddress;
  SequenceBuilder builder_;
};

}  // namespace

Result<std::vector<DescriptorList>> build_broadcast(const CollectiveCall& call) {
  return std::vector<DescriptorList>{HalfBroadcast(call, 0).build(),
                                     HalfBroadcast(call, 1).build()};
}

}  // namespace tutti::trigger
