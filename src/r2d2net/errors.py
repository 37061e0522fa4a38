"""The exceptions of r2d2net: one root, typed children, each with the argument, its value and the fix as fields.

    <argument>=<value> <problem>: <fix>

is how Python shows an error (`str(error)`); another face, such as the command line, spells the arguments in its own
way through `R2D2NetError.render`. A problem or fix that mentions further arguments is a tuple of parts,
``("give ", Argument("validation", 0.1), ", say")``, so that nobody has to search a text for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from numbers import Integral, Real
from pathlib import PurePath
from types import NoneType
from typing import Any, Final

LONGEST = 300  # characters of a value that are shown


class Absent(Enum):
    """The type of `ABSENT`, which stands for a value that is not given; None is a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True)
class Argument:
    """An argument mentioned in an error, which each face spells in its own way.

    Args:
        name: Name of the argument in Python.
        value: Its value, if that is to be shown.
    """

    name: str
    value: object = ABSENT


@dataclass(frozen=True)
class Value:
    """The wrong value where the problem names it in mid-sentence: ``("has shape ", Value((3, 2)))``.

    Args:
        value: The value, which becomes the field ``value`` of the error.
        spec: Format specification with which it is shown, such as ``".3g"``.
    """

    value: object
    spec: str = ""

    def __str__(self) -> str:
        return format(self.value, self.spec) if self.spec else shown(self.value)


class Shown(str):
    """A text that stands for a value and is shown without quotation marks."""

    __slots__ = ()


Text = str | tuple[str | Argument | Value, ...]
PLAIN = (NoneType, bool, int, float, str, Shown, Absent)


def shown(value: object) -> str:
    """Return a value as Python's errors show it: on one line and of bounded length.

    Args:
        value: Any value. Strings appear in quotation marks, classes by their name, paths in full.

    >>> print(shown("auto"), shown(0.5), shown(int), shown(Shown("2 rows")))
    'auto' 0.5 int 2 rows
    """
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, PurePath):
        return str(value)
    quoted = isinstance(value, str) and not isinstance(value, Shown)
    text = repr(str(value)) if quoted else " ".join(line.strip() for line in str(value).splitlines())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def as_keyword(argument: Argument) -> str:
    """Spell an argument as in a call of Python.

    >>> as_keyword(Argument("batch_size", 10)), as_keyword(Argument("prior", "auto")), as_keyword(Argument("net"))
    ('batch_size=10', "prior='auto'", 'net')
    """
    return argument.name if argument.value is ABSENT else f"{argument.name}={shown(argument.value)}"


class R2D2NetError(Exception):
    """Root of every error that r2d2net raises on purpose.

    The fields are those given; a plain message without fields is a problem alone. Errors can be pickled whatever
    their value: one that is not made of numbers, strings and paths travels as the text that shows it.

    Args:
        problem: What is wrong, following the argument and its value: "is out of range". No space is put before a
            problem that begins with a colon, comma or bracket.
        argument: Name of the argument at fault.
        value: Its value, shown behind the name; without an argument the subject of the sentence, such as the path of
            a damaged file. A `Value` among the parts of the problem may give it instead.
        fix: What to do about it, shown after a colon, or after a semicolon if the problem has a colon already.

    Example:
        >>> fix = ("give ", Argument("validation", 0.1), ", say")
        >>> error = ParameterError("needs validation data", argument="patience", value=3, fix=fix)
        >>> str(error)
        'patience=3 needs validation data: give validation=0.1, say'
        >>> error.argument, error.value
        ('patience', 3)
        >>> str(DataError(("has shape ", Value((3,))), argument="x", fix="give a table"))
        'x has shape (3,): give a table'
    """

    problem: Text
    argument: str | None
    value: object
    fix: Text | None

    def __init__(
        self, problem: Text, *, argument: str | None = None, value: object = ABSENT, fix: Text | None = None
    ) -> None:
        inside = [part.value for part in _parts(problem) if isinstance(part, Value)]
        self.problem = problem
        self.argument = argument
        self.value = inside[0] if inside and value is ABSENT else value
        self.fix = fix
        super().__init__(self.render())

    def __str__(self) -> str:
        return self.render()

    def render(self, spell: Callable[[Argument], str] = as_keyword) -> str:
        """Return the message with every argument spelled by ``spell``.

        Args:
            spell: How an argument is written, with its value unless that is `ABSENT`; by default as in Python.

        Returns:
            The message, on one line.

        >>> error = ParameterError("is too large", argument="n", value=9, fix=("use less, or ", Argument("m", 2)))
        >>> error.render(lambda argument: f"--{argument.name} {argument.value}")
        '--n 9 is too large: use less, or --m 2'
        """
        inside = any(isinstance(part, Value) for part in _parts(self.problem))
        value = ABSENT if inside else self.value
        problem = _written(self.problem, spell)
        if self.argument is not None:
            subject = spell(Argument(self.argument, value))
        else:
            subject = "" if value is ABSENT else shown(value)
        space = " " if subject and problem and problem[0] not in ":,[" else ""
        if self.fix is None:
            return f"{subject}{space}{problem}"
        colon = any(isinstance(part, str) and ": " in part for part in _parts(self.problem))
        return f"{subject}{space}{problem}{';' if colon else ':'} {_written(self.fix, spell)}"

    def rename(self, names: Mapping[str, str]) -> None:
        """Call arguments by other names, those by which another function took them.

        Args:
            names: The new name of each argument that has another one there.

        >>> error = ParameterError("is too large", argument="seed", value=9, fix=("use ", Argument("seed", 1)))
        >>> error.rename({"seed": "random_state"})
        >>> print(error)
        random_state=9 is too large: use random_state=1
        """

        def renamed(text: Text) -> Text:
            parts = (replace(p, name=names.get(p.name, p.name)) if isinstance(p, Argument) else p for p in _parts(text))
            return text if isinstance(text, str) else tuple(parts)

        self.problem = renamed(self.problem)
        self.fix = None if self.fix is None else renamed(self.fix)
        self.argument = None if self.argument is None else names.get(self.argument, self.argument)
        self.args = (self.render(),)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {
            "problem": _plain_text(self.problem),
            "value": _plain(self.value),
            "fix": None if self.fix is None else _plain_text(self.fix),
        }
        return _restored, (type(self), self.args, {**self.__dict__, **fields})


