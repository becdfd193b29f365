// A test that needs a capability is skipped on a machine without this capability. If TUTTI_REQUIRE
// names the capability, the test fails instead.
#pragma once

#include <array>
#include <string_view>

namespace tutti::test {

/// Names of the capabilities that a test may need. TUTTI_REQUIRE and tests/requirements.py use the
/// same names.
inline constexpr std::array<std::string_view, 11> kCapabilities = {
    "lab",    "netadmin", "root", "ipv6", "priority",  "nicelimit",
    "timens", "cores",    "mpi",  "pmix", "peermemory"};

/// Marks the running test as skipped for lack of a capability, or as failed if TUTTI_REQUIRE lists
/// it. Use it in a return statement: `return skip_without("lab", reason);`.
void skip_without(std::string_view capability, std::string_view reason);

/// Records each skipped test of this process, with its reason, in the file that TUTTI_SKIP_LOG
/// names. A test that skips itself by any other means than skip_without() fails.
void report_skips();

}  // namespace tutti::test
