#include "size_option.hpp"

#include <CLI/CLI.hpp>
#include <utility>

#include "base/error.hpp"
#include "size_text.hpp"

namespace tutti::app {
namespace {

constexpr std::uint64_t kMaxSendBytes = std::uint64_t{1} << 36;

}  // namespace

void add_size(CLI::App& command, const std::string& names, std::uint64_t& bytes,
              const std::string& text) {
  command
      .add_option_function<std::string>(
          names,
          [&bytes, names](const std::string& typed) {
            const auto size = parse_size(typed);
            if (!size) throw CLI::ValidationError(names, size.status().message());
            if (*size > kMaxSendBytes) throw CLI::ValidationError(names, typed + " is too large");
            bytes = *size;
          },
          text + " (" + size_text(bytes) + ")")
      ->type_name("BYTES");
}

void add_size_range(CLI::App& command, SizeRange& range) {
  add_size(command, "-b,--minbytes", range.min_bytes, "Smallest size in bytes that a rank sends");
  add_size(command, "-e,--maxbytes", range.max_bytes, "Largest size in bytes that a rank sends");
  auto* factor =
      command.add_option("-f,--stepfactor", range.step_factor, "Factor from one size to the next");
  factor->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1} << 30))->capture_default_str();
  add_size(command, "-i,--stepbytes", range.step_bytes,
           "Bytes from one size to the next; 0: use the factor");
}

Status SizeRange::check(std::optional<DataType> element) const {
  const std::uint64_t unit = element ? element_bytes(*element) : 1;
  for (const auto& [option, bytes] :
       {std::pair{"--minbytes", min_bytes}, std::pair{"--stepbytes", step_bytes}}) {
    if (bytes % unit == 0) continue;
    return failure(Code::invalid_argument,
                   "option {} is {} bytes, which is not a whole number of elements: use a multiple "
                   "of {} bytes, the size of one {}",
                   option, bytes, unit, to_string(*element));
  }
  if (min_bytes <= max_bytes) return {};
  return failure(Code::invalid_argument,
                 "--minbytes {} is more than --maxbytes {}: lower --minbytes or raise --maxbytes",
                 size_text(min_bytes), size_text(max_bytes));
}

std::vector<std::uint64_t> SizeRange::sizes(std::uint64_t element_bytes) const {
  std::vector<std::uint64_t> list;
  for (std::uint64_t size = min_bytes; size <= max_bytes;) {
    list.push_back(size);
    if (step_bytes != 0) {
      size += step_bytes;
    } else {
      size = size == 0 ? element_bytes : size * step_factor;
    }
  }
  return list;
}

}  // namespace tutti::app
