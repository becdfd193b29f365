// A device whose packets arrive in the order that the explorer chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"

namespace tutti::simulation {

class ChoiceEndpoint;

/// The packets in flight between all ranks.
class ModelCheckNetwork {
 public:
  ModelCheckNetwork(std::uint32_t ranks, std::uint32_t chunk_bytes,
                    std::vector<std::uint32_t> lost);
  ~ModelCheckNetwork();

  /// Makes the endpoint of a rank; must be called in rank order. The network must outlive the
  /// endpoint.
  std::unique_ptr<device::Endpoint> open(Rank rank);

  /// A packet that the explorer may deliver next.
  struct Choice {
    Rank at = kNoRank;
    /// For a chunk: its index among the chunks in flight to rank `at`.
    std::uint32_t chunk = 0;
    /// For a message: its sender. The message is the oldest one in flight from this sender to rank
    /// `at`. For a chunk: kNoRank.
    Rank from = kNoRank;
    std::uint64_t name = 0;  ///< hash of the packet's contents
  };
  /// All packets that may arrive next, in an order that depends only on the packets in flight.
  std::vector<Choice> choices() const;
  void deliver(const Choice& choice);
  /// Number of packets sent so far; a multicast chunk counts once.
  std::uint64_t sent() const { return sent_; }
  static std::string describe(const Choice& choice);

 private:
  friend class ChoiceEndpoint;
  using Bytes = std::vector<std::byte>;
  struct Chunk {
    std::uint32_t epoch = 0;
    std::uint32_t psn = 0;
    Rank source = kNoRank;
    Bytes bytes;
  };
  struct Message {
    device::Opcode opcode = device::Opcode::send;
    bool answer = false;  ///< whether the message is the response to a READ
    bool refused = false;
    std::uint64_t work_id = 0;
    Bytes bytes;
    std::span<std::byte> local;  ///< memory for the data of a READ
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };

  std::deque<Message>& channel(Rank from, Rank to) {
    return channels_[index(from) * ranks_ + index(to)];
  }
  const std::deque<Message>& channel(Rank from, Rank to) const {
    return channels_[index(from) * ranks_ + index(to)];
  }
  void multicast(Rank from, const Chunk& chunk);
  void serve_read(Rank at, Rank from, const Message& request);
  static std::uint64_t name_of(const Chunk& chunk);
  static std::uint64_t name_of(Rank from, const Message& message);

  std::uint32_t ranks_;
  std::uint32_t chunk_bytes_;
  std::vector<std::uint32_t> lost_;
  std::uint32_t multicast_ = 0;  ///< number of chunks sent so far
  std::uint64_t sent_ = 0;
  std::vector<ChoiceEndpoint*> endpoints_;
  std::vector<std::vector<Chunk>> waiting_;  ///< chunks in flight, indexed by receiver
  std::vector<std::deque<Message>> channels_;
};

}  // namespace tutti::simulation
