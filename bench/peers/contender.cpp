#include "contender.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
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
constexpr std::size_t kLargestSize = std::size_t{1} << 30;  // counts of MPI are int
constexpr int kAttemptsPerIteration = 3;

/// One line to the orchestrator, one line back: it reads the switch's counters in between.
class Gate {
 public:
  explicit Gate(const std::string& path) {
    if (path.empty()) return;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
      throw std::runtime_error("--gate: path too long: " + path);
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

enum class Operation { none, broadcast, allgather };

Operation parse_operation(std::string_view name) {
  if (name == "none") return Operation::none;
  if (name == "broadcast") return Operation::broadcast;
  if (name == "allgather") return Operation::allgather;
  throw std::runtime_error("--operations: unknown operation '" + std::string(name) +
                           "'; known: none, broadcast, allgather");
}

struct Attempt {
  bool late = false;             ///< some rank learnt the start instant after it had passed
  std::int64_t time_ns = 0;      ///< from the common start to the last rank's end; rank 0 only
  std::int64_t wrong_bytes = 0;  ///< this rank's
};

/// One (operation, size): owns the buffers and the repetition number.
class Measurement {
 public:
  Measurement(Contender& contender, Operation operation, std::size_t bytes)
      : contender_(contender), operation_(operation), bytes_(bytes) {
    const auto blocks =
        static_cast<std::size_t>(operation == Operation::allgather ? contender.ranks() : 1);
    if (operation == Operation::none) return;
    input_.resize(bytes);
    output_.resize(bytes * blocks);
  }

  Attempt repeat(std::int64_t start_ns) {
    ++repetition_;
    Attempt attempt;
    const bool late = now_ns() > start_ns;
    wait_until(start_ns);
    run();
    const std::int64_t end_ns = now_ns();
    const auto ends_ns = contender_.gather(late ? -end_ns : end_ns);
    // A rank that checks takes the core from one that has not finished.
    contender_.barrier();
    attempt.wrong_bytes = check();
    if (contender_.rank() != 0) return attempt;
    for (const std::int64_t value : ends_ns) {
      attempt.late = attempt.late || value < 0;
      attempt.time_ns = std::max(attempt.time_ns, std::abs(value) - start_ns);
    }
    return attempt;
  }

  void prepare() {
    const int rank = contender_.rank();
    if (operation_ == Operation::allgather)
      fill_pattern(input_.data(), bytes_, rank, repetition_ + 1);
    if (operation_ == Operation::broadcast && rank == 0) {
      fill_pattern(output_.data(), bytes_, 0, repetition_ + 1);
    }
  }

 private:
  void run() {
    if (operation_ == Operation::broadcast) contender_.broadcast(output_.data(), bytes_);
    if (operation_ == Operation::allgather)
      contender_.allgather(input_.data(), output_.data(), bytes_);
  }

  std::int64_t check() const {
    if (operation_ == Operation::none) return 0;
    if (operation_ == Operation::broadcast)
      return count_wrong(output_.data(), bytes_, 0, repetition_);
    std::int64_t wrong = 0;
    for (int rank = 0; rank < contender_.ranks(); ++rank) {
      const std::byte* block = output_.data() + static_cast<std::size_t>(rank) * bytes_;
      wrong += count_wrong(block, bytes_, rank, repetition_);
    }
    return wrong;
  }

  Contender& contender_;
  Operation operation_;
  std::size_t bytes_;
  std::uint64_t repetition_ = 0;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

struct Samples {
  std::vector<std::int64_t> times_ns;
  int attempts = 0;
  int late_starts = 0;
  std::int64_t wrong_bytes = 0;  ///< this rank's
};

/// Repeats until `wanted` repetitions had a common start. Rank 0 decides; an instant of 0 means
/// "enough".
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
    }
  }
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
                std::size_t bytes, const Samples& samples, std::int64_t wrong_bytes) {
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
      "\"times_ns\":[%s]}\n",
      escape(options.name).c_str(), escape(contender.version()).c_str(), operation.c_str(), bytes,
      contender.ranks(), options.warmup, samples.attempts, samples.late_starts,
      static_cast<long long>(wrong_bytes), times.c_str());
  std::fflush(stdout);
}

std::int64_t measure_one(Contender& contender, Gate* gate, const Options& options,
                         const std::string& operation, std::size_t bytes) {
  Measurement measurement(contender, parse_operation(operation), bytes);
  std::int64_t lead_ns = options.lead_us * 1000;
  const Samples warmup = sample(measurement, contender, options.warmup, lead_ns);
  const std::string window = operation + " " + std::to_string(bytes);
  if (gate != nullptr) gate->pass("begin " + window);
  const Samples samples = sample(measurement, contender, options.iterations, lead_ns);
  if (gate != nullptr) gate->pass("end " + window + " " + std::to_string(samples.attempts));
  std::int64_t wrong_bytes = 0;
  for (const std::int64_t wrong : contender.gather(warmup.wrong_bytes + samples.wrong_bytes)) {
    wrong_bytes += wrong;
  }
  wrong_bytes = contender.share(wrong_bytes);
  if (contender.rank() == 0) print_line(options, contender, operation, bytes, samples, wrong_bytes);
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

/// True when `option` is one of the common ones.
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

Options parse_options(int argc, char** argv, std::vector<std::string>& rest) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) throw std::runtime_error(std::string(argv[i]) + ": value missing");
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
    const bool has_size = parse_operation(operation) != Operation::none;
    for (const std::size_t bytes : has_size ? options.sizes : std::vector<std::size_t>{0}) {
      wrong_bytes += measure_one(contender, gate.get(), options, operation, bytes);
    }
  }
  return wrong_bytes;
}

}  // namespace tutti::bench
