#include "bench/contend_command.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"
#include "bench/peers/contender.hpp"
#include "exit_status.hpp"
#include "session.hpp"
#include "version.hpp"

namespace tutti::app {
namespace {

/// A vector or block may have at most this many bytes, because the peer libraries count elements in
/// an int.
constexpr std::uint64_t kMaxSizeBytes = std::uint64_t{1} << 30;

struct ContendOptions {
  SessionOptions session;
  bench::Options measure;
  std::string reduction_algorithm;
  std::string rank;
  std::string ranks;
  std::string master;
  std::string rendezvous;
};

/// Throws an exception if the status is an error, because the contender interface reports errors by
/// exceptions.
void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.to_string());
}

class TuttiContender final : public bench::Contender {
 public:
  /// `moves` is the algorithm for Broadcast and Allgather, `computes` the one for reductions.
  TuttiContender(Session& session, Algorithm moves, Algorithm computes)
      : session_(session), moves_(moves), computes_(computes) {}

  std::string version() const override { return std::string("Tutti ") + app::version(); }
  int rank() const override { return static_cast<int>(index(session_.rank())); }
  int ranks() const override { return static_cast<int>(session_.size()); }

  void barrier() override { wait(session_.communicator().barrier({.will_wait = true})); }
  void broadcast(std::byte* data, std::size_t bytes) override {
    run({bench::Work::Kind::broadcast, nullptr, data, bytes});
  }
  void allgather(const std::byte* input, std::byte* output, std::size_t bytes) override {
    run({bench::Work::Kind::allgather, input, output, bytes});
  }
  void reduce_scatter(const std::byte* input, std::byte* output, std::size_t bytes) override {
    run({bench::Work::Kind::reduce_scatter, input, output, bytes});
  }
  void allreduce(const std::byte* input, std::byte* output, std::size_t bytes) override {
    run({bench::Work::Kind::allreduce, input, output, bytes});
  }

  void start(const bench::Work& work, int lane) override {
    if (lane == 1 && !second_) {
      auto duplicate = session_.duplicate();
      if (!duplicate) return fail(duplicate.status());
      second_.emplace(std::move(*duplicate));
    }
    keep((lane == 0 ? session_.communicator() : *second_).start(call_of(work, false)));
  }
  void finish() override { must(wait_for_all()); }

  void send(const std::byte* data, std::size_t bytes, int count, int to) override {
    for (int i = 0; i < count; ++i)
      keep(session_.communicator().send({data, bytes}, to_rank(to), kTag, {.will_wait = true}));
    finish();
  }
  void receive(std::byte* data, std::size_t bytes, int count, int from) override {
    for (int i = 0; i < count; ++i, data += bytes) {
      keep(
          session_.communicator().receive({data, bytes}, to_rank(from), kTag, {.will_wait = true}));
    }
    finish();
  }

  std::vector<std::int64_t> gather(std::int64_t value) override {
    std::vector<std::int64_t> values(session_.is_first() ? session_.size() : 0);
    wait(session_.communicator().gather(std::as_bytes(std::span(&value, 1)),
                                        std::as_writable_bytes(std::span(values)), Rank{0},
                                        {.will_wait = true}));
    return values;
  }
  std::int64_t share(std::int64_t value) override {
    wait(session_.communicator().broadcast(std::as_writable_bytes(std::span(&value, 1)), Rank{0},
                                           {.will_wait = true}));
    return value;
  }

 private:
  void run(const bench::Work& work) { wait(session_.communicator().start(call_of(work, true))); }

  CollectiveCall call_of(const bench::Work& work, bool will_wait) const {
    using Kind = bench::Work::Kind;
    const std::size_t all = work.bytes * session_.size();
    CollectiveCall call;
    const bool moves = work.kind == Kind::broadcast || work.kind == Kind::allgather;
    call.options = {.algorithm = moves ? moves_ : computes_, .will_wait = will_wait};
    call.receive = {work.output, work.kind == Kind::allgather ? all : work.bytes};
    if (work.kind != Kind::broadcast)
      call.send = {work.input, work.kind == Kind::reduce_scatter ? all : work.bytes};
    constexpr std::array kKinds = {Collective::broadcast, Collective::allgather,
                                   Collective::reduce_scatter, Collective::allreduce};
    call.collective = kKinds[static_cast<std::size_t>(work.kind)];
    return call;
  }

  static constexpr std::uint64_t kTag = 1;

