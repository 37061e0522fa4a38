"""All properties that algorithms and users take for granted of a likelihood, proved or refuted; no check is random."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net.errors import DataError
from r2d2net.likelihoods.base import Likelihood, Noise, Unit
from r2d2net.likelihoods.log_normal import LogRegression
from r2d2net.model import BayesianModel
from r2d2net.prediction import Regression
from r2d2net.priors import Gaussian
from r2d2net.run.fit import fit
from r2d2net.saved_posteriors import load
from r2d2net.specification import describe, likelihood_from
from r2d2net.testing.contract_error import demand, run_checks

ROWS, CLASSES = 24, 3
ONE = Unit(torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64))


class Case(NamedTuple):
    """A likelihood and targets for it."""

    likelihood: Likelihood
    given: Tensor  # as the user has them
    y: Tensor  # as `target` makes them
    width: int  # of the network's output

    def __repr__(self) -> str:
        return repr(self.likelihood)

    def output(self, rows: int | None = None, seed: int = 1) -> Tensor:
        """Outputs that a network might give."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(rows or len(self.y), self.width, generator=generator, dtype=torch.float64)

    @property
    def seen(self) -> Tensor:
        """Targets on the network's scale."""
        return self.likelihood.network_scale(self.y)

    def noise(self) -> Noise:
        """What the likelihood learns, at its start, in float64."""
        return {name: value.double() for name, value in self.likelihood.init(self.seen).items()}


def example_targets() -> list[Tensor]:
    """Return targets of several kinds: real numbers, numbers in (0, 1), counts, classes 0, 1, 2 and classes 0, 1."""
    generator = torch.Generator().manual_seed(0)
    real = torch.randn(ROWS, generator=generator, dtype=torch.float64)
    counts = torch.arange(ROWS) % 7
    return [real, torch.sigmoid(real), counts, torch.arange(ROWS) % CLASSES, torch.arange(ROWS) % 2]


def case_of(likelihood: Likelihood, y: Any = None) -> Case:
    """Find targets that suit, and the width of the network."""
    demand(isinstance(likelihood, Likelihood), f"{type(likelihood).__name__} is no subclass of Likelihood")
    for given in example_targets() if y is None else [torch.as_tensor(y)]:
        classes = likelihood.has_classes and not given.is_floating_point() and int(given.max()) >= CLASSES
        if classes:
            continue  # counts are no classes of a network with three outputs
        try:
            checked = likelihood.target(given)
        except DataError:
            continue
        if checked.is_floating_point():
            checked = checked.double()
        width = likelihood.outputs(checked)
        return Case(likelihood, given, checked, CLASSES if width is None else width)
    raise AssertionError("target() refuses all example targets: give targets of your own as y")


def check_target(case: Case) -> None:
    """Check that targets keep their rows, are checked only once, and that those without rows are refused."""
    again = case.likelihood.target(case.y)
    demand(len(case.y) == len(case.given), f"target() makes {len(case.y)} rows of {len(case.given)}")
    demand(torch.equal(again.to(case.y.dtype), case.y), "target() changes targets that it has checked before")
    try:
        case.likelihood.target(case.given.reshape(2, 2, -1)[..., :1, None])
    except DataError as error:
        demand("\n" not in str(error), "target() refuses in more than one line")
    else:
        demand(False, "target() takes a tensor of four dimensions: raise a DataError")


def check_width(case: Case) -> None:
    """Check that a network of the right width is taken and, where there is one, that of another width refused."""
    case.likelihood.require_width(case.width, case.y)
    if case.likelihood.outputs(case.y) is not None:
        try:
            case.likelihood.require_width(case.width + 1, case.y)
        except DataError:
            return
        demand(False, f"require_width({case.width + 1}) passes, and outputs() says {case.width}")


def check_log_prob(case: Case) -> None:
    """Check that `log_prob` gives one finite number a row, which depends on that row alone, with a derivative."""
    likelihood, output, noise = case.likelihood, case.output(), case.noise()
    y = case.seen
    values = likelihood.log_prob(output, y, noise)
    demand(tuple(values.shape) == (len(case.y),), f"log_prob has shape {tuple(values.shape)}, not (rows,)")
    demand(bool(values.isfinite().all()), "log_prob is not finite for outputs of size one")
    part = likelihood.log_prob(output[:3], y[:3], noise)
    demand(torch.allclose(part, values[:3], rtol=1e-12), "log_prob of a row depends on the other rows")
    leaf = output[:4].clone().requires_grad_()
    torch.autograd.gradcheck(lambda value: likelihood.log_prob(value, y[:4], noise), leaf)


