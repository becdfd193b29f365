#include "call.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <utility>

namespace tutti::torch_backend {

Blocks blocks_of(std::vector<std::uint64_t> sizes) {
  Blocks blocks{std::move(sizes), {}};
  std::uint64_t offset = 0;
  for (const std::uint64_t size : blocks.sizes) {
    blocks.offsets.push_back(offset);
    offset += size;
  }
  return blocks;
}

Call Call::collective(std::uint32_t which, Bytes send, Bytes receive, int root) {
  Call call;
  call.collective_ = which;
  call.root_ = static_cast<std::uint32_t>(root);
  call.send_ = send;
  call.receive_ = receive;
  return call;
}

Call Call::send(Bytes message, std::uint32_t to, std::uint64_t tag) {
  Call call;
  call.kind_ = Kind::send;
  call.root_ = to;
  call.tag_ = tag;
  call.send_ = message;
  return call;
}

Call Call::receive(Bytes message, std::uint32_t from, std::uint64_t tag) {
  Call call;
  call.kind_ = Kind::receive;
  call.root_ = from;
  call.tag_ = tag;
  call.receive_ = message;
  return call;
}

Call& Call::reduce(const Reduction& reduction) {
  reduction_ = reduction;
  return *this;
}

Call& Call::receive_blocks(Blocks blocks) {
  receive_blocks_ = std::move(blocks);
  return *this;
}

Call& Call::send_blocks(Blocks blocks) {
  send_blocks_ = std::move(blocks);
  return *this;
}

Call::Description::Description(const Call& of, const StartOptions& terms)
    : call(TUTTI_CALL_INIT(of.collective_)) {
  options.will_wait = terms.will_wait ? 1 : 0;
  options.priority = terms.priority;
  call.options = &options;
  call.root = of.root_;
  call.send = of.send_.data;
  call.send_bytes = of.send_.count;
  call.receive = of.receive_.data;
  call.receive_bytes = of.receive_.count;
  if (of.reduction_) {
    reduction = of.reduction_->view();
    call.reduction = &reduction;
  }
  if (!of.receive_blocks_.empty()) {
    call.sizes = of.receive_blocks_.sizes.data();
    call.offsets = of.receive_blocks_.offsets.data();
  }
  if (!of.send_blocks_.empty()) {
    call.send_sizes = of.send_blocks_.sizes.data();
    call.send_offsets = of.send_blocks_.offsets.data();
  }
}

tutti_status_t Call::start_one(tutti_comm_t* comm, const StartOptions& terms,
                               tutti_request_t** request) const {
  switch (kind_) {
    case Kind::send:
      return tutti_isend(comm, send_.data, send_.count, root_, tag_, request);
    case Kind::receive:
      return tutti_irecv(comm, receive_.data, receive_.count, root_, tag_, UINT64_MAX, request);
    case Kind::collective:
      break;
  }
  const Description description(*this, terms);
  return tutti_start(comm, &description.call, request);
}

tutti_status_t Call::start(tutti_comm_t* comm, const std::vector<Call>& calls,
                           const StartOptions& terms, std::vector<tutti_request_t*>& requests) {
  std::vector<tutti_request_t*> started(calls.size(), nullptr);
  requests.reserve(requests.size() + calls.size());
  tutti_status_t status = TUTTI_OK;
  if (calls.size() == 1) {
    status = calls.front().start_one(comm, terms, started.data());
  } else {
    std::deque<Description> descriptions;
    std::vector<const tutti_call_t*> group;
    for (const Call& call : calls) group.push_back(&descriptions.emplace_back(call, terms).call);
    status = tutti_start_all(comm, group.data(), group.size(), started.data());
  }
  std::copy_if(started.begin(), started.end(), std::back_inserter(requests),
               [](const tutti_request_t* request) { return request != nullptr; });
  return status;
}

void Call::run_alone() const {
  if (collective_ == TUTTI_BARRIER || collective_ == TUTTI_BROADCAST || receive_.count == 0) return;
  if (receive_.data != send_.data)
    std::memmove(receive_.data, send_.data, std::min(send_.count, receive_.count));
  if (!reduction_ || reduction_->operation != TUTTI_PREMULTIPLIED_SUM) return;
  const auto bytes = static_cast<std::int64_t>(c10::elementSize(reduction_->element));
  at::from_blob(receive_.data, {static_cast<std::int64_t>(receive_.count) / bytes},
                at::TensorOptions().dtype(reduction_->element))
      .mul_(reduction_->factor_value);
}

}  // namespace tutti::torch_backend
