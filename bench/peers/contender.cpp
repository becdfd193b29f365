#include "contender.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "measure.hpp"

namespace tutti::bench {
namespace {

constexpr std::int64_t kLongestLeadNs = 100'000'000;
// Largest size in bytes, because MPI counts elements by an int.
constexpr std::size_t kLargestSize = std::size_t{1} << 30;
constexpr int kAttemptsPerIteration = 3;
constexpr int kCallsPerLoop = 100;
/// Total size of the messages of a stream. It determines the number of messages, which is at least
/// kFewestInStream and at most kMostInStream.
constexpr std::size_t kStreamBytes = std::size_t{4} << 20;
constexpr std::size_t kFewestInStream = 2;
constexpr std::size_t kMostInStream = 64;
constexpr std::int64_t kWorkCalibrationNs = 100'000'000;

/// Synchronises with the orchestrator compare.py: sends a line and waits for the answer. Before it
/// answers, the orchestrator reads the counters of the switch.
class Gate {
 public:
  explicit Gate(const std::string& path) {
    if (path.empty()) return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
      throw std::runtime_error("--gate path is too long: " + path);
    std::memcpy(address.sun_path, path.data(), path.size());
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("--gate: cannot connect to " + path + ": " + std::strerror(errno));
    }
  }
  ~Gate() {
    if (socket_ >= 0) ::close(socket_);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void pass(std::string line) {
    if (socket_ < 0) return;
    line += '\n';
    char reply = 0;
    if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(line.size()) ||
        ::recv(socket_, &reply, 1, 0) != 1) {
      throw std::runtime_error("--gate: the orchestrator did not answer '" + line + "'");
    }
  }

 private:
  int socket_ = -1;
};

enum class Operation {
  none,
  barrier,
  broadcast,
  allgather,
  reduce_scatter,
  allreduce,
  pair,
  loop_barrier,
  loop_broadcast,
  loop_allgather,
  loop_ping_pong,
  loop_stream,
  overlap_broadcast,
  overlap_allgather,
  overlap_allreduce
};

constexpr std::array<std::pair<std::string_view, Operation>, 15> kOperations = {
    {{"none", Operation::none},
     {"barrier", Operation::barrier},
     {"broadcast", Operation::broadcast},
     {"allgather", Operation::allgather},
     {"reduce_scatter", Operation::reduce_scatter},
     {"allreduce", Operation::allreduce},
     {"pair", Operation::pair},
     {"loop_barrier", Operation::loop_barrier},
     {"loop_broadcast", Operation::loop_broadcast},
     {"loop_allgather", Operation::loop_allgather},
     {"loop_ping_pong", Operation::loop_ping_pong},
     {"loop_stream", Operation::loop_stream},
     {"overlap_broadcast", Operation::overlap_broadcast},
     {"overlap_allgather", Operation::overlap_allgather},
     {"overlap_allreduce", Operation::overlap_allreduce}}};

Operation parse_operation(std::string_view name) {
  std::string known;
  for (const auto& [text, operation] : kOperations) {
    if (text == name) return operation;
    known += known.empty() ? "" : ", ";
    known += text;
  }
  throw std::runtime_error("--operations: unknown operation '" + std::string(name) +
                           "'; known: " + known);
}

bool overlaps(Operation operation) { return operation >= Operation::overlap_broadcast; }
bool loops(Operation operation) {
  return operation >= Operation::loop_barrier && operation <= Operation::loop_stream;
}
bool sends_messages(Operation operation) {
  return operation == Operation::loop_ping_pong || operation == Operation::loop_stream;
}

/// The collectives that an operation runs; the list is empty for a barrier and for messages.
std::vector<Work::Kind> parts_of(Operation operation) {
  switch (operation) {
    case Operation::none:
    case Operation::barrier:
    case Operation::loop_barrier:
    case Operation::loop_ping_pong:
    case Operation::loop_stream:
      return {};
    case Operation::broadcast:
    case Operation::loop_broadcast:
    case Operation::overlap_broadcast:
      return {Work::Kind::broadcast};
    case Operation::allgather:
    case Operation::loop_allgather:
    case Operation::overlap_allgather:
      return {Work::Kind::allgather};
    case Operation::reduce_scatter:
      return {Work::Kind::reduce_scatter};
    case Operation::allreduce:
    case Operation::overlap_allreduce:
      return {Work::Kind::allreduce};
    case Operation::pair:
      return {Work::Kind::allgather, Work::Kind::reduce_scatter};
  }
  return {};
}

bool has_size(Operation operation) {
  return sends_messages(operation) || !parts_of(operation).empty();
}

/// One collective with its buffers, which every repetition fills and checks.
class Part {
 public:
  Part(const Contender& contender, Work::Kind kind, std::size_t bytes)
      : kind_(kind), rank_(contender.rank()), ranks_(contender.ranks()), bytes_(bytes) {
    const auto ranks = static_cast<std::size_t>(ranks_);
    if (kind != Work::Kind::broadcast)
      input_.resize(bytes * (kind == Work::Kind::reduce_scatter ? ranks : 1));
    output_.resize(bytes * (kind == Work::Kind::allgather ? ranks : 1));
  }

