// Peer options: the first message between ranks, over the bootstrap. It has host identities, and
// the options that must be equal on all ranks.
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
  std::string host;  ///< name of the host, for messages
  /// Identity of the host's network stack; ranks with equal ones reach each other by loopback.
  std::string network;
  std::string memory;            ///< identity that must be equal for ranks to share memory
  std::string processors;        ///< identity of the cores on which the process may run
  std::string device;            ///< device name of the options
  std::string multicast = "ud";  ///< kind of multicast, "ud" or "uc"
  bool network_wanted = false;   ///< true: some option needs a network device
  std::uint32_t process = 0;
  std::uint16_t communicator = 0;
  /// The options as given, of which those that must be equal on all ranks are sent.
  CommunicatorOptions options;
  bool aggregators = false;           ///< true: aggregators are named
  std::string algorithms;             ///< algorithm rules of the environment
  std::string hierarchy = "leaders";  ///< hierarchical form, as HierarchyShape::text writes it
  bool traced = false;                ///< true: TUTTI_TRACE is set
  std::string trace_error;            ///< reason why the rank cannot be traced; empty: none
  std::vector<std::byte> secret;      ///< secret of the communicator; only rank 0's is used

  std::vector<std::byte> encode() const;
  static Result<PeerOptions> decode(std::span<const std::byte> bytes);
};

/// The peer options of this process, with fresh random bytes as secret. `algorithms` becomes the
/// field of that name.
PeerOptions make_greeting(const CommunicatorOptions& options, std::uint16_t communicator,
                          const std::string& algorithms = {});

/// Fails unless all ranks have the same options; the error names the option and two ranks that
/// differ.
Status check_agreement(const std::vector<PeerOptions>& greetings);

/// Fails if a rank that is to be traced cannot be traced; names the first such rank.
Status check_traces(const std::vector<PeerOptions>& greetings);

}  // namespace tutti::runtime
