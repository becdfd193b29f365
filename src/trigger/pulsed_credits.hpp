// Pulsed credits ([Xu25] 1.3) limit how many elements the reductions of a host may have outstanding
// in the network. The limit is called the capacity.
//
// A reduction is cut into pulses (credit batches) of ceil(capacity / pulses) elements. If the
// capacity is not a multiple of `pulses`, fewer than `pulses` pulses can be in flight. A pulse in
// flight holds a credit and a response counter. Both are free again once all responses to the pulse
// have been counted.
//
// All requests share the credits, but one credit and one counter are reserved for each of
// `requests` requests. A request that has a pulse in flight may start another one only with a
// credit that is not reserved. Without this rule two nodes could each give all credits to a
// different reduction, and wait for each other forever.
//
// A request is admitted when it gets its first credit and counter. If none is free, the request
// tries again after `retry_after`, and fails after `attempts` tries. While a request waits for
// admission, a request that has a pulse in flight may not start another one.
//
// Pulse p + `window` of a request starts only after pulse p has completed. Two pulses of a request
// in flight therefore never have equal indices modulo `window`, so a caller can use port p modulo
// `window` for pulse p.
//
// The caller passes the time as an argument. Copies are independent and comparable, because the
// tests explore every interleaving.
#pragma once

#include <compare>
#include <cstdint>
#include <tuple>
#include <vector>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::trigger {

class PulsedCredits {
 public:
  struct Settings {
    std::uint64_t capacity_elements = 65536;  ///< limit of outstanding elements: C of [Xu25]
    /// Number of pulses into which the capacity is divided: k of [Xu25].
    std::uint32_t pulses = 4;
    /// At most this many pulses of one request may be in flight at once; 1 to kMaxWindow.
    std::uint32_t window = 4;
    /// Number of reductions that can run at the same time without waiting for one another: J of
    /// [Xu25].
    std::uint32_t requests = 1;
    std::uint32_t counters = 64;
    std::uint32_t attempts = 16;  ///< number of attempts to admit a request before it fails
    Nanoseconds retry_after{0};

    friend auto operator<=>(const Settings&, const Settings&) = default;
  };
  static constexpr std::uint32_t kMaxWindow = 64;

  /// The index of an open request.
  using Request = std::uint32_t;

  /// A pulse (a credit batch): the part of a reduction that may be sent now.
  struct Pulse {
    std::uint32_t counter = 0;  ///< counter for the responses to this pulse
    std::uint64_t number = 0;   ///< index of the pulse within its request, from 0
    std::uint64_t first_element = 0;
    std::uint64_t elements = 0;

    friend auto operator<=>(const Pulse&, const Pulse&) = default;
  };

  enum class Answer : std::uint8_t {
    pulse,  ///< the caller may send the returned pulse
    wait,   ///< no further pulse may be sent until responses arrive
    /// The request is not admitted, because no counter or credit is free: call again at retry_at().
    retry,
    finished,  ///< all pulses of the request have been sent
    failed,    ///< all attempts to admit the request failed: status() has the error
  };

  /// Statistics for reports, over all requests: `in_flight` is a present value,
  /// `in_flight_high_water` its maximum, and the other fields are totals.
  struct Counters {
    std::uint64_t pulses = 0;
    std::uint64_t retries = 0;
    std::uint64_t failures = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t in_flight_high_water = 0;

    friend auto operator<=>(const Counters&, const Counters&) = default;
  };

  /// Fails with invalid_argument if the capacity, `pulses`, `requests` or `counters` is 0, if there
  /// are more pulses than elements of capacity, or if the window is not in 1 to kMaxWindow.
  static Result<PulsedCredits> create(const Settings& settings);

  /// Opens a request for a reduction of `elements` elements. The request exists until close().
  Request open(std::uint64_t elements);
  /// Returns the next pulse of a request, or the reason why there is none.
  Answer next(Request request, Instant now, Pulse& pulse);
  /// Counts responses to `elements` elements of the pulse with the given counter. Returns true if
  /// the pulse is now complete, and then frees its counter and credit. Fails with internal if the
  /// pulse has fewer than `elements` responses to come.
  Result<bool> count(std::uint32_t counter, std::uint64_t elements);
  /// True if all pulses of the request have been sent and counted.
  bool complete(Request request) const;
  /// Removes a request that is complete, has failed or was never admitted. Returns false if the
  /// request has pulses in flight.
  bool close(Request request);

  Instant retry_at(Request request) const { return requests_[request].retry_at; }
  /// The error of a request for which next() has returned `failed`.
  Status status(Request request) const;

  std::uint64_t pulse_elements() const { return pulse_elements_; }
  /// Number of pulses that may be in flight at once, over all requests.
  std::uint32_t credits() const { return credits_; }
  /// Number of elements that were sent and whose responses have not been counted; at most the
  /// capacity.
  std::uint64_t outstanding_elements() const;
  const Counters& counters() const { return totals_; }
  const Settings& settings() const { return settings_; }

  /// Compares all state except the counters for reports, so that objects that behave alike are
  /// equal.
  friend std::strong_ordering operator<=>(const PulsedCredits& a, const PulsedCredits& b) {
    return std::tie(a.settings_, a.requests_, a.counters_) <=>
           std::tie(b.settings_, b.requests_, b.counters_);
  }
  friend bool operator==(const PulsedCredits& a, const PulsedCredits& b) { return a <=> b == 0; }

 private:
  enum class State : std::uint8_t { closed, waiting, admitted, failed };

  struct RequestState {
    State state = State::closed;
    std::uint32_t attempts = 0;
    std::uint32_t in_flight = 0;
    Instant retry_at;
    std::uint64_t elements = 0;
    std::uint64_t next_pulse = 0;
    /// Index of the oldest pulse that is not complete; the window begins at this pulse.
    std::uint64_t oldest_pulse = 0;
    std::uint64_t completed_mask = 0;  ///< bit i: pulse oldest_pulse + i is complete

    friend auto operator<=>(const RequestState&, const RequestState&) = default;
  };

  /// Counts the responses to one pulse.
  struct Counter {
    bool busy = false;
    Request request = 0;
    std::uint64_t pulse = 0;
    std::uint64_t left_elements = 0;

    friend auto operator<=>(const Counter&, const Counter&) = default;
  };

  explicit PulsedCredits(const Settings& settings);
  std::uint64_t pulses_of(const RequestState& request) const;
  /// Number of free pairs of a credit and a counter. An admitted request holds a pair for each
  /// pulse in flight, and at least one pair until it has sent its last pulse.
  std::uint32_t spare() const;
  /// True if a request that has pulses in flight may take a further credit.
  bool may_take_more() const;
  bool admit(RequestState& request, Instant now);
  Pulse inject(Request request);
  void complete_pulse(const Counter& counter);

  Settings settings_;
  std::uint64_t pulse_elements_ = 1;
  std::uint32_t credits_ = 1;
  std::vector<RequestState> requests_;
  std::vector<Counter> counters_;
  Counters totals_;
};

}  // namespace tutti::trigger
