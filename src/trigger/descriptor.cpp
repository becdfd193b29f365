#include "trigger/descriptor.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace tutti::trigger {
namespace {

/// Writes bit fields into a word, from the lowest bit on.
class WordWriter {
 public:
  WordWriter& put(std::uint64_t value, unsigned bits) {
    word_ |= value << at_;
    at_ += bits;
    return *this;
  }
  std::uint64_t word() const { return word_; }

 private:
  std::uint64_t word_ = 0;
  unsigned at_ = 0;
};

class WordReader {
 public:
  explicit WordReader(std::uint64_t word) : word_(word) {}
  std::uint32_t take(unsigned bits) {
    const auto value = static_cast<std::uint32_t>(word_ & ((std::uint64_t{1} << bits) - 1));
    word_ >>= bits;
    return value;
  }
  bool flag() { return take(1) != 0; }
  /// True if all bits that take() has not returned yet are zero.
  bool empty() const { return word_ == 0; }

 private:
  std::uint64_t word_;
};

std::uint64_t first_word(const Descriptor& d) {
  return WordWriter()
      .put(index(d.destination), kNodeBits)
      .put(index(d.destination_port), kPortBits)
      .put(index(d.source_port), kPortBits)
      .put(index(d.step), kSequenceBits)
      .put(index(d.job), kJobBits)
      .put(d.kind == PayloadKind::rdma ? 1 : 0, 1)
      .word();
}

std::uint64_t second_word(const Descriptor& d) {
  return WordWriter()
      .put(d.collective, 1)
      .put(d.head, 1)
      .put(d.tail, 1)
      .put(d.trigger, 1)
      .put(d.named_count, kCountBits)
      .put(d.swap_local_data, 1)
      .put(d.swap_local_port, 1)
      .put(d.swap_remote_data, 1)
      .put(d.swap_remote_address, 1)
      .put(d.reduce, 1)
      .put(d.collective_end, 1)
      .put(static_cast<std::uint64_t>(d.operation), 4)
      .put(static_cast<std::uint64_t>(d.type), 4)
      .put(d.local_position, 5)
      .put(d.contributions, kContributionBits)
      .word();
}

bool read_first(std::uint64_t word, Descriptor& d) {
  WordReader reader(word);
  d.destination = static_cast<NodeId>(reader.take(kNodeBits));
  d.destination_port = static_cast<Port>(reader.take(kPortBits));
  d.source_port = static_cast<Port>(reader.take(kPortBits));
  d.step = static_cast<SequenceId>(reader.take(kSequenceBits));
  d.job = static_cast<JobId>(reader.take(kJobBits));
  d.kind = reader.flag() ? PayloadKind::rdma : PayloadKind::mini;
  return reader.empty();
}

bool read_second(std::uint64_t word, Descriptor& d) {
  WordReader reader(word);
  d.collective = reader.flag();
  d.head = reader.flag();
  d.tail = reader.flag();
  d.trigger = reader.flag();
  d.named_count = static_cast<std::uint8_t>(reader.take(kCountBits));
  d.swap_local_data = reader.flag();
  d.swap_local_port = reader.flag();
  d.swap_remote_data = reader.flag();
  d.swap_remote_address = reader.flag();
  d.reduce = reader.flag();
  d.collective_end = reader.flag();
  const std::uint32_t operation = reader.take(4);
  const std::uint32_t type = reader.take(4);
  d.operation = static_cast<reduction::Operation>(operation);
  d.type = static_cast<reduction::ElementType>(type);
  d.local_position = static_cast<std::uint8_t>(reader.take(5));
  d.contributions = reader.take(kContributionBits);
  return reader.empty() && operation < reduction::kOperations && type < reduction::kElementTypes;
}

bool read_named(std::uint64_t word, NamedPacket& named) {
  WordReader reader(word);
  named.node = static_cast<NodeId>(reader.take(kNodeBits));
  named.port = static_cast<Port>(reader.take(kPortBits));
  named.step = static_cast<SequenceId>(reader.take(kSequenceBits));
  return reader.empty();
}

Status malformed(const char* what, std::uint64_t value) {
  return failure(Code::invalid_argument, "invalid descriptor: {} {}", what, value);
}

std::size_t data_words(const Descriptor& d) {
  return d.kind == PayloadKind::rdma ? 1 : (d.data_bytes + 7) / 8;
}

// Each named packet is in the hash buffer once, and its slot is freed once.
Status check_named(const Descriptor& d) {
  const auto named = d.named_packets();
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (std::find(named.begin(), named.begin() + i, named[i]) == named.begin() + i) continue;
    return failure(Code::invalid_argument,
                   "descriptor: the packet of node {} port {} step {} is named twice: name each "
                   "packet once",
                   index(named[i].node), index(named[i].port), index(named[i].step));
  }
  return Status();
}

