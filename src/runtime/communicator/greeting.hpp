// Peer options: the first message that each rank sends to all others, over the bootstrap. It
// contains host identities and the options that must be equal on all ranks, but no secret.
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
  std::string host;  ///< name of the host, for error texts
  /// Identity of the host's network stack; ranks with equal identities reach each other by
  /// loopback.
  std::string network;
  /// Identity of the host, process namespace and user; ranks with equal identities can share
  /// memory.
  std::string memory;
  std::string processors;        ///< identity of the cores on which the process may run
  std::string device;            ///< device name from the options
  std::string multicast = "ud";  ///< kind of multicast: "ud", "uc" or "none"
  bool network_wanted = false;   ///< true: at least one option needs a network device
  std::uint32_t process = 0;
  /// Number that the rank proposes for the new communicator; the highest one is used.
  std::uint16_t communicator = 0;
  /// The options as given by the caller. Only those that must be equal on all ranks are sent.
  CommunicatorOptions options;
  bool aggregators = false;           ///< true: the options name aggregators
  std::string algorithms;             ///< algorithm rules from environment variables
  std::string hierarchy = "leaders";  ///< hierarchical form, as HierarchyShape::text writes it
  bool traced = false;                ///< true: the rank writes a trace
  std::string trace_error;            ///< why the rank can write no trace; empty: it can

  std::vector<std::byte> encode() const;
  static Result<PeerOptions> decode(std::span<const std::byte> bytes);
};

/// The number of cores on which the calling thread may run, at least 1. Ranks with an equal
/// `PeerOptions::processors` share them.
std::uint32_t allowed_core_count();

/// The peer options of this process, without the job key. `algorithms` are the algorithm rules from
/// environment variables.
PeerOptions make_greeting(const CommunicatorOptions& options, std::uint16_t communicator,
                          const std::string& algorithms = {});

/// Fails if an option that must be equal on all ranks differs; the error names the option and two
/// ranks with different values.
Status check_agreement(const std::vector<PeerOptions>& greetings);

/// Fails if a rank cannot write the trace that TUTTI_TRACE asks for; the error names the first such
/// rank.
Status check_traces(const std::vector<PeerOptions>& greetings);

}  // namespace tutti::runtime
