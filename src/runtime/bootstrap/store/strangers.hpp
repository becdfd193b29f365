// The strangers at a door (a TCP port at which Tutti listens): connections that have not yet shown
// that they belong to a job. Their number is limited, so that they cannot use up the descriptors of
// the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace tutti::runtime {

/// Counts the strangers, and chooses the one to close when there are too many. It has no sockets
/// and no lock.
class Strangers {
 public:
  using Number = std::uint64_t;  ///< strangers are numbered by their arrival, from 1

  struct Limits {
    std::size_t total = 0;
    std::size_t per_neighbourhood = 0;  ///< limit of strangers from one IPv4 address or IPv6 /64
  };
  /// The total limit is the smaller of `most` and half of the descriptors that this process may
  /// open (the application keeps the other half), but at least 4. A neighbourhood (an IPv4 address
  /// or an IPv6 /64) may have three quarters of the total limit.
  static Limits limits(std::size_t most);

  explicit Strangers(Limits limits) : limits_(limits) {}

  Number arrive(const std::string& neighbourhood);
  /// The stranger to close if a limit is exceeded, otherwise nothing: the oldest stranger of the
  /// IPv4 address or IPv6 /64 that has the most strangers.
  std::optional<Number> surplus() const;
  /// Removes a connection that has ended, or that has shown that it belongs to a job.
  void leave(Number number);
  std::size_t count() const { return neighbourhood_of_.size(); }

 private:
  Limits limits_;
  Number last_ = 0;
  std::map<Number, std::string> neighbourhood_of_;
  std::map<std::string, std::set<Number>> by_neighbourhood_;
};

}  // namespace tutti::runtime
