#include "runtime/communicator/call_planner.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/error.hpp"
#include "engine/exchange/slot_exchange_operation.hpp"
#include "engine/multicast/multicast_operation.hpp"
#include "engine/schedule/schedule_operation.hpp"
#include "protocol/block_layout.hpp"
#include "runtime/communicator/option_lookup.hpp"
#include "runtime/routes/route_names.hpp"

namespace tutti::runtime {

namespace {

/// Capacity of a communicator's cache of schedule templates: enough for a few collectives with a
/// few roots each.
constexpr std::size_t kTemplates = 64;
constexpr std::uint64_t kEagerLimitBytes = 16 * 1024;
constexpr const char* kMulticast = "multicast";
constexpr const char* kLinear = "linear";
constexpr const char* kFile = "TUTTI_ALGORITHM_FILE";
constexpr const char* kList = "TUTTI_ALGORITHMS";

class SharedWorkspacePool final : public engine::WorkspacePool {
 public:
  std::unique_ptr<engine::ScheduleWorkspace> take() override {
    const std::lock_guard lock(mutex_);
    return WorkspacePool::take();
  }
  void give_back(std::unique_ptr<engine::ScheduleWorkspace> space) noexcept override {
    const std::lock_guard lock(mutex_);
    WorkspacePool::give_back(std::move(space));
  }

 private:
  std::mutex mutex_;
};

Status named(const char* variable, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", variable, status.message()));
}

/// Reads the algorithm rules of a file and joins its lines by commas, as in TUTTI_ALGORITHMS. In
/// the file, # begins a comment.
Result<std::string> read_choices(const std::string& path) {
  // Only regular files are opened, because opening a pipe would block until another process opens
  // it for writing.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return failure(Code::invalid_argument,
                   "file {} cannot be read: check that it exists and is a regular file", path);
  }
  std::ifstream file(path);
  if (!file)
    return failure(Code::invalid_argument, "file {} cannot be read: check its permissions", path);
  std::string list;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    if (line.empty()) continue;
    list += (list.empty() ? "" : ",") + line;
  }
  return list;
}

/// The blocks of a buffer: those that the call lists, or the whole buffer as one block.
schedule::BlockSizes blocks_of(std::uint64_t bytes, std::span<const std::uint64_t> sizes_bytes,
                               std::span<const std::uint64_t> offsets_bytes) {
  if (sizes_bytes.empty()) return {.uniform_bytes = bytes, .sizes_bytes = {}, .offsets_bytes = {}};
  return {.uniform_bytes = 0, .sizes_bytes = sizes_bytes, .offsets_bytes = offsets_bytes};
}

schedule::Shape shape_of(const CollectiveCall& call, std::uint64_t block_bytes) {
  const std::uint64_t element = reduces(call.collective) ? element_bytes(call.reduction.type) : 1;
  if (!varies(call.collective)) return schedule::Shape::uniform(block_bytes, element);
  schedule::Shape shape = schedule::Shape::varying(
      blocks_of(call.send.size(), call.send_sizes_bytes, call.send_offsets_bytes),
      blocks_of(call.receive.size(), call.sizes_bytes, call.offsets_bytes));
  shape.element_bytes = element;
  return shape;
}

}  // namespace

Result<collectives::ChoiceTable> CallPlanner::choices_from_environment() {
  auto table = collectives::ChoiceTable::defaults();
  if (const std::string path = variable_or_empty(kFile); !path.empty()) {
    auto list = read_choices(path);
    if (!list) return named(kFile, list.status());
    if (Status status = table.prefer(*list); !status) return named(kFile, status);
  }
  if (const char* list = std::getenv(kList)) {
    if (Status status = table.prefer(list); !status) return named(kList, status);
  }
  return table;
}

CallPlanner::CallPlanner(const CallerFacts& facts, collectives::ChoiceTable choices)
    : facts_(facts),
      choices_(std::move(choices)),
      templates_(kTemplates, collectives::build),
      pool_(std::make_shared<SharedWorkspacePool>()) {
  for (std::uint32_t c = 0; c < kCollectives; ++c) {
    met_below_[c] = met_below(static_cast<Collective>(c));
  }
}

