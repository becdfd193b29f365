// Tutti's C++ interface: a communicator, nonblocking collectives on it, and requests to wait for.
//
//   auto comm = tutti::Communicator::create();           // finds its ranks from the environment
//   if (!comm) { std::cerr << comm.status().to_string(); return 1; }
//   auto request = comm->allgather(mine, all);           // returns at once
//   if (!request) { ... }
//   ...compute...
//   if (auto status = request->wait(); !status) { ... }  // names rank, phase and what is missing
//
// Thread safety: several threads may use a communicator at the same time, but all ranks must call
// its collectives in the same order. A thread that is cancelled (pthread_cancel) in a call
// completes the call first. Errors are returned as Status. No exception crosses this interface,
// unless the program reads the value of a failed Result (status.hpp).
//
// Fork: in a child of fork() every call on a handle of the parent fails with
// Code::invalid_argument, and the destruction of the handle leaks it. Neither affects the parent.
// The child may create communicators of its own. A completion callback must not return in a child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/bootstrap.hpp"
#include "tutti/collective.hpp"
#include "tutti/export.hpp"
#include "tutti/message.hpp"
#include "tutti/options.hpp"
#include "tutti/reduction.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti {

class Communicator;
class Request;
TUTTI_EXPORT Status start_all(Communicator& communicator, std::span<const CollectiveCall> calls,
                              std::span<Request> requests);

namespace runtime {
class Bootstrap;
class CommunicatorImpl;
class PreparedState;
class Progress;
struct RequestState;
Result<Communicator> create_communicator(Bootstrap& bootstrap, const CommunicatorOptions& options,
                                         const Communicator* parent, std::uint32_t first_epoch);
}  // namespace runtime

/// The progress of one call at this rank.
struct ProgressReport {
  /// Number of units that are done. The unit depends on the way in which the call is carried out:
  /// a chunk of the result (multicast), a task such as one send or receive (algorithms with a
  /// schedule), one step of the call (leaders, aggregators), or the whole collective (exchange of
  /// short blocks).
  std::uint64_t chunks_present = 0;
  std::uint64_t chunks_total = 0;  ///< number of units of the whole collective; 0: not yet known
  bool done = false;
};

/// The caller's handle to a collective, send or receive under way. The buffers belong to Tutti
/// until the request is done; destroying the request does not cancel the call. Only one thread at a
/// time may use a request, except that any thread may call progress().
class TUTTI_EXPORT Request {
 public:
  /// Makes an empty request: test() returns true, and wait() fails with Code::invalid_argument.
  Request() = default;
  bool empty() const { return state_ == nullptr; }
  /// Advances the collective without blocking. Returns true if the collective is done, successfully
  /// or not; wait() then returns its status at once.
  bool test();
  /// Waits for the end of the collective and returns the status of the collective. A call from a
  /// completion callback fails with Code::invalid_argument, because the callback blocks the thread
  /// that makes progress.
  Status wait();
  /// As wait(), but returns Code::timeout if the collective is not done after `timeout`. The
  /// collective then goes on, and the caller may wait again. Status::ranks has the ranks whose data
  /// is missing at this rank, as far as this rank knows. For a Barrier of up to 16 ranks, these are
  /// all ranks that have not called it. The list is empty for a message, and for a call that
  /// leaders or aggregators carry out.
  Status wait_for(Nanoseconds timeout);
  /// Waits until all requests are done. The requests may belong to several communicators; empty
  /// requests are skipped. Returns the first failure in the order of the list. Returns
  /// Code::timeout if some calls are not done after `timeout`; these calls go on, and the caller
  /// may wait again. A call from a completion callback fails at once, as in wait(). Status::ranks
  /// is as in wait_for().
  static Status wait_all(std::span<Request> requests, Nanoseconds timeout = Nanoseconds::max());
  /// Waits until one of the requests is done and returns its index; wait() on this request then
  /// returns at once. Empty requests are skipped. Fails with Code::timeout if no request is done
  /// after `timeout`, and with Code::invalid_argument if all requests are empty or if a completion
  /// callback calls this function.
  ///
  ///   auto done = tutti::Request::wait_any(requests);
  ///   if (done) use(requests[*done].wait());
  static Result<std::size_t> wait_any(std::span<Request> requests,
                                      Nanoseconds timeout = Nanoseconds::max());
  /// Reports how far the collective has come, without advancing it. Any thread may call this
  /// function, also while another thread uses the request.
  ProgressReport progress() const;
  /// Cancels a receive. The receive ends with Code::aborted, or as usual if a message has already
  /// matched the receive. Fails with Code::invalid_argument for other calls. The buffer belongs to
  /// Tutti until wait() returns.
  Status cancel();
  /// The message that a receive has got: its source, its tag and its length. Meaningful once
  /// wait() has returned success, or Code::invalid_argument for a message that was too long.
  MessageInfo message() const;

