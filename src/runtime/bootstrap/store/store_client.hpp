// The bootstrap over TCP: rank 0 runs a small store, and every rank connects to it.
#pragma once

#include <memory>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/store/store_server.hpp"

namespace tutti::runtime {

struct StoreOptions {
  Endpoint endpoint;
  Rank rank{0};
  std::uint32_t size = 1;
  JobToken token{};    ///< the same on all ranks
  std::string method;  ///< begins description(): "env://"
  /// Time for all ranks to come, in any order.
  Nanoseconds timeout = std::chrono::seconds(30);
  /// A server that listens already; without one, rank 0 starts its own. Kept until the end.
  std::unique_ptr<BootstrapServer> server;
};

/// Joins the job at `options.endpoint`; returns when every rank has. Fails with Code::timeout
/// naming the ranks that did not come, or with what the store objects to (another job's token,
/// another size, a rank that came twice).
Result<std::unique_ptr<Bootstrap>> connect_store(StoreOptions options);

/// A job of one rank: every exchange returns its own contribution.
std::unique_ptr<Bootstrap> make_single_bootstrap(std::string description);

/// Fails unless 1 <= size <= kMaxBootstrapRanks and rank < size.
Status check_place(Rank rank, std::uint32_t size);

}  // namespace tutti::runtime