/// The block size in bytes below which the algorithm table chooses slot exchanges.
std::uint64_t CallPlanner::met_below(Collective collective) const {
  const auto is_slot_exchange = [&](std::uint64_t bytes) {
    return fits_slot(collective, choices_.choose(situation_of(collective, bytes)).algorithm, bytes);
  };
  std::uint64_t bytes = 0;
  while (is_slot_exchange(bytes)) {
    bytes = std::min(choices_.constant_up_to(collective, bytes), *facts_.max_slot_bytes) + 1;
  }
  return bytes;
}

collectives::Situation CallPlanner::situation_of(Collective collective,
                                                 std::uint64_t block_bytes) const {
  return {collective,  facts_.size,   facts_.hosts,
          block_bytes, facts_.device, facts_.no_multicast.empty()};
}

std::string CallPlanner::complaint() const {
  const std::string places = choices_.misplaced(situation_of(Collective::barrier, 0));
  if (places.empty()) return {};
  return fmt::format(
      "the rules of {} and {} apply to \"{}\" only, but this communicator has {} ranks on {} "
      "host(s) and device {}: the built-in rules are used",
      kList, kFile, places, facts_.size, facts_.hosts, facts_.device);
}

Result<CallPlanner::Chosen> CallPlanner::choose(const CollectiveCall& call,
                                                std::uint64_t block_bytes) const {
  const CollectiveOptions& options = call.options;
  std::string_view name = options.algorithm.name();
  schedule::Parameters p;
  if (options.algorithm == Algorithm::automatic) {
    const collectives::Choice& choice = choices_.choose(situation_of(call.collective, block_bytes));
    name = choice.algorithm;
    p = choice.parameters;
  } else if (options.algorithm == kInNetwork || options.algorithm == kInNetworkRing) {
    return failure(Code::invalid_argument,
                   "{} cannot use the algorithm '{}', which reduces in an aggregator: use it for "
                   "reductions only, and name aggregators in the communicator's options or in "
                   "TUTTI_AGGREGATORS (docs/aggregator.md)",
                   to_string(call.collective), name);
  }
  if (options.algorithm == kHierarchical) {
    return failure(
        Code::unsupported,
        "{} cannot use the algorithm 'hierarchical' on this communicator: name another algorithm, "
        "or meet all conditions: (1) the call is a barrier, broadcast or allgather, (2) there are "
        "two or more hosts, (3) every host has the same number of consecutive ranks, two or more, "
        "(4) the device is 'auto', (5) the hierarchy is not 'flat' (TUTTI_HIERARCHY)",
        to_string(call.collective));
  }
  auto entry = collectives::find_algorithm(call.collective, name);
  if (!entry) return entry.status();
  if ((*entry)->name == kMulticast && !facts_.no_multicast.empty())
    return failure(Code::unsupported,
                   "{} cannot use the algorithm 'multicast', because {}: leave the algorithm to "
                   "Tutti, or name another one",
                   to_string(call.collective), facts_.no_multicast);
  if (options.ports != 0) p.ports = options.ports;
  if (options.radix != 0) p.radix = options.radix;
  if (options.segments != 0) {
    p.segments = options.segments;
  } else {
    p = collectives::suited(**entry, p, facts_.size, block_bytes);
  }
  return Chosen{*entry, p};
}

bool CallPlanner::fits_slot(Collective collective, std::string_view algorithm,
                            std::uint64_t block_bytes) const {
  return facts_.max_slot_bytes && block_bytes <= *facts_.max_slot_bytes && algorithm == kLinear &&
         engine::SlotExchangeOperation::serves(collective);
}

Status CallPlanner::check_chunks(const CollectiveCall& call, std::uint64_t block_bytes) const {
  using protocol::BlockLayout;
  if (facts_.chunk_bytes == 0) return {};
  const auto chunks_of = [this](std::uint64_t bytes) {
    return BlockLayout::chunks_of(bytes, facts_.chunk_bytes);
  };
  std::uint64_t chunks = 0;
  if (call.collective == Collective::allgatherv) {
    for (const std::uint64_t bytes : call.sizes_bytes) chunks += chunks_of(bytes);
  } else {
    chunks = chunks_of(block_bytes) * (call.collective == Collective::allgather ? facts_.size : 1);
  }
  if (chunks <= BlockLayout::kMaxChunks) return {};
  return failure(Code::invalid_argument,
                 "{}: {} bytes are {} chunks of {} bytes, but a multicast has at most {} chunks: "
                 "set a larger chunk_bytes, or name an algorithm other than 'multicast'",
                 to_string(call.collective), call.receive.size(), chunks, facts_.chunk_bytes,
                 BlockLayout::kMaxChunks);
}