 private:
  friend class Communicator;
  friend class Prepared;
  friend Status start_all(Communicator& communicator, std::span<const CollectiveCall> calls,
                          std::span<Request> requests);
  explicit Request(std::shared_ptr<runtime::RequestState> state) : state_(std::move(state)) {}

  std::shared_ptr<runtime::RequestState> state_;
};

/// A collective that is started many times on the same buffers; its arguments are checked and its
/// algorithm is chosen only once. The communicator and the buffers must outlive this object. Only
/// one thread at a time may use it.
class TUTTI_EXPORT Prepared {
 public:
  /// Starts the collective once more; every rank must call this function equally often. Fails with
  /// Code::invalid_argument while the previous run is under way.
  Result<Request> start();

 private:
  friend class Communicator;
  explicit Prepared(std::shared_ptr<runtime::PreparedState> state) : state_(std::move(state)) {}

  std::shared_ptr<runtime::PreparedState> state_;
};

/// A fixed set of ranks that run collectives together; movable and thread-safe. This rank leaves
/// the communicator when this object and all its requests are destroyed. Leaving can take a few
/// seconds if peers still need data from this rank, or do not answer; finalize() bounds this time.
///
/// After a failure every call in flight ends with an error, and every later call fails at once,
/// with the code and the ranks of the first failure. The application may create a new communicator
/// while the failed one still exists. A timeout of Request::wait_for is no failure of the
/// communicator: the call stays in flight, and the communicator can be used. If duplicate(),
/// split() or subset() times out, it aborts the communicator, because the ranks may be at different
/// calls.
class TUTTI_EXPORT Communicator {
 public:
  /// Creates a communicator of all ranks of the job that the environment variables describe
  /// (torchrun, Open MPI, MPICH, Slurm, `tutti run` or TUTTI_BOOTSTRAP). Without such variables the
  /// communicator has one rank. Every rank must call this function. It succeeds after every rank
  /// has learnt whether the network passes multicast between all ranks.
  static Result<Communicator> create(const CommunicatorOptions& options = {});
  /// Creates a communicator of `size` ranks that have the same unique id. Rank 0 must be the
  /// process that made the id.
  static Result<Communicator> create(const UniqueId& id, Rank rank, std::uint32_t size,
                                     const CommunicatorOptions& options = {});
  /// Creates a communicator of `size` ranks, which find each other by the caller's `exchange`. The
  /// library calls `exchange` only during this function.
  static Result<Communicator> create(const ExchangeCallback& exchange, Rank rank,
                                     std::uint32_t size, const CommunicatorOptions& options = {});
  /// Creates a second communicator of the same ranks. It shares this communicator's progress
  /// thread, but its collectives need no order relative to this communicator's. Every rank must
  /// call this function, at the same place in the order of this communicator's collectives. The
  /// options are not inherited: pass those of this communicator again if they are to apply.
  Result<Communicator> duplicate(const CommunicatorOptions& options = {});

