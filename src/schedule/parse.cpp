// Parses the text form of a schedule, one function for each kind of line.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace tutti::schedule {

namespace {

/// The words of one line and the reading position.
class Line {
 public:
  Line(std::uint32_t number, std::string_view text) : number_(number) {
    text = text.substr(0, text.find('#'));
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t first = text.find_first_not_of(" \t\r", at);
      if (first == std::string_view::npos) break;
      at = std::min(text.find_first_of(" \t\r", first), text.size());
      words_.push_back(text.substr(first, at - first));
    }
  }

  std::uint32_t number() const { return number_; }
  bool blank() const { return words_.empty(); }
  bool at_end() const { return next_ == words_.size(); }
  std::string_view peek() const { return at_end() ? std::string_view("") : words_[next_]; }
  std::string_view take() { return at_end() ? std::string_view("") : words_[next_++]; }
  bool take_if(std::string_view word) {
    const bool found = !at_end() && peek() == word;
    if (found) ++next_;
    return found;
  }

  template <typename... Args>
  Status wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return failure(Code::invalid_argument, "line {} of the schedule: {}", number_,
                   fmt::format(format, std::forward<Args>(args)...));
  }
  Status expect(std::string_view word) {
    if (take_if(word)) return {};
    return wrong("found '{}' instead of '{}': write '{}' there", peek(), word, word);
  }
  Status expect_end() const {
    return at_end() ? Status() : wrong("unexpected '{}' at the end of the line: remove it", peek());
  }

 private:
  std::uint32_t number_;
  std::size_t next_ = 0;
  std::vector<std::string_view> words_;
};

template <typename Number>
bool to_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

/// Reads a number, which must fit into the type of `out`; error texts call the number `what`.
template <typename Number>
Status read_number(Line& line, std::string_view what, Number& out) {
  const std::string_view word = line.take();
  if (to_number(word, out)) return {};
  return line.wrong("'{}' is not a valid {}: write a number of at most {}", word, what,
                    std::numeric_limits<Number>::max());
}

Status read_rank(Line& line, Rank& out) {
  std::uint32_t value = 0;
  Status status = read_number(line, "rank", value);
  out = static_cast<Rank>(value);
  return status;
}

/// Reads `word` and the number that follows it.
template <typename Number>
Status read_field(Line& line, std::string_view word, Number& out) {
  if (Status status = line.expect(word); !status) return status;
  return read_number(line, word, out);
}

/// Parses "a..b" or "a" into a half-open range of numbers.
bool to_range(std::string_view text, std::uint32_t& first, std::uint32_t& last) {
  const std::size_t dots = text.find("..");
  if (dots != std::string_view::npos)
    return to_number(text.substr(0, dots), first) && to_number(text.substr(dots + 2), last) &&
           first < last;
  if (!to_number(text, first) || first == std::numeric_limits<std::uint32_t>::max()) return false;
  last = first + 1;
  return true;
}

/// Removes a suffix such as "{1/4}" or "{1..3/4}" from the text of a buffer slice, and stores the
/// parts in `out`.
bool take_parts(std::string_view& text, BufferSlice& out) {
  const std::size_t brace = text.find('{');
  if (brace == std::string_view::npos) return true;
  if (text.back() != '}') return false;
  const std::string_view inner = text.substr(brace + 1, text.size() - brace - 2);
  text = text.substr(0, brace);
  const std::size_t slash = inner.find('/');
  return slash != std::string_view::npos && to_number(inner.substr(slash + 1), out.parts) &&
         to_range(inner.substr(0, slash), out.part_first, out.part_last);
}

bool to_slice(std::string_view text, BufferSlice& out) {
  if (text == "-") return true;
  if (!take_parts(text, out)) return false;
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos || text.back() != ']') return false;
  const std::string_view name = text.substr(0, bracket);
  for (Buffer buffer : {Buffer::send, Buffer::receive, Buffer::scratch}) {
    if (name == to_string(buffer)) out.buffer = buffer;
  }
  std::uint32_t last = 0;
  if (out.buffer == Buffer::none ||
      !to_range(text.substr(bracket + 1, text.size() - bracket - 2), out.first_block, last))
    return false;
  out.block_count = last - out.first_block;
  return true;
}

Status read_slice(Line& line, BufferSlice& out) {
  const std::string_view word = line.take();
  if (to_slice(word, out)) return {};
  return line.wrong(
      "'{}' is not a buffer slice: write send, receive or scratch as in receive[2], receive[2..5], "
      "receive[0]{{1/4}} or receive[0]{{1..3/4}}",
      word);
}

/// Reads a source and a target in the form "SOURCE -> TARGET".
Status read_move(Line& line, Task& task) {
  if (Status status = read_slice(line, task.source); !status) return status;
  if (Status status = line.expect("->"); !status) return status;
  return read_slice(line, task.target);
}

