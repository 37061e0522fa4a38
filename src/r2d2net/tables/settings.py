"""The settings of `r2d2net fit`, from the command line and a JSON or TOML file; the command line wins."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from r2d2net.errors import Argument, CheckpointError, ParameterError, Shown
from r2d2net.estimators.named_settings import LARGEST_SEED
from r2d2net.nets.activations import ACTIVATIONS
from r2d2net.registry import ALGORITHMS, NUMBERS, PRIORS
from r2d2net.tables.prediction_task import TASKS

AUTO = "auto"
Parse = Callable[[str, Any], Any]
MOST_WEIGHTS = 20_000_000
LATER = {  # what runs of older versions do not have
    "decimal": "auto",
    "dates": "auto",
    "time": None,
    "split": "random",
    "split_column": None,
    "stacked": False,
    "baselines": True,
    "safe_csv": False,
    "likelihood": "gaussian",
    "calibrate": False,
    "ordinal": (),
    "select": False,
    "fdr": 0.1,
    "prune": False,
}
PRUNES = ("svgi", "cavi", "svi", "mfvi", "radial")  # algorithms whose posteriors tell what a unit is worth
ONE_MODEL = ("prior", "algorithm", "hidden", "epochs", "batch_size", "patience", "restarts", "validation")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that decides a fit besides the table; `r2d2net fit --help` says what each is.

    Attributes:
        stacked: Whether several models are combined, as no option of `ONE_MODEL` is given.
    """

    target: str
    task: str = "auto"
    prior: str = "r2d2"
    algorithm: str = "svgi"
    hidden: tuple[int, ...] = (50, 50)
    activation: str = "relu"
    time: float | None = None
    epochs: int | None = None
    batch_size: int | None = None
    patience: int | None = None
    restarts: int = 1
    validation: float = 0.1
    test: float = 0.2
    split: str = "random"
    split_column: str | None = None
    draws: int = 100
    level: float = 0.9
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    decimal: str = "auto"
    dates: str = "auto"
    seed: int = 0
    baselines: bool = True
    safe_csv: bool = False
    likelihood: str = "auto"
    calibrate: bool = True
    ordinal: tuple[str, ...] = ()
    select: bool = False
    fdr: float = 0.1
    prune: bool = False
    stacked: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Make settings of names and values as a user gives them.

        Args:
            given: Values by the names of the settings; None is the default.

        Raises:
            ParameterError: A value is out of range, or the target is missing.
        """
        if given.get("target") is None:
            raise ParameterError("is missing", argument="target", fix="name the column to predict")
        parsed = {name: PARSERS[name](name, value) for name, value in given.items() if value is not None}
        asked = next((name for name in ONE_MODEL if name in parsed), "prune" if parsed.get("prune") else None)
        if "task" not in parsed and parsed.get("likelihood", AUTO) != AUTO:
            parsed["task"] = "regression"  # likelihoods are of numbers: counts 0 to 6 are no classes then
        if asked is None:
            parsed |= {"stacked": True, "validation": 0.0}  # folds leave rows out
        elif "time" in parsed and not parsed.get("stacked"):
            problem = ("bounds a search among several models, and ", Argument(asked), " asks for one")
            raise ParameterError(problem, argument="time", value=parsed["time"], fix="leave one of both out")
        if "split_column" in parsed and parsed.get("split") != "time":
            fix = ("give ", Argument("split", "time"), ", too")
            raise ParameterError("orders rows in time", argument="split_column", value=parsed["split_column"], fix=fix)
        if parsed.get("ordinal") and parsed.get("task", AUTO) not in (AUTO, "ordinal"):
            other_task = ("lists levels, and the target is to be ", Argument("task", parsed["task"]))
            raise ParameterError(other_task, argument="ordinal", fix="leave one out")
        if "fdr" in parsed and "select" not in parsed:
            parsed["select"] = True
        settings = cls(**parsed)
        settings.require_units()
        if settings.validation + settings.test > 0.9:
            total = settings.validation + settings.test
            problem = ("and ", Argument("test"), f" make {total:.0%} of the rows")
            raise ParameterError(problem, argument="validation", fix="leave a tenth to train on")
        return settings

    def require_units(self) -> None:
        """Refuse to prune a model without hidden units, validation rows or knowledge of what units are worth.

        Raises:
            ParameterError: If it is to be pruned and cannot be.
        """
        if not self.prune:
            return
        if self.algorithm not in PRUNES:
            needs = ("needs ", Argument("algorithm", PRUNES[0]), f" or {', '.join(PRUNES[1:])}")
            raise ParameterError(needs, argument="prune", fix="leave one of both out")
        if not self.hidden:
            raise ParameterError("needs hidden layers", argument="prune", fix="leave one of both out")
        if not self.validation:
            raise ParameterError("needs validation rows", argument="prune", fix=("give ", Argument("validation", 0.1)))

    def plain(self) -> dict[str, Any]:
        """Return the settings as plain values for JSON; of several models those that are about one are None."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {**plain, **dict.fromkeys(ONE_MODEL)} if self.stacked else plain

    @classmethod
    def back(cls, plain: Any) -> Settings:
        """Restore settings from the values of `plain`.

        Args:
            plain: What a file kept.

        Raises:
            CheckpointError: The values are no settings.
        """
        try:
            return cls.of({field.name: {**LATER, **plain}[field.name] for field in fields(cls)})
        except (KeyError, TypeError, ParameterError) as error:
            problem = f"cannot be read: {error}"
            raise CheckpointError(problem, value=Shown("the settings of the run"), fix="fit the table anew") from error

    def require_size(self, inputs: int, outputs: int) -> None:
        """Refuse a network that no memory holds.

        Args:
            inputs: Number of inputs.
            outputs: Number of outputs.

        Raises:
            ParameterError: It has more than `MOST_WEIGHTS` weights.
        """
        widths = [inputs, *self.hidden, outputs]
        weights = sum(a * b for a, b in pairwise(widths))
        if weights > MOST_WEIGHTS:
            problem = f"makes {weights:,} weights, more than {MOST_WEIGHTS:,}"
            raise ParameterError(problem, argument="hidden", value=self.hidden, fix="use less")


