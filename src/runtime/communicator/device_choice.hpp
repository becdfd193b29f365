// Chooses the device of a communicator. If neither the options nor the environment name a device,
// the choice is shared memory if all ranks can share memory, and otherwise the network.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/ip/socket_class.hpp"
#include "runtime/communicator/greeting.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The name of the wanted device: from the option, else from TUTTI_DEVICE, else "auto". Fails for a
/// name that no device has.
Result<std::string> wanted_device(const CommunicatorOptions& options);

/// The wanted kind of multicast: from the option, else from TUTTI_MULTICAST, else "ud". Fails for
/// an unknown kind.
Result<std::string> wanted_multicast(const CommunicatorOptions& options);

/// The hop limit of multicast datagrams: from the option, else from TUTTI_MULTICAST_HOPS, else 1.
/// Fails for a number that is not from 1 to 255.
Result<std::uint32_t> multicast_hops(const CommunicatorOptions& options);

/// The limit on open connections: from the option, else from TUTTI_MAX_CONNECTIONS, else 0 for no
/// limit. Fails for a text that is not a number, and for the number 1.
Result<std::uint32_t> max_connections(const CommunicatorOptions& options);

/// The traffic classes of datagrams: from the option, else from TUTTI_TRAFFIC_CLASS. The text has
/// either one value, or three for calls of low, normal and high priority. Fails for any other text,
/// and for numbers out of range.
Result<device::ip::TrafficClasses> traffic_classes(const CommunicatorOptions& options);

/// True if the option or TUTTI_REQUIRE_MULTICAST makes a network without multicast an error.
Result<bool> requires_multicast(const CommunicatorOptions& options);

/// True if only a network device can satisfy the options and the environment, because they ask for
/// an interface, an IP version, receive workers or multicast by UC.
bool wants_network(const CommunicatorOptions& options, std::uint32_t receive_workers,
                   const std::string& multicast);

/// The ranks that share a resource with rank `me`, in rank order and including `me`. The field
/// `identity` of the peer options identifies the resource and is equal on these ranks.
std::vector<Rank> ranks_sharing(const std::vector<PeerOptions>& greetings, Rank me,
                                std::string PeerOptions::*identity);

/// Chooses the device for a communicator from the peer options of its ranks, with the same result
/// on every rank. Stores the ranks on this rank's host in `local_ranks`.
Result<std::shared_ptr<device::Device>> choose_device(const CommunicatorOptions& options,
                                                      const std::vector<PeerOptions>& greetings,
                                                      Rank me, std::vector<Rank>& local_ranks);

}  // namespace tutti::runtime
