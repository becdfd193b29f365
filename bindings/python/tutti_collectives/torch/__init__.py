"""The backend "tutti" of torch.distributed.

    import torch.distributed as dist

    dist.init_process_group("tutti")     # instead of "gloo"

The wheel registers the backend by entry points, so that no import is needed. docs/torch.md is the guide.
"""

from __future__ import annotations

from typing import Any

from ._options import Options

__all__ = ["NAME", "Options", "adapter", "counters", "create_backend", "register"]

NAME = "tutti"


def register() -> None:
    """Makes the name "tutti" known to torch.distributed. Loads nothing and never raises.

    torch calls this function by the entry point torch.backends at each `import torch`, and by the
    entry point torch.distributed.backends. An exception here would make every `import torch` fail.
    """
    try:
        import torch.distributed as dist

        if dist.is_available() and NAME.upper() not in dist.Backend._plugins:
            from ._creator import create

            # With "cuda", torch hands CUDA tensors to the backend, whose refusal says what to do instead.
            dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu", "cuda"])
    except Exception as error:  # noqa: BLE001
        import warnings

        warnings.warn(f"the backend tutti is not registered with torch.distributed: {error}", stacklevel=2)


def adapter() -> str:
    """Loads the adapter and returns its path.

    The adapter is the one of the package if it fits this torch, otherwise one compiled on this
    machine. Error: AdapterError; groups then use the backend in Python.
    """
    from ._adapter import load

    return load()


def create_backend(*arguments: Any, **options: Any) -> Any:
    """See _creator.create_backend."""
    from ._creator import create_backend as create

    return create(*arguments, **options)


def counters(group: Any = None) -> dict[str, int]:
    """The counters of a group's backend: those of libtutti, and torch_... for the adapter's own work.

    The counters of libtutti exist after the first operation of a group of several ranks. `group`
    None selects the default group.
    """
    import torch
    import torch.distributed as dist

    whole: Any = dist.group.WORLD if group is None else group
    if hasattr(whole, "counters"):  # the backend in Python
        return dict(whole.counters())
    return dict(torch.ops.tutti_collectives.counters(whole.group_name))
