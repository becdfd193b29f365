#include "lab/state.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "device/posix/private_file.hpp"
#include "launch/place.hpp"

namespace tutti::lab {

namespace {

using Json = nlohmann::json;

constexpr const char* kPrefix = "lab-";
constexpr const char* kSuffix = ".json";
constexpr std::size_t kMaxRecordBytes = 64 * 1024;

std::string path_of(const std::string& name) {
  return state_folder() + "/" + kPrefix + name + kSuffix;
}

Json to_json(const LabState& state) {
  const LabOptions& options = state.options;
  const Impairments& impairments = options.impairments;
  return {{"name", options.name},
          {"persistent", options.persistent},
          {"hosts", options.hosts},
          {"aggregators", options.aggregators},
          {"cores", to_string(options.core_shares)},
          {"mtu", options.mtu},
          {"rate_bits_per_second", options.rate_bits_per_second},
          {"burst_bytes", burst_bytes_of(options)},
          {"segmentation", segmentation_of(options)},
          {"congestion_control", options.congestion_control},
          {"ipv6", options.ipv6},
          {"loss_percent", impairments.loss_percent},
          {"shared_loss_percent", impairments.shared_loss_percent},
          {"burst_loss_enter_percent", impairments.burst_loss.enter_percent},
          {"burst_loss_leave_percent", impairments.burst_loss.leave_percent},
          {"duplicate_percent", impairments.duplicate_percent},
          {"reorder_percent", impairments.reorder_percent},
          {"corrupt_percent", impairments.corrupt_percent},
          {"loss_protocol", to_string(impairments.loss_protocol)},
          {"impaired_hosts", impairments.only_hosts},
          {"owner", state.owner},
          {"owner_start", state.owner_start},
          {"keeper", state.keeper}};
}

/// Throws an exception of nlohmann::json if the content does not describe a lab; the caller catches
/// it.
LabState from_json(const Json& json) {
  LabState state;
  LabOptions& options = state.options;
  Impairments& impairments = options.impairments;
  options.name = json.at("name").get<std::string>();
  options.persistent = json.at("persistent").get<bool>();
  options.hosts = json.at("hosts").get<int>();
  // A record written by an earlier version of `tutti` lacks `aggregators` and `cores`.
  options.aggregators = json.value("aggregators", 0);
  options.core_shares = core_shares_named(json.value("cores", ""));
  options.mtu = json.at("mtu").get<int>();
  options.rate_bits_per_second = json.at("rate_bits_per_second").get<std::uint64_t>();
  options.burst_bytes = json.at("burst_bytes").get<std::uint32_t>();
  options.segmentation = json.at("segmentation").get<bool>();
  options.congestion_control = json.at("congestion_control").get<std::string>();
  options.ipv6 = json.at("ipv6").get<bool>();
  impairments.loss_percent = json.at("loss_percent").get<double>();
  impairments.shared_loss_percent = json.at("shared_loss_percent").get<double>();
  impairments.burst_loss.enter_percent = json.at("burst_loss_enter_percent").get<double>();
  impairments.burst_loss.leave_percent = json.at("burst_loss_leave_percent").get<double>();
  impairments.duplicate_percent = json.at("duplicate_percent").get<double>();
  impairments.reorder_percent = json.at("reorder_percent").get<double>();
  impairments.corrupt_percent = json.at("corrupt_percent").get<double>();
  impairments.loss_protocol = loss_protocol_named(json.at("loss_protocol").get<std::string>());
  impairments.only_hosts = json.at("impaired_hosts").get<std::vector<int>>();
  state.owner = json.at("owner").get<pid_t>();
  state.owner_start = json.at("owner_start").get<std::uint64_t>();
  state.keeper = json.at("keeper").get<pid_t>();
  return state;
}

/// Checks that the folder of the records, if it exists, belongs to this user and that no other user
/// can write to it.
Status check_folder() {
  const std::string folder = state_folder();
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) {
    // If the folder is missing, another process has just removed it; the caller notices this when
    // it opens the file.
    if (errno == ENOENT) return {};
    return system_failure(errno, "cannot examine folder {}", folder);
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return failure(Code::system, "{} is not a folder that this user owns: remove it", folder);
  }
  if ((info.st_mode & 0022) != 0) {
    return failure(Code::system,
                   "folder {} has mode {:04o}, so other users may have changed it: remove it",
                   folder, info.st_mode & 07777);
  }
  return {};
}

Result<LabState> read_state(const std::string& path) {
  if (Status status = check_folder(); !status) return status;
  const auto file = device::open_private_file(path);
  if (!file) return file.status();
  if (!file->valid())
    return failure(
        Code::system,
        "the file {}, which describes the lab, does not exist any more: make the lab again", path);
  std::string text(kMaxRecordBytes, '\0');
  const auto size = device::read_all(*file, std::as_writable_bytes(std::span(text)), path);
  if (!size) return size.status();
  text.resize(*size);
  try {
    LabState state = from_json(Json::parse(text));
    if (Status status = check_options(state.options); !status) return status;
    return state;
  } catch (const Json::exception& error) {
    return failure(Code::invalid_argument,
                   "file {} does not describe a lab ({}): remove it, and make the lab again", path,
                   error.what());
  }
}

/// Makes the folder of the records. Error: the folder exists, and another user owns it or can write
/// to it.
Status prepare_folder() {
  const std::string folder = state_folder();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_failure(errno, "cannot make folder {}", folder);
  }
  return check_folder();
}

