// Tests where a rank finds its job key: in the options, a key file, the bootstrap or a variable.
#include "runtime/keys/job_key.hpp"
#include "runtime/communicator/create.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/hex.hpp"
#include "bootstrap_ranks.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/bootstrap/unique_id.hpp"
#include "runtime/keys/key_file.hpp"
#include "tutti/communicator.hpp"

namespace tutti::runtime::test {
namespace {

const std::string kDigits(64, 'b');

class Keys : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("tutti-key-" + random_hex(8).value());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  /// The key that is found, as hexadecimal digits; "none" if there is no key; the error message if
  /// the search fails.
  std::string found(const Variables& variables, const CommunicatorOptions& options = {},
                    std::uint32_t size = 2) {
    const auto key =
        find_job_key(options, *make_local_bootstraps(size)[0], environment_of(variables));
    if (!key) return key.status().message();
    return *key ? to_hex((*key)->bytes()) : "none";
  }

  std::string path_;
};

TEST_F(Keys, OptionPrecedesTheFile_whichPrecedesTheVariable) {
  ASSERT_TRUE(write_key_file(path_).ok());
  const std::string in_file = to_hex(read_key_file(path_)->bytes());
  const std::string of_launcher(64, 'c');
  CommunicatorOptions options;
  options.job_key.emplace().bytes.fill(std::byte{0xdd});
  const Variables both{{"TUTTI_JOB_KEY_FILE", path_}, {"TUTTI_JOB_KEY", of_launcher}};
  EXPECT_EQ(found({}), "none");
  EXPECT_EQ(found({{"TUTTI_JOB_KEY", of_launcher}}), of_launcher);
  EXPECT_EQ(found(both), in_file);
  EXPECT_EQ(found(both, options), std::string(64, 'd'));
}

TEST_F(Keys, UnusableKey_isAnError) {
  EXPECT_NE(found({{"TUTTI_JOB_KEY", "short"}}).find("the job key in TUTTI_JOB_KEY is not 64"),
            std::string::npos);
  EXPECT_NE(found({{"TUTTI_JOB_KEY_FILE", path_}}).find("does not exist"), std::string::npos);
}

TEST_F(Keys, UniqueId_givesItsRanksOneKey) {
  const auto id = make_unique_id("127.0.0.1");
  const auto other_id = make_unique_id("127.0.0.1");
  ASSERT_TRUE(id.ok() && other_id.ok());
  const auto key_in = [](const UniqueId& one, std::uint32_t rank) {
    auto bootstrap = join_unique_id(one, rank_of(rank), 2, kLong);
    if (!bootstrap) return bootstrap.status().message();
    const auto key = find_job_key({}, **bootstrap, environment_of({{"TUTTI_JOB_KEY", kDigits}}));
    return key && *key ? to_hex((*key)->bytes()) : "none";
  };
  const auto keys = on_ranks(2, [&](std::uint32_t rank) { return key_in(*id, rank); });
  const auto others = on_ranks(2, [&](std::uint32_t rank) { return key_in(*other_id, rank); });
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_EQ(keys[0].size(), 64u) << keys[0];
  EXPECT_NE(keys[0], others[0]);
  EXPECT_NE(keys[0], kDigits);
}

TEST_F(Keys, MissingKey_whereAKeyIsRequired_isRefused) {
  const std::string refusal = found({{"TUTTI_REQUIRE_KEY", "1"}});
  EXPECT_EQ(refusal,
            "this job has no key but TUTTI_REQUIRE_KEY is set: name a key file, made by `tutti key "
            "new FILE`, in TUTTI_JOB_KEY_FILE at all ranks, or start the job by `tutti run`");
  EXPECT_EQ(found({{"TUTTI_REQUIRE_KEY", "1"}, {"TUTTI_JOB_KEY", kDigits}}), kDigits);
  EXPECT_EQ(found({{"TUTTI_REQUIRE_KEY", "0"}}), "none");
  EXPECT_EQ(found({{"TUTTI_REQUIRE_KEY", "1"}}, {}, 1), "none");
  EXPECT_NE(found({{"TUTTI_REQUIRE_KEY", "yes"}}).find("is neither 0 nor 1"), std::string::npos);
}

TEST(KeylessJob, SeveralCommunicators_inOneProcess_writeOneWarning) {
  testing::internal::CaptureStderr();
  for (int time = 0; time < 2; ++time) {
    auto bootstraps = make_local_bootstraps(2);
    const auto ends = on_ranks(2, [&](std::uint32_t rank) {
      return runtime::create_communicator(*bootstraps[rank], {}).status().to_string();
    });
    EXPECT_EQ(ends, std::vector<std::string>(2, "ok"));
  }
  const std::string text = testing::internal::GetCapturedStderr();
  const std::string line = "this job is not authenticated, so a process that reaches its bootstrap";
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find(line, at + 1), std::string::npos) << text;
  EXPECT_NE(text.find("TUTTI_JOB_KEY_FILE"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::runtime::test
