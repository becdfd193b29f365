// The bootstrap over TCP: rank 0 runs a small store, and every rank connects to it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/store/store_server.hpp"

namespace tutti::runtime {

struct StoreOptions {
  Endpoint endpoint;
  Rank rank{0};
  std::uint32_t size = 1;
  JobToken token{};    ///< token of the job; the same on all ranks
  std::string method;  ///< beginning of description(), such as "env://"
  /// Time in which all ranks must join, in any order.
  Nanoseconds timeout = std::chrono::seconds(30);
  /// A store server that already listens in this process; the bootstrap takes it over. Null: rank 0
  /// starts a server itself.
  std::unique_ptr<BootstrapServer> server;
  /// Key of the job, the same on all ranks; key() of the bootstrap returns it. With a key, all
  /// connections speak TLS.
  std::optional<crypto::Secret> key{};
};

/// Joins the job at `options.endpoint`; returns when every rank has joined. If ranks do not join in
/// time, fails with Code::timeout and names these ranks. If the store refuses this rank (another
/// job's token, another size, a rank that two processes claim), fails with the store's error.
Result<std::unique_ptr<Bootstrap>> connect_store(StoreOptions options);

/// The bootstrap of a job of one rank: every exchange returns the rank's own contribution.
std::unique_ptr<Bootstrap> make_single_bootstrap(std::string description);

/// Fails unless 1 <= size <= kMaxBootstrapRanks and rank < size.
Status check_place(Rank rank, std::uint32_t size);

}  // namespace tutti::runtime
