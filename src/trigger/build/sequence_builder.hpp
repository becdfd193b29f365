// Writes a sequence of descriptors, one call per step. The builders of collectives use it.
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

  /// An empty descriptor at the end of the sequence, to be filled in.
  Descriptor& add();
  /// Sends bytes of memory into the buffer of `to`, where step `step` names them.
  Descriptor& send(NodeId to, std::uint32_t step, Address from, std::uint32_t size_bytes);
  /// Sends a bare trigger.
  Descriptor& signal(NodeId to, std::uint32_t step);
  /// Sends an address, for the RDMA write that answers it.
  Descriptor& send_address(NodeId to, std::uint32_t step, Address address);
  /// Waits for a packet and stores its data.
  Descriptor& receive(NodeId from, std::uint32_t step, Address into, std::uint32_t size_bytes);
  /// Waits for a bare trigger.
  Descriptor& wait(NodeId from, std::uint32_t step);
  /// Folds own data, at `from`, with the packets that name() adds, into `into`.
  Descriptor& reduce(reduction::Operation operation, reduction::ElementType type, Address from,
                     Address into, std::uint32_t size_bytes, std::uint8_t local_position);
  /// Adds a packet to the last descriptor's.
  SequenceBuilder& name(NodeId from, std::uint32_t step);
  /// Ends the collective at this node.
  Descriptor& end();

  /// The sequence, head and tail marked; the builder is empty then.
  DescriptorList finish();

 private:
  JobId job_;
  Port port_;
  NodeId self_;
  std::vector<Descriptor> descriptors_;
};

}  // namespace tutti::trigger
