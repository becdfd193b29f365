#include "lab/lab.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "device/posix/descriptor.hpp"
#include "lab/batches.hpp"
#include "lab/cores.hpp"
#include "lab/keeper.hpp"
#include "lab/rules.hpp"
#include "lab/state.hpp"
#include "launch/remote_socket.hpp"

namespace tutti::lab {

namespace {

constexpr int kDetourQueueBytes = 4'000'000;

std::string name_prefix(const std::string& lab) { return "tutti-" + lab + "-"; }

/// Runs a network tool and returns an error if its exit status is not 0.
Status run_tool(const launch::NetNamespace& place, const std::vector<std::string>& arguments,
                std::string_view input, std::string_view purpose) {
  return launch::run_checked(place, arguments, input, purpose).status();
}

struct Setting {
  std::string path;
  std::string value;
  /// Whether the file may be missing; if false, a missing file is an error.
  bool optional = true;
};

/// Writes settings to files under /proc/sys, by a child process in the namespaces of `place`.
Status apply_settings(const launch::NetNamespace& place, const std::vector<Setting>& settings) {
  Result<pid_t> pid = launch::fork_into(place, [&settings] {
    int number = 1;
    for (const Setting& setting : settings) {
      const int fd = open(setting.path.c_str(), O_WRONLY | O_CLOEXEC);
      const bool absent = fd < 0 && errno == ENOENT && setting.optional;
      const ssize_t length = static_cast<ssize_t>(setting.value.size());
      const bool written =
          fd >= 0 && write(fd, setting.value.data(), setting.value.size()) == length;
      if (!written && !absent) return number;
      if (fd >= 0) close(fd);
      ++number;
    }
    return 0;
  });
  if (!pid) return pid.status();
  Result<int> failed = launch::wait_for(*pid);
  if (!failed) return failed.status();
  if (*failed == 0) return {};
  const std::size_t index = static_cast<std::size_t>(*failed) - 1;
  if (index >= settings.size()) {
    return failure(Code::system,
                   "a process inside the lab ended with status {}: make the lab again", *failed);
  }
  return failure(Code::system,
                 "cannot set {} to '{}' inside the lab: check that the kernel supports this value",
                 settings[index].path, settings[index].value);
}

std::vector<Setting> without_ipv6() {
  return {{"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"},
          {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"}};
}

std::vector<Setting> switch_settings() {
  std::vector<Setting> settings = without_ipv6();
  // If the kernel module br_netfilter is loaded, bridged packets pass through iptables unless these
  // settings are 0.
  for (const char* tables : {"iptables", "ip6tables", "arptables"}) {
    settings.push_back({fmt::format("/proc/sys/net/bridge/bridge-nf-call-{}", tables), "0"});
  }
  return settings;
}

std::vector<Setting> host_settings(const LabOptions& options) {
  std::vector<Setting> settings;
  if (options.ipv6) {
    // Duplicate address detection is off: it would only delay the lab, which gives each address
    // only once.
    settings = {{"/proc/sys/net/ipv6/conf/all/accept_dad", "0", false},
                {"/proc/sys/net/ipv6/conf/default/accept_dad", "0", false}};
  } else {
    settings = without_ipv6();
  }
  return settings;
}

/// Time from the first IGMP query until the bridge stops flooding multicast: the response interval
/// that bridge_batch() sets, plus the resolution of the kernel's timers.
constexpr std::chrono::milliseconds kFloodingEnds{40};

/// The names in /run/netns that belong to the lab, even if it was only partly built.
std::vector<std::string> named_namespaces(const std::string& lab) {
  std::vector<std::string> names;
  const std::string prefix = name_prefix(lab);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    const bool host = rest.size() > 1 && (rest[0] == 'h' || rest[0] == 'a') &&
                      rest.find_first_not_of("0123456789", 1) == std::string::npos;
    if (host || rest == "sw") names.push_back(name);
  }
  return names;
}

std::string own_descriptor_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

/// Descriptor of the user namespace of a keeper; invalid if this process is in that namespace.
Result<device::Descriptor> foreign_user_namespace(pid_t keeper) {
  const std::string path = fmt::format("/proc/{}/ns/user", keeper);
  if (launch::namespace_inode(path) == launch::namespace_inode("/proc/self/ns/user"))
    return device::Descriptor();
  device::Descriptor user(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!user.valid()) return system_failure(errno, "cannot open {}", path);
  return user;
}

std::string chosen_name() {
  static std::atomic<int> count{0};
  return fmt::format("run-{}-{}", getpid(), count++);
}

}  // namespace

/// The state of a lab and the steps that build and remove it.
struct Lab::Parts {
  LabState state;
  bool owned = false;  ///< whether this object removes the lab when it is destroyed
  /// Process that made this object; a forked child must not remove the lab.
  pid_t owner_process = getpid();
  std::optional<Keeper> keeper;
  /// Descriptor of the user namespace of a temporary lab that another process made. Invalid for all
  /// other labs, and if this process is in that namespace.
  device::Descriptor user;
  device::Descriptor switch_network;
  std::vector<device::Descriptor> host_networks;
  std::vector<device::Descriptor> aggregator_networks;
  bool has_detours = false;