class ParameterError(R2D2NetError, ValueError):
    """An argument lies outside its range.

    It is a ``ValueError`` too, so code written for torch.distributions catches it unchanged.
    """


class DataError(R2D2NetError, ValueError):
    """Data that a model cannot take: wrong shape, wrong kind, not finite."""


class CheckpointError(R2D2NetError):
    """A saved run that is truncated, tampered with or made for another network."""


class DivergenceError(R2D2NetError, ArithmeticError):
    """Training met a number that is not finite, or a sampler ran away from its target."""


class RankError(R2D2NetError):
    """A fit on several processes that cannot go on: one of them is gone, has failed or does something else."""


class FitWarning(UserWarning):
    """A fit that does not make sense, worse than a constant say, or that starts otherwise than its user may think."""


class ColumnWarning(UserWarning):
    """Rows to predict with a column that is written otherwise than in the training rows, or with cells filled in."""


class PruningWarning(UserWarning):
    """A cut that was not made as asked: a layer kept its best weight or unit, or something cannot be cut."""


class UnvouchedWarning(UserWarning):
    """A folder of an older version, which has no manifest: whether its parts belong together cannot be told."""


class Interrupted(R2D2NetError):  # noqa: N818 (it is no error)
    """The user stopped a command that can go on; the message says how."""


def require(condition: bool, argument: str, value: object, fix: Text) -> None:
    """Raise a one-line `ParameterError` unless ``condition`` holds.

    Args:
        condition: Whether the value is in range.
        argument: Name of the argument.
        value: Its value as it was given.
        fix: What to give instead.

    Raises:
        ParameterError: The condition does not hold.

    >>> require(0.5 > 0, "scale", 0.5, "use a positive number")
    >>> require(-1 > 0, "scale", -1, "use a positive number")
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: scale=-1 is out of range: use a positive number
    """
    if not condition:
        raise ParameterError("is out of range", argument=argument, value=value, fix=fix)


def require_seed(seed: object) -> None:
    """Raise a one-line `ParameterError` unless ``seed`` is a whole number.

    Args:
        seed: The value of an argument called ``seed``.

    Raises:
        ParameterError: The seed is of another type.

    >>> require_seed(-3)
    >>> require_seed(True)
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: seed=True is out of range: use a whole number
    """
    require(isinstance(seed, Integral) and not isinstance(seed, bool), "seed", seed, "use a whole number")


def is_number(value: object) -> bool:
    """Tell whether a value is a number that comparisons and floats take: a real one, no truth value, not too long.

    Args:
        value: The value.

    >>> is_number(0.5), is_number("x"), is_number(None), is_number(10**400)
    (True, False, False, False)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def require_whole(argument: str, value: object, least: int = 1) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is a whole number from ``least``.

    Args:
        argument: Name of the argument.
        value: Its value as it was given.
        least: The smallest number allowed.

    Raises:
        ParameterError: The value is of another type, or smaller.

    >>> require_whole("epochs", 2.5)
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: epochs=2.5 is out of range: use a whole number from 1
    """
    fits = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    require(fits, argument, value, f"use a whole number from {least}")


def require_instance(value: object, contract: type, argument: str, noun: str, fix: Text) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is an object of a contract; a class of it is told so.

    Args:
        value: The value of the argument.
        contract: Class that the value must be an object of.
        argument: Name of the argument.
        noun: What such an object is called.
        fix: What to give instead of something else.

    Raises:
        ParameterError: The value is a class, or something else.

    >>> require_instance(int, int, "n", "number", "use 1")
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: n=int is a class: write int()
    """
    if isinstance(value, type) and issubclass(value, contract):
        raise ParameterError("is a class", argument=argument, value=value, fix=f"write {value.__name__}()")
    if not isinstance(value, contract):
        raise ParameterError(f"is no {noun}", argument=argument, value=value, fix=fix)


def _parts(text: Text) -> tuple[str | Argument | Value, ...]:
    return (text,) if isinstance(text, str) else text


def _written(text: Text, spell: Callable[[Argument], str]) -> str:
    return "".join(spell(part) if isinstance(part, Argument) else str(part) for part in _parts(text))


def _plain(value: object) -> object:
    """Return a value that any process can unpickle: itself, or the text that shows it."""
    if type(value) in PLAIN or isinstance(value, PurePath):
        return value
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list) and all(_plain(p) is p for p in value):
        return value
    return Shown(shown(value))


def _plain_text(text: Text) -> Text:
    def plain(part: str | Argument | Value) -> str | Argument | Value:
        if isinstance(part, Argument):
            return replace(part, value=_plain(part.value))
        return Value(Shown(part)) if isinstance(part, Value) else part

    return text if isinstance(text, str) else tuple(plain(part) for part in text)


def _restored(kind: type[R2D2NetError], args: tuple[Any, ...], fields: dict[str, Any]) -> R2D2NetError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error
