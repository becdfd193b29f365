// A rank of the correctness matrix: it runs a sample of all kinds of collectives and checks every
// byte.
//
//   matrix_program sweep SEED          every root, number of subgroups and number of chains (0:
//                                      learned); odd sizes; in place and with two buffers;
//                                      multicast and ring; keyed tag and CRC-32C
//   matrix_program large BYTES         a Broadcast and an Allgather that receive BYTES bytes
//   matrix_program together COUNT      COUNT communicators with collectives under way at once
//   matrix_program calls COUNT         COUNT calls back to back, of small and empty messages
//
// `tutti run` and `tutti lab run` start the program once per rank, with RANK, WORLD_SIZE, ... in
// the environment. Rank 0 prints a line of JSON with its results; the exit status is 0 only if all
// data were right.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "runtime/bootstrap/detect.hpp"
#include "runtime/communicator/create.hpp"
#include "tutti/communicator.hpp"

namespace {

using namespace tutti;
using Bytes = std::vector<std::byte>;

constexpr int kWrong = 1;
constexpr int kUsage = 2;
constexpr Nanoseconds kPatience = std::chrono::seconds(60);

/// Fills in the bytes that `rank` contributes to collective number `seed`: a random stream, so that
/// misplaced bytes are detected.
void fill(std::span<std::byte> bytes, std::uint64_t seed, std::uint32_t rank) {
  const std::uint64_t stream = seed * 1024 + rank;
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = draw(stream, i / 8);
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
  }
}

std::size_t wrong_bytes(std::span<const std::byte> bytes, std::uint64_t seed, std::uint32_t rank) {
  const std::uint64_t stream = seed * 1024 + rank;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = draw(stream, i / 8);
    const std::size_t part = std::min<std::size_t>(8, bytes.size() - i);
    wrong += std::memcmp(bytes.data() + i, &word, part) == 0 ? 0 : part;
  }
  return wrong;
}

struct Tally {
  std::uint64_t collectives = 0;
  std::uint64_t checked_bytes = 0;
};

/// A collective that is under way, with its buffers.
class Exercise {
 public:
  Exercise(Communicator& communicator, bool gather, std::size_t bytes, std::uint32_t root,
           bool in_place, std::uint64_t seed)
      : communicator_(communicator),
        gather_(gather),
        bytes_(bytes),
        root_(root),
        in_place_(in_place),
        seed_(seed) {}

  Status start(Algorithm algorithm) {
    const std::uint32_t me = index(communicator_.rank());
    Result<Request> request =
        gather_ ? start_gather(me, algorithm) : start_broadcast(me, algorithm);
    if (!request) return request.status();
    request_ = std::move(*request);
    return {};
  }

  Status end(Tally& tally) {
    if (Status status = request_.wait_for(kPatience); !status) return status;
    std::size_t wrong = 0;
    if (gather_) {
      for (std::uint32_t r = 0; r < communicator_.size(); ++r) {
        wrong += wrong_bytes(std::span(all_).subspan(r * bytes_, bytes_), seed_, r);
      }
    } else {
      wrong = wrong_bytes(all_, seed_, root_);
    }
    ++tally.collectives;
    tally.checked_bytes += all_.size();
    if (wrong == 0) return {};
    return Status(Code::internal, fmt::format("{} of {} bytes are wrong", wrong, all_.size()));
  }

  std::string describe() const {
    return fmt::format("{} of {} bytes, root {}, {}", gather_ ? "allgather" : "broadcast", bytes_,
                       root_, in_place_ ? "in place" : "not in place");
  }

 private:
  Result<Request> start_gather(std::uint32_t me, Algorithm algorithm) {
    all_.assign(bytes_ * communicator_.size(), std::byte{0});
    std::span<std::byte> own = std::span(all_).subspan(me * bytes_, bytes_);
    if (!in_place_) {
      own_.resize(bytes_);
      own = own_;
    }
    fill(own, seed_, me);
    return communicator_.allgather(own, all_, {.algorithm = algorithm});
  }