void read_side(Line& line, Task& task) {
  for (Side side : {Side::after, Side::before, Side::none}) {
    if (line.peek() == to_string(side)) {
      task.side = side;
      line.take();
      return;
    }
  }
}

Status read_keys(Line& line, Task& task, Program& program) {
  task.first_key = static_cast<std::uint32_t>(program.keys.size());
  while (line.peek().find(':') != std::string_view::npos) {
    const std::string_view word = line.take();
    const std::size_t colon = word.find(':');
    Key key;
    std::uint32_t source = 0;
    if (!to_number(word.substr(0, colon), source) || !to_number(word.substr(colon + 1), key.slot))
      return line.wrong("'{}' is not a key: write RANK:SLOT", word);
    key.source = static_cast<Rank>(source);
    program.keys.push_back(key);
  }
  task.key_count = static_cast<std::uint32_t>(program.keys.size()) - task.first_key;
  task.counted = line.take_if("counted");
  read_side(line, task);
  if (Status status = line.expect("into"); !status) return status;
  return read_slice(line, task.target);
}

Status read_message(Line& line, Task& task) {
  const bool receives = task.kind == TaskKind::recv;
  if (Status status = line.expect(receives ? "from" : "to"); !status) return status;
  if (Status status = read_rank(line, task.peer); !status) return status;
  if (Status status = read_field(line, "slot", task.slot); !status) return status;
  if (task.kind == TaskKind::signal) {
    task.counted = line.take_if("counted");
    return {};
  }
  task.keyed = task.kind == TaskKind::send && line.take_if("keyed");
  if (Status status = line.expect(receives ? "into" : "from"); !status) return status;
  return read_slice(line, receives ? task.target : task.source);
}

Status read_one_sided(Line& line, Task& task) {
  if (Status status = line.expect("at"); !status) return status;
  if (Status status = read_rank(line, task.peer); !status) return status;
  return read_move(line, task);
}

Status read_group(Line& line, Task& task) {
  if (!line.take_if("group")) return {};
  return read_number(line, "group", task.object);
}

Status read_action(Line& line, Task& task, Program& program) {
  switch (task.kind) {
    case TaskKind::send:
    case TaskKind::recv:
    case TaskKind::signal:
      return read_message(line, task);
    case TaskKind::write:
    case TaskKind::read:
      return read_one_sided(line, task);
    case TaskKind::multicast:
      if (Status status = read_group(line, task); !status) return status;
      return read_move(line, task);
    case TaskKind::collect:
      if (Status status = read_group(line, task); !status) return status;
      return read_slice(line, task.target);
    case TaskKind::wait:
      if (Status status = read_field(line, "completions", task.object); !status) return status;
      return read_field(line, "count", task.count);
    case TaskKind::enable:
      if (Status status = read_field(line, "queue", task.object); !status) return status;
      return read_field(line, "count", task.count);
    case TaskKind::wait_keys:
      return read_keys(line, task, program);
    case TaskKind::reduce:
      read_side(line, task);
      return read_move(line, task);
    case TaskKind::copy:
      return read_move(line, task);
  }
  return {};
}

Status read_kind(Line& line, TaskKind& out) {
  const std::string_view word = line.take();
  std::string known;
  for (std::uint32_t k = 0; k < kTaskKinds; ++k) {
    const char* name = to_string(static_cast<TaskKind>(k));
    if (word == name) {
      out = static_cast<TaskKind>(k);
      return {};
    }
    known += fmt::format("{}{}", k == 0 ? "" : ", ", name);
  }
  return line.wrong("'{}' is not a task: use one of {}", word, known);
}

Status read_dependencies(Line& line, Task& task, Program& program) {
  task.first_dependency = static_cast<std::uint32_t>(program.dependencies.size());
  if (line.take_if("after")) {
    do {
      TaskIndex before = 0;
      if (Status status = read_number(line, "task", before); !status) return status;
      program.dependencies.push_back(before);
    } while (!line.at_end());
  }
  task.dependency_count =
      static_cast<std::uint32_t>(program.dependencies.size()) - task.first_dependency;
  return {};
}

Status expect_next(Line& line, std::string_view what, std::size_t next) {
  std::uint32_t number = 0;
  if (Status status = read_field(line, what, number); !status) return status;
  if (number == next) return {};
  return line.wrong("{} {} found instead of {} {}: number them from 0 without gaps", what, number,
                    what, next);
}

Status read_task(Line& line, Program& program) {
  if (Status status = expect_next(line, "task", program.tasks.size()); !status) return status;
  Task task;
  if (line.take_if("on")) {
    if (Status status = read_number(line, "queue", task.queue); !status) return status;
  }
  if (line.take_if("round")) {
    if (Status status = read_number(line, "round", task.round); !status) return status;
  }
  if (Status status = read_kind(line, task.kind); !status) return status;
  if (Status status = read_action(line, task, program); !status) return status;
  if (Status status = read_dependencies(line, task, program); !status) return status;
  program.tasks.push_back(task);
  return line.expect_end();
}

