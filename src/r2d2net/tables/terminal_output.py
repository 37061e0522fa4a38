"""What the commands print: tables for people, one JSON document for programs, notes on standard error."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from r2d2net.columns.phrases import counted
from r2d2net.run.progress import terminal

MOST_INPUTS = 12
NEEDED = 0.95  # as `shrinkage.relevance.LEVEL`, whose import takes a second


def note_printer(quiet: bool) -> Any:
    """Return a function that prints a line on standard error, or nothing if ``quiet``."""
    if quiet:
        return lambda line: None
    console = Console(stderr=True)
    return lambda line: console.print(Text(line), soft_wrap=True)


@contextmanager
def note_if_slow(say: Callable[[str], None], line: str, seconds: float = 2.0) -> Iterator[None]:
    """Print a line if what is done takes longer than a moment.

    Args:
        say: Prints a line.
        line: The line.
        seconds: The moment.
    """
    timer = threading.Timer(seconds, say, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def progress_bar(what: str, *, verbose: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar.

    Args:
        what: What is being done.
        verbose: Whether the bar is shown on a terminal.

    Yields:
        A function that is given how many are done, of how many.
    """
    console = terminal()
    with Progress(console=console, transient=True, disable=not (verbose and console.is_terminal)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show_json(content: dict[str, Any]) -> None:
    """Print one JSON document on standard output; numbers that are not finite are null."""
    sys.stdout.write(json.dumps(finite(content), indent=2) + "\n")


def finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON cannot represent, by None.

    >>> finite({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def screen() -> Console:
    """Return the console of standard output; a pipe has no width, and folded cells cannot be searched."""
    console = Console()
    if not console.is_terminal:
        console.width = 120
    return console


def show_metrics(metrics: dict[str, Any], target: str, title: str) -> None:
    """Print scores beside those of the best constant and the baselines, and the share of rows that are flagged.

    Args:
        metrics: The metrics (see `scores`).
        target: The target.
        title: Title of the table.
    """
    from r2d2net.report.run_page import LABELS, PERCENT, format_number, score_rows  # predictions need no page

    if "targets" in metrics:
        shared = {name: metrics[name] for name in ("unlike", "unlike_expected")}
        for name, own in metrics["targets"].items():
            show_metrics({**own, **shared}, name, f"{name}: {title}")
        return
    table = Table(title=Text(title), title_justify="left")
    table.add_column("measure")
    table.add_column("this model", justify="right")
    table.add_column("best constant", justify="right")
    baselines = metrics.get("baselines", {})  # runs of earlier versions have none
    for name in baselines:
        table.add_column(name, justify="right")
    shown = [name for name in LABELS if metrics.get(name) is not None]
    for name, line in zip(shown, score_rows(metrics, target), strict=True):
        values = [scores.get(name) for scores in baselines.values()]
        more = ["" if v is None else f"{v:.1%}" if name in PERCENT else format_number(v) for v in values]
        table.add_row(*(Text(cell) for cell in (*line, *more)))
    expected = metrics["unlike_expected"]
    known = f"up to {expected:.0%} expected" if expected else ""  # of small tables, by runs of earlier versions
    table.add_row("rows unlike the training rows", f"{metrics['unlike']:.1%}", known)
    screen().print(table)


def overrun_text(taken: dict[str, Any]) -> str | None:
    """Say where the seconds of a search went that took more than were asked for.

    Args:
        taken: Seconds "asked" and "used", and the "parts" they went into, none of runs of earlier versions.

    Returns:
        The text; None within 5% of what was asked for.

    >>> parts = [{"what": "trials", "seconds": 4.0}, {"what": "fold 1", "seconds": 70.0, "expected": 41.5}]
    >>> print(overrun_text({"asked": 60, "used": 74.0, "parts": parts}))
    14 s more than asked for: fold 1 took 70 s (41.5 s expected), trials 4 s; a fit is never cut short
    """
    over = taken["used"] - taken["asked"]
    parts = [part for part in taken.get("parts", []) if part["seconds"] > 0]
    if over <= 0.05 * taken["asked"] or not parts:
        return None
    words: list[str] = []
    for part in sorted(parts, key=lambda part: -part["seconds"]):
        verb = "" if words else "took "
        estimate = f" ({part['expected']:g} s expected)" if "expected" in part else ""
        words.append(f"{part['what']} {verb}{part['seconds']:g} s{estimate}")
    return f"{over:.2g} s more than asked for: {', '.join(words)}; a fit is never cut short"


def show_verdict(verdict: dict[str, Any] | None) -> None:
    """Print the sentence that compares the model with its baselines, and what it warns of.

    Args:
        verdict: What `verdict.judge` returned; None where there were no test rows, or of runs of earlier versions.
    """
    if verdict is None:
        return
    screen().print(Text(verdict["sentence"][:1].upper() + verdict["sentence"][1:] + "."))
    if verdict["warning"]:
        screen().print(Text(f"Warning: {verdict['warning']}.", style="yellow"))


def show_inputs(inputs: list[dict[str, Any]], most: int = MOST_INPUTS, nothing: str | None = None) -> None:
    """Print the first inputs by rank, with a bar, and the groups of inputs that can stand for each other.

    Args:
        inputs: The inputs by rank.
        most: How many to print.
        nothing: Why no input is kept, where there is a reason.
    """
    table = Table(title=_title(inputs), title_justify="left")
    table.add_column("", justify="right")
    table.add_column("input")
    table.add_column("share ± sd", justify="right")
    table.add_column("")
    table.add_column("")
    largest = max((entry["share"] for entry in inputs), default=0.0) or 1.0
    total = max(1.0, sum(max(0.0, entry["importance"]) for entry in inputs))
    for rank, entry in enumerate(inputs[:most]):
        bar = "█" * round(16 * entry["share"] / largest) or "▏"
        colour = "green" if entry["kept"] else "dim"
        table.add_row(
            str(rank + 1),
            Text(entry["name"]),
            f"{entry['share']:.1%} ± {entry['importance_std'] / total:.1%}",
            Text("kept" if entry["kept"] else "not needed", style=colour),
            Text(bar, style=colour),
        )
    screen().print(table)
    for line in [f"None is kept: {nothing}."] if nothing else group_lines(inputs):
        screen().print(Text(line))


def show_selection(selection: dict[str, Any] | None) -> None:
    """Print which columns were selected.

    Args:
        selection: What `selecting.selected_columns` returned; None where nothing was asked for.
    """
    if selection is not None:
        from r2d2net.tables.selecting import in_words

        words = in_words(selection)
        screen().print(Text(words[:1].upper() + words[1:] + "."))


def group_lines(inputs: list[dict[str, Any]]) -> list[str]:
    """Say of each group with an input that is kept whether the model needs one or more of them.

    Args:
        inputs: The inputs by rank.

    >>> waist = {"name": "waist", "group": ["bmi", "waist"], "probability": 0.1, "kept": False}
    >>> group_lines([{"name": "bmi", "group": ["bmi", "waist"], "probability": 1.0, "kept": True}, waist])
    ['bmi or waist: one of them is needed']
    """
    groups: dict[tuple[str, ...], list[bool]] = {}
    for entry in inputs:
        if entry["group"] and (entry["kept"] or tuple(entry["group"]) in groups):
            groups.setdefault(tuple(entry["group"]), []).append(entry["probability"] >= NEEDED)
    return [
        f"{' or '.join(names)}: one of them is needed"
        if sum(needed) <= 1
        else f"{', '.join(names)}: nearly the same information, of which the model uses {sum(needed)} columns"
        for names, needed in groups.items()
    ]


def _made(content: dict[str, Any]) -> str:
    """Say by which algorithm a posterior was made, or of which models stacking made it."""
    from r2d2net.run.stack_mixture import in_words

    return (
        in_words(content["candidates"])
        if content["candidates"]
        else f"{content['algorithm']}, {content['epochs']} epochs"
    )


def show_inspection(content: dict[str, Any]) -> None:
    """Print the facts of a run, its posterior and its layers.

    Args:
        content: What `inspect_run` returned.
    """
    from r2d2net.report.run_page import format_number

    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = ", ".join(f"{count:,} {name}" for name, count in content["rows"].items())
    effective = content["effective_weights"]
    lines = [
        ("data", f"{content['data']}; rows: {rows}"),
        ("task", f"{content['task']['kind']} of {content['task']['target']}"),
        ("posterior", _made(content) + _kl(content["kl"])),
        (
            "noise",
            None
            if content["noise_sd"] is None
            else f"sd {format_number(content['noise_sd'])} (in units of the {content['noise_of']})",
        ),
        *(
            (f"noise of {name}", f"sd {format_number(value)} (units of {name})")
            for name, value in content.get("noise_sds", {}).items()
        ),
        (
            "weights",
            f"{content['weights']:,}"
            + (
                "" if effective is None else f", of which the data determine {_determined(content)} ({_share(content)})"
            ),
        ),
    ]
    if content.get("pruned"):
        units = [f"{row['after']} of {row['before']}" for row in content["pruned"]]
        lines.append(("units left", ", ".join(units)))
    for name, text in lines:
        if text is not None:
            facts.add_row(Text(name, style="bold"), Text(text))
    screen().print(facts)
    if content["candidates"]:
        _show_models(content["candidates"])
    else:
        _show_layers(content["parameters"])
    if effective is None:
        line = "Draws and point estimates hold no prior variances: of their weights the effective number is not known."
        screen().print(Text(line))


def _show_models(candidates: list[dict[str, Any]]) -> None:
    """Print the models that stacking combined, the heaviest first."""
    from r2d2net.report.run_page import format_number

    table = Table("model", "prior", "algorithm", title="Models of the stack", title_justify="left")
    table.add_column("weight", justify="right")
    table.add_column("log density of rows left out, nats a row", justify="right")
    for entry in sorted(candidates, key=lambda entry: -entry["weight"]):
        score = "not fitted" if entry["score"] is None else format_number(entry["score"])
        table.add_row(Text(entry["name"]), entry["prior"], entry["algorithm"], f"{entry['weight']:.0%}", score)
    screen().print(table)


def _show_layers(layers: list[dict[str, Any]]) -> None:
    """Print the weights by layer; how many the data determine where that is known."""
    is_known = all(layer["effective_weights"] is not None for layer in layers)
    table = Table("parameter", "shape", "prior", title="Weights by layer", title_justify="left")
    table.add_column("weights", justify="right")
    if is_known:
        table.add_column("effective", justify="right")
    for layer in layers:
        shape = " x ".join(map(str, layer["shape"]))
        shown = [f"{layer['effective_weights']:.1f}"] if is_known else []
        table.add_row(layer["parameter"], shape, Text(layer["prior"]), f"{layer['weights']:,}", *shown)
    screen().print(table)


def show_columns(columns: list[dict[str, str]], most: int) -> None:
    """Print how the columns of the table were read.

    Args:
        columns: What `columns_in_words` returned.
        most: How many to print.
    """
    table = Table("column", "kind", "how it was read", title="Columns of the table", title_justify="left")
    for column in columns[:most]:
        table.add_row(Text(column["name"]), column["kind"], Text(column["read"]))
    if len(columns) > most:
        table.add_row("", "", f"and {counted(len(columns) - most, 'more column')}: --inputs shows more")
    screen().print(table)


def _title(inputs: list[dict[str, Any]]) -> str:
    kept = sum(bool(entry["kept"]) for entry in inputs)
    return f"Inputs by their share in the importance; {kept} of {len(inputs)} kept"


def _kl(kl: float | None) -> str:
    from r2d2net.report.run_page import format_number

    return (
        "" if kl is None else f", {format_number(kl)} nats from the prior (KL divergence: what the data have taught it)"
    )


def _determined(content: dict[str, Any]) -> str:
    """Return the effective number of weights, and that it is a bound where it was reduced to the number of rows."""
    effective, rows = content["effective_weights"], content["training_rows"]
    bounded = rows is not None and math.isclose(effective, rows, rel_tol=1e-9)
    return f"at most {rows:,}, one a training row" if bounded else f"{effective:.1f}"


def _share(content: dict[str, Any]) -> str:
    return f"{content['effective_weights'] / content['weights']:.0%}"
