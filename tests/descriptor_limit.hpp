// Limits the number of file descriptors of this process during a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tutti::test {

/// Sets the soft limit (RLIMIT_NOFILE), and restores the earlier one at its end.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t descriptors) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit present = before_;
    present.rlim_cur = descriptors;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &present), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

  /// The limit to which the hard limit allows to raise the soft limit.
  static rlim_t most() {
    rlimit present{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &present), 0);
    return present.rlim_max;
  }

 private:
  rlimit before_{};
};

}  // namespace tutti::test
