// The order in which the operations of a group reach libtutti.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "communicator.hpp"
#include "operation.hpp"

namespace tutti::torch_backend {

/// Starts each operation in the thread that issues it, or in a worker thread that starts queued
/// operations in the order of issue. A collective is queued while the communicator is being
/// created, while the worker thread runs, or if its calls depend on each other. A message is queued
/// only while the communicator is being created or another message is queued.
class Submissions : public std::enable_shared_from_this<Submissions> {
 public:
  Submissions(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store);

  /// Starts or queues an operation without waiting for other ranks. Throws if the operation cannot
  /// begin.
  void issue(const std::shared_ptr<Operation>& operation);
  /// Ends all operations with an error, at this rank and at the peers.
  void abort(const std::string& reason);
  /// As abort(), after an error that kept an operation from its start or end. Allocates no memory.
  void fail(const std::exception_ptr& error);
  /// Ends the group; serves peers that still need data from this rank for at most `patience`.
  void shut_down(std::chrono::milliseconds patience);

  /// Text for an error message: the ranks that have not yet joined the creation of the
  /// communicator.
  std::string absence();
  Failure status();
  /// Counters of the adapter and of the communicator.
  std::vector<std::pair<std::string, std::uint64_t>> counters();

 private:
  /// The results of refuse(). `exchange` is the exchange under way, or null; the caller must cancel
  /// it. `error` is the error of all later operations.
  struct Ending {
    std::shared_ptr<StoreExchange> exchange;
    std::exception_ptr error;
  };

  /// Makes all further operations fail with the error "group NAME was HOW", where HOW is the text
  /// `how`. If the group has already ended, they fail with its first error instead.
  Ending refuse(const std::string& how);
  /// The communicator; null before it has been created and after shut_down(). The first operation
  /// that needs a communicator begins the creation.
  std::shared_ptr<Communicator> communicator();
  void check_usable();
  void add_worker();
  void work();
  void create_communicator();
  void start_queued();
  void fail_all(const std::exception_ptr& error);

  std::shared_ptr<Group> group_;
  c10::intrusive_ptr<c10d::Store> store_;
  /// Guards the fields below. Operation::start() runs with the mutex held, so that no two
  /// operations start at the same time.
  std::mutex mutex_;
  /// The exchange through which the communicator is being created; null at any other time.
  std::shared_ptr<StoreExchange> exchange_;
  std::shared_ptr<Communicator> communicator_;
  std::list<std::shared_ptr<Operation>> queue_;
  std::size_t queued_messages_ = 0;
  /// True while a thread creates the communicator or starts queued operations.
  bool working_ = false;
  std::exception_ptr end_;  ///< error of every operation after the group has ended; null before
};

}  // namespace tutti::torch_backend
