// The bootstrap of a side communicator: what the environment of one process prefers for the
// collectives of its own communicators is no matter of this one, and one member, the aggregator, is
// called by the address that the job knows it by.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/bootstrap.hpp"
#include "runtime/greeting.hpp"

namespace tutti::runtime {

class SideBootstrap final : public Bootstrap {
 public:
  /// `name` stands for the host's in messages; "": it stays. `inner` outlives this object.
  explicit SideBootstrap(Bootstrap& inner, std::string name = {})
      : inner_(inner), name_(std::move(name)) {}

  Rank rank() const override { return inner_.rank(); }
  std::uint32_t size() const override { return inner_.size(); }
  std::string description() const override { return inner_.description(); }
  /// The first exchange is of greetings.
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override {
    if (std::exchange(greeted_, true)) return inner_.allgather(mine, timeout);
    auto greeting = Greeting::decode(mine);
    if (!greeting) return greeting.status();
    greeting->algorithms.clear();
    if (!name_.empty()) greeting->host = name_;
    return inner_.allgather(greeting->encode(), timeout);
  }

 private:
  Bootstrap& inner_;
  std::string name_;
  bool greeted_ = false;
};

}  // namespace tutti::runtime
