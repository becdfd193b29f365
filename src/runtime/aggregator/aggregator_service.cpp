#include "runtime/aggregator/aggregator_service.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "device/posix/blocked_signals.hpp"
#include "device/posix/home_process.hpp"
#include "engine/aggregate/reduce_operation.hpp"
#include "runtime/aggregator/aggregation_options.hpp"
#include "runtime/aggregator/aggregator_connection.hpp"
#include "runtime/bootstrap/store/refusal_log.hpp"
#include "runtime/bootstrap/store/strangers.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/bootstrap/unique_id.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"
#include "runtime/progress/progress.hpp"

namespace tutti::runtime {

namespace {

constexpr auto kVisitTimeout = std::chrono::seconds(5);
constexpr std::uint32_t kMinSlots = 4;
constexpr Nanoseconds kSpin{20'000};
constexpr int kPauseMs = 100;

/// The result of a job. The engine or the service sets it, and the job's thread waits for it.
class JobEnd {
 public:
  void set(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    status_ = guarded([&] { return status; });  // without memory for a copy the job ends, too
    ended_ = true;
    changed_.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, EngineOwnership::kMaxWait, [this] { return ended_; })) {
    }
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  Status status_;
};

engine::WindowConfig with_fewer_slots(engine::WindowConfig terms) {
  terms.slots /= 2;
  terms.pulses = std::min(terms.pulses, terms.slots);
  terms.group_bytes = std::min(terms.group_bytes, terms.slots * terms.segment_bytes);
  return terms;
}

}  // namespace

class AggregatorService::Parts {
 public:
  explicit Parts(AggregatorOptions options)
      : options_(std::move(options)),
        strangers_(Strangers::limits(options_.max_strangers)),
        refusals_("aggregator", options_.log) {}
  ~Parts();

  Status open();
  std::uint16_t port() const { return port_; }
  std::uint32_t jobs() const {
    const std::lock_guard lock(mutex_);
    return jobs_;
  }
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;
  const device::HomeProcess& home() const { return home_; }

 private:
  /// One connection, and the job that begins over it.
  struct Visit {
    std::thread thread;
    Strangers::Number number = 0;
    int connection = -1;  ///< descriptor of the connection, which is open until `over`
    JobEnd end;
    bool over = false;
    /// Communicator of the job; null before the job begins and after it ends.
    CommunicatorImpl* state = nullptr;
  };
  /// The window and the memory that the aggregator has granted to a job.
  struct Share {
    engine::WindowConfig terms;
    std::uint64_t bytes = 0;
  };

