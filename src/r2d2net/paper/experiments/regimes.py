"""Table "regimes": every prior where the truth is sparse, where a few effects are huge, and where all are small.

    sparse    200 inputs, 10 relevant, |coefficient| in (0.3, 2)          500 rows, noise 1
    big       the same with three of the ten twenty times as large
    dense     200 inputs, all relevant, coefficients N(0, 0.2^2)
    teacher   50 inputs, of which 5 feed a tanh network of 10 units       1,000 rows, noise 0.3

The first three are linear, so that the variational modes can be compared with exact Gibbs sampling (`linear_oracle`),
which shows how well a prior does and how much of that its approximation loses. Every prior has the same modes, and the
variational ones the same grid of step sizes, chosen on held-out rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net import inference, metrics, nets, priors
from r2d2net.data import Simulated
from r2d2net.diagnostics import of_predictions
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.paper.experiments import TITLES
from r2d2net.paper.experiments.artefact import Artefact, Scale
from r2d2net.paper.experiments.grid import Cell, Place, Settings
from r2d2net.paper.experiments.linear_oracle import sample_linear
from r2d2net.paper.experiments.row_fitting import Chosen, fit_best

LINEAR = ("sparse", "big", "dense")
REGIMES = (*LINEAR, "teacher")
PRIORS: dict[str, AnyPrior] = {
    "gauss": priors.Gaussian(),
    "sas": priors.SpikeSlab(),
    "dl": priors.DirichletLaplace(),
    "gdp": priors.GeneralizedDoublePareto(),
    "hs": priors.Horseshoe(),
    "hs+": priors.HorseshoePlus(),
    "r2d2": priors.R2D2(),
    "adaptive": priors.R2D2.adaptive(),
}
MODES = ("svgi", "cavi", "exact")
INPUTS, RELEVANT, ROWS, NOISE = 200, 10, 500, 1.0
TEACHER_INPUTS, TEACHER_RELEVANT, TEACHER_UNITS, TEACHER_ROWS, TEACHER_NOISE = 50, 5, 10, 1_000, 0.3
TEST, VALIDATION, DRAWS, HIDDEN, BATCH = 2_000, 0.1, 100, 50, 100
CHAINS = 4  # of exact sampling
REFERENCE = 200  # test inputs at which convergence is judged

SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"replicates": 1, "epochs": 5, "sweeps": 40, "factors": [1.0]},
    "machine": {"replicates": 10, "epochs": 400, "sweeps": 2_000, "factors": [1.0, 0.3]},
    "paper": {"replicates": 20, "epochs": 2_000, "sweeps": 20_000, "factors": [1.0, 0.3, 3.0]},
}


def cells(scale: Scale, replicates: int | None = None) -> Sequence[Cell]:
    """Return every prior in every mode and regime."""
    size = SIZES[scale]
    return [
        Cell(
            f"{prior}-{mode}-{regime}-{replicate}",
            {
                "row": f"{prior}-{mode}",
                "setting": regime,
                "prior": prior,
                "mode": mode,
                "replicate": replicate,
                "seed": 4000 + replicate,
                **{name: size[name] for name in ("epochs", "sweeps", "factors")},
            },
        )
        for replicate in range(size["replicates"] if replicates is None else replicates)
        for regime in (REGIMES if scale != "smoke" else ("sparse", "teacher"))
        for prior in (PRIORS if scale != "smoke" else ("gauss", "hs", "r2d2", "adaptive"))
        for mode in MODES
        if mode != "exact" or regime in LINEAR
    ]


def compute(settings: Settings, place: Place) -> dict[str, Any]:
    """Measure the test error of a prior in a mode, and how well |E w| finds the relevant inputs of a linear model."""
    regime, seed = settings["setting"], settings["seed"]
    simulated = regression(regime, seed)
    rows = len(simulated.y) - TEST
    held = round((1 - VALIDATION) * rows)
    x, y, x_test, y_test = simulated.x[:rows], simulated.y[:rows], simulated.x[rows:], simulated.y[rows:]
    inputs = x.shape[1]
    net: nn.Module = nn.Linear(inputs, 1) if regime in LINEAR else nets.mlp(inputs, [HIDDEN], 1)
    model = BayesianModel(net, PRIORS[settings["prior"]])
    exact = settings["mode"] == "exact"
    if exact:
        sampled = sample_linear(model, (x[:held], y[:held]), chains=CHAINS, sweeps=settings["sweeps"], seed=seed)
        chosen = Chosen(sampled, [])
    else:
        chosen = fit_best(
            model,
            (x[:held], y[:held]),
            inference.SVGI() if settings["mode"] == "svgi" else inference.CAVI(),
            (x[held:], y[held:]),
            place.run,
            factors=settings["factors"],
            steps_per_epoch=held // BATCH,
            epochs=settings["epochs"],
            batch_size=BATCH,
            seed=seed,
        )
    predicted: Any = chosen.posterior.predict(x_test, DRAWS)
    result = {
        "mse": metrics.mse(y_test, predicted.mean),
        "nll": metrics.nll(y_test, predicted),
        "coverage": metrics.coverage(y_test, *predicted.interval(0.9)),
        "tried": chosen.tried,
        "reference": {"oracle": metrics.mse(y_test, simulated.mean[rows:])},
    }
    if exact:
        convergence = of_predictions(chosen.posterior, x_test[:REFERENCE])
        result |= {"rhat": convergence.worst_rhat, "ess": convergence.least_ess}
    if regime in LINEAR and not bool(simulated.relevant.all()):
        result["relevance_auroc"] = metrics.auroc(simulated.relevant, chosen.posterior.mean()[:inputs].abs())
    return result


def regression(regime: str, seed: int) -> Simulated:
    """Simulate the rows of a regime, test rows last.

    Args:
        regime: One of `REGIMES`, or "correlated": sparse, with inputs that are an autoregression of coefficient 0.7.
        seed: Seed of the data.

    Returns:
        The data set.
    """
    g = torch.Generator().manual_seed(seed)
    return _teacher(g) if regime == "teacher" else _linear(regime, g)


def _linear(regime: str, g: torch.Generator) -> Simulated:
    coefficients = torch.zeros(INPUTS)
    if regime == "dense":
        coefficients.normal_(0, 0.2, generator=g)
    else:
        sign = torch.where(torch.rand(RELEVANT, generator=g) < 0.5, -1.0, 1.0)
        where = torch.randperm(INPUTS, generator=g)[:RELEVANT]
        coefficients[where] = sign * (0.3 + 1.7 * torch.rand(RELEVANT, generator=g))
        if regime == "big":
            coefficients[where[:3]] *= 20
    x = torch.randn(ROWS + TEST, INPUTS, generator=g)
    if regime == "correlated":
        for j in range(1, INPUTS):
            x[:, j] = 0.7 * x[:, j - 1] + (1 - 0.7**2) ** 0.5 * x[:, j]
    return _noisy(x, x @ coefficients, NOISE, coefficients != 0, g)


def _teacher(g: torch.Generator) -> Simulated:
    """Simulate f(x) = v' tanh(W x), of variance about 1."""
    relevant = torch.zeros(TEACHER_INPUTS, dtype=torch.bool)
    relevant[torch.randperm(TEACHER_INPUTS, generator=g)[:TEACHER_RELEVANT]] = True
    inner = torch.randn(TEACHER_RELEVANT, TEACHER_UNITS, generator=g)
    outer = torch.randn(TEACHER_UNITS, generator=g) / math.sqrt(TEACHER_UNITS)
    x = torch.randn(TEACHER_ROWS + TEST, TEACHER_INPUTS, generator=g)
    return _noisy(x, torch.tanh(x[:, relevant] @ inner) @ outer, TEACHER_NOISE, relevant, g)


def _noisy(x: Tensor, mean: Tensor, noise: float, relevant: Tensor, g: torch.Generator) -> Simulated:
    return Simulated(x, mean + noise * torch.randn(len(x), generator=g), mean, noise, relevant)


def reduced(scale: Scale) -> str:
    """Say what a scale leaves out; "" for the paper's."""
    size, full = SIZES[scale], SIZES["paper"]
    if scale == "paper":
        return ""
    return (
        f"{size['replicates']} data sets of {full['replicates']}, {size['epochs']} epochs of {full['epochs']:,}, "
        f"{size['sweeps']:,} sweeps of {full['sweeps']:,}"
    )


ARTEFACT = Artefact(
    name="regimes",
    title=TITLES["regimes"],
    cells=cells,
    compute=compute,
    reduced=reduced,
)