  Result<Request> start_broadcast(std::uint32_t me, Algorithm algorithm) {
    all_.assign(bytes_, std::byte{0});
    if (me == root_) fill(all_, seed_, root_);
    return communicator_.broadcast(all_, rank_of(root_), {.algorithm = algorithm});
  }

  Communicator& communicator_;
  bool gather_;
  std::size_t bytes_;
  std::uint32_t root_;
  bool in_place_;
  std::uint64_t seed_;
  Bytes own_;
  Bytes all_;
  Request request_;
};

class Matrix {
 public:
  explicit Matrix(runtime::Bootstrap& bootstrap) : bootstrap_(bootstrap) {}

  Status open() {
    auto first = runtime::create_communicator(bootstrap_, options(1, 0, true));
    if (!first) return first.status();
    communicators_.push_back(std::move(*first));
    return {};
  }

  Status sweep(std::uint64_t seed);
  Status large(std::size_t received_bytes);
  Status together(std::size_t count);
  Status calls(std::uint64_t count);

  /// Runs a barrier on each communicator, so that no rank leaves while a peer still needs data from
  /// it.
  Status leave() {
    for (Communicator& one : communicators_) {
      auto request = one.barrier();
      if (!request) return request.status();
      if (Status status = request->wait_for(kPatience); !status) return status;
    }
    return {};
  }
  const Tally& tally() const { return tally_; }
  Communicator& first() { return communicators_.front(); }

 private:
  static CommunicatorOptions options(std::uint32_t subgroups, std::uint32_t chains, bool tag) {
    CommunicatorOptions result;
    result.device_name = "ip";
    result.subgroups = subgroups;
    result.chains = chains;
    result.authenticate = tag;
    // A long timeout, because a peer on a busy machine may answer late.
    result.peer_timeout = kPatience;
    return result;
  }

  Status run(Communicator& communicator, bool gather, std::size_t bytes, std::uint32_t root,
             bool in_place, Algorithm algorithm = Algorithm::multicast) {
    Exercise one(communicator, gather, bytes, root, in_place, ++seed_);
    Status status = one.start(algorithm);
    if (status) status = one.end(tally_);
    if (status) return {};
    return Status(status.code(), one.describe() + ": " + status.message());
  }

  Status every_root(Communicator& communicator);
  Status sizes(Communicator& communicator, std::size_t most);

  runtime::Bootstrap& bootstrap_;
  std::vector<Communicator> communicators_;
  std::uint64_t seed_ = 0;
  Tally tally_;
};

Status Matrix::every_root(Communicator& communicator) {
  for (std::uint32_t root = 0; root < communicator.size(); ++root) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{30'011}}) {
      if (Status status = run(communicator, false, bytes, root, true); !status) return status;
    }
  }
  return {};
}

Status Matrix::sizes(Communicator& communicator, std::size_t most) {
  constexpr std::array<std::size_t, 11> kSizes{0,      1,      3,       1447,    1473,     4095,
                                               65'537, 99'999, 262'145, 786'433, 3'145'729};
  for (const std::size_t bytes : kSizes) {
    if (bytes > most) break;
    const auto root = static_cast<std::uint32_t>(draw(seed_, bytes) % communicator.size());
    if (Status status = run(communicator, false, bytes, root, true); !status) return status;
    const std::size_t block = bytes / communicator.size() | (bytes & 1);
    for (const bool in_place : {false, true}) {
      if (Status status = run(communicator, true, block, 0, in_place); !status) return status;
    }
  }
  return {};
}

