#include "runtime/bootstrap/file_bootstrap.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>

#include "base/error.hpp"
#include "device/posix/private_file.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime {
namespace {

constexpr auto kShortestLook = std::chrono::microseconds(200);
constexpr auto kLongestLook = std::chrono::milliseconds(20);

constexpr const char* kRemedy = "remove it, or set TUTTI_RUN_ID to a new value";

/// Adds to an error about a file what the user must do if an earlier job has left the file behind.
Status left_over(const Status& status) {
  return failure_from(status, "{}. If the file is left over from an earlier job, {}",
                      status.message(), kRemedy);
}

/// Writes a new file under a temporary name and gives it its final name when it is complete. The
/// file of a contribution contains a gather frame, so that its length and kind are checked like
/// those of a frame from a socket.
Status write_whole(const std::string& path, std::span<const std::byte> bytes) {
  const std::string draft = path + ".draft";
  const auto file = device::create_private_file(draft);
  if (!file) return left_over(file.status());
  Status status = device::write_all(*file, bytes, draft);
  // The file gets its final name by link(), which, unlike rename(), never replaces an existing
  // file.
  if (status.ok() && link(draft.c_str(), path.c_str()) != 0) {
    status = left_over(system_failure(errno, "cannot name {} {}", draft, path));
  }
  unlink(draft.c_str());
  return status;
}

/// Reads a file into `bytes`; false if it does not exist yet.
Result<bool> read_whole(const std::string& path, std::size_t max_bytes, Bytes& bytes) {
  const auto file = device::open_private_file(path);
  if (!file) return left_over(file.status());
  if (!file->valid()) return false;
  struct stat facts {};
  if (fstat(file->get(), &facts) != 0) return system_failure(errno, "cannot read {}", path);
  if (static_cast<std::uint64_t>(facts.st_size) > max_bytes) {
    return failure(Code::invalid_argument, "{} is not a file of this job: {}", path, kRemedy);
  }
  bytes.resize(static_cast<std::size_t>(facts.st_size));
  const auto filled = device::read_all(*file, bytes, path);
  if (!filled) return filled.status();
  bytes.resize(*filled);
  return true;
}

class FileBootstrap : public Bootstrap {
 public:
  explicit FileBootstrap(FileOptions options) : options_(std::move(options)) {}
  ~FileBootstrap() override;

  Rank rank() const override { return options_.rank; }
  std::uint32_t size() const override { return options_.size; }
  std::string description() const override {
    return fmt::format("file://{} run {}", options_.directory, options_.run_id);
  }

  /// Exchange 0 shows that every rank has arrived; each rank contributes the number of ranks that
  /// it expects.
  Status arrive();
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override;

 private:
  Result<std::vector<Bytes>> exchange(std::span<const std::byte> mine, Nanoseconds timeout);
  /// Reads a rank's contribution into `part`; false if that rank has not contributed yet.
  Result<bool> read_part(std::uint32_t rank, Bytes& part) const;
  Status timed_out(std::span<const std::uint32_t> missing, Nanoseconds timeout) const;
  std::string path(const std::string& what, std::uint32_t rank) const {
    return fmt::format("{}/tutti-{}.{}.{}", options_.directory, options_.run_id, what, rank);
  }
  std::string part_path(std::uint32_t exchange, std::uint32_t rank) const {
    return path(std::to_string(exchange), rank);
  }

  enum class Stage { outside, arriving, member };

  FileOptions options_;
  std::uint32_t exchange_ = 0;
  Stage stage_ = Stage::outside;
  Status failed_;
};

FileBootstrap::~FileBootstrap() {
  if (stage_ == Stage::arriving) unlink(part_path(0, index(options_.rank)).c_str());
  if (stage_ != Stage::member) return;
  // Other ranks may still read the files of the last exchange. The last rank that ends therefore
  // removes the files of all ranks.
  if (!write_whole(path("done", index(options_.rank)), {}).ok()) return;
  for (std::uint32_t rank = 0; rank < options_.size; ++rank) {
    if (access(path("done", rank).c_str(), F_OK) != 0) return;
  }
  for (std::uint32_t rank = 0; rank < options_.size; ++rank) {
    if (exchange_ > 0) unlink(part_path(exchange_ - 1, rank).c_str());
    unlink(part_path(exchange_, rank).c_str());
    unlink(path("done", rank).c_str());
  }
}

Status FileBootstrap::arrive() {
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  if (error) return system_failure(error.value(), "cannot create {}", options_.directory);
  const std::uint32_t me = index(options_.rank);
  for (const std::string& old : {part_path(0, me), path("done", me)}) {
    if (access(old.c_str(), F_OK) != 0) continue;
    return failure(Code::invalid_argument,
                   "{} exists, because rank {} joined twice or an earlier run had the same run id: "
                   "remove the file, or set TUTTI_RUN_ID to a new value",
                   old, me);
  }
  const std::uint32_t size = options_.size;
  stage_ = Stage::arriving;
  auto sizes = exchange(std::as_bytes(std::span(&size, 1)), options_.timeout);
  if (!sizes.ok()) return sizes.status();
  stage_ = Stage::member;
  const Bytes expected(std::as_bytes(std::span(&size, 1)).begin(),
                       std::as_bytes(std::span(&size, 1)).end());
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if ((*sizes)[rank] == expected) continue;
    return failure(Code::invalid_argument,
                   "rank {1} expects {2} ranks, but rank {0} expects another number: give all "
                   "ranks the same number of ranks",
                   rank, me, size);
  }
  return {};
}

