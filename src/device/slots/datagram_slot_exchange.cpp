#include "device/slots/datagram_slot_exchange.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::device::slots {

using Flow = ExchangeHeader::Flow;

namespace {

constexpr std::size_t kLongestBlockBytes = 16 * 1024;
constexpr std::uint32_t kMaxPieces = 64;  // number of bits of PeerSlot::missing_pieces

constexpr std::uint64_t all_pieces(std::uint32_t count) {
  return count == kMaxPieces ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

}  // namespace

void encode(const ExchangeHeader& header, std::byte* out) {
  out[0] = static_cast<std::byte>(header.flow);
  out[1] = static_cast<std::byte>(header.purpose);
  out[2] = out[3] = std::byte{0};
  const std::uint32_t root = index(header.root);
  std::memcpy(out + 4, &root, 4);
  std::memcpy(out + 8, &header.block_bytes, 8);
}

bool decode(std::span<const std::byte> bytes, ExchangeHeader& header) {
  if (bytes.size() < kSlotHeadBytes) return false;
  const auto flow = static_cast<std::uint8_t>(bytes[0]);
  if (flow > static_cast<std::uint8_t>(Flow::all_to_root)) return false;
  std::uint32_t root = 0;
  std::memcpy(&root, bytes.data() + 4, 4);
  header.flow = static_cast<Flow>(flow);
  header.purpose = static_cast<std::uint8_t>(bytes[1]);
  header.root = rank_of(root);
  std::memcpy(&header.block_bytes, bytes.data() + 8, 8);
  return true;
}

DatagramSlotExchange::DatagramSlotExchange(Rank me, std::uint32_t size, MulticastQueuePair& pair,
                                           std::uint32_t chunk_bytes)
    : SlotExchange(me, size),
      pair_(pair),
      peer_slots_(std::size_t{size} * kSlots),
      acked_by_(size) {
  limit_chunks(chunk_bytes);
}

void DatagramSlotExchange::limit_chunks(std::uint32_t chunk_bytes) {
  chunk_bytes_ = chunk_bytes;
  piece_bytes_ = chunk_bytes - static_cast<std::uint32_t>(kSlotHeadBytes);
  max_block_bytes_ =
      std::min<std::size_t>(kLongestBlockBytes, std::size_t{kMaxPieces} * piece_bytes_);
}

std::uint32_t DatagramSlotExchange::pieces_of(std::uint64_t block_bytes) const {
  const std::uint64_t pieces = (block_bytes + piece_bytes_ - 1) / piece_bytes_;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(pieces, 1));
}

/// Number of the exchange that used the slot of the present exchange last; 0: none.
std::uint64_t DatagramSlotExchange::last_user_of_slot() const {
  return number() - std::min<std::uint64_t>(number(), kSlots);
}

/// True if the present exchange may use its slot: every peer has acknowledged the exchange that is
/// kSlots earlier.
bool DatagramSlotExchange::slot_is_free() {
  const std::uint64_t last_user = last_user_of_slot();
  if (last_user <= acked_by_all_) return true;
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (rank_of(r) != me() && acked_by_[r] < last_user) return false;
  }
  return true;
}

void DatagramSlotExchange::publish() {
  const std::span<const std::byte> block = own_block();
  Own& own = own_[number() % kSlots];
  own.number = last_published_ = number();
  const std::uint32_t pieces = pieces_of(block.size());
  own.chunks.resize(pieces * kSlotHeadBytes + block.size());
  std::byte* out = own.chunks.data();
  for (std::uint32_t i = 0; i < pieces; ++i) {
    encode(header(), out);
    out += kSlotHeadBytes;
    const std::size_t at = std::size_t{i} * piece_bytes_;
    const std::size_t bytes = std::min<std::size_t>(piece_bytes_, block.size() - at);
    if (bytes > 0) std::memcpy(out, &block[at], bytes);
    out += bytes;
  }
  unsent_ = pieces;
  send_rest();
}

/// Sends the unsent chunks of this rank's entry. Chunks that the queue pair refuses with an error
/// count as lost, and a rank that misses the entry sends a NAK.
void DatagramSlotExchange::send_rest() {
  const Own& own = own_[number() % kSlots];
  const std::uint32_t first = pieces_of(own_block().size()) - unsent_;
  const auto posted =
      pair_.post({.epoch = exchange(),
                  .first_psn = first,
                  .data = std::span(own.chunks).subspan(first * chunk_bytes_),
                  .chunk_bytes = chunk_bytes_,
                  .to = header().flow == Flow::all_to_root ? header().root : kNoRank,
                  .priority = Priority::high});
  unsent_ = posted ? unsent_ - *posted : 0;
}

void DatagramSlotExchange::progress() {
  if (unsent_ > 0) send_rest();
  // The number of polls per call is bounded, so that a flood of datagrams cannot keep the caller
  // busy.
  constexpr int kMaxLooks = 4;
  for (int look = 0; look < kMaxLooks; ++look) {
    const std::size_t count = pair_.poll(chunks_);
    // The queue pair counts each chunk that fails verification. Old chunks are verified, too, so
    // that every repeated or forged chunk is counted.
    for (std::size_t i = 0; i < count; ++i) {
      if (pair_.copy_and_verify(chunks_[i], nullptr) && !accept(chunks_[i])) ++rejected_;
    }
    if (count > 0) pair_.release();
    if (count == 0 || all_arrived()) return;
  }
}

