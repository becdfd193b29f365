// Tests what a rank checks before it maps the shared memory of a peer and uses the peer's bell, the
// pipe that wakes the peer. The peer sends the numbers of the two file descriptors, and either
// number may belong to some other file.
#include "device/host/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>

#include "requirements.hpp"
#include "unit/peer_memory.hpp"

namespace tutti::device::host {
namespace {

constexpr SegmentShape kShape{.ranks = 2, .subgroups = 1};

class HostSegment : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Segment::create(kShape);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    own_ = std::move(*made);
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK), 0);
    other_out_ = Descriptor(pipe[0]);
    other_in_ = Descriptor(pipe[1]);
  }
  std::string refusal(const SegmentAddress& address) {
    const auto opened = Segment::open(address, kShape);
    return opened.ok() ? "opened" : opened.status().message();
  }

  Segment own_;
  Descriptor other_out_;
  Descriptor other_in_;
};

TEST_F(HostSegment, SegmentAtAValidAddress_isOpened) {
  EXPECT_EQ(refusal(own_.address()), "opened");
}

TEST_F(HostSegment, ReadFromAProcessWithAnotherToken_isRefused) {
  if (!test::reads_processes())
    return test::skip_without("peermemory", "process_vm_readv is refused");
  const auto opened = Segment::open(own_.address(), kShape);
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_TRUE(opened->readable());
  const std::array<std::byte, 3> source{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 3> read{};
  EXPECT_TRUE(opened->read_owner(reinterpret_cast<std::uintptr_t>(source.data()), read));
  EXPECT_EQ(read, source);
  EXPECT_FALSE(opened->read_owner(8, read)) << "no memory is mapped there";
  const std::uint64_t other_token = own_.head().token + 1;
  own_.head().token_address = reinterpret_cast<std::uintptr_t>(&other_token);
  EXPECT_FALSE(opened->read_owner(reinterpret_cast<std::uintptr_t>(source.data()), read))
      << "this may be another process with the same number";
}

TEST_F(HostSegment, SizeOfTheMemory_cannotBeChanged) {
  const int file = own_.address().memory;
  EXPECT_NE(::ftruncate(file, 0), 0);
  EXPECT_NE(::ftruncate(file, static_cast<off_t>(2 * kShape.bytes())), 0);
  EXPECT_NE(::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST_F(HostSegment, MemoryWithoutSeals_isRefused) {
  const Descriptor loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), static_cast<off_t>(kShape.bytes())), 0);
  SegmentAddress address = own_.address();
  address.memory = loose.get();
  EXPECT_NE(refusal(address).find("is not sealed shared memory"), std::string::npos)
      << refusal(address);
  ASSERT_EQ(::fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_NE(refusal(address).find("is not sealed shared memory"), std::string::npos);
}

TEST_F(HostSegment, SealedMemoryOfAnotherSize_isRefused) {
  auto larger = Segment::create({.ranks = 3, .subgroups = 1});
  ASSERT_TRUE(larger.ok());
  EXPECT_NE(refusal(larger->address()).find("bytes instead of"), std::string::npos);
}

TEST_F(HostSegment, FileDescriptorThatIsNoSharedMemory_isRefused) {
  SegmentAddress address = own_.address();
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Descriptor folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const int descriptor : {other_out_.get(), null.get(), folder.get()}) {
    address.memory = descriptor;
    EXPECT_NE(refusal(address).find("is not a shared memory file"), std::string::npos)
        << refusal(address);
  }
}

TEST_F(HostSegment, WrongWakePipe_isRefused_andGetsNoByte) {
  SegmentAddress address = own_.address();
  address.bell = other_in_.get();
  EXPECT_NE(refusal(address).find("is not the pipe that wakes its rank"), std::string::npos)
      << refusal(address);
  pollfd readable{other_out_.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  address.bell = address.memory;
  EXPECT_NE(refusal(address).find("or wake pipe that"), std::string::npos) << refusal(address);
}

}  // namespace
}  // namespace tutti::device::host
