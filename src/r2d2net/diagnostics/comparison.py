"""Models compared by the log density of rows they have not seen, as arviz compares them.

    elpd_k       sum_i l_ki,     l_ki the log density of row i, left out or new, by model k
    elpd_diff    sum_i (l_best,i - l_ki),        dse = sqrt(n) sd_i(l_best,i - l_ki)
    weight       of the mixture with the highest density of these rows (stacking; Yao et al., 2018)

Rows are paired, so that dse is mostly smaller than the standard errors of the two sums. Differences below 4, or within
two dse, do not tell models apart (Sivula, Magnusson and Vehtari, 2020). The ELBO is not used: it is no density of new
rows, and prefers starts and priors that predict worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from r2d2net.diagnostics.row_scores import RowScores, left_out_scores, new_row_scores
from r2d2net.errors import DataError, ParameterError, Shown, Value, require, require_whole
from r2d2net.notebook_tables import axes_for, html_table
from r2d2net.posterior import Posterior
from r2d2net.run.batches import as_arrays, mix, take
from r2d2net.run.predictive_check import KEPT_ROWS
from r2d2net.run.prepare import data_digest
from r2d2net.run.stacking_weights import stacking_weights

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DRAWS = 400
SMALL = 4.0  # differences of elpd that the normal law of dse does not describe
FEW = 100  # rows, with which dse itself is uncertain
MANY = 0.05  # share of rows of unreliable importance weights that is warned of
HEADER = ("rank", "elpd", "se", "elpd_diff", "dse", "weight", "unreliable")


@runtime_checkable
class Fitted(Protocol):
    """An estimator that has a posterior."""

    posterior_: Posterior[Any]


@dataclass(frozen=True)
class Compared:
    """What is said of one model; log densities are sums over rows, in nats and the user's units.

    Attributes:
        name: Its name.
        rank: Its place, from 0.
        elpd: Log density of the rows.
        se: Its standard error over rows.
        elpd_diff: How much the best model has more.
        dse: Standard error of that difference.
        weight: Weight of the model in the best mixture.
        unreliable: Share of rows whose importance weights cannot be relied on.
    """

    name: str
    rank: int
    elpd: float
    se: float
    elpd_diff: float
    dse: float
    weight: float
    unreliable: float

    @property
    def is_behind(self) -> bool:
        """Whether the best model is better by more than chance."""
        return self.elpd_diff >= SMALL and self.elpd_diff > 2 * self.dse


@dataclass(frozen=True)
class Comparison:
    """Models in the order of their ranks.

    Attributes:
        models: The models, the best first.
        rows: Number of rows.
        how: How rows were left out: "new rows", "PSIS-LOO", "exact LOO", or several of these.
        scores: Log density of each row by each model, (rows, models), in the order of ``models``.
    """

    models: tuple[Compared, ...]
    rows: int
    how: str
    scores: Tensor

    @property
    def best(self) -> str:
        """The name of the first model."""
        return self.models[0].name

    @property
    def weights(self) -> dict[str, float]:
        """The stacking weights by name."""
        return {model.name: model.weight for model in self.models}

    @property
    def verdict(self) -> str:
        """Which models predict best, in words."""
        first, others = self.models[0], self.models[1:]
        equal = [model for model in others if not model.is_behind]
        said = f"{first.name} predicts these {self.rows:,} rows best"
        if equal:
            apart = " or ".join(f"{model.name} ({model.elpd_diff:.1f} ± {model.dse:.1f} less)" for model in equal)
            said += f", but they do not tell it from {apart}"
        elif others:
            said += f", by {others[0].elpd_diff:.1f} ± {others[0].dse:.1f} nats in all"
        said += f"; with fewer than {FEW} rows these errors are rough" if others and self.rows < FEW else ""
        bad = [model for model in self.models if model.unreliable > MANY]
        if bad:
            names = ", ".join(f"{model.name} ({model.unreliable:.0%})" for model in bad)
            said += f"; leave-one-out is unreliable for many rows of {names}: give rows that no fit has seen"
        return said

    def to_pandas(self) -> pd.DataFrame:
        """Write the comparison as a table.

        Returns:
            A row for each model by name, with columns named as arviz names them.
        """
        import pandas as pd

        rows = [{"model": model.name, **{name: getattr(model, name) for name in HEADER}} for model in self.models]
        return pd.DataFrame(rows).set_index("model")

    def __str__(self) -> str:
        names = max(5, *(len(model.name) for model in self.models))
        lines = [f"{'model':<{names}}" + "".join(f"{name:>11}" for name in HEADER)]
        for model in self.models:
            cells = "".join(f"{cell:>11}" for cell in _cells(model))
            lines.append(f"{model.name:<{names}}{cells}")
        return "\n".join([*lines, f"{self.how}, {self.rows:,} rows: {self.verdict}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the table and the verdict in a notebook."""
        caption = f"{self.how}, {self.rows:,} rows: {self.verdict}"
        return html_table(caption, ["model", *HEADER], [[model.name, *_cells(model)] for model in self.models])

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw how far each model is behind the best, with two standard errors.

        Args:
            ax: Axes to draw on; a new figure by default.

        Returns:
            The axes.

        Raises:
            ParameterError: If matplotlib is not installed.
        """
        axes = axes_for(ax, height=0.6 + 0.5 * len(self.models))
        at = list(range(len(self.models)))[::-1]
        behind = [-model.elpd_diff for model in self.models]
        axes.errorbar(behind, at, xerr=[2 * model.dse for model in self.models], fmt="o", capsize=3)
        axes.axvline(0, color="grey", linewidth=1, linestyle="--")
        axes.set_yticks(at, [f"{model.name} (weight {model.weight:.2f})" for model in self.models])
        axes.set(xlabel=f"log density of {self.rows:,} rows, nats more than the best (two standard errors)")
        return axes


def compare(models: Mapping[str, Any], x: Any = None, y: Any = None, *, draws: int = DRAWS) -> Comparison:
    """Compare fitted models by the log density of rows that they have not seen.

    Args:
        models: Posteriors by name; of one data set, whose targets they all predict. Estimators are taken where no rows
            are given.
        x: Rows that no model was fitted to; or exactly the rows that all were fitted to, each of which is then left out
            in turn. None uses what each fit has kept: up to 256 of its training rows, left out.
        y: Their targets.
        draws: Number of posterior draws.

    Returns:
        The comparison: `str` and notebooks show it as a table with a verdict.

    Raises:
        ParameterError: If the models are no posteriors, or fits have not kept what is needed.
        DataError: If the models are of different data, or the rows do not fit.

    Example:
        >>> import r2d2net as rn
        >>> x = torch.randn(150, 3, generator=torch.Generator().manual_seed(0))
        >>> y = x[:, 0] + torch.randn(150, generator=torch.Generator().manual_seed(1))
        >>> fit = rn.fit(rn.BayesianModel(torch.nn.Linear(3, 1)), (x[:100], y[:100]), "lineargibbs", epochs=100,
        ...              verbose=False)
        >>> small = rn.BayesianModel(torch.nn.Linear(3, 1), rn.priors.Gaussian(0.01))
        >>> shrunk = rn.fit(small, (x[:100], y[:100]), epochs=100, verbose=False)
        >>> compare({"shrunk": shrunk, "r2d2": fit}, x[100:], y[100:]).best
        'r2d2'
    """
    known = isinstance(models, Mapping) and bool(models)
    require(known, "models", Shown(type(models).__name__), 'give posteriors by name, as {"r2d2": p1, "horseshoe": p2}')
    require((x is None) == (y is None), "y", Shown("given" if x is None else "None"), "give both x and y, or neither")
    require_whole("draws", draws)
    posteriors = {str(name): _posterior(name, model, with_rows=x is not None) for name, model in models.items()}
    if x is None:
        scores = _kept(posteriors)
    else:
        try:
            y = torch.as_tensor(y)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"cannot be read ({error})", argument="y", fix="give numbers") from error
        trained = _are_training_rows(posteriors, x, y)
        score = left_out_scores if trained else new_row_scores
        scores = {name: score(posterior, x, y, draws) for name, posterior in posteriors.items()}
    return compared(scores)


def compared(scores: Mapping[str, RowScores]) -> Comparison:
    """Compare models by their scores of the same rows.

    Args:
        scores: The scores by the name of the model.

    Returns:
        The comparison.

    Raises:
        DataError: If a score is not finite.
    """
    names, table = list(scores), torch.stack([own.score for own in scores.values()], 1).double()
    finite = table.isfinite().all(0)
    if not bool(finite.all()):
        name = names[int((~finite).nonzero()[0])]
        raise DataError("gives some row no density", argument="models", value=name, fix="compare the others")
    n, weights = len(table), stacking_weights(table, least=0.0)
    order = table.sum(0).argsort(descending=True, stable=True).tolist()
    models = []
    for rank, k in enumerate(order):
        own = table[:, k]
        behind = table[:, order[0]] - own
        models.append(
            Compared(
                name=names[k],
                rank=rank,
                elpd=float(own.sum()),
                se=math.sqrt(n) * float(own.std(correction=0)),
                elpd_diff=float(behind.sum()),
                dse=math.sqrt(n) * float(behind.std(correction=0)),
                weight=float(weights[k]),
                unreliable=scores[names[k]].unreliable,
            )
        )
    how = " and ".join(dict.fromkeys(own.how for own in scores.values()))
    return Comparison(tuple(models), n, how, table[:, order])


def _posterior(name: Any, model: Any, *, with_rows: bool) -> Posterior[Any]:
    if isinstance(model, Posterior):
        return model
    require(isinstance(model, Fitted), "models", name, "let each name be of a posterior, as `fit` returns it")
    require(not with_rows, "models", name, "give its posterior_, and x as the network sees columns (`encode`)")
    posterior: Posterior[Any] = model.posterior_
    return posterior


def _kept(posteriors: Mapping[str, Posterior[Any]]) -> dict[str, RowScores]:
    """Return the scores that fits have kept of their own training rows."""
    scores = {}
    for name, posterior in posteriors.items():
        health = posterior.health
        if KEPT_ROWS not in health:
            problem = ("has kept no log density of rows left out: ", Value(name))
            raise ParameterError(problem, argument="models", fix="give x and y")
        exact = health.get("loo_exact")
        how = "rows left out by folds" if exact is None else "exact LOO" if exact else "PSIS-LOO"
        rows = torch.tensor(health[KEPT_ROWS], dtype=torch.float64)
        scores[name] = RowScores(rows, float(health.get("loo_bad") or 0.0), how)
    digests = {posterior.settings["data"] for posterior in posteriors.values()}
    if len(digests) > 1 or len({len(own.score) for own in scores.values()}) > 1:
        raise DataError("are of different rows", argument="models", fix="give x and y that all of them can predict")
    return scores


def _are_training_rows(posteriors: Mapping[str, Posterior[Any]], x: Any, y: Any) -> bool:
    """Tell whether the rows are those of the fits; some but not all of them is refused."""
    seen = {name: _is_data_of(posterior, x, y) for name, posterior in posteriors.items()}
    if any(seen.values()) and not all(seen.values()):
        name = next(name for name, trained in seen.items() if trained)
        problem = ("was fitted to these rows and others were not: ", Value(name))
        raise DataError(problem, argument="models", fix="give rows that no model has seen, or that all have")
    return all(seen.values())


def _is_data_of(posterior: Posterior[Any], x: Any, y: Any) -> bool:
    """Tell whether rows are those of a fit; rows of which a part was held out for validation are refused."""
    model, settings = posterior.model, posterior.settings
    try:
        rows, targets = as_arrays((x, y), model.device, model.dtype)
    except DataError:  # a Dataset and the like, which `predict` may take
        return False
    if data_digest(rows, targets) == settings.get("data"):
        return True
    held = len(targets) - settings.get("n", len(targets))
    if held > 0 and "seed" in settings:  # as `prepare` divides them
        order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(mix(settings["seed"], -2)))
        order = order.to(targets.device)
        trained, left = order[held:], order[:held]
        parts = (take(rows, trained), targets[trained], (take(rows, left), targets[left]))
        if data_digest(*parts) == settings.get("data"):
            raise DataError("hold rows that a model was fitted to", argument="x and y", fix="give rows it has not seen")
    return False


def _cells(model: Compared) -> list[str]:
    numbers = (model.elpd, model.se, model.elpd_diff, model.dse)
    return [str(model.rank), *(f"{value:.1f}" for value in numbers), f"{model.weight:.2f}", f"{model.unreliable:.0%}"]
