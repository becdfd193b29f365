// Phase 2 of the validator: checks that every message has one sender and one receiver, and that
// every member of a group collects each multicast chunk once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "schedule/text.hpp"
#include "schedule/validate/validate_parts.hpp"

namespace tutti::schedule {

namespace {

/// The sending or the receiving end of a message.
struct End {
  std::uint32_t source;
  std::uint32_t destination;
  std::uint32_t slot;
  GlobalTask task;
  std::uint32_t key;

  auto name() const { return std::tuple(source, destination, slot); }
};

bool by_name(const End& a, const End& b) {
  return std::tuple_cat(a.name(), std::tuple(a.task)) <
         std::tuple_cat(b.name(), std::tuple(b.task));
}

class MessageMatch {
 public:
  MessageMatch(const AllRanks& all, Findings& findings) : all_(all), findings_(findings) {}

  std::vector<Delivery> run() {
    list_ends();
    std::sort(senders_.begin(), senders_.end(), by_name);
    std::sort(receivers_.begin(), receivers_.end(), by_name);
    find_duplicates(senders_, "sends");
    find_duplicates(receivers_, "receives");
    if (findings_.none()) pair();
    if (findings_.none()) check_queue_order();
    return std::move(deliveries_);
  }

 private:
  void list_ends() {
    for (GlobalTask t = 0; t < all_.task_count(); ++t) {
      const Task& task = all_.task(t);
      const std::uint32_t me = all_.rank_of_task(t);
      if (sends_message(task.kind)) {
        senders_.push_back({me, index(task.peer), task.slot, t, 0});
      } else if (task.kind == TaskKind::recv) {
        receivers_.push_back({index(task.peer), me, task.slot, t, 0});
      } else if (task.kind == TaskKind::wait_keys) {
        const auto keys = all_.at(me).keys(all_.local(t));
        for (std::uint32_t k = 0; k < keys.size(); ++k)
          receivers_.push_back({index(keys[k].source), me, keys[k].slot, t, k});
      }
    }
  }

  void find_duplicates(const std::vector<End>& ends, std::string_view verb) {
    for (std::size_t e = 1; e < ends.size(); ++e) {
      if (ends[e - 1].name() != ends[e].name()) continue;
      findings_.add(
          Fault::message, ends[e].task,
          fmt::format(
              "task {} {} the same message, from rank {} to rank {} with slot {}: give each "
              "message its own slot",
              all_.local(ends[e - 1].task), verb, ends[e].source, ends[e].destination,
              ends[e].slot));
    }
  }

  /// Reports messages without a receiver before those without a sender: if a send names the wrong
  /// peer, the first finding then names this send.
  void pair() {
    std::vector<const End*> unmatched;
    auto receiver = receivers_.begin();
    for (const End& sender : senders_) {
      for (; receiver != receivers_.end() && receiver->name() < sender.name(); ++receiver)
        unmatched.push_back(&*receiver);
      if (receiver == receivers_.end() || receiver->name() != sender.name()) {
        findings_.add(
            Fault::message, sender.task,
            fmt::format("no task receives it: let rank {} receive slot {} from rank {}, or "
                        "correct the peer",
                        sender.destination, sender.slot, sender.source));
        continue;
      }
      check_ends(sender, *receiver);
      deliveries_.push_back({sender.task, receiver->task, receiver->key});
      ++receiver;
    }
    for (; receiver != receivers_.end(); ++receiver) unmatched.push_back(&*receiver);
    for (const End* end : unmatched) unsent(*end);
  }

  void unsent(const End& receiver) {
    findings_.add(
        Fault::message, receiver.task,
        fmt::format("rank {} sends no message with slot {} to this task: add the send, or correct "
                    "the peer",
                    receiver.source, receiver.slot));
  }

