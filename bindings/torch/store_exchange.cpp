#include "store_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "failure.hpp"

namespace tutti::torch_backend {
namespace {

using namespace std::chrono_literals;

// Shortest and longest delay between two reads of the store; the delay grows with each read.
constexpr std::chrono::microseconds kFirstPause = 200us;
constexpr std::chrono::microseconds kLongestPause = 20ms;
/// Time for which rank 0 waits for all ranks to confirm the roster, before it checks whether a rank
/// has written a newer nonce.
constexpr std::chrono::milliseconds kConfirmationPatience = 50ms;
constexpr std::size_t kNonceCharacters = 32;

std::string fresh_nonce() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device source;
  std::string text;
  while (text.size() < kNonceCharacters) {
    auto bits = source();
    for (int i = 0; i < 8; ++i, bits >>= 4) text += kDigits[bits & 15];
  }
  return text;
}

}  // namespace

StoreExchange::StoreExchange(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store)
    : group_(std::move(group)),
      store_(std::move(store)),
      prefix_("tutti/" + group_->key_prefix + "/"),
      nonce_(fresh_nonce()) {}

void StoreExchange::cancel(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) return;
    is_cancelled_ = true;
    cancel_reason_ = reason;
  }
  cancelled_.notify_all();
}

std::string StoreExchange::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

std::string StoreExchange::absence() const {
  const std::lock_guard lock(mutex_);
  if (absent_.empty()) return "";
  return ": " + name_ranks(*group_, absent_) + (absent_.size() == 1 ? " has" : " have") +
         " not called any operation of the group yet";
}

void StoreExchange::note_absent(std::vector<std::uint32_t> ranks) {
  const std::lock_guard lock(mutex_);
  absent_ = std::move(ranks);
}

void StoreExchange::forget(const std::string& key) {
  // If the store cannot delete keys, the key remains. Later attempts recognise it as old by its
  // nonce.
  try {
    (void)store_->deleteKey(key);
  } catch (const std::exception&) {
  }
}

bool StoreExchange::poll(Clock::time_point deadline, const std::function<bool()>& ready) {
  auto pause = kFirstPause;
  while (!ready()) {
    if (Clock::now() >= deadline) return false;
    std::unique_lock lock(mutex_);
    const auto until = std::min<Clock::time_point>(deadline, Clock::now() + pause);
    cancelled_.wait_until(lock, until, [&] { return is_cancelled_; });
    if (is_cancelled_) std::rethrow_exception(backend_error("Tutti: " + cancel_reason_));
    pause = std::min(2 * pause, kLongestPause);
  }
  return true;
}

bool StoreExchange::collect(const std::function<std::string(int)>& key,
                            Clock::time_point deadline) {
  std::vector<std::uint32_t> missing;
  for (int rank = 0; rank < group_->size; ++rank)
    if (rank != group_->rank) missing.push_back(static_cast<std::uint32_t>(rank));
  return poll(deadline, [&] {
    const auto is_here = [&](std::uint32_t rank) {
      return store_->check({key(static_cast<int>(rank))});
    };
    missing.erase(std::remove_if(missing.begin(), missing.end(), is_here), missing.end());
    note_absent(missing);
    return missing.empty();
  });
}

void StoreExchange::fail_absent(std::chrono::milliseconds timeout) {
  std::string text =
      c10::str("Timed out waiting ", timeout.count(), "ms for the other ranks of group '",
               group_->name, "' at rank ", group_->rank, absence());
  std::rethrow_exception(backend_error(
      "Tutti: " + text +
      ". Every rank of a group must call the group's first operation within the timeout: look for "
      "an earlier error of these ranks, or give init_process_group a longer timeout"));
}

void StoreExchange::meet() {
  const std::chrono::milliseconds timeout(group_->timeout_ms.load());
  const Clock::time_point deadline = Clock::now() + timeout;
  write(hello_key(group_->rank), nonce_);
  if (group_->rank == 0) {
    meet_as_first(deadline);
  } else {
    meet_as_other(deadline);
  }
  if (roster_.empty()) fail_absent(timeout);
  forget(hello_key(group_->rank));
  note_absent({});
}

