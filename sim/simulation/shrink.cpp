// The shrinker lists each fault of a failing scenario singly. Then it removes faults, ranks,
// collectives, bytes and features, as long as the scenario still fails.
#include <algorithm>
#include <variant>

#include "sim/fault/fault_injector.hpp"
#include "sim/simulation/swarm.hpp"

namespace tutti::simulation {

namespace {

using device::fault::FaultPlan;
using device::fault::FaultRule;
using device::fault::Interval;
using device::fault::Packet;

/// One fault of a scenario, which the shrinker can remove alone.
struct FaultAtom {
  std::uint32_t communicator = 0;
  std::variant<FaultRule, FrameFault, Pause, Death, Outage, device::sim::PathFault,
               device::sim::Replay, device::sim::GroupFault, FabricLoss>
      what;
};

Scenario without_faults(Scenario scenario) {
  for (ScenarioCommunicator& one : scenario.communicators) {
    one.faults.rules.clear();
    one.frames.clear();
  }
  scenario.pauses.clear();
  scenario.deaths.clear();
  scenario.outages.clear();
  scenario.path_faults.clear();
  scenario.replays.clear();
  scenario.group_faults.clear();
  scenario.toggled_losses.clear();
  return scenario;
}

std::vector<FaultAtom> atoms_of(const Scenario& scenario) {
  std::vector<FaultAtom> atoms;
  for (std::uint32_t c = 0; c < scenario.communicators.size(); ++c) {
    for (const FaultRule& rule : scenario.communicators[c].faults.rules) atoms.push_back({c, rule});
    for (const FrameFault& frame : scenario.communicators[c].frames) atoms.push_back({c, frame});
  }
  for (const Pause& one : scenario.pauses) atoms.push_back({0, one});
  for (const Death& one : scenario.deaths) atoms.push_back({0, one});
  for (const Outage& one : scenario.outages) atoms.push_back({0, one});
  for (const auto& one : scenario.path_faults) atoms.push_back({0, one});
  for (const auto& one : scenario.replays) atoms.push_back({0, one});
  for (const auto& one : scenario.group_faults) atoms.push_back({0, one});
  for (const FabricLoss& one : scenario.toggled_losses) atoms.push_back({0, one});
  return atoms;
}

Scenario with_atoms(const Scenario& bare, const std::vector<FaultAtom>& atoms) {
  Scenario scenario = bare;
  for (const FaultAtom& atom : atoms) {
    ScenarioCommunicator& of = scenario.communicators[atom.communicator];
    if (const auto* rule = std::get_if<FaultRule>(&atom.what)) of.faults.rules.push_back(*rule);
    if (const auto* frame = std::get_if<FrameFault>(&atom.what)) of.frames.push_back(*frame);
    if (const auto* pause = std::get_if<Pause>(&atom.what)) scenario.pauses.push_back(*pause);
    if (const auto* death = std::get_if<Death>(&atom.what)) scenario.deaths.push_back(*death);
    if (const auto* outage = std::get_if<Outage>(&atom.what)) scenario.outages.push_back(*outage);
    if (const auto* path = std::get_if<device::sim::PathFault>(&atom.what)) {
      scenario.path_faults.push_back(*path);
    }
    if (const auto* replay = std::get_if<device::sim::Replay>(&atom.what)) {
      scenario.replays.push_back(*replay);
    }
    if (const auto* group = std::get_if<device::sim::GroupFault>(&atom.what)) {
      scenario.group_faults.push_back(*group);
    }
    if (const auto* loss = std::get_if<FabricLoss>(&atom.what)) {
      scenario.toggled_losses.push_back(*loss);
    }
  }
  return scenario;
}

// ---- each fault by itself -----------------------------------------------------------------------

/// Identifies one chunk among all collectives of a communicator.
struct ChunkOf {
  std::uint32_t epoch;
  std::uint32_t psn;
  Rank source;
};

std::vector<ChunkOf> chunks_of(const ScenarioCommunicator& communicator) {
  std::vector<ChunkOf> chunks;
  for (std::uint32_t i = 0; i < communicator.collectives.size(); ++i) {
    const CollectiveSpec& one = communicator.collectives[i];
    const bool gathers = one.kind == CollectiveKind::allgather;
    if (!gathers && one.kind != CollectiveKind::broadcast) continue;
    const auto block = static_cast<std::uint32_t>((one.bytes + communicator.chunk_bytes - 1) /
                                                  communicator.chunk_bytes);
    const std::uint32_t blocks = gathers ? communicator.ranks : 1;
    for (std::uint32_t psn = 0; psn < blocks * block; ++psn) {
      chunks.push_back(
          {communicator.first_epoch + i, psn, gathers ? rank_of(psn / block) : one.root});
    }
  }
  return chunks;
}

/// Returns rules that replace the random draws of a fault plan: one rule for each copy of a chunk
/// that a draw strikes. The rule also strikes all earlier copies of the chunk, because
/// FaultRule::occurrences counts from the first copy.
std::vector<FaultRule> struck_chunks(const ScenarioCommunicator& communicator) {
  // Only the draws for this many copies of each chunk are examined, because a chunk is rarely sent
  // more often.
  constexpr std::uint32_t kCopies = 4;
  std::vector<FaultRule> rules;
  const FaultPlan& plan = communicator.faults;
  for (const ChunkOf& chunk : chunks_of(communicator)) {
    for (std::uint32_t r = 0; r <= communicator.ranks; ++r) {
      const bool sender = r == communicator.ranks;
      if (!sender && rank_of(r) == chunk.source) continue;
      for (std::uint32_t copy = 0; copy < kCopies; ++copy) {
        const FaultRule* rule =
            device::fault::decide(plan, {.place = sender ? device::fault::FaultSite::sender
                                                         : device::fault::FaultSite::receiver,
                                         .packet = Packet::chunk,
                                         .epoch = chunk.epoch,
                                         .psn = chunk.psn,
                                         .source = chunk.source,
                                         .receiver = sender ? kNoRank : rank_of(r),
                                         .occurrence = copy});
        if (rule == nullptr) continue;
        FaultRule one = *rule;
        one.rate_ppm = 1'000'000;
        one.epochs = Interval{chunk.epoch, chunk.epoch};
        one.psns = Interval{chunk.psn, chunk.psn};
        one.source.reset();
        one.ranks.clear();
        if (!sender) one.ranks.push_back(rank_of(r));
        one.occurrences = copy + 1;
        rules.push_back(one);
      }
    }
  }
  return rules;
}

/// The same scenario, but each fault that occurred in a run is listed singly instead of drawn at
/// random.
Scenario itemised(const Scenario& scenario) {
  const ScenarioResult happened = run_scenario(scenario);
  Scenario items = scenario;
  items.loss_ppm = 0;
  if (scenario.loss_ppm > 0) {
    items.toggled_losses.clear();
    // A toggled loss inverts the loss draw of one packet. Without random loss on links, the
    // inverted draw always loses the packet.
    items.toggled_losses = happened.losses;
  }
  for (std::uint32_t c = 0; c < items.communicators.size(); ++c) {
    ScenarioCommunicator& one = items.communicators[c];
    if (c < happened.frames.size()) one.frames = happened.frames[c];
    one.faults.rules = struck_chunks(scenario.communicators[c]);
  }
  return items;
}

// ---- fewer faults -------------------------------------------------------------------------------

class Shrinker {
 public:
  Shrinker(const Fails& fails, std::uint32_t budget) : fails_(fails), budget_(budget) {}

