"""Posteriors as ONNX files: `Posterior.to_module`, exported, then checked against `predict` by onnxruntime.

write_onnx(posterior, "model.onnx", x)      rows x in the user's units, by which the file is checked and timed
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Shown, require_whole
from r2d2net.files import replace_when_written
from r2d2net.network_inputs import as_tensors
from r2d2net.posterior import Posterior

HINT = "pip install 'r2d2net[onnx]'"
NEAR = 1e-4  # largest difference from `predict`, as a share of a value and of the spread of all values
RUNS = 20  # timed calls
EXAMPLES = 5  # rows with which the network is followed; any number works afterwards


@dataclass(frozen=True)
class OnnxReport:
    """What was written, and how it compares with `Posterior.predict`.

    Attributes:
        path: The file.
        size: Its bytes.
        draws: "mean" or the number of networks over which it averages.
        outputs: Names of its outputs.
        rows: Number of rows by which it was checked.
        difference: Largest difference of an output from `predict`, in the user's units.
        row_milliseconds: Median time of a call with one row by onnxruntime.
        rows_milliseconds: Median time of a call with all rows by onnxruntime.
        predict_milliseconds: Median time of `predict` for the same rows and draws.
    """

    path: Path
    size: int
    draws: int | Literal["mean"]
    outputs: tuple[str, ...]
    rows: int
    difference: float
    row_milliseconds: float
    rows_milliseconds: float
    predict_milliseconds: float

    def __str__(self) -> str:
        """Say it in lines for people."""
        networks = "the mean network" if self.draws == "mean" else f"{self.draws} networks"
        return (
            f"{self.path}: {networks}, {self.size / 1e6:.2f} MB, outputs {', '.join(self.outputs)}\n"
            f"checked against predict on {self.rows} rows: largest difference {self.difference:.2g}\n"
            f"latency: {self.row_milliseconds:.2f} ms a row alone, {self.rows_milliseconds:.2f} ms for {self.rows} "
            f"rows (predict: {self.predict_milliseconds:.2f} ms)"
        )


def write_onnx(
    posterior: Posterior[Any],
    path: str | Path,
    x: Any,
    *,
    draws: int | Literal["mean"] = "mean",
    seed: int = 0,
    spread: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> OnnxReport:
    """Write a posterior's prediction as an ONNX file, after checking it against `predict`.

    Args:
        posterior: The posterior.
        path: File to write, complete or not at all.
        x: Two rows or more in the user's units, in any form that `predict` takes: the file is checked and timed with
            them. A file takes any number of rows.
        draws: "mean" for the network of the mean weights, or a number of draws over which it averages.
        seed: Seed of the draws.
        spread: Let it also give the standard deviation of the prediction.
        facts: What the file says of itself under "r2d2net", beside draws and seed: plain values.

    Returns:
        What was written, and how it compares.

    Raises:
        ParameterError: If the extra is not installed, the network cannot be followed, or the numbers differ.
        DataError: If the rows do not suit the network.
    """
    ort = _runtime()
    require_whole("seed", seed, least=0)
    path = Path(path)
    module = posterior.to_module(draws, seed=seed, spread=spread)
    device = posterior.model.device
    if device.type != "cpu":
        raise ParameterError(f"is on {device}", argument="posterior", fix="load it with the network on the CPU")
    tensors = as_tensors(x)
    inputs: tuple[Tensor, ...] = tensors if isinstance(tensors, tuple) else (tensors,)
    if len(inputs[0]) < 2:
        raise ParameterError("has fewer than 2 rows", argument="x", fix="give rows by which the file is checked")
    if not _is_exact(posterior):
        dtype = posterior.model.dtype
        inputs = tuple(part.to(dtype) if part.is_floating_point() else part for part in inputs)
    given = inputs if isinstance(tensors, tuple) else inputs[0]
    prediction = posterior.predict(given, draws, seed=seed)
    wanted = [prediction.mean, *([prediction.std] if spread else [])]
    outputs = ("mean", "std") if spread else ("mean",)
    names = ["x"] if len(inputs) == 1 else [f"x{number}" for number in range(len(inputs))]
    program = _followed(module, tuple(part[:EXAMPLES] for part in inputs), names, outputs)
    said = {"draws": draws, "seed": seed, **(facts or {})}
    program.model.metadata_props["r2d2net"] = json.dumps(said)
    with replace_when_written(path) as partial:
        try:
            program.save(partial)
        except OSError as error:
            problem = f"cannot be written ({error.strerror})"
            raise ParameterError(problem, argument="path", value=path, fix="name another file") from error
        fed = {name: part.numpy() for name, part in zip(names, inputs, strict=True)}
        try:
            session = ort.InferenceSession(str(partial), _one_thread(ort), providers=["CPUExecutionProvider"])
            found = session.run(None, fed)
        except Exception as error:  # kinds of onnxruntime's own, which have no class in common but this
            problem = f"cannot be run by onnxruntime ({_reason(error)})"
            raise ParameterError(problem, argument="posterior", fix="use posterior.to_module() in Python") from error
        difference = max(_difference(mine, own.numpy()) for mine, own in zip(found, wanted, strict=True))
    first = {name: part[:1] for name, part in fed.items()}
    return OnnxReport(
        path,
        path.stat().st_size,
        draws,
        outputs,
        len(inputs[0]),
        difference,
        _milliseconds(lambda: session.run(None, first)),
        _milliseconds(lambda: session.run(None, fed)),
        _milliseconds(lambda: posterior.predict(given, draws, seed=seed)),
    )


def _runtime() -> Any:
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        problem = f"needs {error.name}"
        raise ParameterError(problem, value=Shown("ONNX"), fix=HINT) from error
    return onnxruntime


def _is_exact(posterior: Posterior[Any]) -> bool:
    """Return whether inputs are standardised in float64."""
    return posterior.units.are_exact_for(posterior.model.dtype)


def _one_thread(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return options


def _followed(module: torch.nn.Module, inputs: tuple[Tensor, ...], names: list[str], outputs: tuple[str, ...]) -> Any:
    """Return the ONNX program of a module."""
    rows = torch.export.Dim("rows")
    shapes = {"inputs": tuple({0: rows} for _ in inputs)}
    with _quiet():
        try:
            program: Any = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=names,
                output_names=list(outputs),
                verbose=False,
            )
            _name_apart(program.model.graph, {*names, *outputs})
            return program
        except Exception as error:  # of many kinds, each with pages of text
            reason = _reason(error)
            problem = f"cannot be followed by torch.export and ONNX ({reason})"
            raise ParameterError(problem, argument="posterior", fix="use posterior.to_module() in Python") from error


def _name_apart(graph: Any, taken: set[str]) -> None:
    """Rename what inner steps give where an input or output has that name, such as a step "mean"."""
    outside = {id(value) for value in (*graph.inputs, *graph.outputs)}
    for node in graph:
        for value in node.outputs:
            if value.name in taken and id(value) not in outside:
                value.name = f"{value.name}_inside"


def _reason(error: BaseException) -> str:
    """Return the first line of the first cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:150] if lines else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what exporters print, log and warn of from the user, who gets one line."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest difference, or refuse one that is more than rounding."""
    difference = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    allowed = NEAR * (np.abs(wanted) + np.std(wanted))
    if found.shape != wanted.shape or not bool((difference <= allowed).all()):
        largest = float(difference.max()) if found.shape == wanted.shape else float("nan")
        problem = f"gives other numbers in ONNX than predict (largest difference {largest:.2g})"
        raise ParameterError(problem, argument="posterior", fix="use posterior.to_module() in Python")
    return float(difference.max())


def _milliseconds(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - begin))
    return median(times)
