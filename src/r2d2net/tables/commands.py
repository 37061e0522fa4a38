"""The commands `r2d2net fit | predict | explain | evaluate | inspect`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from r2d2net.columns.phrases import counted, listed
from r2d2net.errors import Argument, ParameterError, Shown
from r2d2net.options import Json, Quiet
from r2d2net.registry import (
    ACTIVATIONS,
    ALGORITHMS,
    FOR_CLASSES,
    FOR_LINEAR_PATH,
    FOR_ONE_LAYER,
    NUMBERS,
    PRIORS,
    SUITABLE_PRIORS,
)

app = typer.Typer()

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run of `r2d2net fit`.", show_default=False)]
Seed = Annotated[
    int | None, typer.Option(help="Seed of the posterior draws; by default the run's.", show_default=False)
]
Level = Annotated[
    float | None, typer.Option(help="Level of the intervals; by default the run's, 0.9.", show_default=False)
]
Draws = Annotated[
    int | None, typer.Option(help="Networks drawn from the posterior; by default the run's, 100.", show_default=False)
]
SAFE_CSV = typer.Option(
    "--safe-csv",
    help="Put an apostrophe before texts in CSV that spreadsheets take for formulas (= + - @ at the start).",
    show_default=False,
)
SafeCsv = Annotated[bool, SAFE_CSV]
STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")  # what is printed there without -o, too
SEVERAL = ", by commas; may be given several times."


def _text(text: str) -> Any:
    return typer.Option(help=text, show_default=False)


def _names(choices: Iterable[str], default: str) -> str:
    """List the choices of an option for its help text."""
    return ", ".join(f"{name} (default)" if name == default else name for name in choices)


def _restrictions() -> str:
    """Say which algorithms do not suit every task and network, and which do not suit every prior."""
    groups = {
        priors: [name for name in SUITABLE_PRIORS if SUITABLE_PRIORS[name] == priors]
        for priors in SUITABLE_PRIORS.values()
    }
    needs = "; ".join(
        f"{listed(names, 'and')} {'need' if len(names) > 1 else 'needs'} --prior {listed(priors, 'or')}"
        for priors, names in groups.items()
    )
    one_layer = f"{listed(FOR_ONE_LAYER, 'and')} for --hidden 0"
    path = f"{listed(FOR_LINEAR_PATH, 'and')} for numbers, with a linear path beside the hidden layers"
    return f"{listed(FOR_CLASSES, 'and')} are for classes, {one_layer}, {path}. {needs}."


@app.command()
def fit(
    data: Annotated[Path | None, typer.Argument(help="CSV or Parquet file.", show_default=False)] = None,
    target: Annotated[str | None, _text("Column to predict, or several of numbers by commas.")] = None,
    task: Annotated[str | None, _text("auto (default), regression, binary, multiclass or ordinal.")] = None,
    prior: Annotated[
        str | None,
        _text(
            "By default several models, linear ones and networks, are combined by stacking; this option, or another "
            f"that is about one model, fits one. {_names(PRIORS, default='r2d2')}; or auto: validation rows choose "
            "between two adaptive ones."
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        _text(f"{_names(ALGORITHMS, default='svgi')}; or auto: exact or by chains where affordable. {_restrictions()}"),
    ] = None,
    hidden: Annotated[str | None, _text("Widths of the hidden layers (50,50); 0 is a linear model.")] = None,
    activation: Annotated[str | None, _text(f"{_names(ACTIVATIONS, default='relu')}.")] = None,
    time: Annotated[
        float | None,
        _text(
            "Seconds from the start for the search among models: those that are not expected to end in time are "
            "skipped, all but one; less than 60 leave out the choice of the likelihood. Relevances and baselines come "
            "on top."
        ),
    ] = None,
    epochs: Annotated[int | None, _text("Passes over the rows; by default about 1,000 steps.")] = None,
    batch_size: Annotated[int | None, _text("Rows of a step; by default chosen from their number.")] = None,
    patience: Annotated[int | None, _text("Stop after so many epochs without progress on validation rows.")] = None,
    restarts: Annotated[int | None, _text("Fits from so many starts; validation rows choose (1).")] = None,
    validation: Annotated[float | None, _text("Share of the rows for validation (0.1).")] = None,
    test: Annotated[float | None, _text("Share of the rows for the test (0.2).")] = None,
    split: Annotated[str | None, _text("Test rows: random (default), or time, the last rows by date.")] = None,
    split_column: Annotated[str | None, _text("Column of dates or numbers by which --split time orders rows.")] = None,
    draws: Annotated[int | None, _text("Networks drawn from the posterior for a prediction (100).")] = None,
    level: Annotated[float | None, _text("Level of the intervals (0.9).")] = None,
    categorical: Annotated[list[str] | None, _text(f"Columns of numbers that are categories{SEVERAL}")] = None,
    ignore: Annotated[list[str] | None, _text(f"Columns to leave out{SEVERAL}")] = None,
    keep: Annotated[list[str] | None, _text(f"Columns to use even if they look like row numbers{SEVERAL}")] = None,
    decimal: Annotated[
        str | None, _text("Sign of decimals, . or , where numbers may be read in both ways (auto, by other columns).")
    ] = None,
    dates: Annotated[
        str | None, _text("day or month: what comes first in dates such as 03/04/2020 (auto, by other columns).")
    ] = None,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines",
            help="Compare with ridge or logistic regression and boosted trees on test rows (default), or not.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, _text("The run folder (run).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run in that folder.")] = False,
    config: Annotated[Path | None, _text("JSON or TOML file of these options; the command line wins.")] = None,
    resume: Annotated[Path | None, _text("Go on with the interrupted run of this folder.")] = None,
    likelihood: Annotated[
        str | None,
        _text(
            f"Law of a numeric target: {listed(NUMBERS, 'or')}; auto (default): rows left out choose where several "
            "models are combined, gaussian otherwise. Any but auto asks for --task regression."
        ),
    ] = None,
    calibrate: Annotated[
        bool | None,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Calibrate intervals by the rows that stacking leaves out, where they are 100 or more (default).",
            show_default=False,
        ),
    ] = None,
    ordinal: Annotated[
        str | None, _text("Levels of a target of ordered classes, from the lowest: low,medium,high.")
    ] = None,
    select: Annotated[
        bool | None,
        typer.Option(
            "--select/--no-select",
            help="Select the columns on which the target depends, with a bound on the share of false ones (not by "
            "default: for classes it fits five linear models and five networks more).",
            show_default=False,
        ),
    ] = None,
    fdr: Annotated[
        float | None,
        _text("Bound on the expected share of false columns among the selected ones (0.1); means --select."),
    ] = None,
    prune: Annotated[
        bool | None,
        typer.Option(
            "--prune/--no-prune",
            help="Fit one model and cut the hidden units that it does not need: the log density of validation rows "
            "stays within one standard error (not by default).",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int | None, _text("Seed of split, training and draws (0).")] = None,
    safe_csv: Annotated[bool | None, SAFE_CSV] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a Bayesian network to a table and write a run folder with model, metrics, figures and report.html.

    For example `r2d2net fit houses.csv --target price --out run`, and after an interruption `r2d2net fit --resume run`.
    """
    arguments = dict(locals())
    from r2d2net.ranks.opening import is_world
    from r2d2net.tables.fitting import fit_table, resume_table
    from r2d2net.tables.rank_help import STACKED, help_to_fit, help_to_resume, is_helper
    from r2d2net.tables.settings import Settings, path_of, read_config
    from r2d2net.tables.terminal_output import note_printer

    known = tuple(field.name for field in fields(Settings) if field.name != "stacked")
    options = {name: arguments[name] for name in known if arguments[name] not in (None, [])}
    say = note_printer(quiet)
    if resume is not None:
        if options or config or overwrite or out:
            wrong = next(iter([*options, *(["config"] if config else []), *(["out"] if out else []), "overwrite"]))
            problem = ("cannot be given with ", Argument("resume"))
            raise ParameterError(problem, argument=wrong, fix="the run has its settings")
        if is_helper():
            help_to_resume(resume, data)
            return
        worked = resume_table(resume, data, verbose=not quiet, say=say)
        _show_fit(resume, json=json, quiet=quiet, worked=worked)
        return
    given = read_config(config, (*known, "data", "out")) if config is not None else {}
    file, folder = given.pop("data", None), given.pop("out", None)
    source = data if data is not None else None if file is None else path_of("data", file)
    if source is None:
        fix = ("give a CSV or Parquet file, or ", Argument("resume", Shown("RUN")))
        raise ParameterError("is missing", argument="data", fix=fix)
    place = out if out is not None else Path("run") if folder is None else path_of("out", folder)
    settings = Settings.of({**given, **options})
    if is_helper():
        help_to_fit(source, settings)
        return
    if settings.stacked and is_world():
        say(STACKED)
    fit_table(source, place, settings, overwrite=overwrite, verbose=not quiet, say=say)
    _show_fit(place, json=json, quiet=quiet)


