"""The report of a run of `r2d2net fit`: report.html, a page that needs no other file, and its main charts as SVG.

It shows the content of the run folder: run.json, metrics.json, relevance.json, history.json, effects.json and
test_predictions.csv. The first screen has the verdict, the main charts and the inputs; all else is folded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from r2d2net.files import write_text
from r2d2net.report.chart_files import write_charts
from r2d2net.report.check_panels import check_panels, check_words
from r2d2net.report.column_text import column_text
from r2d2net.report.interactive_page import Fold, Page, Tile, from_markdown, render
from r2d2net.report.markdown_text import escaped, pipe_table
from r2d2net.report.pair_chart import pair_map, pairs_table
from r2d2net.report.run_charts import Panel, effect, importance_bars, learning_curve, weight_bars
from r2d2net.report.run_sections import (
    Tested,
    baselines_table,
    class_scores,
    main_panels,
    tested_targets,
    tiles,
    worst_rows,
)
from r2d2net.report.svg_charts import table

MOST_INPUTS = 50
OF_NUMBERS = "predictions", "errors", "calibration"  # files of the charts of `main_panels`
OF_CLASSES = "confusion", "probabilities", "reliability"
KINDS = {
    "regression": "Regression",
    "binary": "Binary classification",
    "multiclass": "Classification",
    "ordinal": "Classification in an order",
}
FIRST_EFFECTS = 2  # of the first screen
LABELS = {
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R², share of variance explained",
    "accuracy": "accuracy",
    "nll": "negative log likelihood, nats a row",
    "rps": "ranked probability score",
    "brier": "Brier score",
    "auroc": "AUROC, mean over classes",
    "ece": "expected calibration error",
    "coverage": "rows inside their interval",
    "width": "mean width of the intervals",
}
IMPORTANCE = (
    "Importance is the mean of two shares of the output's variance: what goes when the input is shuffled, and what "
    "the input tells by itself. Shares are importances as parts of a whole. An input is needed if shuffling it takes "
    "1% or more with posterior probability 95%; kept are the first inputs by share, cut where this agrees best with "
    "what is needed.\n"
)
EFFECTS = (
    "The prediction, averaged over training rows, as one input changes and the others stay. The band holds the curve "
    "with posterior probability 90%.\n"
)
SELECTION = (
    "The chance of no effect is the probability that no slope, curve or product with the input is needed to explain "
    "the training rows. The q-value is the mean of these chances down to the input: the least bound at which it would "
    "be selected.\n"
)
SELECTION_BY_TEST = (
    "An input has a small p-value if rows that the models have not seen are predicted worse once it is drawn anew "
    "given all other inputs. The q-value is the least bound at which it would be selected.\n"
)
CHAINS_AGREE = 1.05  # R-hat up to which chains are said to agree
PERCENT = ("accuracy", "ece", "coverage")


def write_run_page(
    folder: Path,
    run: dict[str, Any],
    results: dict[str, Any],
    inputs: list[dict[str, Any]],
    history: list[dict[str, float]],
) -> Path:
    """Write the page of a run and its main charts into the run's folder.

    Args:
        folder: The folder of the run, which holds test_predictions.csv.
        run: The content of run.json: task, data, rows, settings, columns and notes.
        results: The content of metrics.json.
        inputs: The relevance of the inputs, in the order of their ranks.
        history: The losses after each epoch; empty where there are none.

    Returns:
        The page.
    """
    target, metrics = run["task"]["target"], results["test"]
    nothing = _content(folder, "relevance.json").get("nothing_kept")  # runs of earlier versions do not say it
    panels, folds = [importance_bars(inputs, nothing)], []
    tested = [] if metrics is None else tested_targets(folder, run["task"], metrics)
    charts = {"inputs": panels[0]}
    for place, part in enumerate(tested, 1):
        own = _main_panels(part, run)
        names = OF_CLASSES if run["task"]["classes"] else OF_NUMBERS
        charts |= {f"{name}-{place}" if part.before else name: panel for name, panel in zip(names, own, strict=True)}
    panels = [*(panel for name, panel in charts.items() if name != "inputs"), *panels]
    folds += [fold for part in tested for fold in _test_folds(part, run)]
    folds += _check_folds(_content(folder, "checks.json").get("checks", []))
    content = _content(folder, "effects.json")
    effects = [_effect(entry, target) for entry in content.get("effects", [])]
    average = "The prediction, averaged over training rows; the band holds the curve with probability 90%."
    panels += [panel._replace(title=f"Effect of {panel.title}", words=average) for panel in effects[:FIRST_EFFECTS]]
    pairs = content.get("interactions", {}) if nothing is None else {}  # runs of earlier versions have none
    panels += [pair_map(entry, entry.get("target", target)) for entry in pairs.get("maps", [])]
    if effects:
        folds.append(Fold("Effects of the inputs", effects, [_text(EFFECTS), *pairs_table(pairs)]))
    folds.append(Fold("All inputs", parts=[_text(IMPORTANCE), _inputs(inputs)]))
    if results.get("selection") is not None:
        folds.append(Fold("Selected inputs", parts=_selection(results["selection"])))
    learning = _learning_curve(history)
    if learning is not None:
        charts["learning-curve"] = learning
    folds.append(_training_fold(run, results, learning))
    folds.append(Fold("Data and notes", parts=[_text(_columns(run))]))
    page = Page(
        title=f"{KINDS[run['task']['kind']]} of {target} in {run['data']['file']}",
        verdict=verdict_of(results, target),
        warning=(results.get("verdict") or {}).get("warning") or "",
        facts=_facts(run, results),
        tiles=[tile for part in tested for tile in _tiles(part)],
        panels=panels,
        folds=folds,
    )
    write_charts(charts, folder / "figures")
    write_text(folder / "report.html", render(page))
    return folder / "report.html"


def verdict_of(results: dict[str, Any], target: str) -> str:
    """Say in a sentence how good the model is: the verdict of the fit, or what the metrics of older runs say.

    Args:
        results: The content of metrics.json.
        target: The name of the target.

    Returns:
        The sentence.

    >>> metrics = {"rmse": 2.0, "r2": 0.75, "level": 0.9, "coverage": 0.91, "rows": 80, "constant": {"rmse": 4.0}}
    >>> print(verdict_of({"test": metrics}, "price"))
    On 80 test rows the error of price is 2, that of the best constant 4; 91% lie inside their 90% interval.
    """
    verdict = results.get("verdict") or {}
    if verdict.get("sentence"):
        sentence = str(verdict["sentence"])
        return f"{sentence[0].upper()}{sentence[1:].removesuffix('.')}."
    metrics = results.get("test")
    if metrics is None:
        return "No rows were held out for a test, so how good the model is cannot be said."
    constant = metrics.get("constant", {})
    if "rmse" in metrics:
        inside = f"{metrics['coverage']:.0%} lie inside their {metrics['level']:.0%} interval"
        beside = f", that of the best constant {format_number(constant['rmse'])}" if "rmse" in constant else ""
        error = f"the error of {target} is {format_number(metrics['rmse'])}{beside}"
        return f"On {metrics['rows']:,} test rows {error}; {inside}."
    beside = f", the most frequent class {constant['accuracy']:.0%}" if "accuracy" in constant else ""
    return f"Of {metrics['rows']:,} test rows {metrics['accuracy']:.0%} are predicted right{beside}."


def score_rows(metrics: dict[str, Any], unit: str = "") -> list[tuple[str, str, str]]:
    """Describe the metrics of a model beside those of the best constant prediction.

    Args:
        metrics: The metrics of the test rows.
        unit: The unit of errors and widths, "" for none.

    Returns:
        For each metric its name, the model's value and the constant's value, which may be "".
    """
    lines = []
    for name, label in LABELS.items():
        if metrics.get(name) is None:
            continue
        text = f"{label} of {metrics['level']:.0%}" if name == "coverage" else label
        if name in ("rmse", "mae", "width") and unit:
            text += f", in units of {unit}"
        constant = metrics["constant"].get(name)
        lines.append((text, _number(name, metrics[name]), "" if constant is None else _number(name, constant)))
    error = metrics.get("nll_se")
    if error is not None:
        lines = [(a, f"{b} ± {error:.2g}", c) if a == LABELS["nll"] else (a, b, c) for a, b, c in lines]
    return lines


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name in PERCENT else format_number(value)


def format_number(value: float) -> str:
    """Write a number with four digits, or all digits before the point below ten million.

    >>> format_number(11690.4), format_number(1234567.8), format_number(123.456), format_number(2.5e9)
    ('11,690', '1,234,568', '123.5', '2.5e+09')
    >>> format_number(0.00012345)
    '0.0001234'
    """
    return f"{value:,.0f}" if 999.95 <= abs(value) < 1e7 else f"{value:.4g}"


def _facts(run: dict[str, Any], results: dict[str, Any]) -> str:
    rows, settings = run["rows"], run["settings"]
    counts = ", ".join(f"{count:,} {name}" for name, count in rows.items())
    algorithm = "Stacking" if settings.get("stacked") else f"Prior {settings['prior']} by {settings['algorithm']}"
    hidden = settings["hidden"]
    widths = "" if hidden is None else f", hidden units {'-'.join(map(str, hidden)) or 'none (linear)'}"
    return f"Rows: {counts}. {algorithm}{widths}, seed {run['seed']}, fitted in {results['seconds']:g} s."


def _main_panels(part: Tested, run: dict[str, Any]) -> list[Panel]:
    panels = main_panels(part.rows, part.metrics, part.target, run["task"]["classes"])
    return [panel._replace(title=part.before + panel.title) for panel in panels]


def _tiles(part: Tested) -> list[Tile]:
    """Choose the numbers of the first screen; of several targets a few of each, which say whose they are."""
    if not part.before:
        return tiles(part.metrics, part.target, _number)
    return [tile._replace(name=part.before + tile.name) for tile in tiles(part.metrics, "", _number)[:3]]


def _effect(entry: dict[str, Any], target: str) -> Panel:
    """Draw an effect; on which of several targets it is, its entry says."""
    if "target" not in entry:
        return effect(entry, target)
    panel = effect(entry, entry["target"])
    return panel._replace(title=f"{panel.title} on {entry['target']}")


def _test_folds(part: Tested, run: dict[str, Any]) -> list[Fold]:
    rows, metrics, target, before = part.rows, part.metrics, part.target, part.before
    classes = run["task"]["classes"]
    known = f"of rows like them up to {metrics['unlike_expected']:.0%} are expected to be"
    flagged = f"{metrics['unlike']:.1%} of the test rows are flagged as unlike the training rows; {known}.\n"
    scores = [_text(pipe_table(["on test rows", "this model", "best constant"], score_rows(metrics, target)))]
    if metrics.get("baselines"):
        scores = [baselines_table(metrics, LABELS, _number)]
    folds = [Fold(f"{before}Scores", parts=[*scores, _text(flagged)], is_open=True)]
    if classes:
        folds.append(Fold("Scores by class", parts=[class_scores(rows, classes)]))
    why = "Those that surprise the model most; rows are numbered as in the file, from 1 after the names.\n"
    folds.append(Fold(f"{before}Worst rows", parts=[_text(why), worst_rows(rows, classes, format_number)]))
    return folds


def _check_folds(checks: list[dict[str, Any]]) -> list[Fold]:
    """Show the predictive checks of the test rows; runs of earlier versions have none."""
    several = len(checks) > 1
    before = [f"{check['target']}: " if several else "" for check in checks]
    return [
        Fold(f"{title}Predictive checks", check_panels(check), [_text(escaped(check_words(check)))])
        for title, check in zip(before, checks, strict=True)
    ]


def _learning_curve(history: list[dict[str, float]]) -> Panel | None:
    """Draw the losses after each epoch, where the run has some."""
    has_losses = any("nll" in entry or "validation" in entry for entry in history)
    return learning_curve(history) if has_losses else None


def _training_fold(run: dict[str, Any], results: dict[str, Any], learning: Panel | None) -> Fold:
    candidates = (results.get("posterior") or {}).get("candidates", [])
    panels = [weight_bars(candidates)] if candidates else []
    panels += [] if learning is None else [learning]
    texts = [_posterior(results), _candidates(results), _training(run)]
    return Fold("Models, training and settings", panels, [_text(text) for text in texts if text])


def _content(folder: Path, name: str) -> dict[str, Any]:
    """Return what a JSON file of the run holds; runs of earlier versions do not have all."""
    path = folder / name
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _inputs(inputs: list[dict[str, Any]]) -> Markup:
    has_share = any(entry.get("share") is not None for entry in inputs)
    lines = [
        [
            str(rank + 1),
            row["name"],
            *([f"{row.get('share') or 0:.1%}"] if has_share else []),
            f"{row['importance']:.1%} ± {row['importance_std']:.1%}",
            f"{row['mean']:.1%} ({row['low']:.1%} to {row['high']:.1%})",
            "kept" if row["kept"] else "",
            ", ".join(name for name in row.get("group") or [] if name != row["name"])[:200],
        ]
        for rank, row in enumerate(inputs[:MOST_INPUTS])
    ]
    header = ["rank", "input", *(["share"] if has_share else []), "importance"]
    return table([*header, "variance lost when shuffled (90% interval)", "", "can stand for"], lines)


def _selection(selection: dict[str, Any]) -> list[Markup]:
    """Say which inputs were selected, and list their p-values or probabilities."""
    by_test = selection.get("method", "randomization") == "randomization"
    lines = [
        [
            entry["name"],
            "selected" if entry["selected"] else "",
            f"{entry['p_value'] if entry['p_value'] is not None else entry['lfdr']:.2g}",
            f"{entry['q_value']:.2g}",
            ", ".join(name for name in entry["group"] or [] if name != entry["name"])[:200],
        ]
        for entry in selection["inputs"][:MOST_INPUTS]
    ]
    sentence = selection["line"][:1].upper() + selection["line"][1:]
    words = f"{escaped(sentence)}. {SELECTION_BY_TEST if by_test else SELECTION}"
    evidence = "p-value" if by_test else "chance of no effect"
    return [_text(words), table(["input", "", evidence, "q-value", "tested together with"], lines)]


def _text(markdown: str) -> Markup:
    return from_markdown(markdown)


def _posterior(results: dict[str, Any]) -> str:
    """Say by which algorithm and likelihood the network was fitted, and how far its fit can be trusted."""
    posterior = results.get("posterior")  # runs of earlier versions have none
    chosen = f" Likelihood: {results['likelihood']['reason']}." if "likelihood" in results else ""
    return "" if posterior is None else escaped(posterior_text(posterior) + chosen) + "\n"


def _candidates(results: dict[str, Any]) -> str:
    """Return a table of the models that stacking combined; "" where there was one model."""
    candidates = (results.get("posterior") or {}).get("candidates", [])
    rows = [
        [
            entry["name"],
            entry["algorithm"],
            f"{entry['weight']:.0%}",
            "not fitted" if entry["score"] is None else f"{-entry['score']:.4g}",
        ]
        for entry in sorted(candidates, key=lambda entry: -entry["weight"])
    ]
    header = ["model", "algorithm", "weight", "negative log likelihood of rows left out, nats a row"]
    return pipe_table(header, rows) if rows else ""


def posterior_text(posterior: dict[str, Any]) -> str:
    """Say in a sentence or two how a posterior was made and what it is worth.

    Args:
        posterior: Algorithm, reason of the choice if there is one, and health.

    Returns:
        The text.

    Example:
        >>> posterior_text({"algorithm": "SVGI", "health": {"verdict": "fits", "error_ratio": 0.4}})
        "By SVGI. On training rows it fits: its error is 0.4 of the best constant's."
    """
    health = posterior["health"]
    made = f"By {posterior.get('chosen', posterior['algorithm'])}."
    if "chosen" in posterior and posterior["algorithm"] != "Stacked":
        made = f"By {posterior['chosen']} (chosen by auto)."
    sentences = [made]
    if health.get("error_ratio") is not None:
        ratio = f"its error is {health['error_ratio']:.2g} of the best constant's"
        verdict = "it fits" if health["verdict"] == "fits" else f"the fit is {health['verdict']}"
        sentences.append(f"On training rows {verdict}: {ratio}.")
    if "r_hat" in health:
        worth = f"its draws are worth {health['effective_draws']:.0f} independent ones or more"
        agree = (
            "agree" if health["r_hat"] <= CHAINS_AGREE else "do not agree completely: the posterior is their mixture"
        )
        sentences.append(f"R-hat of predictions is at most {health['r_hat']:.2f}, {worth}: the chains {agree}.")
    if "line" in health:  # runs of earlier versions have none
        words = health["line"]
        sentences.append(f"{words[0].upper()}{words[1:]}.")
    return " ".join(sentences)


def _training(run: dict[str, Any]) -> str:
    settings = ((name, _setting_text(value)) for name, value in run["settings"].items() if value not in (None, []))
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    origin = f"Begun {escaped(run['written'])} with {escaped(versions)}, commit {escaped(str(run['commit']))}.\n"
    return pipe_table(["setting", "value"], settings) + "\n" + origin


def _setting_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _columns(run: dict[str, Any]) -> str:
    columns = run["columns"]
    lines = [[column["name"], column["kind"], column_text(column, format_number)] for column in columns["used"]]
    lines += [[name, "left out", why] for name, why in columns["left_out"].items()]
    notes = "".join(f"- {escaped(note)}\n" for note in run["notes"])
    source = f"File {escaped(run['data']['file'])}, SHA-256 {run['data']['sha256']}.\n"
    return "\n".join([source, notes, pipe_table(["column", "kind", ""], lines)])
