#include "runtime/diagnostics/flight_dump.hpp"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "device/posix/blocked_signals.hpp"
#include "device/posix/home_process.hpp"
#include "device/posix/private_file.hpp"
#include "observe/log.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/diagnostics/counter_list.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::runtime {

namespace {

constexpr int kSignal = SIGUSR1;

/// Writes flight dumps when a signal arrives, in a separate thread, because a signal handler may
/// call only few functions. The object is never destroyed, because signals may arrive until the
/// process ends.
class SignalDump {
 public:
  static SignalDump& instance() {
    static SignalDump* const one = new SignalDump();
    return *one;
  }

  Status watch(std::weak_ptr<CommunicatorImpl> communicator) {
    const std::lock_guard lock(mutex_);
    // A child of fork() inherits the signal handler, but not the thread that writes the dumps, so
    // the child starts a new thread.
    if (home_.left()) {
      home_ = device::HomeProcess();
      if (installed_) start_thread();
    }
    if (!installed_) {
      if (Status status = install(); !status) return status;
      installed_ = true;
    }
    std::erase_if(communicators_, [](const auto& one) { return one.expired(); });
    communicators_.push_back(std::move(communicator));
    return {};
  }

 private:
  SignalDump() { ::sem_init(&arrived_, 0, 0); }

  Status install() {
    struct sigaction present {};
    if (::sigaction(kSignal, nullptr, &present) != 0) {
      return system_failure(errno, "reading the handler of SIGUSR1");
    }
    if (present.sa_handler != SIG_DFL) {
      return failure(Code::unsupported,
                     "the program handles SIGUSR1 itself, so flight records are dumped on failures "
                     "only: call Communicator::flight_record from a thread instead");
    }
    start_thread();
    struct sigaction ours {};
    ours.sa_handler = [](int) { ::sem_post(&instance().arrived_); };
    ours.sa_flags = SA_RESTART;
    if (::sigaction(kSignal, &ours, nullptr) != 0) {
      return system_failure(errno, "handling SIGUSR1");
    }
    return {};
  }

  void start_thread() {
    const device::BlockedSignals blocked;
    std::thread([this] { serve(); }).detach();
  }

  void serve() {
    while (true) {
      if (::sem_wait(&arrived_) == 0) dump_all();
    }
  }

  void dump_all() {
    std::vector<std::shared_ptr<CommunicatorImpl>> alive;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& one : communicators_) {
        auto communicator = one.lock();
        if (communicator && communicator->check_home().ok())
          alive.push_back(std::move(communicator));
      }
    }
    for (const auto& one : alive) {
      const Status status = one->progress()->with_engine(
          [&] { return write_flight_dump(flight_directory(), *one, "signal SIGUSR1"); });
      if (!status) observe::complain(status.message());
    }
  }

  sem_t arrived_;
  std::mutex mutex_;  ///< guards installed_, home_ and communicators_
  bool installed_ = false;
  device::HomeProcess home_;
  std::vector<std::weak_ptr<CommunicatorImpl>> communicators_;
};

nlohmann::json record_of(CommunicatorImpl& communicator) {
  const engine::CommunicatorContext& context = communicator.context();
  nlohmann::json record = context.recorder().to_json(context.rank(), context.size(), now());
  record["job"] = communicator.job_name();
  record["communicator"] = communicator.number();
  for (const auto& [name, value] : counters_of(communicator)) record["counters"][name] = value;
  return record;
}

/// A reason may contain bytes that are not UTF-8, such as those of a host name.
std::string text_of(const nlohmann::json& record) {
  return record.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string flight_directory() {
  const char* directory = ::secure_getenv("TUTTI_FLIGHT_RECORDER");
  return directory == nullptr ? std::string() : std::string(directory);
}

std::string flight_record(CommunicatorImpl& communicator) {
  return text_of(record_of(communicator));
}

Status write_flight_dump(const std::string& directory, CommunicatorImpl& communicator,
                         std::string_view reason) {
  nlohmann::json record = record_of(communicator);
  record["reason"] = reason;
  const std::string path = fmt::format("{}/flight-{}-{}.json", directory, communicator.job_name(),
                                       index(communicator.rank()));
  const Status written = device::replace_private_file(path, text_of(record) + '\n');
  if (written.ok()) return {};
  return failure_from(written,
                      "the flight record of rank {} is not written, because {}: set "
                      "TUTTI_FLIGHT_RECORDER to a directory that exists and can be written",
                      index(communicator.rank()), written.message());
}

Status dump_on_signal(std::weak_ptr<CommunicatorImpl> communicator) {
  return SignalDump::instance().watch(std::move(communicator));
}

}  // namespace tutti::runtime