def check_normalisation(case: Case) -> None:
    """Check that p(y | output) sums or integrates to one, up to 1e-4; for targets of one dimension."""
    likelihood = case.likelihood
    if case.y.dim() == 2 and case.y.shape[1] > 1:
        return
    output = case.output(1)
    if likelihood.has_classes:
        classes = likelihood.predict(output[None], case.noise(), ONE).samples.shape[-1]
        values, step = torch.arange(classes), 1.0
    elif _takes(likelihood, torch.tensor([-0.5])):
        step = 1e-3
        values = torch.arange(-60.0, 60.0, step, dtype=torch.float64)
    elif _takes(likelihood, torch.tensor([0.5])):
        step = 1e-4
        top = 1.0 if not _takes(likelihood, torch.tensor([2.5])) else 200.0
        values = torch.arange(step / 2, top, step, dtype=torch.float64)
    else:
        values, step = torch.arange(1000), 1.0
    y = likelihood.target(values)
    y = y.double() if y.is_floating_point() else y
    log_p = likelihood.log_prob(output.expand(len(y), -1), likelihood.network_scale(y), case.noise())
    total = float((log_p + likelihood.log_slope(y)).exp().sum()) * step
    demand(abs(total - 1) < 1e-4, f"exp(log_prob) adds up to {total:.6g} over all targets, not 1")


def _takes(likelihood: Likelihood, y: Tensor) -> bool:
    try:
        likelihood.target(y)
    except DataError:
        return False
    return True


def check_noise(case: Case) -> None:
    """Check that `observe` and `gibbs` keep names and shapes of what is learnt, and that `observe` maximises.

    With rate 0 nothing changes; with rate 1 the noise is the maximum of the batch's likelihood, where there is noise to
    learn: its derivative vanishes there.
    """
    likelihood, output, noise = case.likelihood, case.output(), case.noise()
    generator = torch.Generator().manual_seed(0)
    y = case.seen
    drawn = likelihood.gibbs(output, y, noise, generator)
    again = likelihood.gibbs(output, y, noise, torch.Generator().manual_seed(0))
    observed = likelihood.observe(output, y, noise, 1.0)
    for name, values in (("observe", observed), ("gibbs", drawn)):
        demand(values.keys() == noise.keys(), f"{name} gives {sorted(values)}, init {sorted(noise)}")
        for key, value in values.items():
            demand(value.shape == noise[key].shape, f"{name} changes the shape of {key}")
            demand(bool(value.isfinite().all()), f"{name} gives {key} that is not finite")
    demand(all(torch.equal(drawn[key], again[key]) for key in drawn), "gibbs gives two results for one seed")
    same = likelihood.observe(output, y, noise, 0.0)
    demand(all(torch.allclose(same[key], noise[key]) for key in noise), "observe changes the noise at rate 0")
    if likelihood.learns_noise:
        demand("variance" in noise, "learns_noise, but init gives no 'variance'")
        leaves = {key: value.clone().requires_grad_() for key, value in observed.items()}
        with torch.enable_grad():
            mean = likelihood.log_prob(output, y, leaves).mean()
        slopes = torch.autograd.grad(mean, list(leaves.values()))
        steepest = max(float(slope.abs().max()) for slope in slopes)
        demand(steepest < 1e-6, f"at rate 1 observe misses the maximum of log_prob: its slope there is {steepest:.2g}")


def check_prediction(case: Case) -> None:
    """Check that `predict` says what `log_prob` does, in the user's units, and averages over draws."""
    likelihood, noise = case.likelihood, case.noise()
    outputs = torch.stack([case.output(seed=seed) for seed in (1, 2)])

    def mixture(y: Tensor) -> Tensor:
        each = torch.stack([likelihood.log_prob(output, y, noise) for output in outputs])
        return torch.logsumexp(each, 0) - math.log(2) + likelihood.log_slope(case.y)

    expected = mixture(case.seen)
    prediction = likelihood.predict(outputs, noise, ONE)
    demand(prediction.samples.shape[:2] == outputs.shape[:2], "predict does not keep (draws, rows) in front")
    _demand_close(prediction.log_prob(case.y), expected, "log_prob of predict is not the mean of p(y | output)")
    own = {name: value.expand(2, *value.shape) for name, value in noise.items()}
    several = likelihood.predict(outputs, own, ONE).log_prob(case.y)
    _demand_close(several, expected, "predict differs if the noise has a first dimension of draws")
    if likelihood.standardizes:
        unit = Unit(ONE.center + 3.0, ONE.scale * 2.5)
        columns = case.y.shape[1] if case.y.dim() == 2 else 1
        scaled = likelihood.predict(outputs, noise, unit).log_prob(case.y)
        standardised = mixture((case.seen - unit.center) / unit.scale)
        reason = "predict does not keep to the unit: center + scale y"
        _demand_close(scaled, standardised - columns * math.log(2.5), reason)


