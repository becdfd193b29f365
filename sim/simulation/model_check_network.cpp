#include "sim/simulation/model_check_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/random.hpp"
#include "device/rc/memory_table.hpp"
#include "wire/header.hpp"

namespace tutti::simulation {

using device::Completion;
using device::Opcode;
using device::ReceivedChunk;

/// One rank's endpoint, which retains delivered packets until the engine polls.
class ChoiceEndpoint final : public device::Endpoint, private device::MulticastQueuePair {
 public:
  ChoiceEndpoint(ModelCheckNetwork& network, Rank rank) : network_(&network), rank_(rank) {
    for (const auto one : {device::Capability::multicast_ud, device::Capability::reliable_send,
                           device::Capability::read}) {
      capabilities_.bits |= static_cast<std::uint32_t>(one);
    }
    capabilities_.max_chunk_bytes = network.chunk_bytes_;
    capabilities_.immediate_bits = 64;
    capabilities_.receive_window_bytes = 1u << 16;
    capabilities_.max_send_batch = 64;
  }

  const device::Capabilities& capabilities() const override { return capabilities_; }
  std::vector<std::byte> address() const override { return {}; }
  Status connect(std::span<const std::vector<std::byte>>) override { return {}; }
  std::uint32_t subgroup_count() const override { return 1; }
  device::MulticastQueuePair& multicast(std::uint32_t) override { return *this; }
  Result<device::MemoryKey> register_memory(std::span<std::byte> memory) override {
    return regions_.add(memory);
  }
  void deregister_memory(device::MemoryKey key) override { regions_.remove(key); }
  std::size_t max_message_bytes() const override { return 4096; }
  Status post(Instant, const device::WorkRequest& request) override {
    ModelCheckNetwork::Message message;
    message.opcode = request.opcode;
    message.work_id = request.work_id;
    if (request.opcode == Opcode::send) {
      message.bytes.assign(request.local.begin(), request.local.end());
    } else if (request.opcode == Opcode::read) {
      message.local = request.local;
      message.key = request.remote_key.key;
      message.offset = request.remote_offset;
      message.length = request.local.size();
    } else {
      return failure(Code::unsupported,
                     "the explorer's network does not support opcode {}: use SEND or READ",
                     static_cast<int>(request.opcode));
    }
    network_->channel(rank_, request.peer).push_back(std::move(message));
    ++network_->sent_;
    return {};
  }
  std::size_t poll(Instant, std::span<Completion> completions) override {
    lent_messages_.clear();
    std::size_t count = 0;
    while (count < completions.size() && !completions_.empty()) {
      lent_messages_.push_back(std::move(completions_.front().bytes));
      completions[count] = completions_.front().completion;
      completions[count++].payload = lent_messages_.back();
      completions_.pop_front();
    }
    return count;
  }
  void watch(Rank, bool) override {}
  bool quiet() const override { return completions_.empty(); }
  Instant next_deadline() const override { return kNever; }
  int wait_descriptor() const override { return -1; }
  void notify_when_sendable(bool) override {}
  device::EndpointCounters counters() const override { return {}; }

  Result<std::uint32_t> post(const device::ChunkRun& run) override {
    std::uint32_t count = 0;
    for (std::size_t at = 0; at < run.data.size(); at += run.chunk_bytes, ++count) {
      const auto bytes =
          run.data.subspan(at).first(std::min<std::size_t>(run.chunk_bytes, run.data.size() - at));
      network_->multicast(rank_, {run.epoch, run.first_psn + count, rank_,
                                  ModelCheckNetwork::Bytes(bytes.begin(), bytes.end())});
    }
    return count;
  }
  std::uint64_t unsent_bytes() override { return 0; }
  std::size_t poll(std::span<ReceivedChunk> chunks) override {
    lent_chunks_ = std::min(chunks.size(), chunks_.size());
    for (std::size_t i = 0; i < lent_chunks_; ++i) {
      chunks[i] = {chunks_[i].epoch, chunks_[i].psn, chunks_[i].source, chunks_[i].bytes, nullptr};
    }
    return lent_chunks_;
  }
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) override {
    if (destination != nullptr) {
      std::memcpy(destination, chunk.payload.data(), chunk.payload.size());
    }
    return true;
  }
  void release() override {
    chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(lent_chunks_));
    lent_chunks_ = 0;
  }
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }

  void arrive(ModelCheckNetwork::Chunk chunk) { chunks_.push_back(std::move(chunk)); }
  void arrive(const Completion& completion, ModelCheckNetwork::Bytes bytes) {
    completions_.push_back({completion, std::move(bytes)});
  }
  const device::rc::MemoryTable& regions() const { return regions_; }

 private:
  struct Arrived {
    Completion completion;
    ModelCheckNetwork::Bytes bytes;
  };

  ModelCheckNetwork* network_;
  Rank rank_;
  device::Capabilities capabilities_;
  device::rc::MemoryTable regions_{device::rc::MemoryTable::Keys::counted};
  std::deque<Arrived> completions_;
  std::deque<ModelCheckNetwork::Bytes> lent_messages_;
  std::vector<ModelCheckNetwork::Chunk> chunks_;
  std::size_t lent_chunks_ = 0;
};

