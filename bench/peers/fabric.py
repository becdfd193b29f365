"""The fabric of a measurement: a lab of network namespaces behind one switch, or the loopback interface."""

import json
import re
import subprocess


def _ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Lab:
    """A lab that `tutti lab up` built: namespaces NAME-h0.. for the hosts (10.77.0.(host+1) on eth0), and NAME-sw with
    a port p0.. for each host. Each host has `ranks_per_host` consecutive ranks. `tutti` is the program that knows the
    lab's cores."""

    kind = "lab"

    def __init__(self, name, ranks, data_interface, control_interface, rate_bits, ranks_per_host=1, tutti="tutti"):
        self.name = name
        self.ranks_per_host = ranks_per_host
        self.switch = f"{name}-sw"
        self.data_interface = data_interface
        self.control_interface = control_interface or data_interface
        present = {line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()}
        found = sum(1 for one in present if re.fullmatch(re.escape(name) + r"-h\d+", one))
        self.ranks = ranks or found * ranks_per_host
        self.hosts = [f"{name}-h{rank // ranks_per_host}" for rank in range(self.ranks)]
        missing = [one for one in [self.switch, *self.hosts] if one not in present]
        if missing or self.ranks < 2:
            raise SystemExit(f"compare: lab {name}: missing namespaces {missing}, {found} hosts found; "
                             f"make it first: tutti lab up --name {name.removeprefix('tutti-')} --hosts {max(self.ranks, 2)}")
        self.ports = [f"p{host}" for host in range(self.ranks // ranks_per_host)]
        self.addresses = [self._address(host, data_interface) for host in self.hosts]
        self.rate_bits, self.burst_bytes = self._shaping()
        if rate_bits:
            self.rate_bits = rate_bits
        self._cores = {aggregated: self._shares_of_cores(tutti, aggregated) for aggregated in (False, True)}

    def _shares_of_cores(self, tutti, aggregated):
        """The cores of each host, in the format of enter_host. Every contender gets the cores that
        `tutti lab run` gives; an aggregator has cores only if the contender uses one."""
        command = [tutti, "lab", "cores", "--name", self.name.removeprefix("tutti-"), "--hosts", str(len(set(self.hosts)))]
        done = subprocess.run(command + ([] if aggregated else ["--aggregators", "0"]), capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise SystemExit(f"compare: lab {self.name}: `tutti lab cores` failed: {done.stderr.strip()}")
        return " ".join(done.stdout.split())

    def environment(self, contender):
        """The variables to add to the environment of a contender's processes."""
        return {"TUTTI_HOST_CORES": self._cores[contender.uses_aggregators]}

    @staticmethod
    def _address(host, interface):
        links = json.loads(_ip("-n", host, "-4", "-j", "addr", "show", "dev", interface))
        entries = [entry for link in links for entry in link.get("addr_info", [])]
        if not entries:
            raise SystemExit(f"compare: {host}: no IPv4 address on {interface}")
        return f"{entries[0]['local']}/{entries[0]['prefixlen']}"

    def _shaping(self):
        """The rate in bits per second and the burst in bytes of the slowest port; (None, 0) if no port is shaped."""
        text = subprocess.run(["tc", "-n", self.switch, "-j", "qdisc", "show"], check=True,
                              capture_output=True, text=True).stdout
        shaped = [entry["options"] for entry in json.loads(text)
                  if entry.get("kind") == "tbf" and entry.get("dev") in self.ports]
        if not shaped:
            return None, 0
        slowest = min(shaped, key=lambda options: options["rate"])
        return slowest["rate"] * 8, slowest["burst"]

    def subnet(self, rank=0, interface=None):
        """The network of an interface as A.B.C.0/24, which is how Open MPI selects interfaces."""
        address = self._address(self.hosts[rank], interface or self.data_interface)
        octets, prefix = address.split("/")
        kept = int(prefix) // 8
        return ".".join(octets.split(".")[:kept] + ["0"] * (4 - kept)) + "/" + prefix

    def link_bytes(self):
        """Bytes that entered or left the switch by its host ports since the lab was built."""
        links = {link["ifname"]: link["stats64"]
                 for link in json.loads(_ip("-n", self.switch, "-s", "-j", "link", "show"))}
        return sum(links[port]["rx"]["bytes"] + links[port]["tx"]["bytes"] for port in self.ports)

    def drops(self):
        """Packets dropped so far: by the hosts' own queues, and by the switch's ports."""
        own = sum(self._dropped(host, [self.data_interface]) for host in self.hosts)
        return own, self._dropped(self.switch, self.ports)

    @staticmethod
    def _dropped(namespace, interfaces):
        text = subprocess.run(["tc", "-n", namespace, "-s", "-j", "qdisc", "show"], check=True, capture_output=True,
                              text=True).stdout
        return sum(entry.get("drops", 0) for entry in json.loads(text) if entry.get("dev") in interfaces)

    def ideal_link_bytes(self, operation, size):
        """The least possible bytes over all ports. By multicast each block is sent once and
        received P-1 times, so it counts P times."""
        return size * self.ranks * (self.ranks if operation.endswith("allgather") else 1)

    def limit_ns(self, operation, size):
        """The shortest time in which a host's link carries the payload; None if links are not shaped."""
        if not self.rate_bits:
            return None
        return self.received_bytes(operation, size) * 8 * 1e9 / self.rate_bits

    def limit_after_burst_ns(self, operation, size):
        """The value of limit_ns() for links that were idle before, which let the shaper's burst pass at once."""
        if not self.rate_bits:
            return None
        return max(0, self.received_bytes(operation, size) - self.burst_bytes) * 8 * 1e9 / self.rate_bits

    def received_bytes(self, operation, size):
        return size * received_blocks(operation, self.ranks)

    def describe(self):
        rate = f"{self.rate_bits / 1e6:g} Mbit/s a link and direction, burst {self.burst_bytes} B" \
            if self.rate_bits else "links not shaped"
        control = "launchers use the data network" if self.control_interface == self.data_interface \
            else f"launchers use {self.control_interface}"
        return f"lab {self.name}, {self.ranks} hosts, {rate}, {control}, TCP uses {self._congestion_control()}"

    def _congestion_control(self):
        command = ["ip", "netns", "exec", self.hosts[0], "cat", "/proc/sys/net/ipv4/tcp_congestion_control"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def received_blocks(operation, ranks):
    """The least number of blocks, over all algorithms, that the busiest direction of a host's link
    carries. In an allgather a host receives ranks - 1 blocks; in a reduce_scatter with sums in the
    network it sends as many. The pair carries one block more in each direction, and an allreduce
    sends and receives its vector once. A stream has at least two messages."""
    collective = operation.removeprefix("overlap_").removeprefix("loop_")
    if collective in ("allgather", "reduce_scatter"):
        return ranks - 1
    return {"pair": ranks, "barrier": 0, "stream": 2}.get(collective, 1)


class Loopback:
    """All ranks on this host, with sockets over lo, whose only counter is the bytes that lo sent."""

    kind = "loopback"
    rate_bits = None
    burst_bytes = 0
    data_interface = control_interface = "lo"

    def __init__(self, ranks):
        self.ranks_per_host = 1  # ranks that share memory are a variant of a peer library, not several ranks per host
        self.ranks = ranks or 4
        self.hosts = ["localhost"] * self.ranks
        self.addresses = ["127.0.0.1/8"] * self.ranks

    def subnet(self, rank=0, interface=None):
        return "127.0.0.0/8"

    def link_bytes(self):
        return json.loads(_ip("-s", "-j", "link", "show", "dev", "lo"))[0]["stats64"]["tx"]["bytes"]

    def drops(self):
        return 0, 0

    def environment(self, contender):
        return {}

    def ideal_link_bytes(self, operation, size):
        return size * (self.ranks if operation.endswith("allgather") else 1)

    def limit_ns(self, operation, size):
        return None

    limit_after_burst_ns = limit_ns

    def received_bytes(self, operation, size):
        return size * received_blocks(operation, self.ranks)

    def describe(self):
        return f"loopback, {self.ranks} ranks on one host"
