# mypy: ignore-errors
# The types of the methods that this module overrides differ between versions of torch.
"""The backend in Python, for a version of torch without an adapter.

It is slower than the adapter, and it is the only backend of its group.

Collectives return when they are done. Messages do not block.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..communicator import Communicator
from ..datatypes import DataType, Operation
from ..errors import TuttiError, TuttiTimeoutError
from ..options import CallOptions, CommunicatorOptions
from ..request import Request
from ._meeting import Meeting
from ._options import Options

_TYPES = {torch.int8: DataType.INT8, torch.int16: DataType.INT16, torch.int32: DataType.INT32,
          torch.int64: DataType.INT64, torch.uint8: DataType.UINT8, torch.float16: DataType.FLOAT16,
          torch.bfloat16: DataType.BFLOAT16, torch.float32: DataType.FLOAT32, torch.float64: DataType.FLOAT64,
          torch.bool: DataType.UINT8}
_RED = dist.ReduceOp.RedOpType
_OPERATIONS = {_RED.SUM: Operation.SUM, _RED.AVG: Operation.AVERAGE, _RED.PRODUCT: Operation.PROD,
               _RED.MIN: Operation.MIN, _RED.MAX: Operation.MAX, _RED.BAND: Operation.AND, _RED.BOR: Operation.OR,
               _RED.BXOR: Operation.XOR}
_LOGICAL = {_RED.SUM: Operation.OR, _RED.MAX: Operation.OR, _RED.BOR: Operation.OR, _RED.PRODUCT: Operation.AND,
            _RED.MIN: Operation.AND, _RED.BAND: Operation.AND, _RED.BXOR: Operation.XOR}

Tensors = Sequence[torch.Tensor]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if its memory has its elements one after the other, or such a copy."""
    return tensor.resolve_conj().resolve_neg().contiguous()


