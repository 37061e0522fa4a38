"""The report of a run of `r2d2net fit`: figures as PNG, and report.html, a page that needs no other file.

It shows the content of the run folder: run.json, metrics.json, relevance.json, history.json, test_predictions.csv.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from r2d2net.files import write_text
from r2d2net.report.column_text import column_text
from r2d2net.report.document import Block, Document, Drawing, Section, Text, drawing, to_html, write_drawings
from r2d2net.report.markdown_text import escaped, pipe_table
from r2d2net.report.run_figures import draw_learning_curve, draw_regression, draw_relevance, draw_reliability

MOST_INPUTS = 50
LABELS = {
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R², share of variance explained",
    "accuracy": "accuracy",
    "nll": "negative log likelihood, nats a row",
    "brier": "Brier score",
    "auroc": "AUROC, mean over classes",
    "ece": "expected calibration error",
    "coverage": "rows inside their interval",
    "width": "mean width of the intervals",
}
CHAINS_AGREE = 1.05  # R-hat up to which chains are said to agree
PERCENT = ("accuracy", "ece", "coverage")


def write_run_page(
    folder: Path,
    run: dict[str, Any],
    results: dict[str, Any],
    inputs: list[dict[str, Any]],
    history: list[dict[str, float]],
) -> Path:
    """Write the figures and the page of a run into its folder.

    Args:
        folder: The folder of the run, which holds test_predictions.csv.
        run: The content of run.json: task, data, rows, settings, columns and notes.
        results: The content of metrics.json.
        inputs: The relevance of the inputs, in the order of their ranks.
        history: The losses after each epoch; empty where there are none.

    Returns:
        The page.
    """
    target = run["task"]["target"]
    sections = [
        Section("", [Text(_summary(run, results))]),
        Section("Test rows", _test(folder, run, results["test"])),
        Section("Inputs", _inputs(inputs)),
    ]
    if history:
        curve = drawing("Learning curve", draw_learning_curve(history), "learning-curve")
        texts = [_posterior(results), _candidates(results), _training(run)]
        sections.append(Section("Training", [curve, *(Text(text) for text in texts if text)]))
    sections.append(Section("Data", [Text(_columns(run))]))
    document = Document(f"{target}: {run['task']['kind']} by {run['data']['file']}", sections)
    write_drawings(document, folder / "figures")
    write_text(folder / "report.html", to_html(document))
    return folder / "report.html"


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


def _summary(run: dict[str, Any], results: dict[str, Any]) -> str:
    rows, settings = run["rows"], run["settings"]
    hidden = "of each model" if settings["hidden"] is None else "-".join(map(str, settings["hidden"]))
    hidden = hidden or "none (linear)"
    counts = ", ".join(f"{count:,} {name}" for name, count in rows.items())
    classes = run["task"]["classes"]
    algorithm = "stacking" if settings.get("stacked") else f"{settings['prior']}, {settings['algorithm']}"
    lines = [
        ("target", f"{run['task']['target']} ({run['task']['kind']})"),
        *([("classes", ", ".join(classes))] if classes else []),
        ("rows", counts),
        ("prior, algorithm", algorithm),
        ("hidden units", hidden),
        ("seed", str(run["seed"])),
        ("fitted in", f"{results['seconds']:g} s"),
    ]
    return pipe_table(["run", ""], lines)


def _test(folder: Path, run: dict[str, Any], metrics: dict[str, Any] | None) -> list[Block]:
    import pandas as pd

    if metrics is None:
        return [Text("No rows were held out for a test.")]
    target, classes = run["task"]["target"], run["task"]["classes"]
    table = pipe_table(["on test rows", "this model", "best constant"], score_rows(metrics, target))
    expected = metrics["unlike_expected"]
    known = (
        f"of rows like them {expected:.0%} are expected to be" if expected else "too few of these to tell by distance"
    )
    flagged = f"{metrics['unlike']:.1%} of the test rows are flagged as unlike the training rows; {known}.\n"
    picture: Drawing
    if classes:
        event = classes[1] if len(classes) == 2 else "the predicted class"
        picture = drawing("Reliability of the probabilities", draw_reliability(metrics, event), "reliability")
    else:
        rows = pd.read_csv(folder / "test_predictions.csv")
        picture = drawing("Predictions of the test rows", draw_regression(rows, metrics, target), "predictions")
    return [Text(table), picture, Text(flagged)]


def _inputs(inputs: list[dict[str, Any]]) -> list[Block]:
    lines = [
        [
            str(rank + 1),
            row["name"],
            f"{row['importance']:.1%} ± {row['importance_std']:.1%}",
            f"{row['mean']:.1%} ({row['low']:.1%} to {row['high']:.1%})",
            "kept" if row["kept"] else "not needed",
        ]
        for rank, row in enumerate(inputs[:MOST_INPUTS])
    ]
    header = ["rank", "input", "importance", "variance lost when shuffled (90% interval)", ""]
    explanation = (
        "Importance is the mean of two shares of the output's variance: what goes when the input is shuffled, and what "
        "the input tells by itself. An input is kept if shuffling it takes 1% or more with posterior probability 95%.\n"
    )
    return [
        drawing("Importance of the inputs", draw_relevance(inputs), "inputs"),
        Text(explanation),
        Text(pipe_table(header, lines)),
    ]


def _posterior(results: dict[str, Any]) -> str:
    """Say by which algorithm the network was fitted, and how far its fit can be trusted."""
    posterior = results.get("posterior")  # runs of earlier versions have none
    return "" if posterior is None else escaped(posterior_text(posterior)) + "\n"


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
