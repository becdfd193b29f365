"""Makes the backend of one process group."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from datetime import timedelta
from typing import Any

from ._options import Options, options_of

# How often this process has made each group. All members of a group make it equally often, so the number keeps the
# keys of a group apart from those of earlier groups of its name in the same store.
_generations: Counter[tuple[str, tuple[int, ...]]] = Counter()


def _key_prefix(name: str, ranks: tuple[int, ...]) -> str:
    """The first part of a group's keys. It has the number of elastic restarts, because the store outlives a restart,
    while the counts in _generations begin anew."""
    _generations[name, ranks] += 1
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"{restart}/{_generations[name, ranks]}"


def create_backend(store: Any, rank: int, size: int, timeout: timedelta, *, name: str = "",
                   global_ranks: tuple[int, ...] = (), options: Options | None = None,
                   key_prefix: str = "0") -> Any:
    """A c10d backend, for programs that make process groups themselves; all ranks give the same `key_prefix`.

    The communicator is created at the first operation, so this call waits for no other rank. Error: AdapterError.
    """
    import torch
    from torch.distributed import ProcessGroup

    from . import _adapter

    _adapter.load()
    carrier = ProcessGroup(store, rank, size)
    made = torch.ops.tutti_collectives.make_backend(carrier.boxed(), max(1, timeout // timedelta(milliseconds=1)), name,
                                                    key_prefix, list(global_ranks), (options or Options()).texts())
    return ProcessGroup.unbox(made)._get_backend(torch.device("cpu"))


def create(opts: Any, pg_options: object) -> Any:
    """The creator that torch.distributed calls for the members of a group of backend "tutti"."""
    from ._adapter import AdapterError

    ranks = tuple(opts.global_ranks_in_group)
    options = options_of(pg_options)
    prefix = _key_prefix(opts.group_id, ranks)
    try:
        return create_backend(opts.store, opts.group_rank, opts.group_size, opts.timeout, name=opts.group_id,
                              global_ranks=ranks, options=options, key_prefix=prefix)
    except AdapterError as error:
        from ._python_group import PythonGroup

        warnings.warn(f"group '{opts.group_id}' uses the backend in Python, which is slower: {error}", stacklevel=2)
        return PythonGroup(opts.store, opts.group_rank, opts.group_size, opts.timeout, opts.group_id, prefix, options)
