// Pulsed credits ([Xu25] 1.3): the reductions of a host never have more than its capacity of C
// elements outstanding in the network.
//
// A reduction of m elements is cut into pulses of ceil(C / k), so that up to k pulses overlap; m >
// C takes several rounds of the capacity. A pulse holds a counter and a credit, and its responses
// are counted. When the count reaches the pulse's size, counter and credit return. If k does not
// divide C, fewer than k pulses are in flight, so that C holds.
//
// Requests share the credits. Each of up to J requests (`requests`) owns one credit and one counter
// from admission to end; further pulses use only credits beyond those J. Otherwise two nodes could
// each give all credits to a different reduction and wait for each other forever.
//
// A request that finds no counter or credit (more than J requests, or fewer than J credits) tries
// again after `retry_after`; after `attempts` tries the host gets an error. While a request waits
// in this way, no request gets further pulses.
//
// The pulses of a request form a window: pulse p + w starts after pulse p has completed (w:
// `window`), so p modulo w names a free channel.
//
// protocol/credit_window.hpp uses the same arithmetic for a stream that is multicast to all ranks:
// its credits return when every receiver has consumed a batch, as reports up a tree show. With
// pulsed credits the sender counts the responses to its own requests.
//
// Time is an argument. Copies are independent and comparable, because the tests explore every
// interleaving.
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
    std::uint64_t capacity_elements = 65536;  ///< C: elements that may be outstanding
    /// K: number of pulses into which the capacity is divided.
    std::uint32_t pulses = 4;
    /// Pulses of one request that may be in flight; at most kMaxWindow.
    std::uint32_t window = 4;
    std::uint32_t requests = 1;  ///< J: concurrent reductions that never wait for one another
    std::uint32_t counters = 64;
    std::uint32_t attempts = 16;  ///< tries for admission before the host gets an error
    Nanoseconds retry_after{0};

    friend auto operator<=>(const Settings&, const Settings&) = default;
  };
  static constexpr std::uint32_t kMaxWindow = 64;

  /// The index of an open request.
  using Request = std::uint32_t;

  /// A pulse: a part of a reduction that may be sent now.
  struct Pulse {
    std::uint32_t counter = 0;  ///< counter for the responses to this pulse
    std::uint64_t number = 0;   ///< number of the pulse within its request, from 0
    std::uint64_t first_element = 0;
    std::uint64_t elements = 0;

    friend auto operator<=>(const Pulse&, const Pulse&) = default;
  };

  enum class Answer : std::uint8_t {
    pulse,     ///< send the returned pulse
    wait,      ///< wait for responses first
    retry,     ///< not admitted for lack of a counter or credit: ask again at retry_at()
    finished,  ///< all pulses have been sent
    failed,    ///< all attempts have failed: status() has the error
  };

  /// Totals since the start, for reports.
  struct Counters {
    std::uint64_t pulses = 0;
    std::uint64_t retries = 0;
    std::uint64_t failures = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t in_flight_high_water = 0;

    friend auto operator<=>(const Counters&, const Counters&) = default;
  };

  /// Fails with invalid_argument if the capacity, k, window, J or number of counters is 0, if k
  /// exceeds C, or if the window exceeds kMaxWindow.
  static Result<PulsedCredits> create(const Settings& settings);

  /// Opens a reduction of `elements` elements. The request exists until close().
  Request open(std::uint64_t elements);
  /// Returns the next pulse of a request, or the reason why there is none.
  Answer next(Request request, Instant now, Pulse& pulse);
  /// Counts `elements` of a pulse as returned. True if they were the last ones, which frees counter
  /// and credit. Fails with internal if fewer elements are outstanding on that counter.
  Result<bool> count(std::uint32_t counter, std::uint64_t elements);
  /// True if all pulses of the request have been sent and counted.
  bool complete(Request request) const;
  /// Removes a request that is complete, has failed or was never admitted. False if it has pulses
  /// in flight.
  bool close(Request request);

  Instant retry_at(Request request) const { return requests_[request].retry_at; }
  /// The error of a request after next() returned `failed`.
  Status status(Request request) const;

  std::uint64_t pulse_elements() const { return pulse_elements_; }
  /// Number of pulses that may be in flight at once, over all requests.
  std::uint32_t credits() const { return credits_; }
  /// Number of elements sent and not yet counted; never above the capacity.
  std::uint64_t outstanding_elements() const;
  const Counters& counters() const { return totals_; }
  const Settings& settings() const { return settings_; }

  /// Compares the state that determines behaviour; counters for reports are left out.
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
    std::uint64_t oldest_pulse = 0;  ///< oldest pulse that is not complete: the start of the window
    std::uint64_t completed_mask = 0;  ///< bit i: pulse oldest_pulse + i is complete

    friend auto operator<=>(const RequestState&, const RequestState&) = default;
  };

  /// A counter for the responses of one pulse.
  struct Counter {
    bool busy = false;
    Request request = 0;
    std::uint64_t pulse = 0;
    std::uint64_t left_elements = 0;

    friend auto operator<=>(const Counter&, const Counter&) = default;
  };

  explicit PulsedCredits(const Settings& settings);
  std::uint64_t pulses_of(const RequestState& request) const;
  /// Number of credits with a counter that are neither owned by an admitted request nor held by a
  /// pulse.
  std::uint32_t spare() const;
  /// True if a request that has pulses in flight may take another credit.
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
