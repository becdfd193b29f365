#include "device/ip/slot_exchange.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::device::ip {

using Flow = ExchangeHeader::Flow;

namespace {

constexpr std::size_t kLongestBlockBytes = 16 * 1024;
constexpr std::uint32_t kMaxPieces = 64;  // the bits of a place's map

constexpr std::uint64_t all_pieces(std::uint32_t count) {
  return count == kMaxPieces ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

}  // namespace

void encode(const ExchangeHeader& meeting, std::byte* out) {
  out[0] = static_cast<std::byte>(meeting.flow);
  out[1] = static_cast<std::byte>(meeting.purpose);
  out[2] = out[3] = std::byte{0};
  const std::uint32_t root = index(meeting.root);
  std::memcpy(out + 4, &root, 4);
  std::memcpy(out + 8, &meeting.block_bytes, 8);
}

bool decode(std::span<const std::byte> bytes, ExchangeHeader& meeting) {
  if (bytes.size() < kSlotHeadBytes) return false;
  const auto flow = static_cast<std::uint8_t>(bytes[0]);
  if (flow > static_cast<std::uint8_t>(Flow::all_to_root)) return false;
  std::uint32_t root = 0;
  std::memcpy(&root, bytes.data() + 4, 4);
  meeting.flow = static_cast<Flow>(flow);
  meeting.purpose = static_cast<std::uint8_t>(bytes[1]);
  meeting.root = rank_of(root);
  std::memcpy(&meeting.block_bytes, bytes.data() + 8, 8);
  return true;
}

IpSlotExchange::IpSlotExchange(Rank me, std::uint32_t size, MulticastQueuePair& pair,
                               std::uint32_t chunk_bytes)
    : SlotExchange(me, size),
      pair_(pair),
      chunk_bytes_(chunk_bytes),
      piece_bytes_(chunk_bytes - static_cast<std::uint32_t>(kSlotHeadBytes)),
      max_block_bytes_(
          std::min<std::size_t>(kLongestBlockBytes, std::size_t{kMaxPieces} * piece_bytes_)),
      places_(std::size_t{size} * kPlaces),
      left_by_(size) {}

std::uint32_t IpSlotExchange::pieces_of(std::uint64_t block_bytes) const {
  const std::uint64_t pieces = (block_bytes + piece_bytes_ - 1) / piece_bytes_;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(pieces, 1));
}

/// Whoever has yet to leave an earlier meeting keeps places for as many after it.
bool IpSlotExchange::place_is_free() {
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (rank_of(r) != me() && number() > left_by_[r] + kPlaces) return false;
  }
  return true;
}

void IpSlotExchange::put() {
  const std::span<const std::byte> block = own_block();
  Own& own = own_[number() % kPlaces];
  own.number = last_put_ = number();
  const std::uint32_t pieces = pieces_of(block.size());
  own.chunks.resize(pieces * kSlotHeadBytes + block.size());
  std::byte* out = own.chunks.data();
  for (std::uint32_t i = 0; i < pieces; ++i) {
    encode(what(), out);
    out += kSlotHeadBytes;
    const std::size_t at = std::size_t{i} * piece_bytes_;
    const std::size_t bytes = std::min<std::size_t>(piece_bytes_, block.size() - at);
    if (bytes > 0) std::memcpy(out, &block[at], bytes);
    out += bytes;
  }
  unsent_ = pieces;
  send_rest();
}

/// A network that refuses loses: who misses the entry asks for it.
void IpSlotExchange::send_rest() {
  const Own& own = own_[number() % kPlaces];
  const std::uint32_t first = pieces_of(own_block().size()) - unsent_;
  const auto posted = pair_.post({.epoch = meeting(),
                                  .first_psn = first,
                                  .data = std::span(own.chunks).subspan(first * chunk_bytes_),
                                  .chunk_bytes = chunk_bytes_,
                                  .to = what().flow == Flow::all_to_root ? what().root : kNoRank});
  unsent_ = posted ? unsent_ - *posted : 0;
}

