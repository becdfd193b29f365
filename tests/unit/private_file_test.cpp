// Tests files in folders where other users may write: planted links, wrong modes, other owners,
// files that exist, and a full disk.
#include "device/posix/private_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "requirements.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::device {
namespace {

class PrivateFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("tutti-file-" + runtime::random_hex(8).value());
    std::filesystem::create_directory(folder_);
    path_ = folder_ / "file";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string unfinished() const { return path_ + "." + std::to_string(::getpid()); }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(PrivateFile, ReplacedFile_isWholeAndForItsOwnerOnly) {
  const mode_t mask = ::umask(0);
  EXPECT_TRUE(replace_private_file(path_, "first").ok());
  EXPECT_TRUE(replace_private_file(path_, "second").ok());
  ::umask(mask);
  EXPECT_EQ(content(), "second");
  EXPECT_EQ(entries(), 1u);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(PrivateFile, PlantedSymbolicLink_isNeverFollowed) {
  const std::string target = folder_ / "target";
  std::ofstream(target) << "precious";
  std::filesystem::create_symlink(target, path_);
  EXPECT_EQ(create_private_file(path_).status().code(), Code::invalid_argument);
  EXPECT_NE(open_private_file(path_).status().message().find("is a symbolic link"),
            std::string::npos);
  // The link is replaced, not the file to which it points.
  EXPECT_TRUE(replace_private_file(path_, "own").ok());
  EXPECT_FALSE(std::filesystem::is_symlink(path_));
  std::filesystem::create_symlink(target, unfinished());
  EXPECT_EQ(replace_private_file(path_, "other").code(), Code::invalid_argument);
  EXPECT_EQ(content(), "own");
  std::string text;
  std::getline(std::ifstream(target), text);
  EXPECT_EQ(text, "precious");
}

TEST_F(PrivateFile, FileThatExists_isNotOverwritten) {
  std::ofstream(path_) << "precious";
  const Status status = create_private_file(path_).status();
  EXPECT_NE(status.message().find("exists already: remove it"), std::string::npos);
  EXPECT_EQ(content(), "precious");
}

TEST_F(PrivateFile, FileThatOthersMayOpen_isRefused) {
  std::ofstream(path_) << "text";
  for (const mode_t mode : {0644u, 0620u, 0602u, 04600u}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    const Status status = open_private_file(path_).status();
    EXPECT_NE(status.message().find("but must allow at most 0600: run chmod 600 " + path_),
              std::string::npos)
        << status.message();
  }
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_TRUE(open_private_file(path_).ok());
}

TEST_F(PrivateFile, FileOfAnotherUser_isRefused) {
  if (::geteuid() != 0)
    return test::skip_without("root", "only root can give a file to another user");
  ASSERT_TRUE(replace_private_file(path_, "text").ok());
  ASSERT_EQ(::chown(path_.c_str(), 4711, 4711), 0);
  const Status status = open_private_file(path_).status();
  EXPECT_NE(status.message().find("belongs to user 4711"), std::string::npos) << status.message();
}

TEST_F(PrivateFile, AbsentFile_isNoError_andGivesNoFileDescriptor) {
  const auto file = open_private_file(path_);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_FALSE(file->valid());
}

TEST_F(PrivateFile, Replacement_onAFullDisk_failsWithTheReason_andLeavesNoPartialFile) {
  if (::geteuid() != 0) return test::skip_without("root", "only root can mount a small disk");
  if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=64k") != 0)
    return test::skip_without("root", "this process may not mount a small disk");
  const Status status = replace_private_file(path_, std::string(1 << 20, 'x'));
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(status.message().find("cannot be written: No space left on device"), std::string::npos)
      << status.message();
  EXPECT_EQ(entries(), 0u);
  EXPECT_TRUE(replace_private_file(path_, "short").ok());
  ASSERT_EQ(::umount(folder_.c_str()), 0);
}

TEST_F(PrivateFile, Write_withoutSpaceLeft_failsWithTheReason) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  const Status status = write_all(full, std::as_bytes(std::span("text")), "/dev/full");
  EXPECT_NE(status.message().find("No space left on device"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace tutti::device