def _show_fit(folder: Path, *, json: bool, quiet: bool, worked: bool = True) -> None:
    """Show the results in a run's folder; ``worked`` says whether they have just come there."""
    from r2d2net.tables import run_folder, terminal_output
    from r2d2net.tables.inspecting import nothing_kept, relevance_of_run
    from r2d2net.tables.prediction_task import Task

    content = run_folder.read_run(folder)
    task = Task.of(content.get("task"))
    results = run_folder.read_json(folder / run_folder.METRICS)
    inputs = relevance_of_run(folder)
    if json:
        kept = {name: content[name] for name in ("task", "rows", "settings", "notes", "data")}
        report = str(folder / run_folder.REPORT)
        terminal_output.show_json({"run": str(folder), **kept, **results, "inputs": inputs, "report": report})
    if json or quiet:
        return
    if results.get("test"):
        terminal_output.show_metrics(results["test"], task.target, counted(results["test"]["rows"], "test row"))
    terminal_output.show_verdict(results.get("verdict"))
    terminal_output.show_inputs(inputs, nothing=nothing_kept(folder))
    terminal_output.show_selection(results.get("selection"))
    end = "wrote" if worked else "it was finished already, and its report is"
    taken = (results.get("posterior") or {}).get("time")
    of_time = "" if taken is None else f" (the models {taken['used']:g} s of {taken['asked']:g} s asked for)"
    if taken is not None and (why := terminal_output.overrun_text(taken)) is not None:
        typer.echo(why)
    typer.echo(f"fitted in {results.get('seconds', 0):g} s{of_time}; {end} {folder / run_folder.REPORT}")


