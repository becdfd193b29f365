#include "lab/options.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"

namespace tutti::lab {

namespace {

// Smallest burst of a shaper, in bytes. With a smaller burst, the kernel would split packets that
// hold many datagrams, which takes much processor time.
constexpr std::uint32_t kBurstBytes = 128 * 1024;
constexpr std::uint32_t kFastBurstBytes = 256 * 1024;
constexpr std::uint64_t kFastRate = 2'000'000'000;
constexpr std::uint64_t kSlowestRate = 64'000;
constexpr std::uint64_t kFastestRate = 100'000'000'000;

Status check_range(const char* option, int value, int low, int high) {
  if (value >= low && value <= high) return {};
  return failure(Code::invalid_argument, "{} {} is out of range: use {} to {}", option, value, low,
                 high);
}

Status check_percent(const char* option, double percent) {
  // The comparison is negated so that NaN also causes an error.
  if (!(percent >= 0 && percent <= 100)) {
    return failure(Code::invalid_argument, "{} {} is not a percentage: use 0 to 100", option,
                   percent);
  }
  if (percent > 0 && percent < 0.0001) {
    return failure(Code::invalid_argument, "{} {} is too small: use 0 or at least 0.0001", option,
                   percent);
  }
  return {};
}

/// Splits a text into the number at its start and the rest.
std::optional<std::pair<double, std::string>> number_and_rest(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(value)) return std::nullopt;
  return std::pair(value, std::string(end));
}

}  // namespace

std::string_view to_string(LossProtocol protocol) {
  switch (protocol) {
    case LossProtocol::udp:
      return "udp";
    case LossProtocol::multicast:
      return "multicast";
    case LossProtocol::all:
      break;
  }
  return "all";
}

LossProtocol loss_protocol_named(std::string_view name) {
  for (const LossProtocol one : {LossProtocol::udp, LossProtocol::multicast}) {
    if (name == to_string(one)) return one;
  }
  return LossProtocol::all;
}

std::string_view to_string(CoreShares shares) {
  return shares == CoreShares::hosts ? "hosts" : "traffic";
}

CoreShares core_shares_named(std::string_view name) {
  return name == to_string(CoreShares::hosts) ? CoreShares::hosts : CoreShares::traffic;
}

bool Impairments::any() const {
  return loss_percent > 0 || shared_loss_percent > 0 || burst_loss.enter_percent > 0 ||
         duplicate_percent > 0 || reorder_percent > 0 || corrupt_percent > 0;
}

Result<std::uint64_t> parse_rate(std::string_view text) {
  if (text == "off") return std::uint64_t{0};
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits{
      {{"", 1.0}, {"bit", 1.0}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}};
  const auto number = number_and_rest(text);
  if (number) {
    for (const auto& [unit, bits] : kUnits) {
      const double rate = number->first * bits;
      if (number->second == unit && rate >= 1 && rate < 1e15) {
        return static_cast<std::uint64_t>(rate);
      }
    }
  }
  return failure(Code::invalid_argument,
                 "'{}' is not a rate: use off or a rate such as 100mbit or 2.5gbit", text);
}

Result<BurstLoss> parse_burst_loss(std::string_view text) {
  const auto enter = number_and_rest(text);
  if (enter) {
    std::string_view rest = enter->second;
    if (rest.starts_with('%')) rest.remove_prefix(1);
    if (rest.starts_with(',')) {
      const auto leave = number_and_rest(rest.substr(1));
      if (leave && (leave->second.empty() || leave->second == "%")) {
        return BurstLoss{enter->first, leave->first};
      }
    }
  }
  return failure(Code::invalid_argument,
                 "burst loss '{}' is not valid: use ENTER%,LEAVE% such as 0.1%,10%", text);
}

Status check_name(std::string_view name) {
  const bool characters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (characters && !name.empty() && name.front() != '-' && name.size() <= kMaximumNameLength) {
    return {};
  }
  return failure(
      Code::invalid_argument,
      "lab name '{}' is not valid: use 1 to {} characters of a-z, 0-9 and '-', and begin with a "
      "letter or digit",
      name, kMaximumNameLength);
}

Status check_impairments(const Impairments& impairments, int hosts) {
  const std::array<std::pair<const char*, double>, 7> percents{
      {{"loss", impairments.loss_percent},
       {"shared loss", impairments.shared_loss_percent},
       {"burst loss enter", impairments.burst_loss.enter_percent},
       {"burst loss leave", impairments.burst_loss.leave_percent},
       {"duplicate", impairments.duplicate_percent},
       {"reorder", impairments.reorder_percent},
       {"corrupt", impairments.corrupt_percent}}};
  for (const auto& [option, percent] : percents) {
    if (Status status = check_percent(option, percent); !status) return status;
  }
  if (impairments.burst_loss.enter_percent > 0 && impairments.burst_loss.leave_percent == 0) {
    return failure(Code::invalid_argument,
                   "burst loss {}%,{}% never ends a burst: use a second percentage above 0",
                   impairments.burst_loss.enter_percent, impairments.burst_loss.leave_percent);
  }
  for (const int host : impairments.only_hosts) {
    if (Status status = check_range("impaired host", host, 0, hosts - 1); !status) return status;
  }
  return {};
}

Status check_options(const LabOptions& options) {
  if (!options.name.empty()) {
    if (Status status = check_name(options.name); !status) return status;
  }
  if (Status status = check_range("hosts", options.hosts, 1, kMaximumHosts); !status) return status;
  if (Status status = check_range("aggregators", options.aggregators, 0, kMaximumAggregators);
      !status) {
    return status;
  }
  const int smallest_mtu = options.ipv6 ? 1280 : 576;
  if (Status status = check_range("mtu", options.mtu, smallest_mtu, 65535); !status) return status;
  const std::uint64_t rate = options.rate_bits_per_second;
  if (rate != 0 && (rate < kSlowestRate || rate > kFastestRate)) {
    return failure(Code::invalid_argument, "rate {} bit/s is out of range: use 64kbit to 100gbit",
                   rate);
  }
  if (options.burst_bytes != 0 &&
      options.burst_bytes < static_cast<std::uint32_t>(options.mtu) + 14) {
    return failure(Code::invalid_argument,
                   "a burst of {} bytes is shorter than an Ethernet frame: use {} bytes or more",
                   options.burst_bytes, options.mtu + 14);
  }
  for (const char c : options.congestion_control) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') continue;
    return failure(
        Code::invalid_argument,
        "'{}' is not the name of a congestion control algorithm: use a name such as cubic",
        options.congestion_control);
  }
  return check_impairments(options.impairments, options.hosts);
}

bool segmentation_of(const LabOptions& options) {
  return options.segmentation.value_or(!options.impairments.any());
}

std::uint32_t burst_bytes_of(const LabOptions& options) {
  if (options.burst_bytes != 0) return options.burst_bytes;
  return options.rate_bits_per_second > kFastRate ? kFastBurstBytes : kBurstBytes;
}

}  // namespace tutti::lab