/// For every number of subgroups and of chains, runs every root and then every size. The largest
/// sizes and the ring run only with a learned number of chains (0), and CRC-32C runs only with one
/// chain.
Status Matrix::sweep(std::uint64_t seed) {
  seed_ = seed << 20;
  const std::uint32_t ranks = first().size();
  for (std::uint32_t subgroups = 1; subgroups <= 4; ++subgroups) {
    for (std::uint32_t m = 0; m <= ranks; ++m) {
      const bool tag = m != 1;
      auto made = first().duplicate(options(subgroups, m, tag));
      if (!made) return made.status();
      Communicator communicator = std::move(*made);
      Status status = every_root(communicator);
      if (status) status = sizes(communicator, m == 0 ? 3'145'729 : 262'145);
      if (status && m == 0) {
        status = run(communicator, true, 20'001, 0, false, Algorithm::ring);
        if (status) status = run(communicator, false, 200'001, ranks - 1, true, Algorithm::ring);
      }
      if (status) {
        auto last = communicator.barrier();
        status = last ? last->wait_for(kPatience) : last.status();
      }
      if (!status) {
        return Status(status.code(),
                      fmt::format("S = {}, M = {}: {}", subgroups, m, status.message()));
      }
    }
  }
  return {};
}

Status Matrix::large(std::size_t received_bytes) {
  const std::uint32_t ranks = first().size();
  if (Status status = run(first(), false, received_bytes - 1, ranks / 2, true); !status)
    return status;
  return run(first(), true, received_bytes / ranks - 1, 0, false);
}

Status Matrix::together(std::size_t count) {
  constexpr int kRounds = 25;
  while (communicators_.size() < count) {
    const auto which = static_cast<std::uint32_t>(communicators_.size());
    auto made = first().duplicate(options(1 + which % 2, 0, which % 3 != 0));
    if (!made) return made.status();
    communicators_.push_back(std::move(*made));
  }
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Exercise> under_way;
    under_way.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = draw(7, ++seed_) % 100'000;
      const auto root = static_cast<std::uint32_t>(seed_ % first().size());
      under_way.emplace_back(communicators_[i], seed_ % 2 == 0, bytes, root, false, seed_);
    }
    for (Exercise& one : under_way) {
      if (Status status = one.start(Algorithm::multicast); !status) return status;
    }
    for (Exercise& one : under_way) {
      if (Status status = one.end(tally_); !status) {
        return Status(status.code(), one.describe() + ": " + status.message());
      }
    }
  }
  return {};
}

Status Matrix::calls(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t bytes = draw(11, i) % 3000 * (i % 7 != 0);
    const auto root = static_cast<std::uint32_t>(draw(13, i) % first().size());
    if (Status status = run(first(), i % 2 == 0, bytes, root, i % 3 == 0); !status) {
      return Status(status.code(), fmt::format("call {}: {}", i, status.message()));
    }
  }
  return {};
}

Status carry_out(Matrix& matrix, std::string_view what, std::uint64_t number) {
  Status status = matrix.open();
  if (!status) return status;
  if (what == "sweep") status = matrix.sweep(number);
  if (what == "large") status = matrix.large(number);
  if (what == "together") status = matrix.together(number);
  if (what == "calls") status = matrix.calls(number);
  return status ? matrix.leave() : status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  constexpr std::array<std::string_view, 4> kModes{"sweep", "large", "together", "calls"};
  std::uint64_t number = 0;
  const std::string_view text = argc > 2 ? argv[2] : "";
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool known = std::find(kModes.begin(), kModes.end(), what) != kModes.end();
  if (!known || argc != 3 || parsed.ec != std::errc() || (what == "large" && number < 64)) {
    fmt::print(stderr, "usage: {} sweep|large|together|calls NUMBER\n", argv[0]);
    return kUsage;
  }
  const auto begun = std::chrono::steady_clock::now();
  auto bootstrap = runtime::detect(kPatience);
  if (!bootstrap) {
    fmt::print(stderr, "{}\n", bootstrap.status().to_string());
    return kWrong;
  }
  Matrix matrix(**bootstrap);
  const Status status = carry_out(matrix, what, number);
  if (!status) {
    fmt::print(stderr, "{} {}, rank {} of {}: {}\n", what, number, index((*bootstrap)->rank()),
               (*bootstrap)->size(), status.to_string());
    return kWrong;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  if (index(matrix.first().rank()) == 0) {
    fmt::print(
        "{{\"what\":\"{}\",\"ranks\":{},\"collectives\":{},\"checked_bytes\":{},"
        "\"seconds\":{:.2f}}}\n",
        what, matrix.first().size(), matrix.tally().collectives, matrix.tally().checked_bytes,
        took.count());
  }
  return 0;
}
