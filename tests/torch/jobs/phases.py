"""Training in which the last rank dies, freezes or is cut off in one phase; the others tell what they saw.

JOB_EVENT is kill, freeze or cut_off (in a network namespace of its own), JOB_PHASE is forward, backward, optimizer or
checkpoint. Each survivor prints a line "survivor {JSON}" with the error's text and the seconds since the event.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from job import FOLDER, RANK, SIZE, begin
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

LAST = SIZE - 1
EVENT_STEP = 3
STEPS = 400
PHASE = os.environ["JOB_PHASE"]
WHEN = pathlib.Path(FOLDER) / "when"


def happen():
    WHEN.write_text(str(time.monotonic()), encoding="utf-8")
    event = os.environ["JOB_EVENT"]
    if event == "cut_off":
        subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
    else:
        os.kill(os.getpid(), signal.SIGKILL if event == "kill" else signal.SIGSTOP)


class Layer(nn.Linear):
    """A layer in whose forward or backward pass the event happens."""

    armed = ""

    def forward(self, values):
        if self.armed == "forward":
            happen()
        values = super().forward(values)
        if self.armed == "backward" and values.requires_grad:
            values.register_hook(lambda _: happen())
        return values


def train():
    torch.manual_seed(1)
    model = nn.Sequential(*[Layer(64, 64) for _ in range(3)])
    mesh = init_device_mesh("cpu", (SIZE,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        now = PHASE if RANK == LAST and step == EVENT_STEP else ""
        model[1].armed = now
        model(torch.randn(8, 64)).sum().backward()
        if now == "optimizer":
            happen()
        optimizer.step()
        optimizer.zero_grad()
        if PHASE == "checkpoint":
            state = {"model": get_model_state_dict(model)}
            if now == "checkpoint":
                happen()
            checkpoint.save(state, checkpoint_id=f"{FOLDER}/saved{step}")


if __name__ == "__main__":
    begin()
    dist.barrier()
    try:
        train()
        text = ""
    except Exception as error:  # of any kind: its text is what the driver looks at
        text = str(error)
    ended = time.monotonic()
    if RANK != LAST:
        seen = {"rank": RANK, "text": text, "seconds": ended - float(WHEN.read_text(encoding="utf-8"))}
        print("survivor " + json.dumps(seen), flush=True)
        sys.exit(1)  # so that the launcher ends a frozen rank
