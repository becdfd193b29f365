// Reduce and Allreduce by vector halving and distance doubling ([Xu25] 1.2).
//
// In step t a rank exchanges half of its data with the rank whose number differs in bit t, and
// folds the other half. After the last step each rank has one block of the result; Allreduce
// returns the blocks along the same path, and Reduce gathers them at the root along a binomial
// tree. If the number of ranks is not a power of two, some ranks are folded: a folded rank gives
// its data to its partner, which takes part for both. The ranks that take part are the actors
// (collectives/folding.hpp).
//
// In a Reduce, ranks could begin the next call before the root has read their packets, and reuse
// the keys of these packets. The root therefore ends the call with triggers down the same tree. An
// Allreduce needs no such triggers, because no rank has the result before every rank has
// contributed.
#include <bit>

#include "base/error.hpp"
#include "collectives/folding.hpp"
#include "trigger/build/builder_parts.hpp"

namespace tutti::trigger {
namespace {

constexpr std::uint32_t kFoldStep = 0;

/// Consecutive elements [first, last) of the segment that is reduced.
struct Elements {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

class Halving {
 public:
  explicit Halving(const CollectiveCall& call)
      : call_(call),
        ranks_(static_cast<std::uint32_t>(call.nodes.size())),
        folding_(call.rank, ranks_),
        doublings_(static_cast<std::uint32_t>(std::bit_width(ranks_)) - 1),
        element_bytes_(static_cast<std::uint32_t>(reduction::element_bytes(call.type))),
        builder_(call.job, call.port, call.nodes[call.rank]) {}

  Result<std::vector<DescriptorList>> build() {
    if (release_step() >= kSequenceIds) {
      return failure(Code::invalid_argument,
                     "{}: {} ranks need {} steps, above the limit of {}: use fewer ranks",
                     to_string(call_.kind), ranks_, release_step() + 1, kSequenceIds);
    }
    if (folding_.folded()) {
      give_and_wait();
    } else {
      reduce_scatter();
      if (call_.kind == CollectiveKind::allreduce) {
        allgather();
      } else {
        gather();
      }
    }
    if (call_.kind == CollectiveKind::reduce) release();
    builder_.end();
    return std::vector<DescriptorList>{builder_.finish()};
  }

 private:
  bool is_reduce() const { return call_.kind == CollectiveKind::reduce; }
  /// True if this rank also takes part for the folded rank of its pair. It first combines the
  /// folded rank's data with its own.
  bool has_giver() const { return folding_.paired() && !folding_.folded(); }
  bool root_is_folded() const { return collectives::Folding(call_.root, ranks_).folded(); }
  NodeId node(std::uint32_t rank) const { return call_.nodes[rank]; }
  NodeId partner(std::uint32_t step) const {
    return node(index(folding_.rank(folding_.actor() ^ 1u << step)));
  }
  NodeId pair_partner() const { return node(index(folding_.pair_partner())); }
  bool bit(std::uint32_t step) const { return (folding_.actor() >> step & 1) != 0; }

  std::uint32_t scatter_step(std::uint32_t t) const { return 1 + t; }
  std::uint32_t gather_step(std::uint32_t t) const { return 2 * doublings_ - t; }
  std::uint32_t return_step() const { return 2 * doublings_ + 1; }
  std::uint32_t release_step() const { return 2 * doublings_ + 2; }

  std::uint32_t bytes(Elements some) const { return (some.last - some.first) * element_bytes_; }
  Address at(Address base, Elements some) const {
    return base + std::uint64_t{some.first} * element_bytes_;
  }
  Elements whole() const { return {0, call_.elements}; }

  /// The elements that this rank still holds when step t of the halving begins.
  Elements held_before(std::uint32_t t) const {
    Elements held = whole();
    for (std::uint32_t step = 0; step < t; ++step) held = half(held, bit(step));
    return held;
  }
  static Elements half(Elements all, bool upper) {
    const std::uint32_t middle = all.first + (all.last - all.first) / 2;
    return upper ? Elements{middle, all.last} : Elements{all.first, middle};
  }

  Descriptor& reduce(Address from, Elements some, std::uint8_t local_position) {
    return builder_.reduce(call_.operation, call_.type, at(from, some), at(call_.output, some),
                           bytes(some), local_position);
  }

  void give_and_wait() {
    builder_.send(pair_partner(), kFoldStep, call_.input, bytes(whole()));
    if (is_reduce() && call_.rank != call_.root) return;
    builder_.receive(pair_partner(), return_step(), call_.output, bytes(whole()));
  }

