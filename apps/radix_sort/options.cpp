#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <map>

namespace radix_sort {
namespace {

constexpr std::uint64_t kMaxRadix = 65536;
constexpr std::uint64_t kMaxKeys = std::uint64_t{1} << 28;
constexpr std::uint64_t kMaxPieceBytes = std::uint64_t{1} << 30;

const std::map<std::string, Keys> kKeyNames = {
    {"uniform", Keys::uniform}, {"few", Keys::few}, {"equal", Keys::equal}};
const std::map<std::string, Progress> kProgressNames = {{"thread", Progress::thread},
                                                        {"test", Progress::test}};
const std::map<std::string, Damage> kDamageNames = {{"none", Damage::none},
                                                    {"order", Damage::order},
                                                    {"ranks", Damage::ranks},
                                                    {"key", Damage::key}};

template <typename Value>
const char* name_of(const std::map<std::string, Value>& names, Value wanted) {
  for (const auto& [name, value] : names) {
    if (value == wanted) return name.c_str();
  }
  return "";
}

bool parse_plain(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

/// Parses a number such as "4096" or "2^12".
bool parse_number(const std::string& text, std::uint64_t& value) {
  if (!text.starts_with("2^")) return parse_plain(text, value);
  std::uint64_t exponent = 0;
  if (!parse_plain(std::string_view(text).substr(2), exponent) || exponent > 63) return false;
  value = std::uint64_t{1} << exponent;
  return true;
}

/// Parses a number and checks that it lies within limits. An error names the command-line argument.
std::uint64_t number(const char* name, const std::string& text, std::uint64_t least,
                     std::uint64_t most) {
  std::uint64_t value = 0;
  if (!parse_number(text, value))
    throw CLI::ValidationError(name, "'" + text + "' is not a number such as 10 or 2^12");
  if (value < least || value > most)
    throw CLI::ValidationError(
        name, text + " is not from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

template <typename Value>
void add_list(CLI::App& app, const char* name, std::vector<Value>& list, std::uint64_t least,
              std::uint64_t most, const std::string& text) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&list, name, least, most](const std::vector<std::string>& typed) {
           list.clear();
           for (const std::string& one : typed)
             list.push_back(static_cast<Value>(number(name, one, least, most)));
         },
         text)
      ->delimiter(',')
      ->type_name("N,...");
}

void add_number(CLI::App& app, const char* name, std::uint64_t& value, std::uint64_t least,
                std::uint64_t most, const std::string& text) {
  app.add_option_function<std::string>(
         name,
         [&value, name, least, most](const std::string& typed) {
           value = number(name, typed, least, most);
         },
         text + " (" + std::to_string(value) + ")")
      ->type_name("N");
}

void add_options(CLI::App& app, Options& options) {
  add_list(app, "--radix", options.radices, 2, kMaxRadix,
           "Radices of the sort, 2 to 65536 each, such as 10 or 2^8 (default: 256)");
  add_list(app, "--keys", options.keys_per_rank, 0, kMaxKeys,
           "Numbers of keys per rank, such as 1000 or 2^12 (default: 4096)");
  app.add_option("--key-bits", options.key_bits, "32 or 64")
      ->check(CLI::IsMember({32u, 64u}))
      ->capture_default_str();
  app.add_option("--distribution", options.keys,
                 "Distribution of the keys: uniform, few (three values) or equal (one value)")
      ->transform(CLI::CheckedTransformer(kKeyNames).description("{uniform,few,equal}"))
      ->default_str("uniform");
  app.add_flag("--taper", options.taper,
               "Give rank r the share r/(P-1) of the keys, so that rank 0 has none");
  add_number(app, "--seed", options.seed, 0, UINT64_MAX, "Seed of the keys");
  app.add_option("-n,--iters", options.iterations, "Measured repetitions of each variant")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("-w,--warmup_iters", options.warmup, "Warm-up repetitions, which are not measured")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  app.add_option(
      "--allgather", options.allgather,
      "Algorithm of the Allgather of histograms, as `tutti explain` names it, or hierarchical");
  app.add_option("--alltoall", options.alltoall, "Algorithm of the exchange of keys");
  add_number(app, "--piece-bytes", options.piece_bytes, 8, kMaxPieceBytes,
             "Largest block in bytes of one Alltoall in the exchange");
  app.add_option("--progress", options.progress,
                 "Progress of the overlapped Allgather: thread (by the progress thread) or test "
                 "(by calls of test() in the sort)")
      ->transform(CLI::CheckedTransformer(kProgressNames).description("{thread,test}"))
      ->default_str("test");
  app.add_option("--interface", options.communicator.interface,
                 "Network interface, by name or address (default: TUTTI_INTERFACE)");
  app.add_option("--damage", options.damage,
                 "Damage the result before the check, to test the check")
      ->transform(CLI::CheckedTransformer(kDamageNames).description("{order,ranks,key}"));
  app.add_option("-J,--json", options.json_path, "Also write the results to this JSON file");
}

}  // namespace

tutti::Status read(int argc, char** argv, Options& options) {
  CLI::App app(
      "Sorts keys over all ranks of a job by digits, once with each Allgather of histograms "
      "blocking and once overlapped with local work. Start it in a job: tutti run -n 4 -- "
      "radix_sort",
      "radix_sort");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      app.exit(error);
      options.radices.clear();
      return {};
    }
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return {tutti::Code::invalid_argument, text};
  }
  if (options.taper && options.damage == Damage::ranks)
    return {tutti::Code::invalid_argument,
            "--damage ranks needs the same number of keys on each rank, but --taper makes the "
            "numbers differ: leave --taper out"};
  return {};
}

const char* to_string(Keys keys) { return name_of(kKeyNames, keys); }
const char* to_string(Progress progress) { return name_of(kProgressNames, progress); }

std::string radix_text(std::uint32_t radix) {
  if (radix < 32 || !std::has_single_bit(radix)) return std::to_string(radix);
  return "2^" + std::to_string(std::countr_zero(radix));
}

}  // namespace radix_sort
