// Flight dumps: files of flight records. With TUTTI_FLIGHT_RECORDER=DIRECTORY, a communicator
// writes DIRECTORY/flight-JOB-RANK.json when it fails, and when its process receives SIGUSR1.
// Without the variable no file is written and no signal is handled.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tutti/status.hpp"

namespace tutti::runtime {

class CommunicatorImpl;

/// The directory that TUTTI_FLIGHT_RECORDER names; empty: no dumps are wanted.
std::string flight_directory();

/// The collectives and the counters of a communicator as JSON: {"job": ..., "communicator": n,
/// "rank": r, "size": p, "collectives": [...], "counters": {...}}. Only the owner of the engine may
/// call this.
std::string flight_record(CommunicatorImpl& communicator);

/// Writes the flight record with a member "reason". The name of the file differs from those of all
/// other communicators and ranks. The file gets this name when it is complete. Only the owner of
/// the engine may call this.
Status write_flight_dump(const std::string& directory, CommunicatorImpl& communicator,
                         std::string_view reason);

/// Makes SIGUSR1 cause a dump of this communicator. If the program handles SIGUSR1 itself, its
/// handler stays, and the function returns an error that says that only failures cause dumps.
Status dump_on_signal(std::weak_ptr<CommunicatorImpl> communicator);

}  // namespace tutti::runtime