  void listen();
  void listen_once();
  void wake();
  void accept_one();
  void drop_surplus();
  void receive_visit(Visit& visit, const std::string& peer, Stream stream);
  Status receive_request(Visit& visit, const std::string& peer, AggregatorVisitor& visitor);
  void leave_strangers(const Visit& visit);
  void receive_job(Visit& visit, AggregatorVisitor& visitor, const JoinRequest& request);
  Result<Share> admit(const JoinRequest& request);
  void release(const Share& share);
  Status serve(Visit& visit, const JoinRequest& request, const Share& share);
  Status run(Visit& visit, CommunicatorImpl& state,
             const std::shared_ptr<engine::InNetworkWindow>& window);
  void part_with(Visit& visit, CommunicatorImpl& state);
  void reap(bool all);
  void say(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  device::HomeProcess home_;
  AggregatorOptions options_;
  crypto::Secret door_key_;
  Listener listener_;
  Socket wake_;
  std::uint16_t port_ = 0;
  std::shared_ptr<Progress> progress_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;  ///< guards the members from `jobs_` to `ended_counters_`
  std::uint32_t jobs_ = 0;
  std::uint64_t used_bytes_ = 0;
  Strangers strangers_;
  RefusalLog refusals_;
  std::vector<std::unique_ptr<Visit>> visits_;
  std::map<std::string, std::uint64_t> ended_counters_;
};

Status AggregatorService::Parts::open() {
  if (Status status = engine::check(options_.terms); !status) return status;
  if (options_.key.size() < kMinServiceKeyBytes) {
    return failure(Code::invalid_argument,
                   "the aggregator's key has {} bytes: give {} bytes or more", options_.key.size(),
                   kMinServiceKeyBytes);
  }
  auto door_key = door_key_of(options_.key);
  if (!door_key) return door_key.status();
  door_key_ = std::move(*door_key);
  auto progress = Progress::create({.spin = kSpin});
  if (!progress) return progress.status();
  progress_ = *progress;
  auto listener = listen_on(options_.listen);
  if (!listener) return listener.status();
  auto port = bound_port(*listener);
  if (!port) return port.status();
  listener_ = Listener(std::move(*listener));
  port_ = *port;
  wake_ = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.open()) return system_failure(errno, "creating an event descriptor");
  const device::BlockedSignals blocked;
  thread_ = std::thread([this] { listen(); });
  return {};
}

AggregatorService::Parts::~Parts() {
  stopping_.store(true);
  wake();
  if (thread_.joinable()) thread_.join();
  reap(true);
}

void AggregatorService::Parts::wake() {
  const std::uint64_t one = 1;
  if (wake_.open()) (void)!::write(wake_.fd(), &one, sizeof one);
}

void AggregatorService::Parts::listen() {
  const auto once = [this]() -> Status {
    listen_once();
    return {};
  };
  while (!stopping_.load()) {
    if (guarded(once)) continue;
    // The cause of the exception may be a lack of memory, so the thread pauses before it goes on.
    pollfd pause{wake_.fd(), POLLIN, 0};
    (void)::poll(&pause, 1, kPauseMs);
  }
}

void AggregatorService::Parts::listen_once() {
  const Deadline at = SteadyClock::now();
  std::array<pollfd, 2> entries{{{wake_.fd(), POLLIN, 0}, {listener_.poll_fd(at), POLLIN, 0}}};
  const int timeout_ms = poll_timeout_ms(listener_.pause_end(at));
  if (::poll(entries.data(), entries.size(), timeout_ms) < 0) return;
  std::uint64_t wakes = 0;
  (void)!::read(wake_.fd(), &wakes, sizeof wakes);
  if ((entries[1].revents & POLLIN) != 0) {
    accept_one();
    drop_surplus();
  }
  reap(false);
}

void AggregatorService::Parts::accept_one() {
  Socket socket = listener_.accept();
  if (!socket.open()) return;
  const std::string peer = peer_of(socket);
  const std::string neighbourhood = neighbourhood_of(socket);
  const int descriptor = socket.fd();
  auto stream = Stream::open(std::move(socket), Stream::Role::server, &door_key_);
  const std::lock_guard lock(mutex_);
  if (!stream) return refusals_.refuse(peer, stream.status().message(), SteadyClock::now());
  visits_.push_back(std::make_unique<Visit>());
  Visit& one = *visits_.back();
  one.connection = descriptor;
  const device::BlockedSignals blocked;
  try {
    one.number = strangers_.arrive(neighbourhood);
    one.thread = std::thread([this, &one, peer, taken = std::move(*stream)]() mutable {
      receive_visit(one, peer, std::move(taken));
    });
  } catch (const std::exception& error) {
    strangers_.leave(one.number);
    visits_.pop_back();
    refusals_.refuse(peer, fmt::format("no thread can be started: {}", error.what()),
                     SteadyClock::now());
  }
}

/// If there are too many strangers (connections whose request has not arrived yet), ends one of
/// them and its thread.
void AggregatorService::Parts::drop_surplus() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    const auto surplus = strangers_.surplus();
    if (!surplus) return;
    const auto found = std::find_if(visits_.begin(), visits_.end(),
                                    [&](const auto& one) { return one->number == *surplus; });
    ::shutdown((*found)->connection, SHUT_RDWR);
    thread = std::move((*found)->thread);
  }
  thread.join();
}

