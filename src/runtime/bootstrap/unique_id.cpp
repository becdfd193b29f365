#include "runtime/bootstrap/unique_id.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "device/posix/home_process.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime {
namespace {

// The text of an id is tutti1/TOKEN/PORT/HOST/ and dots up to the fixed length.
constexpr std::string_view kPrefix = "tutti1/";
constexpr std::size_t kTokenChars = 32;
constexpr std::string_view kKeyLabel = "tutti unique id key 1";
constexpr std::size_t kMaxOffers = 1024;
constexpr char kPadding = '.';

struct Parts {
  std::string token;
  Endpoint endpoint;
};

/// The stores whose rank 0 has not joined yet. This map owns the stores, because a unique id is
/// plain bytes and can own nothing.
class Offers {
 public:
  bool put(const std::string& token, std::unique_ptr<BootstrapServer> server) {
    const std::lock_guard lock(mutex_);
    leave_to_parent();
    if (servers_.size() >= kMaxOffers) return false;
    servers_[token] = std::move(server);
    return true;
  }
  std::unique_ptr<BootstrapServer> take(const std::string& token) {
    const std::lock_guard lock(mutex_);
    leave_to_parent();
    const auto found = servers_.find(token);
    if (found == servers_.end()) return nullptr;
    auto server = std::move(found->second);
    servers_.erase(found);
    return server;
  }

 private:
  /// In a child of fork(), drops the stores from the map, because the parent serves them.
  void leave_to_parent() {
    if (!home_.left()) return;
    servers_.clear();
    home_ = device::HomeProcess();
  }

  std::mutex mutex_;
  device::HomeProcess home_;
  std::map<std::string, std::unique_ptr<BootstrapServer>> servers_;
};

Offers& offers() {
  static Offers all;
  return all;
}

std::string_view cut(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('/'));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

Result<Parts> take_apart(const UniqueId& id) {
  const Status bad = failure(
      Code::invalid_argument,
      "the text is not a unique id: pass all 128 bytes from rank 0 to the other ranks unchanged");
  std::string_view rest(id.data(), id.size() - 1);
  const bool printable = id.back() == '\0' && std::all_of(rest.begin(), rest.end(), [](char c) {
                           return c > ' ' && c <= '~';
                         });
  if (!printable || !rest.starts_with(kPrefix)) return bad;
  rest.remove_prefix(kPrefix.size());
  const std::string_view token = cut(rest);
  const auto port = parse_number(cut(rest), 65535);
  const std::string_view host = cut(rest);
  const bool padded = rest.find_first_not_of(kPadding) == rest.npos;
  if (token.size() != kTokenChars || !port || *port == 0 || host.empty() || !padded) return bad;
  return Parts{std::string(token), {std::string(host), static_cast<std::uint16_t>(*port)}};
}

/// The job key, derived from the random text of the unique id with a label. The store's token is a
/// hash of the same text; because of the label the token does not reveal the key.
Result<crypto::Secret> key_of(const std::string& token) {
  crypto::Secret key;
  const Status status =
      crypto::derive(std::as_bytes(std::span(token)), kKeyLabel, 0, key.writable());
  if (!status.ok()) return status;
  return key;
}

}  // namespace

Result<UniqueId> parse_unique_id(std::string_view text) {
  UniqueId id;
  id.fill(kPadding);
  id.back() = '\0';
  if (text.size() >= id.size()) text = text.substr(0, id.size() - 1);
  std::copy(text.begin(), text.end(), id.begin());
  const auto parts = take_apart(id);
  if (!parts.ok()) return parts.status();
  return id;
}

Result<UniqueId> make_unique_id(const std::string& host) {
  const auto token = random_hex(kTokenChars / 2);
  if (!token) return token.status();
  const auto job = make_job_token(*token);
  if (!job) return job.status();
  auto key = key_of(*token);
  if (!key) return key.status();
  BootstrapServer::Options options;
  options.token = *job;
  options.key = std::move(*key);
  auto server = BootstrapServer::start(std::move(options));
  if (!server.ok()) return server.status();
  const std::string reachable = host.empty() ? reachable_host() : host;
  const std::string text =
      fmt::format("{}{}/{}/{}/", kPrefix, *token, (*server)->port(), reachable);
  if (text.size() >= UniqueId().size()) {
    return failure(
        Code::invalid_argument,
        "the host name '{}' is too long for a unique id: give an address or a shorter name",
        reachable);
  }
  auto id = parse_unique_id(text);
  if (!id.ok()) {
    return failure(Code::invalid_argument,
                   "'{}' is not a host name or address: give one that the other ranks can reach",
                   reachable);
  }
  if (!offers().put(*token, std::move(*server))) {
    return failure(
        Code::resource_exhausted,
        "this process holds {} unique ids that rank 0 has not used, which is the limit: join with "
        "one of them as rank 0, or discard one",
        kMaxOffers);
  }
  return id;
}

Result<std::unique_ptr<Bootstrap>> join_unique_id(const UniqueId& id, Rank rank, std::uint32_t size,
                                                  Nanoseconds timeout, const std::string& method) {
  auto parts = take_apart(id);
  if (!parts.ok()) return parts.status();
  Status status = check_place(rank, size);
  if (!status.ok()) return status;
  std::unique_ptr<BootstrapServer> server;
  if (index(rank) == 0) {
    server = offers().take(parts->token);
    if (!server) {
      return failure(Code::invalid_argument,
                     "rank 0 joins with a unique id that another process made or an earlier job "
                     "used: make a new id in the process of rank 0 for each job");
    }
  }
  const auto token = make_job_token(parts->token);
  if (!token) return token.status();
  auto key = key_of(parts->token);
  if (!key) return key.status();
  return connect_store({.endpoint = parts->endpoint,
                        .rank = rank,
                        .size = size,
                        .token = *token,
                        .method = method,
                        .timeout = timeout,
                        .server = std::move(server),
                        .key = std::move(*key)});
}

void discard_unique_id(const UniqueId& id) {
  const auto parts = take_apart(id);
  if (parts.ok()) offers().take(parts->token);
}

}  // namespace tutti::runtime
