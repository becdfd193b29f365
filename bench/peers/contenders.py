"""The contenders and the commands that start them: the peer libraries with their variants, and Tutti by a command
template."""

import os
import shlex
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ENTER_HOST = os.path.join(HERE, "enter_host")


def _openmpi_broadcast(algorithm, segment):
    return ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_bcast_algorithm", str(algorithm),
            "--mca", "coll_tuned_bcast_algorithm_segmentsize", str(segment)]


def _openmpi_allgather(algorithm):
    return ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allgather_algorithm", str(algorithm)]


def _mpich_chain(segment):
    """Arguments of a pipelined chain, which MPICH has as a tree of fan-out 1 among its non-blocking algorithms."""
    return ["-genv", "MPIR_CVAR_BCAST_INTRA_ALGORITHM", "nb", "-genv", "MPIR_CVAR_IBCAST_INTRA_ALGORITHM", "tsp_tree",
            "-genv", "MPIR_CVAR_IBCAST_TREE_TYPE", "kary", "-genv", "MPIR_CVAR_IBCAST_TREE_KVAL", "1",
            "-genv", "MPIR_CVAR_IBCAST_TREE_PIPELINE_CHUNK_SIZE", str(segment)]


LOOPBACK_ONLY = ("shared-memory",)
OPERATIONS = ("barrier", "broadcast", "allgather", "reduce_scatter", "allreduce", "pair", "loop_barrier", "loop_broadcast",
              "loop_allgather", "loop_ping_pong", "loop_stream", "overlap_broadcast", "overlap_allgather", "overlap_allreduce")
GLOO_OPERATIONS = tuple(one for one in OPERATIONS if one not in ("reduce_scatter", "pair", "loop_ping_pong", "loop_stream"))

# Variants by peer library, each with the operations it applies to and the extra arguments of the launcher. A variant
# changes only the algorithm, or with "shared-memory" the transport; a peer's "best" is its fastest variant for an
# operation and size, "default" included.
VARIANTS = {
    "openmpi": {
        "default": (OPERATIONS, []),
        "pipeline-64k": (("broadcast",), _openmpi_broadcast(3, 65536)),
        "pipeline-16k": (("broadcast",), _openmpi_broadcast(3, 16384)),
        "ring": (("allgather",), _openmpi_allgather(4)),
        "shared-memory": (OPERATIONS, ["--mca", "btl", "vader,self"]),
    },
    "mpich": {
        "default": (OPERATIONS, []),
        "scatter-ring": (("broadcast",), ["-genv", "MPIR_CVAR_BCAST_INTRA_ALGORITHM", "scatter_ring_allgather"]),
        "chain-16k": (("broadcast",), _mpich_chain(16384)),
        "ring": (("allgather",), ["-genv", "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM", "ring"]),
        "shared-memory": (OPERATIONS, ["-genv", "UCX_TLS", "posix,self"]),
    },
    "gloo": {
        "default": (GLOO_OPERATIONS, []),  # Gloo's option objects offer no other algorithm
    },
}

PACKAGES = {
    "openmpi": ("mpirun.openmpi", "openmpi-bin libopenmpi-dev", "mpi_peer_openmpi"),
    "mpich": ("mpirun.mpich", "mpich libmpich-dev", "mpi_peer_mpich"),
    "gloo": (None, "libgloo-dev", "gloo_peer"),
}


class Contender:
    """One column of the report: a variant of a peer library, or Tutti."""

    def __init__(self, peer, variant, operations):
        self.peer = peer
        self.variant = variant
        self.operations = operations
        self.name = f"{peer} {variant}"
        self.unavailable = None  # the reason, for the report, if the contender cannot run
        self.uses_aggregators = False

    def commands(self, fabric, job):
        """The commands of the processes to start, each a list of words."""
        raise NotImplementedError


class Job:
    """The parameters of one launch, which measures one operation and size."""

    def __init__(self, operation, size, iterations, warmup, gate, folder):
        self.operation = operation
        self.size = size
        self.iterations = iterations
        self.warmup = warmup
        self.gate = gate
        self.folder = folder

    def sizes(self):
        """The --sizes argument, which must be above 0 even for a barrier."""
        return str(max(self.size, 1))

    def options(self, name):
        """The options of every program that is built on contender.hpp."""
        return ["--name", name, "--operations", f"none,{self.operation}", "--sizes", self.sizes(), "--iterations",
                str(self.iterations), "--warmup", str(self.warmup), "--gate", self.gate]