  /// Splits the communicator: the ranks that pass the same color form a new communicator. They are
  /// numbered by key and, among equal keys, by their rank in this communicator; a rank without a
  /// color joins no communicator. The new communicator shares this communicator's progress thread,
  /// but its collectives need no order relative to this communicator's. Every rank must call this
  /// function, at the same place in the order of this communicator's collectives. The options are
  /// not inherited. In an error of the new communicator, Status::ranks has the ranks' numbers in
  /// the job.
  Result<std::optional<Communicator>> split(std::optional<std::uint32_t> color,
                                            std::int64_t key = 0,
                                            const CommunicatorOptions& options = {});
  /// As split(), but `ranks` lists the ranks of the new communicator in their new order. A rank
  /// that is not in its own list joins no communicator. Two ranks may pass different lists only if
  /// the lists have no rank in common.
  ///
  ///   auto pair = comm->subset(std::array{tutti::Rank{4}, tutti::Rank{0}});
  Result<std::optional<Communicator>> subset(std::span<const Rank> ranks,
                                             const CommunicatorOptions& options = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// The number of this rank in the communicator, from 0 to size() - 1.
  Rank rank() const;
  std::uint32_t size() const;

  // Collectives. Each function starts a collective and returns its request at once; the buffers
  // belong to Tutti until the request is done. All ranks must pass the same sizes, types, root and
  // options, except `will_wait` and `priority`. A bad argument makes the function fail with
  // Code::invalid_argument; the collective is then not started.

  /// Barrier: the request is done when every rank has called this function.
  Result<Request> barrier(const CollectiveOptions& options = {});
  /// Broadcast: copies root's `buffer` into the `buffer` of every other rank. All buffers have the
  /// same size.
  Result<Request> broadcast(std::span<std::byte> buffer, Rank root,
                            const CollectiveOptions& options = {});
  /// Allgather: copies every rank's `own`, in rank order, into `all` on every rank. `all` has
  /// size() * own.size() bytes. In place, `own` is this rank's block of `all`.
  Result<Request> allgather(std::span<const std::byte> own, std::span<std::byte> all,
                            const CollectiveOptions& options = {});
  /// Allgather with blocks of different sizes. Rank r's block has sizes_bytes[r] bytes and begins
  /// at byte offsets_bytes[r] of `all`. Both arrays have size() entries and are read only during
  /// this call.
  Result<Request> allgatherv(std::span<const std::byte> own, std::span<std::byte> all,
                             std::span<const std::uint64_t> sizes_bytes,
                             std::span<const std::uint64_t> offsets_bytes,
                             const CollectiveOptions& options = {});
  /// Gather: copies every rank's `own`, in rank order, into root's `all` of size() * own.size()
  /// bytes. Other ranks pass an empty `all`.
  Result<Request> gather(std::span<const std::byte> own, std::span<std::byte> all, Rank root,
                         const CollectiveOptions& options = {});
  /// Scatter: copies block r of root's `all` into `own` of rank r. Root's `all` has size() *
  /// own.size() bytes; other ranks pass an empty `all`.
  Result<Request> scatter(std::span<const std::byte> all, std::span<std::byte> own, Rank root,
                          const CollectiveOptions& options = {});
  /// Alltoall: sends block r of `send` to rank r, and receives rank r's block for this rank as
  /// block r of `receive`. Both buffers have size() blocks of equal size. In place, both are the
  /// same buffer; the call then copies what it sends.
  Result<Request> alltoall(std::span<const std::byte> send, std::span<std::byte> receive,
                           const CollectiveOptions& options = {});
  /// Reduce: combines the elements of every rank's `own` into root's `result`, which has the same
  /// size. Other ranks pass an empty `result`.
  Result<Request> reduce(std::span<const std::byte> own, std::span<std::byte> result, Rank root,
                         const Reduction& reduction, const CollectiveOptions& options = {});
  /// Reduce-Scatter: combines the elements of every rank's `all`, which has size() blocks; `own` of
  /// rank r receives block r of the result. In place, `own` is this rank's block of `all`.
  Result<Request> reduce_scatter(std::span<const std::byte> all, std::span<std::byte> own,
                                 const Reduction& reduction, const CollectiveOptions& options = {});
  /// Allreduce: combines the elements of every rank's `own` into `result` on every rank, which has
  /// the same size. In place, `own` and `result` are the same memory.
  Result<Request> allreduce(std::span<const std::byte> own, std::span<std::byte> result,
                            const Reduction& reduction, const CollectiveOptions& options = {});

  // Collectives with blocks of different sizes. Rank r's block has sizes_bytes[r] bytes and begins
  // at byte offsets_bytes[r] of the buffer that holds all blocks. The arrays have size() entries
  // and are read only during the call. All ranks must agree on the size of each block.

  /// Gather with blocks of different sizes. Ranks other than the root pass empty arrays.
  Result<Request> gatherv(std::span<const std::byte> own, std::span<std::byte> all,
                          std::span<const std::uint64_t> sizes_bytes,
                          std::span<const std::uint64_t> offsets_bytes, Rank root,
                          const CollectiveOptions& options = {});
  /// Scatter with blocks of different sizes. Ranks other than the root pass empty arrays.
  Result<Request> scatterv(std::span<const std::byte> all,
                           std::span<const std::uint64_t> sizes_bytes,
                           std::span<const std::uint64_t> offsets_bytes, std::span<std::byte> own,
                           Rank root, const CollectiveOptions& options = {});
  /// Alltoall with blocks of different sizes: the block of `send` for rank r has
  /// send_sizes_bytes[r] bytes; the block of `receive` from rank r has sizes_bytes[r] bytes. In
  /// place, `send` and `receive` are the same buffer, as for alltoall().
  Result<Request> alltoallv(std::span<const std::byte> send,
                            std::span<const std::uint64_t> send_sizes_bytes,
                            std::span<const std::uint64_t> send_offsets_bytes,
                            std::span<std::byte> receive,
                            std::span<const std::uint64_t> sizes_bytes,
                            std::span<const std::uint64_t> offsets_bytes,
                            const CollectiveOptions& options = {});
  /// Reduce-Scatter with blocks of different sizes; the arrays describe `all` and must be equal on
  /// all ranks. The order in which the contributions to a block are combined depends only on the
  /// rank that receives the block. In place, `own` is this rank's block of `all`.
  Result<Request> reduce_scatterv(std::span<const std::byte> all,
                                  std::span<const std::uint64_t> sizes_bytes,
                                  std::span<const std::uint64_t> offsets_bytes,
                                  std::span<std::byte> own, const Reduction& reduction,
                                  const CollectiveOptions& options = {});

  // Messages from one rank to another. A rank may send and receive them at any point in the order
  // of its collectives.

  /// Sends a message with a tag to rank `to`, which may be this rank. The request is done when the
  /// caller may change `message`: at once if the message is short and fits into the free buffer at
  /// the receiver, otherwise when a receive has got the message. If several messages to one rank
  /// match the same receive, they are received in the order in which they are sent. Thread-safe.
  Result<Request> send(std::span<const std::byte> message, Rank to, std::uint64_t tag = 0,
                       const MessageOptions& options = {});
  /// Receives one message of rank `from`, or of any rank (kAnyRank), whose tag agrees with `tag` in
  /// the bits of options.tag_mask. The message may be shorter than `buffer`; Request::message() has
  /// its length. A longer message is lost, and the request ends with Code::invalid_argument. A
  /// receive from a rank that has died ends after the peer timeout; a receive from kAnyRank ends if
  /// any rank dies.
  ///
  ///   auto request = comm->receive(buffer, tutti::kAnyRank, 7);
  ///   if (request && request->wait()) use(buffer, request->message().source);
  Result<Request> receive(std::span<std::byte> buffer, Rank from, std::uint64_t tag = 0,
                          const MessageOptions& options = {});

  /// Starts the collective that `call` describes.
  Result<Request> start(const CollectiveCall& call);
  /// Returns an object that can start the collective of `call` many times. This function does not
  /// communicate. The buffers of `call` must outlive the object.
  Result<Prepared> prepare(const CollectiveCall& call);

  /// Sets the callback of a request; a second call before the request is done replaces the first
  /// callback. If the request is done already, the callback runs at once in this thread; otherwise
  /// it runs in the thread that makes progress when the request ends. It runs only once and is then
  /// destroyed. It may start collectives, read counters and abort, also of a communicator made from
  /// this one, or from which this one was made, by duplicate(), split() or subset(). Of any other
  /// communicator it may only call abort(), which then takes effect soon after; the other functions
  /// fail with Code::invalid_argument, or log the failure and return an empty result. The callback
  /// must not wait for a request or destroy the communicator; an exception from it is logged. Fails
  /// with Code::invalid_argument if the request is empty.
  Status on_completion(Request& request, std::function<void(const Status&)> callback);

  /// Ends every collective of the communicator with an error: at this rank with Code::aborted and
  /// `reason`, at the peers with an error that names this rank. Later collectives fail; create a
  /// new communicator to go on.
  void abort(const std::string& reason);
  /// Returns the state of the communicator without blocking: ok, or the first failure or abort that
  /// this rank has noticed itself or learnt from a peer. It works also while no call is in flight,
  /// but only a rank with a call in flight detects the death of a peer.
  Status status() const;
  /// Ends the communicator at this rank within a time: waits up to `timeout` for the calls in
  /// flight and for peers that still need data from this rank. Returns ok or the failure of the
  /// communicator. Returns Code::timeout if calls in flight were aborted. Also returns
  /// Code::timeout if all calls have ended but some peers may still lack data; Status::ranks then
  /// has these peers. Afterwards the destructor returns quickly, and every call fails with
  /// Code::invalid_argument; counters() and the other functions that only observe still work. Only
  /// this rank leaves; no other thread may start a collective meanwhile. A completion callback must
  /// not call this function.
  Status finalize(Nanoseconds timeout);

  // If memory runs out, counters(), flight_record() and describe() log the failure and return an
  // empty result. In a child of fork() they return an empty result, and abort() does nothing.

  /// The name and value of every protocol and device counter, counted since the communicator was
  /// created. A renamed counter is also listed under its old name for one release.
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;
  /// The link rate in bytes per second, as the ranks measured it in earlier Allgathers and agreed
  /// on it. The result is 0 if the rate is unknown, or if the hosts rather than the links were the
  /// bottleneck.
  std::uint64_t link_bytes_per_second() const;
  /// The flight record as JSON: the last 256 collectives of this rank with their phase and
  /// progress, and all counters (docs/operating.md).
  std::string flight_record() const;
  /// The name of the algorithm that start() would use for `call`. It is "hierarchical" if leaders
  /// would carry out the call, and "in_network" if aggregators would. Fails if start() would fail.
  Result<std::string> algorithm_of(const CollectiveCall& call);
  /// The name of the device that moves the bytes: "ip" or "host".
  std::string device() const;
  /// A few lines of text that name the communicator's device, interface, multicast group and
  /// limits.
  std::string describe() const;

 private:
  friend Result<Communicator> runtime::create_communicator(runtime::Bootstrap& bootstrap,
                                                           const CommunicatorOptions& options,
                                                           const Communicator* parent,
                                                           std::uint32_t first_epoch);
  friend Status start_all(Communicator& communicator, std::span<const CollectiveCall> calls,
                          std::span<Request> requests);
  explicit Communicator(std::shared_ptr<runtime::CommunicatorImpl> state);

  std::shared_ptr<runtime::CommunicatorImpl> state_;
};

/// Starts several collectives together, in the order of `calls`, and stores their requests in
/// `requests`, which has as many elements as `calls`. If one call is wrong, no collective starts,
/// and the error gives the index of the call. The calls wake the progress thread together. If
/// memory runs out after some collectives have started, only these collectives have a request, and
/// the caller must wait for these requests. Thread-safe.
///
///   std::array<tutti::Request, 2> requests;
///   auto status = tutti::start_all(*comm, calls, requests);
///   if (status) status = tutti::Request::wait_all(requests);
Status start_all(Communicator& communicator, std::span<const CollectiveCall> calls,
                 std::span<Request> requests);

}  // namespace tutti