/// Joins the threads of connections that have ended. If `all` is true, first ends the other
/// connections, too.
void AggregatorService::Parts::reap(bool all) {
  std::vector<std::unique_ptr<Visit>> over;
  {
    const std::lock_guard lock(mutex_);
    if (all) {
      for (const auto& one : visits_) {
        one->end.set(failure(Code::aborted, "the aggregator was stopped"));
        if (!one->over) ::shutdown(one->connection, SHUT_RDWR);
      }
    }
    over.reserve(visits_.size());  // an exception must not destroy a visit before its thread ends
    const auto first = std::stable_partition(visits_.begin(), visits_.end(),
                                             [&](const auto& one) { return !all && !one->over; });
    std::move(first, visits_.end(), std::back_inserter(over));
    visits_.erase(first, visits_.end());
  }
  for (const auto& one : over) {
    if (one->thread.joinable()) one->thread.join();
  }
}

void AggregatorService::Parts::receive_visit(Visit& visit, const std::string& peer, Stream stream) {
  AggregatorVisitor visitor(std::move(stream));
  // An exception ends only this connection. Its cause may be the log, so it is not logged.
  (void)guarded([&] { return receive_request(visit, peer, visitor); });
  leave_strangers(visit);
  const std::lock_guard lock(mutex_);
  visit.over = true;
  wake();  // wakes the listener, which joins this thread
}

Status AggregatorService::Parts::receive_request(Visit& visit, const std::string& peer,
                                                 AggregatorVisitor& visitor) {
  const auto request = visitor.receive(deadline_after(options_.hello_timeout));
  leave_strangers(visit);
  if (request) {
    receive_job(visit, visitor, *request);
  } else {
    const std::lock_guard lock(mutex_);
    refusals_.refuse(peer, request.status().message(), SteadyClock::now());
  }
  return request.status();
}

void AggregatorService::Parts::leave_strangers(const Visit& visit) {
  const std::lock_guard lock(mutex_);
  strangers_.leave(visit.number);
}

void AggregatorService::Parts::receive_job(Visit& visit, AggregatorVisitor& visitor,
                                           const JoinRequest& request) {
  const std::string job = printable(request.job);
  const auto share = admit(request);
  const Status told = guarded([&] {
    const JoinReply reply{share.status(), share ? share->terms : engine::WindowConfig{}};
    return visitor.reply(reply, deadline_after(kVisitTimeout));
  });
  if (!share) {
    say(fmt::format("job {} of {} ranks refused: {}", job, request.ranks,
                    share.status().message()));
    return;
  }
  // If the service ends the job, that is the reason, and the error of a step only its effect.
  visit.end.set(guarded([&]() -> Status {
    say(fmt::format("job {} of {} ranks joins", job, request.ranks));
    if (!told) return told;
    if (Status begun = visitor.wait_for_go(deadline_after(options_.begin_timeout)); !begun)
      return begun;
    return serve(visit, request, *share);
  }));
  const Status end = guarded([&] { return visit.end.wait(); });
  release(*share);
  say(fmt::format("job {} {}", job,
                  end.ok() ? std::string("has left") : "is dropped: " + printable(end.message())));
}

Result<AggregatorService::Parts::Share> AggregatorService::Parts::admit(
    const JoinRequest& request) {
  const std::lock_guard lock(mutex_);
  if (stopping_.load())
    return failure(Code::resource_exhausted, "the aggregator is stopping: use another aggregator");
  if (jobs_ >= options_.jobs) {
    return failure(
        Code::resource_exhausted,
        "the aggregator already serves {} communicators, which is its limit: start another "
        "aggregator, or raise --jobs",
        jobs_);
  }
  Share share{options_.terms, 0};
  const std::uint64_t left = options_.memory_bytes - used_bytes_;
  share.bytes = engine::InNetworkWindow::memory_bytes(request.ranks, share.terms);
  // A job gets a smaller window if the full one would take more than a fourth of the free memory,
  // so that later jobs find memory, too.
  while (share.bytes > left / 4 && share.terms.slots / 2 >= kMinSlots) {
    share.terms = with_fewer_slots(share.terms);
    share.bytes = engine::InNetworkWindow::memory_bytes(request.ranks, share.terms);
  }
  if (share.bytes > left) {
    return failure(Code::resource_exhausted,
                   "the aggregator has no memory for another window of {} bytes, because {} of its "
                   "{} bytes are in use: start another aggregator, or raise --memory-mib",
                   share.bytes, used_bytes_, options_.memory_bytes);
  }
  ++jobs_;
  used_bytes_ += share.bytes;
  return share;
}

