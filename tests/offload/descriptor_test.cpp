#include "trigger/descriptor.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "trigger/build/double_tree.hpp"
#include "trigger/build/sequence_builder.hpp"
#include "trigger/memory_map.hpp"
#include "trigger/unit_directory.hpp"

namespace tutti::trigger {
namespace {

Descriptor random_descriptor(std::uint64_t seed) {
  Random random(seed);
  const auto flag = [&] { return random.below(2) != 0; };
  Descriptor d;
  d.kind = flag() ? PayloadKind::rdma : PayloadKind::mini;
  d.job = static_cast<JobId>(random.below(kJobIds));
  d.step = static_cast<SequenceId>(random.below(kSequenceIds));
  d.source_port = static_cast<Port>(random.below(kPorts));
  d.destination_port = static_cast<Port>(random.below(kPorts));
  d.destination = static_cast<NodeId>(random.below(kNodeIds));
  for (bool* set :
       {&d.collective, &d.head, &d.tail, &d.trigger, &d.swap_local_data, &d.swap_local_port,
        &d.swap_remote_data, &d.swap_remote_address, &d.reduce, &d.collective_end}) {
    *set = flag();
  }
  d.named_count = static_cast<std::uint8_t>(random.below(kMaxChildren + 1));
  for (std::uint32_t i = 0; i < d.named_count; ++i) {
    d.named[i] = {static_cast<NodeId>(random.below(kNodeIds)),
                  static_cast<Port>(random.below(kPorts)),
                  static_cast<SequenceId>(random.below(kSequenceIds))};
  }
  d.operation = static_cast<reduction::Operation>(random.below(reduction::kOperations));
  d.type = static_cast<reduction::ElementType>(random.below(reduction::kElementTypes));
  d.local_position = static_cast<std::uint8_t>(random.below(32));
  d.contributions = static_cast<std::uint32_t>(random.below(1u << kContributionBits));
  d.store_address = static_cast<Address>(random.next());
  d.remote_address = static_cast<Address>(random.next());
  if (d.kind == PayloadKind::rdma) {
    d.address = static_cast<Address>(random.next());
    d.data_bytes = static_cast<std::uint32_t>(random.below(kMaxPayloadBytes + 1));
  } else {
    d.data_bytes = static_cast<std::uint32_t>(random.below(kMaxMiniBytes + 1));
    for (std::uint32_t i = 0; i < d.data_bytes; ++i) d.data[i] = std::byte(random.below(256));
  }
  return d;
}

TEST(Descriptor, Descriptor_decodesAsEncoded) {
  std::vector<std::uint64_t> words;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::size_t before = words.size();
    encode(random_descriptor(seed), words);
    ASSERT_LE(words.size() - before, kMaxDescriptorWords);
  }
  std::span<const std::uint64_t> rest = words;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto decoded = decode_descriptor(rest);
    ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
    ASSERT_EQ(*decoded, random_descriptor(seed)) << "seed " << seed;
  }
  EXPECT_TRUE(rest.empty());
}