  Scenario shrink(Scenario scenario) {
    Scenario best = std::move(scenario);
    try_instead(best, itemised(best));
    for (bool smaller = true; smaller && budget_ > 0;) {
      smaller = fewer_faults(best);
      smaller |= smaller_shape(best);
      smaller |= plainer(best);
    }
    return best;
  }

 private:
  bool try_instead(Scenario& best, Scenario candidate) {
    if (budget_ == 0) return false;
    --budget_;
    if (!fails_(candidate)) return false;
    best = std::move(candidate);
    return true;
  }

  /// Removes faults by delta debugging: cuts the list of faults into parts, tries to leave out each
  /// part, and repeats this with smaller parts.
  bool fewer_faults(Scenario& best) {
    const Scenario bare = without_faults(best);
    std::vector<FaultAtom> atoms = atoms_of(best);
    const std::size_t before = atoms.size();
    for (std::size_t parts = 2; !atoms.empty() && budget_ > 0;) {
      const std::size_t size = (atoms.size() + parts - 1) / parts;
      bool found = false;
      for (std::size_t at = 0; at < atoms.size() && !found; at += size) {
        std::vector<FaultAtom> rest = atoms;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at),
                   rest.begin() + static_cast<std::ptrdiff_t>(std::min(at + size, rest.size())));
        found = try_instead(best, with_atoms(bare, rest));
        if (found) atoms = std::move(rest);
      }
      if (found) {
        parts = std::max<std::size_t>(2, parts - 1);
      } else if (size == 1) {
        break;
      } else {
        parts = std::min(parts * 2, atoms.size());
      }
    }
    return atoms.size() < before;
  }