  Work work() { return {kind_, input_.data(), output_.data(), bytes_}; }

  void fill(std::uint64_t repetition) {
    if (kind_ == Work::Kind::broadcast) {
      if (rank_ == 0) fill_pattern(output_.data(), bytes_, 0, repetition);
    } else if (kind_ == Work::Kind::allgather) {
      fill_pattern(input_.data(), bytes_, rank_, repetition);
    } else {
      fill_numbers(input_.data(), input_.size(), rank_, repetition);
    }
  }

  std::int64_t count_wrong(std::uint64_t repetition) const {
    const auto rank = static_cast<std::size_t>(rank_);
    if (kind_ == Work::Kind::broadcast)
      return bench::count_wrong(output_.data(), bytes_, 0, repetition);
    if (kind_ == Work::Kind::reduce_scatter)
      return count_wrong_sums(output_.data(), bytes_, rank * bytes_ / sizeof(float), ranks_,
                              repetition);
    if (kind_ == Work::Kind::allreduce)
      return count_wrong_sums(output_.data(), bytes_, 0, ranks_, repetition);
    std::int64_t wrong = 0;
    for (int source = 0; source < ranks_; ++source)
      wrong += bench::count_wrong(output_.data() + static_cast<std::size_t>(source) * bytes_,
                                  bytes_, source, repetition);
    return wrong;
  }

 private:
  Work::Kind kind_;
  int rank_;
  int ranks_;
  std::size_t bytes_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

/// Messages between rank 0 and the last rank, with their buffers. Other ranks do nothing.
class Messages {
 public:
  Messages(Contender& contender, Operation operation, std::size_t bytes)
      : contender_(contender),
        streams_(operation == Operation::loop_stream),
        first_(contender.rank() == 0),
        last_(contender.ranks() > 1 && contender.rank() == contender.ranks() - 1),
        bytes_(bytes),
        count_(streams_ ? std::clamp(kStreamBytes / bytes, kFewestInStream, kMostInStream) : 1) {
    if (!first_ && !last_) return;
    input_.resize(bytes);
    output_.resize(bytes * count_);
  }

  void fill(std::uint64_t repetition) {
    fill_pattern(input_.data(), input_.size(), contender_.rank(), repetition);
  }

  void run() {
    const int messages = static_cast<int>(count_);
    const std::size_t answer = streams_ ? 1 : bytes_;
    if (first_) {
      contender_.send(input_.data(), bytes_, messages, contender_.ranks() - 1);
      contender_.receive(output_.data(), answer, 1, contender_.ranks() - 1);
    } else if (last_) {
      contender_.receive(output_.data(), bytes_, messages, 0);
      contender_.send(input_.data(), answer, 1, 0);
    }
  }

  std::int64_t count_wrong(std::uint64_t repetition) const {
    if (first_) {
      const std::size_t answer = streams_ ? 1 : bytes_;
      return bench::count_wrong(output_.data(), answer, contender_.ranks() - 1, repetition);
    }
    std::int64_t wrong = 0;
    for (std::size_t at = 0; at < output_.size(); at += bytes_)
      wrong += bench::count_wrong(output_.data() + at, bytes_, 0, repetition);
    return wrong;
  }

