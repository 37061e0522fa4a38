"""`r2d2net fit`: from a file to a run folder, and on from where an interruption left it.

Settings are written first, then the fit keeps checkpoints in the folder, and all that follows is worked out from the
fitted model. A run that was killed at any moment so ends where one left alone ends.
"""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from r2d2net.columns.input_columns import Columns
from r2d2net.columns.phrases import counted
from r2d2net.errors import (
    Argument,
    CheckpointError,
    DataError,
    DivergenceError,
    FitWarning,
    Interrupted,
    R2D2NetError,
    RankError,
)
from r2d2net.estimators.perceptron import RELEVANCE_DRAWS, RELEVANCE_ROWS, SHUFFLES
from r2d2net.files import make_folder, replace_when_written, write_json
from r2d2net.folder_lock import require_free, writing
from r2d2net.likelihoods import LogNormal, Ordinal
from r2d2net.posterior import Posterior
from r2d2net.provenance import provenance
from r2d2net.ranks.opening import is_world, work_apart
from r2d2net.report.run_page import posterior_text, write_run_page
from r2d2net.run.health import found_nothing
from r2d2net.run.threads import one_thread
from r2d2net.shrinkage import input_relevance
from r2d2net.tables import effects, run_folder
from r2d2net.tables.background import learn_background, save_background
from r2d2net.tables.baselines import fit_baselines
from r2d2net.tables.file_reader import digest
from r2d2net.tables.novelty import ALARM, Novelty, is_unlike, learn_novelty
from r2d2net.tables.pair_effects import pair_effects_of
from r2d2net.tables.prediction_columns import NUMBER_COLUMNS, prediction_columns
from r2d2net.tables.prediction_writer import escaped
from r2d2net.tables.pruning import WHOLE, prune_model
from r2d2net.tables.row_checks import FILE as CHECKS
from r2d2net.tables.row_checks import checks_of
from r2d2net.tables.scores import Scored, constant_losses, losses_of
from r2d2net.tables.selecting import selected_columns
from r2d2net.tables.settings import Settings
from r2d2net.tables.table_models import TableClassifier, TableRegressor, fit_model, model_for
from r2d2net.tables.target_scores import TargetScores, baselines_of
from r2d2net.tables.terminal_output import note_if_slow, progress_bar
from r2d2net.tables.training_table import TrainingTable, read_training_table
from r2d2net.tables.validation import (
    require_likelihood,
    require_no_spreadsheet,
    require_one_target,
    require_suitable,
    require_target,
)
from r2d2net.tables.verdict import CONSTANT, judge

Say = Callable[[str], None]
LARGE_FILE = 1 << 18  # bytes from which reading and fitting may take a while
FEW = 5  # inputs that do not count as many
ANEW = ("fit anew with ", Argument("overwrite"))
AFTER_DIVERGENCE = (
    "use another ",
    Argument("algorithm"),
    " or ",
    Argument("seed"),
    ", a larger ",
    Argument("batch_size"),
    ", or look for extreme values in columns",
)


def fit_table(data: Path, folder: Path, settings: Settings, *, overwrite: bool, verbose: bool, say: Say) -> None:
    """Fit a network to a file and write the run folder.

    Args:
        data: CSV or Parquet file.
        folder: The run folder, new or empty unless ``overwrite``.
        settings: All that decides the fit besides the table.
        overwrite: Whether a run in the folder is replaced.
        verbose: Whether progress is shown.
        say: Is given a line for each thing the user should know.

    Raises:
        DataError: The file cannot be used.
        ParameterError: Settings do not suit the file or each other.
    """
    begun = time.monotonic()
    require_free(folder)
    run_folder.require_new(folder, overwrite=overwrite)
    require_no_spreadsheet(data)
    with _said(say, data, f"reading {data.name} ..."):
        table = read_training_table(data, settings)
    require_suitable(settings, table.task)
    if table.task.is_regression:
        for part in table.each:
            require_target(part.task.target, np.concatenate([part.y, part.y_test]))
    require_one_target(settings, table.task)
    require_likelihood(settings, table.task, np.concatenate([table.y, table.y_test]))
    content = {
        "format": run_folder.FORMAT,
        "state": "fitting",
        "data": {"file": data.name, "path": str(data.resolve()), "sha256": digest(data)},
        "rows": table.rows,
        "task": table.task.plain(),
        "columns": table.columns.plain(),
        "notes": table.notes,
        "baseline": baselines_of(table.task, table.y),
        **provenance(settings.plain(), settings.seed),
    }
    make_folder(folder, "out")
    try:
        with writing(folder):
            run_folder.require_new(folder, overwrite=overwrite)  # another fit may have begun in the meantime
            run_folder.begin(folder)
            try:
                with _going_on(folder):
                    run_folder.write_run(folder, content)
                    _fit(folder, content, table, settings, verbose, say, begun)
            except (CheckpointError, Interrupted, RankError):
                raise
            except R2D2NetError:
                run_folder.give_up(folder)
                raise
    finally:
        if run_folder.is_empty(folder):
            with suppress(OSError):  # another fit may begin in it just now
                folder.rmdir()


