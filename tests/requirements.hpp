// Tests that need a capability of the machine are skipped without it, or fail if TUTTI_REQUIRE
// names it.
#pragma once

#include <array>
#include <string_view>

namespace tutti::test {

/// Capabilities that a test may need, as TUTTI_REQUIRE and tests/requirements.py name them.
inline constexpr std::array<std::string_view, 11> kCapabilities = {
    "lab",    "netadmin", "root", "ipv6", "priority",  "nicelimit",
    "timens", "cores",    "mpi",  "pmix", "peermemory"};

/// Marks the running test as skipped for lack of a capability, or as failed if TUTTI_REQUIRE lists
/// it. Use it in a return statement: `return skip_without("lab", reason);`.
void skip_without(std::string_view capability, std::string_view reason);

/// Records each skipped test of this process, with its reason, in the file that TUTTI_SKIP_LOG
/// names. A test that is skipped without skip_without() fails.
void report_skips();

}  // namespace tutti::test
