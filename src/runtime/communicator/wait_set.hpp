// Waits until one of several requests is done. The requests may belong to several communicators.
#pragma once

#include <span>
#include <vector>

#include "engine/core/operation.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Only one thread at a time may wait for a request.
class WaitSet {
 public:
  /// The requests must outlive the set.
  explicit WaitSet(std::span<const RequestState* const> requests);
  ~WaitSet();
  WaitSet(const WaitSet&) = delete;
  WaitSet& operator=(const WaitSet&) = delete;

  /// Waits until one of the requests is done (true) or the deadline has passed (false).
  bool wait(Instant deadline);

 private:
  template <typename Work>
  void on_each(const Work& work);

  std::vector<const RequestState*> requests_;
  std::vector<Progress*> engines_;  ///< the engines of the requests, each once
  engine::Completion any_;
};

}  // namespace tutti::runtime
