"""A demonstration of R2D2-Net in under two minutes of two cores: `r2d2net demo`, or `make demo`.

It shows what `r2d2net fit` makes of a real table beside the usual models (`demo_table`). Then it fits scenario 2 of the
paper, whose true function is known; the same with six inputs of pure noise beside its four, to see which inputs are
kept; and a real table, scikit-learn's diabetes, beside linear regression. Errors, log densities and coverage are those
of test rows, a fifth of all, by which no setting was chosen: prior and epochs of the diabetes table had the least
cross-validated error on the training rows of seed 0 (among R2D2() and adaptive; 100, 200 and 300 epochs).
"""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from torch import Tensor, nn

from r2d2net.data.simulation import HIGH, LOW, interactions, simulate
from r2d2net.data.splitting import train_validation_test
from r2d2net.files import replace_when_written, write_json
from r2d2net.metrics import coverage, rmse
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.nets import mlp, paper_mlp
from r2d2net.paper.demo_figure import Band, draw
from r2d2net.paper.demo_table import run_default
from r2d2net.posterior import Posterior
from r2d2net.prediction import Regression
from r2d2net.priors import R2D2
from r2d2net.provenance import provenance
from r2d2net.run.fit import fit
from r2d2net.run.threads import one_thread
from r2d2net.shrinkage import Relevance, input_relevance

LEVEL = 0.9  # of the intervals
NULL_INPUTS = 6
RELEVANCE_ROWS = 1000  # training rows from which the relevance of inputs is computed


class Size(NamedTuple):
    """The size of the demonstration, which tests reduce.

    Attributes:
        rows: Rows of scenario 2.
        epochs: Epochs on scenario 2.
        table_epochs: Epochs on the diabetes table.
        draws: Networks drawn for predictions.
        fit_options: Options of the fit of the table with noise; None for the default model.
    """

    rows: int = 10_000
    epochs: int = 100
    table_epochs: int = 100
    draws: int = 100
    fit_options: dict[str, Any] | None = None


class Fitted(NamedTuple):
    """A fitted network: its posterior, its predictions of the test rows, the relevance of its inputs, and the time.

    Attributes:
        posterior: The posterior.
        prediction: The predictions of the test rows.
        relevance: The relevance of the inputs.
        seconds: The time that `fit` took.
    """

    posterior: Posterior
    prediction: Regression
    relevance: Relevance
    seconds: float


def run_demo(folder: Path, seed: int = 0, *, size: Size | None = None, console: Console | None = None) -> list[Path]:
    """Run the demonstration: print its tables, and write its figure and its numbers.

    Args:
        folder: The folder for the files, which is made if need be.
        seed: The seed of data, splits and training.
        size: The size of the demonstration; None for the full size.
        console: Where the tables are printed; None for standard output.

    Returns:
        The figure, the JSON file of the numbers, the table with noise and the page of its run.
    """
    size = Size() if size is None else size
    console = Console() if console is None else console
    folder.mkdir(parents=True, exist_ok=True)
    default, files = run_default(folder, seed, console, size.fit_options)
    with one_thread():
        scenario, band = run_scenario(seed, size, console)
        table, y, fitted = run_diabetes(seed, size, console)
    figure = draw(band, y, fitted.prediction, table["inputs"], fitted.relevance, level=LEVEL)
    picture, numbers = folder / "predictive_band.png", folder / "results.json"
    with replace_when_written(picture) as partial:
        figure.savefig(partial, format="png", dpi=150)
    origin = provenance({"size": size._asdict(), "level": LEVEL}, seed)
    origin["versions"]["scikit-learn"] = version("scikit-learn")
    write_json(numbers, {"default": default, "scenario 2": scenario, "diabetes": table, **origin})
    return [picture, numbers, *files]