def resume_table(folder: Path, data: Path | None, *, verbose: bool, say: Say) -> bool:
    """Go on with an interrupted run.

    Args:
        folder: The run folder.
        data: The file that the run began with, if it lies elsewhere now.
        verbose: Whether progress is shown.
        say: Is given a line for each thing the user should know.

    Returns:
        Whether anything was left to do.

    Raises:
        CheckpointError: The file is another one, or the run is of another version.
    """
    begun = time.monotonic()
    content = run_folder.read_run(folder)
    if content["state"] == "finished":
        say(f"{folder} is finished: there is nothing left to do")
        return False
    with writing(folder):
        return _resume(run_folder.read_run(folder), folder, data, verbose, say, begun)


def _resume(content: dict[str, Any], folder: Path, data: Path | None, verbose: bool, say: Say, begun: float) -> bool:
    settings = Settings.back(content["settings"])
    place = Path(str(content["data"].get("path"))) if data is None else data
    if not place.is_file():
        fix = ("give its place, fit DATA ", Argument("resume", folder))
        raise DataError(f", the data of {folder}, is not there", value=place, fix=fix)
    if digest(place) != content["data"].get("sha256"):
        raise CheckpointError(f"is not the file that {folder} was begun with", value=place, fix=ANEW)
    table = read_training_table(place, settings)
    if (table.columns.plain(), table.task.plain()) != (content.get("columns"), content.get("task")):
        raise CheckpointError("was begun by another version of r2d2net", value=folder, fix=ANEW)
    with _going_on(folder):
        _fit(folder, content, table, settings, verbose, say, begun)
    return True


def _said(say: Say, data: Path, line: str) -> AbstractContextManager[None]:
    """Say what is being done if it takes longer than a moment; of small files it does not."""
    is_large = data.is_file() and data.stat().st_size >= LARGE_FILE
    return note_if_slow(say, line) if is_large else nullcontext()


@contextmanager
def _going_on(folder: Path) -> Iterator[None]:
    """Tell the user how to continue after an interruption or a full disk, and what to change after a divergence."""
    how = f"go on by `r2d2net fit --resume {folder}`"
    try:
        yield
    except DivergenceError as error:
        raise DivergenceError(error.problem, fix=AFTER_DIVERGENCE) from error
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted", fix=how) from error
    except RankError as error:
        raise RankError(error.problem, fix=how) from error
    except BrokenPipeError:  # whoever reads the notes has gone
        raise
    except CheckpointError as error:
        first = error.fix if isinstance(error.fix, tuple) else () if error.fix is None else (error.fix,)
        fix = (*first, "; then " if first else "then ", how)
        raise CheckpointError(error.problem, argument=error.argument, value=error.value, fix=fix) from error
    except OSError as error:
        raise CheckpointError(str(error), fix=f"remove the cause; then {how}") from error


