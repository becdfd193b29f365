#include "lab/aggregators.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "crypto/secret.hpp"
#include "device/posix/blocked_signals.hpp"
#include "device/posix/descriptor.hpp"
#include "launch/process.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::lab {

namespace {

constexpr int kPort = 7600;
constexpr int kStartMs = 10'000;

}  // namespace

/// Reads the output of an aggregator in a thread, so that the aggregator never blocks on a full
/// pipe.
class Aggregators::Reader {
 public:
  explicit Reader(device::Descriptor source) : source_(std::move(source)) {
    // Signals must reach the thread that runs the job.
    const device::BlockedSignals blocked;
    thread_ = std::thread([this] { read_all(); });
  }
  ~Reader() { thread_.join(); }

  /// Waits until the aggregator has written `words`. Returns false if the time limit passes or the
  /// aggregator ends first.
  bool wait_for(const char* words) {
    std::unique_lock lock(mutex_);
    const auto said = [&] { return text_.find(words) != std::string::npos; };
    changed_.wait_for(lock, std::chrono::milliseconds(kStartMs), [&] { return said() || ended_; });
    return said();
  }
  /// Waits until the aggregator closes its output. Returns false if the time limit passes first.
  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kStartMs), [&] { return ended_; });
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  void read_all() {
    std::array<char, 4096> bytes;
    ssize_t got = 0;
    while ((got = ::read(source_.get(), bytes.data(), bytes.size())) > 0) {
      const std::lock_guard lock(mutex_);
      text_.append(bytes.data(), static_cast<std::size_t>(got));
      changed_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  device::Descriptor source_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool ended_ = false;
  std::thread thread_;
};

Aggregators::Aggregators() = default;
Aggregators::Aggregators(Aggregators&&) noexcept = default;

Result<Aggregators> Aggregators::start(const Lab& lab, const std::string& program,
                                       const std::vector<std::string>& options) {
  Aggregators all;
  auto key = runtime::random_hex(crypto::Secret::kBytes);
  if (!key) return key.status();
  all.key_ = std::move(*key);
  for (int one = 0; one < lab.aggregators(); ++one) {
    if (Status status = all.start_one(lab, program, one, options); !status) return status;
  }
  return all;
}

Status Aggregators::start_one(const Lab& lab, const std::string& program, int aggregator,
                              const std::vector<std::string>& options) {
  const std::string address = fmt::format("{}:{}", lab.aggregator_address(aggregator), kPort);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return system_failure(errno, "cannot make a pipe for the output of an aggregator");
  }
  device::Descriptor output(ends[0]);
  device::Descriptor write_end(ends[1]);
  // The reader exists before the process, so that a failure to make it leaves no process behind.
  Running& one = running_.emplace_back();
  one.reader = std::make_unique<Reader>(std::move(output));
  launch::SpawnRequest request;
  request.arguments = {program, "aggregator", "--listen", address};
  request.arguments.insert(request.arguments.end(), options.begin(), options.end());
  request.environment = {"TUTTI_AGGREGATOR_KEY=" + key_, "TUTTI_INTERFACE=eth0"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (!text.starts_with("TUTTI_AGGREGATOR") && !text.starts_with("TUTTI_INTERFACE=")) {
      request.environment.push_back(text);
    }
  }
  request.output = write_end.get();
  request.error = write_end.get();
  request.own_group = true;
  request.die_with_launcher = true;
  Result<pid_t> pid = lab.spawn_at_aggregator(aggregator, std::move(request));
  if (!pid) return pid.status();
  one.process = *pid;
  addresses_.push_back(address);
  write_end = {};
  if (one.reader->wait_for("listening on")) return {};
  return failure(Code::system,
                 "the aggregator at {} did not begin to listen: find the cause in its output: {}",
                 address, one.reader->text());
}

std::vector<std::string> Aggregators::environment() const {
  if (addresses_.empty()) return {};
  std::string list;
  for (const std::string& address : addresses_) list += (list.empty() ? "" : ",") + address;
  return {"TUTTI_AGGREGATORS=" + list, "TUTTI_AGGREGATOR_KEY=" + key_};
}

std::string Aggregators::end() {
  for (const Running& one : running_) {
    if (one.process > 0) ::kill(one.process, SIGTERM);
  }
  std::string text;
  for (const Running& one : running_) {
    if (one.process <= 0) continue;
    if (!one.reader->wait_for_end()) ::kill(one.process, SIGKILL);
    (void)launch::wait_for(one.process);
    text += one.reader->text();
  }
  running_.clear();
  return text;
}

Aggregators::~Aggregators() { (void)end(); }

}  // namespace tutti::lab