def run_scenario(seed: int, size: Size, console: Console) -> tuple[dict[str, Any], Band]:
    """Fit scenario 2 as it is, and with inputs of pure noise added.

    Args:
        seed: The seed of data, split and training.
        size: The size of the demonstration.
        console: Where the scores are printed.

    Returns:
        The numbers for the JSON file, and the predictions along x2 for the figure.
    """
    data = simulate("2", n=size.rows, seed=seed, variant="table")
    train, _, test = train_validation_test(size.rows, 0.0, 0.2, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    null = torch.empty(size.rows, NULL_INPUTS).uniform_(LOW, HIGH, generator=generator)
    fits = {}
    for name, x in (("R2D2-Net", data.x), (f"R2D2-Net, {NULL_INPUTS} null inputs more", torch.cat([data.x, null], 1))):
        net = paper_mlp(x.shape[1], 2)
        fits[name] = train_and_test(net, R2D2(), x, data.y, train, test, size.epochs, 1024, seed, size)

    y, noise = data.y[test], torch.tensor(data.noise**2)
    scores = [
        score("true function", y, Regression(data.mean[test][None], noise)),
        *(score(name, y, fitted.prediction, fitted.seconds) for name, fitted in fits.items()),
        score("linear regression", y, linear_regression(data.x, data.y, train, test)),
    ]
    plain, more = fits.values()
    names = [f"x{i + 1}" for i in range(4)] + [f"null{i + 1}" for i in range(NULL_INPUTS)]
    show(console, f"Scenario 2: y = x1 (x2^2 + 1) + x3 x4 + e, sd(e) = {data.noise:g}; {rows(train, test)}", scores)
    show_kept(console, names, more.relevance)
    result = {
        "scores": scores,
        "relevance": {
            "R2D2-Net": as_dict(names[:4], plain.relevance),
            "null inputs more": as_dict(names, more.relevance),
        },
        "settings": [fitted.posterior.settings for fitted in fits.values()],
    }
    return result, along_x2(plain.posterior, data.noise, seed)


def run_diabetes(seed: int, size: Size, console: Console) -> tuple[dict[str, Any], Tensor, Fitted]:
    """Fit scikit-learn's diabetes table: progression of the disease after a year, from ten measurements.

    Args:
        seed: The seed of split and training.
        size: The size of the demonstration.
        console: Where the scores are printed.

    Returns:
        The numbers for the JSON file, the targets of the test rows, and the fitted network.
    """
    table = load_diabetes(scaled=False)
    x, y = (torch.from_numpy(part).float() for part in (table.data, table.target))
    train, _, test = train_validation_test(len(x), 0.0, 0.2, seed=seed)
    net = mlp(x.shape[1], [50])
    fitted = train_and_test(net, R2D2.adaptive(), x, y, train, test, size.table_epochs, None, seed, size)
    scores = [
        score("R2D2-Net, adaptive", y[test], fitted.prediction, fitted.seconds),
        score("linear regression", y[test], linear_regression(x, y, train, test)),
    ]
    names = list(table.feature_names)
    show(console, f"Diabetes table of scikit-learn; {rows(train, test)}", scores)
    show_kept(console, names, fitted.relevance)
    result = {
        "inputs": names,
        "scores": scores,
        "relevance": as_dict(names, fitted.relevance),
        "settings": fitted.posterior.settings,
    }
    return result, y[test], fitted


def train_and_test(
    net: nn.Module,
    prior: AnyPrior,
    x: Tensor,
    y: Tensor,
    train: Tensor,
    test: Tensor,
    epochs: int,
    batch_size: int | None,
    seed: int,
    size: Size,
) -> Fitted:
    """Fit a network to the training rows and predict the test rows.

    Args:
        net: The network.
        prior: The prior of its weights.
        x: The inputs of all rows.
        y: The targets of all rows.
        train: The indices of the training rows.
        test: The indices of the test rows.
        epochs: The number of epochs.
        batch_size: Rows in a batch; None for the default of `fit`.
        seed: The seed of training and predictions.
        size: The size of the demonstration, for the number of draws.

    Returns:
        The fitted network; its time is that of `fit` alone.
    """
    start = time.perf_counter()
    posterior = fit(BayesianModel(net, prior), (x[train], y[train]), epochs=epochs, batch_size=batch_size, seed=seed)
    seconds = time.perf_counter() - start
    prediction = posterior.predict(x[test], size.draws, seed=seed)
    assert isinstance(prediction, Regression)
    relevance = input_relevance(posterior, x[train][:RELEVANCE_ROWS], draws=size.draws, seed=seed)
    return Fitted(posterior, prediction, relevance, seconds)


def linear_regression(x: Tensor, y: Tensor, train: Tensor, test: Tensor) -> Regression:
    """Predict test rows by least squares, with normal noise of the residuals' unbiased variance."""
    line = LinearRegression().fit(x[train].numpy(), y[train].numpy())
    residuals = y[train].numpy() - line.predict(x[train].numpy())
    variance = np.square(residuals, dtype=np.float64).sum() / (len(train) - x.shape[1] - 1)
    mean = torch.from_numpy(line.predict(x[test].numpy())).float()
    return Regression(mean[None], torch.tensor(variance, dtype=torch.float32))


def along_x2(posterior: Posterior, noise: float, seed: int) -> Band:
    """Predict scenario 2 along x2, with x1 = 1 and x3 = x4 = 0, and draw new observations there."""

    def line(x2: Tensor) -> Tensor:
        zero = torch.zeros_like(x2)
        return torch.stack([zero + 1, x2, zero, zero], 1)

    generator = torch.Generator().manual_seed(seed)
    truth = interactions("table", generator).f
    grid, at = torch.linspace(LOW, HIGH, 200), torch.empty(80).uniform_(LOW, HIGH, generator=generator)
    observed = truth(line(at)) + noise * torch.randn(len(at), generator=generator)
    prediction = posterior.predict(line(grid), seed=seed)
    assert isinstance(prediction, Regression)
    return Band(grid, truth(line(grid)), prediction, at, observed)


def score(name: str, y: Tensor, prediction: Regression, seconds: float | None = None) -> dict[str, Any]:
    """Compute test error, log density and coverage of predictions, as plain JSON."""
    error = rmse(y, prediction.mean)
    return {
        "model": name,
        "mse": error**2,
        "rmse": error,
        "nll": -float(prediction.log_prob(y).double().mean()),
        "coverage": coverage(y, *prediction.interval(LEVEL)),
        "seconds": seconds,
    }


def as_dict(names: list[str], relevance: Relevance) -> dict[str, dict[str, float | bool]]:
    """Return the relevance of each input by its name, as plain JSON."""
    columns = {field: values.tolist() for field, values in relevance._asdict().items()}
    return {name: {field: values[i] for field, values in columns.items()} for i, name in enumerate(names)}


def rows(train: Tensor, test: Tensor) -> str:
    """Describe the sizes of training and test set."""
    return f"{len(train):,} + {len(test):,} rows"


def show(console: Console, title: str, scores: list[dict[str, Any]]) -> None:
    """Print the scores of all models on one data set."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("on test rows", no_wrap=True)
    for column in ("MSE", "RMSE", "NLL", f"{LEVEL:.0%} cover", "fit, s"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in scores:
        errors = (f"{row['mse']:.4g}", f"{row['rmse']:.4g}", f"{row['nll']:.3f}", f"{row['coverage']:.1%}")
        table.add_row(row["model"], *errors, "" if row["seconds"] is None else f"{row['seconds']:.1f}")
    console.print(table)


def show_kept(console: Console, names: list[str], relevance: Relevance) -> None:
    """Print the inputs that are kept, the most relevant first, and those that are dropped."""
    order = relevance.mean.argsort(descending=True).tolist()
    kept = [f"{names[i]} {relevance.mean[i]:.0%}" for i in order if relevance.kept[i]]
    dropped = [names[i] for i in range(len(names)) if not relevance.kept[i]]
    console.print(f"kept (share of variance lost when shuffled): {', '.join(kept) or 'none'}")
    console.print(f"dropped: {', '.join(dropped) or 'none'}\n")
