// The buffers of one call of a schedule, and the keys by which peers reach them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "device/device.hpp"
#include "engine/schedule/schedule_workspace.hpp"
#include "schedule/buffer_slice.hpp"
#include "schedule/shape.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

class CallMemory {
 public:
  /// `send` and `receive` are the caller's buffers; `space` must outlive this object.
  CallMemory(std::span<const std::byte> send, std::span<std::byte> receive,
             ScheduleWorkspace& space)
      : send_(send), receive_(receive), space_(space) {}

  /// Replaces the caller's send buffer by the contribution in the workspace.
  void use_contribution() { contributes_copy_ = true; }
  bool contributes_copy() const { return contributes_copy_; }
  std::span<std::byte> of(schedule::Buffer buffer) const {
    switch (buffer) {
      case schedule::Buffer::send:
        if (contributes_copy_) return space_.contribution;
        // A task writes to the send buffer only in a call in place. The send buffer is then the
        // caller's receive buffer, which is writable.
        return {const_cast<std::byte*>(send_.data()), send_.size()};
      case schedule::Buffer::receive:
        return receive_;
      case schedule::Buffer::scratch:
        return space_.scratch;
      case schedule::Buffer::none:
        break;
    }
    return {};
  }
  std::span<std::byte> at(const schedule::Extent& extent) const {
    return of(extent.buffer).subspan(extent.offset_bytes, extent.size_bytes);
  }
  /// The memory key of a buffer. The first request for a buffer's key registers the buffer.
  Result<device::MemoryKey> key_of(schedule::Buffer buffer, device::Endpoint& endpoint) {
    std::optional<device::MemoryKey>& key = space_.keys[static_cast<std::size_t>(buffer)];
    if (!key) {
      auto registered = endpoint.register_memory(of(buffer));
      if (!registered) return registered.status();
      key = *registered;
    }
    return *key;
  }
  /// Ends the registrations of all buffers of the call, which makes their memory keys invalid.
  void deregister(device::Endpoint& endpoint) {
    const auto let_go = [&](std::optional<device::MemoryKey>& key) {
      if (key) endpoint.deregister_memory(*key);
      key.reset();
    };
    for (auto& key : space_.keys) let_go(key);
    for (auto& key : space_.keyed_keys) let_go(key);
  }

 private:
  std::span<const std::byte> send_;
  std::span<std::byte> receive_;
  ScheduleWorkspace& space_;
  bool contributes_copy_ = false;
};

}  // namespace tutti::engine
