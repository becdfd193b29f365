// A collective's task lists on a simulated network, carried out by the hosts or by interfaces with
// wait and enable (C1): the schedules of the library, one call after another.
//
// A host carries out its list only while it looks: what has come lies there until then. An
// interface is given the lowered list (schedule/core_direct.hpp) in one go and runs it by itself;
// the host hears of the end. `TaskBoard`, the engine's own, says in both what may be issued. Only
// time is simulated; what the lists compute is shown by the validator and by the engine.
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

/// What lists cost. Of the host: a look takes `host.poll`, a message sent or taken `host.message`.
struct ListCosts {
  HostModel host{};
  /// From the link, or from the interface, to the host's completion queue.
  Nanoseconds completion{600};
  /// nic: of the host, for each task that it posts. Assumed: some stores.
  Nanoseconds post{50};
  /// nic: of the interface, which all ranks of a host share, for each message that it sends, each
  /// wait and each enable. The source says nothing of it. Calibrated once: table III (a), radix 2,
  /// 2^12 keys, with the work of a core of ours.
  Nanoseconds task{300};
  /// Of the host. Assumed: a core's share of the memory of such machines.
  std::uint64_t copy_bits_per_second = 40'000'000'000;
};

/// Who hears that there is something for a rank to look at.
class RankWaker {
 public:
  virtual ~RankWaker() = default;
  virtual void wake(std::uint32_t rank) = 0;
};

struct ListSpec {
  ListRunner runner = ListRunner::host;
  schedule::Purpose purpose{};  ///< any rank's; `ranks` of them
  std::uint64_t block_bytes = 0;
  std::vector<std::uint32_t> members;  ///< ranks of the network, by rank of the list
  ListCosts costs{};
  /// nic: an eager buffer holds one block, so that a message of n blocks is n messages (C4). The
  /// source's buffers have a size of their own, which it does not print.
  bool buffer_per_block = false;
};

/// What was carried out by whom, all ranks and calls together.
struct ListCounts {
  std::uint64_t host_messages = 0;  ///< that a host sent
  std::uint64_t nic_messages = 0;   ///< that an interface sent
  std::uint64_t nic_waits = 0;      ///< waits and enables
  std::uint64_t looks = 0;
};

class ListRun {
 public:
  /// Refused where the algorithm cannot be built, has no lowered form, or its messages are longer
  /// than eager ones, the only ones that are lowered here.
  static Result<std::unique_ptr<ListRun>> create(sim::EventQueue& queue, MessageNetwork& network,
                                                 RankWaker& waker, ListSpec spec);

  /// A rank calls, at `now`, its last call being over. Returns when its host is free again.
  sim::Picoseconds begin(std::uint32_t rank, sim::Picoseconds now);
  /// Whether a look would find anything.
  bool has_news(std::uint32_t rank) const;
  /// The host looks. Returns when it is free again.
  sim::Picoseconds look(std::uint32_t rank, sim::Picoseconds now);
  /// Whether the rank's call is over, as its host knows.
  bool done(std::uint32_t rank) const { return at(rank).done; }

  /// Of messages that `send` was called for here.
  void delivered(const NetworkMessage& message, sim::Picoseconds now);
  void left(const NetworkMessage& message, sim::Picoseconds now);
  /// Handles an event; false where it belongs to somebody else.
  bool handle(const sim::Event& event);
  const ListCounts& counts() const { return counts_; }

 private:
  struct Participant {
    std::uint32_t rank = 0;  ///< of the network
    schedule::Schedule schedule;
    std::vector<schedule::FilledTask> filled;
    std::vector<schedule::TaskIndex> managed;  ///< the management queue's entries
    std::size_t managed_done = 0;
    sim::Picoseconds posting{};  ///< of the host, for a call: tasks, copies before any message
    schedule::TaskBoard board;
    std::array<std::vector<bool>, 2> arrived;  ///< by parity of the call, then by task
    std::vector<schedule::TaskIndex> seen;     ///< host: receives to take
    std::vector<schedule::TaskIndex> copies;   ///< nic: that the host has to do
    std::uint32_t calls = 0;
    bool reported = false;  ///< nic: the host's completion is on its way
    bool over = false;      ///< nic: it is there
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
  std::vector<std::uint32_t> number_;       ///< by rank of the network: in participants_
  std::vector<sim::Picoseconds> nic_free_;  ///< by host
  ListCounts counts_;
};

}  // namespace tutti::simulation
