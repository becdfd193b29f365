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

/// Whether TUTTI_REQUIRE_KEY asks for a key.
Result<bool> key_required(const Environment& environment) {
  const auto text = environment("TUTTI_REQUIRE_KEY");
  if (!text || *text == "0") return false;
  if (*text == "1") return true;
  return failure(Code::invalid_argument,
                 "TUTTI_REQUIRE_KEY=\"{}\" is neither 0 nor 1: use 1 to refuse jobs without a key",
                 *text);
}

}  // namespace

Result<std::optional<crypto::Secret>> find_job_key(const CommunicatorOptions& options,
                                                   const Bootstrap& bootstrap,
                                                   const Environment& environment) {
  using Found = std::optional<crypto::Secret>;
  const auto required = key_required(environment);
  if (!required) return required.status();
  if (options.job_key) return Found(crypto::Secret(options.job_key->bytes));
  if (const auto path = environment("TUTTI_JOB_KEY_FILE")) {
    auto key = read_key_file(*path);
    if (!key) return key.status();
    return Found(std::move(*key));
  }
  if (bootstrap.key() != nullptr) return Found(bootstrap.key()->copy());
  if (const auto digits = environment(kJobKeyVariable)) {
    auto key = parse_key(*digits, kJobKeyVariable);
    if (!key) return key.status();
    return Found(std::move(*key));
  }
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