  const LabOptions& options() const { return state.options; }
  std::string prefix() const { return name_prefix(state.options.name); }
  launch::NetNamespace outside() const {
    return keeper ? keeper->place() : launch::NetNamespace{.user = user.get()};
  }
  launch::NetNamespace at_switch() const { return within(switch_network); }
  launch::NetNamespace at_host(int host) const {
    return on_share(within(host_networks[static_cast<std::size_t>(host)]), host);
  }
  launch::NetNamespace at_aggregator(int aggregator) const {
    return on_share(within(aggregator_networks[static_cast<std::size_t>(aggregator)]),
                    options().hosts + aggregator);
  }
  launch::NetNamespace within(const device::Descriptor& network) const {
    return {.user = outside().user, .mount = -1, .network = network.get()};
  }
  launch::NetNamespace on_share(launch::NetNamespace place, int number) const {
    const std::vector<cpu_set_t> shares =
        shares_of_cores(options().hosts, options().aggregators, options().core_shares);
    if (!shares.empty()) place.cores = shares[static_cast<std::size_t>(number)];
    return place;
  }

  Status check_host(int host) const;
  Status build();
  Status make_namespaces();
  Status open_namespaces();
  Status make_links();
  Status configure(const launch::NetNamespace& place, int number);
  Status connect_ports();
  Status wait_for_switch_address() const;
  Status shape();
  Status set_offload();
  Status impair(const Impairments& impairments);
  Status make_detours(const LabOptions& wanted);
  Status remove();
};

Status Lab::Parts::check_host(int host) const {
  if (host >= 0 && host < options().hosts) return {};
  return failure(Code::invalid_argument, "host {} is not in lab '{}': use 0 to {}", host,
                 options().name, options().hosts - 1);
}

Status Lab::Parts::make_namespaces() {
  std::string batch = fmt::format("netns add {}sw\n", prefix());
  for (int host = 0; host < options().hosts; ++host) {
    batch += fmt::format("netns add {}h{}\n", prefix(), host);
  }
  for (int one = 0; one < options().aggregators; ++one) {
    batch += fmt::format("netns add {}a{}\n", prefix(), one);
  }
  return run_tool(outside(), {"ip", "-batch", "-"}, batch, "make network namespaces");
}

Status Lab::Parts::open_namespaces() {
  const auto opened = [this](const std::string& name) {
    return open(namespace_path(state.keeper, prefix() + name).c_str(), O_RDONLY | O_CLOEXEC);
  };
  switch_network = device::Descriptor(opened("sw"));
  bool complete = switch_network.valid();
  for (int host = 0; host < options().hosts; ++host) {
    host_networks.emplace_back(opened(fmt::format("h{}", host)));
    complete = complete && host_networks.back().valid();
  }
  for (int one = 0; one < options().aggregators; ++one) {
    aggregator_networks.emplace_back(opened(fmt::format("a{}", one)));
    complete = complete && aggregator_networks.back().valid();
  }
  if (complete) return {};
  return system_failure(errno, "cannot open the namespaces of lab '{}': take it down",
                        options().name);
}

Status Lab::Parts::make_links() {
  const launch::NetNamespace place = at_switch();
  if (Status status = apply_settings(place, switch_settings()); !status) return status;
  Status status = run_tool(place, {"ip", "-batch", "-"}, bridge_batch(), "make the switch");
  if (!status) return status;
  if (options().ipv6) {
    // An IPv6 querier needs a source address, so IPv6 is enabled on the bridge.
    status = apply_settings(place, {{"/proc/sys/net/ipv6/conf/br0/accept_dad", "0", false},
                                    {"/proc/sys/net/ipv6/conf/br0/disable_ipv6", "0", false}});
    if (!status) return status;
  }
  // `ip` must run in the keeper's mount namespace, because only there the hosts' namespaces have
  // names.
  launch::NetNamespace with_names = place;
  with_names.mount = outside().mount;
  return run_tool(with_names, {"ip", "-batch", "-"}, links_batch(options(), prefix()),
                  "make the links");
}

/// Gives a host or an aggregator the address that ends in `number`.
Status Lab::Parts::configure(const launch::NetNamespace& place, int number) {
  return run_tool(place, {"ip", "-batch", "-"}, host_batch(options(), number), "configure a host");
}

Status Lab::Parts::connect_ports() {
  const std::vector<std::string> tool{"ip", "-batch", "-"};
  Status status = run_tool(at_switch(), tool, ports_up_batch(options()), "connect the links");
  if (!status) return status;
  if (options().ipv6) {
    if (status = wait_for_switch_address(); !status) return status;
  }
  status = run_tool(at_switch(), tool, querier_batch(), "make the switch send IGMP queries");
  if (status.ok()) std::this_thread::sleep_for(kFloodingEnds);
  return status;
}

Status Lab::Parts::wait_for_switch_address() const {
  constexpr std::chrono::milliseconds kStep{5};
  constexpr int kSteps = 1000;
  for (int step = 0; step < kSteps; ++step) {
    Result<std::string> shown = launch::run_checked(
        at_switch(), {"ip", "-6", "-o", "address", "show", "dev", "br0", "scope", "link"}, {},
        "read the switch's address");
    if (!shown) return shown.status();
    if (shown->find("fe80:") != std::string::npos &&
        shown->find("tentative") == std::string::npos) {
      return {};
    }
    std::this_thread::sleep_for(kStep);
  }
  return failure(Code::timeout,
                 "the switch of lab '{}' got no IPv6 address in 5 s and cannot send MLD queries: "
                 "make the lab without IPv6",
                 options().name);
}

Status Lab::Parts::shape() {
  if (options().rate_bits_per_second == 0) return {};
  std::string batch;
  for (int host = 0; host < options().hosts; ++host) {
    batch += shaper(port_name(host), options());
    Status status = run_tool(at_host(host), {"tc", "-batch", "-"}, shaper("eth0", options()),
                             "shape a host's link (qdisc tbf)");
    if (!status) return status;
  }
  return run_tool(at_switch(), {"tc", "-batch", "-"}, batch,
                  "shape the switch's ports (qdisc tbf)");
}

Status Lab::Parts::set_offload() {
  if (segmentation_of(options())) return {};
  std::vector<launch::NetNamespace> places;
  for (int host = 0; host < options().hosts; ++host) places.push_back(at_host(host));
  for (int one = 0; one < options().aggregators; ++one) places.push_back(at_aggregator(one));
  for (const launch::NetNamespace& place : places) {
    Status status = run_tool(
        place, {"ethtool", "-K", "eth0", "tx-udp-segmentation", "off", "tso", "off", "gso", "off"},
        {}, "turn segmentation off");
    if (!status) return status;
  }
  return {};
}

Status Lab::Parts::make_detours(const LabOptions& wanted) {
  const DetourShape shape = detour_shape(wanted);
  std::string links;
  std::string queues;
  for (int host = 0; host < options().hosts; ++host) {
    const std::string detour = detour_name(host);
    if (!has_detours) {
      links +=
          fmt::format("link add {0} mtu {1} up type veth peer name {2} mtu {1}\nlink set {2} up\n",
                      detour, options().mtu, detour_end_name(host));
    }
    // The detour delays datagrams, so that later ones overtake them. The parameter mpu makes tbf
    // count every datagram as a full frame, so that a small one is delayed as long as a large one.
    queues +=
        fmt::format("qdisc replace dev {0} root tbf rate {1}bit burst {2} mpu {2} limit {3}\n",
                    detour, shape.rate_bits_per_second, shape.frame_bytes, kDetourQueueBytes);
  }
  if (!has_detours) {
    Status status =
        run_tool(at_switch(), {"ip", "-batch", "-"}, links, "make detours for reordering");
    if (!status) return status;
    has_detours = true;
  }
  return run_tool(at_switch(), {"tc", "-batch", "-"}, queues,
                  "slow the detours for reordering (qdisc tbf)");
}

Status Lab::Parts::impair(const Impairments& impairments) {
  if (Status status = check_impairments(impairments, options().hosts); !status) return status;
  LabOptions wanted = options();
  wanted.impairments = impairments;
  if (impairments.reorder_percent > 0) {
    if (Status status = make_detours(wanted); !status) return status;
  }
  Status status = run_tool(at_switch(), {"nft", "-f", "-"}, rules_for(impairments, options().hosts),
                           "impair the links (nftables in the bridge and netdev families)");
  if (status.ok()) state.options.impairments = impairments;
  return status;
}

Status Lab::Parts::build() {
  if (Status status = make_namespaces(); !status) return status;
  if (Status status = open_namespaces(); !status) return status;
  for (int host = 0; host < options().hosts; ++host) {
    Status status = apply_settings(at_host(host), host_settings(options()));
    if (!status) return status;
  }
  for (int one = 0; one < options().aggregators; ++one) {
    Status status = apply_settings(at_aggregator(one), host_settings(options()));
    if (!status) return status;
  }
  if (Status status = make_links(); !status) return status;
  for (int host = 0; host < options().hosts; ++host) {
    if (Status status = configure(at_host(host), host + 1); !status) return status;
  }
  for (int one = 0; one < options().aggregators; ++one) {
    Status status = configure(at_aggregator(one), aggregator_number(one));
    if (!status) return status;
  }
  if (Status status = set_offload(); !status) return status;
  if (Status status = shape(); !status) return status;
  if (options().impairments.any()) {
    if (Status status = impair(options().impairments); !status) return status;
  }
  return connect_ports();
}

Status Lab::Parts::remove() {
  std::set<ino_t> inodes;
  const auto add = [&inodes](const device::Descriptor& network) {
    if (network.valid()) inodes.insert(launch::namespace_inode(own_descriptor_path(network.get())));
  };
  add(switch_network);
  for (const device::Descriptor& network : host_networks) add(network);
  for (const device::Descriptor& network : aggregator_networks) add(network);
  inodes.erase(0);
  if (!inodes.empty()) launch::end_processes_in(inodes);
  switch_network = {};
  host_networks.clear();
  aggregator_networks.clear();
  if (!keeper) return remove_lab(options().name);
  keeper.reset();
  forget(options().name);
  return {};
}

Lab::Lab(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Lab::Lab(Lab&&) noexcept = default;

Lab& Lab::operator=(Lab&& other) noexcept {
  std::swap(parts_, other.parts_);
  return *this;
}

Lab::~Lab() {
  if (!parts_ || !parts_->owned || parts_->owner_process != getpid()) return;
  (void)parts_->remove();
}

Result<Lab> Lab::create(const LabOptions& options) {
  if (Status status = check_options(options); !status) return status;
  if (options.persistent && geteuid() != 0) {
    return failure(Code::unsupported,
                   "a persistent lab needs root: use sudo, or a temporary lab (`tutti lab run`)");
  }
  remove_abandoned_labs();
  auto parts = std::make_unique<Parts>();
  LabState& state = parts->state;
  state.options = options;
  if (state.options.name.empty()) state.options.name = chosen_name();
  if (!options.persistent) {
    Result<Keeper> keeper = Keeper::start();
    if (!keeper) return keeper.status();
    parts->keeper.emplace(std::move(*keeper));
    state.keeper = parts->keeper->pid();
  }
  state.owner = getpid();
  state.owner_start = launch::process_start(getpid());
  if (Status status = record_new(state); !status) return status;
  Lab lab(std::move(parts));
  lab.parts_->owned = true;
  if (Status status = lab.parts_->build(); !status) return status;
  if (options.persistent) {
    lab.parts_->state.owner = 0;
    lab.parts_->state.owner_start = 0;
    if (Status status = record(lab.parts_->state); !status) return status;
    lab.parts_->owned = false;
  }
  return lab;
}

Result<Lab> Lab::attach(const std::string& name) {
  Result<LabState> state = recorded(name);
  if (!state) return state.status();
  if (state->abandoned()) {
    return failure(Code::invalid_argument,
                   "lab '{}' is gone, because its owner (process {}) has ended: make the lab again",
                   name, state->owner);
  }
  auto parts = std::make_unique<Parts>();
  parts->state = *state;
  if (state->keeper != 0) {
    Result<device::Descriptor> user = foreign_user_namespace(state->keeper);
    if (!user) return user.status();
    parts->user = std::move(*user);
  }
  if (Status status = parts->open_namespaces(); !status) return status;
  Result<launch::ProgramOutput> detours =
      launch::run_program(parts->at_switch(), {"ip", "link", "show", "dev", detour_name(0)});
  if (!detours) return detours.status();
  parts->has_detours = detours->exit_status == 0;
  return Lab(std::move(parts));
}

const LabOptions& Lab::options() const { return parts_->state.options; }
std::string Lab::host_namespace(int host) const {
  return fmt::format("{}h{}", parts_->prefix(), host);
}
std::string Lab::switch_namespace() const { return parts_->prefix() + "sw"; }
std::string Lab::address(int host) const { return fmt::format("10.77.0.{}", host + 1); }
std::string Lab::address6(int host) const { return fmt::format("fd77::{:x}", host + 1); }

std::string Lab::aggregator_namespace(int aggregator) const {
  return fmt::format("{}a{}", parts_->prefix(), aggregator);
}
std::string Lab::aggregator_address(int aggregator) const {
  return fmt::format("10.77.0.{}", aggregator_number(aggregator));
}

Result<launch::NetNamespace> Lab::host_place(int host) const {
  if (Status status = parts_->check_host(host); !status) return status;
  return parts_->at_host(host);
}

Result<launch::SpawnRequest> Lab::request_on(int host, launch::SpawnRequest request) const {
  if (Status status = parts_->check_host(host); !status) return status;
  request.place = parts_->at_host(host);
  request.host_name = fmt::format("host{}", host);
  request.own_sysfs = true;
  return request;
}

Result<pid_t> Lab::spawn_on(int host, launch::SpawnRequest request) const {
  Result<launch::SpawnRequest> placed = request_on(host, std::move(request));
  if (!placed) return placed.status();
  return launch::spawn(*placed);
}

Result<pid_t> Lab::spawn_at_aggregator(int aggregator, launch::SpawnRequest request) const {
  if (aggregator < 0 || aggregator >= aggregators()) {
    return failure(Code::invalid_argument,
                   "lab '{}' has no aggregator {}: make a lab with at least {} aggregators", name(),
                   aggregator, aggregator + 1);
  }
  request.place = parts_->at_aggregator(aggregator);
  request.host_name = fmt::format("aggregator{}", aggregator);
  request.own_sysfs = true;
  return launch::spawn(request);
}

Result<pid_t> Lab::fork_on(int host, const std::function<int()>& body) const {
  if (Status status = parts_->check_host(host); !status) return status;
  return launch::fork_into(parts_->at_host(host), body);
}

Result<device::Descriptor> Lab::socket_on(int host, int domain, int type, int protocol) const {
  if (Status status = parts_->check_host(host); !status) return status;
  return launch::socket_in(parts_->at_host(host), domain, type, protocol);
}

Result<launch::ProgramOutput> Lab::tool_on(int host,
                                           const std::vector<std::string>& arguments) const {
  if (Status status = parts_->check_host(host); !status) return status;
  return launch::run_program(parts_->at_host(host), arguments);
}

Result<launch::ProgramOutput> Lab::tool_on_switch(const std::vector<std::string>& arguments) const {
  return launch::run_program(parts_->at_switch(), arguments);
}

Result<std::vector<PortBytes>> Lab::port_bytes() const {
  return read_port_bytes(parts_->at_switch(), hosts(), options().rate_bits_per_second != 0);
}

Status Lab::set_impairments(const Impairments& impairments) { return parts_->impair(impairments); }

Status Lab::set_loss(double percent, double shared_percent) {
  Impairments impairments = options().impairments;
  impairments.loss_percent = percent;
  impairments.shared_loss_percent = shared_percent;
  return parts_->impair(impairments);
}

Status Lab::set_port(int host, const std::string& change) {
  if (Status status = parts_->check_host(host); !status) return status;
  return run_tool(parts_->at_switch(), {"ip", "-batch", "-"},
                  fmt::format("link set {} {}\n", port_name(host), change),
                  fmt::format("set the link of host {}: {}", host, change));
}

Status Lab::tear_down() {
  if (!parts_) return {};
  if (!parts_->owned && parts_->state.keeper != 0) {
    return failure(Code::invalid_argument,
                   "lab '{}' belongs to process {} and cannot be taken down: end that process",
                   name(), parts_->state.owner);
  }
  const std::unique_ptr<Parts> parts = std::move(parts_);
  return parts->remove();
}

std::vector<std::string> remove_abandoned_labs() {
  std::vector<std::string> removed;
  for (const LabState& state : all_recorded()) {
    if (!state.abandoned()) continue;
    removed.push_back(state.options.name);
    // The keeper of a temporary lab has already removed the lab, so only the record is left.
    if (state.options.persistent) {
      (void)remove_lab(state.options.name);
    } else {
      forget(state.options.name);
    }
  }
  return removed;
}

Status remove_lab(const std::string& name) {
  if (Status status = check_name(name); !status) return status;
  std::set<ino_t> inodes;
  std::string batch;
  for (const std::string& space : named_namespaces(name)) {
    inodes.insert(launch::namespace_inode(namespace_path(0, space)));
    batch += fmt::format("netns del {}\n", space);
  }
  inodes.erase(0);
  if (!inodes.empty()) launch::end_processes_in(inodes);
  if (!batch.empty()) {
    Status status =
        run_tool({}, {"ip", "-force", "-batch", "-"}, batch, "remove the lab's namespaces");
    if (!status) return status;
  }
  forget(name);
  return {};
}

}  // namespace tutti::lab
