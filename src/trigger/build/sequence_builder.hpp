// Writes a sequence of descriptors, one call for each step; used by the builders of collectives.
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

  /// Appends an empty descriptor for the caller to fill in.
  Descriptor& add();
  /// Sends bytes of memory under step `step`, into the hash buffer of node `to`.
  Descriptor& send(NodeId to, std::uint32_t step, Address from, std::uint32_t size_bytes);
  /// Sends a trigger without data.
  Descriptor& signal(NodeId to, std::uint32_t step);
  /// Sends an address; the RDMA write that answers goes to that address.
  Descriptor& send_address(NodeId to, std::uint32_t step, Address address);
  /// Waits for a packet and stores its data.
  Descriptor& receive(NodeId from, std::uint32_t step, Address into, std::uint32_t size_bytes);
  /// Waits for a trigger without data.
  Descriptor& wait(NodeId from, std::uint32_t step);
  /// Folds this node's data at `from` with the packets that name() adds, and stores the result at
  /// `into`.
  Descriptor& reduce(reduction::Operation operation, reduction::ElementType type, Address from,
                     Address into, std::uint32_t size_bytes, std::uint8_t local_position);
  /// Adds a packet to those that the last descriptor names.
  SequenceBuilder& name(NodeId from, std::uint32_t step);
  /// Ends the collective at this node.
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
