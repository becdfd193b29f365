// Pulsed credits (T4): what a host's reductions have outstanding in the network never exceeds its
// capacity of C elements.
//
// A reduction of m elements is cut into pulses of ceil(C / k), so up to k of them hide the time
// that one takes; m > C therefore becomes several rounds of the network's capacity. A pulse holds a
// counter and one credit. Responses are counted there, and when the count reaches the pulse's size,
// counter and credit come back. Where k does not divide C, k pulses would be more than C: fewer are
// let out then, so that C holds.
//
// Requests share the credits. Each of up to J requests (`requests`) has one credit and one counter
// for itself from its admission to its end, and further pulses come only from what is beyond those
// J. Without that, two nodes could each give everything to a different reduction and wait for each
// other for ever (the tests' model finds it). A request that finds neither counter nor credit,
// which takes more than J requests or fewer than J credits, tries again after `retry_after`; after
// `attempts` tries the host gets an error. Nobody takes further pulses while a request waits so.
//
// Pulses of a request form a window: pulse p + w starts after pulse p has completed (w: `window`),
// so p modulo w names a channel that is free.
//
// protocol/credit_window.hpp has the same arithmetic for another question. There, one stream is
// multicast to all, and a pulse's credit returns when every receiver has consumed it, news of which
// runs up a tree; here the sender itself counts the responses to its own requests. A credit window
// could keep a request of this class per chain (elements: chunks; a response: a child's report) and
// would shrink to its tree and its proofs of loss. This class knows nothing of either.
//
// Time is an argument. Copies are independent and comparable: the tests explore every interleaving.
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
    std::uint64_t capacity_elements = 65536;  ///< C
    std::uint32_t pulses = 4;                 ///< k: a pulse is a k-th of the capacity
    std::uint32_t window = 4;                 ///< of one request; at most kMaxWindow
    std::uint32_t requests = 1;  ///< J: reductions at once that must not wait for one another
    std::uint32_t counters = 64;
    std::uint32_t attempts = 16;  ///< to be admitted, before the host gets an error
    Nanoseconds retry_after{0};

    friend auto operator<=>(const Settings&, const Settings&) = default;
  };
  static constexpr std::uint32_t kMaxWindow = 64;

  /// Index of an open request.
  using Request = std::uint32_t;

  /// A part of a reduction that may be injected now.
  struct Pulse {
    std::uint32_t counter = 0;  ///< to count its responses with
    std::uint64_t number = 0;   ///< in its request, from 0
    std::uint64_t first_element = 0;
    std::uint64_t elements = 0;

    friend auto operator<=>(const Pulse&, const Pulse&) = default;
  };

  enum class Answer : std::uint8_t {
    pulse,     ///< inject it
    wait,      ///< responses must come first
    retry,     ///< neither counter nor credit to begin with: ask again at retry_at()
    finished,  ///< all pulses have been injected
    failed,    ///< out of attempts; status() has the error
  };

  /// Totals, for reports.
  struct Counters {
    std::uint64_t pulses = 0;
    std::uint64_t retries = 0;
    std::uint64_t failures = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t in_flight_high_water = 0;

    friend auto operator<=>(const Counters&, const Counters&) = default;
  };

  /// Errors (invalid_argument): a capacity, k, window, J or number of counters of 0, k above C, a
  /// window above kMaxWindow.
  static Result<PulsedCredits> create(const Settings& settings);

  /// A reduction of that many elements. The request stays until close().
  Request open(std::uint64_t elements);
  /// The next pulse of a request, or why there is none.
  Answer next(Request request, Instant now, Pulse& pulse);
  /// `elements` of a pulse have come back. True where that was the last: counter and credit are
  /// free. Internal error where nothing is outstanding there, or less.
  Result<bool> count(std::uint32_t counter, std::uint64_t elements);
  /// All pulses have been injected and counted.
  bool complete(Request request) const;
  /// Forgets a request: complete, failed, or never admitted. False where pulses are in flight.
  bool close(Request request);

  Instant retry_at(Request request) const { return requests_[request].retry_at; }
  /// Why the last next() answered `failed`.
  Status status(Request request) const;

  std::uint64_t pulse_elements() const { return pulse_elements_; }
  /// Pulses that may be in flight together, over all requests.
  std::uint32_t credits() const { return credits_; }
  /// Elements injected and not counted yet; never above the capacity.
  std::uint64_t outstanding_elements() const;
  const Counters& counters() const { return totals_; }
  const Settings& settings() const { return settings_; }

  /// Whether two controllers will behave alike; what they have counted for reports may differ.
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
    std::uint64_t oldest_pulse = 0;    ///< not complete; the window begins here
    std::uint64_t completed_mask = 0;  ///< of pulses oldest_pulse + i

    friend auto operator<=>(const RequestState&, const RequestState&) = default;
  };

  /// A pulse's responses still to come.
  struct Counter {
    bool busy = false;
    Request request = 0;
    std::uint64_t pulse = 0;
    std::uint64_t left_elements = 0;

    friend auto operator<=>(const Counter&, const Counter&) = default;
  };

  explicit PulsedCredits(const Settings& settings);
  std::uint64_t pulses_of(const RequestState& request) const;
  /// Credits and counters that no admitted request keeps for itself and no pulse holds.
  std::uint32_t spare() const;
  /// Whether a request that has pulses in flight may take another credit.
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