bool DatagramSlotExchange::has_arrived(Rank rank) {
  const PeerSlot& slot = slot_of(rank, number());
  return slot.number == number() && slot.missing_pieces == 0;
}

bool DatagramSlotExchange::all_arrived() {
  return std::all_of(missing().begin(), missing().end(),
                     [this](Rank rank) { return has_arrived(rank); });
}

std::optional<SlotEntry> DatagramSlotExchange::entry_of(Rank rank) {
  if (!has_arrived(rank)) return std::nullopt;
  const PeerSlot& slot = slot_of(rank, number());
  // An entry of the present exchange proves that its rank has acknowledged the previous exchange.
  acked_by_[index(rank)] = std::max(acked_by_[index(rank)], number() - 1);
  // The rank published it in a free slot, so every rank has acknowledged the earlier user of the
  // slot.
  acked_by_all_ = last_user_of_slot();
  return SlotEntry{rank, slot.header, slot.block};
}

/// Stores a verified chunk of another rank's entry, or ignores a duplicate; false if the chunk is
/// not a valid part of an entry.
bool DatagramSlotExchange::accept(const ReceivedChunk& chunk) {
  // A chunk of a recently acknowledged exchange is a duplicate. No rank can be more than kSlots
  // exchanges ahead of this rank, so a chunk from further ahead is invalid.
  const std::uint32_t ahead = chunk.epoch - static_cast<std::uint32_t>(acked_);
  if (ahead == 0 || ahead > kSlots) return ahead == 0 || -ahead <= kSlots;
  return store(chunk.source, acked_ + ahead, chunk.psn, chunk.payload);
}

/// Stores a chunk (slot header and piece) of the entry of rank `from` in `exchange`; false if the
/// chunk is not a valid part of an entry.
bool DatagramSlotExchange::store(Rank from, std::uint64_t exchange, std::uint32_t index_of_piece,
                                 std::span<const std::byte> chunk) {
  ExchangeHeader header;
  if (!decode(chunk, header)) return false;
  const std::uint32_t pieces = pieces_of(header.block_bytes);
  if (header.block_bytes > max_block_bytes_ || index_of_piece >= pieces) return false;
  const std::span<const std::byte> piece = chunk.subspan(kSlotHeadBytes);
  const std::size_t at = std::size_t{index_of_piece} * piece_bytes_;
  if (piece.size() != std::min<std::size_t>(piece_bytes_, header.block_bytes - at)) return false;
  PeerSlot& slot = slot_of(from, exchange);
  if (slot.number != exchange) {
    slot.number = exchange;
    slot.header = header;
    slot.missing_pieces = all_pieces(pieces);
    slot.block.resize(header.block_bytes);
  }
  if (slot.header != header) return false;
  if (!piece.empty()) std::memcpy(&slot.block[at], piece.data(), piece.size());
  slot.missing_pieces &= ~(std::uint64_t{1} << index_of_piece);
  return true;
}

std::span<const std::byte> DatagramSlotExchange::entry(std::uint32_t missed) const {
  const std::uint32_t back = exchange() - missed;
  // While this rank waits for its slot, the slot still contains the entry of an earlier exchange.
  if (back > kSlots || number() <= back) return {};
  const std::uint64_t wanted = number() - back;
  const Own& own = own_[wanted % kSlots];
  // An entry whose first transmission is still pending is not sent again.
  if (own.number != wanted || (back == 0 && (slot_busy() || unsent_ > 0))) return {};
  return own.chunks;
}

bool DatagramSlotExchange::resend(std::uint32_t missed) {
  const std::span<const std::byte> chunks = entry(missed);
  if (chunks.empty()) return false;
  (void)pair_.post({.epoch = missed,
                    .first_psn = 0,
                    .data = chunks,
                    .chunk_bytes = chunk_bytes_,
                    .priority = Priority::high});
  return true;
}

bool DatagramSlotExchange::restore(Rank from, std::span<const std::byte> bytes) {
  if (index(from) >= size() || from == me() || !waits() || has_arrived(from)) return false;
  for (std::uint32_t piece = 0; !bytes.empty(); ++piece) {
    const auto chunk = bytes.first(std::min<std::size_t>(chunk_bytes_, bytes.size()));
    if (!store(from, number(), piece, chunk)) return false;
    bytes = bytes.subspan(chunk.size());
  }
  return has_arrived(from);
}

void DatagramSlotExchange::on_acked(Rank rank, std::uint32_t last) {
  // A rank that needs no entry of this rank may be ahead of this rank, so `last` may be later than
  // the present exchange. No rank is 2^31 exchanges away from this rank.
  const std::int64_t ahead = static_cast<std::int32_t>(last - exchange());
  const std::int64_t acked = static_cast<std::int64_t>(number()) + ahead;
  std::uint64_t& known = acked_by_[index(rank)];
  if (acked > static_cast<std::int64_t>(known)) known = static_cast<std::uint64_t>(acked);
}

std::vector<Rank> DatagramSlotExchange::awaited_acks() const {
  return ranks_behind(slot_busy() ? std::max(last_published_, last_user_of_slot())
                                  : last_published_);
}

/// The other ranks that are not known to have acknowledged `exchange`.
std::vector<Rank> DatagramSlotExchange::ranks_behind(std::uint64_t exchange) const {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < size(); ++r) {
    const bool acked = std::max(acked_by_[r], acked_by_all_) >= exchange;
    if (rank_of(r) != me() && !acked) ranks.push_back(rank_of(r));
  }
  return ranks;
}

}  // namespace tutti::device::slots
