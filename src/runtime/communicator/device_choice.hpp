// The device that moves a communicator's bytes: as the options or the environment name it, else
// shared memory for ranks of one host and the network for all others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "runtime/communicator/greeting.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The name asked for: the option's, else TUTTI_DEVICE's, else "auto". Fails for a name that no
/// device has.
Result<std::string> wanted_device(const CommunicatorOptions& options);

/// The transport of chunks: the option, else TUTTI_MULTICAST, else "ud". Fails for another name.
Result<std::string> wanted_multicast(const CommunicatorOptions& options);

/// Whether options or environment need a network device: they name an interface, an IP version,
/// receive threads or UC.
bool wants_network(const CommunicatorOptions& options, std::uint32_t receive_workers,
                   const std::string& multicast);

/// The ranks whose `identity` is that of rank `me`, in the order of ranks.
std::vector<Rank> ranks_sharing(const std::vector<PeerOptions>& greetings, Rank me,
                                std::string PeerOptions::*identity);

/// The device for these ranks, and in `local_ranks` the ranks of this host. The same device on all
/// ranks.
Result<std::shared_ptr<device::Device>> choose_device(const CommunicatorOptions& options,
                                                      const std::vector<PeerOptions>& greetings,
                                                      Rank me, std::vector<Rank>& local_ranks);

}  // namespace tutti::runtime