  static Rank to_rank(int rank) { return rank_of(static_cast<std::uint32_t>(rank)); }
  void keep(Result<Request> request) {
    if (!request) return fail(request.status());
    requests_.push_back(std::move(*request));
  }
  /// Throws an exception after the end of the requests under way. The caller's buffers end with it,
  /// and the collectives still use them.
  void fail(const Status& status) {
    (void)wait_for_all();
    must(status);
  }
  /// Waits for all requests, and returns the first error.
  Status wait_for_all() {
    Status first;
    for (Request& request : requests_) {
      const Status status = request.wait();
      if (first.ok()) first = status;
    }
    requests_.clear();
    return first;
  }
  static void wait(Result<Request> request) {
    must(request.status());
    must(request->wait());
  }

  Session& session_;
  Algorithm moves_;
  Algorithm computes_;
  /// Communicator for the second of two collectives that run at the same time; made on first use.
  std::optional<Communicator> second_;
  std::vector<Request> requests_;
};

/// Copies the values of the options --rank, --ranks, --master and --rendezvous to the environment
/// variables that the bootstrap reads.
Status set_place(const ContendOptions& options) {
  if (options.rank.empty() && options.ranks.empty()) return {};
  if (options.rank.empty() || options.ranks.empty()) {
    return failure(Code::invalid_argument, "--rank or --ranks is missing: give both");
  }
  setenv("RANK", options.rank.c_str(), 1);
  setenv("WORLD_SIZE", options.ranks.c_str(), 1);
  if (!options.rendezvous.empty()) {
    setenv("TUTTI_BOOTSTRAP", ("file://" + options.rendezvous).c_str(), 1);
    setenv("TUTTI_RUN_ID", "contend", 0);
    return {};
  }
  if (options.master.empty()) {
    return failure(Code::invalid_argument,
                   "--rank needs a place where the ranks meet: add --master with an address, or "
                   "--rendezvous with a folder");
  }
  const std::string first = options.master.substr(0, options.master.find(','));
  setenv("MASTER_ADDR", first.c_str(), 1);
  setenv("MASTER_PORT", "29500", 0);
  return {};
}

Result<std::int64_t> contend(const ContendOptions& options) {
  if (Status status = set_place(options); !status) return status;
  auto session = Session::create(options.session);
  if (!session) return session.status();
  TuttiContender contender(*session, Algorithm(options.session.algorithm),
                           Algorithm(options.reduction_algorithm));
  try {
    const std::int64_t wrong_bytes = bench::measure_all(contender, options.measure);
    if (Status status = session->finish(); !status) return status;
    return wrong_bytes;
  } catch (const std::exception& error) {
    return failure(Code::aborted, "the measurement at rank {} failed: {}", index(session->rank()),
                   error.what());
  }
}

int run(const ContendOptions& options) {
  const auto wrong_bytes = contend(options);
  if (!wrong_bytes) return complain("contend", wrong_bytes.status());
  if (*wrong_bytes == 0) return kExitOk;
  return complain("contend", failure(Code::internal, "{} received bytes were wrong", *wrong_bytes));
}

}  // namespace

void add_contend_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "contend", "Run as one of the programs that bench/peers/compare.py compares");
  const auto options = std::make_shared<ContendOptions>();
  bench::Options& measure = options->measure;
  measure.name = "tutti";
  command->add_option("--name", measure.name, "Label in the results")->capture_default_str();
  command
      ->add_option("--operations", measure.operations, "Operations to measure, one after the other")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::operation_names()));
  command->add_option("--reduction-algorithm", options->reduction_algorithm,
                      "Algorithm of reductions; --algorithm is for the other operations");
  command->add_option("--sizes", measure.sizes, "Sizes in bytes of a message or block")
      ->delimiter(',')
      ->check(CLI::Range(std::uint64_t{1}, kMaxSizeBytes));
  command->add_option("--iterations", measure.iterations, "Measured repetitions")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--warmup", measure.warmup, "Warm-up repetitions, which are not measured")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--gate", measure.gate,
                      "Socket of compare.py, which reads the link counters");
  command
      ->add_option("--lead-us", measure.lead_us,
                   "Microseconds from the agreement on a start to the start")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000}));
  command->add_option("--rank", options->rank, "Number of this rank, if no launcher gives it");
  command->add_option("--ranks", options->ranks, "Number of ranks, if no launcher gives it");
  command->add_option("--master", options->master,
                      "Address of rank 0 (the first of a list), where the ranks of --rank meet");
  command->add_option(
      "--rendezvous", options->rendezvous,
      "Empty folder where the ranks meet, instead of --master; all ranks must reach it");
  add_session_options(*command, options->session);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tutti::app
