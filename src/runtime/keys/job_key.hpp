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

/// The environment variable through which `tutti run` passes the job key to the ranks.
inline constexpr const char* kJobKeyVariable = "TUTTI_JOB_KEY";

/// Finds the job key before there is a bootstrap. The key comes from the first of these that is
/// given: the option job_key, the file that TUTTI_JOB_KEY_FILE names, TUTTI_JOB_KEY. Empty if none
/// is given.
Result<std::optional<crypto::Secret>> find_given_key(const std::optional<JobKey>& option,
                                                     const Environment& environment);

/// Finds the job key. It comes from the first of these that is given: the option job_key, the file
/// that TUTTI_JOB_KEY_FILE names, the bootstrap, TUTTI_JOB_KEY. If none is given, the result is
/// empty, or an error if TUTTI_REQUIRE_KEY demands a key and the job has several ranks.
Result<std::optional<crypto::Secret>> find_job_key(const CommunicatorOptions& options,
                                                   const Bootstrap& bootstrap,
                                                   const Environment& environment);

/// Logs, only once in a process, that the job of `bootstrap` is not authenticated.
void warn_of_missing_key(const Bootstrap& bootstrap);

}  // namespace tutti::runtime
