"""A Debian of any suite in a folder. Acceptance programs run commands in it as root."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import common

ROOTS = os.path.join(common.ROOT, "build", "roots")
SOURCE = "/tutti"  # the mount point of the repository in a root
BUILDS = "/builds"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"  # certificates that this machine trusts


class Root:
    """A Debian in a folder. Every command runs in a mount namespace of its own, so that no mount is left behind."""

    def __init__(self, suite, folder):
        self.suite = suite
        self.path = os.path.join(folder, suite)

    def run(self, command, timeout=7200):
        """Runs a shell command inside; returns (exit status, its output)."""
        # Labs enter mount namespaces, which leads out of a chroot. So the folder becomes the root of
        # its mount namespace.
        path = shlex.quote(self.path)
        inside = (f"mount --make-rprivate / && mount --bind {path} {path} && cd {path} && "
                  f"mount --bind {shlex.quote(common.ROOT)} .{SOURCE} && mount -o remount,bind,ro .{SOURCE} && "
                  "mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys && "
                  f"pivot_root . . && umount -l . && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "
                  f"PYTHONDONTWRITEBYTECODE=1 CCACHE_DIR={BUILDS}/ccache sh -c {shlex.quote(command)}")
        print(f"+ [{self.suite}] {command}", flush=True)
        try:
            done = subprocess.run(["unshare", "--mount", "--fork", "--kill-child", "sh", "-c", inside], timeout=timeout, check=False, text=True,
                                  errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as late:
            return 124, common.text_of(late.stdout)
        return done.returncode, done.stdout

    def make(self, *packages):
        """Makes the root and installs packages; returns a complaint, or an empty string."""
        if not shutil.which("debootstrap"):
            return "debootstrap is missing: apt-get install debootstrap"
        if not os.path.exists(os.path.join(self.path, "etc/tutti-root")):
            shutil.rmtree(self.path, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", self.suite, self.path, mirror()]
            if common.call(command, timeout=3600, stdout=subprocess.DEVNULL) != 0:
                return f"debootstrap {self.suite} failed"
            with open(os.path.join(self.path, "etc/apt/apt.conf.d/99machine"), "w", encoding="utf-8") as settings:
                settings.write(apt_settings())
            for folder in (SOURCE, BUILDS):
                os.makedirs(self.path + folder, exist_ok=True)
            with open(os.path.join(self.path, "etc/tutti-root"), "w", encoding="utf-8"):
                pass
        for file in ("etc/hosts", "etc/resolv.conf", CERTIFICATES):
            shutil.copy("/" + file, os.path.join(self.path, file))
        return self.install(*packages)

    def install(self, *packages):
        """Installs the missing packages; returns a complaint, or an empty string."""
        if self.run("dpkg-query -W " + " ".join(packages))[0] == 0:
            return ""
        status, said = self.run("apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "
                                "--no-install-recommends " + " ".join(packages))
        return "" if status == 0 else f"{self.suite}: packages cannot be installed: {said.strip()[-400:]}"

    def newest(self, pattern):
        """The highest N of the installable packages whose names match `pattern`; the group of
        `pattern` matches N."""
        self.run("apt-get update -qq")
        names = self.run("apt-cache pkgnames")[1]
        return max((int(number) for number in re.findall(f"^{pattern}$", names, re.M)), default=0)


def mirror():
    """The package mirror of this machine's own Debian."""
    command = ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"]
    sites = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    plain = [line.split()[0] for line in sites if re.fullmatch(r"\S+ [a-z]+", line)]
    if not plain:
        sys.exit("apt-get of this machine names no package mirror: this program needs a Debian with one")
    return plain[0]


def apt_settings():
    """How this machine's apt reaches its mirror and judges its dates."""
    kept = ""
    for name in ("Acquire::Check-Valid-Until", "Acquire::Check-Date", "Acquire::http::Proxy"):
        kept += subprocess.run(["apt-config", "dump", name], check=True, capture_output=True, text=True).stdout
    return kept
