"""One file has one convention: the rules by which ambiguous number and date formats of a file are settled.

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

from r2d2net.columns.date_formats import date_format_in_words, detect_date_formats
from r2d2net.columns.number_formats import CandidateFormats, detect_number_formats
from r2d2net.columns.raw_columns import RawColumn, RawTable

if TYPE_CHECKING:
    import pandas as pd

IN_WORDS = {".": "decimal points", ",": "decimal commas", "day": "the day first", "month": "the month first"}
DURATIONS_NOTE = "durations are read as seconds"
OTHER_SIGN = {".": ",", ",": "."}


class Rule(NamedTuple):
    """How ambiguous cells are read.

    Attributes:
        reading: "." or ",", "day" or "month" (see `CandidateFormats`); "" if nothing tells.
        reason: For the user.
        firm: Whether unambiguous columns or the user say so.
        told: Whether the user says so.
    """

    reading: str = ""
    reason: str = ""
    firm: bool = False
    told: bool = False


class FormatRules(NamedTuple):
    """The rules of a file."""

    decimal: Rule = Rule()
    dates: Rule = Rule()


NO_RULES = FormatRules()


class ColumnFormat(NamedTuple):
    """What a column's cells are and how they are written.

    Attributes:
        kind: "number" or "date"; "" for categories, and where several formats are possible, so that none is taken.
        format: The number or date format (see `cell_parsing`).
        note: What the user should know of it.
    """

    kind: str
    format: str = ""
    note: str = ""


def detect_format_rules(
    table: pd.DataFrame | RawTable,
    separator: str = "",
    decimal: str = "auto",
    dates: str = "auto",
    skip: Collection[str] = (),
) -> FormatRules:
    """Find how a table's numbers and dates are written.

    Args:
        table: All rows.
        separator: What stands between the fields in the file.
        decimal: The decimal sign that the user told, or "auto".
        dates: "day" or "month" if the user told what comes first, or "auto".
        skip: Columns that are neither numbers nor dates.

    Returns:
        The rules by which ambiguous columns are to be read.
    """
    rows = RawTable.of(table).sample()
    columns = {name: rows[name] for name in rows.names if name not in skip}
    columns = {name: column for name, column in columns.items() if column.first_code() is None}
    numbers, dated = {}, {}
    for name, column in columns.items():
        formats = detect_number_formats(column)
        if formats is not None:
            numbers[name] = formats
        elif dates == "auto" and not column.holds_iso_dates() and (formats := detect_date_formats(column)) is not None:
            dated[name] = formats
    decimal_rule = _told(decimal) or _decimal_rule(numbers, separator)
    return FormatRules(decimal_rule, _told(dates) or _date_rule(dated, decimal_rule))


def choose_number_format(column: RawColumn, rule: Rule) -> ColumnFormat | None:
    """Choose the format of a column of numbers.

    Args:
        column: The column.
        rule: How ambiguous numbers are read.

    Returns:
        The format and what is said of it; None if it is no column of numbers.
    """
    candidates = detect_number_formats(column)
    if candidates is None:
        return None
    name, why = _choose(candidates, rule, "as money has no three decimals")
    name = name or "."
    number_format, values = candidates.readings[name]
    if rule.told and rule.reading != name:
        at = candidates.longest(~np.isnan(values))
        note = f"{candidates.in_words(name, at)}: it is no number with --decimal {rule.reading}"
    elif candidates.ambiguous:
        at, other = candidates.longest(candidates.differing), OTHER_SIGN[name]
        advice = "" if rule.told else f"; --decimal {other} reads {candidates.readings[other].values[at]:.15g}"
        usual = not number_format and rule.firm and not rule.told  # 1.234 beside 1.23
        note = "" if usual else f"{candidates.in_words(name, at)}{why}{advice}"
    else:
        unusual = ~np.isnan(values) & (values != candidates.cells.numbers())
        note = candidates.in_words(name, candidates.longest(unusual)) if unusual.any() else ""
    return ColumnFormat("number", number_format, note)


def choose_date_format(column: RawColumn, rule: Rule) -> ColumnFormat | None:
    """Choose the format of a column of dates that are not ISO 8601.

    Args:
        column: The column.
        rule: How ambiguous dates are read.

    Returns:
        The format and what is said of it, of no kind if nothing settles it; None if it is no column of dates.
    """
    candidates = detect_date_formats(column)
    if candidates is None:
        return None
    name, why = _choose(candidates, rule)
    in_words = {each: date_format_in_words(reading.format) for each, reading in candidates.readings.items()}
    shown = candidates.differing if candidates.ambiguous else ~np.isnan(candidates.readings[name].values)
    cell = repr(candidates.cells.texts[int(np.argmax(shown))])
    if not name:
        options = " or ".join(f"--dates {each}" for each in in_words)
        return ColumnFormat("", "", f"{cell} may be {' or '.join(in_words.values())}: {options} reads it as a date")
    other = next((each for each in in_words if each != name), "") if candidates.ambiguous and not rule.told else ""
    advice = f"; --dates {other} reads it as {in_words[other]}" if other else ""
    note = f"{cell} is read as the date {in_words[name]}{why}{advice}"
    return ColumnFormat("date", candidates.readings[name].format, note)


def detect_column_format(column: RawColumn, rules: FormatRules) -> ColumnFormat:
    """Find what a column's cells are: numbers or dates, plain or in another format, or else categories.

    Args:
        column: The column.
        rules: How ambiguous numbers and dates are read.

    Returns:
        The kind, the format, and what is said of it.
    """
    if column.is_duration:
        return ColumnFormat("number", note=DURATIONS_NOTE)
    code = column.first_code()
    if code is not None:
        return ColumnFormat("", note=f"{code!r} has leading zeros, so it is read as codes, not numbers")
    number_format = choose_number_format(column, rules.decimal)
    if number_format is not None:
        return number_format
    if column.holds_plain_numbers():  # a column of numbers, not texts
        return ColumnFormat("number")
    if column.holds_iso_dates():
        return ColumnFormat("date")
    return choose_date_format(column, rules.dates) or ColumnFormat("")


def _choose(candidates: CandidateFormats, rule: Rule, money_reason: str = "") -> tuple[str, str]:
    """Choose a reading and, if the column is ambiguous, say why; "" if nothing settles it."""
    why = f", {rule.reason}" if candidates.ambiguous and rule.reason else ""
    if rule.told and rule.reading in candidates.readings:
        return rule.reading, ", as told"
    if candidates.settled:
        return candidates.settled, ""
    if rule.firm and rule.reading in candidates.readings:
        return rule.reading, why
    if not candidates.ambiguous:
        return next(iter(candidates.readings)), ""
    if candidates.likelier:
        return candidates.likelier, f", {money_reason}"
    return (rule.reading, why) if rule.reading in candidates.readings else ("", "")


def _told(reading: str) -> Rule | None:
    return None if reading == "auto" else Rule(reading, "as told", firm=True, told=True)


def _decimal_rule(columns: Mapping[str, CandidateFormats], separator: str) -> Rule:
    rule = _vote(columns)
    if rule is not None:
        return rule
    money = next((name for name, candidates in columns.items() if candidates.likelier), None)
    if money is not None:
        sign = columns[money].likelier
        return Rule(sign, f"as the money of {money!r} has {IN_WORDS[sign]}")
    return Rule(",", "as semicolons separate the fields") if separator == ";" else Rule()


def _date_rule(columns: Mapping[str, CandidateFormats], decimal: Rule) -> Rule:
    rule = _vote(columns)
    if rule is not None:
        return rule
    return Rule("day", "as the file has decimal commas") if decimal.firm and decimal.reading == "," else Rule()


def _vote(columns: Mapping[str, CandidateFormats]) -> Rule | None:
    """Return the reading that unambiguous columns agree on; None if no column is unambiguous.

    Each column counts by its evidence. The rule is empty unless the evidence for the first reading is at least twice
    that for the second.
    """
    evidence = {
        name: (candidates.settled, *candidates.evidence())
        for name, candidates in columns.items()
        if candidates.settled in IN_WORDS
    }
    weights = {
        reading: sum(weight for settled, weight, _ in evidence.values() if settled == reading) for reading in IN_WORDS
    }
    first, second = sorted(IN_WORDS, key=lambda reading: -weights[reading])[:2]
    if not weights[first] or weights[first] < 2 * weights[second]:
        return Rule() if weights[first] else None
    strongest = max((name for name in evidence if evidence[name][0] == first), key=lambda name: evidence[name][1])
    return Rule(first, f"as {strongest!r} has {IN_WORDS[first]} ({evidence[strongest][2]!r})", firm=True)
