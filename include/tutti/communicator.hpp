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

/// The progress of one collective at this rank.
struct ProgressReport {
  /// Units done: chunks of the result that have arrived (multicast), tasks (schedule), or
  /// operations on side communicators (leaders, aggregators).
  std::uint64_t chunks_present = 0;
  std::uint64_t chunks_total = 0;  ///< units in all; 0: not known yet
  bool done = false;
};

/// A collective under way, whose buffers belong to Tutti until it is done. Destroying a request
/// does not cancel its collective; only one thread at a time may use a request.
class TUTTI_EXPORT Request {
 public:
  /// An empty request: test() is true, wait() fails with Code::invalid_argument.
  Request() = default;
  /// Makes some progress, and returns true if the collective is done.
  bool test();
  /// Waits for the end of the collective and returns its status. Called from a completion callback,
  /// it fails with Code::invalid_argument, because the callback blocks the thread that makes
  /// progress.
  Status wait();
  /// Waits for at most `timeout` and then returns Code::timeout; the collective goes on, and the
  /// request can be waited for again.
  Status wait_for(Nanoseconds timeout);
  /// Reads the progress of the collective without making any; callable from any thread.
  ProgressReport progress() const;

 private:
  friend class Communicator;
  friend class Prepared;
  explicit Request(std::shared_ptr<runtime::RequestState> state) : state_(std::move(state)) {}

  std::shared_ptr<runtime::RequestState> state_;
};

/// A collective that is started many times on the same buffers: its arguments are checked and its
/// algorithm is chosen once. Communicator and buffers must outlive this object.
class TUTTI_EXPORT Prepared {
 public:
  /// Starts one run; every rank must do so. Fails with Code::invalid_argument while the previous
  /// run is under way.
  Result<Request> start();

 private:
  friend class Communicator;
  explicit Prepared(std::shared_ptr<runtime::PreparedState> state) : state_(std::move(state)) {}

  std::shared_ptr<runtime::PreparedState> state_;
};

/// The handle of a fixed set of ranks that run collectives together; movable and thread-safe. Its
/// destructor closes this rank's part after the last request is gone, and waits briefly for peers
/// that still need data from this rank.
class TUTTI_EXPORT Communicator {
 public:
  /// Creates a communicator of the job that the environment describes (torchrun, Open MPI, MPICH,
  /// Slurm, `tutti run` or TUTTI_BOOTSTRAP), or of one rank if it describes none. Collective:
  /// returns once every rank has heard every other rank on every multicast subgroup, or with the
  /// reason for the failure.
  static Result<Communicator> create(const CommunicatorOptions& options = {});
  /// Creates a communicator of `size` ranks that share a unique id. Rank 0 must call it in the
  /// process that made the id.
  static Result<Communicator> create(const UniqueId& id, Rank rank, std::uint32_t size,
                                     const CommunicatorOptions& options = {});
  /// Creates a communicator through the caller's own exchange, which is called only during
  /// create().
  static Result<Communicator> create(const ExchangeCallback& exchange, Rank rank,
                                     std::uint32_t size, const CommunicatorOptions& options = {});
  /// Creates a communicator through a bootstrap object; for the library's own tools and tests.
  static Result<Communicator> create(runtime::Bootstrap& bootstrap,
                                     const CommunicatorOptions& options);
  /// Creates a second communicator of the same ranks, with its own order of collectives and the
  /// same progress thread. Collective: the ranks exchange the setup data through this communicator.
  Result<Communicator> duplicate(const CommunicatorOptions& options = {});
  /// Duplicates through a bootstrap object; for the library's own tools and tests.
  Result<Communicator> duplicate(runtime::Bootstrap& bootstrap,
                                 const CommunicatorOptions& options) const;

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// This process's rank in the communicator, 0 .. size() - 1.
  Rank rank() const;
  std::uint32_t size() const;

  // Collectives. Each function starts a collective and returns at once; the buffers belong to Tutti
  // until the request is done. Sizes (in bytes), types, root and options must be the same on all
  // ranks; an argument that does not fit fails with Code::invalid_argument and starts nothing.

