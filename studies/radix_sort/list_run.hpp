// A collective's task lists on a simulated network, carried out by hosts or by interfaces with wait
// and enable [Inozemtsev12] 3. The schedules are the library's; calls follow one another.
//
// A host carries out its list only while it polls, and arrivals wait until then. An interface gets
// the lowered list (schedule/core_direct/core_direct.hpp) at once and runs it alone; the host sees
// only the end. `TaskBoard` decides in both cases which task may be issued. Only time is simulated;
// the validator and the engine show the results.
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

/// Costs of task lists. At the host, a poll takes `host.poll` and each message `host.message`.
struct ListCosts {
  HostModel host{};
  /// Delay from the link, or from the interface, to the host's completion queue.
  Nanoseconds completion{600};
  /// nic: host time per posted task. Assumed: some stores.
  Nanoseconds post{50};
  /// nic: time of the interface, which all ranks of a host share, for each message sent, each wait
  /// and each enable. [Inozemtsev12] gives no value; calibrated at one cell of its table III (a),
  /// radix 2 and 2^12 keys, with the work of a core of ours.
  Nanoseconds task{300};
  /// Copy rate of the host. Assumed: a core's share of such a machine's memory.
  std::uint64_t copy_bits_per_second = 40'000'000'000;
};

/// Notified when a rank has something to poll.
class RankWaker {
 public:
  virtual ~RankWaker() = default;
  virtual void wake(std::uint32_t rank) = 0;
};

struct ListSpec {
  ListRunner runner = ListRunner::host;
  schedule::Purpose purpose{};  ///< of any rank; `ranks` is the number of members
  std::uint64_t block_bytes = 0;
  std::vector<std::uint32_t> members;  ///< ranks of the network, by rank of the list
  ListCosts costs{};
  /// nic: an eager buffer holds one block, so a message of n blocks is n messages [Inozemtsev12]
  /// 4.1. Its buffer size is not printed.
  bool buffer_per_block = false;
};

/// Work of hosts and interfaces, over all ranks and calls.
struct ListCounts {
  std::uint64_t host_messages = 0;  ///< messages that hosts sent
  std::uint64_t nic_messages = 0;   ///< messages that interfaces sent
  std::uint64_t nic_waits = 0;      ///< waits and enables
  std::uint64_t looks = 0;
};

class ListRun {
 public:
  /// Error: the algorithm cannot be built, has no lowered form, or has messages above the eager
  /// limit, which the lowering here does not support.
  static Result<std::unique_ptr<ListRun>> create(sim::EventQueue& queue, MessageNetwork& network,
                                                 RankWaker& waker, ListSpec spec);

  /// Begins a rank's call at `now`; its last call must be over. Returns when its host is free
  /// again.
  sim::Picoseconds begin(std::uint32_t rank, sim::Picoseconds now);
  /// Whether a poll would find anything.
  bool has_news(std::uint32_t rank) const;
  /// Polls. Returns when the host is free again.
  sim::Picoseconds look(std::uint32_t rank, sim::Picoseconds now);
  /// Whether the rank's call is over, as far as its host knows.
  bool done(std::uint32_t rank) const { return at(rank).done; }

  /// Called for each message that was sent with `send`.
  void delivered(const NetworkMessage& message, sim::Picoseconds now);
  void left(const NetworkMessage& message, sim::Picoseconds now);
  /// Handles an event; false if it is of another kind.
  bool handle(const sim::Event& event);
  const ListCounts& counts() const { return counts_; }

 private:
  struct Participant {
    std::uint32_t rank = 0;  ///< rank of the network
    schedule::Schedule schedule;
    std::vector<schedule::FilledTask> filled;
    std::vector<schedule::TaskIndex> managed;  ///< entries of the management queue
    std::size_t managed_done = 0;
    /// Host time of a call for posting tasks and for copies before any message.
    sim::Picoseconds posting{};
    schedule::TaskBoard board;
    std::array<std::vector<bool>, 2> arrived;  ///< by parity of the call, then by task
    std::vector<schedule::TaskIndex> seen;     ///< host: messages to receive
    std::vector<schedule::TaskIndex> copies;   ///< nic: copies left to the host
    std::uint32_t calls = 0;
    bool reported = false;  ///< nic: the host's completion is in flight
    bool over = false;      ///< nic: the completion is visible
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
  std::vector<std::uint32_t> number_;       ///< by rank of the network: index into participants_
  std::vector<sim::Picoseconds> nic_free_;  ///< by host
  ListCounts counts_;
};

}  // namespace tutti::simulation
