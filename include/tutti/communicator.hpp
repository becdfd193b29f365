// Tutti's C++ interface: a communicator, nonblocking collectives on it, and requests to wait for.
//
//   auto comm = tutti::Communicator::create();           // finds its ranks from the environment
//   if (!comm) { std::cerr << comm.status().to_string(); return 1; }
//   auto request = comm->allgather(mine, all);           // returns at once
//   if (!request) { ... }
//   ...compute...
//   if (auto status = request->wait(); !status) { ... }  // names rank, phase and what is missing
//
// Thread safety: a communicator may be used by several threads, but the collectives must be called
// in the same order on all ranks. No exception crosses this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/bootstrap.hpp"
#include "tutti/collective.hpp"
#include "tutti/export.hpp"
#include "tutti/options.hpp"
#include "tutti/reduction.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti {

namespace runtime {
class Bootstrap;
class CommunicatorImpl;
class PreparedState;
class Progress;
struct RequestState;
}  // namespace runtime

/// How far a collective is at this rank.
struct ProgressReport {
  /// Multicast: chunks of the result that have arrived. A schedule: tasks done. Through leaders or
  /// aggregators: operations done.
  std::uint64_t chunks_present = 0;
  std::uint64_t chunks_total = 0;  ///< of the same; 0: not known yet
  bool done = false;
};

/// A collective under way. Its buffers belong to Tutti until it is done. Dropping a request does not
/// cancel the collective. One request is used by one thread at a time.
class TUTTI_EXPORT Request {
 public:
  /// An empty request: test() is true, wait() fails with Code::invalid_argument.
  Request() = default;
  /// Makes a little progress, and returns whether the collective is done.
  bool test();
  /// Waits for the end, and returns the status of the collective. From a completion callback it
  /// fails with Code::invalid_argument, since the collective could not go on meanwhile.
  Status wait();
  /// The same for at most `timeout`; after Code::timeout the collective goes on, and the request
  /// may be waited for again.
  Status wait_for(Nanoseconds timeout);
  /// How far the collective is, without making progress. Any thread.
  ProgressReport progress() const;

 private:
  friend class Communicator;
  friend class Prepared;
  explicit Request(std::shared_ptr<runtime::RequestState> state) : state_(std::move(state)) {}

  std::shared_ptr<runtime::RequestState> state_;
};

/// A collective that is started many times with the same buffers: arguments are checked and the
/// algorithm is chosen once. Communicator and buffers must outlive it.
class TUTTI_EXPORT Prepared {
 public:
  /// Starts one run; collective. Fails with Code::invalid_argument while the last run is under way.
  Result<Request> start();

 private:
  friend class Communicator;
  explicit Prepared(std::shared_ptr<runtime::PreparedState> state) : state_(std::move(state)) {}

  std::shared_ptr<runtime::PreparedState> state_;
};

/// A group of ranks that run collectives together: a movable handle. Destroying it closes this
/// rank's side once the last request is gone, and waits a moment for peers that still need it.
/// Thread-safe; the collectives must be started in the same order on all ranks.
class TUTTI_EXPORT Communicator {
 public:
  /// Creates a communicator of the job that the environment names: torchrun, Open MPI, MPICH,
  /// Slurm, `tutti run` or TUTTI_BOOTSTRAP; of one rank where it names none. Collective. Returns
  /// when every rank has heard every other rank on every multicast subgroup, or with the reason why
  /// not.
  static Result<Communicator> create(const CommunicatorOptions& options = {});
  /// The same for `size` ranks that have a unique id in common. Rank 0 calls it in the process that
  /// made the id.
  static Result<Communicator> create(const UniqueId& id, Rank rank, std::uint32_t size,
                                     const CommunicatorOptions& options = {});
  /// The same over an exchange of the caller's, which is called during this call only.
  static Result<Communicator> create(const ExchangeCallback& exchange, Rank rank,
                                     std::uint32_t size, const CommunicatorOptions& options = {});
  /// The same over a bootstrap of the library's own tools and tests.
  static Result<Communicator> create(runtime::Bootstrap& bootstrap,
                                     const CommunicatorOptions& options);
  /// Another communicator of the same ranks with its own order of collectives, served by the same
  /// progress thread. Collective: the ranks exchange what they need by this communicator.
  Result<Communicator> duplicate(const CommunicatorOptions& options = {});
  /// The same over a bootstrap of the library's own tools and tests.
  Result<Communicator> duplicate(runtime::Bootstrap& bootstrap,
                                 const CommunicatorOptions& options) const;

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// This process's number in the communicator, 0 .. size() - 1.
  Rank rank() const;
  std::uint32_t size() const;