@app.command()
def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file with the columns of the training table.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="CSV or Parquet file; by default CSV is printed.")
    ] = None,
    level: Level = None,
    keep: Annotated[list[str] | None, _text(f"Columns to copy beside the predictions{SEVERAL}")] = None,
    draws: Draws = None,
    seed: Seed = None,
    safe_csv: SafeCsv = False,
    json: Annotated[
        bool, typer.Option("--json", help="A JSON document a row, or with -o one of counts; notes on standard error.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a file, for example `r2d2net predict run new.csv -o predictions.csv`.

    Of numbers: mean, sd and the ends of the interval (low, high). Of classes: the most probable one, the probability of
    each, and the entropy in nats. Typicality is the share of rows like the training rows that lie as far out; rows of
    1% or less are flagged as unlike. Filled counts the cells of a row that had to be filled in. With --json and no -o
    the predictions are JSON, a line a row.
    """
    from rich.console import Console

    from r2d2net.tables import terminal_output
    from r2d2net.tables.predicting import predict_file
    from r2d2net.tables.run_folder import load_run

    _require(level, draws, seed)
    if out is not None and os.path.abspath(out) in STDOUT:
        out = None
    fitted = load_run(run)
    console = Console(stderr=True)
    with console.status("predicting", spinner="dots") as status:
        visible = console.is_terminal and not quiet
        if not visible:
            status.stop()
        summary = predict_file(
            fitted,
            data,
            out,
            sys.stdout,
            form="lines" if json else "csv",
            safe=safe_csv,
            level=level,
            keep=tuple(keep or ()),
            draws=draws,
            seed=seed,
            progress=lambda rows: status.update(f"predicted {counted(rows, 'row')}"),
        )
    say = terminal_output.note_printer(quiet)
    for note in summary.notes:
        say(note)
    flagged = _share(summary.unlike / summary.rows)
    rows = counted(summary.rows, "row")
    say(f"{rows} predicted; {summary.unlike:,} flagged as unlike the training rows ({flagged})")
    if out is not None:
        if json:
            counts = {"rows": summary.rows, "unlike": summary.unlike, "filled": summary.filled}
            terminal_output.show_json({**counts, "notes": summary.notes, "output": str(out)})
        elif not quiet:
            typer.echo(f"wrote {out}")


@app.command()
def explain(
    run: Run,
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file with the columns of the training table.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="HTML page to write; by default tables are printed.")
    ] = None,
    target: Annotated[str | None, _text("Of several targets the one to explain; by default the first.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, max=200, help="How many rows to explain, from the first.")] = 20,
    level: Level = None,
    draws: Draws = None,
    seed: Seed = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain single predictions, for example `r2d2net explain run new.csv --out page.html`.

    For each row: how much each input moves the prediction away from the average, with an interval over the posterior.
    What the inputs contribute adds up to the prediction minus the average. Of classes the probability of the predicted
    one is explained.
    """
    from r2d2net.tables import explanation_output, terminal_output
    from r2d2net.tables.explaining import explain_file
    from r2d2net.tables.run_folder import load_run

    _require(level, draws, seed)
    if out is not None:
        explanation_output.require_page(out)
    fitted = load_run(run)
    with terminal_output.progress_bar("rows", verbose=not quiet) as progress:
        explanation, notes = explain_file(
            fitted, data, rows=rows, target=target, level=level, draws=draws, seed=seed, progress=progress
        )
    say = terminal_output.note_printer(quiet)
    for note in notes:
        say(note)
    if out is not None:
        explanation_output.write_explanation(out, explanation, notes)
    if json:
        page = {} if out is None else {"output": str(out)}
        terminal_output.show_json({**explanation, "notes": notes, **page})
    elif out is None and not quiet:
        explanation_output.show_explanation(explanation)
    elif out is not None and not quiet:
        typer.echo(f"wrote {out}")


def _share(flagged: float) -> str:
    from r2d2net.tables.novelty import ALARM

    return f"{flagged:.1%}; up to {ALARM:.0%} expected of rows like them"


@app.command()
def evaluate(
    run: Run,
    data: Annotated[
        Path, typer.Argument(help="CSV or Parquet file with the columns of the training table and the target.")
    ],
    level: Level = None,
    draws: Draws = None,
    seed: Seed = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a run's predictions of a file with known targets, for example `r2d2net evaluate run test.csv`."""
    from r2d2net.tables import terminal_output
    from r2d2net.tables.evaluating import evaluate_file
    from r2d2net.tables.run_folder import load_run

    _require(level, draws, seed)
    fitted = load_run(run)
    metrics, notes = evaluate_file(fitted, data, level=level, draws=draws, seed=seed)
    say = terminal_output.note_printer(quiet)
    for note in notes:
        say(note)
    if json:
        terminal_output.show_json({"run": str(run), "data": str(data), "notes": notes, **metrics})
    elif not quiet:
        terminal_output.show_metrics(metrics, fitted.task.target, f"{counted(metrics['rows'], 'row')} of {data.name}")
        terminal_output.show_verdict(metrics["verdict"])


@app.command()
def inspect(
    run: Run,
    most: Annotated[int, typer.Option("--inputs", min=1, help="How many inputs and columns to show.")] = 20,
    seed: Seed = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show prior, posterior, effective number of weights and inputs kept, for example `r2d2net inspect run`.

    Of several models it shows their weights and priors. The effective number counts a weight by 1 - posterior variance
    / prior variance: 0 where it follows its prior, 1 where the data determine it. Several models, point estimates,
    samplers and ensembles have none. The KL divergence says in nats how
    far the posterior lies from the prior. The seed is that of draws of the noise, which only samplers need.
    """
    from r2d2net.tables import terminal_output
    from r2d2net.tables.inspecting import inspect_run
    from r2d2net.tables.run_folder import load_run

    _require(None, None, seed)
    content = inspect_run(load_run(run), seed)
    if json:
        terminal_output.show_json(content)
    elif not quiet:
        terminal_output.show_inspection(content)
        terminal_output.show_inputs(content["inputs"], most, content["nothing_kept"])
        terminal_output.show_columns(content["columns"], most)


def _require(level: float | None, draws: int | None, seed: int | None) -> None:
    from r2d2net.tables.settings import PARSERS

    for name, value in (("level", level), ("draws", draws), ("seed", seed)):
        if value is not None:
            PARSERS[name](name, value)
