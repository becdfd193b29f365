"""A collective that is started many times on the same buffers."""

from __future__ import annotations

import ctypes

from ._calls import Call
from ._core import Core
from .request import Request


class Prepared:
    """A prepared call: its arguments are checked and its algorithm is chosen once. It keeps its buffers alive.

    All ranks must start it equally often. Only one thread at a time may use it.

        step = comm.prepare.allreduce(gradients, op="average")
        for _ in range(1000):
            compute(gradients)
            step.run()
    """

    def __init__(self, core: Core, call: Call, timeout: float | None) -> None:
        self._core = core
        self._timeout = timeout
        self._buffers = call.buffers
        self._place = ctypes.c_void_p()  # C puts the prepared call here
        core.begin(lambda handle, place: core.library.functions.tutti_prepare(
            handle, ctypes.byref(call.structure), place), self._place)

    def start(self) -> Request:
        """Starts the collective once more. Error: InvalidArgumentError while the previous run is under way."""
        functions = self._core.library.functions
        return Request(self._core, lambda _, place: functions.tutti_prepared_start(self._place, place), self,
                       self._timeout)

    def run(self, timeout: float | None = None) -> None:
        """Starts the collective and waits for its end, as Request.wait does."""
        self.start().wait(timeout)

    def __del__(self) -> None:
        place = getattr(self, "_place", None)
        if place is not None and place.value is not None:
            handle, place.value = place.value, None
            self._core.library.functions.tutti_prepared_free(handle)