void IpSlotExchange::exchange() {
  if (unsent_ > 0) send_rest();
  // A bounded number of looks, so that a flood cannot keep this rank here.
  constexpr int kMaxLooks = 4;
  for (int look = 0; look < kMaxLooks; ++look) {
    const std::size_t count = pair_.poll(chunks_);
    for (std::size_t i = 0; i < count; ++i) rejected_ += accept(chunks_[i]) ? 0 : 1;
    if (count > 0) pair_.release();
    if (count == 0 || all_here()) return;
  }
}

bool IpSlotExchange::is_here(Rank rank) {
  const PeerSlot& place = place_of(rank, number());
  return place.number == number() && place.missing_pieces == 0;
}

bool IpSlotExchange::all_here() {
  return std::all_of(missing().begin(), missing().end(),
                     [this](Rank rank) { return is_here(rank); });
}

std::optional<SlotEntry> IpSlotExchange::entry_of(Rank rank) {
  if (!is_here(rank)) return std::nullopt;
  const PeerSlot& place = place_of(rank, number());
  // Who is in this meeting has left the one before.
  left_by_[index(rank)] = std::max(left_by_[index(rank)], number() - 1);
  return SlotEntry{rank, place.meeting, place.block};
}

/// False: no part of an entry that this rank can use.
bool IpSlotExchange::accept(const ReceivedChunk& chunk) {
  // Meetings that it has left are over; more than there are places for nobody may be ahead.
  const std::uint32_t ahead = chunk.epoch - static_cast<std::uint32_t>(left_);
  if (ahead == 0 || ahead > kPlaces) return ahead == 0 || -ahead <= kPlaces;
  ExchangeHeader meeting;
  if (!pair_.place(chunk, nullptr) || !decode(chunk.payload, meeting)) return false;
  const std::uint32_t pieces = pieces_of(meeting.block_bytes);
  if (meeting.block_bytes > max_block_bytes_ || chunk.psn >= pieces) return false;
  const std::span<const std::byte> piece = chunk.payload.subspan(kSlotHeadBytes);
  const std::size_t at = std::size_t{chunk.psn} * piece_bytes_;
  if (piece.size() != std::min<std::size_t>(piece_bytes_, meeting.block_bytes - at)) return false;
  const std::uint64_t theirs = left_ + ahead;
  PeerSlot& place = place_of(chunk.source, theirs);
  if (place.number != theirs) {
    place.number = theirs;
    place.meeting = meeting;
    place.missing_pieces = all_pieces(pieces);
    place.block.resize(meeting.block_bytes);
  }
  if (place.meeting != meeting) return false;
  if (!piece.empty()) std::memcpy(&place.block[at], piece.data(), piece.size());
  place.missing_pieces &= ~(std::uint64_t{1} << chunk.psn);
  return true;
}

bool IpSlotExchange::resend(std::uint32_t missed) {
  const std::uint32_t back = meeting() - missed;
  // While this rank is kept out, the place of the present meeting is still that of an earlier one.
  if (back > kPlaces || number() <= back) return false;
  const std::uint64_t wanted = number() - back;
  const Own& own = own_[wanted % kPlaces];
  // Its first time may be still to come.
  if (own.number != wanted || (back == 0 && (slot_busy() || unsent_ > 0))) return false;
  (void)pair_.post(
      {.epoch = missed, .first_psn = 0, .data = own.chunks, .chunk_bytes = chunk_bytes_});
  return true;
}

void IpSlotExchange::on_left(Rank rank, std::uint32_t last) {
  // It may be ahead, where it needs nothing of this rank.
  std::uint64_t& known = left_by_[index(rank)];
  const std::uint32_t news = last - static_cast<std::uint32_t>(known);
  if (news <= INT32_MAX) known += news;
}

std::vector<Rank> IpSlotExchange::behind() const {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (rank_of(r) != me() && left_by_[r] < last_put_) ranks.push_back(rank_of(r));
  }
  return ranks;
}

}  // namespace tutti::device::ip