 private:
  Contender& contender_;
  bool streams_;
  bool first_;
  bool last_;
  std::size_t bytes_;
  std::size_t count_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

struct Attempt {
  bool late = false;         ///< whether any rank learnt the common start too late to meet it
  std::int64_t time_ns = 0;  ///< time until the last rank has finished, in ns; set on rank 0 only
  /// Longest time of do_work on any rank in this repetition, in ns; set on rank 0 only.
  std::int64_t work_ns = 0;
  std::int64_t wrong_bytes = 0;  ///< number of wrong bytes that this rank received
};

/// Runs one operation of one size repeatedly, and owns the buffers.
class Measurement {
 public:
  Measurement(Contender& contender, Operation operation, std::size_t bytes)
      : contender_(contender), operation_(operation) {
    for (const Work::Kind kind : parts_of(operation)) parts_.emplace_back(contender, kind, bytes);
    if (sends_messages(operation))
      messages_ = std::make_unique<Messages>(contender, operation, bytes);
  }

  Attempt repeat(std::int64_t start_ns) {
    ++repetition_;
    Attempt attempt;
    const bool late = now_ns() > start_ns;
    wait_until(start_ns);
    const std::int64_t time_ns = loops(operation_) ? run_loop() : run_since(start_ns);
    stand_aside();
    const auto times_ns = contender_.gather(late ? -time_ns : time_ns);
    if (work_rounds_ > 0) {
      const auto work_ns = contender_.gather(work_ns_);
      if (!work_ns.empty()) attempt.work_ns = *std::max_element(work_ns.begin(), work_ns.end());
    }
    // This rank waits for all others before it checks its data. An earlier check would take the
    // core from a rank that still runs the collective.
    contender_.barrier();
    attempt.wrong_bytes = check();
    if (contender_.rank() != 0) return attempt;
    for (const std::int64_t value : times_ns) {
      attempt.late = attempt.late || value < 0;
      attempt.time_ns = std::max(attempt.time_ns, std::abs(value));
    }
    return attempt;
  }

  void prepare() {
    for (Part& part : parts_) part.fill(repetition_ + 1);
    if (messages_) messages_->fill(repetition_ + 1);
  }

  /// Makes each repetition run `rounds` rounds of do_work between the start of the collective and
  /// the wait for it. If `only` is true, each repetition runs do_work without the collective.
  void set_work(std::uint64_t rounds, bool only) {
    work_rounds_ = rounds;
    only_work_ = only;
  }

 private:
  std::int64_t run_since(std::int64_t start_ns) {
    run();
    return now_ns() - start_ns;
  }

  /// The mean time of a call over many calls, in ns. After each call of a collective other than a
  /// Barrier, an untimed barrier keeps early ranks from starting the next call.
  std::int64_t run_loop() {
    std::int64_t total_ns = 0;
    for (int call = 0; call < kCallsPerLoop; ++call) {
      total_ns += run_since(now_ns());
      if (!parts_.empty()) contender_.barrier();
    }
    return total_ns / kCallsPerLoop;
  }

  void run() {
    if (operation_ == Operation::barrier || operation_ == Operation::loop_barrier)
      contender_.barrier();
    if (messages_) messages_->run();
    if (parts_.empty()) return;
    if (operation_ != Operation::pair && !overlaps(operation_)) {
      run_blocking(parts_.front().work());
      return;
    }
    if (only_work_) {
      work();
      return;
    }
    int lane = 0;
    for (Part& part : parts_) contender_.start(part.work(), lane++);
    if (work_rounds_ > 0) work();
    contender_.finish();
  }

  void work() {
    const std::int64_t start_ns = now_ns();
    do_work(work_rounds_);
    work_ns_ = now_ns() - start_ns;
  }

  void run_blocking(const Work& work) {
    switch (work.kind) {
      case Work::Kind::broadcast:
        return contender_.broadcast(work.output, work.bytes);
      case Work::Kind::allgather:
        return contender_.allgather(work.input, work.output, work.bytes);
      case Work::Kind::reduce_scatter:
        return contender_.reduce_scatter(work.input, work.output, work.bytes);
      case Work::Kind::allreduce:
        return contender_.allreduce(work.input, work.output, work.bytes);
    }
  }

  std::int64_t check() const {
    if (only_work_) return 0;
    std::int64_t wrong = 0;
    for (const Part& part : parts_) wrong += part.count_wrong(repetition_);
    if (messages_) wrong += messages_->count_wrong(repetition_);
    return wrong;
  }

