// Chooses the device that moves a communicator's bytes: the one that the options or the environment
// name, else shared memory for ranks of one host and the network for all others.
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

/// The number of hops of multicast: from the option, else from TUTTI_MULTICAST_HOPS, else 1. Fails
/// for a number that is not from 1 to 255.
Result<std::uint32_t> multicast_hops(const CommunicatorOptions& options);

/// The largest number of connections: from the option, else from TUTTI_MAX_CONNECTIONS, else 0 for
/// no limit. Fails if the text is not a number, and for 1, which is too few.
Result<std::uint32_t> max_connections(const CommunicatorOptions& options);

/// The traffic classes of datagrams: from the option, else from TUTTI_TRAFFIC_CLASS. Fails for a
/// text of another form and for numbers out of range.
Result<device::ip::TrafficClasses> traffic_classes(const CommunicatorOptions& options);

/// True if the option or TUTTI_REQUIRE_MULTICAST makes a network without multicast an error.
bool requires_multicast(const CommunicatorOptions& options);

/// True if only a network device can satisfy the options and the environment, because they ask for
/// an interface, an IP version, receive workers or multicast by UC.
bool wants_network(const CommunicatorOptions& options, std::uint32_t receive_workers,
                   const std::string& multicast);

/// The ranks whose field `identity` has the same value as that of rank `me`, in rank order.
std::vector<Rank> ranks_sharing(const std::vector<PeerOptions>& greetings, Rank me,
                                std::string PeerOptions::*identity);

/// Chooses the device for a communicator of these ranks, with the same result on all of them.
/// Stores the ranks of this host in `local_ranks`.
Result<std::shared_ptr<device::Device>> choose_device(const CommunicatorOptions& options,
                                                      const std::vector<PeerOptions>& greetings,
                                                      Rank me, std::vector<Rank>& local_ranks);

}  // namespace tutti::runtime
