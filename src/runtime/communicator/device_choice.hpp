// Which device moves a communicator's bytes: what the options or the environment name, or, where
// they leave the choice, shared memory for ranks of one host and the network for all others.
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

/// How chunks are to travel: the option's, else TUTTI_MULTICAST's, else "ud". Fails for another
/// name.
Result<std::string> wanted_multicast(const CommunicatorOptions& options);

/// Whether the options, or the environment, ask for what only a network device has: an interface,
/// an IP version, threads that receive, UC.
bool wants_network(const CommunicatorOptions& options, std::uint32_t receive_workers,
                   const std::string& multicast);

/// The ranks that share what `PeerOptions` member names with rank `me`, by rank.
std::vector<Rank> ranks_sharing(const std::vector<PeerOptions>& greetings, Rank me,
                                std::string PeerOptions::*identity);

/// The device for these ranks, and in `local_ranks` the ranks that it may take for neighbours. All
/// ranks come to the same.
Result<std::shared_ptr<device::Device>> choose_device(const CommunicatorOptions& options,
                                                      const std::vector<PeerOptions>& greetings,
                                                      Rank me, std::vector<Rank>& local_ranks);

}  // namespace tutti::runtime
