#include "job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "base/random.hpp"
#include "device/ip/ip_device.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/create.hpp"

namespace tutti::scenario {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(100);
// Size of a UC fragment in bytes, small enough that even a small chunk has several fragments.
constexpr std::uint32_t kFragmentBytes = 256;

/// True if chunks travel by UC. The environment variable TUTTI_MULTICAST selects UC for every job.
bool by_uc() {
  const char* multicast = std::getenv("TUTTI_MULTICAST");
  return multicast != nullptr && std::string(multicast) == "uc";
}

/// Makes the device that all ranks of a job share.
std::shared_ptr<device::fault::FaultDevice> faulty_network(const JobSpec& spec) {
  auto plan = device::fault::FaultPlan::parse(spec.faults);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  if (!plan) return nullptr;
  auto device = std::make_shared<device::fault::FaultDevice>(*plan);
  device::ip::IpOptions ip;
  ip.local_only = true;
  ip.tap = spec.tap ? spec.tap : device->frame_tap();
  if (by_uc()) {
    ip.multicast = device::ip::Multicast::uc;
    ip.max_fragment_bytes = kFragmentBytes;
  }
  device->decorate(std::make_shared<device::ip::IpDevice>(ip));
  return device;
}

}  // namespace

Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(draw(seed, i / 8) >> (i % 8 * 8));
  }
  return bytes;
}

std::uint64_t Outcome::of(const std::string& counter) const {
  const auto at = total.find(counter);
  EXPECT_NE(at, total.end()) << "there is no counter " << counter;
  return at == total.end() ? 0 : at->second;
}

std::uint64_t Outcome::lost_bytes() const {
  return injected.bytes_dropped_at_receiver + injected.bytes_corrupted +
         injected.bytes_dropped_at_sender * (size - 1);
}

std::uint64_t Outcome::moved_bytes() const {
  const std::uint64_t repeated = of("tail_probes") * chunk_bytes;
  const std::uint64_t again = of("bytes_retransmitted");
  return of("bytes_fetched") + (again > repeated ? again - repeated : 0);
}

std::uint64_t Outcome::recovered_bytes() const {
  const std::uint64_t moved = moved_bytes();
  return moved - std::min(moved, late_bytes());
}

std::uint64_t Outcome::given_up_bytes() const { return of("cutoff_silence") * longest_call_bytes; }

std::uint64_t Outcome::late_chunks() const {
  return of("chunks_duplicate") + of("chunks_stale") + of("chunks_unexpected_dropped") +
         of("device_kernel_drops");
}

std::uint64_t Outcome::most_tails() const {
  // In one collective a sender sends at most two probes without waiting for silence, and seven
  // while the interval between probes doubles. `longest_intervals` bounds the number of later
  // probes.
  constexpr std::uint64_t kEach = 2 + 7;
  const auto longest_intervals = static_cast<std::uint64_t>(duration.count() / 100'000'000);
  return subgroups * (of("collectives_completed") * kEach + size * longest_intervals);
}

/// Estimates how many bytes were fetched without need. A cutoff fired because the sender was
/// silent, but the bytes arrived by multicast later.
std::uint64_t Outcome::late_bytes() const {
  const std::uint64_t repeated =
      of("tail_probes") * (size - 1) + injected.chunks_duplicated * (size - 1);
  const std::uint64_t twice = of("chunks_duplicate") + of("chunks_stale");
  return std::min((twice - std::min(twice, repeated)) * chunk_bytes, given_up_bytes());
}

std::string Outcome::describe() const {
  std::string text;
  for (const char* name : {"chunks_sent",
                           "chunks_received",
                           "chunks_duplicate",
                           "chunks_stale",
                           "chunks_unexpected",
                           "chunks_damaged",
                           "chunks_lost",
                           "chunks_fetched",
                           "bytes_fetched",
                           "chunks_retransmitted",
                           "bytes_retransmitted",
                           "tail_probes",
                           "fetch_ranges_asked",
                           "fetch_ranges_deferred",
                           "fetch_targets_skipped",
                           "retransmit_requests_sent",
                           "cutoff_silence",
                           "cutoff_neighbour_finished",
                           "credit_stalls",
                           "messages_rejected",
                           "device_reliable_frames_resent",
                           "device_reliable_tail_probes",
                           "device_kernel_drops"}) {
    text += fmt::format("{} {}\n", name, of(name));
  }
  return text + fmt::format("dropped: {} chunks at senders, {} at receivers, {} frames\n",
                            injected.chunks_dropped_at_sender, injected.chunks_dropped_at_receiver,
                            injected.frames_dropped);
}

bool Member::finish(Request& request, const char* what) {
  const Status status = request.wait_for(kPatience);
  EXPECT_TRUE(status.ok()) << what << " at rank " << rank() << ": " << status.to_string() << "\n"
                           << (status.ok() ? "" : communicator_->flight_record());
  return status.ok();
}

