// A short collective as one slot exchange (device/slot_exchange.hpp): each rank publishes its block
// once and reads the blocks it needs, without messages or a handshake. On a device that loses
// entries, a rank that misses an entry sends a NAK to the rank that published it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/slot_exchange.hpp"
#include "engine/core/operation.hpp"
#include "tutti/collective.hpp"

namespace tutti::engine {

class SlotExchangeOperation final : public Operation {
 public:
  /// True for a collective of a single round in which each rank sends the same block to all its
  /// receivers.
  static bool serves(Collective collective);
  /// Creates the operation for a call at rank `me`. The call must have passed its checks, and
  /// `serves` must be true for its collective. The endpoint must have a slot exchange for blocks of
  /// the call's size.
  static std::unique_ptr<SlotExchangeOperation> create(const CollectiveCall& call, Rank me);

  /// True for an all-to-all exchange: no rank leaves it before every rank has entered it.
  bool confirms_earlier() const override {
    return header_.flow == device::ExchangeHeader::Flow::all_to_all;
  }
  bool meets() const override { return true; }
  void on_data(Instant now, Rank from, std::uint32_t slot,
               std::span<const std::byte> payload) override;
  bool poll(Instant now) override;
  Instant next_deadline() const override;
  bool locally_complete() const override { return over_; }
  bool done() const override { return over_; }
  observe::Phase phase() const override { return observe::Phase::data; }
  Missing missing() const override;
  /// Leaves an exchange that has failed, so that its late entries do not wake this rank.
  void finish() override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  SlotExchangeOperation(Description description, const device::ExchangeHeader& header,
                        std::span<const std::byte> own, std::span<std::byte> receive);

  Collective collective() const { return static_cast<Collective>(header_.purpose); }
  /// An entry whose parts arrive over the reliable connection.
  struct Requested {
    Rank from = kNoRank;
    std::vector<std::byte> bytes;
    bool whole = false;
  };

  bool take(const device::SlotEntry& entry);
  bool take_all(std::span<const device::SlotEntry> entries);
  bool take_requested();
  void judge_sources(Instant now);
  bool fail_if_closed();
  void watch_missing();
  void request_missing(Instant now);

  /// Slot exchange of the endpoint; null until the operation begins.
  device::SlotExchange* slot_exchange_ = nullptr;
  device::ExchangeHeader header_;
  std::span<const std::byte> own_;
  std::span<std::byte> receive_;
  Instant watch_at_{};
  Instant request_at_ = kNever;
  Nanoseconds request_after_{};
  std::uint32_t requests_ = 0;        ///< number of times that missing entries were requested
  std::vector<Requested> requested_;  ///< entries from the reliable connections, some incomplete
  /// Time at which the complete entries in `requested_` are used; kNever: none is complete.
  Instant restore_at_ = kNever;
  std::vector<Rank> restored_;  ///< ranks whose entries came by the reliable connection only
  Instant polled_at_{};
  bool over_ = false;
};

}  // namespace tutti::engine
