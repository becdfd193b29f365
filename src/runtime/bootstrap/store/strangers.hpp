// The strangers at a door: connections that have not yet shown that they belong to a job. Their
// number is limited, so that they exhaust neither the door nor the process that opened it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace tutti::runtime {

/// Decides which stranger has to leave when one more arrives. It has no sockets and no lock.
class Strangers {
 public:
  using Number = std::uint64_t;  ///< strangers are numbered by their arrival, from 1

  struct Limits {
    std::size_t total = 0;
    std::size_t per_neighbourhood = 0;  ///< limit of strangers from one IPv4 address or IPv6 /64
  };
  /// The limit of all strangers is `most`, but no more than half of the descriptors that this
  /// process may have, so that the application keeps the other half. The limit for one
  /// neighbourhood (an IPv4 address or an IPv6 /64) is three quarters of the total limit.
  static Limits limits(std::size_t most);

  explicit Strangers(Limits limits) : limits_(limits) {}

  Number arrive(const std::string& neighbourhood);
  /// The stranger that has to leave because of the last arrival: the oldest one from the
  /// neighbourhood (address prefix) with the most strangers. Nothing if no limit is exceeded.
  std::optional<Number> surplus() const;
  /// Forgets a stranger that has left or has become a member.
  void leave(Number number);
  std::size_t count() const { return neighbourhood_of_.size(); }

 private:
  Limits limits_;
  Number last_ = 0;
  std::map<Number, std::string> neighbourhood_of_;
  std::map<std::string, std::set<Number>> by_neighbourhood_;
};

}  // namespace tutti::runtime
