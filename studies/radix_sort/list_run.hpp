// Carries out the schedules of a collective on a simulated network, at hosts or at network
// interfaces with wait and enable [Inozemtsev12] 3. The schedules are those of the library.
//
// A host carries out its tasks only while it polls, so arrivals wait for its next poll. An
// interface gets the lowered schedule (schedule/core_direct/core_direct.hpp) at once and runs it
// without the host, which sees only the end. At hosts and interfaces alike, `TaskBoard` decides
// which task may be issued. Only time is simulated.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"
#include "schedule/task_board.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/simulation/config.hpp"
#include "studies/radix_sort/message_network.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

enum class ListRunner : std::uint8_t { host, nic };
const char* to_string(ListRunner runner);

/// Times of the steps of a schedule. A host needs `host.poll` for each poll and `host.message` for
/// each message.
struct ListCosts {
  HostModel host{};
  /// Delay until the host's completion queue shows an arrival from the link or a notification of
  /// the interface.
  Nanoseconds completion{600};
  /// Time that the host needs to post one task to an interface. Assumed: a few store instructions.
  Nanoseconds post{50};
  /// Time that an interface, shared by all ranks of its host, needs for each message that it sends,
  /// each wait and each enable. [Inozemtsev12] gives no value; this one is calibrated at one cell
  /// of table III (a), for radix 2 and 2^12 keys.
  Nanoseconds task{300};
  /// Copy rate of a host. Assumed: one core's share of the memory bandwidth of a host in
  /// [Inozemtsev12].
  std::uint64_t copy_bits_per_second = 40'000'000'000;
};

/// The caller implements this class to learn that a rank has something to poll.
class RankWaker {
 public:
  virtual ~RankWaker() = default;
  virtual void wake(std::uint32_t rank) = 0;
};

struct ListSpec {
  ListRunner runner = ListRunner::host;
  /// Purpose for which the schedules are built. Its rank is ignored, and its `ranks` must be the
  /// number of members.
  schedule::Purpose purpose{};
  std::uint64_t block_bytes = 0;
  std::vector<std::uint32_t> members;  ///< ranks in the network, indexed by rank of the schedules
  ListCosts costs{};
  /// Whether an eager buffer of an interface has room for only one block. If true, n blocks are
  /// sent as n messages instead of one [Inozemtsev12] 4.1. The paper does not print the size of its
  /// buffers.
  bool buffer_per_block = false;
};

/// Counts of the steps that hosts and interfaces carried out, over all ranks and calls.
struct ListCounts {
  std::uint64_t host_messages = 0;  ///< number of messages that hosts sent
  std::uint64_t nic_messages = 0;   ///< number of messages that interfaces sent
  std::uint64_t nic_waits = 0;      ///< number of waits and enables that interfaces carried out
  std::uint64_t looks = 0;
};

class ListRun {
 public:
  /// Prepares the schedules. Fails if the algorithm cannot be built, has no lowered form, or has
  /// messages above the eager limit; this study lowers eager messages only.
  static Result<std::unique_ptr<ListRun>> create(sim::EventQueue& queue, MessageNetwork& network,
                                                 RankWaker& waker, ListSpec spec);

  /// Begins a rank's call at `now`; the rank's previous call must be over. Returns the instant at
  /// which the rank's host is free again.
  sim::Picoseconds begin(std::uint32_t rank, sim::Picoseconds now);
  /// Whether something waits for the next poll of this rank's host.
  bool has_news(std::uint32_t rank) const;
  /// Lets a rank's host poll. Returns the instant at which the host is free again.
  sim::Picoseconds look(std::uint32_t rank, sim::Picoseconds now);
  /// Whether the rank's call is over, as far as the rank's host knows.
  bool done(std::uint32_t rank) const { return at(rank).done; }

  /// The network calls these functions for a message that this run sent.
  void delivered(const NetworkMessage& message, sim::Picoseconds now);
  void left(const NetworkMessage& message, sim::Picoseconds now);
  /// Handles an event; returns false if the event is of another kind.
  bool handle(const sim::Event& event);
  const ListCounts& counts() const { return counts_; }

 private:
  struct Participant {
    std::uint32_t rank = 0;  ///< rank in the network
    schedule::Schedule schedule;
    std::vector<schedule::FilledTask> filled;
    std::vector<schedule::TaskIndex> managed;  ///< tasks in the management queue, in order
    std::size_t managed_done = 0;
    /// Time that the host needs at the start of a call, to post tasks and to make the copies that
    /// precede all messages.
    sim::Picoseconds posting{};
    schedule::TaskBoard board;
    /// Whether each message has arrived, indexed by parity of the call, then by task.
    std::array<std::vector<bool>, 2> arrived;
    /// Receive tasks whose messages have arrived. The host completes these tasks at its next poll.
    std::vector<schedule::TaskIndex> seen;
    /// Copy tasks that the interface leaves to the host.
    std::vector<schedule::TaskIndex> copies;
    std::uint32_t calls = 0;
    bool reported = false;  ///< whether the interface's completion is on its way to the host
    bool over = false;      ///< whether the host can see the interface's completion
    bool done = false;
  };

  ListRun(sim::EventQueue& queue, MessageNetwork& network, RankWaker& waker, ListSpec spec);
  Status build();
  Status prepare(Participant& one, const schedule::Schedule& schedule);

  Participant& at(std::uint32_t rank) { return participants_[number_[rank]]; }
  const Participant& at(std::uint32_t rank) const { return participants_[number_[rank]]; }
  bool by_nic() const { return spec_.runner == ListRunner::nic; }
  sim::Picoseconds copy_time(std::uint64_t bytes) const { return copy_.time_of(bytes); }
  std::uint64_t bytes_of(const Participant& one, schedule::TaskIndex task) const {
    return one.filled[task].source.size_bytes;
  }
  bool has_arrived(const Participant& one, schedule::TaskIndex task) const {
    return one.arrived[one.calls % 2][task];
  }
  void send(const Participant& one, schedule::TaskIndex task, sim::Picoseconds when);
  sim::Picoseconds carry_out_by_host(Participant& one, sim::Picoseconds now);
  void carry_out_by_nic(Participant& one, sim::Picoseconds now);
  sim::Picoseconds charge_waits(Participant& one);
  void arrive(Participant& one, std::uint32_t parity, schedule::TaskIndex task,
              sim::Picoseconds now);

  sim::EventQueue& queue_;
  MessageNetwork& network_;
  RankWaker& waker_;
  ListSpec spec_;
  sim::WireSpeed copy_;
  std::vector<Participant> participants_;
  /// Position of each rank in participants_, indexed by rank of the network.
  std::vector<std::uint32_t> number_;
  /// Instant at which each host's interface is free, indexed by host.
  std::vector<sim::Picoseconds> nic_free_;
  ListCounts counts_;
};

}  // namespace tutti::simulation
