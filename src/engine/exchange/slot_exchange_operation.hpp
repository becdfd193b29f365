// A short collective as one meeting at a device's board (device/board.hpp): everybody writes once
// and reads what it needs. No message and no handshake; where entries may get lost, who misses one
// asks its rank for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/slot_exchange.hpp"
#include "engine/core/operation.hpp"
#include "tutti/collective.hpp"

namespace tutti::engine {

class SlotExchangeOperation final : public Operation {
 public:
  /// Whether a collective is one round in which what a rank sends is the same for all.
  static bool serves(Collective collective);
  /// A call, checked, of a collective that is served, at rank `me`, whose endpoint has a board that
  /// takes blocks so long.
  static std::unique_ptr<SlotExchangeOperation> create(const CollectiveCall& call, Rank me);

  /// Nobody leaves a meeting of all before everybody is there.
  bool confirms_earlier() const override {
    return meeting_.flow == device::ExchangeHeader::Flow::all_to_all;
  }
  bool meets() const override { return true; }
  bool poll(Instant now) override;
  Instant next_deadline() const override;
  bool locally_complete() const override { return over_; }
  bool done() const override { return over_; }
  observe::Phase phase() const override { return observe::Phase::data; }
  std::string missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  SlotExchangeOperation(Description description, const device::ExchangeHeader& meeting,
                        std::span<const std::byte> own, std::span<std::byte> receive);

  Collective collective() const { return static_cast<Collective>(meeting_.purpose); }
  bool take(const device::SlotEntry& entry);
  void watch_missing();
  void ask(Instant now);

  device::SlotExchange* slot_exchange_ = nullptr;  ///< once begun
  device::ExchangeHeader meeting_;
  std::span<const std::byte> own_;
  std::span<std::byte> receive_;
  Instant watch_at_{};
  Instant ask_at_ = kNever;
  Nanoseconds ask_after_{};
  Instant polled_at_{};
  bool over_ = false;
};

}  // namespace tutti::engine