Result<std::vector<Bytes>> FileBootstrap::allgather(std::span<const std::byte> mine,
                                                    Nanoseconds timeout) {
  if (!failed_.ok()) return failed_;
  if (mine.size() > kMaxContributionBytes) {
    return failure(Code::invalid_argument,
                   "rank {} contributes {} bytes to the bootstrap: contribute at most {} bytes",
                   index(options_.rank), mine.size(), kMaxContributionBytes);
  }
  auto result = exchange(mine, timeout);
  if (!result.ok()) failed_ = result.status();
  return result;
}

Result<bool> FileBootstrap::read_part(std::uint32_t rank, Bytes& part) const {
  const std::string file = part_path(exchange_, rank);
  const std::size_t max_payload_bytes = Gather::kPrefixBytes + kMaxContributionBytes;
  Bytes bytes;
  const auto exists = read_whole(file, kFrameHeaderBytes + max_payload_bytes, bytes);
  if (!exists.ok() || !*exists) return exists;
  FrameDecoder decoder(max_payload_bytes);
  decoder.append(bytes);
  auto frame = decoder.take();
  if (frame.ok() && *frame && (*frame)->kind == FrameKind::gather) {
    auto gather = decode_gather((*frame)->payload);
    if (gather.ok() && gather->exchange == exchange_) {
      part = std::move(gather->bytes);
      return true;
    }
  }
  return failure(Code::invalid_argument, "{} is not a file of this job: {}", file, kRemedy);
}

Result<std::vector<Bytes>> FileBootstrap::exchange(std::span<const std::byte> mine,
                                                   Nanoseconds timeout) {
  const Deadline deadline = deadline_after(timeout);
  const std::uint32_t me = index(options_.rank);
  Status status = write_whole(part_path(exchange_, me), encode_gather(exchange_, 0, mine));
  if (!status.ok()) return status;
  std::vector<Bytes> parts(options_.size);
  std::vector<std::uint32_t> missing(options_.size);
  std::iota(missing.begin(), missing.end(), 0u);
  for (Nanoseconds pause = kShortestLook;; pause = std::min<Nanoseconds>(2 * pause, kLongestLook)) {
    const bool last_look = SteadyClock::now() >= deadline;
    std::vector<std::uint32_t> still_missing;
    for (const std::uint32_t rank : missing) {
      const auto come = read_part(rank, parts[rank]);
      if (!come.ok()) return come.status();
      if (!*come) still_missing.push_back(rank);
    }
    missing = std::move(still_missing);
    if (missing.empty()) break;
    if (last_look) return timed_out(missing, timeout);
    std::this_thread::sleep_for(pause);
  }
  // Every rank has entered this exchange, so no rank still reads the files of the previous
  // exchange.
  if (exchange_ > 0) unlink(part_path(exchange_ - 1, me).c_str());
  ++exchange_;
  return parts;
}

Status FileBootstrap::timed_out(std::span<const std::uint32_t> missing, Nanoseconds timeout) const {
  const std::string what =
      stage_ == Stage::member ? fmt::format("bootstrap exchange {}", exchange_) : "the bootstrap";
  return failure_of(to_ranks(missing), Code::timeout,
                    "{} did not join {} in folder {} (run {}) within {}: check that all ranks run, "
                    "or give them a longer timeout",
                    describe_ranks(missing), what, options_.directory, options_.run_id,
                    describe_duration(timeout));
}

/// Counts how often this process has joined a job with the same directory, run id and rank. The
/// count becomes part of the file names, because files of the previous job may still exist.
class Meetings {
 public:
  std::uint32_t before(const FileOptions& options) {
    const std::lock_guard lock(mutex_);
    return counts_[key(options)];
  }
  void add(const FileOptions& options) {
    const std::lock_guard lock(mutex_);
    ++counts_[key(options)];
  }

 private:
  using Key = std::tuple<std::string, std::string, Rank>;
  static Key key(const FileOptions& options) {
    return {options.directory, options.run_id, options.rank};
  }

  std::mutex mutex_;
  std::map<Key, std::uint32_t> counts_;
};

Meetings& meetings() {
  static Meetings all;
  return all;
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> meet_in_directory(const FileOptions& options) {
  Status status = check_place(options.rank, options.size);
  if (!status.ok()) return status;
  const bool plain =
      !options.run_id.empty() && options.run_id.size() <= 128 &&
      std::all_of(options.run_id.begin(), options.run_id.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
      });
  if (!plain || options.directory.empty()) {
    return failure(
        Code::invalid_argument,
        "cannot use the bootstrap file://{1} with the run id '{2}', because {0}: write "
        "file://DIRECTORY, and set TUTTI_RUN_ID on all ranks to the same 1 to 128 letters, digits, "
        "'.', '_' or '-'",
        options.directory.empty() ? "the directory is missing" : "the run id is not valid",
        options.directory, options.run_id);
  }
  FileOptions meeting = options;
  if (const std::uint32_t before = meetings().before(options); before > 0)
    // No run id of a user contains '+', so the new id differs from all of them.
    meeting.run_id += fmt::format("+{}", before + 1);
  auto bootstrap = std::make_unique<FileBootstrap>(std::move(meeting));
  status = bootstrap->arrive();
  if (!status.ok()) return status;
  meetings().add(options);
  return std::unique_ptr<Bootstrap>(std::move(bootstrap));
}

}  // namespace tutti::runtime
