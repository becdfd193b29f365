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

#include "tutti/collective.hpp"
#include "tutti/reduction.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

#if defined(__GNUC__)
#define TUTTI_EXPORT __attribute__((visibility("default")))
#else
#define TUTTI_EXPORT
#endif

namespace tutti {

namespace runtime {
class Bootstrap;
class CommunicatorImpl;
class PreparedState;
class Progress;
struct RequestState;
}  // namespace runtime

namespace device {
class Device;
}

/// How far a collective is at this rank: chunks of a multicast that are here; tasks of a task list
/// that are done. Where it goes by leaders or aggregators: its parts.
struct ProgressReport {
  std::uint64_t chunks_present = 0;
  std::uint64_t chunks_total = 0;
  bool done = false;
};

/// A collective under way. Its buffers are Tutti's until it is done. Dropping a request does not
/// cancel the collective.
class TUTTI_EXPORT Request {
 public:
  Request() = default;
  /// Whether it is over; gives it a little progress if not.
  bool test();
  /// Waits for the end; returns its status.
  Status wait();
  /// Waits for at most `timeout`. Code::timeout: it goes on, and may be waited for again.
  Status wait_for(Nanoseconds timeout);
  ProgressReport progress() const;

 private:
  friend class Communicator;
  friend class Prepared;
  explicit Request(std::shared_ptr<runtime::RequestState> state) : state_(std::move(state)) {}

  std::shared_ptr<runtime::RequestState> state_;
};

/// A collective that is called again and again with the same buffers (C3): what can be looked up
/// and checked once is. Outlives neither its communicator nor its buffers.
class TUTTI_EXPORT Prepared {
 public:
  /// Calls it; the collective before, of this object, is over. Collective.
  Result<Request> start();

