#include "trigger/build/sequence_builder.hpp"

#include <cstring>
#include <utility>

namespace tutti::trigger {

Descriptor& SequenceBuilder::add() {
  Descriptor& d = descriptors_.emplace_back();
  d.job = job_;
  d.source_port = port_;
  d.destination_port = port_;
  return d;
}

Descriptor& SequenceBuilder::send(NodeId to, std::uint32_t step, Address from,
                                  std::uint32_t size_bytes) {
  Descriptor& d = signal(to, step);
  d.kind = PayloadKind::rdma;
  d.address = from;
  d.data_bytes = size_bytes;
  return d;
}

Descriptor& SequenceBuilder::signal(NodeId to, std::uint32_t step) {
  Descriptor& d = add();
  d.destination = to;
  d.step = static_cast<SequenceId>(step);
  return d;
}

Descriptor& SequenceBuilder::send_address(NodeId to, std::uint32_t step, Address address) {
  Descriptor& d = signal(to, step);
  d.swap_remote_address = true;
  d.data_bytes = sizeof address;
  std::memcpy(d.data.data(), &address, sizeof address);
  return d;
}

Descriptor& SequenceBuilder::receive(NodeId from, std::uint32_t step, Address into,
                                     std::uint32_t size_bytes) {
  Descriptor& d = wait(from, step);
  d.kind = PayloadKind::rdma;
  d.swap_local_data = true;
  d.address = into;
  d.store_address = into;
  d.data_bytes = size_bytes;
  return d;
}

Descriptor& SequenceBuilder::wait(NodeId from, std::uint32_t step) {
  Descriptor& d = add();
  d.named[d.named_count++] = {from, port_, static_cast<SequenceId>(step)};
  return d;
}

Descriptor& SequenceBuilder::reduce(reduction::Operation operation, reduction::ElementType type,
                                    Address from, Address into, std::uint32_t size_bytes,
                                    std::uint8_t local_position) {
  Descriptor& d = add();
  d.kind = PayloadKind::rdma;
  d.reduce = true;
  d.operation = operation;
  d.type = type;
  d.address = from;
  d.store_address = into;
  d.data_bytes = size_bytes;
  d.local_position = local_position;
  return d;
}

SequenceBuilder& SequenceBuilder::name(NodeId from, std::uint32_t step) {
  Descriptor& d = descriptors_.back();
  d.named[d.named_count++] = {from, port_, static_cast<SequenceId>(step)};
  return *this;
}

Descriptor& SequenceBuilder::end() {
  Descriptor& d = add();
  d.destination = self_;
  d.collective_end = true;
  return d;
}

DescriptorList SequenceBuilder::finish() {
  descriptors_.front().head = true;
  descriptors_.back().tail = true;
  return std::exchange(descriptors_, {});
}

}  // namespace tutti::trigger
