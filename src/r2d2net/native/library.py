"""The compiled kernels as functions of tensors: float32, on the CPU, contiguous.

A call is cut into parts of `PART` weights, which as many threads compute as torch uses. The parts do not depend on the
number of threads, and random numbers are a function of a call's key and a weight's place: nothing a kernel computes
depends on threads.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import ParameterError
from r2d2net.native.build import FOLDER, LIBRARY, digest

BLOCK = 64  # weights that share the counters of random numbers
PART = 1 << 17  # weights, a multiple of BLOCK
SUM_LANES = 16
KERNELS = ("draw", "second_moment", "update", "gibbs", "cavi", "relu_changes")
BUILD = "run python -m r2d2net.native.build, which needs a C compiler"


class Step(ctypes.Structure):
    """Numbers of a step of the means and of rho; see `update` in kernels.c."""

    _fields_ = tuple(
        (name, ctypes.c_float) for name in ("rate", "rho_rate", "correction", "epsilon", "least_square", "size", "beta")
    )


class Conditional(ctypes.Structure):
    """Numbers of R2D2's conditionals that all weights share; see `gibbs` in kernels.c."""

    _fields_ = (
        *(
            (name, ctypes.c_float)
            for name in ("order", "right", "right_expm1", "left", "left_expm1", "right_share", "left_share")
        ),
        ("per_unit", ctypes.c_float),
        ("half_variance", ctypes.c_float),
        ("reciprocal", ctypes.c_int),
    )


def problem() -> str | None:
    """Tell why the kernels cannot be used here.

    Returns:
        The reason, or None if they can be used.
    """
    if not (FOLDER / LIBRARY).exists():
        return "is not built here"
    try:
        _library()
    except (OSError, AttributeError, ParameterError) as error:
        return f"cannot be used ({error})"
    return None


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(FOLDER / LIBRARY))
    library.r2d2_digest.restype = ctypes.c_uint32
    if library.r2d2_digest() != digest():
        raise ParameterError(f"{LIBRARY} was built from other sources", fix=BUILD)
    pointer, count, key, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_float
    arguments = {
        "draw": (count, key, key, *4 * (pointer,)),
        "second_moment": (count, *4 * (pointer,)),
        "update": (count, ctypes.POINTER(Step), ctypes.c_int, *9 * (pointer,)),
        "gibbs": (count, key, key, ctypes.POINTER(Conditional), pointer, pointer, count, *3 * (pointer,)),
        "cavi": (count, ctypes.POINTER(Conditional), pointer, count, number, *5 * (pointer,)),
        "relu_changes": (*5 * (count,), *6 * (pointer,)),
        "words": (key, key, key, pointer),
    }
    for name, types in arguments.items():
        function = getattr(library, f"r2d2_{name}")
        function.argtypes, function.restype = types, None
    return library


def use_level(most: int) -> int:
    """Limit the vector units that the kernels use, in this process.

    Args:
        most: 0 for the plain ones, 1 for AVX2, 2 for AVX-512; -1 for the best that the processor has.

    Returns:
        The level in use.
    """
    return int(_library().r2d2_level(most))


def new_key(generator: torch.Generator | None) -> int:
    """Draw the key of a call's random numbers.

    Args:
        generator: Source of randomness on the CPU; None for torch's global generator.

    Returns:
        A number of 64 bits.
    """
    return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None, generator=generator)) & (2**64 - 1)


def words(key: int, block: int, stream: int) -> Tensor:
    """Compute the random bits of one block.

    Args:
        key: Key of the call.
        block: Number of the block.
        stream: Number of the stream.

    Returns:
        64 words of 32 bits, int64: those of one counter are 16 apart.
    """
    found = torch.empty(BLOCK, dtype=torch.int32)
    _library().r2d2_words(key, block, stream, found.data_ptr())
    return found.to(torch.int64) & 0xFFFFFFFF