  /// Barrier: done at this rank once every rank has called it.
  Result<Request> barrier(const CollectiveOptions& options = {});
  /// Sends root's `buffer` to every other rank's `buffer`, which has the same size.
  Result<Request> broadcast(std::span<std::byte> buffer, Rank root,
                            const CollectiveOptions& options = {});
  /// Gathers every rank's `own`, in the order of ranks, into `all` of every rank: size() *
  /// own.size() bytes. In place: `own` is this rank's block of `all`.
  Result<Request> allgather(std::span<const std::byte> own, std::span<std::byte> all,
                            const CollectiveOptions& options = {});
  /// Allgather for blocks of different sizes: rank r's block has sizes_bytes[r] bytes and begins at
  /// offsets_bytes[r] of `all`. Both arrays have size() entries and are read only during this call.
  Result<Request> allgatherv(std::span<const std::byte> own, std::span<std::byte> all,
                             std::span<const std::uint64_t> sizes_bytes,
                             std::span<const std::uint64_t> offsets_bytes,
                             const CollectiveOptions& options = {});
  /// Gathers every rank's `own` into root's `all` (size() * own.size() bytes); other ranks pass an
  /// empty `all`.
  Result<Request> gather(std::span<const std::byte> own, std::span<std::byte> all, Rank root,
                         const CollectiveOptions& options = {});
  /// Sends block r of root's `all` (size() * own.size() bytes) to rank r's `own`; other ranks pass
  /// an empty `all`.
  Result<Request> scatter(std::span<const std::byte> all, std::span<std::byte> own, Rank root,
                          const CollectiveOptions& options = {});
  /// Sends block r of `send` to rank r, which receives it as block rank() of `receive`. Both have
  /// size() blocks of equal size and do not overlap.
  Result<Request> alltoall(std::span<const std::byte> send, std::span<std::byte> receive,
                           const CollectiveOptions& options = {});
  /// Combines every rank's `own` into root's `result` of the same size; other ranks pass an empty
  /// `result`.
  Result<Request> reduce(std::span<const std::byte> own, std::span<std::byte> result, Rank root,
                         const Reduction& reduction, const CollectiveOptions& options = {});
  /// Combines the ranks' `all`, each of size() blocks; rank r's `own` receives block r of the
  /// result. In place: `own` is this rank's block of `all`.
  Result<Request> reduce_scatter(std::span<const std::byte> all, std::span<std::byte> own,
                                 const Reduction& reduction, const CollectiveOptions& options = {});
  /// Combines every rank's `own` into every rank's `result`, which has the same size. In place:
  /// `own` and `result` are the same memory.
  Result<Request> allreduce(std::span<const std::byte> own, std::span<std::byte> result,
                            const Reduction& reduction, const CollectiveOptions& options = {});
  /// Starts the collective that `call` describes.
  Result<Request> start(const CollectiveCall& call);
  /// Prepares the collective that `call` describes for many runs. Local: only the runs are
  /// collective.
  Result<Prepared> prepare(const CollectiveCall& call);

  /// Calls `callback` once when the request ends, from the thread that makes progress, or
  /// immediately if the request is done already. The callback may start collectives, read counters
  /// and abort; it cannot wait and must not destroy the communicator, and an exception that it
  /// throws is logged.
  Status on_completion(Request& request, std::function<void(const Status&)> callback);

  /// Aborts every collective of the communicator: at this rank with Code::aborted and `reason`, at
  /// the peers with an error that names this rank. Afterwards the communicator can only be
  /// destroyed.
  void abort(const std::string& reason);

  /// The value of every protocol and device counter since creation, by name. A renamed counter is
  /// also listed under its old name for one release.
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;
  /// The link rate that the ranks agreed on after Allgathers; 0 if it is not known, or if the hosts
  /// and not the links are the bottleneck.
  std::uint64_t link_bytes_per_second() const;
  /// The flight record: the last collectives with phase and progress, as JSON (docs/operating.md).
  std::string flight_record() const;
  /// The algorithm that would carry out `call`: the one it names or the chosen one, or
  /// "hierarchical" or "in_network" if leaders or aggregators would do it. Fails as start() would.
  Result<std::string> algorithm_of(const CollectiveCall& call);
  /// The name of the device that moves the bytes: "ip" or "host".
  std::string device() const;
  /// Device, interface, multicast group and limits, as a few lines of text.
  std::string describe() const;

 private:
  explicit Communicator(std::shared_ptr<runtime::CommunicatorImpl> state);

  std::shared_ptr<runtime::CommunicatorImpl> state_;
};

}  // namespace tutti
