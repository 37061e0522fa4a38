"""Errors in the words of the command line: arguments of the library as options, wrong values of options by their type.

batch_size=10: HMC takes all rows in every step        in Python
--batch-size 10: HMC takes all rows in every step      here
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import chain, pairwise
from typing import Any, get_args, get_origin, get_type_hints

from typer.models import ParameterInfo

from r2d2net.errors import ABSENT, LONGEST, Argument, ParameterError, as_keyword, shown


def command_of(root: Any, words: Sequence[str]) -> Any:
    """Return the command that the words of a command line call.

    Args:
        root: The group of all commands.
        words: The command line without the name of the program.
    """
    command = root
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return command


def as_option(command: Any) -> Callable[[Argument], str]:
    """Return the way in which arguments are spelled as options of a command; those it does not have stay keywords.

    Args:
        command: A command of typer.
    """
    names = {parameter.name: _name_on_the_line(parameter) for parameter in command.params}

    def spell(argument: Argument) -> str:
        if argument.name not in names:
            return as_keyword(argument)
        flag = argument.value is ABSENT or argument.value is True
        return names[argument.name] if flag else f"{names[argument.name]} {as_word(argument.value)}"

    return spell


def as_word(value: object) -> str:
    """Return a value as it is typed on a command line.

    >>> as_word("auto"), as_word((50, 50)), as_word(0.1), as_word("")
    ('auto', '50,50', '0.1', "''")
    """
    if isinstance(value, (list, tuple)):
        value = ",".join(str(part) for part in value)
    if not isinstance(value, str):
        return shown(value)
    return value if 0 < len(value) <= LONGEST else repr(value[:LONGEST])


def usage_line(error: Any, words: Sequence[str]) -> str:
    """Return what is wrong with a command line: the option, its value and the fix, or typer's own words.

    Args:
        error: The usage error that typer raised.
        words: The command line without the name of the program.
    """
    parameter: Any = getattr(error, "param", None)
    split = [word.split("=", 1) if word.startswith("--") else [word] for word in words]
    options = getattr(parameter, "opts", [])
    values = [value for option, value in pairwise(chain.from_iterable(split)) if option in options]
    fault = _fault(error.ctx.command, parameter.name, values[-1]) if values and error.ctx is not None else None
    return str(error.format_message()).rstrip(".") if fault is None else fault.render(as_option(error.ctx.command))


def _name_on_the_line(parameter: Any) -> str:
    long = [option for option in parameter.opts if option.startswith("--")]
    return long[0] if long else (parameter.metavar or parameter.name.upper()).rstrip(".")


def _fault(command: Any, name: str, value: str) -> ParameterError | None:
    """What is wrong with the value of an option, by the type that the command's function declares for it."""
    hint = get_type_hints(inspect.unwrap(command.callback), include_extras=True)[name]
    kinds = [kind for kind in _kinds(hint) if isinstance(kind, type)]
    limits = next((part for part in get_args(hint) if isinstance(part, ParameterInfo)), None)

    def fault(problem: str, fix: str) -> ParameterError:
        return ParameterError(problem, argument=name, value=value, fix=fix)

    for kind in kinds:
        if issubclass(kind, Enum):
            return fault("is no choice", f"use one of {', '.join(str(member.value) for member in kind)}")
        if kind in (int, float):
            try:
                kind(value)
            except ValueError:
                whole = fault("is no whole number", "give one")
                return whole if kind is int else fault("is no number", "give one, with a decimal point")
            return fault("is out of range", _range(limits.min, limits.max)) if limits is not None else None
    return None


def _kinds(hint: Any) -> list[Any]:
    """The types of which a hint is made, without None: ``Annotated[list[int] | None, ...]`` has int.

    >>> _kinds(int | None)
    [<class 'int'>]
    """
    if get_origin(hint) is None:
        return [] if hint is type(None) else [hint]
    inner = get_args(hint)[:1] if hasattr(hint, "__metadata__") else get_args(hint)
    return [kind for part in inner for kind in _kinds(part)]


def _range(least: float | None, most: float | None) -> str:
    """What to give for a number out of range.

    >>> _range(0, 9), _range(1, None)
    ('use a number from 0 to 9', 'use a number from 1')
    """
    low = "" if least is None else f" from {least}"
    high = "" if most is None else f" to {most}" if low else f" up to {most}"
    return f"use a number{low}{high}"
