#include "runtime/bootstrap/store/strangers.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace tutti::runtime {

Strangers::Limits Strangers::limits(std::size_t most) {
  rlimit descriptors{};
  std::size_t total = most;
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
    total = static_cast<std::size_t>(std::min<rlim_t>(total, descriptors.rlim_cur / 2));
  total = std::max<std::size_t>(total, 4);
  return {total, total - total / 4};
}

Strangers::Number Strangers::arrive(const std::string& neighbourhood) {
  const Number number = ++last_;
  neighbourhood_of_[number] = neighbourhood;
  by_neighbourhood_[neighbourhood].insert(number);
  return number;
}

std::optional<Strangers::Number> Strangers::surplus() const {
  // A neighbourhood is an IPv4 address or an IPv6 /64. If several of them have equally many
  // strangers, the one with the oldest stranger is chosen.
  const auto busiest = std::max_element(by_neighbourhood_.begin(), by_neighbourhood_.end(),
                                        [](const auto& a, const auto& b) {
                                          if (a.second.size() != b.second.size())
                                            return a.second.size() < b.second.size();
                                          return *a.second.begin() > *b.second.begin();
                                        });
  if (busiest == by_neighbourhood_.end()) return std::nullopt;
  const bool fits = count() <= limits_.total && busiest->second.size() <= limits_.per_neighbourhood;
  return fits ? std::nullopt : std::optional(*busiest->second.begin());
}

void Strangers::leave(Number number) {
  const auto found = neighbourhood_of_.find(number);
  if (found == neighbourhood_of_.end()) return;
  const auto of_neighbourhood = by_neighbourhood_.find(found->second);
  of_neighbourhood->second.erase(number);
  if (of_neighbourhood->second.empty()) by_neighbourhood_.erase(of_neighbourhood);
  neighbourhood_of_.erase(found);
}

}  // namespace tutti::runtime
