// What the ranks tell each other before there is a network of our own: who is where, and whether
// they agree on the options that must agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

struct PeerOptions {
  std::string host;        ///< for messages
  std::string network;     ///< identity of the host's network stack: equal means loopback reaches
  std::string memory;      ///< identity of what ranks must have in common to share memory
  std::string processors;  ///< identity of the cores that the process may run on
  std::string device;      ///< which device is asked for
  std::string multicast = "ud";  ///< how chunks travel
  bool network_wanted = false;   ///< by an option that only a network device heeds
  std::uint32_t process = 0;
  std::uint32_t subgroups = 0;
  std::uint32_t chains = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint64_t window_bytes = 0;
  std::uint64_t retain_bytes = 0;
  std::uint16_t communicator = 0;
  bool ipv6 = false;
  bool authenticate = true;
  bool always_barrier = false;
  std::uint32_t first_sequence = 0;
  bool aggregators = false;           ///< whether any are named
  std::string algorithms;             ///< what the environment prefers
  std::string hierarchy = "leaders";  ///< HierarchyShape::text
  bool traced = false;                ///< by TUTTI_TRACE
  std::string trace_error;            ///< why that cannot be; "": it can, or was not asked for
  std::vector<std::byte> secret;      ///< rank 0's counts

  std::vector<std::byte> encode() const;
  static Result<PeerOptions> decode(std::span<const std::byte> bytes);
};

/// This process, with fresh random bytes for the secret. `algorithms`: see the field.
PeerOptions make_greeting(const CommunicatorOptions& options, std::uint16_t communicator,
                          const std::string& algorithms = {});

/// Whether all ranks want the same; the failure names the option and two ranks that differ.
Status check_agreement(const std::vector<PeerOptions>& greetings);

/// Whether all ranks can be traced that are to be; the failure names the first that cannot.
Status check_traces(const std::vector<PeerOptions>& greetings);

}  // namespace tutti::runtime
