// Builds a sequence of descriptors, one call for each descriptor; the builders of collectives use
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reduction/element_type.hpp"
#include "trigger/descriptor.hpp"

namespace tutti::trigger {

class SequenceBuilder {
 public:
  SequenceBuilder(JobId job, Port port, NodeId self) : job_(job), port_(port), self_(self) {}

  /// Appends a descriptor, which the caller fills in.
  Descriptor& add();
  /// Appends a descriptor that sends bytes of memory, under step `step`, to the hash buffer of node
  /// `to`.
  Descriptor& send(NodeId to, std::uint32_t step, Address from, std::uint32_t size_bytes);
  /// Appends a descriptor that sends a trigger without data.
  Descriptor& signal(NodeId to, std::uint32_t step);
  /// Appends a descriptor that sends `address` to node `to`, so that `to` can write there by RDMA.
  Descriptor& send_address(NodeId to, std::uint32_t step, Address address);
  /// Appends a descriptor that waits for a packet and stores its data.
  Descriptor& receive(NodeId from, std::uint32_t step, Address into, std::uint32_t size_bytes);
  /// Appends a descriptor that waits for a trigger without data.
  Descriptor& wait(NodeId from, std::uint32_t step);
  /// Appends a reduction of this node's data at `from` and of the packets that the next name()
  /// calls add. The descriptor stores the result at `into`.
  Descriptor& reduce(reduction::Operation operation, reduction::ElementType type, Address from,
                     Address into, std::uint32_t size_bytes, std::uint8_t local_position);
  /// Makes the last appended descriptor name one more packet: the packet of `step` from node
  /// `from`.
  SequenceBuilder& name(NodeId from, std::uint32_t step);
  /// Appends the descriptor that ends the collective at this node.
  Descriptor& end();

  /// Returns the sequence, with head and tail marked, and empties the builder.
  DescriptorList finish();

 private:
  JobId job_;
  Port port_;
  NodeId self_;
  std::vector<Descriptor> descriptors_;
};

}  // namespace tutti::trigger
