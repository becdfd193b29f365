// Flight dumps: files of flight records. With TUTTI_FLIGHT_RECORDER=DIRECTORY, a communicator
// writes DIRECTORY/rank-R.json when it fails, and when its process receives SIGUSR1. Without the
// variable no file is written and no signal is handled.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/core/communicator_context.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

class CommunicatorImpl;

/// The directory that TUTTI_FLIGHT_RECORDER names; empty: no dumps are wanted.
std::string flight_directory();

/// The path of a dump: "DIRECTORY/rank-3.json" for communicator 0, and
/// "DIRECTORY/rank-3-communicator-1.json" for communicator 1.
std::string flight_path(const std::string& directory, Rank rank, std::uint16_t communicator);

/// Writes a communicator's record, its counters and the reason: {"reason": ..., "communicator": n,
/// "rank": r, "size": p, "collectives": [...], "counters": {...}}. The file gets its final name
/// when it is complete. Only the owner of the engine may call this.
Status write_flight_dump(const std::string& directory, const engine::CommunicatorContext& context,
                         std::uint16_t communicator, std::string_view reason);

/// Makes SIGUSR1 cause a dump of this communicator. If the program handles SIGUSR1 itself, its
/// handler stays, and the function returns an error that says that only failures cause dumps.
Status dump_on_signal(std::weak_ptr<CommunicatorImpl> communicator);

}  // namespace tutti::runtime