TEST(Descriptor, FieldsOfADescriptor_haveTheDocumentedPositions) {
  Descriptor d;
  d.job = static_cast<JobId>(0xab);
  d.step = static_cast<SequenceId>(0x1f);
  d.source_port = static_cast<Port>(0x7ff);
  d.destination = static_cast<NodeId>(0x123456);
  d.collective = false;
  d.trigger = false;
  d.named_count = 0;
  std::vector<std::uint64_t> words;
  encode(d, words);
  EXPECT_EQ(words[0] & 0xff'ffff, 0x123456u);
  EXPECT_EQ(words[0] >> 24 & 0x7ff, 0u) << "destination port";
  EXPECT_EQ(words[0] >> 35 & 0x7ff, 0x7ffu) << "source port";
  EXPECT_EQ(words[0] >> 46 & 0x1f, 0x1fu) << "step";
  EXPECT_EQ(words[0] >> 51, 0xabu) << "job";
  EXPECT_EQ(words[1] & 0xffff, 0u) << "16 bits of flags and count";
}

TEST(Descriptor, InvalidOrMissingWords_areRefusedByTheDecoder) {
  Descriptor d = random_descriptor(7);
  d.kind = PayloadKind::mini;
  d.named_count = 2;
  d.data_bytes = 13;
  std::fill(d.data.begin() + 13, d.data.end(), std::byte{0});
  std::vector<std::uint64_t> words;
  encode(d, words);
  ASSERT_EQ(words.size(), 5u + 2 + 2);
  const auto refused = [&](std::size_t at, std::uint64_t bits) {
    std::vector<std::uint64_t> changed = words;
    changed[at] |= bits;
    std::span<const std::uint64_t> rest = changed;
    return decode_descriptor(rest).status().code() == Code::invalid_argument;
  };
  EXPECT_FALSE(refused(0, 0));
  EXPECT_TRUE(refused(0, std::uint64_t{1} << 60)) << "reserved";
  EXPECT_TRUE(refused(1, std::uint64_t{0x3f} << 4)) << "63 packets named";
  EXPECT_TRUE(refused(1, std::uint64_t{0xf} << 16)) << "operation 15";
  EXPECT_TRUE(refused(4, 0x80)) << "more bytes than fit";
  EXPECT_TRUE(refused(5, std::uint64_t{1} << 40)) << "reserved in a name";
  EXPECT_TRUE(refused(8, std::uint64_t{1} << 63)) << "padding";
  for (std::size_t size = 0; size < words.size(); ++size) {
    std::span<const std::uint64_t> rest = std::span(words).first(size);
    EXPECT_FALSE(decode_descriptor(rest).ok()) << size << " words";
  }
}

TEST(PacketHeader, Header_decodesAsEncoded_andReservedBitsAreRefused) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    PacketHeader header;
    header.key = PacketKey::unpack(random.next() >> 16);
    header.destination = static_cast<NodeId>(random.below(kNodeIds));
    header.destination_port = static_cast<Port>(random.below(kPorts));
    header.kind = seed % 2 == 0 ? PayloadKind::rdma : PayloadKind::mini;
    header.collective = random.below(2) != 0;
    header.trigger = random.below(2) != 0;
    header.swap_data = random.below(2) != 0;
    header.swap_address = random.below(2) != 0;
    header.collective_end = random.below(2) != 0;
    header.payload_bytes = static_cast<std::uint32_t>(random.below(kMaxPayloadBytes + 1));
    if (seed % 2 == 0) header.remote_address = static_cast<Address>(random.next());
    std::array<std::uint64_t, kMaxPacketHeaderWords> words{};
    const std::size_t count = encode(header, words);
    EXPECT_EQ(decode_packet_header(std::span(words).first(count)), header);
    EXPECT_FALSE(decode_packet_header(std::span(words).first(count - 1)));
    EXPECT_FALSE(decode_packet_header(std::span<const std::uint64_t>()));
    words[0] |= std::uint64_t{1} << 54;
    EXPECT_FALSE(decode_packet_header(std::span(words).first(count)));
  }
}

TEST(Sequence, BadSequencesAreRefusedBeforePosting) {
  SequenceBuilder builder(static_cast<JobId>(1), static_cast<Port>(2), static_cast<NodeId>(3));
  builder.signal(static_cast<NodeId>(4), 0);
  builder.wait(static_cast<NodeId>(4), 0);
  builder.end();
  const DescriptorList good = builder.finish();
  EXPECT_TRUE(check_sequence(good).ok());
  const auto broken = [&](auto change) {
    DescriptorList sequence = good;
    change(sequence);
    return check_sequence(sequence).code();
  };
  EXPECT_EQ(broken([](DescriptorList& s) { s.clear(); }), Code::invalid_argument);
  EXPECT_EQ(broken([](DescriptorList& s) { s.pop_back(); }), Code::invalid_argument) << "no tail";
  EXPECT_EQ(broken([](DescriptorList& s) { s[1].head = true; }), Code::invalid_argument);
  EXPECT_EQ(broken([](DescriptorList& s) { s[1].job = {}; }), Code::invalid_argument);
  EXPECT_EQ(broken([](DescriptorList& s) { s[1].source_port = {}; }), Code::invalid_argument);
  EXPECT_EQ(broken([](DescriptorList& s) { s[1].collective = false; }), Code::invalid_argument);
  EXPECT_EQ(broken([](DescriptorList& s) { s[1].named_count = 17; }), Code::invalid_argument);
  EXPECT_EQ(broken([](DescriptorList& s) { s[1].data_bytes = 129; }), Code::invalid_argument);
  const auto name_again = [](Descriptor& d) { d.named[d.named_count++] = d.named[0]; };
  EXPECT_EQ(broken([&](DescriptorList& s) { name_again(s[1]); }), Code::invalid_argument);
  EXPECT_EQ(broken([&](DescriptorList& s) { name_again(s[1]), s[1].named[1].step = {}; }),
            Code::invalid_argument);
  EXPECT_EQ(broken([&](DescriptorList& s) {
              name_again(s[1]), s[1].named[1].step = static_cast<SequenceId>(1);
            }),
            Code::ok);
  const auto reduce = [](Descriptor& d) {
    d.reduce = true;
    d.type = reduction::ElementType::float32;
    d.local_position = 0;
    d.data_bytes = 8;
  };
  EXPECT_EQ(broken([&](DescriptorList& s) { reduce(s[1]); }), Code::ok);
  EXPECT_EQ(broken([&](DescriptorList& s) { reduce(s[1]), s[1].data_bytes = 7; }),
            Code::invalid_argument);
  EXPECT_EQ(broken([&](DescriptorList& s) { reduce(s[1]), s[1].local_position = 2; }),
            Code::invalid_argument);
  EXPECT_EQ(broken([&](DescriptorList& s) {
              reduce(s[1]), s[1].operation = reduction::Operation::bit_and;
            }),
            Code::unsupported);
}

