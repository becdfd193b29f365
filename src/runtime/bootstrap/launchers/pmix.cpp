#include "runtime/bootstrap/launchers/pmix.hpp"

#include "base/error.hpp"

#ifdef TUTTI_HAVE_PMIX

#include <dlfcn.h>
#include <pmix.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/bootstrap/launchers/mpi_presence.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/bootstrap/unique_id.hpp"

namespace tutti::runtime {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";
constexpr const char* kKey = "tutti.unique.id";

/// The PMIx functions that are needed, looked up at run time, so that hosts without PMIx need no
/// library.
struct Library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

template <typename Function>
bool look_up(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

Result<Library> load() {
  // The PMIx library is never unloaded, because its threads go on running.
  void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return failure(Code::unsupported,
                   "PMIX_RANK is set but {} cannot be loaded ({}): install it, or set RANK, "
                   "WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
                   kLibrary, dlerror());
  }
  Library library;
  const bool complete =
      look_up(handle, "PMIx_Init", library.init) &&
      look_up(handle, "PMIx_Finalize", library.finalize) &&
      look_up(handle, "PMIx_Put", library.put) && look_up(handle, "PMIx_Commit", library.commit) &&
      look_up(handle, "PMIx_Fence", library.fence) && look_up(handle, "PMIx_Get", library.get) &&
      look_up(handle, "PMIx_Error_string", library.error_string);
  if (complete) return library;
  return failure(Code::unsupported,
                 "{} lacks a function of PMIx ({}): install a newer version, or set RANK, "
                 "WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
                 kLibrary, dlerror());
}

void copy_name(char* to, std::size_t room, const char* from) {
  const std::size_t length = std::min(std::strlen(from), room - 1);
  std::memcpy(to, from, length);
  to[length] = '\0';
}

/// One session with the launcher, from PMIx_Init to PMIx_Finalize.
class Session {
 public:
  explicit Session(const Library& library) : library_(library) {}
  ~Session() {
    if (open_) library_.finalize(nullptr, 0);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status open() {
    const Status status = check(library_.init(&self_, nullptr, 0), "PMIx_Init");
    open_ = status.ok();
    if (open_) return {};
    return failure(status.code(),
                   "{}: PMIX_RANK is set, but its launcher cannot be reached: start the "
                   "program with the launcher, or set RANK and WORLD_SIZE",
                   status.message());
  }

  std::uint32_t rank() const { return self_.rank; }

  Result<std::uint32_t> job_size(int timeout_s) {
    auto value = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, timeout_s);
    if (!value.ok()) return value.status();
    const std::uint32_t size = (*value)->type == PMIX_UINT32 ? (*value)->data.uint32 : 0;
    if (size > 0) return size;
    return failure(Code::internal,
                   "PMIx does not give the number of ranks of the job: set RANK, WORLD_SIZE, "
                   "MASTER_ADDR and MASTER_PORT");
  }

  Status publish(const std::string& text) {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(text.c_str());  // PMIx_Put copies the text
    Status status = check(library_.put(PMIX_GLOBAL, kKey, &value), "PMIx_Put");
    if (status.ok()) status = check(library_.commit(), "PMIx_Commit");
    return status;
  }

  /// Waits until all processes of the job have entered the fence; fails with Code::timeout if one
  /// does not.
  Status fence(int timeout_s) {
    pmix_info_t info[2]{};
    copy_name(info[0].key, sizeof info[0].key, PMIX_COLLECT_DATA);
    info[0].value.type = PMIX_BOOL;
    info[0].value.data.flag = true;
    set_timeout(info[1], timeout_s);
    return check(library_.fence(nullptr, 0, info, 2), "PMIx_Fence");
  }

  Result<std::string> published_by_rank_0(int timeout_s) {
    auto value = get(0, kKey, timeout_s);
    if (!value.ok()) return value.status();
    if ((*value)->type == PMIX_STRING && (*value)->data.string != nullptr) {
      return std::string((*value)->data.string);
    }
    return failure(
        Code::internal,
        "PMIx returned no text for the key '{}': use the same build of Tutti on all ranks", kKey);
  }

 private:
  struct FreeValue {
    void operator()(pmix_value_t* value) const {
      if (value->type == PMIX_STRING) std::free(value->data.string);
      std::free(value);
    }
  };
  using Value = std::unique_ptr<pmix_value_t, FreeValue>;

