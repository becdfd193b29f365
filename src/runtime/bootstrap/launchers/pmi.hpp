// The bootstrap under launchers that speak PMI-1: MPICH's hydra, Slurm's pmi2 plug-in.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"
#include "runtime/bootstrap/store/stream.hpp"

namespace tutti::runtime {

/// A PMI-1 client on the descriptor that the launcher left open. A request is a line of "key=value"
/// words, and one line answers it.
class PmiClient {
 public:
  using Words = std::map<std::string, std::string>;

  /// Takes over the descriptor, which must be nonblocking.
  PmiClient(Socket socket, Deadline deadline) : stream_(std::move(socket)), deadline_(deadline) {}

  /// Performs the handshake; reads the limits and the name of the job's key-value space.
  Status start();
  Status put(std::string_view key, std::string_view value);
  /// The PMI barrier: returns when every process of the job has called this function. Every earlier
  /// put is then visible to all processes.
  Status barrier();
  Result<std::string> get(std::string_view key);
  /// Ends the session. If a process exits without this call, the launcher takes the exit for a
  /// crash.
  Status finish();

 private:
  Result<Words> ask(std::string_view request, std::string_view expected);
  Result<std::string> read_line();

  Stream stream_;
  Deadline deadline_;
  std::string buffer_;
  std::string space_;
  std::size_t max_value_bytes_ = 0;
};

/// Splits an answer such as "cmd=get_result rc=0 value=x" into its words.
Result<PmiClient::Words> parse_pmi_line(std::string_view line);

/// Rank 0 publishes the unique id of a store through PMI (PMI_FD, PMI_RANK, PMI_SIZE); all further
/// data go through that store. The function ends the PMI session, so it refuses a process that also
/// uses MPI; such a process can pass MPI_Allgather as the bootstrap callback instead.
Result<std::unique_ptr<Bootstrap>> bootstrap_from_pmi(const Environment& environment,
                                                      Nanoseconds timeout);

}  // namespace tutti::runtime