  Contender& contender_;
  Operation operation_;
  std::uint64_t repetition_ = 0;
  std::uint64_t work_rounds_ = 0;
  std::int64_t work_ns_ = 0;  ///< time of do_work on this rank in the last repetition, in ns
  bool only_work_ = false;
  std::vector<Part> parts_;
  std::unique_ptr<Messages> messages_;
};

std::int64_t median(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Samples {
  std::vector<std::int64_t> times_ns;
  /// Longest time of do_work on any rank in each repetition, in ns.
  std::vector<std::int64_t> work_ns;
  int attempts = 0;
  int late_starts = 0;
  std::int64_t wrong_bytes = 0;  ///< number of wrong bytes that this rank received
};

/// Runs repetitions until all ranks have started on time in `wanted` of them, or until the number
/// of attempts reaches its limit. Rank 0 ends the loop by a start time of 0.
Samples sample(Measurement& measurement, Contender& contender, int wanted, std::int64_t& lead_ns) {
  Samples samples;
  while (true) {
    measurement.prepare();
    contender.barrier();
    const bool enough = static_cast<int>(samples.times_ns.size()) >= wanted ||
                        samples.attempts >= wanted * kAttemptsPerIteration;
    const std::int64_t start_ns = contender.share(enough ? 0 : now_ns() + lead_ns);
    if (start_ns == 0) return samples;
    const Attempt attempt = measurement.repeat(start_ns);
    ++samples.attempts;
    samples.wrong_bytes += attempt.wrong_bytes;
    if (contender.rank() != 0) continue;
    if (attempt.late) {
      ++samples.late_starts;
      lead_ns = std::min(lead_ns * 2, kLongestLeadNs);
    } else {
      samples.times_ns.push_back(attempt.time_ns);
      samples.work_ns.push_back(attempt.work_ns);
    }
  }
}

/// The time of a collective without work, and the times of work without a collective. Both are
/// measured before the overlapped runs, as NBCBench does.
struct Alone {
  std::int64_t collective_ns = 0;
  /// Time of the work from the common start until the last rank has finished, in ns.
  std::int64_t compute_ns = 0;
  /// Median over the repetitions of the longest time of do_work on any rank, in ns. Each rank
  /// measures from its own start of do_work.
  std::int64_t work_ns = 0;
};

/// The rounds of do_work per nanosecond in this process, measured once. All ranks measure at the
/// same time, so that each rank has the same share of its core as in the later measurement.
double work_rate(Contender& contender) {
  static double rate = 0;
  if (rate == 0) {
    contender.barrier();
    rate = measure_work_rate(kWorkCalibrationNs);
    contender.barrier();
  }
  return rate;
}

Alone measure_alone(Measurement& measurement, Contender& contender, const Options& options,
                    std::int64_t& lead_ns, std::int64_t& wrong_bytes) {
  Alone alone;
  const Samples collective = sample(measurement, contender, options.iterations, lead_ns);
  wrong_bytes += collective.wrong_bytes;
  alone.collective_ns = contender.share(median(collective.times_ns));
  const double rounds = work_rate(contender) * static_cast<double>(alone.collective_ns);
  const auto work = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rounds));
  measurement.set_work(work, /*only=*/true);
  const Samples compute = sample(measurement, contender, options.iterations, lead_ns);
  alone.compute_ns = contender.share(median(compute.times_ns));
  alone.work_ns = contender.share(median(compute.work_ns));
  measurement.set_work(work, /*only=*/false);
  return alone;
}

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return escaped;
}

void print_line(const Options& options, const Contender& contender, const std::string& operation,
                std::size_t bytes, const Samples& samples, const Alone& alone,
                std::int64_t wrong_bytes) {
  std::string times;
  for (const std::int64_t time : samples.times_ns) {
    if (!times.empty()) times += ',';
    times += std::to_string(time);
  }
  std::printf(
      "{\"schema\":\"tutti.bench.contender/"
      "1\",\"contender\":\"%s\",\"version\":\"%s\",\"operation\":\"%s\","
      "\"size_bytes\":%zu,\"ranks\":%d,\"warmup\":%d,\"attempts\":%d,\"late_starts\":%d,\"wrong_"
      "bytes\":%lld,"
      "\"alone_ns\":%lld,\"compute_ns\":%lld,\"work_ns\":%lld,"
      "\"work_overlapped_ns\":%lld,"
      "\"times_ns\":[%s]}\n",
      escape(options.name).c_str(), escape(contender.version()).c_str(), operation.c_str(), bytes,
      contender.ranks(), options.warmup, samples.attempts, samples.late_starts,
      static_cast<long long>(wrong_bytes), static_cast<long long>(alone.collective_ns),
      static_cast<long long>(alone.compute_ns), static_cast<long long>(alone.work_ns),
      static_cast<long long>(median(samples.work_ns)), times.c_str());
  std::fflush(stdout);
}

std::int64_t measure_one(Contender& contender, Gate* gate, const Options& options,
                         const std::string& operation, std::size_t bytes) {
  Measurement measurement(contender, parse_operation(operation), bytes);
  std::int64_t lead_ns = options.lead_us * 1000;
  Samples warmup = sample(measurement, contender, options.warmup, lead_ns);
  Alone alone;
  if (overlaps(parse_operation(operation))) {
    alone = measure_alone(measurement, contender, options, lead_ns, warmup.wrong_bytes);
  }
  const std::string window = operation + " " + std::to_string(bytes);
  if (gate != nullptr) gate->pass("begin " + window);
  const Samples samples = sample(measurement, contender, options.iterations, lead_ns);
  if (gate != nullptr) gate->pass("end " + window + " " + std::to_string(samples.attempts));
  std::int64_t wrong_bytes = 0;
  for (const std::int64_t wrong : contender.gather(warmup.wrong_bytes + samples.wrong_bytes)) {
    wrong_bytes += wrong;
  }
  wrong_bytes = contender.share(wrong_bytes);
  if (contender.rank() == 0)
    print_line(options, contender, operation, bytes, samples, alone, wrong_bytes);
  return wrong_bytes;
}

std::int64_t parse_number(const std::string& option, std::string_view text, std::int64_t lowest,
                          std::int64_t highest) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < lowest ||
      value > highest) {
    throw std::runtime_error(option + ": '" + std::string(text) + "' is not a whole number from " +
                             std::to_string(lowest) + " to " + std::to_string(highest));
  }
  return value;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Stores the value of an option that all contenders have. Returns false for any other option.
