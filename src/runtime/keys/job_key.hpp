// The job key: the secret by which the ranks of a job recognise each other.
#pragma once

#include <cstdint>
#include <optional>

#include "crypto/secret.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/launchers/launcher_variables.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The variable by which `tutti run` gives the ranks of a job a key.
inline constexpr const char* kJobKeyVariable = "TUTTI_JOB_KEY";

/// Finds the job key before the bootstrap is made: the first of the option job_key, the file
/// TUTTI_JOB_KEY_FILE, and TUTTI_JOB_KEY. Empty if none of them is given.
Result<std::optional<crypto::Secret>> find_given_key(const std::optional<JobKey>& option,
                                                     const Environment& environment);

/// Finds the job key: the first of the option job_key, the file TUTTI_JOB_KEY_FILE, the key of the
/// bootstrap, and TUTTI_JOB_KEY. If there is none, the result is empty, or an error if
/// TUTTI_REQUIRE_KEY asks for a key and the job has several ranks.
Result<std::optional<crypto::Secret>> find_job_key(const CommunicatorOptions& options,
                                                   const Bootstrap& bootstrap,
                                                   const Environment& environment);

/// Tells the operator, once in a process, that the job that uses `bootstrap` is not authenticated.
void warn_of_missing_key(const Bootstrap& bootstrap);

}  // namespace tutti::runtime
