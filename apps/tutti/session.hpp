// One rank of a job, as the commands that run collectives see it: the ranks that found each other,
// a communicator over them, and an exchange beside it for what is not measured.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app {

struct SessionOptions {
  CommunicatorOptions communicator;
  std::string algorithm;  ///< empty: automatic
};

/// The name of an algorithm, as --algorithm takes it.
std::string to_string(Algorithm algorithm);

/// Adds --algorithm, --subgroups, --receive-workers, --chains, --chunk-bytes, --interface, --ipv6,
/// --no-auth, --always-barrier and --create-timeout to a command.
void add_session_options(CLI::App& command, SessionOptions& options);

/// Where a rank runs.
struct Location {
  std::string host;
  std::string clock;      ///< equal where CLOCK_MONOTONIC is the same
  std::string network;    ///< equal where the network interfaces are the same
  std::string interface;  ///< that the communicator uses; empty: not known

  bool operator==(const Location&) const = default;
};

class Session {
 public:
  /// Finds the other ranks from the environment and makes a communicator with them; collective.
  static Result<Session> create(const SessionOptions& options);

  Communicator& communicator() { return communicator_; }
  Rank rank() const { return communicator_.rank(); }
  std::uint32_t size() const { return communicator_.size(); }
  bool is_first() const { return rank() == Rank{0}; }
  /// Of every rank.
  const std::vector<Location>& locations() const { return locations_; }
  std::uint32_t hosts() const;
  /// Whether all ranks read the same monotonic clock.
  bool one_clock() const;
  /// How the ranks found each other.
  std::string bootstrap() const { return bootstrap_->description(); }

  /// Every rank's bytes by rank, over the bootstrap; collective.
  Result<std::vector<runtime::Bytes>> exchange_bytes(std::span<const std::byte> mine);
  /// The same for a list of plain values, as long on every rank.
  template <typename T>
  Result<std::vector<std::vector<T>>> exchange(const std::vector<T>& mine);

  /// Every rank's value by rank, over the communicator: what is exchanged between repetitions must
  /// not keep ranks from the end of theirs, as the bootstrap's sockets and server do.
  template <typename T>
  Result<std::vector<T>> share(const T& mine);

  /// Another communicator of the same ranks and options; collective.
  Result<Communicator> duplicate() { return communicator_.duplicate(*bootstrap_, options_); }
  /// A barrier on the communicator, so that nobody leaves while a peer may still need it.
  Status finish();

 private:
  Session(std::unique_ptr<runtime::Bootstrap> bootstrap, Communicator communicator)
      : bootstrap_(std::move(bootstrap)), communicator_(std::move(communicator)) {}
  Status learn_locations(const SessionOptions& options);

  std::unique_ptr<runtime::Bootstrap> bootstrap_;
  Communicator communicator_;
  CommunicatorOptions options_;
  std::vector<Location> locations_;
};

template <typename T>
Result<std::vector<T>> Session::share(const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(size());
  auto request =
      communicator_.allgather(std::as_bytes(std::span(&mine, 1)),
                              std::as_writable_bytes(std::span(values)), {.will_wait = true});
  if (!request) return request.status();
  if (Status status = request->wait(); !status) return status;
  return values;
}

template <typename T>
Result<std::vector<std::vector<T>>> Session::exchange(const std::vector<T>& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  auto all = exchange_bytes(std::as_bytes(std::span(mine)));
  if (!all) return all.status();
  std::vector<std::vector<T>> values;
  for (std::size_t r = 0; r < all->size(); ++r) {
    const runtime::Bytes& bytes = (*all)[r];
    if (bytes.size() != mine.size() * sizeof(T)) {
      return Status(Code::peer_failed, "rank " + std::to_string(r) +
                                           " sent another kind of report: do all ranks run the "
                                           "same version with the same options?");
    }
    values.emplace_back(mine.size());
    if (!bytes.empty()) std::memcpy(values.back().data(), bytes.data(), bytes.size());
  }
  return values;
}

}  // namespace tutti::app
