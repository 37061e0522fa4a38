"""One file has one convention: what its clear columns tell of how to read the doubtful ones.

Whether 9.569 is about ten or about ten thousand is settled, where the cells of the column do not settle it, by

1. what the user tells: `--decimal`;
2. the columns that can be read in one way only, such as 3,75, each by its share of cells that say so;
3. money, which has no three decimals: first in the column itself, then in others;
4. semicolons between the fields, which mean decimal commas;
5. else it has decimal points.

Whether 03/04/2020 is in March or April is settled by `--dates`, then by other dates, then by decimal commas: who writes
those puts the day first. Else it stays open, and the column is no date.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.tables.cells import READABLE, days, is_empty, numbers
from r2d2net.tables.number_formats import Spelling, date_spelling, leading_zeros, number_spelling, spelt_out, spread

if TYPE_CHECKING:
    import pandas as pd

ROWS = 1000  # of a long table so many are looked at
MARKS = {".": "decimal points", ",": "decimal commas", "day": "the day first", "month": "the month first"}
SECONDS = "durations are read as seconds"
OTHER = {".": ",", ",": "."}


class Rule(NamedTuple):
    """How doubtful cells are read.

    Attributes:
        way: "." or ",", "day" or "month" (see `Spelling`); "" if nothing tells.
        why: For the user.
        firm: Whether clear columns or the user say so.
        told: Whether the user says so.
    """

    way: str = ""
    why: str = ""
    firm: bool = False
    told: bool = False


class Convention(NamedTuple):
    """The rules of a file."""

    decimal: Rule = Rule()
    dates: Rule = Rule()


UNKNOWN = Convention()


class Form(NamedTuple):
    """How a column's cells are written.

    Attributes:
        kind: "number" or "date"; "" where several forms are possible, so that none is taken.
        form: See `spelling`.
        said: For the user.
    """

    kind: str
    form: str
    said: str


def find_convention(
    table: pd.DataFrame, separator: str = "", decimal: str = "auto", dates: str = "auto", skip: Collection[str] = ()
) -> Convention:
    """What a table tells of how its numbers and dates are written.

    Args:
        table: All rows.
        separator: What stands between the fields in the file.
        decimal: The sign that the user told, or "auto".
        dates: "day" or "month" if the user told what comes first, or "auto".
        skip: Columns that are neither numbers nor dates.
    """
    rows = table.iloc[spread(len(table), ROWS)]
    columns = {str(name): rows[name] for name in rows.columns if str(name) not in skip}
    columns = {name: column for name, column in columns.items() if leading_zeros(column) is None}
    counted = {name: found for name, column in columns.items() if (found := number_spelling(column)) is not None}
    sign = _told(decimal) or _decimal_rule(counted, separator)
    others = {name: column for name, column in columns.items() if name not in counted and not is_iso(column)}
    dated = {name: found for name, column in others.items() if (found := date_spelling(column)) is not None}
    return Convention(sign, _told(dates) or _date_rule(dated, sign))


def number_form(column: pd.Series, rule: Rule) -> Form | None:
    """The form of a column of numbers; None if it is no such column."""
    spelling = number_spelling(column)
    if spelling is None:
        return None
    way, why = _chosen(spelling, rule, "as money has no three decimals")
    way = way or "."
    form, values = spelling.ways[way]
    if rule.told and rule.way != way:
        at = spelling.longest(~np.isnan(values))
        return Form("number", form, f"{spelling.read_as(way, at)}: it is no number with --decimal {rule.way}")
    if spelling.doubtful:
        at = spelling.longest(spelling.differing)
        advice = "" if rule.told else f"; --decimal {OTHER[way]} reads {spelling.values(OTHER[way])[at]:.15g}"
        settled = not form and rule.firm and not rule.told  # 1.234 beside 1.23: nothing unusual
        return Form("number", form, "" if settled else f"{spelling.read_as(way, at)}{why}{advice}")
    unusual = ~np.isnan(values) & (values != numbers(spelling.cells))
    return Form("number", form, spelling.read_as(way, spelling.longest(unusual)) if unusual.any() else "")


def date_form(column: pd.Series, rule: Rule) -> Form | None:
    """The form of a column of dates that are not ISO 8601; None if it is no such column."""
    spelling = date_spelling(column)
    if spelling is None:
        return None
    way, why = _chosen(spelling, rule)
    forms = {name: spelt_out(one.form) for name, one in spelling.ways.items()}
    at = int(np.argmax(spelling.differing)) if spelling.doubtful else int(np.argmax(~np.isnan(spelling.values(way))))
    cell = repr(spelling.cells.iloc[at])
    if not way:
        how = " or ".join(f"--dates {name}" for name in forms)
        return Form("", "", f"{cell} may be {' or '.join(forms.values())}: {how} reads it as a date")
    other = next((name for name in forms if name != way), "") if spelling.doubtful and not rule.told else ""
    advice = f"; --dates {other} reads it as {forms[other]}" if other else ""
    return Form("date", spelling.ways[way].form, f"{cell} is read as the date {forms[way]}{why}{advice}")


def is_iso(column: pd.Series) -> bool:
    """Whether a column holds dates of ISO 8601, or moments of time."""
    there = ~np.isnan(days(column))
    return 0 < int(there.sum()) >= READABLE * int((~is_empty(column)).sum())


def is_duration(column: pd.Series) -> bool:
    """Whether a column holds spans of time, as Parquet has them."""
    import pandas as pd

    return bool(pd.api.types.is_timedelta64_dtype(column))


def _chosen(spelling: Spelling, rule: Rule, hinted: str = "") -> tuple[str, str]:
    """The way to read a column and, if it is doubtful, why; "" if nothing settles it."""
    why = f", {rule.why}" if spelling.doubtful and rule.why else ""
    if rule.told and rule.way in spelling.ways:
        return rule.way, ", as told"
    if spelling.own:
        return spelling.own, ""
    if rule.firm and rule.way in spelling.ways:
        return rule.way, why
    if not spelling.doubtful:
        return next(iter(spelling.ways)), ""
    if spelling.hint:
        return spelling.hint, f", {hinted}"
    return (rule.way, why) if rule.way in spelling.ways else ("", "")


def _told(way: str) -> Rule | None:
    return None if way == "auto" else Rule(way, "as told", firm=True, told=True)


def _decimal_rule(found: Mapping[str, Spelling], separator: str) -> Rule:
    clear = _vote(found)
    if clear is not None:
        return clear
    money = next((name for name, one in found.items() if one.hint), None)
    if money is not None:
        return Rule(found[money].hint, f"as the money of {money!r} has {MARKS[found[money].hint]}")
    return Rule(",", "as semicolons separate the fields") if separator == ";" else Rule()


def _date_rule(found: Mapping[str, Spelling], sign: Rule) -> Rule:
    clear = _vote(found)
    if clear is not None:
        return clear
    return Rule("day", "as the file has decimal commas") if sign.firm and sign.way == "," else Rule()


def _vote(found: Mapping[str, Spelling]) -> Rule | None:
    """What clear columns say, if it is twice as much as what they say against it; None if there are none."""
    clear = {name: (one.own, *one.evidence()) for name, one in found.items() if one.own in MARKS}
    weights = {way: sum(weight for own, weight, _ in clear.values() if own == way) for way in MARKS}
    first, second = sorted(MARKS, key=lambda way: -weights[way])[:2]
    if not weights[first] or weights[first] < 2 * weights[second]:
        return Rule() if weights[first] else None
    name = max((name for name in clear if clear[name][0] == first), key=lambda name: clear[name][1])
    return Rule(first, f"as {name!r} has {MARKS[first]} ({clear[name][2]!r})", firm=True)