  static void set_timeout(pmix_info_t& info, int timeout_s) {
    copy_name(info.key, sizeof info.key, PMIX_TIMEOUT);
    info.value.type = PMIX_INT;
    info.value.data.integer = timeout_s;
  }

  /// Gets the value that the process of `rank` published under `key`. Without a timeout, PMIx would
  /// wait forever for a process that never publishes the key.
  Result<Value> get(pmix_rank_t rank, const char* key, int timeout_s) {
    pmix_info_t info{};
    set_timeout(info, timeout_s);
    pmix_proc_t process{};
    copy_name(process.nspace, sizeof process.nspace, self_.nspace);
    process.rank = rank;
    pmix_value_t* value = nullptr;
    Status status = check(library_.get(&process, key, &info, 1, &value), "PMIx_Get");
    if (!status.ok()) return status;
    if (value == nullptr)
      return failure(Code::internal, "PMIx_Get returned no value for the key '{}'", key);
    return Value(value);
  }

  Status check(pmix_status_t status, const char* call) const {
    if (status == PMIX_SUCCESS) return {};
    return failure(status == PMIX_ERR_TIMEOUT ? Code::timeout : Code::system,
                   "the call of {} failed: {}", call, library_.error_string(status));
  }

  const Library& library_;
  pmix_proc_t self_{};
  bool open_ = false;
};

Result<UniqueId> exchange_id(Session& session, const Environment& environment, int timeout_s) {
  std::optional<UniqueId> mine;
  Status status;
  if (session.rank() == 0) {
    auto made = make_unique_id(environment("TUTTI_BOOTSTRAP_HOST").value_or(""));
    if (!made.ok()) return made.status();
    mine = *made;
    status = session.publish(made->data());
  }
  if (status.ok()) status = session.fence(timeout_s);
  if (!status.ok()) {
    if (mine) discard_unique_id(*mine);
    return status;
  }
  if (mine) return *mine;
  auto text = session.published_by_rank_0(timeout_s);
  if (!text.ok()) return text.status();
  return parse_unique_id(*text);
}

}  // namespace

bool pmix_built_in() { return true; }

Result<std::unique_ptr<Bootstrap>> bootstrap_from_pmix(const Environment& environment,
                                                       Nanoseconds timeout) {
  if (!environment("PMIX_RANK") || !environment("PMIX_NAMESPACE")) {
    return failure(Code::invalid_argument,
                   "pmix:// needs PMIX_RANK and PMIX_NAMESPACE: start the program with mpirun of "
                   "Open MPI, prterun or srun --mpi=pmix, which set them");
  }
  // A process that may call MPI_Init later is refused, because PMIx_Finalize by Tutti would close
  // the connection that MPI_Init needs.
  if (mpi_presence() == MpiPresence::loaded) {
    return failure(
        Code::unsupported,
        "this process uses MPI, which must open the launcher's PMIx connection first: "
        "create the communicator between MPI_Init and MPI_Finalize, or give MPI_Allgather as the "
        "bootstrap callback");
  }
  const Deadline deadline = deadline_after(timeout);
  const auto timeout_s = static_cast<int>(std::clamp<std::int64_t>(
      std::chrono::ceil<std::chrono::seconds>(timeout).count(), 1, 1 << 30));
  const auto library = load();
  if (!library.ok()) return library.status();
  Result<UniqueId> id = failure(Code::internal, "no unique id was requested from PMIx");
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  {
    Session session(*library);
    Status status = session.open();
    if (!status.ok()) return status;
    const auto job_size = session.job_size(timeout_s);
    if (!job_size.ok()) return job_size.status();
    rank = session.rank();
    size = *job_size;
    id = exchange_id(session, environment, timeout_s);
  }
  if (!id.ok() && id.status().code() == Code::timeout) {
    return failure(
        Code::timeout,
        "rank {} waited {} in the PMIx fence, but at least one of the {} ranks did not enter it: "
        "check that all ranks create the communicator, or give them a longer timeout",
        rank, describe_duration(timeout), size);
  }
  if (!id.ok()) return id.status();
  return join_unique_id(*id, rank_of(rank), size, deadline - SteadyClock::now(), "pmix://, store");
}

}  // namespace tutti::runtime

#else

namespace tutti::runtime {

bool pmix_built_in() { return false; }

Result<std::unique_ptr<Bootstrap>> bootstrap_from_pmix(const Environment&, Nanoseconds) {
  return failure(Code::unsupported,
                 "this build of Tutti was made without the PMIx headers (libpmix-dev): build it "
                 "with them, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

}  // namespace tutti::runtime

#endif