def _memory(tensor: torch.Tensor) -> Any:
    """The bytes of a tensor that _flat has returned, by the buffer protocol."""
    if tensor.numel() == 0:
        return bytearray()
    memory: Any = (ctypes.c_ubyte * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    memory.tensor = tensor  # a call under way keeps `memory`, and so the tensor, alive
    return memory


def _check(name: str, tensors: Tensors) -> None:
    for tensor in tensors:
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise ValueError(f"Tutti: {name}: a tensor is on device {tensor.device} with layout {tensor.layout}: pass "
                             "tensor.cpu().to_dense()")


def _split_sizes(which: str, tensor: torch.Tensor, splits: Sequence[int], size: int) -> list[int]:
    """Sizes in bytes of the blocks into which `splits` cut dimension 0; equal sizes if there are no splits."""
    rows = tensor.size(0) if tensor.dim() else 1
    if not splits and rows % size:
        raise ValueError(f"Tutti: all_to_all_single: dimension 0 of the {which} has {rows} rows, which {size} ranks "
                         "cannot share equally: pass split sizes")
    counts = list(splits) or [rows // size] * size
    if len(counts) != size:
        raise ValueError(f"Tutti: all_to_all_single: {len(counts)} {which} split sizes were given: pass {size}")
    if min(counts) < 0:
        raise ValueError(f"Tutti: all_to_all_single: an {which} split size is {min(counts)}: use 0 or more")
    if sum(counts) != rows:
        raise ValueError(f"Tutti: all_to_all_single: the {which} split sizes add up to {sum(counts)} and dimension 0 "
                         f"is {rows}: make them equal")
    row_bytes = tensor.numel() * tensor.element_size() // rows if rows else 0
    return [count * row_bytes for count in counts]


def _operation(tensor: torch.Tensor, wanted: Any) -> tuple[Operation, DataType]:
    kind = next((one for one in [*_OPERATIONS, _RED.PREMUL_SUM] if wanted == one), None)
    data_type = _TYPES.get(torch.float32 if tensor.dtype == torch.complex64 else
                           torch.float64 if tensor.dtype == torch.complex128 else tensor.dtype)
    operation = (_LOGICAL if tensor.dtype == torch.bool else _OPERATIONS).get(kind)
    linear = kind in (_RED.SUM, _RED.AVG)
    bitwise = kind in (_RED.BAND, _RED.BOR, _RED.BXOR)
    if operation is None or data_type is None or (tensor.is_complex() and not linear) or (
            bitwise and tensor.is_floating_point()):
        raise ValueError(f"Tutti: {wanted} of {tensor.dtype} does not exist without the adapter: install g++ 12 or "
                         "later so that the adapter can be built, or use another operation")
    return operation, data_type


class _Done(dist.Work):
    """An operation that is done, with its result tensors."""

    def __init__(self, tensors: Tensors = ()) -> None:
        super().__init__()
        self._tensors = list(tensors)

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(self._tensors)
        return future


class _Message(_Done):
    """A message under way."""

    def __init__(self, group: PythonGroup, request: Request, tensor: torch.Tensor, copy: torch.Tensor) -> None:
        super().__init__([tensor])
        self._group, self._request, self._copy = group, request, copy

    def is_completed(self) -> bool:
        return self._request.done or self._request.test()

    def source_rank(self) -> int:
        return self._request.message.source

    def _source_rank(self) -> int:
        return self.source_rank()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        self._group.carry_out("message", lambda limit: self._request.wait(timeout.total_seconds() or limit))
        if self._copy is not self._tensors[0]:
            self._tensors[0].copy_(self._copy)
        return True

    def get_future(self) -> Any:
        self.wait()
        return super().get_future()


class PythonGroup(dist.ProcessGroup):
    """A process group over one Communicator, which is created at the first operation."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, name: str, key_prefix: str,
                 options: Options) -> None:
        super().__init__(rank, size)
        self._store, self._own_rank, self._own_size = store, rank, size
        self._limit = timeout.total_seconds()
        self._name, self._prefix, self._description = name, key_prefix, "undefined"
        self._options = options
        self._creation = threading.Lock()  # held while the communicator is being created
        self._communicator: Communicator | None = None
        self._end = ""  # how the group has ended; "" before

    # ---- Names, time limit, end and counters ----

    def getBackendName(self) -> str:
        return "tutti"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc, setGroupDesc)

    def set_timeout(self, timeout: timedelta) -> None:
        self._limit = timeout.total_seconds()

    def abort(self, reason: str = "the application aborted the group") -> None:
        """Ends the group, also before its communicator exists: a later call would meet the wrong call of a late rank."""
        self._end = self._end or f"aborted: {reason}"
        communicator = self._communicator
        if communicator is not None:
            communicator.abort(reason)

    def shutdown(self) -> None:
        """Ends the group. A failure of the group is only a warning, because its operations have raised it."""
        self._end = "shut down"
        communicator, self._communicator = self._communicator, None
        if communicator is None:
            return
        try:
            communicator.close(min(self._limit, 30.0))
        except TuttiError as error:
            warnings.warn(f"Tutti: end of group '{self._name}': {error}", stacklevel=2)

    def counters(self) -> dict[str, int]:
        return self._communicator.counters() if self._communicator is not None else {}

    # ---- Carrying out ----

    def _ready(self) -> Communicator:
        with self._creation:
            communicator = self._communicator
            if not self._end and communicator is None:
                communicator = self._create()
            if self._end or communicator is None:
                raise dist.DistBackendError(f"Tutti: group '{self._name}' was {self._end}: call init_process_group or "
                                            "new_group again")
            return communicator

    def _create(self) -> Communicator:
        try:
            meeting = Meeting(self._store, self._prefix, self._own_rank, self._own_size, self._limit, self._name)
            made = Communicator.from_allgather(meeting.allgather, self._own_rank, self._own_size,
                                               CommunicatorOptions(**self._options.in_python()))
        except BaseException as error:
            self.abort(f"its communicator could not be created: {error}")
            raise
        # abort() and shutdown() first set the end and then look for a communicator, which this thread
        # stores before it looks for the end. So one of the two sees the other.
        self._communicator = made
        if self._end:
            made.abort(f"the group was {self._end}")
        return made

    def carry_out(self, name: str, call: Callable[[float], Any]) -> Any:
        """Runs a call with the time limit of the group. A call that exceeds the limit aborts the group.

        Errors are raised as those of torch.
        """
        try:
            return call(self._limit)
        except (TimeoutError, TuttiTimeoutError) as error:
            self.abort(f"{name} timed out")
            raise dist.DistBackendError(f"Tutti: Timed out: {name} of group '{self._name}': {error}") from error
        except ValueError:
            raise
        except TuttiError as error:
            ranks = f"; at fault: ranks {list(error.ranks)}" if error.ranks else ""
            raise dist.DistBackendError(f"Tutti: {name} of group '{self._name}' failed: {error}{ranks}") from error

    def _run(self, name: str, call: Callable[[Communicator, dict[str, Any]], Any], results: Tensors,
             usual_priority: str = "normal") -> _Done:
        """Runs a call, which passes the time limit and the options on to the communicator."""
        options = CallOptions(priority=self._options.priority or usual_priority)
        self.carry_out(name, lambda limit: call(self._ready(), {"timeout": limit, "options": options}))
        return _Done(results)

    def _gather_flat(self, name: str, flat: torch.Tensor, own: torch.Tensor) -> None:
        if flat.numel():
            self._run(name, lambda comm, terms: comm.allgather(_memory(own), _memory(flat), **terms), (), "high")

    # torch 2.14 asks the backend of a group whether it coalesces messages.
    supports_coalescing = False

    def _get_backend(self, device: torch.device) -> PythonGroup:
        return self

    # ---- Collectives ----

    def broadcast(self, tensors: Tensors, opts: Any) -> _Done:
        _check("broadcast", tensors)
        flat = _flat(tensors[0])
        if flat.numel():
            self._run("broadcast", lambda comm, terms: comm.broadcast(_memory(flat), opts.rootRank, **terms), ())
        return self._copied(tensors, [flat])

    @staticmethod
    def _copied(tensors: Tensors, copies: Tensors) -> _Done:
        with torch.no_grad():
            for tensor, copy in zip(tensors, copies):
                if tensor.data_ptr() != copy.data_ptr() or not tensor.is_contiguous():
                    tensor.copy_(copy)
        return _Done(tensors)

    def _reduced(self, tensor: torch.Tensor, wanted: Any) -> torch.Tensor:
        """The combined contents of all ranks, in the tensor itself if it is contiguous."""
        if wanted == _RED.PREMUL_SUM:
            raise ValueError("Tutti: PREMUL_SUM does not exist without the adapter: install g++ 12 or later so that "
                             "the adapter can be built, or multiply the tensors first")
        operation, data_type = _operation(tensor, wanted)
        flat = _flat(tensor)
        if flat.numel():
            self._run("all_reduce", lambda comm, terms: comm.allreduce(_memory(flat), op=operation, dtype=data_type,
                                                                       **terms), ())
        return flat

    def allreduce(self, tensors: Tensors, opts: Any) -> _Done:
        _check("all_reduce", tensors)
        return self._copied(tensors, [self._reduced(tensors[0], opts.reduceOp)])

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> _Done:
        _check("all_reduce", tensors)
        return self._copied(tensors, [self._reduced(tensor, opts.reduceOp) for tensor in tensors])

    def reduce(self, tensors: Tensors, opts: Any) -> _Done:
        _check("reduce", tensors)
        result = self._reduced(tensors[0].detach().clone(), opts.reduceOp)
        return self._copied(tensors, [result]) if opts.rootRank == self._own_rank else _Done(tensors)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> _Done:
        _check("all_gather", [*outputs[0], *inputs])
        own = _flat(inputs[0])
        flat = own.new_empty((self._own_size, *own.shape))
        self._gather_flat("all_gather", flat, own)
        return self._copied(outputs[0], list(flat))

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> _Done:
        _check("all_gather_into_tensor", [output, source])
        flat, own = _flat(output), _flat(source)
        self._gather_flat("all_gather_into_tensor", flat, own)
        return self._copied([output], [flat])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> _Done:
        for output, source in zip(outputs, inputs):
            self.all_gather_single(output, source)
        return _Done(outputs)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> _Done:
        own = _flat(inputs[0])
        root = opts.rootRank == self._own_rank
        _check("gather", [own])
        flat = own.new_empty((self._own_size, *own.shape)) if root else None
        if own.numel():
            everything = _memory(flat) if flat is not None else None
            self._run("gather", lambda comm, terms: comm.gather(_memory(own), everything, opts.rootRank, **terms),
                      ())
        return self._copied(outputs[0], list(flat)) if flat is not None else _Done()

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> _Done:
        _check("scatter", outputs)
        own = _flat(outputs[0])
        flat = torch.stack(list(inputs[0])) if opts.rootRank == self._own_rank else None
        if own.numel():
            everything = _memory(flat) if flat is not None else None
            self._run("scatter", lambda comm, terms: comm.scatter(everything, _memory(own), opts.rootRank,
                                                                  **terms), ())
        return self._copied(outputs, [own])

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any) -> _Done:
        _check("reduce_scatter_tensor", [output, source])
        if opts.reduceOp == _RED.PREMUL_SUM:
            self._reduced(source, opts.reduceOp)
        operation, data_type = _operation(source, opts.reduceOp)
        flat, own = _flat(source), torch.empty_like(output, memory_format=torch.contiguous_format)
        if flat.numel():
            self._run("reduce_scatter_tensor", lambda comm, terms: comm.reduce_scatter(
                _memory(flat), _memory(own), op=operation, dtype=data_type, **terms), ())
        return self._copied([output], [own])

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> _Done:
        for output, source in zip(outputs, inputs):
            self.reduce_scatter_single(output, source, opts)
        return _Done(outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> _Done:
        return self.reduce_scatter_single(outputs[0], torch.stack(list(inputs[0])), opts)

    def all_to_all_single(self, output: torch.Tensor, source: torch.Tensor, output_splits: Sequence[int],
                          input_splits: Sequence[int], opts: Any = None) -> _Done:
        _check("all_to_all_single", [output, source])
        flat, own = torch.empty_like(output, memory_format=torch.contiguous_format), _flat(source)
        sizes = [_split_sizes("input", own, input_splits, self._own_size),
                 _split_sizes("output", flat, output_splits, self._own_size)]
        self._run("all_to_all_single", lambda comm, terms: comm.alltoallv(_memory(own), _memory(flat), *sizes, **terms),
                  ())
        return self._copied([output], [flat])

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> _Done:
        source = torch.cat([tensor.reshape(-1) for tensor in inputs])
        flat = source.new_empty(sum(tensor.numel() for tensor in outputs))
        sizes = [tensor.numel() for tensor in outputs]
        self.all_to_all_single(flat, source, sizes, [tensor.numel() for tensor in inputs])
        return self._copied(outputs, [part.view(tensor.shape) for part, tensor in zip(flat.split(sizes), outputs)])

    def barrier(self, opts: Any = None) -> _Done:
        return self._run("barrier", lambda comm, terms: comm.barrier(**terms), ())

    # torch before 2.13 calls these operations by other names.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # ---- Messages ----

    def send(self, tensors: Tensors, to: int, tag: int) -> _Message:
        _check("send", tensors)
        copy = _flat(tensors[0])
        request = self.carry_out("send", lambda limit: self._ready().start.send(_memory(copy), to, tag))
        return _Message(self, request, copy, copy)

    def recv(self, tensors: Tensors, source: int | None, tag: int) -> _Message:
        _check("recv", tensors)
        copy = _flat(tensors[0])
        request = self.carry_out("recv", lambda limit: self._ready().start.recv(_memory(copy), source, tag))
        return _Message(self, request, tensors[0], copy)

    def recv_anysource(self, tensors: Tensors, tag: int) -> _Message:
        return self.recv(tensors, None, tag)
