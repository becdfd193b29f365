// The first message between ranks, over the bootstrap: host identities, and the options that all
// ranks must agree on.
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
  std::string memory;      ///< identity that ranks must have in common to share memory
  std::string processors;  ///< identity of the cores that the process may run on
  std::string device;      ///< device name of the options
  std::string multicast = "ud";  ///< transport of chunks
  bool network_wanted = false;   ///< an option needs a network device
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
  std::string algorithms;             ///< choices of the environment
  std::string hierarchy = "leaders";  ///< HierarchyShape::text
  bool traced = false;                ///< TUTTI_TRACE is set
  std::string trace_error;            ///< why it cannot be traced; empty: no error
  std::vector<std::byte> secret;      ///< of the communicator; only rank 0's is used

  std::vector<std::byte> encode() const;
  static Result<PeerOptions> decode(std::span<const std::byte> bytes);
};

/// This process, with fresh random bytes for the secret. `algorithms`: see the field.
PeerOptions make_greeting(const CommunicatorOptions& options, std::uint16_t communicator,
                          const std::string& algorithms = {});

/// Fails unless all ranks have the same options; names the option and two ranks that differ.
Status check_agreement(const std::vector<PeerOptions>& greetings);

/// Fails if a rank that is to be traced cannot be; names the first such rank.
Status check_traces(const std::vector<PeerOptions>& greetings);

}  // namespace tutti::runtime
