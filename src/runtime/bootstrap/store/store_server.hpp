// The TCP server of a bootstrap store: one thread in rank 0's process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "crypto/secret.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "runtime/bootstrap/store/store_frame.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Listens from start() until all ranks have joined, and serves the ranks until its destruction.
/// The destructor first sends the pending frames to the ranks, which takes at most five seconds.
class BootstrapServer {
 public:
  struct Options {
    Endpoint endpoint;  ///< address; host "" listens at every address, port 0 takes a free one
    std::string name;   ///< name of the store in error texts; empty: its endpoint
    JobToken token{};   ///< token of the job; a connection with another token is refused and closed
    /// Number of ranks of the job. Without it, the store uses the number in the first hello.
    std::optional<std::uint32_t> size;
    /// Key of the job: every connection then speaks TLS. Without a key the store speaks plain TCP.
    std::optional<crypto::Secret> key{};
    /// Time after the start of a connection within which its hello must arrive.
    Nanoseconds hello_timeout = std::chrono::seconds(2);
    /// At most this many connections may be open whose hello has not arrived yet (see
    /// Strangers::limits). If there are more, one of them is closed. 0 stands for 1024.
    std::size_t max_strangers = 0;
  };

  static Result<std::unique_ptr<BootstrapServer>> start(Options options);
  ~BootstrapServer();
  BootstrapServer(const BootstrapServer&) = delete;
  BootstrapServer& operator=(const BootstrapServer&) = delete;

  std::uint16_t port() const;
  /// The random token that the hello of rank 0 must contain; only this process knows it.
  const JobToken& owner_token() const;
  /// Number of connections that were refused so far.
  std::uint64_t refused() const;

 private:
  class Loop;
  explicit BootstrapServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace tutti::runtime
