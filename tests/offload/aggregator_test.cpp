// Tests how jobs join and leave aggregators: keys, limits, absent and restarted aggregators, and
// calls that must fail.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <mutex>
#include <set>

#include "aggregated_job.hpp"
#include "engine/aggregate/contribute_operation.hpp"
#include "engine/aggregate/reduce_operation.hpp"
#include "engine/core/communicator_context.hpp"
#include "runtime/aggregator/aggregation_options.hpp"
#include "runtime/aggregator/aggregator_connection.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/communicator/create.hpp"
#include "runtime/routes/route_names.hpp"
#include "tutti/communicator.hpp"

namespace tutti::runtime {
namespace {

using Bytes = std::vector<std::byte>;

class Aggregator : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TUTTI_AGGREGATOR_KEY", kKey, 1); }
  void TearDown() override {
    for (const char* name : {"TUTTI_AGGREGATORS", "TUTTI_AGGREGATOR_FALLBACK",
                             "TUTTI_AGGREGATOR_KEY", "TUTTI_AGGREGATOR_KEY_FILE"}) {
      ::unsetenv(name);
    }
  }
};

/// Runs an Allreduce of ones and checks that every sum is the number of ranks.
void check_sum(const Member& member, std::size_t count = 3001) {
  const std::vector<std::int32_t> ones(count, 1);
  std::vector<std::int32_t> sums(count);
  const Status status = member.finish(member.aggregation->allreduce(
      std::as_bytes(std::span(ones)), std::as_writable_bytes(std::span(sums)),
      {.type = DataType::int32, .will_wait = true}));
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(std::count(sums.begin(), sums.end(), static_cast<std::int32_t>(member.size)),
            static_cast<std::ptrdiff_t>(count));
}

/// The error of ranks that try to join an aggregator and must fail. All ranks must report the same
/// error.
Status how_joining_fails(std::uint32_t size, const std::string& aggregator) {
  CommunicatorOptions options = patient();
  options.aggregators = {aggregator};
  Status found;
  std::mutex mutex;
  on_ranks(size, options, [&](Member&, const auto& made) {
    EXPECT_FALSE(made.ok());
    const std::lock_guard lock(mutex);
    if (!found.ok()) {
      EXPECT_EQ(found.to_string(), made.status().to_string());
    }
    found = made.status();
  });
  return found;
}

bool names(const Status& status, const std::string& what) {
  return status.message().find(what) != std::string::npos;
}

/// The address of a TCP port on which no process listens.
std::string silent_address() {
  const auto socket = listen_on({"127.0.0.1", 0});
  return "127.0.0.1:" + std::to_string(*bound_port(*socket));
}

/// Waits until all jobs have left the aggregator; false if that takes longer than kPatience.
bool empties(const AggregatorService& service) {
  const Instant deadline = now() + kPatience;
  while (service.jobs() > 0 && now() < deadline) std::this_thread::yield();
  return service.jobs() == 0;
}

TEST_F(Aggregator, WrongKey_isReportedInTheErrorAtEveryRank) {
  const auto service = start_service();
  ::setenv("TUTTI_AGGREGATOR_KEY", "another key, long enough", 1);
  const Status status = how_joining_fails(3, address_of(*service));
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_TRUE(names(status, address_of(*service))) << status.to_string();
  EXPECT_TRUE(names(status, "different key")) << status.to_string();
  EXPECT_EQ(service->jobs(), 0u);
}

TEST_F(Aggregator, MissingKey_isReportedByAnErrorThatNamesTheRemedy) {
  ::unsetenv("TUTTI_AGGREGATOR_KEY");
  const Status status = how_joining_fails(2, "127.0.0.1:7600");
  EXPECT_TRUE(names(status, "TUTTI_AGGREGATOR_KEY_FILE")) << status.to_string();
}

TEST_F(Aggregator, AbsentAggregator_isNamedInTheError_withTheRemedy) {
  const std::string address = silent_address();
  const Status status = how_joining_fails(3, address);
  EXPECT_TRUE(names(status, "aggregator " + address)) << status.to_string();
  EXPECT_TRUE(names(status, "tutti aggregator --listen")) << status.to_string();
}

TEST_F(Aggregator, AbsentAggregator_withFallback_disablesAggregation_andTheReasonIsShown) {
  const auto present = start_service();
  const std::string absent = silent_address();
  CommunicatorOptions wanted = patient();
  wanted.aggregators = {address_of(*present), absent};
  wanted.aggregator_fallback = true;
  on_ranks(3, wanted, [&](Member& member, const auto& made) {
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_FALSE(member.aggregation->active());
    EXPECT_TRUE(names(member.aggregation->reason(), absent));
    EXPECT_NE(member.aggregation->describe().find("no aggregator"), std::string::npos);
    Bytes data(8);
    EXPECT_FALSE(member.aggregation->allreduce(data, data, {}).ok());
  });
  EXPECT_TRUE(empties(*present)) << "the job must leave the aggregator that is present";
}

TEST_F(Aggregator, AggregatorAtItsJobLimit_refusesFurtherJobs_untilAJobLeaves) {
  const auto service = start_service(kSmall, nullptr, 1);
  on_joined_ranks(2, patient(), {address_of(*service)}, [&](Member& member) {
    check_sum(member);
    if (member.rank != 0) return;
    const Status status = how_joining_fails(2, address_of(*service));
    EXPECT_EQ(status.code(), Code::resource_exhausted);
    EXPECT_TRUE(names(status, "--jobs")) << status.to_string();
  });
  ASSERT_TRUE(empties(*service));
  on_joined_ranks(2, patient(), {address_of(*service)}, [](Member& member) { check_sum(member); });
}

constexpr engine::WindowConfig kLargeSegments{
    .segment_bytes = 65536, .slots = 32, .pulses = 4, .group_bytes = 262'144};

std::uint64_t window_bytes(std::uint32_t ranks, std::uint32_t slots) {
  engine::WindowConfig terms = kLargeSegments;
  terms.slots = slots;
  return engine::InNetworkWindow::memory_bytes(ranks, terms);
}

void expect_windows_of(std::uint32_t slots, std::uint32_t ranks, const AggregatorService& service) {
  on_joined_ranks(ranks, patient(), {address_of(service)}, [slots](Member& member) {
    const std::string text = member.aggregation->describe();
    EXPECT_NE(text.find(fmt::format("windows of {} slots", slots)), std::string::npos) << text;
    check_sum(member, 300'001);
  });
}

TEST_F(Aggregator, AggregatorShortOfMemory_shrinksWindows_thenRefusesJobs) {
  engine::WindowConfig terms = kLargeSegments;
  terms.slots = 16;
  const auto service = start_service(terms, nullptr, 32, 0, window_bytes(3, 4));
  ASSERT_NE(service, nullptr);
  expect_windows_of(4, 3, *service);
  ASSERT_TRUE(empties(*service));
  const Status status = how_joining_fails(4, address_of(*service));
  EXPECT_TRUE(names(status, "--memory-mib")) << status.to_string();
}

TEST_F(Aggregator, FirstJob_leavesMemoryOfTheAggregatorForLaterJobs) {
  const auto service = start_service(kLargeSegments, nullptr, 32, 0, 4 * window_bytes(2, 16));
  ASSERT_NE(service, nullptr);
  expect_windows_of(16, 2, *service);
}

TEST_F(Aggregator, RestartedAggregatorServesNewCommunicators) {
  auto service = start_service();
  const std::uint16_t port = service->port();
  const std::string address = address_of(*service);
  on_joined_ranks(2, patient(), {address}, [](Member& member) { check_sum(member); });
  service.reset();
  service = start_service(kSmall, nullptr, 32, port);
  ASSERT_NE(service, nullptr);
  on_joined_ranks(2, patient(), {address}, [](Member& member) { check_sum(member); });
  EXPECT_EQ(counters_of(*service)["in_network_calls"], 1u);
}

TEST_F(Aggregator, AggregatorAddresses_areReadFromTheEnvironment_ifNoneAreGiven) {
  ::setenv("TUTTI_AGGREGATORS", "10.0.0.1:7600,,10.0.0.2:7600", 1);
  ::setenv("TUTTI_AGGREGATOR_FALLBACK", "1", 1);
  const CommunicatorOptions options = with_aggregators_of_environment({}).value();
  EXPECT_EQ(options.aggregators, (std::vector<std::string>{"10.0.0.1:7600", "10.0.0.2:7600"}));
  EXPECT_TRUE(options.aggregator_fallback);
  CommunicatorOptions own;
  own.aggregators = {"h:1"};
  EXPECT_EQ(with_aggregators_of_environment(own)->aggregators, own.aggregators);
  ::setenv("TUTTI_AGGREGATOR_FALLBACK", "yes", 1);
  EXPECT_EQ(with_aggregators_of_environment({}).status().code(), Code::invalid_argument);
}

TEST_F(Aggregator, AggregatorThatEndsDuringACall_isNamedInTheErrorAtEveryRank) {
  auto service = start_service();
  const std::string address = address_of(*service);
  std::barrier<> under_way(4);
  std::barrier<> failed(3);
  std::thread killer([&] {
    under_way.arrive_and_wait();
    service.reset();
  });
  on_joined_ranks(3, patient(), {address}, [&](Member& member) {
    check_sum(member);
    std::vector<std::byte> data(100'000);
    // Rank 2 never starts the Allreduce, so that the Allreduce cannot complete.
    Aggregation::Outcome outcome = Status(Code::internal, "this rank made no call");
    if (member.rank < 2) {
      outcome = member.aggregation->allreduce(data, data, {.will_wait = false});
    }
    // The aggregator may end only after all three ranks have reached this point, because it must
    // serve check_sum() until the last rank has finished that call.
    under_way.arrive_and_wait();
    if (member.rank < 2) {
      const Status status = member.finish(outcome);
      EXPECT_EQ(status.code(), Code::peer_failed) << status.to_string();
      EXPECT_TRUE(names(status, "aggregator " + address)) << status.to_string();
    }
    failed.arrive_and_wait();
    const Status later =
        member.finish(member.aggregation->allreduce(data, data, {.will_wait = true}));
    EXPECT_EQ(later.code(), Code::peer_failed) << later.to_string();
    EXPECT_TRUE(names(later, "aggregator " + address)) << later.to_string();
  });
  killer.join();
}

TEST_F(Aggregator, CallsUnderWay_afterAnAbortAtOneRank_endAtEveryRank) {
  const auto service = start_service();
  CommunicatorOptions options = patient();
  options.aggregators = {address_of(*service)};
  auto bootstraps = make_local_bootstraps(3);
  std::barrier<> under_way(3);
  std::barrier<> over(3);
  const auto run = [&](std::uint32_t rank) {
    auto communicator = runtime::create_communicator(*bootstraps[rank], options);
    ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
    Bytes data(100'000);
    const auto allreduce = [&] { return communicator->allreduce(data, data, {}, {kInNetwork}); };
    Request request;
    if (rank < 2) {
      auto started = allreduce();
      ASSERT_TRUE(started.ok()) << started.status().to_string();
      request = *started;
    }
    under_way.arrive_and_wait();
    if (rank == 0) communicator->abort("had enough");
    if (rank < 2) {
      const Status status = request.wait_for(std::chrono::seconds(20));
      EXPECT_NE(status.code(), Code::timeout);
      EXPECT_TRUE(names(status, rank == 0 ? "had enough" : "rank 0")) << status.to_string();
    }
    over.arrive_and_wait();
    // A call after the abort fails at its start, or during its wait if rank 2 does not know of the
    // abort yet.
    if (rank == 2) {
      auto late = allreduce();
      const Status status = late ? late->wait() : late.status();
      EXPECT_TRUE(names(status, "rank 0")) << status.to_string();
    } else {
      EXPECT_FALSE(request.wait().ok());
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 3; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(empties(*service));
}

TEST_F(Aggregator, DifferentReductionAtOneRank_failsAtEveryRank_withTheReason) {
  const auto service = start_service();
  std::mutex mutex;
  std::set<std::string> said;
  on_joined_ranks(3, patient(), {address_of(*service)}, [&](Member& member) {
    std::vector<std::byte> data(4000);
    const auto operation = member.rank == 1 ? ReduceOperation::max : ReduceOperation::sum;
    // The first call that arrives is the one from which others differ.
    while (member.rank == 1 && counters_of(*service)["in_network_calls"] == 0)
      std::this_thread::yield();
    const Status status = member.finish(
        member.aggregation->allreduce(data, data, {.operation = operation, .will_wait = true}));
    EXPECT_FALSE(status.ok());
    const std::lock_guard lock(mutex);
    said.insert(status.message());
  });
  // The calls fail at every rank. At least one error must name the cause, which is that rank 1
  // called another reduction than ranks 0 and 2.
  EXPECT_TRUE(std::any_of(said.begin(), said.end(), [](const std::string& one) {
    return one.find("rank 1 called a different reduction") != std::string::npos;
  })) << testing::PrintToString(said);
  ASSERT_TRUE(empties(*service));
}

TEST_F(Aggregator, InNetworkAlgorithmRequestedByName_isServedByTheAggregator) {
  const auto service = start_service();
  on_joined_ranks(2, patient(), {address_of(*service)}, [&](Member& member) {
    std::vector<std::int32_t> ones(2000, 1);
    std::vector<std::int32_t> sums(1000);
    CollectiveCall call{
        .collective = Collective::reduce_scatter,
        .send = std::as_bytes(std::span(ones)),
        .receive = std::as_writable_bytes(std::span(sums)),
        .reduction = {.type = DataType::int32, .operation = ReduceOperation::premultiplied_sum}};
    const std::int32_t factor = 10;
    std::memcpy(call.reduction.factor.data(), &factor, sizeof factor);
    call.options.will_wait = true;
    for (const char* name : {"", "in_network", "in_network_ring"}) {
      call.options.algorithm = name;
      ASSERT_TRUE(member.aggregation->serves(call)) << name;
      const Status status = member.finish(member.aggregation->start(call));
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(*member.aggregation->algorithm_of(call), "in_network");
      EXPECT_EQ(std::count(sums.begin(), sums.end(), 20), 1000);
    }
    call.options.algorithm = "ring";
    EXPECT_FALSE(member.aggregation->serves(call));
    call.options.algorithm = "";
    auto prepared = member.aggregation->prepare(call);
    ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
    EXPECT_TRUE(member.finish((*prepared)()).ok());
    call.receive = call.receive.first(400);
    EXPECT_EQ(member.aggregation->prepare(call).status().code(), Code::invalid_argument);
    EXPECT_EQ(member.aggregation->algorithm_of(call).status().code(), Code::invalid_argument);
    call.collective = Collective::allgather;
    EXPECT_FALSE(member.aggregation->serves(call));
    EXPECT_FALSE(member.aggregation->start(call).ok());
  });
  EXPECT_EQ(counters_of(*service)["in_network_calls"], 4u);
}

TEST_F(Aggregator, ReductionOfBlocksOfDifferentSizes_bypassesTheAggregator) {
  const auto service = start_service();
  CommunicatorOptions options = patient();
  options.aggregators = {address_of(*service)};
  auto bootstraps = make_local_bootstraps(2);
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto communicator = runtime::create_communicator(*bootstraps[rank], options);
      ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
      const std::array<std::uint64_t, 2> sizes = {8, 16};
      const std::array<std::uint64_t, 2> offsets = {0, 8};
      const std::vector<std::int32_t> ones(6, 1);
      std::vector<std::int32_t> sums(sizes[rank] / 4);
      CollectiveCall call{.collective = Collective::reduce_scatterv,
                          .send = std::as_bytes(std::span(ones)),
                          .receive = std::as_writable_bytes(std::span(sums)),
                          .reduction = {.type = DataType::int32},
                          .send_sizes_bytes = sizes,
                          .send_offsets_bytes = offsets};
      auto request = communicator->start(call);
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      EXPECT_TRUE(request->wait().ok());
      EXPECT_EQ(std::count(sums.begin(), sums.end(), 2), static_cast<std::ptrdiff_t>(sums.size()));
      call.options.algorithm = "in_network";
      EXPECT_EQ(communicator->start(call).status().code(), Code::invalid_argument);
    });
  }
  for (std::thread& one : ranks) one.join();
  EXPECT_EQ(counters_of(*service)["in_network_calls"], 0u);
}

TEST_F(Aggregator, ImpossibleCallsAreRefusedBeforeAnythingIsSent) {
  const auto service = start_service();
  on_joined_ranks(2, patient(), {address_of(*service)}, [&](Member& member) {
    std::vector<std::byte> data(40);
    std::vector<std::byte> other(36);
    Aggregation& aggregation = *member.aggregation;
    EXPECT_EQ(aggregation.allreduce(data, other, {}).status().code(), Code::invalid_argument);
    EXPECT_EQ(aggregation.reduce_scatter(data, other, {}).status().code(), Code::invalid_argument);
    EXPECT_EQ(aggregation.reduce(data, data, rank_of(2), {}).status().code(),
              Code::invalid_argument);
    EXPECT_EQ(
        aggregation.allreduce(data, data, {.operation = ReduceOperation::bit_and}).status().code(),
        Code::unsupported);
    EXPECT_EQ(aggregation.allreduce(data, data, {.operation = ReduceOperation::premultiplied_sum})
                  .status()
                  .code(),
              Code::invalid_argument);
    const std::span<std::byte> odd = std::span(data).first(39);
    EXPECT_EQ(aggregation.allreduce(odd, odd, {}).status().code(), Code::invalid_argument);
    check_sum(member);
  });
}

/// The operation of a rank that violates the flow control: it announces more segments than its
/// credit allows.
class Greedy final : public engine::Operation {
 public:
  explicit Greedy(const engine::CallRecord& record)
      : Operation({"greedy", "in_network", kNoRank, 0}), record_(encode(record)) {}
  void on_message(Instant now, Rank from, const protocol::Message& message) override {
    if (message.kind == protocol::MessageKind::refused) refused = message.argument;
    if (message.kind != protocol::MessageKind::window) return;
    const auto post = [&](std::span<std::byte> local, std::uint32_t count) {
      const auto opcode = count == 0 ? device::Opcode::write : device::Opcode::write_immediate;
      (void)context().endpoint().post(now, {.opcode = opcode,
                                            .peer = from,
                                            .work_id = std::uint64_t{epoch()} << 32,
                                            .local = local,
                                            .remote_key = {message.argument},
                                            .immediate = std::uint64_t{epoch()} << 32 | count});
    };
    post(record_, 0);
    post(record_, 9);
  }
  bool poll(Instant) override { return false; }
  bool locally_complete() const override { return false; }
  bool done() const override { return false; }
  observe::Phase phase() const override { return observe::Phase::data; }
  std::uint64_t refused = 0;

 protected:
  void start(Instant, bool) override {}

 private:
  std::array<std::byte, engine::CallRecord::kBytes> record_;
};

TEST_F(Aggregator, RankThatWritesWithoutCredit_isRefused_andNamedInTheError) {
  auto bootstraps = make_local_bootstraps(3);
  Status at_aggregator;
  std::uint64_t refused = 0;
  std::vector<std::thread> threads;
  std::barrier<> over(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto state = CommunicatorImpl::create(*bootstraps[rank], patient(), nullptr, {});
      ASSERT_TRUE(state.ok()) << state.status().to_string();
      engine::CommunicatorContext& context = (*state)->context();
      const auto progress = (*state)->progress();
      // Rank 0 blocks its engine until the test ends. Otherwise it could tell rank 1 that the
      // aggregator has failed, before the refusal of the aggregator reaches rank 1.
      if (rank == 0) {
        progress->with_engine([&] { over.arrive_and_wait(); });
        return;
      }
      std::unique_ptr<engine::Operation> operation;
      const auto window = std::make_shared<engine::InNetworkWindow>(2, kSmall);
      engine::CallRecord record;
      record.call.elements = 1 << 20;  // far more segments than the window has slots
      if (rank == 2) {
        progress->with_engine([&] { ASSERT_TRUE(window->open(context.endpoint()).ok()); });
        operation = std::make_unique<engine::ReduceOperation>(window);
      } else {
        operation = std::make_unique<Greedy>(record);
        operation->completion()->callback =
            [&refused, greedy = static_cast<const Greedy*>(operation.get())](const Status&) {
              refused = greedy->refused;
            };
      }
      const auto completion = operation->completion();
      progress->submit(context, std::move(operation), true);
      EXPECT_TRUE(progress->wait(*completion, now() + kPatience));
      if (rank == 2) at_aggregator = completion->status;
      over.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused >> 32, static_cast<std::uint64_t>(engine::Refusal::overrun));
  EXPECT_EQ(refused & 0xffff'ffffu, 1u);
  EXPECT_TRUE(names(at_aggregator, "rank 1 wrote without credit")) << at_aggregator.to_string();
}

JoinRequest sample_request() {
  CommunicatorOptions options;
  options.ipv6 = true;
  options.authenticate = false;
  options.peer_timeout = std::chrono::seconds(2);
  options.create_timeout = std::chrono::seconds(20);
  return {
      .unique_id = "tutti1/x", .address = "a:1", .job = "host:7", .ranks = 8, .options = options};
}

TEST(AggregatorFrame, JoinRequest_decodesAsEncoded_andBadLimitsAreRefused) {
  const auto back = decode_join_request(encode(sample_request()));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(back->unique_id, "tutti1/x");
  EXPECT_EQ(back->ranks, 8u);
  EXPECT_TRUE(back->options.ipv6);
  EXPECT_FALSE(back->options.authenticate);
  EXPECT_EQ(back->options.peer_timeout, std::chrono::seconds(2));
  EXPECT_EQ(back->options.create_timeout, std::chrono::seconds(20));
  for (const std::uint32_t ranks : {0u, engine::kMaxInNetworkRanks + 1}) {
    JoinRequest wrong = sample_request();
    wrong.ranks = ranks;
    EXPECT_FALSE(decode_join_request(encode(wrong)).ok()) << ranks;
  }
  JoinRequest wrong = sample_request();
  wrong.address.assign(600, 'x');
  EXPECT_FALSE(decode_join_request(encode(wrong)).ok());
  const Bytes whole = encode(sample_request());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode_join_request(std::span(whole).first(size)).ok()) << size;
  }
}

TEST(AggregatorFrame, JoinReply_withSettingsOrARefusal_decodesAsEncoded) {
  const auto terms = decode_join_reply(encode(JoinReply{{}, kSmall}));
  ASSERT_TRUE(terms.ok());
  EXPECT_EQ(terms->terms, kSmall);
  const auto reason = decode_join_reply(
      encode(JoinReply{Status(Code::resource_exhausted, "the aggregator is full"), {}}));
  ASSERT_TRUE(reason.ok());
  EXPECT_EQ(reason->status.code(), Code::resource_exhausted);
  EXPECT_EQ(reason->status.message(), "the aggregator is full");
  EXPECT_FALSE(decode_join_reply(encode(JoinReply{{}, {.segment_bytes = 7}})).ok());
}

TEST(AggregatorFrame, ControlHeader_withAChangedByte_isRefused) {
  const Bytes frame = encode_control(ControlKind::reply, Bytes(5));
  ASSERT_EQ(frame.size(), kControlHeaderBytes + 5);
  const auto header = decode_control_header(std::span(frame).first(kControlHeaderBytes));
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->kind, ControlKind::reply);
  EXPECT_EQ(header->payload_bytes, 5u);
  for (std::size_t at = 0; at < 8; ++at) {
    Bytes changed = frame;
    changed[at] ^= std::byte{0x40};
    EXPECT_FALSE(decode_control_header(std::span(changed).first(kControlHeaderBytes))) << at;
  }
  const Bytes large = encode_control(ControlKind::reply, Bytes(kMaxControlPayloadBytes + 1));
  EXPECT_FALSE(decode_control_header(std::span(large).first(kControlHeaderBytes)));
}

TEST_F(Aggregator, KeyFileMustBePrivateAndLongEnough) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("key-" + std::to_string(::getpid()))).string();
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
  };
  write(std::string("  ") + kKey + "\n", 0600);
  const auto key = find_service_key(path);
  ASSERT_TRUE(key.ok()) << key.status().to_string();
  EXPECT_EQ(*key, service_key());
  write(kKey, 0644);
  EXPECT_TRUE(names(find_service_key(path).status(), "chmod 600"));
  write("short", 0600);
  EXPECT_TRUE(names(find_service_key(path).status(), "5 bytes"));
  std::filesystem::remove(path);
  EXPECT_EQ(find_service_key(path).status().code(), Code::system);
  ::setenv("TUTTI_AGGREGATOR_KEY_FILE", path.c_str(), 1);
  EXPECT_EQ(find_service_key("").status().code(), Code::system);
}

