// A rank of a whole job, for capture_test.py: it creates a communicator and a duplicate, calls
// collectives over every kind of datagram, and writes its flight dump.
//
//   capture_program launcher [leak=raw|hex|base64]
//   capture_program callback DIRECTORY RANK SIZE [leak=...]
//   capture_program unique-id RANK SIZE [leak=...]
//
// launcher: the environment describes the job. callback: the ranks exchange their bytes through
// files in DIRECTORY and remove none of them. unique-id: rank 0 prints the id, the others read it
// from standard input. leak: the ranks send the job key of TUTTI_JOB_KEY as data, in this encoding.
//
// The program prints "running" when all calls but the last are done. Rank 0 then waits until
// another process opens the pipe $CAPTURE_GATE for writing. The program prints "complete" at the
// end.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/hex.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace {

using Bytes = std::vector<std::byte>;
namespace fs = std::filesystem;

constexpr int kFailed = 3;
constexpr int kUsage = 2;
constexpr std::size_t kBlockBytes = 3000;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

/// Exchanges data through files, and never changes or removes a file, so that the directory shows
/// all bytes of every exchange.
class Directory {
 public:
  Directory(std::string path, std::uint32_t rank) : path_(std::move(path)), rank_(rank) {}

  tutti::Status operator()(std::span<const std::byte> mine, std::span<std::byte> all,
                           tutti::Nanoseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    write(mine);
    for (std::size_t rank = 0; rank * mine.size() < all.size(); ++rank) {
      const std::string from = name(exchange_, rank);
      while (!fs::exists(from)) {
        if (std::chrono::steady_clock::now() > deadline)
          return {tutti::Code::timeout, from + " does not come: start all ranks"};
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::ifstream file(from, std::ios::binary);
      file.read(reinterpret_cast<char*>(all.data() + rank * mine.size()),
                static_cast<std::streamsize>(mine.size()));
    }
    ++exchange_;
    return {};
  }

 private:
  std::string name(std::uint32_t exchange, std::size_t rank) const {
    return fmt::format("{}/{}.{}", path_, exchange, rank);
  }
  void write(std::span<const std::byte> mine) const {
    const std::string draft = name(exchange_, rank_) + ".draft";
    std::ofstream(draft, std::ios::binary)
        .write(reinterpret_cast<const char*>(mine.data()),
               static_cast<std::streamsize>(mine.size()));
    fs::rename(draft, name(exchange_, rank_));
  }

  std::string path_;
  std::uint32_t rank_;
  std::uint32_t exchange_ = 0;
};

tutti::Result<tutti::Communicator> create_by_unique_id(std::uint32_t rank, std::uint32_t size) {
  std::string text;
  if (rank > 0) std::getline(std::cin, text);
  const auto id = rank == 0 ? tutti::UniqueId::create("127.0.0.1") : tutti::UniqueId::parse(text);
  if (!id) return id.status();
  if (rank == 0) say(id->text.data());
  return tutti::Communicator::create(*id, tutti::rank_of(rank), size);
}

tutti::Result<tutti::Communicator> create(std::span<const std::string> words) {
  const auto number = [](const std::string& word) {
    std::uint32_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value);
    return value;
  };
  if (words[0] == "launcher") return tutti::Communicator::create();
  if (words[0] == "unique-id" && words.size() >= 3)
    return create_by_unique_id(number(words[1]), number(words[2]));
  if (words[0] == "callback" && words.size() >= 4) {
    const std::uint32_t rank = number(words[2]);
    return tutti::Communicator::create(Directory(words[1], rank), tutti::rank_of(rank),
                                       number(words[3]));
  }
  return tutti::Status(tutti::Code::invalid_argument,
                       "the arguments are wrong: use those at the top of capture_program.cpp");
}

tutti::Status gather(tutti::Communicator& communicator, const char* algorithm,
                     std::span<const std::byte> own) {
  Bytes all(own.size() * communicator.size());
  const tutti::CollectiveOptions options{.algorithm = tutti::Algorithm(algorithm),
                                         .will_wait = true};
  auto request = communicator.allgather(own, all, options);
  return request ? request->wait() : request.status();
}

/// Makes calls that use multicast chunks, frames of connections, and slots.
tutti::Status use(tutti::Communicator& communicator) {
  for (const char* algorithm : {"multicast", "ring", "linear"}) {
    for (int call = 0; call < 3; ++call) {
      const Bytes own(kBlockBytes, static_cast<std::byte>(call));
      if (tutti::Status status = gather(communicator, algorithm, own); !status) return status;
    }
  }
  return {};
}

/// The job key in the encoding of the option `leak`, in which the ranks send it as data.
Bytes leaked(std::string_view form) {
  const char* const digits = std::getenv("TUTTI_JOB_KEY");
  std::string text = digits == nullptr ? "" : digits;
  if (form != "hex") {
    std::string raw(text.size() / 2, '\0');
    (void)tutti::from_hex(text, std::as_writable_bytes(std::span(raw)));
    text = raw;
  }
  if (form == "base64") {
    text.insert(0, "?");
    std::string encoded(4 * (text.size() / 3 + 1) + 1, '\0');
    encoded.resize(static_cast<std::size_t>(EVP_EncodeBlock(
        reinterpret_cast<unsigned char*>(encoded.data()),
        reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()))));
    text = encoded;
  }
  Bytes bytes(kBlockBytes);
  std::transform(text.begin(), text.end(), bytes.begin() + 7,
                 [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

tutti::Status run(tutti::Communicator& communicator, std::string_view leak) {
  if (tutti::Status status = use(communicator); !status) return status;
  auto duplicate = communicator.duplicate();
  if (!duplicate) return duplicate.status();
  if (tutti::Status status = use(*duplicate); !status) return status;
  if (!leak.empty()) {
    if (tutti::Status status = gather(*duplicate, "ring", leaked(leak)); !status) return status;
  }
  ::raise(SIGUSR1);
  say("running");
  const char* const gate = std::getenv("CAPTURE_GATE");
  if (gate != nullptr && index(communicator.rank()) == 0) std::ifstream wait(gate);
  return use(communicator);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string leak;
  if (!words.empty() && words.back().starts_with("leak=")) {
    leak = words.back().substr(5);
    words.pop_back();
  }
  if (words.empty()) return kUsage;
  auto communicator = create(words);
  const tutti::Status status = communicator ? run(*communicator, leak) : communicator.status();
  if (!status) {
    say("failed: " + status.to_string());
    return kFailed;
  }
  say("complete");
  return 0;
}
