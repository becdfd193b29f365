// Tests the aggregators of a lab if the machine lacks what their start needs.
#include "lab/aggregators.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <system_error>

#include "lab/lab.hpp"
#include "requirements.hpp"

namespace tutti::lab {
namespace {

/// While it exists, no thread can be started, because its stack would not fit the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(Aggregators, StartWithoutAThread_restoresTheSignalMask_andCanBeRepeated) {
  const LabSupport support = lab_support();
  if (!support.temporary) return test::skip_without("lab", support.temporary.message());
  LabOptions options;
  options.hosts = 2;
  options.aggregators = 1;
  const Result<Lab> lab = Lab::create(options);
  ASSERT_TRUE(lab.ok()) << lab.status().to_string();
  {
    const NoThreads none;
    EXPECT_THROW((void)Aggregators::start(*lab, TUTTI_PROGRAM), std::system_error);
  }
  sigset_t mask;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
  Result<Aggregators> again = Aggregators::start(*lab, TUTTI_PROGRAM);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_NE(again->end().find("listening on"), std::string::npos);
}

}  // namespace
}  // namespace tutti::lab
