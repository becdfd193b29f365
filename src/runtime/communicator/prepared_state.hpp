// The object behind a prepared collective. It holds the run that the route has prepared, and copies
// of the arrays and of the algorithm name that the call refers to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/communicator/communicator_impl.hpp"

namespace tutti::runtime {

class PreparedState {
 public:
  static Result<std::shared_ptr<PreparedState>> create(
      std::shared_ptr<CommunicatorImpl> communicator, const CollectiveCall& call);
  /// Starts one run. Fails with Code::invalid_argument while the previous run is under way.
  Result<std::shared_ptr<RequestState>> start();
  const CommunicatorImpl& communicator() const { return *communicator_; }

 private:
  PreparedState() = default;

  std::shared_ptr<CommunicatorImpl> communicator_;
  Collective collective_ = Collective::barrier;
  std::string algorithm_;
  std::vector<std::uint64_t> sizes_bytes_;
  std::vector<std::uint64_t> offsets_bytes_;
  std::vector<std::uint64_t> send_sizes_bytes_;
  std::vector<std::uint64_t> send_offsets_bytes_;
  CallRoute::PreparedRun run_;
  std::shared_ptr<engine::Completion> last_;
};

}  // namespace tutti::runtime
