#include "lab/cores.hpp"

#include <algorithm>
#include <cstddef>

namespace tutti::lab {

namespace {

std::vector<int> own_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

/// The set of the cores cores[first] to cores[last - 1].
cpu_set_t set_of(const std::vector<int>& cores, std::size_t first, std::size_t last) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::size_t at = first; at < last; ++at) CPU_SET(cores[at], &set);
  return set;
}

/// Assigns one core to each host; with CoreShares::traffic it first assigns one core to each
/// aggregator. The load of a core is the sum of the weights that it has got so far, and every host
/// or aggregator gets the core with the least load.
std::vector<cpu_set_t> shares_of_few(const std::vector<int>& cores, int hosts, int aggregators,
                                     CoreShares division) {
  std::vector<int> load(cores.size());
  const auto put = [&](int weight) {
    const auto lightest = std::min_element(load.begin(), load.end());
    *lightest += weight;
    const auto at = static_cast<std::size_t>(lightest - load.begin());
    return set_of(cores, at, at + 1);
  };
  // The weight is proportional to the bytes moved in an Allreduce: a host moves 2 vectors, an
  // aggregator (hosts + 1) / aggregators vectors. Both are multiplied by the number of aggregators,
  // so that the weights are whole numbers.
  const int host_weight = std::max(2 * aggregators, 1);
  std::vector<cpu_set_t> of_aggregators;
  std::vector<cpu_set_t> shares;
  for (int one = 0; one < aggregators; ++one) {
    of_aggregators.push_back(division == CoreShares::traffic ? put(hosts + 1)
                                                             : set_of(cores, 0, cores.size()));
  }
  for (int host = 0; host < hosts; ++host) shares.push_back(put(host_weight));
  shares.insert(shares.end(), of_aggregators.begin(), of_aggregators.end());
  return shares;
}

}  // namespace

std::vector<cpu_set_t> shares_of_cores(int hosts, int aggregators, CoreShares division) {
  const std::vector<int> cores = own_cores();
  const auto places = static_cast<std::size_t>(hosts + aggregators);
  if (places < 2 || cores.empty()) return {};
  if (cores.size() < places) return shares_of_few(cores, hosts, aggregators, division);
  std::vector<cpu_set_t> shares;
  for (std::size_t place = 0; place < places; ++place) {
    shares.push_back(
        set_of(cores, place * cores.size() / places, (place + 1) * cores.size() / places));
  }
  return shares;
}

}  // namespace tutti::lab
