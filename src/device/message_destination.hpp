// The destination of a UC message that is arriving, as the resolver decided it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.hpp"

namespace tutti::device {

struct MessageDestination {
  /// Address of the destination. Null if the message is dropped, or if it is staged and the queue
  /// pair has not chosen the staging memory yet.
  std::byte* at = nullptr;
  std::uint64_t asked_in = 0;  ///< number of the poll that last asked the resolver
  bool staged = false;         ///< true: the queue pair stores the message in staging memory

  /// Asks for the destination in poll number `poll`. `begins` is true for the first fragment.
  void ask(PlacementResolver* resolver, const MessageHead& message, bool begins,
           std::uint64_t poll) {
    const Placement landing =
        resolver == nullptr ? Placement{} : resolver->landing(message, begins);
    asked_in = poll;
    staged = begins && landing.where == Placement::Where::staging;
    at = landing.where == Placement::Where::buffer ? landing.at : nullptr;
  }
};

}  // namespace tutti::device