TEST(DoubleTree, EveryNode_isReachedOncePerTree_andIsAnInnerNodeOfOneTreeOnly) {
  for (std::uint32_t n = 1; n <= 130; ++n) {
    std::vector<std::uint32_t> inner(n + 1);
    for (std::uint32_t tree = 0; tree < 2; ++tree) {
      std::vector<std::uint32_t> reached(n + 1);
      const std::uint32_t root = double_tree_root(tree, n);
      EXPECT_EQ(double_tree_node(tree, root, n).parent, 0u);
      ++reached[root];
      std::uint32_t deepest = 0;
      for (std::uint32_t position = 1; position <= n; ++position) {
        const TreeNode node = double_tree_node(tree, position, n);
        for (const std::uint32_t child : node.children) {
          if (child == 0) continue;
          ASSERT_LE(child, n);
          ++reached[child];
          EXPECT_EQ(double_tree_node(tree, child, n).parent, position);
        }
        if (node.children[0] != 0) ++inner[position];
        std::uint32_t depth = 0;
        for (std::uint32_t at = position; at != root; ++depth) {
          at = double_tree_node(tree, at, n).parent;
          ASSERT_NE(at, 0u) << n << " nodes, tree " << tree << ", from " << position;
        }
        deepest = std::max(deepest, depth);
      }
      for (std::uint32_t position = 1; position <= n; ++position) {
        EXPECT_EQ(reached[position], 1u) << n << " nodes, tree " << tree;
      }
      EXPECT_LT(deepest, static_cast<std::uint32_t>(std::bit_width(n)));
    }
    for (const std::uint32_t times : inner) EXPECT_LE(times, 1u) << n << " nodes";
  }
}

TEST(MemoryMap, Address_isValidOnlyInTheJobAndRegionItWasMadeFor) {
  MemoryMap map;
  std::vector<std::byte> mine(100);
  std::vector<std::byte> yours(100);
  const Address at = map.add(static_cast<JobId>(1), mine).value();
  const Address other = map.add(static_cast<JobId>(2), yours).value();
  const auto found = map.find(static_cast<JobId>(1), at + 10, 90);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->data(), mine.data() + 10);
  EXPECT_FALSE(map.find(static_cast<JobId>(1), at + 10, 91));
  EXPECT_FALSE(map.find(static_cast<JobId>(1), at + 101, 0));
  EXPECT_FALSE(map.find(static_cast<JobId>(1), other, 1)) << "an address of another job";
  EXPECT_FALSE(map.find(static_cast<JobId>(1), at, ~std::uint64_t{0}));
  EXPECT_FALSE(map.find(static_cast<JobId>(1), kNoAddress, 0));
  map.remove(static_cast<JobId>(1));
  EXPECT_FALSE(map.find(static_cast<JobId>(1), at, 1));
  EXPECT_TRUE(map.find(static_cast<JobId>(2), other, 1));
}

TEST(UnitDirectory, PortWithPacketsOrASequence_staysBoundToItsUnit) {
  UnitDirectory directory(4, 2, 16);
  const auto job = static_cast<JobId>(9);
  const auto port = static_cast<Port>(3);
  EXPECT_FALSE(directory.unit_of(job, port));
  ASSERT_TRUE(directory.bind(job, port, 2));
  directory.packet_stored(job, port);
  directory.sequence_started(job, port);
  directory.packets_consumed(job, port, 1);
  EXPECT_EQ(directory.unit_of(job, port), 2u);
  EXPECT_EQ(directory.bound_ports(2), 1u);
  directory.packet_stored(job, port);  // a packet of a sequence that is not posted yet
  directory.sequence_ended(job, port);
  EXPECT_EQ(directory.unit_of(job, port), 2u);
  EXPECT_TRUE(directory.bind(static_cast<JobId>(8), port, 0));
  EXPECT_FALSE(directory.bind(static_cast<JobId>(7), port, 0)) << "a third job";
  EXPECT_FALSE(directory.bind(job, static_cast<Port>(16), 0)) << "no such port";
  directory.forget(job);
  EXPECT_FALSE(directory.unit_of(job, port));
  EXPECT_TRUE(directory.bind(static_cast<JobId>(7), port, 0));
  directory.release_idle(static_cast<JobId>(7), port);
  EXPECT_EQ(directory.jobs(), 1u);
  EXPECT_EQ(directory.jobs_high_water(), 2u);
  EXPECT_EQ(directory.bound_ports(2), 0u);
}

}  // namespace
}  // namespace tutti::trigger
