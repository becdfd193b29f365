"""Reads the pace of the machine before each launch and compares it with the best pace of this run,
so that the report shows the pace of each launch."""

import json
import subprocess
import time

# Largest ratio of a reading to the best of this run that counts as quiet; smaller differences are scatter of the
# reading.
QUIET = {"system_call_ns": 1.2, "copy_ns_per_kib": 1.6}
BETWEEN_READINGS_S = 2.0


class Pace:
    """Reads the pace before each launch and waits for a quiet moment, over all launches at most `patience_s`. `program`
    is machine_pace, or None if the pace is not to be read."""

    def __init__(self, program, patience_s=0.0, read=None, sleep=time.sleep):
        self.readings = []
        self.waited_s = 0.0
        self._patience_s = patience_s
        self._read = read or (lambda: _run(program) if program else None)
        self._sleep = sleep

    def before_launch(self):
        """Waits until a launch may begin and returns the last reading: the first quiet one, or
        the one after which `patience_s` was spent."""
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
        """The ratio of each figure of a reading to the best of this run; 1 is the best pace seen."""
        return {key: round(reading[key] / min(one[key] for one in self.readings), 3) for key in reading}

    def facts(self):
        """The best and the worst figures and the time spent waiting, for the report."""
        if not self.readings:
            return None
        keys = self.readings[0]
        return {"best": {key: min(one[key] for one in self.readings) for key in keys},
                "worst": {key: max(one[key] for one in self.readings) for key in keys},
                "readings": len(self.readings), "waited_s": self.waited_s}


def _run(program):
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)