def read_config(path: Path, known: tuple[str, ...]) -> dict[str, Any]:
    """Read options from a JSON or TOML file.

    Args:
        path: The file.
        known: Names of the options that there are.

    Returns:
        Values by name, as the file has them.

    Raises:
        ParameterError: The file cannot be read, or names an option that there is not.
    """
    try:
        content = path.read_bytes().decode()
        values = tomllib.loads(content) if path.suffix.lower() == ".toml" else json.loads(content)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise ParameterError(problem, argument="config", value=path, fix="give a JSON or TOML file") from error
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        problem = f"is no {kind}: {' '.join(str(error).split())[:200]}"
        raise ParameterError(problem, argument="config", value=path) from error
    if not isinstance(values, dict):
        problem = "holds no names and values"
        raise ParameterError(problem, argument="config", value=path, fix="write one object of options")
    options = {}
    for name, value in values.items():
        plain = name.replace("-", "_")
        if plain not in known:
            unknown = (":", f" {name!r} is no option")
            raise ParameterError(unknown, argument="config", value=path, fix=f"use {', '.join(known)}")
        options[plain] = value
    return options


def path_of(name: str, value: Any) -> Path:
    """Return a path that a config file gives for an option."""
    return Path(_text(name, value))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise _error(name, value, "use a text")
    return value.strip()


def _choice(*choices: str) -> Parse:
    def parse(name: str, value: Any) -> str:
        if not isinstance(value, str) or value.lower() not in choices:
            raise _error(name, value, f"use one of {', '.join(choices)}", "is no choice")
        return value.lower()

    return parse


def _decimal(name: str, value: Any) -> str:
    if value not in ("auto", ".", ","):
        raise _error(name, value, "use . or , or auto")
    return str(value)


def _whole(least: int, most: int) -> Parse:
    def parse(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _error(name, value, f"use a whole number from {least} to {most}")
        return value

    return parse


def _share(least: float, most: float) -> Parse:
    def parse(name: str, value: Any) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not least <= value <= most:
            raise _error(name, value, f"use a number from {least:g} to {most:g}")
        return float(value)

    return parse


def _widths(name: str, value: Any) -> tuple[int, ...]:
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    if parts in (["none"], ["0"], [0]):
        return ()
    try:
        widths = tuple(int(part) if isinstance(part, str) else part for part in parts)
    except ValueError:
        widths = (0,)
    if len(widths) > 20 or not all(isinstance(w, int) and not isinstance(w, bool) and w >= 1 for w in widths):
        raise _error(name, value, "use widths such as 50,50, or 0 for a linear model")
    return widths


def _names(name: str, value: Any) -> tuple[str, ...]:
    """Return texts of one name or several by commas; the table tells which (see `input_columns.chosen_columns`)."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise _error(name, value, "use names of columns, by commas")
    return tuple(part.strip() for part in parts if part.strip())


def _levels(name: str, value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else []
    levels = tuple(str(part).strip() for part in parts)
    given = [level for level in levels if level]
    if value not in ((), []) and (len(given) < max(2, len(levels)) or len(set(levels)) < len(levels)):
        raise _error(name, value, "list two levels or more by commas, from the lowest, such as low,medium,high")
    return levels


def _error(name: str, value: Any, fix: str, fault: str = "is out of range") -> ParameterError:
    return ParameterError(fault, argument=name, value=Shown(" ".join(str(value).split())[:80]), fix=fix)


def _seconds(name: str, value: Any) -> float:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 < number < math.inf:
        raise _error(name, value, "use a number of seconds above 0")
    return float(number)


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _error(name, value, "use true or false")
    return value


PARSERS: dict[str, Parse] = {
    "target": _text,
    "task": _choice(*TASKS),
    "prior": _choice(*PRIORS, "auto"),
    "algorithm": _choice(*ALGORITHMS, "auto"),
    "hidden": _widths,
    "activation": _choice(*ACTIVATIONS),
    "time": _seconds,
    "epochs": _whole(1, 1_000_000),
    "batch_size": _whole(1, 1_000_000_000),
    "patience": _whole(1, 1_000_000),
    "restarts": _whole(1, 100),
    "validation": _share(0.0, 0.8),
    "test": _share(0.0, 0.8),
    "split": _choice("random", "time"),
    "split_column": _text,
    "draws": _whole(1, 10_000),
    "level": _share(0.01, 0.999),
    "categorical": _names,
    "ignore": _names,
    "keep": _names,
    "decimal": _decimal,
    "dates": _choice("auto", "day", "month"),
    "seed": _whole(0, LARGEST_SEED),
    "baselines": _truth,
    "safe_csv": _truth,
    "likelihood": _choice(AUTO, *NUMBERS),
    "calibrate": _truth,
    "ordinal": _levels,
    "select": _truth,
    "fdr": _share(0.001, 0.999),
    "prune": _truth,
    "stacked": _truth,
}