def _fit(
    folder: Path,
    content: dict[str, Any],
    table: TrainingTable,
    settings: Settings,
    verbose: bool,
    say: Say,
    begun: float,
) -> None:
    for note in _opening(content, table):
        say(note)
    start = time.perf_counter()
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # what it says is in the line on the posterior's health
        estimator = estimator_for(table, settings, verbose=verbose)
        if settings.stacked and is_world():
            work_apart()
        data = Path(str(content["data"].get("path")))
        inputs_of_net = counted(table.x.shape[1], "input")
        with _said(say, data, f"fitting {counted(len(table.x), 'row')} of {inputs_of_net} ..."):
            fit_model(estimator, table, folder / (WHOLE if settings.prune else run_folder.MODEL), begun)
        if is_world():
            work_apart()  # the others have shared the steps, and no more
        pruned = prune_model(estimator, table) if settings.prune else None
        estimator.save(folder / run_folder.MODEL, relevance=False)  # that of whole columns follows
        novelty = learn_novelty(table.x, settings.seed)
        novelty.save(folder)
        ranking = f"ranking {counted(len(table.columns.used), 'column')} ..."
        with _said(say, data, ranking), progress_bar("inputs", verbose=verbose) as progress:
            inputs = relevance_of(estimator.posterior_, table.x, table.columns, settings, progress)
        save_background(folder, learn_background(table.x, table.columns.groups, settings.seed))
        with progress_bar("effects", verbose=verbose) as progress:
            curves = effects.effects_of(
                estimator.posterior_, table.x, table.columns, inputs, table.task, settings, progress
            )
        with progress_bar("pairs", verbose=verbose) as progress:
            pairs = pair_effects_of(
                estimator.posterior_, table.x, table.columns, inputs, table.task, settings, progress
            )
        selection = None
        if settings.select:
            with progress_bar("selection", verbose=verbose) as progress:
                selection = selected_columns(table, estimator.posterior_.model.likelihood, settings, progress)
        seconds = time.perf_counter() - start
        metrics, verdict = _test(folder, table, settings, estimator.posterior_, novelty, content["baseline"])
    history = learning_curve(estimator.posterior_)
    posterior = described(estimator.posterior_)
    results = {"seconds": round(seconds, 1), "test": metrics, "verdict": verdict, "posterior": posterior}
    if (chosen := estimator.posterior_.settings.get("likelihood")) is not None:
        results["likelihood"] = chosen
        say(f"likelihood: {chosen['reason']}")
    if selection is not None:
        results["selection"] = selection
    if pruned is not None:
        results["pruned"] = pruned
        say(pruned["line"])
    say(posterior_text(posterior))
    for note in [] if metrics is None else metrics["baseline_notes"]:
        say(note)
    write_json(folder / run_folder.METRICS, results)
    nothing = nothing_found(posterior["health"], verdict)
    if nothing is not None:
        inputs = [{**entry, "kept": False} for entry in inputs]
    elif not any(entry["kept"] for entry in inputs):
        nothing = shared_importance(inputs)
    write_json(folder / run_folder.RELEVANCE, {"inputs": inputs, "nothing_kept": nothing})
    write_json(folder / effects.FILE, {"effects": curves, "interactions": pairs})
    write_json(folder / run_folder.HISTORY, {"epochs": history})
    done = {**content, "state": "finished"}
    write_run_page(folder, done, results, inputs, history)
    run_folder.write_run(folder, done)
    run_folder.end(folder)
    shutil.rmtree(folder / WHOLE, ignore_errors=True)


def described(posterior: Posterior) -> dict[str, Any]:
    """Describe how a posterior was made and what it is worth.

    Args:
        posterior: The posterior.

    Returns:
        Its algorithm, why that was chosen if "auto" chose it, the candidates of stacking, what became of the seconds
        that bound them, and its health, for JSON.
    """
    settings = posterior.settings
    chosen = {"chosen": settings["chosen"]} if "chosen" in settings else {}
    several = {"candidates": posterior.candidates} if settings["algorithm"]["type"] == "Stacked" else {}
    taken = settings.get("stack", {}).get("time")
    bounded = {} if taken is None else {"time": taken}
    return {"algorithm": settings["algorithm"]["type"], **chosen, **several, **bounded, "health": posterior.health}


