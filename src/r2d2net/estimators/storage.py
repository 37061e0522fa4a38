"""Estimators as JSON, beside the safetensors file of their posterior: reading a file never runs code from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from types import NoneType
from typing import Any

import numpy as np
import torch

from r2d2net.errors import CheckpointError, ParameterError, Value
from r2d2net.inference import Method
from r2d2net.likelihoods import Likelihood
from r2d2net.manifest import Parts
from r2d2net.priors import ScaleMixturePrior
from r2d2net.saved_json import Each, Maybe, Whole, require_conforming
from r2d2net.saved_posteriors import Saved
from r2d2net.specification import describe, likelihood_from, method_from, prior_from

FILE = "estimator.json"
DATA = "validation"  # the parameter that may be rows of data in place of a number
DEFAULTS = {"hidden": (50, 50), "prior": "r2d2", "algorithm": "svgi", "device": "cpu"}  # what None stands for
MOST_LAYERS = 1000
MOST_LABELS = 1 << 26  # bytes
AGAIN = "take the folder from a backup, or fit again"
SCHEMA = {
    "estimator": str,
    "parameters": dict,
    "seed": int,
    "network": {"inputs": Whole(1), "hidden": [Whole(1)], "outputs": Whole(1), "activation": str, "linear?": bool},
    "n_features_in": Whole(1),
    "feature_names_in": Maybe([str]),
    "inputs?": Maybe({"names": [str], "columns": Maybe(dict), "medians": [(int, float)]}),
    "relevance": Each([(int, float, bool)]),
    "classes?": {"dtype": str, "values": list},
}
READERS = {"prior": prior_from, "algorithm": method_from, "likelihood": likelihood_from}


def read(parts: Parts, kind: str) -> dict[str, Any]:
    """Read the file of an estimator.

    Args:
        parts: The parts of its folder.
        kind: Name of the estimator's class.

    Returns:
        The estimator as JSON.

    Raises:
        CheckpointError: If the file cannot be read, is not JSON or holds an estimator of another class.
    """
    path = parts.folder / FILE
    if not parts.has(FILE) and not path.exists():
        raise CheckpointError(
            "cannot be read (No such file or directory)", value=path, fix=f"give the folder of a saved {kind}"
        )
    content = parts.json(FILE)
    saved = content.get("estimator")
    if saved != kind:
        fix = "load it by the class that saved it"
        raise CheckpointError(f"holds {saved!r:.80}, not {kind!r}", value=path, fix=fix)
    require_conforming(content, SCHEMA, path)
    return content


def require_network(content: dict[str, Any], saved: Saved) -> None:
    """Refuse a network that is not the one of the posterior, before it is built: a few bytes can ask for any size.

    Args:
        content: The estimator as JSON.
        saved: The posterior beside it.

    Raises:
        CheckpointError: If the sizes of the network, the estimator and the saved tensors do not agree.
    """
    network, path = content["network"], saved.path.parent / FILE
    if len(network["hidden"]) > MOST_LAYERS:
        raise CheckpointError(f"has {len(network['hidden']):,} layers, at most {MOST_LAYERS:,} are read", value=path)
    widths = [network["inputs"], *network["hidden"], network["outputs"]]
    expected = sorted(shape for a, b in pairwise(widths) for shape in ([b, a], [b]))
    if network.get("linear") and network["hidden"]:
        expected = sorted([*expected, [network["outputs"], network["inputs"]]])
    parameters = saved.settings["model"]["parameters"].values()
    if sorted(entry["shape"] for entry in parameters) != expected:
        raise CheckpointError("has a network that is not that of the posterior beside it", value=path, fix=AGAIN)
    held = sum(tensor.numel() for tensor in saved.tensors.values())
    if sum(math.prod(shape) for shape in expected) > held:
        raise CheckpointError("holds fewer numbers than its network has", value=saved.path, fix=AGAIN)
    center = saved.tensors.get("units/x_center")
    if center is not None and center.numel() not in (0, network["inputs"]):
        raise CheckpointError("has another number of inputs than the posterior beside it", value=path, fix=AGAIN)


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
    """Convert class labels back from JSON.

    Raises:
        ValueError: If they are no distinct numbers or texts, or of a dtype that is far wider than they are.
    """
    values, dtype = plain["values"], np.dtype(plain["dtype"])
    if dtype.kind not in "biufUO" or dtype.itemsize * len(values) > MOST_LABELS or not values:
        raise ValueError(f"labels of dtype {plain['dtype']!r:.40}")
    if not all(isinstance(value, (str, int, float)) for value in values) or len(set(values)) < len(values):
        raise ValueError("labels that are no distinct numbers or texts")
    return np.array(values, dtype=dtype)


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