Status check_reduction(const Descriptor& d) {
  if (!reduction::is_supported(d.operation, d.type)) {
    return failure(Code::unsupported, "descriptor: {} does not support {}: use an integer type",
                   to_string(d.operation), to_string(d.type));
  }
  if (d.data_bytes % reduction::element_bytes(d.type) != 0) {
    return failure(
        Code::invalid_argument,
        "descriptor: {} bytes of data are not a multiple of the {} bytes of an element of type "
        "{}: use whole elements",
        d.data_bytes, reduction::element_bytes(d.type), to_string(d.type));
  }
  if (d.local_position != kNoLocalOperand && d.local_position > d.named_count) {
    return failure(Code::invalid_argument,
                   "descriptor: local_position is {}, but the descriptor names only {} packets: "
                   "use {} or less",
                   d.local_position, d.named_count, d.named_count);
  }
  if (d.local_position == kNoLocalOperand && d.named_count == 0) {
    return failure(
        Code::invalid_argument,
        "descriptor: the reduction has no operand: name a packet, or set local_position");
  }
  return Status();
}

}  // namespace

void encode(const Descriptor& d, std::vector<std::uint64_t>& out) {
  out.insert(out.end(), {first_word(d), second_word(d), static_cast<std::uint64_t>(d.store_address),
                         static_cast<std::uint64_t>(d.remote_address), d.data_bytes});
  if (d.kind == PayloadKind::rdma) out.push_back(static_cast<std::uint64_t>(d.address));
  for (const NamedPacket& named : d.named_packets()) {
    out.push_back(WordWriter()
                      .put(index(named.node), kNodeBits)
                      .put(index(named.port), kPortBits)
                      .put(index(named.step), kSequenceBits)
                      .word());
  }
  if (d.kind == PayloadKind::rdma) return;
  const std::size_t at = out.size();
  out.resize(at + data_words(d));
  std::memcpy(out.data() + at, d.data.data(), d.data_bytes);
}

Result<Descriptor> decode_descriptor(std::span<const std::uint64_t>& words) {
  if (words.size() < 5) return malformed("has too few words:", words.size());
  Descriptor d;
  if (!read_first(words[0], d)) return malformed("reserved bits are set in word 0:", words[0]);
  if (!read_second(words[1], d))
    return malformed("the operation or type is unknown, or reserved bits are set, in word 1:",
                     words[1]);
  if (d.named_count > kMaxChildren) return malformed("names too many packets:", d.named_count);
  d.store_address = static_cast<Address>(words[2]);
  d.remote_address = static_cast<Address>(words[3]);
  const std::uint64_t most = d.kind == PayloadKind::mini ? kMaxMiniBytes : kMaxPayloadBytes;
  if (words[4] > most) return malformed("has too many bytes of data:", words[4]);
  d.data_bytes = static_cast<std::uint32_t>(words[4]);
  if (words.size() < 5 + data_words(d) + d.named_count) {
    return malformed("has too few words:", words.size());
  }
  words = words.subspan(5);
  if (d.kind == PayloadKind::rdma) {
    d.address = static_cast<Address>(words[0]);
    words = words.subspan(1);
  }
  for (std::uint32_t i = 0; i < d.named_count; ++i) {
    if (!read_named(words[i], d.named[i]))
      return malformed("reserved bits are set in the named packet with index", i);
  }
  words = words.subspan(d.named_count);
  if (d.kind == PayloadKind::rdma) return d;
  const std::uint64_t padding_bits = (8 - d.data_bytes % 8) % 8 * 8;
  if (padding_bits != 0 && words[data_words(d) - 1] >> (64 - padding_bits) != 0) {
    return malformed("the padding is not zero; number of padding bits:", padding_bits);
  }
  std::memcpy(d.data.data(), words.data(), d.data_bytes);
  words = words.subspan(data_words(d));
  return d;
}

Status check_sequence(std::span<const Descriptor> sequence) {
  if (sequence.empty())
    return failure(Code::invalid_argument,
                   "descriptor: the sequence is empty: give at least one descriptor");
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const Descriptor& d = sequence[i];
    if (d.head != (i == 0) || d.tail != (i + 1 == sequence.size()) || !d.collective) {
      return malformed("the flag collective, head or tail is wrong in the descriptor with index",
                       i);
    }
    if (d.job != sequence[0].job || d.source_port != sequence[0].source_port) {
      return malformed(
          "the first descriptor has another job or source port than the descriptor with index", i);
    }
    if (d.named_count > kMaxChildren) return malformed("names too many packets:", d.named_count);
    const std::uint64_t most = d.kind == PayloadKind::mini ? kMaxMiniBytes : kMaxPayloadBytes;
    if (d.data_bytes > most) return malformed("has too many bytes of data:", d.data_bytes);
    if (Status status = check_named(d); !status) return status;
    if (!d.reduce) continue;
    if (Status status = check_reduction(d); !status) return status;
  }
  return Status();
}

}  // namespace tutti::trigger