  // The steps up to the first fold read this rank's data from the input buffer. The first fold
  // stores its result in the output buffer, and all later steps read the output buffer.
  void reduce_scatter() {
    Address held = call_.input;
    if (has_giver()) {
      reduce(held, whole(), 1);
      builder_.name(pair_partner(), kFoldStep);
      held = call_.output;
    }
    for (std::uint32_t t = 0; t < doublings_; ++t) {
      const Elements before = held_before(t);
      const Elements given = half(before, !bit(t));
      const Elements kept = half(before, bit(t));
      builder_.send(partner(t), scatter_step(t), at(held, given), bytes(given));
      Descriptor& d = reduce(held, kept, bit(t) ? 1 : 0);
      if (t + 1 == doublings_) d.contributions = ranks_;
      builder_.name(partner(t), scatter_step(t));
      held = call_.output;
    }
    if (ranks_ == 1) reduce(held, whole(), 0).contributions = 1;
  }

  void allgather() {
    for (std::uint32_t t = doublings_; t-- > 0;) {
      const Elements before = held_before(t);
      const Elements own = half(before, bit(t));
      const Elements other = half(before, !bit(t));
      builder_.send(partner(t), gather_step(t), at(call_.output, own), bytes(own));
      builder_.receive(partner(t), gather_step(t), at(call_.output, other), bytes(other));
    }
    if (has_giver()) return_to(index(folding_.pair_partner()));
  }

  void return_to(std::uint32_t rank) {
    builder_.send(node(rank), return_step(), call_.output, bytes(whole()));
  }

  /// Returns n: in the gather, this rank receives blocks in the steps doublings_ - 1 down to n. It
  /// then sends all its blocks in step n - 1 or, if n is 0, has all blocks of the result.
  std::uint32_t lowest_gather() const {
    const std::uint32_t gatherer = collectives::Folding(call_.root, ranks_).actor();
    return static_cast<std::uint32_t>(std::bit_width(folding_.actor() ^ gatherer));
  }

  void gather() {
    const std::uint32_t lowest = lowest_gather();
    for (std::uint32_t t = doublings_; t-- > lowest;) {
      const Elements other = half(held_before(t), !bit(t));
      builder_.receive(partner(t), gather_step(t), at(call_.output, other), bytes(other));
    }
    if (lowest != 0) {
      const Elements held = held_before(lowest);
      builder_.send(partner(lowest - 1), gather_step(lowest - 1), at(call_.output, held),
                    bytes(held));
    } else if (root_is_folded()) {
      return_to(call_.root);
    }
  }

  /// Appends the triggers that end a Reduce. They go from the root down the tree of the gather, and
  /// then from each partner to its folded rank, unless the folded rank is the root.
  void release() {
    const bool is_root = call_.rank == call_.root;
    if (folding_.folded()) {
      if (!is_root) builder_.wait(pair_partner(), release_step());
      if (is_root) builder_.signal(pair_partner(), release_step());
      return;
    }
    const std::uint32_t lowest = lowest_gather();
    if (lowest != 0) {
      builder_.wait(partner(lowest - 1), release_step());
    } else if (root_is_folded()) {
      builder_.wait(node(call_.root), release_step());
    }
    for (std::uint32_t t = doublings_; t-- > lowest;) builder_.signal(partner(t), release_step());
    if (has_giver() && index(folding_.pair_partner()) != call_.root) {
      builder_.signal(pair_partner(), release_step());
    }
  }

  const CollectiveCall& call_;
  std::uint32_t ranks_;
  collectives::Folding folding_;
  /// Number of doubling steps: the integer part of log2 of the number of ranks.
  std::uint32_t doublings_;
  std::uint32_t element_bytes_;
  SequenceBuilder builder_;
};

}  // namespace

Result<std::vector<DescriptorList>> build_halving(const CollectiveCall& call) {
  return Halving(call).build();
}

Result<std::vector<DescriptorList>> build_reduce_flat(const CollectiveCall& call) {
  constexpr std::uint32_t kFlatDataStep = 0;
  constexpr std::uint32_t kFlatReleaseStep = 1;
  const auto ranks = static_cast<std::uint32_t>(call.nodes.size());
  if (ranks - 1 > kMaxChildren) {
    return failure(Code::invalid_argument,
                   "{}: the root has {} children, above the limit of {}: use at most {} ranks, or "
                   "CollectiveKind::reduce",
                   to_string(call.kind), ranks - 1, kMaxChildren, kMaxChildren + 1);
  }
  const auto size_bytes =
      static_cast<std::uint32_t>(call.elements * reduction::element_bytes(call.type));
  SequenceBuilder builder(call.job, call.port, call.nodes[call.rank]);
  if (call.rank != call.root) {
    builder.send(call.nodes[call.root], kFlatDataStep, call.input, size_bytes);
    builder.wait(call.nodes[call.root], kFlatReleaseStep);
    return std::vector<DescriptorList>{builder.finish()};
  }
  builder
      .reduce(call.operation, call.type, call.input, call.output, size_bytes,
              static_cast<std::uint8_t>(call.root))
      .contributions = ranks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank != call.root) builder.name(call.nodes[rank], kFlatDataStep);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == call.root) continue;
    builder.signal(call.nodes[rank], kFlatReleaseStep).collective_end = true;
  }
  builder.end();
  return std::vector<DescriptorList>{builder.finish()};
}

}  // namespace tutti::trigger