Status read_queue_kind(Line& line, Queue& queue) {
  const std::string_view word = line.take();
  for (QueueKind kind : {QueueKind::free, QueueKind::send, QueueKind::receive,
                         QueueKind::management, QueueKind::host}) {
    if (word == to_string(kind)) {
      queue.kind = kind;
      return {};
    }
  }
  return line.wrong("'{}' is not a queue: use free, send, receive, management or host", word);
}

Status read_queue(Line& line, Program& program) {
  if (Status status = expect_next(line, "queue", program.queues.size()); !status) return status;
  Queue queue;
  if (Status status = read_queue_kind(line, queue); !status) return status;
  if (queue.kind == QueueKind::send || queue.kind == QueueKind::receive) {
    if (Status status = line.expect(queue.kind == QueueKind::send ? "to" : "from"); !status)
      return status;
    if (Status status = read_rank(line, queue.peer); !status) return status;
  }
  if (line.take_if("channel")) {
    if (line.take_if("cts")) {
      queue.channel = Channel::cts;
    } else if (Status status = line.expect("data"); !status) {
      return status;
    }
  }
  queue.held = line.take_if("held");
  if (line.take_if("completions")) {
    if (Status status = read_number(line, "completion queue", queue.completions); !status)
      return status;
  }
  program.queues.push_back(queue);
  return line.expect_end();
}

Status read_parameters(Line& line, Parameters& out) {
  std::uint32_t ready = 0;
  std::uint32_t handshake = 0;
  const std::pair<std::string_view, std::uint32_t*> fields[] = {
      {"ports=", &out.ports},   {"radix=", &out.radix}, {"segments=", &out.segments},
      {"chains=", &out.chains}, {"ready=", &ready},     {"handshake=", &handshake}};
  for (const auto& [name, value] : fields) {
    const std::string_view word = line.take();
    if (!word.starts_with(name) || !to_number(word.substr(name.size()), *value))
      return line.wrong("found '{}' instead of '{}NUMBER': write it in this form", word, name);
  }
  if (ready > 1 || handshake > 1)
    return line.wrong("ready={} handshake={}: write 0 or 1", ready, handshake);
  out.ready = ready == 1;
  out.handshake = handshake == 1;
  return line.expect_end();
}

/// Parses the six lines that precede the queues, in their fixed order.
class Heading {
 public:
  bool complete() const { return next_ == kLines; }

  Status read(Line& line, Program& program) {
    Purpose& purpose = program.purpose;
    switch (next_++) {
      case 0: {
        std::uint32_t version = 0;
        if (Status status = read_field(line, "tutti-schedule", version); !status) return status;
        if (version != 1) return line.wrong("version {} is not supported: use version 1", version);
        return line.expect_end();
      }
      case 1: {
        if (Status status = line.expect("collective"); !status) return status;
        const Result<Collective> collective = collective_named(line.take());
        if (!collective) return line.wrong("{}", collective.status().message());
        purpose.collective = *collective;
        return line.expect_end();
      }
      case 2:
        if (Status status = line.expect("algorithm"); !status) return status;
        purpose.algorithm = line.take();
        return line.expect_end();
      case 3:
        if (Status status = read_field(line, "ranks", purpose.ranks); !status) return status;
        if (Status status = line.expect("rank"); !status) return status;
        if (Status status = read_rank(line, purpose.rank); !status) return status;
        if (Status status = line.expect("root"); !status) return status;
        if (Status status = read_rank(line, purpose.root); !status) return status;
        return line.expect_end();
      case 4:
        if (Status status = line.expect("parameters"); !status) return status;
        return read_parameters(line, purpose.parameters);
      default:
        if (Status status = read_field(line, "scratch", program.scratch_blocks); !status)
          return status;
        return line.expect_end();
    }
  }

 private:
  static constexpr int kLines = 6;
  int next_ = 0;
};

Status read_body(Line& line, Program& program) {
  if (line.peek() == "queue") {
    if (!program.tasks.empty())
      return line.wrong("a queue follows a task: move it before the first task");
    return read_queue(line, program);
  }
  return read_task(line, program);
}

}  // namespace

Result<Schedule> parse_schedule(std::string_view text) {
  Program program;
  Heading heading;
  std::uint32_t number = 0;
  bool ended = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Line line(++number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.blank()) continue;
    if (ended) return line.wrong("'{}' follows 'end': remove it", line.peek());
    ended = heading.complete() && line.take_if("end");
    if (ended) continue;
    Status status = heading.complete() ? read_body(line, program) : heading.read(line, program);
    if (!status) return status;
  }
  if (!ended)
    return failure(
        Code::invalid_argument,
        "line {} of the schedule: the text stops before the line 'end': supply the missing lines",
        number);
  return Schedule::make(std::move(program));
}

}  // namespace tutti::schedule