ModelCheckNetwork::ModelCheckNetwork(std::uint32_t ranks, std::uint32_t chunk_bytes,
                                     std::vector<std::uint32_t> lost)
    : ranks_(ranks),
      chunk_bytes_(chunk_bytes),
      lost_(std::move(lost)),
      endpoints_(ranks),
      waiting_(ranks),
      channels_(std::size_t{ranks} * ranks) {}
ModelCheckNetwork::~ModelCheckNetwork() = default;

std::unique_ptr<device::Endpoint> ModelCheckNetwork::open(Rank rank) {
  auto endpoint = std::make_unique<ChoiceEndpoint>(*this, rank);
  endpoints_[index(rank)] = endpoint.get();
  return endpoint;
}

void ModelCheckNetwork::multicast(Rank from, const Chunk& chunk) {
  ++sent_;
  const std::uint32_t lost = multicast_ < lost_.size() ? lost_[multicast_] : 0;
  ++multicast_;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (rank_of(r) != from && (lost >> r & 1) == 0) waiting_[r].push_back(chunk);
  }
}

std::uint64_t ModelCheckNetwork::name_of(const Chunk& chunk) {
  return draw(chunk.epoch, chunk.psn, index(chunk.source), 1);
}

std::uint64_t ModelCheckNetwork::name_of(Rank from, const Message& message) {
  std::uint64_t name =
      draw(index(from),
           static_cast<std::uint64_t>(message.opcode) * 4 + message.answer * 2 + message.refused,
           message.offset, message.length);
  for (const std::byte byte : message.bytes) name = mix(name ^ static_cast<std::uint64_t>(byte));
  return name;
}

std::vector<ModelCheckNetwork::Choice> ModelCheckNetwork::choices() const {
  std::vector<Choice> all;
  for (std::uint32_t to = 0; to < ranks_; ++to) {
    for (std::uint32_t i = 0; i < waiting_[to].size(); ++i) {
      all.push_back({rank_of(to), i, kNoRank, name_of(waiting_[to][i])});
    }
    for (std::uint32_t from = 0; from < ranks_; ++from) {
      const auto& queue = channel(rank_of(from), rank_of(to));
      if (queue.empty()) continue;
      all.push_back({rank_of(to), 0, rank_of(from), name_of(rank_of(from), queue.front())});
    }
  }
  return all;
}

void ModelCheckNetwork::deliver(const Choice& choice) {
  ChoiceEndpoint& endpoint = *endpoints_[index(choice.at)];
  if (choice.from == kNoRank) {
    auto& waiting = waiting_[index(choice.at)];
    endpoint.arrive(std::move(waiting[choice.chunk]));
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(choice.chunk));
    return;
  }
  auto& queue = channel(choice.from, choice.at);
  Message message = std::move(queue.front());
  queue.pop_front();
  if (message.opcode == Opcode::send) {
    endpoint.arrive({.opcode = Opcode::receive, .peer = choice.from}, std::move(message.bytes));
  } else if (!message.answer) {
    serve_read(choice.at, choice.from, message);
  } else {
    if (!message.refused) {
      std::copy(message.bytes.begin(), message.bytes.end(), message.local.begin());
    }
    endpoint.arrive({.opcode = Opcode::read,
                     .code = message.refused ? Code::invalid_argument : Code::ok,
                     .peer = choice.from,
                     .work_id = message.work_id},
                    {});
  }
}

void ModelCheckNetwork::serve_read(Rank at, Rank from, const Message& request) {
  Message answer = request;
  answer.answer = true;
  const auto memory =
      endpoints_[index(at)]->regions().resolve(request.key, request.offset, request.length);
  answer.refused = !memory;
  if (memory) answer.bytes.assign(memory->begin(), memory->end());
  channel(at, from).push_back(std::move(answer));
}

std::string ModelCheckNetwork::describe(const Choice& choice) {
  if (choice.from == kNoRank) return fmt::format("chunk at {}", index(choice.at));
  return fmt::format("message {}>{}", index(choice.from), index(choice.at));
}

}  // namespace tutti::simulation