TEST_F(Aggregator, Job_whileStrangersAreConnected_isServed) {
  const auto service = start_service();
  const auto endpoint = parse_endpoint(address_of(*service));
  const Bytes noise(3000, std::byte{0x5a});
  std::vector<Stream> strangers;
  for (int i = 0; i < 20; ++i) {
    auto socket = connect_once(*endpoint, deadline_after(kPatience));
    ASSERT_TRUE(socket.ok());
    strangers.emplace_back(std::move(*socket));
    if (i % 2 == 0) (void)strangers.back().send_all(noise, deadline_after(kPatience));
  }
  on_joined_ranks(2, patient(), {address_of(*service)}, [](Member& member) { check_sum(member); });
}

TEST_F(Aggregator, RankThatLeavesEarly_causesNoErrorAtAnyRank) {
  const auto service = start_service();
  ::setenv("TUTTI_AGGREGATORS", address_of(*service).c_str(), 1);
  auto bootstraps = make_local_bootstraps(2);
  std::latch rank_0_left(1);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto made = create_communicator(*bootstraps[rank], patient());
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      const std::int32_t one = 1;
      std::int32_t sum = 0;
      auto request =
          made->allreduce(std::as_bytes(std::span(&one, 1)),
                          std::as_writable_bytes(std::span(&sum, 1)), {.type = DataType::int32});
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      ASSERT_TRUE(request->wait().ok());
      EXPECT_EQ(sum, 2);
      // When rank 0 leaves the aggregator, it waits a limited time (kLeavePatience) for rank 1.
      // Rank 1 leaves only after this time.
      if (rank == 1) rank_0_left.wait();
      EXPECT_TRUE(made->status().ok()) << made->status().to_string();
      const Status end = made->finalize(kPatience);
      if (rank == 0) rank_0_left.count_down();
      EXPECT_TRUE(end.ok()) << "rank " << rank << ": " << end.to_string();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti::runtime