def check_scale(case: Case) -> None:
    """Check that `log_slope` is the derivative of `network_scale`, and `on_network_scale` the same law there."""
    likelihood, y = case.likelihood, case.y
    slope = torch.zeros(len(y), dtype=torch.float64)
    if y.is_floating_point():
        leaf = y.clone().requires_grad_()
        with torch.enable_grad():
            (derivative,) = torch.autograd.grad(likelihood.network_scale(leaf).sum(), leaf)
        slope = derivative.abs().log().reshape(len(y), -1).sum(-1)
    _demand_close(likelihood.log_slope(y), slope, "log_slope is not the log derivative of network_scale")
    there, output, noise = likelihood.on_network_scale(), case.output(), case.noise()
    same = there.log_prob(output, there.network_scale(case.seen), noise)
    reason = "on_network_scale has another log_prob"
    _demand_close(same, likelihood.log_prob(output, case.seen, noise), reason)


def check_traits(case: Case) -> None:
    """Check that ``has_classes``, ``is_softmax`` and ``learns_noise`` say what predictions are."""
    likelihood, outputs, noise = case.likelihood, case.output()[None], case.noise()
    prediction = likelihood.predict(outputs, noise, ONE)
    samples = prediction.samples
    corrects = isinstance(prediction, (Regression, LogRegression))
    demand(not likelihood.learns_noise or corrects, "learns_noise, but predictions are no Regression: leave it False")
    sums_to_one = samples.dim() == 3 and bool(((samples.sum(-1) - 1).abs() < 1e-6).all())
    demand(not likelihood.has_classes or sums_to_one, "has_classes, but predictions are no probabilities of classes")
    shifted = likelihood.predict(outputs + 2.5, noise, ONE).samples
    same = torch.allclose(shifted, samples, rtol=1e-6, atol=1e-9)
    demand(not likelihood.is_softmax or same, "is_softmax, but 2.5 added to all outputs changes predictions")


def _demand_close(value: Tensor, expected: Tensor, reason: str) -> None:
    demand(value.shape == expected.shape, f"{reason}: it has shape {tuple(value.shape)}")
    close = torch.allclose(value.double(), expected, rtol=1e-6, atol=1e-8)
    demand(close, f"{reason}: {value[:3].tolist()} for {expected[:3].tolist()}")


def check_saving(case: Case) -> None:
    """Check that the likelihood comes back from JSON equal to itself."""
    saved = json.loads(json.dumps(describe(case.likelihood)))
    again = likelihood_from(saved, [type(case.likelihood)])
    demand(again == case.likelihood, "the likelihood that is loaded is not equal: make it a frozen dataclass")


def check_fit(case: Case) -> None:
    """Check that a small network is fitted with it, saved, loaded by ``classes=`` and predicts the same again."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Linear(2, case.width)
    x = torch.randn(len(case.given), 2, generator=torch.Generator().manual_seed(3))
    given = case.given.float() if case.given.is_floating_point() else case.given
    posterior = fit(BayesianModel(net, Gaussian(), case.likelihood), (x, given), epochs=3, verbose=False)
    samples = posterior.predict(x, 5).samples
    demand(bool(samples.isfinite().all()), "a fitted network's predictions are not finite")
    with tempfile.TemporaryDirectory() as folder:
        posterior.save(folder)
        again = load(folder, net, classes=[type(case.likelihood)])
    demand(torch.equal(again.predict(x, 5).samples, samples), "the posterior that is loaded predicts otherwise")
    scores: list[Literal["nll", "auroc"]] = ["nll", "auroc"] if case.likelihood.has_classes else ["nll"]
    for score in scores:
        held = fit(
            BayesianModel(net, Gaussian(), case.likelihood),
            (x, given),
            epochs=2,
            validation=(x, given),
            score=score,
            verbose=False,
        )
        last = held.history[-1]["validation"]
        demand(math.isfinite(last), f"the validation score {score!r} of a fitted network is {last}")


LIKELIHOOD_CHECKS: dict[str, Callable[[Case], None]] = {
    "it is saved and loaded by its arguments": check_saving,
    "targets are checked": check_target,
    "the width of the network is checked": check_width,
    "log_prob is a number for each row": check_log_prob,
    "log_prob is normalised": check_normalisation,
    "the noise is learnt": check_noise,
    "predictions say what log_prob says": check_prediction,
    "its scale is that of its density": check_scale,
    "traits are true": check_traits,
    "a network is fitted, saved and loaded": check_fit,
}
"""The properties of a likelihood, by name, and the functions that check them."""


def check_likelihood(likelihood: Likelihood, y: Any = None) -> None:
    """Check that a likelihood keeps the contract of `r2d2net.likelihoods.Likelihood`.

    Args:
        likelihood: The likelihood.
        y: Targets for it, as a user has them, of 24 rows or so. By default the first that it takes of real numbers,
            numbers in (0, 1), counts and class numbers.

    Raises:
        ContractError: Names the first property that the likelihood does not have.

    >>> from r2d2net.likelihoods import Poisson
    >>> check_likelihood(Poisson())
    """
    cases: list[Case] = []
    run_checks(likelihood, {"it takes targets": lambda subject: cases.append(case_of(subject, y))})
    run_checks(cases[0], LIKELIHOOD_CHECKS)
