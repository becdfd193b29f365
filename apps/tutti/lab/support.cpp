// Finds out which features of a lab work on this machine, by trying each in private namespaces.
#include <unistd.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "lab/keeper.hpp"
#include "lab/lab.hpp"
#include "lab/rules.hpp"
#include "launch/process.hpp"

namespace tutti::lab {

namespace {

/// Replaces an error by one that also tells how to get the missing kernel feature.
Status with_remedy(const Status& status, const char* remedy) {
  if (status.ok() || status.code() == Code::unsupported) return status;
  return Status(Code::unsupported, status.message() + "; " + remedy);
}

Status try_links(const launch::NetNamespace& place) {
  return with_remedy(
      launch::run_checked(place, {"ip", "-batch", "-"},
                          "link add br0 type bridge mcast_snooping 1 mcast_querier 1\n"
                          "link add p0 type veth peer name eth0\n"
                          "link add late0 type veth peer name back0\n",
                          "make a bridge and links")
          .status(),
      "the kernel needs bridge (with IGMP snooping) and veth: modprobe bridge veth");
}

Status try_shaping(const launch::NetNamespace& place) {
  return with_remedy(launch::run_checked(place,
                                         {"tc", "qdisc", "add", "dev", "p0", "root", "tbf", "rate",
                                          "1gbit", "burst", "131072", "limit", "1000000"},
                                         {}, "shape a link")
                         .status(),
                     "the kernel needs qdisc tbf: modprobe sch_tbf");
}

Status try_offload(const launch::NetNamespace& place) {
  return with_remedy(
      launch::run_checked(
          place, {"ethtool", "-K", "p0", "tx-udp-segmentation", "off", "tso", "off", "gso", "off"},
          {}, "turn segmentation off")
          .status(),
      "without it impairments apply to packets of many datagrams");
}

Status try_rules(const launch::NetNamespace& place, const Impairments& impairments,
                 const char* remedy) {
  return with_remedy(
      launch::run_checked(place, {"nft", "-f", "-"}, rules_for(impairments, 1), "impair a link")
          .status(),
      remedy);
}

}  // namespace

LabSupport lab_support() {
  LabSupport support;
  Result<Keeper> keeper = Keeper::start();
  support.temporary = keeper ? try_links(keeper->place()) : keeper.status();
  if (!support.temporary) {
    support.persistent = support.shaping = support.offload = support.loss = support.detour =
        support.temporary;
    return support;
  }
  const launch::NetNamespace place = keeper->place();
  if (geteuid() != 0 || !may_make_namespaces()) {
    support.persistent = failure(Code::unsupported, "a persistent lab needs root: run as root");
  }
  support.shaping = try_shaping(place);
  support.offload = try_offload(place);
  Impairments impairments;
  impairments.loss_percent = impairments.shared_loss_percent = impairments.corrupt_percent = 1;
  impairments.burst_loss = {1, 10};
  support.loss = try_rules(place, impairments,
                           "the kernel needs nftables in the bridge family, with numgen: modprobe "
                           "nf_tables nft_numgen (CONFIG_NF_TABLES_BRIDGE)");
  impairments = {};
  impairments.duplicate_percent = impairments.reorder_percent = 1;
  support.detour = try_rules(place, impairments,
                             "the kernel (5.16 or later) needs nftables' egress hook, with dup and "
                             "fwd (CONFIG_NETFILTER_EGRESS, CONFIG_NFT_DUP_NETDEV, "
                             "CONFIG_NFT_FWD_NETDEV)");
  return support;
}

}  // namespace tutti::lab
