"""Errors carry the argument, its value and the fix as fields, and each face renders them."""

import copy
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.distributions import GeneralizedInverseGaussian
from r2d2net.errors import (
    ABSENT,
    Argument,
    CheckpointError,
    DataError,
    DivergenceError,
    Interrupted,
    ParameterError,
    R2D2NetError,
    RankError,
    Shown,
    Value,
    require,
    require_seed,
    require_whole,
    shown,
)
from r2d2net.estimators import R2D2Classifier, R2D2Regressor
from table_runs import command, make_table

KINDS = (R2D2NetError, ParameterError, DataError, CheckpointError, DivergenceError, RankError, Interrupted)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (R2D2NetError("plain words"), "plain words"),
        (ParameterError("is odd", argument="n", value=3), "n=3 is odd"),
        (ParameterError("is odd", argument="n", value=None, fix="use 2"), "n=None is odd: use 2"),
        (ParameterError("is odd", argument="name", value="a", fix="use 'b'"), "name='a' is odd: use 'b'"),
        (ParameterError("has no parameters", argument="net"), "net has no parameters"),
        (ParameterError("", argument="n", value=None, fix="give n"), "n=None: give n"),
        (ParameterError(", of 2 rows", argument="n", value=3, fix="drop it"), "n=3, of 2 rows: drop it"),
        (ParameterError(": HMC has it", argument="n", value=3, fix="leave it out"), "n=3: HMC has it; leave it out"),
        (DataError("[:, 2] is constant", argument="x"), "x[:, 2] is constant"),
        (DataError(("holds ", Value(1 / 3, ".2f")), argument="x", fix="clip it"), "x holds 0.33: clip it"),
        (CheckpointError("is not there", value=Path("run"), fix="fit again"), "run is not there: fit again"),
        (
            ParameterError(
                ("and ", Argument("b", "y"), " differ"), argument="a", value="x", fix=("give ", Argument("a"), " alone")
            ),
            "a='x' and b='y' differ: give a alone",
        ),
    ],
)  # fmt: skip
def test_python_shows_the_fields_in_one_sentence(error: R2D2NetError, text: str) -> None:
    assert str(error) == text
    assert error.args == (text,)


def test_a_problem_may_give_the_value_in_mid_sentence() -> None:
    error = DataError(("has shape ", Value((3,))), argument="x")
    assert (error.argument, error.value, str(error)) == ("x", (3,), "x has shape (3,)")
    assert DataError(("has ", Value(3)), value=4).value == 4
    assert ParameterError("is odd").value is ABSENT


def test_shown_values_are_one_bounded_line() -> None:
    assert shown(torch.nn.Sequential(torch.nn.ReLU())) == "Sequential( (0): ReLU() )"
    assert shown("two\nlines") == r"'two\nlines'"
    assert shown(list(range(10_000))).endswith(" ...")
    assert len(shown(list(range(10_000)))) < 400
    assert shown(Path("a" * 1000)) == "a" * 1000


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling(kind: type[R2D2NetError]) -> None:
    fix = ("give ", Argument("m", lambda: 1), ", say")
    error = kind(("holds ", Value({1: 2})), argument="n", fix=fix)
    error.add_note("seen in a worker")
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(back) is kind
        assert (str(back), back.args, back.__notes__) == (str(error), error.args, error.__notes__)
        assert (back.argument, back.value) == ("n", "{1: 2}")
        assert back.render(lambda argument: argument.name) == "n holds {1: 2}: give m, say"


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "auto", Path("run"), (1, "a"), [None], ABSENT, Shown("x")])
def test_plain_values_survive_pickling_as_they_are(value: object) -> None:
    back = pickle.loads(pickle.dumps(ParameterError("is odd", argument="n", value=value)))
    assert (back.value, type(back.value)) == (value, type(value))


def test_a_subclass_with_a_constructor_of_its_own_survives_pickling() -> None:
    back = pickle.loads(pickle.dumps(OwnError(3, 4)))
    assert (str(back), back.second) == ("n=3 is odd", 4)


class OwnError(R2D2NetError):
    def __init__(self, first: int, second: int) -> None:
        super().__init__("is odd", argument="n", value=first)
        self.second = second


@pytest.mark.parametrize(
    ("check", "argument", "value", "fix"),
    [
        (lambda: require(False, "scale", -1, "use more"), "scale", -1, "use more"),
        (lambda: require_seed("a"), "seed", "a", "use a whole number"),
        (lambda: require_whole("epochs", 0.5), "epochs", 0.5, "use a whole number from 1"),
    ],
)
def test_checks_give_fields(check, argument: str, value: object, fix: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=f"^{argument}={value!r} is out of range: {fix}$") as caught:
        check()
    assert (caught.value.argument, caught.value.value, caught.value.fix) == (argument, value, fix)


X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
Y = X[:, 0] + 0.1
LABELLED = [0, 1], [[0.9, 0.1], [0.2, 0.8]]


def fit(**options: Any) -> Any:
    return rn.fit(rn.BayesianModel(nn.Linear(2, 1)), (X, Y), **{"epochs": 1, **options})


@cache
def posterior() -> Any:
    return fit()


