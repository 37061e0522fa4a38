"""Groups of the columns of a table: each column in exactly one group, by number or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Any

from r2d2net.errors import Argument, ParameterError, Shown, Value, require

MOST_NAMED = 5  # columns that an error names


def checked_groups(groups: Any) -> dict[str, list[int | str]]:
    """Check that groups are lists of columns under names.

    Args:
        groups: The groups as the user gave them.

    Returns:
        The groups, with plain numbers and texts.

    Raises:
        ParameterError: If they are something else, a group is empty, or two have a column in common.
    """
    fix = "give {'genes': [0, 1], 'clinical': [2]}, or names of columns"
    if not isinstance(groups, Mapping) or not groups:
        raise ParameterError("is no mapping from names to columns", argument="groups", value=groups, fix=fix)
    checked: dict[str, list[int | str]] = {}
    owner: dict[int | str, str] = {}
    for name, members in groups.items():
        is_list = isinstance(members, (Sequence, range)) or hasattr(members, "tolist")
        if not is_list or isinstance(members, str):
            problem = (f": {name!r} is ", Value(members), ", no list of columns")
            raise ParameterError(problem, argument="groups", fix=fix)
        own = checked[str(name)] = [_column(name, member) for member in members]
        if not own:
            raise ParameterError((": ", Value(str(name)), " has no columns"), argument="groups", fix="leave it out")
        for column in own:
            if column in owner:
                both = f"{owner[column]!r} and {str(name)!r}" if owner[column] != str(name) else f"{name!r} twice"
                problem = ("have the column ", Value(column), f" in {both}")
                raise ParameterError(problem, argument="groups", fix="put each column into one group")
            owner[column] = str(name)
    return checked


def _column(group: object, member: Any) -> int | str:
    whole = isinstance(member, Integral) and not isinstance(member, bool) and int(member) >= 0
    if not whole and not isinstance(member, str):
        fix = "use whole numbers from 0, or names of columns"
        raise ParameterError((f": {group!r} has the column ", Value(member)), argument="groups", fix=fix)
    return str(member) if isinstance(member, str) else int(member)


def number_of_inputs(groups: Mapping[str, Sequence[int | str]]) -> int | None:
    """Count the inputs of groups of numbers.

    Args:
        groups: Groups without common columns.

    Returns:
        The number; None where columns have names.

    Raises:
        ParameterError: If a number below the largest is in no group.
    """
    members = [column for own in groups.values() for column in own]
    numbers = sorted(column for column in members if isinstance(column, int))
    if len(numbers) < len(members):
        return None
    missing = next((k for k, number in enumerate(numbers) if number != k), None)
    if missing is not None:
        raise ParameterError(("leave out the input ", Value(missing)), argument="groups", fix="put it into a group")
    return len(numbers)


def resolved_groups(
    groups: Mapping[str, Sequence[int | str]], places: Mapping[str, Sequence[int]] | None
) -> dict[str, list[int]]:
    """Replace columns of a table by the inputs of a network that they became.

    Args:
        groups: Groups of columns, by number or name.
        places: The inputs of each column, in the order of the columns; None for inputs that are no table's.

    Returns:
        The inputs of each group.

    Raises:
        ParameterError: If there is no such column, one is in no group, or none of a group became an input.
    """
    if places is None:
        name = next((column for own in groups.values() for column in own if isinstance(column, str)), None)
        if name is not None:
            fix = ("use column numbers, or fit R2D2Regressor or R2D2Classifier to a DataFrame with ", Argument("prior"))
            problem = ("name the column ", Value(name), ", and these inputs have no names")
            raise ParameterError(problem, argument="groups", fix=fix)
        return {name: [int(column) for column in own] for name, own in groups.items()}
    names = list(places)
    resolved: dict[str, list[int]] = {}
    owner: dict[str, str] = {}
    for group, own in groups.items():
        resolved[group] = []
        for column in own:
            name = _name_of(column, names)
            if name in owner:
                problem = ("have the column ", Value(name), f" in {owner[name]!r} and {group!r}")
                raise ParameterError(problem, argument="groups", fix="put each column into one group")
            owner[name] = group
            resolved[group] += places[name]
        if not resolved[group]:
            problem = (": no column of ", Value(group), " is an input, as each is constant, empty or like row numbers")
            raise ParameterError(problem, argument="groups", fix="leave the group out")
    left = [name for name in names if name not in owner and places[name]]
    if left:
        shown = ", ".join(map(repr, left[:MOST_NAMED])) + (
            f" and {len(left) - MOST_NAMED} more" * (len(left) > MOST_NAMED)
        )
        columns = "columns" if len(left) > 1 else "column"
        raise ParameterError(
            (f"leave out the {columns} ", Value(Shown(shown))), argument="groups", fix="put every column into a group"
        )
    return resolved


def _name_of(column: int | str, names: Sequence[str]) -> str:
    if isinstance(column, int):
        require(column < len(names), "groups", column, f"the table has the columns 0 to {len(names) - 1}")
        return names[column]
    if column not in names:
        near = get_close_matches(column, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(map(repr, names[:MOST_NAMED]))}"
        hint += " and others" if not near and len(names) > MOST_NAMED else ""
        raise ParameterError(("name an unknown column, ", Value(column)), argument="groups", fix=hint)
    return column
