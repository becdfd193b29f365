// One rank of a job, for the commands that run collectives. A session has the bootstrap, a
// communicator, and functions by which the ranks exchange values outside the measured time.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app {

struct SessionOptions {
  CommunicatorOptions communicator;
  std::string algorithm;  ///< name of the algorithm; empty: automatic
};

/// The name of an algorithm as the option --algorithm accepts it.
std::string to_string(Algorithm algorithm);

/// Adds the options of a communicator (docs/operating.md) to a command.
void add_session_options(CLI::App& command, SessionOptions& options);

/// The host, the clock and the network of one rank.
struct Location {
  std::string host;
  std::string clock;      ///< text that is equal on ranks which read the same CLOCK_MONOTONIC
  std::string network;    ///< text that is equal on ranks which see the same interfaces
  std::string interface;  ///< interface of the communicator; empty: not known

  bool operator==(const Location&) const = default;
};

class Session {
 public:
  /// Finds the other ranks by the environment variables and creates a communicator of all ranks.
  /// Every rank must call this function.
  static Result<Session> create(const SessionOptions& options);

  Communicator& communicator() { return communicator_; }
  Rank rank() const { return communicator_.rank(); }
  std::uint32_t size() const { return communicator_.size(); }
  bool is_first() const { return rank() == Rank{0}; }
  /// The host, clock and network of every rank, indexed by rank.
  const std::vector<Location>& locations() const { return locations_; }
  std::uint32_t hosts() const;
  /// Whether all ranks read the same monotonic clock, so that they can agree on a common start.
  bool one_clock() const;
  /// A text that describes the bootstrap by which the ranks found each other.
  std::string bootstrap() const { return bootstrap_->description(); }

  /// Gathers the bytes of every rank over the bootstrap and returns them indexed by rank; every
  /// rank must call it.
  Result<std::vector<runtime::Bytes>> exchange_bytes(std::span<const std::byte> mine);
  /// Gathers a list of values from every rank over the bootstrap and returns the lists indexed by
  /// rank; every rank must call it. All lists must have the same length.
  template <typename T>
  Result<std::vector<std::vector<T>>> exchange(const std::vector<T>& mine);

  /// Gathers a value from every rank over the communicator and returns the values indexed by rank;
  /// every rank must call it. It does not use the bootstrap, whose traffic would disturb the
  /// measurement on ranks that have not finished their repetition.
  template <typename T>
  Result<std::vector<T>> share(const T& mine);

  /// Creates another communicator of the same ranks with the same options; every rank must call it.
  Result<Communicator> duplicate() { return communicator_.duplicate(options_); }
  /// Runs a barrier on the communicator, so that no rank leaves while a peer still needs data from
  /// that rank.
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
      return failure(Code::peer_failed,
                     "rank {} sent {} bytes instead of {}: run the same version of tutti with the "
                     "same options on all ranks",
                     r, bytes.size(), mine.size() * sizeof(T));
    }
    values.emplace_back(mine.size());
    if (!bytes.empty()) std::memcpy(values.back().data(), bytes.data(), bytes.size());
  }
  return values;
}

}  // namespace tutti::app