void StoreExchange::meet_as_first(Clock::time_point deadline) {
  if (!collect([&](int rank) { return hello_key(rank); }, deadline)) return;
  std::vector<std::string> nonces(static_cast<std::size_t>(group_->size));
  for (int rank = 0; rank < group_->size; ++rank) nonces[rank] = read(hello_key(rank));
  for (;;) {
    const std::string number = fresh_nonce();
    std::string text = number;
    for (const std::string& nonce : nonces) text += nonce;
    roster_ = prefix_ + number;
    write(prefix_ + "roster", text);
    if (confirmed_by_all(nonces, deadline)) break;
    roster_.clear();
    if (Clock::now() >= deadline) return;
    for (int rank = 0; rank < group_->size; ++rank)
      if (store_->check({hello_key(rank)})) nonces[rank] = read(hello_key(rank));
  }
  write(roster_ + "/go", "1");
  for (int rank = 1; rank < group_->size; ++rank) forget(confirm_key(rank));
}

bool StoreExchange::confirmed_by_all(const std::vector<std::string>& nonces,
                                     Clock::time_point deadline) {
  for (;;) {
    const auto look = std::min<Clock::time_point>(deadline, Clock::now() + kConfirmationPatience);
    if (collect([&](int rank) { return confirm_key(rank); }, look)) return true;
    if (Clock::now() >= deadline) return false;
    // If the nonce of a rank in the store has changed, the roster has the rank's nonce of an
    // earlier attempt. Rank 0 must then write a new roster.
    for (int rank = 1; rank < group_->size; ++rank) {
      if (store_->check({hello_key(rank)}) && read(hello_key(rank)) != nonces[rank]) return false;
    }
  }
}

void StoreExchange::meet_as_other(Clock::time_point deadline) {
  const std::size_t own = kNonceCharacters * (static_cast<std::size_t>(group_->rank) + 1);
  const std::size_t length = kNonceCharacters * (static_cast<std::size_t>(group_->size) + 1);
  std::string confirmed;
  const bool met = poll(deadline, [&] {
    if (!store_->check({prefix_ + "roster"})) return false;
    const std::string text = read(prefix_ + "roster");
    if (text.size() != length || text.compare(own, kNonceCharacters, nonce_) != 0) return false;
    roster_ = prefix_ + text.substr(0, kNonceCharacters);
    if (roster_ != confirmed) write(confirm_key(group_->rank), "1");
    confirmed = roster_;
    return store_->check({roster_ + "/go"});
  });
  if (met) return;
  roster_.clear();
  std::vector<std::uint32_t> absent;
  for (int rank = 0; rank < group_->size; ++rank)
    if (!store_->check({hello_key(rank)})) absent.push_back(static_cast<std::uint32_t>(rank));
  note_absent(std::move(absent));
}

tutti_status_t StoreExchange::allgather(const void* mine, void* all, std::size_t bytes,
                                        std::chrono::nanoseconds timeout) {
  try {
    const auto* const begin = static_cast<const std::uint8_t*>(mine);
    // The timeout is bounded, because the current time plus a very long timeout would overflow.
    const auto bound = std::min<std::chrono::nanoseconds>(timeout, 24h);
    exchange(Value(begin, begin + bytes), static_cast<std::uint8_t*>(all), Clock::now() + bound);
    return TUTTI_OK;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) problem_ = error.what();
    return is_cancelled_ ? TUTTI_ABORTED : absent_.empty() ? TUTTI_SYSTEM : TUTTI_TIMEOUT;
  }
}

void StoreExchange::exchange(const Value& mine, std::uint8_t* all, Clock::time_point deadline) {
  const std::string number = roster_ + "/" + std::to_string(exchanges_++);
  const auto key = [&](int rank) { return number + "/" + std::to_string(rank); };
  const std::size_t bytes = mine.size();
  const std::size_t whole = bytes * static_cast<std::size_t>(group_->size);
  Value result;
  if (group_->rank == 0) {
    if (!collect(key, deadline)) fail_absent(std::chrono::milliseconds(group_->timeout_ms));
    result = mine;
    for (int rank = 1; rank < group_->size; ++rank) {
      const Value one = store_->get(key(rank));
      result.insert(result.end(), one.begin(), one.end());
      forget(key(rank));
    }
    store_->set(number + "/all", result);
    // A rank enters this exchange only after it has read the result of the previous exchange. All
    // ranks have entered, so rank 0 can delete the previous result.
    if (exchanges_ > 1) forget(roster_ + "/" + std::to_string(exchanges_ - 2) + "/all");
  } else {
    store_->set(key(group_->rank), mine);
    if (!poll(deadline, [&] { return store_->check({number + "/all"}); })) {
      note_absent({0});
      fail_absent(std::chrono::milliseconds(group_->timeout_ms));
    }
    result = store_->get(number + "/all");
  }
  if (result.size() != whole) {
    raise("an exchange through the store gave ", result.size(), " bytes instead of ", whole,
          ": use the same version of Tutti on all ranks");
  }
  std::memcpy(all, result.data(), whole);
}

}  // namespace tutti::torch_backend