void AggregatorService::Parts::release(const Share& share) {
  const std::lock_guard lock(mutex_);
  --jobs_;
  used_bytes_ -= share.bytes;
}

Status AggregatorService::Parts::serve(Visit& visit, const JoinRequest& request,
                                       const Share& share) {
  const auto id = parse_unique_id(request.unique_id);
  if (!id) return id.status();
  CommunicatorOptions options = request.options;
  // All ranks of the job run already, so a longer time would only delay the end of the service.
  options.create_timeout = std::min(options.create_timeout, options_.begin_timeout);
  auto bootstrap = join_unique_id(*id, rank_of(request.ranks), request.ranks + 1,
                                  options.create_timeout, "aggregator");
  if (!bootstrap) return bootstrap.status();
  options.interface = options_.interface;
  options.device = options_.device;
  const auto window = std::make_shared<engine::InNetworkWindow>(request.ranks, share.terms);
  auto created =
      CommunicatorImpl::create(**bootstrap, side_options(options), progress_,
                               {.name = fmt::format("aggregator {}, process", request.address),
                                .job_size = UINT32_MAX,
                                .key = (*bootstrap)->key()});
  if (!created) return created.status();
  CommunicatorImpl& state = **created;
  window->on_end = [&visit](const Status& status) { visit.end.set(status); };
  const Status opened =
      progress_->with_engine([&] { return window->open(state.context().endpoint()); });
  if (!opened.ok()) return opened;
  const Status end = guarded([&] { return run(visit, state, window); });
  progress_->with_engine([&] {
    // If the service ends this job, the ranks do not know that yet, so the communicator is aborted.
    // The abort has no effect if the communicator has failed already.
    if (!end) {
      EnginePoller::run_contained(state.context(), [&] {
        state.context().failures().abort(end.message());
        return state.context().poll(now());
      });
    }
    window->on_end = nullptr;
    window->close(state.context().endpoint());
    part_with(visit, state);
  });
  return end;
}

/// Serves a job until it ends.
Status AggregatorService::Parts::run(Visit& visit, CommunicatorImpl& state,
                                     const std::shared_ptr<engine::InNetworkWindow>& window) {
  {
    const std::lock_guard lock(mutex_);
    visit.state = &state;
  }
  progress_->submit(state.context(), std::make_unique<engine::ReduceOperation>(window), false);
  return visit.end.wait();
}

/// Adds the counters of a job that has ended to those of the service.
void AggregatorService::Parts::part_with(Visit& visit, CommunicatorImpl& state) {
  const std::lock_guard lock(mutex_);
  visit.state = nullptr;
  for (const auto& [name, value] : observe::list(state.context().counters())) {
    ended_counters_[name] += value;
  }
}

std::vector<std::pair<std::string, std::uint64_t>> AggregatorService::Parts::counters() const {
  std::map<std::string, std::uint64_t> total;
  progress_->with_engine([&] {
    const std::lock_guard lock(mutex_);
    total = ended_counters_;
    total["connections_refused"] = refusals_.refused();
    for (const auto& one : visits_) {
      if (one->state == nullptr) continue;
      for (const auto& [name, value] : observe::list(one->state->context().counters())) {
        total[name] += value;
      }
    }
  });
  return {total.begin(), total.end()};
}

Result<std::unique_ptr<AggregatorService>> AggregatorService::start(AggregatorOptions options) {
  auto parts = std::make_unique<Parts>(std::move(options));
  if (Status status = parts->open(); !status) return status;
  return std::unique_ptr<AggregatorService>(new AggregatorService(std::move(parts)));
}

AggregatorService::AggregatorService(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
AggregatorService::~AggregatorService() {
  if (parts_->home().left()) device::abandon(parts_.release());
}
std::uint16_t AggregatorService::port() const { return parts_->port(); }
std::uint32_t AggregatorService::jobs() const { return parts_->jobs(); }
std::vector<std::pair<std::string, std::uint64_t>> AggregatorService::counters() const {
  return parts_->counters();
}

}  // namespace tutti::runtime
