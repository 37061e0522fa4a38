"""Errors carry the argument, its value and the fix as fields, and each face renders them."""

import copy
import pickle
from pathlib import Path

import pytest
import torch

from r2d2net.errors import (
    ABSENT,
    Argument,
    CheckpointError,
    DataError,
    DivergenceError,
    Interrupted,
    ParameterError,
    R2D2NetError,
    Shown,
    Value,
    require,
    require_seed,
    require_whole,
    shown,
)

KINDS = (R2D2NetError, ParameterError, DataError, CheckpointError, DivergenceError, Interrupted)


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
