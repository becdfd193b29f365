// Writes a sequence of descriptors, one call per step, for the builders of collectives.
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

  /// Appends an empty descriptor, to be filled in.
  Descriptor& add();
  /// Sends bytes of memory into the buffer of `to`, under step `step`.
  Descriptor& send(NodeId to, std::uint32_t step, Address from, std::uint32_t size_bytes);
  /// Sends a trigger without data.
  Descriptor& signal(NodeId to, std::uint32_t step);
  /// Sends an address, to which the answering RDMA write goes.
  Descriptor& send_address(NodeId to, std::uint32_t step, Address address);
  /// Waits for a packet and stores its data.
  Descriptor& receive(NodeId from, std::uint32_t step, Address into, std::uint32_t size_bytes);
  /// Waits for a trigger without data.
  Descriptor& wait(NodeId from, std::uint32_t step);
  /// Folds own data at `from` with the packets that name() adds, and stores the result at `into`.
  Descriptor& reduce(reduction::Operation operation, reduction::ElementType type, Address from,
                     Address into, std::uint32_t size_bytes, std::uint8_t local_position);
  /// Adds a packet to those of the last descriptor.
  SequenceBuilder& name(NodeId from, std::uint32_t step);
  /// Ends the collective at this node.
  Descriptor& end();

  /// The sequence, with head and tail marked; leaves the builder empty.
  DescriptorList finish();

 private:
  JobId job_;
  Port port_;
  NodeId self_;
  std::vector<Descriptor> descriptors_;
};

}  // namespace tutti::trigger