BAD_CALLS: dict[str, tuple[Callable[[], Any], str | None, object]] = {  # the call, and the fields of its error
    "fit: range": (lambda: fit(epochs=0), "epochs", 0),
    "fit: seed": (lambda: fit(seed=0.5), "seed", 0.5),
    "fit: name": (lambda: fit(algorithm="svg"), "algorithm", "svg"),
    "fit: class": (lambda: fit(algorithm=rn.inference.SVGI), "algorithm", rn.inference.SVGI),
    "fit: together": (lambda: fit(patience=3), "patience", 3),
    "fit: algorithm": (lambda: fit(algorithm="hmc", batch_size=5), "batch_size", 5),
    "fit: prior": (lambda: fit(algorithm="map"), "algorithm", "MAP"),
    "fit: rows": (lambda: fit(n=3), "n", 3),
    "fit: data": (lambda: rn.fit(rn.BayesianModel(nn.Linear(2, 1)), (X, Y[:3])), "x", 20),
    "fit: not finite": (lambda: rn.fit(rn.BayesianModel(nn.Linear(2, 1)), (X, Y / 0)), "y", ANY),
    "fit: shape": (lambda: rn.fit(rn.BayesianModel(nn.Linear(2, 2)), (X, Y)), "net", 2),
    "model: net": (lambda: rn.BayesianModel(3), "net", int),  # type: ignore[arg-type]
    "model: prior": (lambda: rn.BayesianModel(nn.Linear(2, 1), bias=1.0), "bias", 1.0),  # type: ignore[arg-type]
    "model: pattern": (lambda: rn.BayesianModel(nn.Linear(2, 1), deterministic=["a"]), "deterministic", "a"),
    "model: dtype": (lambda: rn.BayesianModel(nn.Linear(2, 1).half()), "net", torch.float16),
    "prior": (lambda: rn.priors.Gaussian(-1.0), "scale", -1.0),
    "prior: pair": (lambda: rn.priors.SpikeSlab(slab_scale=1.0, spike_scale=2.0), "spike_scale", 2.0),
    "likelihood": (lambda: rn.likelihoods.Gaussian(noise=0.0), "noise", 0.0),
    "algorithm": (lambda: rn.inference.SGLD(thin=0), "thin", 0),
    "predict: draws": (lambda: posterior().predict(X, draws=0), "draws", 0),
    "predict: x": (lambda: posterior().predict(X[:, :1]), "x", (20, 1)),
    "predict: level": (lambda: posterior().predict(X).interval(2.0), "level", 2.0),
    "relevance": (lambda: rn.shrinkage.input_relevance(posterior(), X[0]), "x", (2,)),
    "load": (lambda: rn.load("nowhere", nn.Linear(2, 1)), None, Path("nowhere/posterior.safetensors")),
    "network": (lambda: rn.nets.mlp(2, [0], 1), "hidden", [0]),
    "metric: shape": (lambda: rn.metrics.rmse(Y, Y[:3]), "mean", (3,)),
    "metric: choice": (lambda: rn.metrics.ece(*LABELLED, binning="odd"), "binning", "odd"),  # type: ignore[arg-type]
    "distribution": (lambda: GeneralizedInverseGaussian(1.0, -1.0, 1.0), "rho", -1.0),
    "estimator: seed": (lambda: R2D2Regressor(random_state=-1).fit(X, Y), "random_state", -1),
    "estimator: prior": (lambda: R2D2Regressor(prior="r2d3").fit(X, Y), "prior", "r2d3"),
    "estimator: patience": (lambda: R2D2Regressor(patience=3, epochs=1).fit(X, Y), "patience", 3),
    "estimator: classes": (lambda: R2D2Classifier().fit(X, [1] * 20), "y", 1),
}


@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_calls_give_argument_value_and_fix(call: str) -> None:
    bad_call, argument, value = BAD_CALLS[call]
    with pytest.raises(R2D2NetError) as caught:
        bad_call()
    error = caught.value
    assert (error.argument, error.value) == (argument, value)
    assert error.fix
    assert "\n" not in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_estimators_name_their_own_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, seed: int, jobs: int, **__: object) -> None:
        fix = ("use ", Argument("jobs", 1), " and other ", Argument("x"))
        raise ParameterError("is odd", argument="seed", value=seed, fix=fix)

    monkeypatch.setattr("r2d2net.estimators.perceptron.fit", refuse)
    monkeypatch.setattr("r2d2net.estimators.perceptron.fit_stacked", refuse)
    for parameters in ({"epochs": 2}, {}):
        with pytest.raises(ParameterError, match=r"^random_state=7 is odd: use n_jobs=1 and other X$") as caught:
            R2D2Regressor(random_state=7, **parameters).fit(X, Y)
    assert (caught.value.argument, caught.value.args) == ("random_state", (str(caught.value),))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--algorithm", "hmc", "--batch-size", "9"], "--batch-size 9: HMC takes all rows in every step; leave it out"),
        (["--patience", "3", "--validation", "0"], "--patience 3 needs validation data: give --validation 0.1, say"),
    ],
)  # fmt: skip
def test_the_command_line_names_options(tmp_path: Path, options: list[str], line: str) -> None:
    table = tmp_path / "table.csv"
    make_table(40).to_csv(table, index=False)
    ended = command("fit", table, "--target", "price", "--out", tmp_path / "run", "--quiet", *options)
    assert (ended.code, ended.error) == (2, f"error: {line}\n")


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("prior", {"prior": rn.priors.R2D2}),
        ("bias", {"bias": rn.priors.Gaussian}),
        ("likelihood", {"likelihood": rn.likelihoods.Gaussian}),
    ],
)
def test_a_class_in_place_of_an_object_is_told_so(argument, arguments):
    name = arguments[argument].__name__
    with pytest.raises(rn.ParameterError, match=rf"^{argument}={name} is a class: write {name}\(\)$"):
        rn.BayesianModel(torch.nn.Linear(2, 1), **arguments)
