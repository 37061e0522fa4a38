"""Estimators as JSON, beside the safetensors file of their posterior: reading a file never runs code from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import torch

from r2d2net.errors import CheckpointError, ParameterError, Value
from r2d2net.files import write_json
from r2d2net.inference import Method
from r2d2net.likelihoods import Likelihood
from r2d2net.priors import ScaleMixturePrior
from r2d2net.specification import describe, likelihood_from, method_from, prior_from

FILE = "estimator.json"
DATA = "validation"  # the parameter that may be rows of data in place of a number
DEFAULTS = {"hidden": (50, 50), "prior": "r2d2", "algorithm": "svgi", "device": "cpu"}  # what None stands for
READERS = {"prior": prior_from, "algorithm": method_from, "likelihood": likelihood_from}


def write(folder: Path, content: dict[str, Any]) -> Path:
    """Write the estimator's file, complete or not at all.

    Args:
        folder: Folder of the estimator, made where it is missing.
        content: The estimator as JSON.

    Returns:
        Path of the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FILE, content)
    return folder / FILE


def read(folder: Path, kind: str) -> dict[str, Any]:
    """Read the file of an estimator.

    Args:
        folder: Folder of the estimator.
        kind: Name of the estimator's class.

    Returns:
        The estimator as JSON.

    Raises:
        CheckpointError: If the file cannot be read, is not JSON or holds an estimator of another class.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fix = f"give the folder of a saved {kind}"
        raise CheckpointError(f"cannot be read ({error.strerror})", value=path, fix=fix) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"is no JSON: {error}", value=path) from error
    saved = content.get("estimator") if isinstance(content, dict) else None
    if saved != kind:
        fix = "load it by the class that saved it"
        raise CheckpointError(f"holds {saved!r}, not {kind!r}", value=path, fix=fix)
    return content


def plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Convert constructor parameters to JSON; rows of data are replaced by null, see `left_out`."""
    absent = left_out(parameters)
    return {name: None if name in absent else _plain(name, value) for name, value in parameters.items()}


def are_alike(name: str, value: Any, other: Any) -> bool:
    """Tell whether two values of a parameter ask for the same.

    Args:
        name: The parameter.
        value: One value.
        other: The other value.

    >>> are_alike("hidden", [50, 50], (50, 50)), are_alike("prior", None, "R2D2"), are_alike("prior", None, "gaussian")
    (True, True, False)
    """
    if value is other:
        return True
    both = [DEFAULTS.get(name) if each is None else each for each in (value, other)]
    try:
        one, two = (each.lower() if isinstance(each, str) else _plain(name, each) for each in both)
    except ParameterError:
        return False
    return bool(one == two)


def left_out(parameters: dict[str, Any]) -> dict[str, str]:
    """Name the parameters that are rows of data, which a saved estimator does not hold, each with a reason.

    >>> left_out({"validation": (np.zeros((5, 3)), np.zeros(5)), "epochs": 3})
    {'validation': 'rows of data, which are not saved'}
    """
    rows = DATA in parameters and not isinstance(parameters[DATA], (Real, NoneType))
    return {DATA: "rows of data, which are not saved"} if rows else {}


def parameters_from(plain: dict[str, Any], classes: Sequence[type] = ()) -> dict[str, Any]:
    """Convert constructor parameters back from JSON; ``classes`` may hold those of priors and algorithms."""
    return {name: _value(name, value, classes) for name, value in plain.items()}


def plain_labels(classes: np.ndarray) -> dict[str, Any]:
    """Convert class labels to JSON, with the dtype that distinguishes 1 from 1.0 and fixed-width texts from objects.

    >>> plain_labels(np.array(["ham", "spam"]))
    {'dtype': '<U4', 'values': ['ham', 'spam']}
    """
    values = classes.tolist()
    if not (classes.dtype.kind in "biufU" or all(isinstance(value, str) for value in values)):
        problem = ("of dtype ", Value(classes.dtype), " cannot be saved as JSON")
        raise ParameterError(problem, argument="classes_", fix="use numbers or texts")
    return {"dtype": classes.dtype.str, "values": values}


def labels_from(plain: dict[str, Any]) -> np.ndarray:
    """Convert class labels back from JSON."""
    return np.array(plain["values"], dtype=plain["dtype"])


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, (ScaleMixturePrior, Method, Likelihood)):
        return describe(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_plain(name, part) for part in value]
    if isinstance(value, torch.device):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    problem = ("is a ", Value(type(value)), ", which JSON cannot hold")  # and not the value, which may be long
    raise ParameterError(problem, argument=name, fix=f"set_params({name}=...) to a number or name first")


def _value(name: str, plain: Any, classes: Sequence[type]) -> Any:
    if isinstance(plain, dict) and name in READERS:
        return READERS[name](plain, classes)
    return tuple(plain) if isinstance(plain, list) else plain
