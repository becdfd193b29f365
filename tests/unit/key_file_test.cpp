// Tests job key files: how they are made, and each reason why one is refused.
#include "runtime/keys/key_file.hpp"
#include "requirements.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/hex.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime::test {
namespace {

const std::string kDigits(64, 'b');

class KeyFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tutti-key-" + random_hex(8).value());
    std::filesystem::create_directory(folder_);
    path_ = folder_ / "key";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  std::string refusal() {
    const auto key = read_key_file(path_);
    return key.ok() ? "read" : key.status().message();
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(KeyFile, NewKey_isReadBack_andIsForItsOwnerOnly) {
  ASSERT_TRUE(write_key_file(path_).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const auto key = read_key_file(path_);
  ASSERT_TRUE(key.ok()) << key.status().to_string();
  std::string digits;
  std::getline(std::ifstream(path_), digits);
  EXPECT_EQ(to_hex(key->bytes()), digits);
  const std::string other = folder_ / "other";
  ASSERT_TRUE(write_key_file(other).ok());
  EXPECT_FALSE(crypto::equal(read_key_file(other)->bytes(), key->bytes()));
}

TEST_F(KeyFile, NewKey_neverReplacesAFile) {
  write("precious");
  EXPECT_EQ(write_key_file(path_).message(),
            path_ + " exists already: remove it if nothing needs it, or name another file");
  std::filesystem::create_symlink(path_ + "-absent", path_ + "-link");
  EXPECT_FALSE(write_key_file(path_ + "-link").ok());
  EXPECT_FALSE(std::filesystem::exists(path_ + "-absent"));
  std::string text;
  std::getline(std::ifstream(path_), text);
  EXPECT_EQ(text, "precious");
}

TEST_F(KeyFile, ModeStricterThan0600_isAccepted) {
  for (const mode_t mode : {0600u, 0400u}) {
    write(kDigits, mode);
    EXPECT_EQ(refusal(), "read") << mode;
    std::filesystem::remove(path_);
  }
}

TEST_F(KeyFile, FileThatOthersMayOpen_isRefused) {
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u, 0610u, 0700u, 04600u}) {
    write(kDigits + "\n", mode);
    EXPECT_NE(refusal().find("but must allow at most 0600: run chmod 600 " + path_),
              std::string::npos)
        << refusal();
  }
}

TEST_F(KeyFile, FileOfAnotherUser_isRefused) {
  if (::geteuid() != 0)
    return tutti::test::skip_without("root", "only root can give a file to another user");
  write(kDigits);
  ASSERT_EQ(::chown(path_.c_str(), 4711, 4711), 0);
  EXPECT_EQ(refusal(), "the job key file " + path_ +
                           " belongs to user 4711, not to user 0 of this process: use a file of "
                           "your own");
}

TEST_F(KeyFile, PathThatIsNoRegularFile_isRefused) {
  EXPECT_EQ(refusal().find("the job key file " + path_ + " does not exist: make it with `tutti " +
                           "key new " + path_ + "`"),
            0u)
      << refusal();
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(refusal().find("is not a regular file"), std::string::npos) << refusal();
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_NE(refusal().find("is not a regular file"), std::string::npos) << refusal();
  std::filesystem::remove(path_);
  std::ofstream(folder_ / "target") << kDigits;
  std::filesystem::create_symlink(folder_ / "target", path_);
  EXPECT_EQ(refusal(), "the job key file " + path_ + " is a symbolic link: name the file itself");
}

TEST_F(KeyFile, ContentThatIsNoKey_isRefused) {
  for (const std::string& text :
       {std::string(), kDigits.substr(1), kDigits + "b", kDigits + "bb", kDigits + "\n\n",
        " " + kDigits, kDigits.substr(1) + "g", std::string(100'000, 'b')}) {
    write(text);
    EXPECT_EQ(refusal(), "the job key in file " + path_ +
                             " is not 64 hexadecimal digits: make one with `tutti key new FILE`");
  }
}

}  // namespace
}  // namespace tutti::runtime::test
