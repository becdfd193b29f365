#include "runtime/bootstrap/launchers/pmi.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <climits>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "runtime/bootstrap/launchers/mpi_presence.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/bootstrap/unique_id.hpp"

namespace tutti::runtime {
namespace {

constexpr std::size_t kMaxLineBytes = 16384;
constexpr std::string_view kKey = "tutti-unique-id";

/// The text of the unique id without its padding, because some launchers allow only short values.
std::string unpadded(const UniqueId& id) {
  std::string text(id.data());
  return text.substr(0, text.rfind('/') + 1);
}

Result<UniqueId> exchange_id(PmiClient& client, Rank rank, const Environment& environment) {
  Status status = client.start();
  if (!status.ok()) return status;
  std::optional<UniqueId> mine;
  if (index(rank) == 0) {
    auto made = make_unique_id(environment("TUTTI_BOOTSTRAP_HOST").value_or(""));
    if (!made.ok()) return made.status();
    mine = *made;
    // The id is sent in hexadecimal, because PMI values must not contain blanks or '='.
    const std::string text = unpadded(*made);
    status = client.put(kKey, to_hex(std::as_bytes(std::span(text))));
  }
  if (status.ok()) status = client.barrier();
  if (!status.ok()) {
    if (mine) discard_unique_id(*mine);
    return status;
  }
  if (mine) return *mine;
  auto value = client.get(kKey);
  if (!value.ok()) return value.status();
  std::string text(value->size() / 2, '\0');
  if (!from_hex(*value, std::as_writable_bytes(std::span(text))))
    return failure(Code::internal,
                   "the {} characters that the launcher's PMI returned are not a unique id in "
                   "hexadecimal: set TUTTI_BOOTSTRAP to tcp://HOST:PORT with the address of rank 0",
                   value->size());
  return parse_unique_id(text);
}

Result<Socket> take_descriptor(const Environment& environment) {
  const auto fd = read_number(environment, "PMI_FD", INT_MAX);
  if (!fd.ok()) return fd.status();
  if (!*fd) {
    return failure(Code::invalid_argument,
                   "PMI_RANK is set but PMI_FD is not (PMI_PORT is not supported): start the "
                   "program with mpirun of MPICH, or set RANK, WORLD_SIZE, MASTER_ADDR and "
                   "MASTER_PORT");
  }
  const int number = static_cast<int>(**fd);
  const int flags = fcntl(number, F_GETFL);
  if (flags < 0 || fcntl(number, F_SETFL, flags | O_NONBLOCK) < 0) {
    return system_failure(errno, "PMI_FD={} is not open: the launcher's connection was closed",
                          number);
  }
  // The client uses a copy of the launcher's descriptor and leaves the original open. If it closed
  // the original, the kernel could give the same number to an unrelated file, and a second call
  // would take that file for the launcher's connection.
  Socket copy(fcntl(number, F_DUPFD_CLOEXEC, 0));
  if (!copy.open()) return system_failure(errno, "cannot copy PMI_FD={}", number);
  return copy;
}

}  // namespace

Result<PmiClient::Words> parse_pmi_line(std::string_view line) {
  PmiClient::Words words;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    // A word without '=' continues the text of the word before it, as in "msg=no such key", and is
    // ignored.
    if (equals == word.npos) continue;
    words[std::string(word.substr(0, equals))] = std::string(word.substr(equals + 1));
  }
  if (!words.contains("cmd"))
    return failure(Code::internal, "the launcher's PMI answer has no word that begins with 'cmd='");
  return words;
}

Result<std::string> PmiClient::read_line() {
  while (true) {
    const std::size_t end = buffer_.find('\n');
    if (end != buffer_.npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > kMaxLineBytes)
      return failure(Code::internal, "the launcher's PMI answer is longer than {} bytes",
                     kMaxLineBytes);
    std::array<std::byte, 4096> bytes;
    auto got = stream_.receive_some(bytes, deadline_);
    if (!got.ok()) return got.status();
    if (*got == 0)
      return failure(Code::peer_failed,
                     "the launcher closed the PMI connection, probably because this process has "
                     "used PMI before: create one communicator by pmi://, and duplicate it");
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), *got);
  }
}

