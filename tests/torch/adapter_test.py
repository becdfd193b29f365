#!/usr/bin/env python3
"""Tests which adapter is loaded: one made before, in the package, or one compiled here."""

import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ranks
import requirements

LOAD = "import tutti_collectives.torch as tutti; print(tutti.adapter())"
# A development version has the number of the release that it precedes.
LOAD_IN_DEVELOPMENT_VERSION = "import torch; torch.__version__ = torch.__version__.split('+')[0] + 'a0'; " + LOAD
LOAD_AND_LOOK = LOAD + "; import ctypes; print(hasattr(ctypes.CDLL(None), 'tutti_version'))"
NOTHING_TO_COMPILE = "the sources of the adapter are not in the package"


def load(program=LOAD, **variables):
    return subprocess.run([sys.executable, "-c", program], env={**ranks.environment(), **variables}, text=True,
                          capture_output=True, timeout=ranks.BUILD_S, check=False)


class Adapter(ranks.Job):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.compiled = pathlib.Path(load().stdout.strip())
        self.minor = ".".join(importlib.metadata.version("torch").split(".")[:2])

    def package_with_adapter(self, name):
        """A copy of the package with the adapter, by this name, but without its sources; returns the environment."""
        package = self.folder / "tutti_collectives"
        shutil.copytree(ranks.ROOT / "bindings" / "python" / "tutti_collectives", package)
        self.placed = package / "torch" / name
        shutil.copy(self.compiled, self.placed)
        return {"PYTHONPATH": str(self.folder), "TUTTI_TORCH_CACHE": str(self.folder / "cache")}

    def test_adapter_in_the_package_is_loaded_for_releases_only(self):
        environment = self.package_with_adapter(f"tutti_c10d_{self.minor.replace('.', '_')}.so")
        done = load(**environment)
        self.assertEqual(done.stdout.strip(), str(self.placed), done.stderr)
        self.assertFalse((self.folder / "cache").exists())
        self.assertIn(NOTHING_TO_COMPILE, load(LOAD_IN_DEVELOPMENT_VERSION, **environment).stderr)

    def test_adapter_by_the_name_of_another_version_is_not_loaded(self):
        self.assertIn(NOTHING_TO_COMPILE, load(**self.package_with_adapter("tutti_c10d_2_7.so")).stderr)

    def test_adapter_for_another_version_is_refused_before_it_is_loaded(self):
        code = self.compiled.read_bytes()
        self.assertIn(b"adapter for torch 2.", code)
        other = self.folder / "other.so"
        other.write_bytes(code.replace(b"adapter for torch 2.", b"adapter for torch 1."))
        done = load(TUTTI_TORCH_ADAPTER=str(other))
        self.assertIn(f"and not for {self.minor}", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_symbols_of_libtutti_and_of_its_libraries_stay_local(self):
        self.assertEqual(load(LOAD_AND_LOOK).stdout.split(), [str(self.compiled), "False"])


if __name__ == "__main__":
    requirements.main()
