#include "communicator.hpp"

#include <c10/util/Logging.h>

#include <algorithm>

namespace tutti::torch_backend {
namespace {

constexpr std::chrono::nanoseconds kCreateTimeout = std::chrono::seconds(30);

tutti_status_t exchange_all(const void* mine, void* all, std::size_t bytes, std::int64_t timeout_ns,
                            void* context) {
  return static_cast<StoreExchange*>(context)->allgather(mine, all, bytes,
                                                         std::chrono::nanoseconds(timeout_ns));
}

std::string described(const tutti_comm_t* comm) {
  char* text = nullptr;
  if (tutti_comm_describe(comm, &text) != TUTTI_OK) return tutti_last_error();
  std::string copy = text;
  tutti_free_text(text);
  std::replace(copy.begin(), copy.end(), '\n', ';');
  return copy;
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(std::shared_ptr<Group> group,
                                                   StoreExchange& exchange) {
  exchange.meet();
  tutti_comm_options_t options = group->options.communicator();
  // All ranks are present, so the creation of the communicator gets a short time limit, which does
  // not exceed the group's timeout.
  if (options.create_timeout_ns == 0) {
    options.create_timeout_ns =
        std::min<std::int64_t>(kCreateTimeout.count(), 1'000'000 * group->timeout_ms);
  }
  tutti_comm_t* comm = nullptr;
  Failure failure = last_failure(tutti_comm_create_with_callback(
      exchange_all, &exchange, static_cast<std::uint32_t>(group->rank),
      static_cast<std::uint32_t>(group->size), &options, &comm));
  if (failure) {
    if (!exchange.problem().empty()) failure.message = exchange.problem();
    std::rethrow_exception(error_of(*group, "the creation of the communicator", failure));
  }
  auto made = std::make_unique<Communicator>(group, comm);
  LOG(INFO) << "Tutti: communicator of group '" << group->name << "', rank " << group->rank
            << " of " << group->size << ": " << described(comm);
  return made;
}

Communicator::Communicator(std::shared_ptr<Group> group, tutti_comm_t* comm)
    : group_(std::move(group)), comm_(comm) {}

Communicator::~Communicator() {
  // In a child of fork() the communicator belongs to the parent, so the child must not end it.
  if (group_->in_child()) return;
  finalize(std::chrono::milliseconds(0));
  tutti_comm_destroy(comm_);
}

void Communicator::abort(const char* reason) {
  if (!group_->in_child()) (void)tutti_comm_abort(comm_, reason);
}

void Communicator::finalize(std::chrono::milliseconds patience) {
  if (finalized_ || group_->in_child()) return;
  finalized_ = true;
  const Failure failure =
      last_failure(tutti_comm_finalize(comm_, std::chrono::nanoseconds(patience).count()));
  if (failure.status == TUTTI_TIMEOUT)
    LOG(WARNING) << "Tutti: end of group '" << group_->name << "': " << failure.message;
}

Failure Communicator::status() const { return last_failure(tutti_comm_status(comm_)); }

std::vector<std::pair<std::string, std::uint64_t>> Communicator::counters() const {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  const auto visit = [](const char* name, std::uint64_t value, void* context) {
    static_cast<decltype(all)*>(context)->emplace_back(name, value);
  };
  const Failure failure = last_failure(tutti_comm_counters(comm_, visit, &all));
  if (failure) std::rethrow_exception(error_of(*group_, "the list of counters", failure));
  return all;
}

}  // namespace tutti::torch_backend
