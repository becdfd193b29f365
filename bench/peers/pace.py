"""How quick the machine is at the moment, beside its quickest moment of this run: what a launch was measured at."""

import json
import subprocess
import time

# As many times the best of this run: the rest is the scatter of the reading itself.
QUIET = {"system_call_ns": 1.2, "copy_ns_per_kib": 1.6}
BETWEEN_READINGS_S = 2.0


class Pace:
    """Reads the pace before each launch, and waits for a quiet moment where it may. `program`: machine_pace; None: there is
    none, and nothing is read. `patience_s`: to wait in all."""

    def __init__(self, program, patience_s=0.0, read=None, sleep=time.sleep):
        self.readings = []
        self.waited_s = 0.0
        self._patience_s = patience_s
        self._read = read or (lambda: _run(program) if program else None)
        self._sleep = sleep

    def before_launch(self):
        """The reading at which the launch may begin: the first that is quiet, or the last for which there was patience."""
        reading = self._next()
        while reading and not self._quiet(reading) and self.waited_s < self._patience_s:
            self._sleep(BETWEEN_READINGS_S)
            self.waited_s += BETWEEN_READINGS_S
            reading = self._next()
        return reading

    def _next(self):
        reading = self._read()
        if reading:
            self.readings.append(reading)
        return reading

    def _quiet(self, reading):
        return all(ratio <= QUIET[key] for key, ratio in self.slowness(reading).items())

    def slowness(self, reading):
        """Each figure of a reading over the best of this run; 1: as quick as the machine was seen to be."""
        return {key: round(reading[key] / min(one[key] for one in self.readings), 3) for key in reading}

    def facts(self):
        """For the report: the best and the worst figures, and how long was waited."""
        if not self.readings:
            return None
        keys = self.readings[0]
        return {"best": {key: min(one[key] for one in self.readings) for key in keys},
                "worst": {key: max(one[key] for one in self.readings) for key in keys},
                "readings": len(self.readings), "waited_s": self.waited_s}


def _run(program):
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)
