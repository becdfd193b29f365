#include "explain/explain_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>

#include "device/ip/interface.hpp"
#include "device_probe.hpp"
#include "exit_status.hpp"
#include "explain/choice.hpp"
#include "explain/plan.hpp"
#include "explain/schedule_report.hpp"
#include "lab/options.hpp"
#include "protocol/send_schedule.hpp"
#include "runtime/communicator/device_choice.hpp"
#include "session.hpp"
#include "size_text.hpp"

namespace tutti::app {

using device::ip::Multicast;

namespace {

constexpr std::uint32_t kUnknownMtu = 0;

struct ExplainOptions {
  ScheduleQuestion question;
  PlanInput input;
  std::string bytes = "1M";
  std::string window;
  std::string rate;
  std::string multicast;
};

/// Fills in what the command line leaves open: the MTU of an interface of this host, and the
/// receive window of an endpoint on this interface.
Status complete_from_host(PlanInput& input, bool window_given) {
  const int family = input.ipv6 ? AF_INET6 : AF_INET;
  const char* name = std::getenv("TUTTI_INTERFACE");
  auto interface = device::ip::choose_interface(name == nullptr ? "" : name, false, family);
  if (!interface) interface = device::ip::choose_interface("", true, family);
  if (!interface) return interface.status();
  if (input.mtu_bytes == kUnknownMtu) input.mtu_bytes = interface->mtu_bytes;
  if (window_given) return {};
  const auto capabilities = probe_device(interface->name, input.ipv6, input.subgroups,
                                         input.multicast == Multicast::uc ? "uc" : "ud");
  if (!capabilities) return capabilities.status();
  input.window_bytes = capabilities->receive_window_bytes;
  return {};
}

void print_turns(const PlanInput& input, const Plan& plan) {
  if (input.operation == Operation::broadcast) {
    fmt::print("  senders   the root alone\n");
    return;
  }
  if (input.chains != 0) {
    fmt::print("  senders   {} at once, in {} turn(s)\n",
               (input.ranks + plan.steps - 1) / plan.steps, plan.steps);
  } else if (plan.user_bytes <= protocol::SendSchedule::kSmallBytes) {
    fmt::print(
        "  senders   all at once: together they send no more than {}, which any switch "
        "buffers\n",
        size_text(protocol::SendSchedule::kSmallBytes));
  } else {
    fmt::print(
        "  senders   learned: the first collectives in {} turns; then all at once, each at "
        "its share of the link's rate where the link is the limit, unless losses are high\n",
        plan.steps);
  }
}

void print_messages(const PlanInput& input, const Plan& plan) {
  if (plan.algorithm == Algorithm::ring) {
    fmt::print("  messages  {}: a buffer's key to each left neighbour, then one for each segment\n",
               plan.messages);
    return;
  }
  fmt::print(
      "  messages  {}: handshakes, activations of the next sender, {} credits and grants; and {} "
      "for "
      "the ready barrier where it runs (first collective, votes, unconfirmed buffers, "
      "--always-barrier)\n",
      plan.messages, plan.credits, plan.barrier_messages);
  if (plan.credits == 0 && plan.chunks > 0 && input.ranks > 1) {
    fmt::print("            no credits: {} bytes fit the receivers' window of {} bytes\n",
               plan.user_bytes, input.window_bytes);
  }
}

void print_plan(const PlanInput& input, const Plan& plan, bool chosen) {
  const bool multicast = plan.algorithm == Algorithm::multicast;
  const char* name = multicast                                 ? "multicast"
                     : input.operation == Operation::allgather ? "ring"
                                                               : "ring (a chain from the root)";
  fmt::print("\n{}{}\n", name, chosen ? "   <- runs" : "");
  if (multicast) {
    fmt::print("  chunks    {} of up to {} bytes; {} a block\n", plan.chunks, plan.chunk_bytes,
               plan.chunks_per_block);
    if (input.multicast == Multicast::uc) {
      fmt::print(
          "  segments  {} a block: a chunk is a message of up to {}, of up to {} bytes each\n",
          plan.datagrams_per_block,
          (plan.chunk_bytes + plan.datagram_bytes - 1) / plan.datagram_bytes, plan.datagram_bytes);
    }
    if (plan.chunks > 0) {
      fmt::print("  PSNs      0 to {}: place = PSN of the block x {}\n", plan.chunks - 1,
                 plan.chunk_bytes);
    }
    print_turns(input, plan);
  } else {
    fmt::print("  frames    {} with up to {} data bytes, on all links; {} a block and link\n",
               plan.chunks, plan.chunk_bytes, plan.chunks_per_block);
    fmt::print("  steps     {} hops from rank to rank, pipelined\n", plan.steps);
  }
  print_messages(input, plan);
  fmt::print(
      "  links     a host sends at most {} bytes and receives at most {}; all links "
      "together {}\n",
      plan.data.max_sent, plan.data.max_received, plan.data.total);
  fmt::print("  memory    {} bytes of the caller's; {} of Tutti's for this collective{}\n",
             plan.user_bytes, plan.state_bytes, multicast ? ", besides the receivers' window" : "");
}

/// Prints the time that the links alone need, which is that of the busiest direction of any link.
/// If the ranks of an Allgather send one after the other, a rank receives nothing while it sends,
/// so the time to send one block is added.
void print_times(const PlanInput& input, const Plan& multicast, const Plan& ring,
                 std::uint64_t bits_per_second) {
  const auto milliseconds = [&](std::uint64_t bytes) {
    return static_cast<double>(bytes) * 8e3 / static_cast<double>(bits_per_second);
  };
  const std::uint64_t at_once = std::max(multicast.data.max_sent, multicast.data.max_received);
  fmt::print("\nAt {:g} Mbit/s the links alone take {:.3f} ms by multicast",
             static_cast<double>(bits_per_second) / 1e6, milliseconds(at_once));
  if (input.operation == Operation::allgather) {
    fmt::print(" ({:.3f} ms in turns)", milliseconds(at_once + multicast.data.max_sent));
  }
  fmt::print(", {:.3f} ms by {}.\n", milliseconds(ring.data.max_sent),
             input.operation == Operation::allgather ? "the ring"
                                                     : "the chain, and more the "
                                                       "longer it is");
}

void print_comparison(const PlanInput& input, const Plan& multicast, const Plan& ring) {
  if (multicast.data.total == 0) {
    fmt::print("\nNothing crosses a link.\n");
    return;
  }
  const double total =
      static_cast<double>(ring.data.total) / static_cast<double>(multicast.data.total);
  const double sent =
      static_cast<double>(ring.data.max_sent) / static_cast<double>(multicast.data.max_sent);
  fmt::print(
      "\nThe {} puts {:.2f} times as many bytes on all host links, and a host sends {:.2f} "
      "times as many.\n",
      input.operation == Operation::allgather ? "ring" : "chain", total, sent);
}

/// Sets the kind of multicast as a communicator does: from the option if it is given, otherwise
/// from the environment.
Status read_multicast(ExplainOptions& options) {
  CommunicatorOptions wanted;
  wanted.multicast = options.multicast;
  const auto name = runtime::wanted_multicast(wanted);
  if (!name) return name.status();
  Whereabouts& where = options.question.where;
  if (*name == "uc" && where.device == "host")
    return Status(Code::unsupported, "the device 'host' has no UC multicast: use --device ip");
  options.input.multicast = *name == "uc" ? Multicast::uc : Multicast::ud;
  where.multicast = *name != "none" || where.device == "host";
  return {};
}

/// Explains the algorithms multicast and ring by the datagrams that they send, because task lists
/// do not show datagrams.
Status explain_datagrams(const ExplainOptions& options, std::uint64_t rate) {
  PlanInput input = options.input;
  if (!options.window.empty()) {
    const auto window = parse_size_of("--window", options.window);
    if (!window) return window.status();
    input.window_bytes = *window;
  }
  if (Status status = complete_from_host(input, !options.window.empty()); !status) return status;
  const auto multicast = plan_multicast(input);
  if (!multicast) return multicast.status();
  const Plan ring = plan_ring(input);
  const auto choice =
      choose(input.operation, input.ranks, input.send_bytes, options.question.where);
  if (!choice) return choice.status();
  fmt::print("{} of {} bytes {} among {} ranks, MTU {}: {}\n", to_string(input.operation),
             input.send_bytes,
             input.operation == Operation::allgather ? "from each rank" : "from the root",
             input.ranks, input.mtu_bytes, collectives::to_string(*choice));
  fmt::print("why: {}\n", choice->reason);
  print_plan(input, *multicast, choice->algorithm == "multicast");
  print_plan(input, ring, choice->algorithm == "ring" || choice->algorithm == "chain");
  print_comparison(input, *multicast, ring);
  if (rate != 0 && multicast->data.total != 0) print_times(input, *multicast, ring, rate);
  return {};
}

bool has_datagrams(Operation operation) {
  return operation == Operation::allgather || operation == Operation::broadcast;
}

Status explain(const ExplainOptions& given) {
  ExplainOptions options = given;
  const auto bytes = parse_size_of("--bytes", options.bytes);
  if (!bytes) return bytes.status();
  options.input.send_bytes = options.question.block_bytes = *bytes;
  options.question.collective = options.input.operation;
  options.question.ranks = options.input.ranks;
  if (Status status = read_multicast(options); !status) return status;
  std::uint64_t rate = 0;
  if (!options.rate.empty()) {
    const auto parsed = lab::parse_rate(options.rate);
    if (!parsed) return parsed.status();
    rate = *parsed;
  }
  options.question.bits_per_second = rate;
  const ScheduleQuestion& question = options.question;
  const bool about_tasks =
      !question.algorithm.empty() || question.check || question.tasks || !question.draw.empty();
  if (has_datagrams(options.input.operation) && question.where.multicast && !about_tasks)
    return explain_datagrams(options, rate);
  return report_schedules(question);
}

void add_task_options(CLI::App& command, ScheduleQuestion& question) {
  command.add_option(
      "--algorithm", question.algorithm,
      "Algorithm to explain, NAME or NAME:segments=8 (default: the one that would run)");
  command.add_flag("--check", question.check, "Prove the task lists of all ranks correct");
  command.add_flag("--tasks", question.tasks, "Print the task lists of all ranks");
  command.add_option("--draw", question.draw, "Write a timeline of the tasks to this SVG file");
}

void add_operation(CLI::App& parent, Operation operation, int& exit_code) {
  CLI::App* command = parent.add_subcommand(to_string(operation), "");
  const auto options = std::make_shared<ExplainOptions>();
  PlanInput& input = options->input;
  input.operation = operation;
  input.mtu_bytes = kUnknownMtu;
  command->add_option("--ranks,-p", input.ranks, "Number of ranks")
      ->required()
      ->check(CLI::Range(1u, 1u << 24));
  if (operation == Operation::barrier) {
    options->bytes = "0";
  } else {
    command
        ->add_option("--bytes,-b", options->bytes,
                     "Size of the message, or of each rank's block, such as 64K or 4M")
        ->required();
  }
  Whereabouts& where = options->question.where;
  command
      ->add_option("--device", where.device,
                   "Device that moves the bytes: ip, or host (shared memory)")
      ->check(CLI::IsMember({"ip", "host"}))
      ->capture_default_str();
  command->add_option("--hosts", where.hosts,
                      "Number of hosts (default: one per rank; 1 with --device host)");
  command->add_option("--rate", options->rate, "Rate of the links, such as 1gbit, to print times");
  if (has_root(operation))
    command->add_option("--root", options->question.root, "Root of the collective");
  add_task_options(*command, options->question);
  if (has_datagrams(operation)) {
    command
        ->add_option("--mtu", input.mtu_bytes,
                     "MTU of the network (default: of this host's interface)")
        ->check(CLI::Range(576u, 65536u));
    command
        ->add_option(
            "--multicast", options->multicast,
            "ud: a chunk is one datagram; uc: a chunk is one message of several datagrams; "
            "none: a network without multicast (default: TUTTI_MULTICAST, else ud)")
        ->check(CLI::IsMember({"ud", "uc", "none"}));
    command
        ->add_option(
            "--chunk-bytes", input.chunk_bytes,
            "Payload bytes of a chunk (default: the most that the MTU allows, or with uc the most "
            "that a message may have)")
        ->check(CLI::Range(32u, 65472u));
    command
        ->add_option("--segment-bytes", input.segment_bytes,
                     "Payload bytes of a uc datagram (default: the most that the MTU allows)")
        ->check(CLI::Range(32u, 65472u));
    command->add_option("--subgroups", input.subgroups, "Multicast subgroups")
        ->check(CLI::Range(1u, 256u));
    command->add_option("--chains", input.chains,
                        "Ranks that multicast at the same time; 0: learned");
    command->add_option("--window", options->window,
                        "Receive window in bytes of every rank (default: as on this host)");
    command->add_flag("--ipv6", input.ipv6, "IPv6 instead of IPv4");
  }
  command->callback([options, operation, &exit_code] {
    if (Status status = explain(*options); !status) {
      exit_code = complain(std::string("explain ") + to_string(operation), status);
    }
  });
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("explain", "Show the algorithm that would run, its cost, and the reason");
  command->require_subcommand(1);
  for (std::uint32_t c = 0; c < kCollectives; ++c)
    add_operation(*command, static_cast<Operation>(c), exit_code);
}

}  // namespace tutti::app