  void check_ends(const End& sender, const End& receiver) {
    const Task& sent = all_.task(sender.task);
    const Task& received = all_.task(receiver.task);
    if (!same_extent(sent.source, received.target))
      findings_.add(Fault::message, receiver.task,
                    fmt::format("receives {} but {} sends {}: make the extents equal",
                                to_string(received.target), all_.describe(sender.task),
                                to_string(sent.source)));
    if (sent.counted != received.counted)
      findings_.add(Fault::message, sender.task,
                    fmt::format("{} counted, but {} {}: change one of the two",
                                sent.counted ? "is" : "is not", all_.describe(receiver.task),
                                received.counted ? "waits for a counter" : "receives a message"));
    const bool by_key = received.kind == TaskKind::wait_keys;
    if (sent.kind == TaskKind::send && sent.keyed != by_key)
      findings_.add(Fault::message, sender.task,
                    fmt::format("{} keyed, but {} {}: change one of the two",
                                sent.keyed ? "is" : "is not", all_.describe(receiver.task),
                                by_key ? "receives keyed messages" : "is a posted receive"));
  }

  /// A connection delivers in order, so one receive queue must receive the messages of one send
  /// queue in the order of sending.
  void check_queue_order() {
    std::vector<GlobalTask> receiver_of(all_.task_count());
    for (const Delivery& d : deliveries_) receiver_of[d.sender] = d.receiver;
    for (std::uint32_t r = 0; r < all_.ranks(); ++r) {
      const Schedule& schedule = all_.at(r);
      for (std::size_t q = 0; q < schedule.queues().size(); ++q) {
        if (schedule.queues()[q].kind != QueueKind::send) continue;
        check_one_queue(r, schedule.entries(static_cast<QueueIndex>(q)), receiver_of);
      }
    }
  }

  void check_one_queue(std::uint32_t rank, std::span<const TaskIndex> entries,
                       const std::vector<GlobalTask>& receiver_of) {
    for (std::size_t e = 0; e < entries.size(); ++e) {
      const GlobalTask sender = all_.base(rank) + entries[e];
      const Task& received = all_.task(receiver_of[sender]);
      const Schedule& peer = all_.at(all_.rank_of_task(receiver_of[sender]));
      if (peer.queues()[received.queue].kind != QueueKind::receive) continue;
      const auto expected = peer.entries(received.queue);
      if (e < expected.size() && expected[e] == all_.local(receiver_of[sender])) continue;
      findings_.add(
          Fault::queue, sender,
          fmt::format("is entry {} of its send queue, but {}, which receives its message, "
                      "is not the same entry of its receive queue: list the messages in "
                      "the same order in both queues",
                      e, all_.describe(receiver_of[sender])));
      return;
    }
  }

  const AllRanks& all_;
  Findings& findings_;
  std::vector<End> senders_;
  std::vector<End> receivers_;
  std::vector<Delivery> deliveries_;
};

/// The collect tasks of one rank and group, indexed by the cells into which they receive.
class CollectMap {
 public:
  CollectMap(const AllRanks& all, const Grid& grid, std::uint32_t rank, std::uint16_t group,
             Findings& findings)
      : all_(all), grid_(grid), rank_(rank), cells_(grid.cells()) {
    const Schedule& schedule = all.at(rank);
    blocks_ = {0, 0, schedule.blocks(Buffer::receive), schedule.blocks(Buffer::scratch)};
    cell_of_collect_.assign(std::size_t{blocks_[2] + blocks_[3]} * cells_, kNoTask);
    sender_of_cell_.assign(cell_of_collect_.size(), kNoTask);
    for (TaskIndex t = 0; t < schedule.tasks().size(); ++t) {
      const Task& task = schedule.tasks()[t];
      const bool in_group = task.object == group;
      member_ |= in_group && (task.kind == TaskKind::collect || task.kind == TaskKind::multicast);
      if (in_group && task.kind == TaskKind::collect) cover(all.base(rank) + t, findings);
    }
  }

  bool member() const { return member_; }

  /// Records that `sender` multicasts into its target cells. Appends to `out` the collect tasks
  /// that receive this multicast.
  void deliver(GlobalTask sender, std::vector<Delivery>& out, Findings& findings) {
    for_each_cell(all_.task(sender).target, [&](std::size_t cell) {
      if (cell_of_collect_[cell] == kNoTask) {
        findings.add(Fault::message, sender,
                     fmt::format("rank {} does not collect it: let its collect cover {}", rank_,
                                 to_string(all_.task(sender).target)));
        return false;
      }
      if (sender_of_cell_[cell] != kNoTask) {
        findings.add(
            Fault::message, sender,
            fmt::format(
                "{} multicasts into the same place: give each multicast a target of its own",
                all_.describe(sender_of_cell_[cell])));
        return false;
      }
      sender_of_cell_[cell] = sender;
      const Delivery delivery{sender, cell_of_collect_[cell], 0};
      const bool listed = !out.empty() && out.back().sender == delivery.sender &&
                          out.back().receiver == delivery.receiver;
      if (!listed) out.push_back(delivery);
      return true;
    });
  }