  // Collectives. Each starts and returns at once; the buffers belong to Tutti until the request is
  // done. Sizes, types, root and options are the same on all ranks. Sizes are in bytes; arguments
  // that do not fit fail with Code::invalid_argument, and start nothing.

  /// Done when every rank has started it.
  Result<Request> barrier(const CollectiveOptions& options = {});
  /// Sends root's `buffer` to every other rank's `buffer`, which has the same size.
  Result<Request> broadcast(std::span<std::byte> buffer, Rank root,
                            const CollectiveOptions& options = {});
  /// Gathers every rank's `own`, in the order of ranks, into `all` of every rank: size() *
  /// own.size() bytes. In place: `own` is this rank's block of `all`.
  Result<Request> allgather(std::span<const std::byte> own, std::span<std::byte> all,
                            const CollectiveOptions& options = {});
  /// The same for blocks of different sizes: rank r's block has sizes_bytes[r] bytes and begins at
  /// offsets_bytes[r] of `all`. Both arrays have size() entries and are read during the call only.
  Result<Request> allgatherv(std::span<const std::byte> own, std::span<std::byte> all,
                             std::span<const std::uint64_t> sizes_bytes,
                             std::span<const std::uint64_t> offsets_bytes,
                             const CollectiveOptions& options = {});
  /// Gathers every rank's `own` into root's `all`: size() * own.size() bytes; elsewhere empty.
  Result<Request> gather(std::span<const std::byte> own, std::span<std::byte> all, Rank root,
                         const CollectiveOptions& options = {});
  /// Sends block r of root's `all` (size() * own.size() bytes; elsewhere empty) to rank r's `own`.
  Result<Request> scatter(std::span<const std::byte> all, std::span<std::byte> own, Rank root,
                          const CollectiveOptions& options = {});
  /// Sends block r of `send` to rank r, which receives it as block rank() of `receive`. Both have
  /// size() blocks of equal size and do not overlap.
  Result<Request> alltoall(std::span<const std::byte> send, std::span<std::byte> receive,
                           const CollectiveOptions& options = {});
  /// Combines every rank's `own` into root's `result`, which has the same size; elsewhere empty.
  Result<Request> reduce(std::span<const std::byte> own, std::span<std::byte> result, Rank root,
                         const Reduction& reduction, const CollectiveOptions& options = {});
  /// Combines the ranks' `all`, each of size() blocks; rank r's `own` receives block r of the
  /// result. In place: `own` is this rank's block of `all`.
  Result<Request> reduce_scatter(std::span<const std::byte> all, std::span<std::byte> own,
                                 const Reduction& reduction, const CollectiveOptions& options = {});
  /// Combines every rank's `own` into `result` of every rank, which has the same size. In place:
  /// both are the same memory.
  Result<Request> allreduce(std::span<const std::byte> own, std::span<std::byte> result,
                            const Reduction& reduction, const CollectiveOptions& options = {});
  /// Starts any of these.
  Result<Request> start(const CollectiveCall& call);
  /// Prepares any of these for many runs. Local; the runs are collective.
  Result<Prepared> prepare(const CollectiveCall& call);

  /// Calls `callback` once at the end of the request, from the thread that makes progress, or at
  /// once where the request is done. It may start collectives, read counters and abort. It cannot
  /// wait, and must not destroy the communicator; what it throws is logged.
  Status on_completion(Request& request, std::function<void(const Status&)> callback);

  /// Ends every collective: here with Code::aborted and `reason`, on the peers with an error that
  /// names this rank. The communicator can then only be destroyed.
  void abort(const std::string& reason);

  /// Every protocol and device counter by name, since creation. A counter that was renamed is also
  /// listed under its old name for one release.
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;
  /// Rate of the links, as the ranks have agreed on it after Allgathers; 0: not known, or the hosts
  /// and not the links are the limit.
  std::uint64_t link_bytes_per_second() const;
  /// The last collectives with their phases and progress, as JSON (docs/operating.md).
  std::string flight_record() const;
  /// The algorithm that would carry out a call: the one that it names or the chosen one;
  /// "hierarchical" or "in_network" where leaders or aggregators would. Errors are those of start().
  Result<std::string> algorithm_of(const CollectiveCall& call);
  /// The device that moves the bytes: "ip" or "host".
  std::string device() const;
  /// Device, interface, multicast group and limits, in a few lines of text.
  std::string describe() const;

 private:
  explicit Communicator(std::shared_ptr<runtime::CommunicatorImpl> state);

  std::shared_ptr<runtime::CommunicatorImpl> state_;
};

}  // namespace tutti