def _opening(content: dict[str, Any], table: TrainingTable) -> list[str]:
    task, rows, columns = table.task, table.rows, table.columns
    several = f" of {task.target}" if task.parts else ""
    classes = (
        several or f" of {', '.join(task.classes[:6])}{', ...' if len(task.classes) > 6 else ''}"
        if task.classes
        else ""
    )
    is_requested = content["settings"]["task"] != "auto" or bool(content["settings"]["ordinal"])
    kinds = [column.kind for column in columns.used]
    plural = {
        "number": "numbers",
        "date": "dates",
        "category": "categories",
        "category by target": "categories by target",
    }
    each = ", ".join(counted(kinds.count(kind), kind, several) for kind, several in plural.items() if kind in kinds)
    return [
        f"task: {task.kind}{classes} ({'as told' if is_requested else 'detected; --task overrides'})",
        f"rows: {', '.join(f'{count:,} {name}' for name, count in rows.items())}",
        f"inputs: {counted(len(kinds), 'column')} ({each}) as {counted(table.x.shape[1], 'input')} of the network",
        *table.notes,
    ]


def estimator_for(table: TrainingTable, settings: Settings, *, verbose: bool) -> TableRegressor | TableClassifier:
    """Build the model of a table.

    Args:
        table: The table.
        settings: The settings of the fit.
        verbose: Whether progress is shown.
    """
    kind = model_for(table.task)
    common: dict[str, Any] = {"draws": settings.draws, "random_state": settings.seed, "verbose": verbose}
    if table.task.is_regression:
        common["likelihood"] = settings.likelihood
    elif table.task.kind == "ordinal":
        common["likelihood"] = Ordinal(table.task.classes)
    if settings.stacked:
        common["calibrate"] = settings.calibrate
        return kind(activation=settings.activation, time=settings.time, n_jobs=-1, **common)
    return kind(
        settings.hidden,
        activation=settings.activation,
        prior=settings.prior,
        algorithm=settings.algorithm,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        validation=table.validation,
        patience=settings.patience,
        restarts=settings.restarts,
        **common,
    )