bool apply(Options& options, const std::string& option, const std::string& value) {
  if (option == "--name") {
    options.name = value;
  } else if (option == "--gate") {
    options.gate = value;
  } else if (option == "--operations") {
    options.operations = split(value);
    for (const std::string& operation : options.operations) parse_operation(operation);
  } else if (option == "--sizes") {
    options.sizes.clear();
    for (const std::string& size : split(value)) {
      options.sizes.push_back(
          static_cast<std::size_t>(parse_number(option, size, 1, kLargestSize)));
    }
  } else if (option == "--iterations") {
    options.iterations = static_cast<int>(parse_number(option, value, 1, 1'000'000));
  } else if (option == "--warmup") {
    options.warmup = static_cast<int>(parse_number(option, value, 0, 1'000'000));
  } else if (option == "--lead-us") {
    options.lead_us = parse_number(option, value, 1, kLongestLeadNs / 1000);
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto& [text, operation] : kOperations) names.emplace_back(text);
  return names;
}

void Contender::lacks(const char* what) const {
  throw std::runtime_error(version() + " lacks " + what);
}

void Contender::reduce_scatter(const std::byte*, std::byte*, std::size_t) {
  lacks("a reduce_scatter");
}

void Contender::allreduce(const std::byte*, std::byte*, std::size_t) { lacks("an allreduce"); }

void Contender::start(const Work&, int) { lacks("nonblocking collectives"); }

void Contender::finish() { lacks("nonblocking collectives"); }

void Contender::send(const std::byte*, std::size_t, int, int) { lacks("messages"); }

void Contender::receive(std::byte*, std::size_t, int, int) { lacks("messages"); }

Options parse_options(int argc, char** argv, std::vector<std::string>& rest) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) throw std::runtime_error(std::string(argv[i]) + ": the value is missing");
    if (!apply(options, argv[i], argv[i + 1])) rest.insert(rest.end(), {argv[i], argv[i + 1]});
  }
  return options;
}

std::int64_t measure_all(Contender& contender, const Options& options) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  std::unique_ptr<Gate> gate;
  if (contender.rank() == 0) gate = std::make_unique<Gate>(options.gate);
  std::int64_t wrong_bytes = 0;
  for (const std::string& operation : options.operations) {
    const bool sized = has_size(parse_operation(operation));
    for (const std::size_t bytes : sized ? options.sizes : std::vector<std::size_t>{0}) {
      wrong_bytes += measure_one(contender, gate.get(), options, operation, bytes);
    }
  }
  return wrong_bytes;
}

}  // namespace tutti::bench
