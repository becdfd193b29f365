#include "runtime/keys/job_key.hpp"

#include <atomic>

#include "base/error.hpp"
#include "observe/log.hpp"
#include "runtime/keys/key_file.hpp"

namespace tutti {

JobKey::~JobKey() { crypto::wipe(bytes); }

}  // namespace tutti

namespace tutti::runtime {

namespace {

constexpr const char* kHowToGiveAKey =
    "name a key file, made by `tutti key new FILE`, in TUTTI_JOB_KEY_FILE at all ranks, or start "
    "the job by `tutti run`";

/// True if TUTTI_REQUIRE_KEY demands that the job has a key.
Result<bool> key_required(const Environment& environment) {
  const auto text = environment("TUTTI_REQUIRE_KEY");
  if (!text || *text == "0") return false;
  if (*text == "1") return true;
  return failure(Code::invalid_argument,
                 "TUTTI_REQUIRE_KEY=\"{}\" is neither 0 nor 1: use 1 to refuse jobs without a key",
                 *text);
}

using Found = std::optional<crypto::Secret>;

Result<Found> key_of_option_or_file(const std::optional<JobKey>& option,
                                    const Environment& environment) {
  if (option) return Found(crypto::Secret(option->bytes));
  const auto path = environment("TUTTI_JOB_KEY_FILE");
  if (!path) return Found();
  auto key = read_key_file(*path);
  if (!key) return key.status();
  return Found(std::move(*key));
}

Result<Found> key_of_launcher(const Environment& environment) {
  const auto digits = environment(kJobKeyVariable);
  if (!digits) return Found();
  auto key = parse_key(*digits, kJobKeyVariable);
  if (!key) return key.status();
  return Found(std::move(*key));
}

}  // namespace

Result<std::optional<crypto::Secret>> find_given_key(const std::optional<JobKey>& option,
                                                     const Environment& environment) {
  auto key = key_of_option_or_file(option, environment);
  return !key || *key ? std::move(key) : key_of_launcher(environment);
}

Result<std::optional<crypto::Secret>> find_job_key(const CommunicatorOptions& options,
                                                   const Bootstrap& bootstrap,
                                                   const Environment& environment) {
  const auto required = key_required(environment);
  if (!required) return required.status();
  auto key = key_of_option_or_file(options.job_key, environment);
  if (!key || *key) return key;
  if (bootstrap.key() != nullptr) return Found(bootstrap.key()->copy());
  key = key_of_launcher(environment);
  if (!key || *key) return key;
  if (!*required || bootstrap.size() == 1) return Found();
  return failure(Code::invalid_argument, "this job has no key but TUTTI_REQUIRE_KEY is set: {}",
                 kHowToGiveAKey);
}

void warn_of_missing_key(const Bootstrap& bootstrap) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  observe::inform(
      fmt::format("this job is not authenticated, so a process that reaches its bootstrap ({}) may "
                  "take the place of a rank: {}",
                  bootstrap.description(), kHowToGiveAKey));
}

}  // namespace tutti::runtime
