// The job's side of reductions by aggregators: joins the aggregators, and runs the calls that use
// them.
//
// Each aggregator is the last rank of a separate side communicator of P + 1 ranks, where P is the
// number of ranks of the job. It reduces a contiguous part of every block, so that all aggregators
// and all links work at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crypto/secret.hpp"
#include "engine/aggregate/window_plan.hpp"
#include "engine/core/operation.hpp"
#include "engine/peers/rank_names.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/routes/call_route.hpp"
#include "tutti/collective.hpp"
#include "tutti/options.hpp"
#include "tutti/reduction.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
class MulticastOperation;
}

namespace tutti::runtime {

class CommunicatorImpl;
class Progress;

/// The element type, the operation and the fold order of a reduction.
struct ReductionCall {
  DataType type = DataType::float32;
  ReduceOperation operation = ReduceOperation::sum;
  /// The fold order. If none is given, contributions are folded in rank order, or in an order that
  /// gives the same bits with less traffic. With FoldOrder::ring a Reduce-Scatter returns the same
  /// bits as the ring algorithm. The contribution of a rank to its own block then comes last, so
  /// the rank adds it locally and does not send it.
  std::optional<engine::FoldOrder> order{};
  /// This rank's factor for premultiplied_sum, as one element of `type`.
  std::span<const std::byte> factor{};
  bool will_wait = false;  ///< true: the caller waits at once (CollectiveOptions::will_wait)
  Priority priority = Priority::normal;
};

/// The route by which a communicator carries out reductions in aggregators.
class Aggregation final : public CallRoute {
 public:
  /// Joins the aggregators that the options of rank 0 name; every rank must call this function.
  /// `progress` polls the side communicators. The function fails on all ranks or on none; with the
  /// option `aggregator_fallback` it returns an inactive object instead of an error. Only the ranks
  /// of the job know `key`; `names` gives the number in the job of each rank of the communicator.
  static Result<std::shared_ptr<Aggregation>> create(Bootstrap& bootstrap,
                                                     const CommunicatorOptions& options,
                                                     std::shared_ptr<Progress> progress,
                                                     const crypto::Secret& key,
                                                     const engine::RankNames& names);
  /// Leaves the aggregators, and closes the side communicators.
  ~Aggregation() override;
  Aggregation(const Aggregation&) = delete;
  Aggregation& operator=(const Aggregation&) = delete;

  /// True: the aggregators are in use. False: the communicator reduces without them
  /// (aggregator_fallback). The value is the same on all ranks.
  bool active() const { return !sides_.empty(); }
  /// The reason why the aggregators are not in use.
  const Status& reason() const { return reason_; }
  /// A description of the aggregators for users, such as "2 aggregator(s) (10.0.0.9:7000,
  /// 10.0.0.9:7001), windows of 16 slots x 65536 bytes a rank, 4 pulses".
  std::string describe() const override;
  /// Counters of all side communicators together.
  CounterList counters() const override;

  /// True if the aggregators are in use and `call` is a reduction of one of two kinds: it names an
  /// aggregator algorithm, or it names no algorithm and its blocks are equally long.
  bool serves(const CollectiveCall& call) const override;
  Outcome start(const CollectiveCall& call) override;
  Result<PreparedRun> prepare(const CollectiveCall& call) override;
  Result<std::string> algorithm_of(const CollectiveCall& call) override;
  void abort(const std::string& reason) override;
  void fail_because(const Status& cause) override;
  void on_failure(const std::function<void(const Status&)>& hook) override;
  void poll() override;
  Status status() const override;
  bool busy() const override;
  /// Leaves the aggregators, and closes the side communicators.
  Status close(Instant deadline) override;

  /// These functions start reductions, like the functions of Communicator with the same names. The
  /// buffers belong to Tutti until completion. A call is in place if `output` is `input` or, in a
  /// Reduce-Scatter, this rank's block of `input`.
  Outcome allreduce(std::span<const std::byte> input, std::span<std::byte> output,
                    const ReductionCall& call);
  /// `input` has as many blocks as there are ranks, each as long as `output`.
  Outcome reduce_scatter(std::span<const std::byte> input, std::span<std::byte> output,
                         const ReductionCall& call);
  /// `output` is used only at the root.
  Outcome reduce(std::span<const std::byte> input, std::span<std::byte> output, Rank root,
                 const ReductionCall& call);

 private:
  struct Side {
    std::string address;
    engine::WindowConfig terms;
    std::shared_ptr<CommunicatorImpl> state;
  };
  struct Plan;
  class CompletionGroup;

  Aggregation(Rank rank, std::uint32_t size, std::shared_ptr<Progress> progress)
      : rank_(rank), size_(size), progress_(std::move(progress)) {}

  Status join(const std::string& address, const std::string& unique_id,
              const engine::WindowConfig& terms, const CommunicatorOptions& options);
  Result<Plan> plan(const CollectiveCall& call) const;
  Result<Plan> plan(Collective collective, Rank root, std::span<const std::byte> input,
                    std::span<std::byte> output, const ReductionCall& call) const;
  Outcome submit(const Result<Plan>& plan);
  std::size_t parts_of(std::uint64_t bytes) const;
  Rank aggregator() const;
  std::vector<std::unique_ptr<engine::Operation>> operations_of(const Plan& plan, const Side& side,
                                                                std::size_t part,
                                                                std::size_t parts) const;

  Rank rank_;
  std::uint32_t size_;
  std::shared_ptr<Progress> progress_;
  /// For each rank of a side communicator, its number in the job; for the aggregator,
  /// kAggregatorInJob. Empty if every rank has the same number in the side communicator and in the
  /// job.
  std::vector<Rank> members_;
  std::vector<Side> sides_;
  bool closed_ = false;
  Status reason_;
  /// Held while a call is submitted, so that every side communicator gets the calls of several
  /// threads in the same order.
  std::mutex mutex_;
  /// Number of calls so far that were too short to be divided among all aggregators. This number
  /// selects the first aggregator of the next short call, so that short calls use the aggregators
  /// in turn.
  std::uint32_t calls_ = 0;
};

}  // namespace tutti::runtime