class Peer(Contender):
    """A program of a peer library, built by CMakeLists.txt of this folder."""

    def __init__(self, peer, variant, programs):
        operations, self.extra = VARIANTS[peer][variant]
        super().__init__(peer, variant, operations)
        launcher, packages, program = PACKAGES[peer]
        self.program = os.path.join(programs, program)
        self.shim = os.path.join(programs, "libyield_shim.so")
        if not _installed(launcher, packages):
            self.unavailable = f"not installed: apt-get install {packages}"
        elif not os.path.exists(self.program):
            self.unavailable = f"not built: {self.program}: configure with cmake -DTUTTI_BUILD_PEERS=ON"

    def commands(self, fabric, job):
        program = [self.program, *job.options(self.name)]
        build = {"openmpi": self._openmpi, "mpich": self._mpich, "gloo": self._gloo}[self.peer]
        return build(fabric, job, program)

    def _openmpi(self, fabric, job, program):
        command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                   "mpi_yield_when_idle", "1", "--mca", "pml", "ob1", "-n", str(fabric.ranks)]
        several = fabric.ranks_per_host > 1
        if self.variant not in LOOPBACK_ONLY:
            command += ["--mca", "btl", "vader,tcp,self" if several else "tcp,self", "--mca", "btl_tcp_if_include",
                        fabric.subnet()]
        if fabric.kind == "lab":
            control = fabric.subnet(interface=fabric.control_interface)
            command += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", ENTER_HOST, "--mca", "oob_tcp_if_include",
                        control, "--host", ",".join(fabric.hosts), "--map-by", "slot" if several else "node"]
        return [_inside_first_host(fabric, command + self.extra + program)]

    def _mpich(self, fabric, job, program):
        command = ["mpirun.mpich", "-n", str(fabric.ranks)]
        if self.variant not in LOOPBACK_ONLY:
            sharing = "sm," if fabric.ranks_per_host > 1 else ""
            command += ["-genv", "UCX_TLS", sharing + "tcp,self", "-genv", "UCX_NET_DEVICES", fabric.data_interface]
        if fabric.kind == "lab":
            command += ["-launcher", "ssh", "-launcher-exec", ENTER_HOST, "-iface", fabric.control_interface,
                        "-hosts", ",".join(dict.fromkeys(fabric.hosts)), "-ppn", str(fabric.ranks_per_host)]
        if self.shimmed(fabric):
            command += ["-genv", "LD_PRELOAD", self.shim]
        return [_inside_first_host(fabric, command + self.extra + program)]

    def _gloo(self, fabric, job, program):
        common = ["--ranks", str(fabric.ranks), "--interface", fabric.data_interface, "--rendezvous", job.folder]
        return [enter(fabric, rank, program + common + ["--rank", str(rank)]) for rank in range(fabric.ranks)]

    def shimmed(self, fabric):
        return self.peer == "mpich" and fabric.ranks > (os.cpu_count() or 1)


class Template(Contender):
    """Tutti, or another program that speaks the protocol of README.md, started by a command line with {fields}."""

    def __init__(self, name, template):
        peer, _, variant = name.partition("/")
        super().__init__(peer, variant or "default", OPERATIONS)
        self.words = shlex.split(template)
        self.uses_aggregators = "--aggregators" in self.words
        if not self.words or not (shutil.which(self.words[0]) or os.path.exists(self.words[0])):
            self.unavailable = f"not built: {template.split(' ')[0]}"

    def commands(self, fabric, job):
        fields = {
            "name": self.name, "operations": f"none,{job.operation}", "operation": job.operation, "sizes": job.sizes(),
            "iterations": job.iterations, "warmup": job.warmup, "gate": job.gate, "ranks": fabric.ranks,
            "interface": fabric.data_interface, "rendezvous": job.folder, "hosts": ",".join(fabric.hosts),
            "addresses": ",".join(address.split("/")[0] for address in fabric.addresses),
        }
        if not any("{rank}" in word or "{address}" in word for word in self.words):
            return [[word.format(**fields) for word in self.words]]
        commands = []
        for rank, address in enumerate(fabric.addresses):
            fields.update(rank=rank, address=address.split("/")[0])
            commands.append(enter(fabric, rank, [word.format(**fields) for word in self.words]))
        return commands


def enter(fabric, rank, command):
    """The command that runs `command` on the host of `rank`."""
    if fabric.kind == "loopback":
        return command
    return [ENTER_HOST, fabric.hosts[rank], shlex.join(command)]


def _inside_first_host(fabric, command):
    """The command that runs a launcher on the first host, so that the processes which it starts can
    connect to it."""
    return enter(fabric, 0, command)


def _installed(launcher, packages):
    if launcher:
        return shutil.which(launcher) is not None
    state = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", packages], capture_output=True, text=True)
    return "install ok installed" in state.stdout


def package_versions():
    """The installed version of each package of each peer library, for the report."""
    names = sorted({name for _, packages, _ in PACKAGES.values() for name in packages.split()} | {"libucx0"})
    versions = {}
    for name in names:
        query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
        versions[name] = query.stdout if query.returncode == 0 else "not installed"
    return versions