bool Member::allgather(std::size_t block_bytes, std::uint64_t seed) {
  note(block_bytes * (size() - 1));
  const Bytes own = pattern(block_bytes, draw(seed, rank()));
  Bytes all(block_bytes * size());
  auto request = communicator_->allgather(own, all, {Algorithm::multicast, true});
  EXPECT_TRUE(request.ok()) << request.status().to_string();
  if (!request || !finish(*request, "allgather")) return false;
  for (std::uint32_t r = 0; r < size(); ++r) {
    const Bytes expected = pattern(block_bytes, draw(seed, r));
    const auto block = all.begin() + static_cast<std::ptrdiff_t>(r * block_bytes);
    const auto end = block + static_cast<std::ptrdiff_t>(block_bytes);
    const auto wrong = std::mismatch(block, end, expected.begin()).first;
    EXPECT_EQ(wrong - block, end - block)
        << "rank " << rank() << " has a wrong byte in block " << r;
    if (wrong != end) return false;
  }
  return true;
}

bool Member::allgatherv(const std::vector<std::uint64_t>& sizes_bytes, std::uint64_t seed) {
  constexpr std::uint64_t kGapBytes = 7;
  const Bytes own = pattern(sizes_bytes[rank()], draw(seed, rank()));
  std::vector<std::uint64_t> offsets(size());
  Bytes expected;
  // The ranks place the blocks in different orders.
  for (std::uint32_t i = 0; i < size(); ++i) {
    const std::uint32_t r = (i + rank()) % size();
    expected.resize(expected.size() + kGapBytes);
    offsets[r] = expected.size();
    const Bytes block = pattern(sizes_bytes[r], draw(seed, r));
    expected.insert(expected.end(), block.begin(), block.end());
  }
  note(expected.size());
  Bytes all(expected.size());
  auto request = communicator_->allgatherv(own, all, sizes_bytes, offsets,
                                           {.algorithm = Algorithm::multicast, .will_wait = true});
  EXPECT_TRUE(request.ok()) << request.status().to_string();
  if (!request || !finish(*request, "allgatherv")) return false;
  EXPECT_TRUE(all == expected) << "rank " << rank() << " has wrong bytes";
  return all == expected;
}

bool Member::broadcast(std::size_t bytes, std::uint32_t root, std::uint64_t seed) {
  note(bytes);
  const Bytes expected = pattern(bytes, seed);
  Bytes buffer = rank() == root ? expected : Bytes(bytes);
  auto request = communicator_->broadcast(buffer, rank_of(root), {Algorithm::multicast, true});
  EXPECT_TRUE(request.ok()) << request.status().to_string();
  if (!request || !finish(*request, "broadcast")) return false;
  EXPECT_TRUE(buffer == expected) << "rank " << rank() << " has wrong bytes from root " << root;
  return buffer == expected;
}

CommunicatorOptions small_chunks() {
  CommunicatorOptions options;
  options.chunk_bytes = 1024;
  options.chains = 1;
  options.retain_bytes = 0;
  options.peer_timeout = kPatience;
  options.create_timeout = kPatience;
  return options;
}

void expect_every_fault(const Outcome& outcome) {
  EXPECT_GT(outcome.injected.chunks_dropped_at_receiver, 0u);
  EXPECT_GT(outcome.injected.chunks_dropped_at_sender, 0u);
  EXPECT_GT(outcome.injected.chunks_duplicated, 0u);
  EXPECT_GT(outcome.injected.chunks_reordered, 0u);
  EXPECT_GT(outcome.injected.chunks_corrupted, 0u);
  EXPECT_GT(outcome.injected.frames_dropped, 0u);
}

void run_small_collectives(Member& member, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t bytes = i % 7 * 700;
    const bool ok =
        i % 3 == 0 ? member.broadcast(bytes, i % member.size(), i) : member.allgather(bytes, i);
    if (!ok) return;
  }
}

Outcome run_job(const JobSpec& spec, const std::function<void(Member&)>& body) {
  Outcome outcome{.size = spec.size,
                  .chunk_bytes = spec.options.chunk_bytes,
                  .subgroups = std::max(spec.options.subgroups, 1u)};
  const auto network = faulty_network(spec);
  if (!network) return outcome;
  CommunicatorOptions options = spec.options;
  options.device = network;
  if (spec.wrap) options.device = spec.wrap(network);
  auto bootstraps = runtime::make_local_bootstraps(spec.size);
  std::barrier<> all_ranks(static_cast<std::ptrdiff_t>(spec.size));
  std::mutex mutex;
  outcome.by_rank.resize(spec.size);
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < spec.size; ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator =
          runtime::create_communicator(*bootstraps[rank], options, nullptr, spec.first_epoch);
      EXPECT_TRUE(communicator.ok()) << communicator.status().to_string();
      if (!communicator) {
        all_ranks.arrive_and_drop();
        return;
      }
      Member member(*communicator);
      body(member);
      if (spec.close_together) all_ranks.arrive_and_wait();
      const std::lock_guard lock(mutex);
      outcome.longest_call_bytes =
          std::max(outcome.longest_call_bytes, member.longest_call_bytes());
      for (auto& [name, value] : communicator->counters()) {
        outcome.total[name] += value;
        outcome.by_rank[rank][name] = value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  outcome.duration = std::chrono::steady_clock::now() - begun;
  outcome.injected = network->injected();
  const std::uint64_t messages = outcome.total["device_uc_messages_completed"];
  EXPECT_EQ(messages > 0, by_uc() && outcome.total["chunks_received"] > 0)
      << "chunks did not travel by the selected kind of multicast";
  return outcome;
}

}  // namespace tutti::scenario