Result<PlannedCall> CallPlanner::plan(const CollectiveCall& call) {
  if (Status status = check_call(call, facts_.rank, facts_.size); !status) return status;
  PlannedCall planned;
  planned.call = without_unused_buffers(call, facts_.rank);
  planned.block_bytes = block_bytes_of(call, facts_.size);
  const auto chosen = choose(call, planned.block_bytes);
  if (!chosen) return chosen.status();
  planned.algorithm_name = chosen->entry->name.data();
  planned.with_inline_engine = fits_slot(call.collective, chosen->entry->name, planned.block_bytes);
  if (planned.with_inline_engine) return planned;
  if (chosen->entry->name == kMulticast) {
    if (Status status = check_chunks(call, planned.block_bytes); !status) return status;
    return planned;
  }

  const schedule::TemplateKey key{.collective = call.collective,
                                  .algorithm = chosen->entry->name,
                                  .ranks = facts_.size,
                                  .rank = facts_.rank,
                                  .root = has_root(call.collective) ? call.root : Rank{0},
                                  .parameters = chosen->parameters};
  {
    const std::lock_guard lock(mutex_);
    auto found = templates_.get(key);
    if (!found) return found.status();
    planned.schedule = std::move(*found);
  }
  planned.shape = shape_of(planned.call, planned.block_bytes);
  planned.shape.eager_limit_bytes = std::min(kEagerLimitBytes, facts_.max_data_bytes);
  planned.shape.in_place = is_in_place(call, facts_.rank, planned.block_bytes);
  return planned;
}

Result<std::unique_ptr<engine::Operation>> CallPlanner::make(const CollectiveCall& call) {
  if (!is_slot_exchange(call)) {
    const auto planned = plan(call);
    if (!planned) return planned.status();
    return make(*planned);
  }
  if (Status status = check_call(call, facts_.rank, facts_.size); !status) return status;
  return std::unique_ptr<engine::Operation>(engine::SlotExchangeOperation::create(
      without_unused_buffers(call, facts_.rank), facts_.rank));
}

Result<std::unique_ptr<engine::Operation>> CallPlanner::make(const PlannedCall& planned) {
  auto made = make_operation(planned);
  if (made) (*made)->set_priority(planned.call.options.priority);
  return made;
}

Result<std::unique_ptr<engine::Operation>> CallPlanner::make_operation(const PlannedCall& planned) {
  const CollectiveCall& call = planned.call;
  if (planned.with_inline_engine) {
    return std::unique_ptr<engine::Operation>(
        engine::SlotExchangeOperation::create(call, facts_.rank));
  }
  if (!planned.schedule) {
    std::unique_ptr<engine::Operation> operation;
    if (call.collective == Collective::broadcast) {
      operation = engine::MulticastOperation::broadcast(call.receive, call.root);
    } else if (call.collective == Collective::allgatherv) {
      operation = engine::MulticastOperation::allgatherv(call.send, call.receive, call.sizes_bytes,
                                                         call.offsets_bytes);
    } else {
      operation = engine::MulticastOperation::allgather(call.send, call.receive);
    }
    return operation;
  }
  engine::ScheduleCall run{.description = {to_string(call.collective), planned.algorithm_name,
                                           has_root(call.collective) ? call.root : kNoRank,
                                           std::max(call.send.size(), call.receive.size())},
                           .schedule = planned.schedule,
                           .shape = planned.shape,
                           .send = call.send,
                           .receive = call.receive,
                           .reduction = std::nullopt};
  if (reduces(call.collective)) run.reduction = call.reduction;
  auto made = engine::ScheduleOperation::create(std::move(run), pool_);
  if (!made) return made.status();
  return std::unique_ptr<engine::Operation>(std::move(*made));
}

}  // namespace tutti::runtime