 private:
  friend class Communicator;
  explicit Prepared(std::shared_ptr<runtime::PreparedState> state) : state_(std::move(state)) {}
  std::shared_ptr<runtime::PreparedState> state_;
};

/// What a communicator is created with. All ranks must agree on the fields marked (all).
struct CommunicatorOptions {
  /// What moves the bytes: "ip", "host" (shared memory; all ranks on one host), "auto" (host where
  /// that can be and no interface is named, else ip); "": TUTTI_DEVICE, else auto. (all)
  std::string device_name;
  std::string interface;        ///< name or address; "": TUTTI_INTERFACE, else chosen
  bool ipv6 = false;            ///< (all)
  std::uint32_t subgroups = 1;  ///< multicast subgroups, S of row K9 (all)
  /// Threads that receive, W of row K9, at most one a subgroup; 0: TUTTI_RECEIVE_WORKERS, else
  /// none, and the thread that drives receives. Duplicates share them.
  std::uint32_t receive_workers = 0;
  std::uint32_t chains = 0;  ///< chains of the sequencer, M of row K7; 0: learned (all)
  /// How chunks travel by multicast over ip: "ud", one datagram each, or "uc", a message of several
  /// datagrams that is placed as it arrives (K10); "": TUTTI_MULTICAST, else ud. (all)
  std::string multicast;
  /// How ranks of several hosts with several ranks each are joined where the device is left to
  /// choose (C6): "leaders", one a host; "leaders=N", N for equal parts of it; "groups", where long
  /// blocks of an Allgather are exchanged by every rank with those of its place on the other hosts;
  /// "flat". "": TUTTI_HIERARCHY, else leaders. (all)
  std::string hierarchy;
  std::uint32_t chunk_bytes =
      0;  ///< 0: what the smallest MTU allows; uc: the longest message (all)
  std::uint32_t segment_bytes = 0;  ///< payload of a uc datagram; 0: what the smallest MTU allows
  std::uint64_t window_bytes = 0;   ///< 0: what the receive buffers hold
  /// A Broadcast by multicast of up to this ends at its root when it has left: the root keeps a
  /// copy until everybody has it, and closes not before. 0: none; over ip only (all)
  std::uint64_t retain_bytes = 256 * 1024;
  bool authenticate = true;                 ///< keyed tag on every datagram; false: CRC-32C (all)
  bool always_barrier = false;              ///< ready barrier before every collective (all)
  std::uint32_t first_sequence = 1;         ///< number of the first collective; wraps at 2^32 (all)
  Nanoseconds peer_timeout{3'000'000'000};  ///< a silent neighbour is lost after this
  Nanoseconds create_timeout{30'000'000'000};  ///< for the ranks to come together
  /// Aggregators, "host:port" each, that reductions go through (docs/aggregator.md); empty:
  /// TUTTI_AGGREGATORS, else none. What rank 0 says counts.
  std::vector<std::string> aggregators;
  bool aggregator_fallback = false;  ///< where one cannot be used: do without, instead of failing
  std::shared_ptr<device::Device> device;  ///< instead of these: the simulator, a fault decorator
};

/// A group of ranks that run collectives together. Movable handle; the last one closes.
class TUTTI_EXPORT Communicator {
 public:
  /// Creates a communicator; collective. Returns when every rank has heard every other on every
  /// multicast subgroup, or with the reason why not.
  static Result<Communicator> create(const CommunicatorOptions& options = {});
  /// The same over a bootstrap of the caller's.
  static Result<Communicator> create(runtime::Bootstrap& bootstrap,
                                     const CommunicatorOptions& options);
  /// Another communicator of the same ranks, served by the same progress thread; collective.
  Result<Communicator> duplicate(runtime::Bootstrap& bootstrap,
                                 const CommunicatorOptions& options) const;

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  Rank rank() const;
  std::uint32_t size() const;

  // Collectives. Each returns at once; the buffers are Tutti's until the request is done, and
  // counts, types, root and options are the same on all ranks. Sizes that do not fit are refused.

  /// Completes when every rank has called it.
  Result<Request> barrier(const CollectiveOptions& options = {});
  /// Sends root's `buffer` to every rank's `buffer`, of the same size everywhere.
  Result<Request> broadcast(std::span<std::byte> buffer, Rank root,
                            const CollectiveOptions& options = {});
  /// Gathers every rank's `own` into everybody's `all` (size() * own.size() bytes), by rank. In
  /// place: `own` is the rank's part of `all`.
  Result<Request> allgather(std::span<const std::byte> own, std::span<std::byte> all,
                            const CollectiveOptions& options = {});
  /// The same for blocks of different sizes: rank r's has sizes_bytes[r] bytes and comes to lie at
  /// offsets_bytes[r] of `all`. Both are read during the call only.
  Result<Request> allgatherv(std::span<const std::byte> own, std::span<std::byte> all,
                             std::span<const std::uint64_t> sizes_bytes,
                             std::span<const std::uint64_t> offsets_bytes,
                             const CollectiveOptions& options = {});
  /// Gathers every rank's `own` into root's `all` (size() * own.size() bytes; elsewhere empty).
  Result<Request> gather(std::span<const std::byte> own, std::span<std::byte> all, Rank root,
                         const CollectiveOptions& options = {});
  /// Gives block r of root's `all` (size() * own.size() bytes; elsewhere empty) to rank r's `own`.
  Result<Request> scatter(std::span<const std::byte> all, std::span<std::byte> own, Rank root,
                          const CollectiveOptions& options = {});
  /// Gives block r of `send` to rank r, where it becomes block rank() of `receive`. Both have
  /// size() blocks.
  Result<Request> alltoall(std::span<const std::byte> send, std::span<std::byte> receive,
                           const CollectiveOptions& options = {});
  /// Combines every rank's `own` into root's `result`, of the same size (elsewhere empty).
  Result<Request> reduce(std::span<const std::byte> own, std::span<std::byte> result, Rank root,
                         const Reduction& reduction, const CollectiveOptions& options = {});
  /// Combines the ranks' `all`, of size() blocks; block r of the result goes to rank r's `own`. In
  /// place: `own` is the rank's block of `all`.
  Result<Request> reduce_scatter(std::span<const std::byte> all, std::span<std::byte> own,
                                 const Reduction& reduction, const CollectiveOptions& options = {});
  /// Combines every rank's `own` into everybody's `result`, of the same size. In place: they are
  /// the same memory.
  Result<Request> allreduce(std::span<const std::byte> own, std::span<std::byte> result,
                            const Reduction& reduction, const CollectiveOptions& options = {});
  /// Any of these.
  Result<Request> start(const CollectiveCall& call);
  /// Any of these, to be started many times.
  Result<Prepared> prepare(const CollectiveCall& call);

  /// Calls `callback` from the thread that drives at the end of the request, once. It may start
  /// collectives, look at counters and abort. It cannot wait, which is refused, and must not
  /// destroy the communicator.
  Status on_completion(Request& request, std::function<void(const Status&)> callback);

  /// Ends every collective here and on the peers with an error.
  void abort(const std::string& reason);

  /// Every protocol and device counter by name.
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;
  /// The links' rate, as all ranks have learnt it from Allgathers; 0: not known, or the hosts, not
  /// the links, are the limit.
  std::uint64_t link_bytes_per_second() const;
  /// The last collectives with state and progress, as JSON.
  std::string flight_record() const;
  /// What would carry out a call: the algorithm that it names, or that is chosen for it; where it
  /// goes beside those, "hierarchical" or "in_network". Errors are those of `start`.
  Result<std::string> algorithm_of(const CollectiveCall& call);
  /// What moves the bytes: "ip", "host".
  std::string device() const;
  /// What the communicator runs on, in a few lines: device, interface, group, limits.
  std::string describe() const;

 private:
  explicit Communicator(std::shared_ptr<runtime::CommunicatorImpl> state);

  std::shared_ptr<runtime::CommunicatorImpl> state_;
};

}  // namespace tutti
