#include "launch/remote_socket.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "launch/process.hpp"

namespace tutti::launch {

namespace {

/// A message over a Unix socket that consists of one byte and one file descriptor.
struct Carrier {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  Carrier() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
};

/// Runs in the child: makes the socket and sends its descriptor to the parent. Returns 0, or errno
/// after a failure.
int make_and_send(int channel, int domain, int type, int protocol) {
  const int made = socket(domain, type, protocol);
  if (made < 0) return errno;
  Carrier carrier;
  cmsghdr* header = CMSG_FIRSTHDR(&carrier.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &made, sizeof made);
  return sendmsg(channel, &carrier.message, 0) == 1 ? 0 : errno;
}

}  // namespace

Result<device::Descriptor> socket_in(const NetNamespace& place, int domain, int type,
                                     int protocol) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_failure(errno, "cannot make a socket pair");
  }
  const device::Descriptor here(ends[0]);
  const device::Descriptor there(ends[1]);
  Result<pid_t> pid = fork_into(
      place, [&] { return make_and_send(there.get(), domain, type | SOCK_CLOEXEC, protocol); });
  if (!pid) return pid.status();
  Result<int> error_number = wait_for(*pid);
  if (!error_number) return error_number.status();
  if (*error_number != 0) {
    return system_failure(*error_number, "cannot make a socket in another network namespace");
  }
  Carrier carrier;
  const ssize_t count = recvmsg(here.get(), &carrier.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  const cmsghdr* header = count == 1 ? CMSG_FIRSTHDR(&carrier.message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return failure(Code::system,
                   "no socket arrived from the child process in the other network namespace: raise "
                   "the limit on open files (ulimit -n)");
  }
  int received = -1;
  std::memcpy(&received, CMSG_DATA(header), sizeof received);
  return device::Descriptor(received);
}

}  // namespace tutti::launch