def relevance_of(
    posterior: Posterior,
    x: np.ndarray,
    columns: Columns,
    settings: Settings,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Rank the columns of the table by their shares in the importance; those that are kept so come first.

    Args:
        posterior: The fitted network.
        x: Encoded training rows.
        columns: Which inputs belong to which column.
        settings: The settings of the fit.
        progress: Is given how many columns are done, of how many.

    Returns:
        One entry for each column, ready for JSON (see `r2d2net.shrinkage.input_relevance`); "group" has the names of
        the columns that can stand for each other, or is None.
    """
    rows = np.random.default_rng(settings.seed).permutation(len(x))[:RELEVANCE_ROWS]
    draws = min(RELEVANCE_DRAWS, settings.draws)
    relevance = input_relevance(
        posterior,
        x[rows],
        groups=columns.groups,
        draws=draws,
        shuffles=SHUFFLES,
        seed=settings.seed,
        progress=progress,
    )
    parts = {name: values.tolist() for name, values in relevance._asdict().items()}
    order = relevance.share.argsort(descending=True, stable=True).tolist()
    names = columns.names
    members: dict[int, list[str]] = {}
    for i in order:
        members.setdefault(parts["group"][i], []).append(names[i])
    return [
        {
            "name": names[i],
            **{part: values[i] for part, values in parts.items()},
            "group": members[parts["group"][i]] if parts["group"][i] >= 0 else None,
        }
        for i in order
    ]


def nothing_found(health: dict[str, Any], verdict: dict[str, Any] | None) -> str | None:
    """Say why no input can be said to matter.

    Args:
        health: The health of the posterior.
        verdict: The verdict on test rows; None where there are none.

    Returns:
        The reason, or None where inputs may matter.
    """
    if found_nothing(health):
        return f"on training rows the fit is {health['verdict']}"
    if verdict is not None and verdict["useless"]:
        return "on test rows the model is no better than a constant"
    return None


def shared_importance(inputs: list[dict[str, Any]]) -> str:
    """Say why none of the inputs of a good model is kept.

    Args:
        inputs: The inputs by rank, with their shares in the importance.

    Returns:
        The reason.

    >>> print(shared_importance([{"share": 0.005}] * 200))
    no single input is sure (95%) to take 1% of the output's variance when it is shuffled; many ... the first 100 of 200
    """
    shares = np.cumsum([0.0, *(entry["share"] for entry in inputs)])
    half = int(np.searchsorted(shares, 0.5 * shares[-1]))
    why = "no single input is sure (95%) to take 1% of the output's variance when it is shuffled"
    shared = f"; many share the importance, of which half lies with the first {half:,} of {len(inputs):,}"
    return why + (shared if half > FEW else "")


def learning_curve(posterior: Posterior) -> list[dict[str, float]]:
    """Return the history of the fit, with the training rows' negative log likelihood in the user's units.

    Args:
        posterior: The fitted network.
    """
    likelihood, unit = posterior.model.likelihood, posterior.units.y
    shift = float(unit.scale.log().sum()) if likelihood.standardizes else 0.0
    if isinstance(likelihood, LogNormal):
        shift += float(unit.center.sum())  # the mean of log y, the log derivative's
    return [
        {name: value + shift if name == "nll" else value for name, value in entry.items() if math.isfinite(value)}
        for entry in posterior.history
    ]


def _test(
    folder: Path,
    table: TrainingTable,
    settings: Settings,
    posterior: Posterior,
    novelty: Novelty,
    baseline: dict[str, Any],
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Predict the test rows, write them and return their metrics and the verdict; None where there are none."""
    if len(table.y_test) == 0:
        return None, None
    prediction = posterior.predict(table.test.x, settings.draws, seed=settings.seed)
    write_json(folder / CHECKS, checks_of(prediction, table, settings.seed))
    scored = (TargetScores if table.task.parts else Scored)(table.task, posterior.calibration)
    scored.add(prediction, table.y_test, settings.level)
    typical = run_folder.typicality_of(novelty, table.test)
    rows = prediction_columns(prediction, typical, table.test.filled, table.task, settings.level, posterior.calibration)
    if isinstance(scored, TargetScores):
        return _test_several(folder, table, settings, scored, rows, baseline, typical)
    truth = table.y_test if table.task.is_regression else np.array(table.task.classes)[table.y_test.astype(np.int64)]
    rows.insert(0, "observed", truth)
    rows.insert(0, "row", table.test_rows + 1)
    with replace_when_written(folder / run_folder.TESTED) as partial:
        (escaped(rows) if settings.safe_csv else rows).to_csv(partial, index=False)
    others, notes = fit_baselines(table, settings.seed) if settings.baselines else ({}, [])
    metrics = {
        **scored.metrics(baseline, settings.level),
        "baselines": {name: scored.metrics_beside(*predicted) for name, predicted in others.items()},
        "baseline_notes": notes,
        "unlike": float(is_unlike(typical).mean()),
        "unlike_expected": ALARM,
    }
    losses = {name: losses_of(table.task, table.y_test, *predicted) for name, predicted in others.items()}
    beside = {CONSTANT: constant_losses(table.task, table.y_test, baseline), **losses}
    return metrics, judge(scored.losses(), beside, table.test_rows + 1)


def _test_several(
    folder: Path,
    table: TrainingTable,
    settings: Settings,
    scored: TargetScores,
    rows: Any,
    baseline: dict[str, Any],
    typical: np.ndarray,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Do the same for several targets, each beside baselines of its own."""
    for j, name in enumerate(table.task.targets):
        rows.insert(len(NUMBER_COLUMNS) * j + j, f"{name}_observed", table.y_test[:, j])
    rows.insert(0, "row", table.test_rows + 1)
    with replace_when_written(folder / run_folder.TESTED) as partial:
        (escaped(rows) if settings.safe_csv else rows).to_csv(partial, index=False)
    found = [fit_baselines(part, settings.seed) for part in table.each] if settings.baselines else []
    others = [predicted for predicted, _ in found]
    metrics = {
        **scored.metrics(baseline, settings.level, others),
        "baseline_notes": list(dict.fromkeys(note for _, notes in found for note in notes)),
        "unlike": float(is_unlike(typical).mean()),
        "unlike_expected": ALARM,
    }
    return metrics, scored.verdict(baseline, table.test_rows + 1, others)
