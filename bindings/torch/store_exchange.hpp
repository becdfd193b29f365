// The exchange among the ranks of a group through torch's store.
#pragma once

#include <tutti/tutti.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "group.hpp"

namespace tutti::torch_backend {

/// The store may hold keys of an earlier attempt under the same prefix. Every rank therefore writes
/// a fresh nonce, rank 0 publishes a roster of the nonces that it has read, and each rank confirms
/// a roster that has its own nonce. All later keys begin with the number of the roster that all
/// ranks have confirmed. The store gets no secret, because libtutti runs its key agreement over
/// this exchange.
class StoreExchange {
 public:
  StoreExchange(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store);

  /// Waits until every rank of the group has called meet(), at most for the group's timeout. Throws
  /// an error that names the absent ranks.
  void meet();
  /// Carries out an Allgather for tutti_comm_create_with_callback, which calls this function.
  tutti_status_t allgather(const void* mine, void* all, std::size_t bytes,
                           std::chrono::nanoseconds timeout);
  /// Ends the exchange from another thread.
  void cancel(const std::string& reason);

  /// The error of the first exchange that failed; empty if none has failed.
  std::string problem() const;
  /// Text for an error message: the ranks that, as far as this rank knows, have not yet called an
  /// operation of the group.
  std::string absence() const;

 private:
  using Value = std::vector<std::uint8_t>;

  void meet_as_first(Clock::time_point deadline);
  void meet_as_other(Clock::time_point deadline);
  bool confirmed_by_all(const std::vector<std::string>& nonces, Clock::time_point deadline);
  std::string read(const std::string& key) { return store_->get_to_str(key); }
  void write(const std::string& key, const std::string& value) { store_->set(key, value); }
  void forget(const std::string& key);
  std::string hello_key(int rank) const { return prefix_ + "hello/" + std::to_string(rank); }
  std::string confirm_key(int rank) const { return roster_ + "/confirm/" + std::to_string(rank); }
  /// Calls `ready` until it returns true, with growing delays between the calls. Returns false at
  /// the deadline; throws an error if the exchange was cancelled.
  bool poll(Clock::time_point deadline, const std::function<bool()>& ready);
  /// Waits until the key of every other rank is in the store; false at the deadline.
  bool collect(const std::function<std::string(int)>& key, Clock::time_point deadline);
  void note_absent(std::vector<std::uint32_t> ranks);
  [[noreturn]] void fail_absent(std::chrono::milliseconds timeout);
  void exchange(const Value& mine, std::uint8_t* all, Clock::time_point deadline);

  std::shared_ptr<Group> group_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::string prefix_;
  std::string nonce_;
  std::string roster_;  ///< prefix of all keys that this rank uses after meet()
  std::uint32_t exchanges_ = 0;
  /// Guards the fields below.
  mutable std::mutex mutex_;
  std::condition_variable cancelled_;
  std::string cancel_reason_;
  bool is_cancelled_ = false;
  std::string problem_;
  std::vector<std::uint32_t> absent_;
};

}  // namespace tutti::torch_backend