  bool smaller_shape(Scenario& best) {
    bool smaller = false;
    for (std::size_t c = best.communicators.size(); c-- > 1;) {
      Scenario less = best;
      less.communicators.erase(less.communicators.begin() + static_cast<std::ptrdiff_t>(c));
      smaller |= try_instead(best, std::move(less));
    }
    for (std::size_t c = 0; c < best.communicators.size(); ++c) {
      smaller |= fewer_collectives(best, c);
      smaller |= fewer_bytes(best, c);
    }
    smaller |= fewer_ranks(best);
    return smaller;
  }

  bool fewer_collectives(Scenario& best, std::size_t c) {
    bool smaller = false;
    for (std::size_t i = best.communicators[c].collectives.size(); i-- > 0;) {
      Scenario less = best;
      auto& list = less.communicators[c].collectives;
      if (list.size() < 2) return smaller;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      if (i == 0) ++less.communicators[c].first_epoch;
      smaller |= try_instead(best, std::move(less));
    }
    return smaller;
  }

  bool fewer_bytes(Scenario& best, std::size_t c) {
    bool smaller = false;
    const std::uint64_t chunk = best.communicators[c].chunk_bytes;
    for (std::size_t i = 0; i < best.communicators[c].collectives.size(); ++i) {
      for (const std::uint64_t less_bytes : {std::uint64_t{0}, chunk, 2 * chunk}) {
        Scenario less = best;
        std::uint64_t& bytes = less.communicators[c].collectives[i].bytes;
        if (less_bytes >= bytes) continue;
        bytes = less_bytes;
        smaller |= try_instead(best, std::move(less));
      }
    }
    return smaller;
  }

  bool fewer_ranks(Scenario& best) {
    for (std::uint32_t ranks = 2; ranks < best.communicators[0].ranks; ++ranks) {
      // Removes no ranks if there are outages or losses of listed packets, because these name links
      // and packets that a smaller network may not have.
      if (!best.outages.empty() || !best.toggled_losses.empty()) return false;
      if (try_instead(best, of_ranks(best, ranks))) return true;
    }
    return false;
  }