  void check_all_sent(Findings& findings) const {
    for (std::size_t cell = 0; cell < sender_of_cell_.size(); ++cell) {
      if (cell_of_collect_[cell] == kNoTask || sender_of_cell_[cell] != kNoTask) continue;
      const std::size_t block = cell / cells_;
      findings.add(
          Fault::message, cell_of_collect_[cell],
          fmt::format(
              "no task multicasts into block {} of its target: collect only blocks that are sent",
              block));
      return;
    }
  }

 private:
  template <typename Visit>
  void for_each_cell(const BufferSlice& slice, const Visit& visit) const {
    const std::size_t offset = slice.buffer == Buffer::scratch ? blocks_[2] : 0;
    const Range cells = grid_.cells_of(slice);
    for (std::uint32_t b = slice.first_block; b < slice.last_block(); ++b) {
      if (b >= blocks_[static_cast<std::size_t>(slice.buffer)]) return;
      for (std::uint32_t c = cells.first; c < cells.last; ++c) {
        if (!visit((offset + b) * cells_ + c)) return;
      }
    }
  }

  void cover(GlobalTask collect, Findings& findings) {
    for_each_cell(all_.task(collect).target, [&](std::size_t cell) {
      if (cell_of_collect_[cell] != kNoTask) {
        findings.add(
            Fault::message, collect,
            fmt::format("task {} collects the same place: keep only one of the two collects",
                        all_.local(cell_of_collect_[cell])));
        return false;
      }
      cell_of_collect_[cell] = collect;
      return true;
    });
  }

  const AllRanks& all_;
  const Grid& grid_;
  std::uint32_t rank_;
  std::uint32_t cells_;
  std::array<std::uint32_t, kBufferKinds> blocks_{};
  std::vector<GlobalTask> cell_of_collect_;
  std::vector<GlobalTask> sender_of_cell_;
  bool member_ = false;
};

std::vector<std::uint16_t> groups_of(const AllRanks& all) {
  std::vector<std::uint16_t> groups;
  for (GlobalTask t = 0; t < all.task_count(); ++t) {
    const Task& task = all.task(t);
    if (task.kind == TaskKind::collect || task.kind == TaskKind::multicast)
      groups.push_back(task.object);
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

void match_group(const AllRanks& all, const Grid& grid, std::uint16_t group, Findings& findings,
                 std::vector<Delivery>& out) {
  for (std::uint32_t r = 0; r < all.ranks() && !findings.full(); ++r) {
    CollectMap collects(all, grid, r, group, findings);
    if (!collects.member()) continue;
    for (GlobalTask t = 0; t < all.task_count(); ++t) {
      const Task& task = all.task(t);
      if (task.kind == TaskKind::multicast && task.object == group && all.rank_of_task(t) != r)
        collects.deliver(t, out, findings);
    }
    collects.check_all_sent(findings);
  }
}

}  // namespace

Matching match(const AllRanks& all, const Grid& grid, Findings& findings) {
  Matching matching;
  matching.messages = MessageMatch(all, findings).run();
  std::sort(matching.messages.begin(), matching.messages.end(),
            [](const Delivery& a, const Delivery& b) {
              return std::tie(a.receiver, a.key) < std::tie(b.receiver, b.key);
            });
  matching.first_message.assign(all.task_count() + 1, 0);
  for (const Delivery& d : matching.messages) ++matching.first_message[d.receiver + 1];
  for (std::size_t t = 0; t < all.task_count(); ++t)
    matching.first_message[t + 1] += matching.first_message[t];
  for (std::uint16_t group : groups_of(all))
    match_group(all, grid, group, findings, matching.multicasts);
  std::sort(matching.multicasts.begin(), matching.multicasts.end(),
            [](const Delivery& a, const Delivery& b) {
              return std::tie(a.receiver, a.sender) < std::tie(b.receiver, b.sender);
            });
  return matching;
}

}  // namespace tutti::schedule
