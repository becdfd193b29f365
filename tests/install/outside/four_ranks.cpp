// A program that forks into four ranks, in C++. It creates communicators over a unique id, over the
// program's own exchange (socket pairs) and by duplication, runs an Allgather on each, and reports
// the result by its exit status.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tutti/communicator.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::size_t kBytes = 50021;

bool send_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::write(descriptor, bytes.data(), bytes.size());
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(int descriptor, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t received = ::read(descriptor, bytes.data(), bytes.size());
    if (received <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
  return true;
}

/// Socket pairs between rank 0 and each other rank, made before the fork.
class Star {
 public:
  bool open() {
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pairs_[rank].data()) != 0) return false;
    }
    return true;
  }

  bool broadcast(std::uint32_t rank, std::span<std::byte> bytes) const {
    if (rank != 0) return receive_all(pairs_[rank][1], bytes);
    bool right = true;
    for (std::uint32_t peer = 1; peer < kRanks; ++peer)
      right = right && send_all(pairs_[peer][0], bytes);
    return right;
  }

  bool allgather(std::uint32_t rank, std::span<const std::byte> mine,
                 std::span<std::byte> all) const {
    if (rank != 0) return send_all(pairs_[rank][1], mine) && broadcast(rank, all);
    if (!mine.empty()) std::memcpy(all.data(), mine.data(), mine.size());
    bool right = true;
    for (std::uint32_t peer = 1; peer < kRanks; ++peer) {
      const auto part = all.subspan(peer * mine.size(), mine.size());
      right = right && receive_all(pairs_[peer][0], part);
    }
    return right && broadcast(rank, all);
  }

 private:
  std::array<std::array<int, 2>, kRanks> pairs_{};
};

std::byte pattern(std::size_t i, std::uint32_t rank, unsigned seed) {
  return static_cast<std::byte>((i * 7 + seed + rank) & 0xff);
}

/// Runs and checks an Allgather. Returns "" or a description of the failure.
std::string check_allgather(tutti::Communicator& communicator, unsigned seed) {
  const std::uint32_t rank = tutti::index(communicator.rank());
  std::vector<std::byte> own(kBytes);
  std::vector<std::byte> all(kRanks * kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) own[i] = pattern(i, rank, seed);
  auto request = communicator.allgather(own, all);
  if (!request) return request.status().to_string();
  if (const tutti::Status status = request->wait(); !status) return status.to_string();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto source = static_cast<std::uint32_t>(i / kBytes);
    if (all[i] != pattern(i % kBytes, source, seed)) return "the allgather delivered wrong bytes";
  }
  return {};
}

int run_rank(std::uint32_t rank, const Star& star) {
  const auto fail = [rank](const std::string& reason) {
    std::cerr << "rank " << rank << ": " << reason << "\n";
    return 1;
  };
  tutti::CommunicatorOptions options;
  options.retain_bytes = 1000;

  tutti::UniqueId id;
  if (rank == 0) {
    auto unused = tutti::UniqueId::create("127.0.0.1");
    if (!unused) return fail(unused.status().to_string());
    unused->discard();
    auto made = tutti::UniqueId::create("127.0.0.1");
    if (!made) return fail(made.status().to_string());
    auto parsed = tutti::UniqueId::parse(made->text.data());
    if (!parsed || parsed->text != made->text)
      return fail("the unique id differs after conversion to text and back");
    id = *parsed;
  }
  if (!star.broadcast(rank, std::as_writable_bytes(std::span(id.text)))) return fail("no id came");
  auto by_id = tutti::Communicator::create(id, tutti::rank_of(rank), kRanks, options);
  if (!by_id) return fail(by_id.status().to_string());

  const tutti::ExchangeCallback exchange = [&](std::span<const std::byte> mine,
                                               std::span<std::byte> all, tutti::Nanoseconds) {
    if (star.allgather(rank, mine, all)) return tutti::Status();
    return tutti::Status(tutti::Code::peer_failed, "a socket pair was closed");
  };
  auto by_exchange = tutti::Communicator::create(exchange, tutti::rank_of(rank), kRanks, options);
  if (!by_exchange) return fail(by_exchange.status().to_string());

  auto duplicate = by_exchange->duplicate(options);
  if (!duplicate) return fail(duplicate.status().to_string());

  unsigned seed = 3;
  for (tutti::Communicator* one : {&*by_id, &*by_exchange, &*duplicate}) {
    const std::string wrong = check_allgather(*one, seed++);
    if (!wrong.empty()) return fail(wrong);
  }
  std::cout << "rank " << rank << " of " << kRanks << ": right\n";
  return 0;
}

}  // namespace

int main() {
  Star star;
  if (!star.open()) return 2;
  for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
    const pid_t child = ::fork();  // forks before any thread exists
    if (child < 0) return 2;
    if (child == 0) return run_rank(rank, star);
  }
  int failed = run_rank(0, star);
  int status = 0;
  while (::wait(&status) > 0) failed |= static_cast<int>(status != 0);
  return failed;
}