Result<PmiClient::Words> PmiClient::ask(std::string_view request, std::string_view expected) {
  const std::string line = std::string(request) + "\n";
  Status status = stream_.send_all(std::as_bytes(std::span(line)), deadline_);
  if (!status.ok()) return status;
  auto answer = read_line();
  if (!answer.ok()) return answer.status();
  auto words = parse_pmi_line(*answer);
  if (!words.ok()) return words;
  const bool refused = words->contains("rc") && words->at("rc") != "0";
  if (words->at("cmd") != expected || refused) {
    // The error quotes only the commands, because the rest of the request and of the answer may
    // contain the unique id, from which keys are derived.
    return failure(Code::internal, "the launcher answered '{}' to the PMI request '{}', with rc={}",
                   words->at("cmd"), request.substr(0, request.find(' ')),
                   refused ? words->at("rc") : "0");
  }
  return words;
}

Status PmiClient::start() {
  auto words = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  if (!words.ok()) return words.status();
  words = ask("cmd=get_maxes", "maxes");
  if (!words.ok()) return words.status();
  max_value_bytes_ = parse_number((*words)["vallen_max"], kMaxLineBytes).value_or(0);
  words = ask("cmd=get_my_kvsname", "my_kvsname");
  if (!words.ok()) return words.status();
  space_ = (*words)["kvsname"];
  return {};
}

Status PmiClient::put(std::string_view key, std::string_view value) {
  if (value.size() >= max_value_bytes_) {
    return failure(Code::unsupported,
                   "the launcher's PMI stores only values shorter than {} bytes, but the value of "
                   "'{}' has {}: set TUTTI_BOOTSTRAP to tcp://HOST:PORT with the address of rank 0",
                   max_value_bytes_, key, value.size());
  }
  return ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result")
      .status();
}

Status PmiClient::barrier() { return ask("cmd=barrier_in", "barrier_out").status(); }

Result<std::string> PmiClient::get(std::string_view key) {
  auto words = ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result");
  if (!words.ok()) return words.status();
  return (*words)["value"];
}

Status PmiClient::finish() { return ask("cmd=finalize", "finalize_ack").status(); }

Result<std::unique_ptr<Bootstrap>> bootstrap_from_pmi(const Environment& environment,
                                                      Nanoseconds timeout) {
  const auto place = read_place(environment, "PMI_RANK", "PMI_SIZE");
  if (!place.ok()) return place.status();
  if (!*place) {
    return failure(Code::invalid_argument,
                   "pmi:// needs PMI_RANK, PMI_SIZE and PMI_FD: start the program with mpirun of "
                   "MPICH, which sets them");
  }
  if (mpi_presence() != MpiPresence::absent) {
    return failure(
        Code::unsupported,
        "rank {} uses MPI, and then only MPI may use the launcher's PMI connection: give "
        "MPI_Allgather as the bootstrap callback, or set TUTTI_BOOTSTRAP to tcp:// or env://",
        index((*place)->rank));
  }
  auto socket = take_descriptor(environment);
  if (!socket.ok()) return socket.status();
  const Deadline deadline = deadline_after(timeout);
  PmiClient client(std::move(*socket), deadline);
  const Rank rank = (*place)->rank;
  auto id = exchange_id(client, rank, environment);
  if (!id.ok() && id.status().code() == Code::timeout) {
    return failure(
        Code::timeout,
        "rank {} waited {} in the PMI barrier, but at least one of the {} ranks did not enter it: "
        "check that all ranks create the communicator, or give them a longer timeout",
        index(rank), describe_duration(timeout), (*place)->size);
  }
  if (!id.ok()) return id.status();
  Status ended = client.finish();
  if (!ended.ok()) return ended;
  return join_unique_id(*id, rank, (*place)->size, deadline - SteadyClock::now(),
                        "pmi:// (PMI-1), store");
}

}  // namespace tutti::runtime