  /// The scenario with fewer ranks; the faults of removed ranks move to remaining ranks.
  static Scenario of_ranks(const Scenario& scenario, std::uint32_t ranks) {
    Scenario less = scenario;
    less.place = {.shape = TopologySpec::Shape::single_switch, .hosts = ranks};
    less.place.bits_per_second = scenario.place.bits_per_second;
    const auto remaining = [&](Rank rank) { return rank_of(index(rank) % ranks); };
    for (ScenarioCommunicator& one : less.communicators) {
      one.ranks = std::min(one.ranks, ranks);
      one.rotated %= ranks;
      for (CollectiveSpec& what : one.collectives) what.root = remaining(what.root);
      for (FrameFault& frame : one.frames) {
        frame.from = remaining(frame.from);
        frame.to = remaining(frame.to);
      }
      for (FaultRule& rule : one.faults.rules) {
        for (Rank& rank : rule.ranks) rank = remaining(rank);
        if (rule.source) rule.source = remaining(*rule.source);
        if (!rule.psns) continue;
        // An Allgather with fewer ranks has fewer chunks, so the PSNs of fault rules are scaled
        // down.
        rule.psns->first = rule.psns->first * ranks / scenario.communicators[0].ranks;
        rule.psns->last =
            std::max(rule.psns->first, rule.psns->last * ranks / scenario.communicators[0].ranks);
      }
    }
    for (Pause& one : less.pauses) one.host = sim::HostId{index(one.host) % ranks};
    for (Death& one : less.deaths) one.host = sim::HostId{index(one.host) % ranks};
    for (device::sim::GroupFault& one : less.group_faults)
      one.host = sim::HostId{index(one.host) % ranks};
    const auto moved = [&](auto& one) {
      one.from = sim::HostId{index(one.from) % ranks};
      one.to = sim::HostId{index(one.to) % ranks};
    };
    for (device::sim::PathFault& one : less.path_faults) moved(one);
    for (device::sim::Replay& one : less.replays) moved(one);
    return less;
  }

  /// Resets the fields of a scenario to their defaults one by one, and retains each change with
  /// which the scenario still fails.
  bool plainer(Scenario& best) {
    bool smaller = false;
    const Scenario usual;
    const auto reset = [&](auto member) {
      if (best.*member == usual.*member) return;
      Scenario less = best;
      less.*member = usual.*member;
      smaller |= try_instead(best, std::move(less));
    };
    reset(&Scenario::lossless);
    reset(&Scenario::cut_through);
    reset(&Scenario::routing);
    reset(&Scenario::queue_bytes);
    reset(&Scenario::connections);
    reset(&Scenario::host_serviced);
    reset(&Scenario::send_queue_chunks);
    reset(&Scenario::ranks_per_host);
    reset(&Scenario::uc_fragments);
    reset(&Scenario::receive_workers);
    for (const auto member : {&HostModel::jitter, &HostModel::poll}) {
      if (best.host.*member == usual.host.*member) continue;
      Scenario less = best;
      less.host.*member = usual.host.*member;
      smaller |= try_instead(best, std::move(less));
    }
    for (std::size_t c = 0; c < best.communicators.size(); ++c) smaller |= plainer_one(best, c);
    return smaller;
  }

  bool plainer_one(Scenario& best, std::size_t c) {
    bool smaller = false;
    const ScenarioCommunicator usual;
    const auto reset = [&](auto member) {
      if (best.communicators[c].*member == usual.*member) return;
      Scenario less = best;
      less.communicators[c].*member = usual.*member;
      smaller |= try_instead(best, std::move(less));
    };
    using C = ScenarioCommunicator;
    reset(&C::rotated);
    reset(&C::subgroups);
    reset(&C::chains);
    reset(&C::staging_chunks);
    reset(&C::window_bytes);
    reset(&C::pulses_in_flight);
    reset(&C::always_barrier);
    reset(&C::retain_bytes);
    reset(&C::reorder_delay);
    reset(&C::alpha);
    reset(&C::patience);
    reset(&C::max_connections);
    reset(&C::big_endian);
    reset(&C::aggregator_slots);
    reset(&C::submitted_ahead);
    reset(&C::skew);
    reset(&C::compute);
    return smaller;
  }

  const Fails& fails_;
  std::uint32_t budget_;
};

}  // namespace

Scenario shrink(const Scenario& scenario, const Fails& fails, std::uint32_t budget) {
  return Shrinker(fails, budget).shrink(scenario);
}

}  // namespace tutti::simulation