/// Creates the file of a record, and the folder of the records if necessary. Another process may
/// remove the folder with the last record, so both steps are repeated if the folder is gone.
Result<device::Descriptor> create_record(const std::string& path) {
  constexpr int kMaxAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    if (Status status = prepare_folder(); !status) return status;
    auto file = device::create_private_file(path);
    const bool folder_is_gone = access(state_folder().c_str(), F_OK) != 0;
    if (file || !folder_is_gone || attempt == kMaxAttempts) return file;
  }
}

/// Writes the record to a temporary file, which the caller links or renames to the final one, so
/// that no process reads a partly written file.
Result<std::string> write_atomic(const LabState& state) {
  const std::string path = fmt::format("{}.{}", path_of(state.options.name), getpid());
  const auto file = create_record(path);
  if (!file) return file.status();
  const std::string text = to_json(state).dump(2) + "\n";
  const Status written = device::write_all(*file, std::as_bytes(std::span(text)), path);
  if (written.ok()) return path;
  unlink(path.c_str());
  return written;
}

}  // namespace

bool LabState::abandoned() const {
  return owner != 0 && launch::process_start(owner) != owner_start;
}

std::string state_folder() {
  if (geteuid() == 0) return "/run/tutti";
  const char* runtime = ::secure_getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && access(runtime, W_OK) == 0) return std::string(runtime) + "/tutti";
  return fmt::format("/tmp/tutti-{}", geteuid());
}

Status record_new(const LabState& state) {
  Result<std::string> written = write_atomic(state);
  if (!written) return written.status();
  const int linked = ::link(written->c_str(), path_of(state.options.name).c_str());
  const int error_number = errno;
  unlink(written->c_str());
  if (linked == 0) return {};
  if (error_number == EEXIST) {
    return failure(Code::invalid_argument,
                   "a lab named '{0}' exists already: use another name, or `tutti lab down --name "
                   "{0}`",
                   state.options.name);
  }
  return system_failure(error_number, "cannot make {}", path_of(state.options.name));
}

Status record(const LabState& state) {
  Result<std::string> written = write_atomic(state);
  if (!written) return written.status();
  if (rename(written->c_str(), path_of(state.options.name).c_str()) == 0) return {};
  const int error_number = errno;
  unlink(written->c_str());
  return system_failure(error_number, "cannot replace {}", path_of(state.options.name));
}

void forget(const std::string& name) {
  unlink(path_of(name).c_str());
  rmdir(state_folder().c_str());
}

Result<LabState> recorded(const std::string& name) {
  if (Status status = check_name(name); !status) return status;
  if (access(path_of(name).c_str(), F_OK) == 0) return read_state(path_of(name));
  std::string others;
  for (const LabState& state : all_recorded()) others += " " + state.options.name;
  return failure(Code::invalid_argument, "there is no lab named '{}': {}{}", name,
                 others.empty() ? "make it with `tutti lab up`" : "use one of", others);
}

std::vector<LabState> all_recorded() {
  std::vector<LabState> states;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(state_folder(), error)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
    Result<LabState> state = read_state(entry.path().string());
    if (state && path_of(state->options.name) == entry.path().string()) states.push_back(*state);
  }
  std::sort(states.begin(), states.end(),
            [](const LabState& a, const LabState& b) { return a.options.name < b.options.name; });
  return states;
}

}  // namespace tutti::lab