def draw(mean: Tensor, rho: Tensor, precision: Tensor, key: int) -> Tensor:
    """Draw w = mu + s e with 1 / s^2 = c + exp(rho) and standard normal e.

    Args:
        mean: Means mu, a vector.
        rho: Parameters rho.
        precision: Prior precisions c.
        key: Key of the call.

    Returns:
        The draw.
    """
    out = torch.empty_like(mean)
    at, kernel = _addresses(mean, rho, precision, out), _library().r2d2_draw

    def part(start: int, count: int) -> None:
        kernel(count, key, start // BLOCK, *(address + 4 * start for address in at))

    _by_parts(mean.numel(), part)
    return out


def second_moment(mean: Tensor, rho: Tensor, precision: Tensor) -> Tensor:
    """Compute E w^2 = mu^2 + s^2.

    Args:
        mean: Means mu, a vector.
        rho: Parameters rho.
        precision: Prior precisions c.

    Returns:
        The second moments.
    """
    out = torch.empty_like(mean)
    at, kernel = _addresses(mean, rho, precision, out), _library().r2d2_second_moment
    _by_parts(mean.numel(), lambda start, count: kernel(count, *(address + 4 * start for address in at)))
    return out


def update(step: Step, is_draw: bool, *vectors: Tensor) -> None:
    """Move means and rho by their gradients, in place.

    Args:
        step: Numbers of the step.
        is_draw: Whether the gradient in log s is to be made of a draw w, as g (w - mu).
        *vectors: Precision, gradient in mu, gradient in log s or the draw; then what is overwritten: means, rho, and
            Adam's first and second moments of the means and of rho.
    """
    at, kernel = _addresses(*vectors), _library().r2d2_update
    shared = ctypes.byref(step)
    _by_parts(
        vectors[0].numel(),
        lambda start, count: kernel(count, shared, is_draw, *(address + 4 * start for address in at)),
    )


def gibbs(
    conditional: Conditional, w: Tensor, rate: Tensor, t: Tensor, psi: Tensor, precision: Tensor, key: int
) -> None:
    """Draw R2D2's T and psi in place by one sweep, and write 1 / v to ``precision``.

    Args:
        conditional: Numbers that all weights share.
        w: Weights.
        rate: Rate of T, a scalar or one for each weight.
        t: T, overwritten.
        psi: psi, overwritten.
        precision: Overwritten.
        key: Key of the call.
    """
    first, *others = _addresses(w, rate, t, psi, precision)
    shared, rates, kernel = ctypes.byref(conditional), rate.numel(), _library().r2d2_gibbs
    of_rate, *others = others

    def part(start: int, count: int) -> None:
        at = of_rate + (4 * start if rates > 1 else 0)
        kernel(count, key, start // BLOCK, shared, first + 4 * start, at, rates, *(a + 4 * start for a in others))

    _by_parts(w.numel(), part)


def cavi(
    conditional: Conditional, table: Tensor, rate: float, second: Tensor, t: Tensor, psi: Tensor, precision: Tensor
) -> float:
    """Update R2D2's T and psi in place by coordinate ascent, and write E[1 / v] to ``precision``.

    Args:
        conditional: Numbers that all weights share.
        table: The four rows of `gig_moments.narrow_table`.
        rate: Rate of T.
        second: E w^2.
        t: 1 / E[1 / T], overwritten.
        psi: 1 / E[1 / psi], overwritten.
        precision: Overwritten.

    Returns:
        The sum of E T.
    """
    at = _addresses(second, t, psi, precision)
    (rows,) = _addresses(table)
    sums = torch.zeros(-(-second.numel() // PART), SUM_LANES, dtype=torch.float64)
    shared, cells, kernel = ctypes.byref(conditional), table.shape[1], _library().r2d2_cavi
    base = sums.data_ptr()

    def part(start: int, count: int) -> None:
        own = base + 8 * SUM_LANES * (start // PART)
        kernel(count, shared, rows, cells, rate, *(address + 4 * start for address in at), own)

    _by_parts(second.numel(), part)
    return float(sums.sum())


def relu_changes(
    start: Tensor, last: Tensor, weight: Tensor, straight: Tensor | None, change: Tensor, shuffles: int
) -> Tensor:
    """Compute the mean square of V relu(z + W_j d) + A_j d - V relu(z) for inputs j of a network with one output.

    Args:
        start: z of each row, (rows, units).
        last: V, (units,).
        weight: W', (inputs, units).
        straight: A, (inputs,); None for zeros.
        change: d, (inputs, shuffles x rows).
        shuffles: Number of shuffles.

    Returns:
        The means over shuffles and rows, (inputs,).
    """
    (rows, units), inputs = start.shape, len(weight)
    rising = int((last >= 0).sum())
    order = (last >= 0).int().argsort(descending=True, stable=True)  # units with V >= 0 first
    padded = torch.nn.functional.pad(start.T, (0, -rows % BLOCK)) * last[:, None]
    z = padded[order].unflatten(1, (-1, BLOCK)).transpose(0, 1).contiguous()
    unmoved = padded[order[:rising]].relu_().sum(0).sub_(padded[order[rising:]].neg_().relu_().sum(0))
    moved, out = (weight * last)[:, order].contiguous(), torch.empty(inputs)
    fixed = _addresses(z, unmoved)
    (weights, changes, outs), kernel = _addresses(moved, change, out), _library().r2d2_relu_changes
    beside = 0 if straight is None else _addresses(straight)[0]

    def part(first: int, count: int) -> None:
        own = 0 if straight is None else beside + 4 * first
        at = weights + 4 * units * first, own, changes + 4 * shuffles * rows * first, outs + 4 * first
        kernel(count, units, rising, rows, shuffles, *fixed, *at)

    _by_parts(inputs, part, size=max(1, PART // (shuffles * rows)))
    return out.div_(shuffles * rows)


def _addresses(*tensors: Tensor) -> list[int]:
    """Return the addresses of tensors that a kernel may read and write: it looks neither at dtypes nor at strides."""
    for tensor in tensors:
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu" or not tensor.is_contiguous():
            found = f"a {tensor.dtype} tensor on {tensor.device} with strides {tensor.stride()}"
            raise ParameterError(f"a native kernel got {found}", fix="it needs contiguous float32 ones on the CPU")
    return [tensor.data_ptr() for tensor in tensors]


def _by_parts(n: int, compute: Callable[[int, int], Any], size: int = PART) -> None:
    """Call ``compute`` with start and length of every part, by as many threads as torch uses."""
    parts = [(start, min(size, n - start)) for start in range(0, n, size)]
    threads = min(torch.get_num_threads(), len(parts))
    if threads <= 1:
        for start, count in parts:
            compute(start, count)
        return
    list(_threads(os.getpid(), torch.get_num_threads()).map(lambda part: compute(*part), parts))


@cache
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked has none of its parent's."""
    return ThreadPoolExecutor(count, thread_name_prefix="r2d2net")
