#include "support.hpp"

#include <cstdlib>
#include <vector>

namespace {

/// The last failure in this thread. Static destructors may call C functions even after this object
/// is destroyed; from then on only static texts are stored.
struct LastFailure {
  std::string text;
  std::vector<std::uint32_t> ranks;

  ~LastFailure();
};

enum class Lifetime { live, ended };
thread_local Lifetime last_failure_lifetime = Lifetime::live;
// The result of tutti_last_error(): the text of `last_failure`, or a static text.
thread_local const char* last_text = "";
thread_local LastFailure last_failure;

LastFailure::~LastFailure() {
  last_text = "";
  last_failure_lifetime = Lifetime::ended;
}

}  // namespace

namespace tutti::c {

tutti_status_t report(const Status& status) noexcept {
  if (status.ok()) return TUTTI_OK;
  const auto value = static_cast<tutti_status_t>(status.code());
  last_text = tutti_status_string(value);
  if (last_failure_lifetime == Lifetime::ended) return value;
  last_failure.ranks.clear();
  try {
    for (const Rank rank : status.ranks()) last_failure.ranks.push_back(index(rank));
    last_failure.text = status.message();
    if (!last_failure.text.empty()) last_text = last_failure.text.c_str();
  } catch (...) {
    last_failure.ranks.clear();
  }
  return value;
}

Status null_argument(const char* function, const char* argument) {
  return failure(Code::invalid_argument, "{}: {} is NULL: pass a valid pointer", function,
                 argument);
}

Status give_text(const std::string& text, char** out) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr)
    return failure(Code::resource_exhausted, "no memory for the requested text: free some memory");
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *out = copy;
  return {};
}

}  // namespace tutti::c

using tutti::Code;

// C status codes have the same values as tutti::Code, so that a cast converts them.
static_assert(static_cast<int>(Code::ok) == TUTTI_OK);
static_assert(static_cast<int>(Code::invalid_argument) == TUTTI_INVALID_ARGUMENT);
static_assert(static_cast<int>(Code::unsupported) == TUTTI_UNSUPPORTED);
static_assert(static_cast<int>(Code::resource_exhausted) == TUTTI_RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(Code::timeout) == TUTTI_TIMEOUT);
static_assert(static_cast<int>(Code::peer_failed) == TUTTI_PEER_FAILED);
static_assert(static_cast<int>(Code::aborted) == TUTTI_ABORTED);
static_assert(static_cast<int>(Code::system) == TUTTI_SYSTEM);
static_assert(static_cast<int>(Code::internal) == TUTTI_INTERNAL);

// The version in tutti.h must equal the version of the CMake project.
static_assert(TUTTI_VERSION_MAJOR == TUTTI_PROJECT_MAJOR);
static_assert(TUTTI_VERSION_MINOR == TUTTI_PROJECT_MINOR);
static_assert(TUTTI_VERSION_PATCH == TUTTI_PROJECT_PATCH);

const char* tutti_version(void) { return TUTTI_PROJECT_VERSION; }

const char* tutti_status_string(tutti_status_t status) {
  if (status < TUTTI_OK || status > TUTTI_INTERNAL) return "unknown";
  return tutti::to_string(static_cast<Code>(status));
}

const char* tutti_last_error(void) { return last_text; }

size_t tutti_last_error_ranks(uint32_t* ranks, size_t capacity) {
  if (last_failure_lifetime == Lifetime::ended) return 0;
  const std::vector<std::uint32_t>& known = last_failure.ranks;
  if (ranks != nullptr) std::copy_n(known.begin(), std::min(capacity, known.size()), ranks);
  return known.size();
}

void tutti_free_text(char* text) { std::free(text); }
