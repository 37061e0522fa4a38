"""All properties that users take for granted of an inference algorithm, by way of `fit` and the posterior alone.

A run is stopped as a kill would stop it: an exception that nothing catches comes out of the network in the midst of a
step. It then goes on from its last checkpoint, and must end with the same bits as a run left alone.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from r2d2net.errors import ParameterError
from r2d2net.inference.base import Method
from r2d2net.likelihoods import Categorical, Gaussian, Likelihood
from r2d2net.manifest import FILE as MANIFEST
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.nets import LinearPath
from r2d2net.posterior import FILE, Posterior
from r2d2net.priors import R2D2
from r2d2net.priors import Gaussian as GaussianPrior
from r2d2net.run.fit import fit
from r2d2net.saved_posteriors import load
from r2d2net.specification import describe, method_from
from r2d2net.testing.contract_error import demand, run_checks

EPOCHS, BATCH = 4, 12
LONG_RUN = 150  # epochs after which an algorithm has learnt a line


class Killed(BaseException):
    """Stands for SIGKILL inside this process: nothing catches it."""


class Case(NamedTuple):
    """An algorithm and a problem that it takes."""

    method: Method
    likelihood: Likelihood[Any]
    x: Tensor
    y: Tensor
    plain: bool = False  # a network of Bayesian weights alone, without buffers, Dropout and deterministic parameters
    linear: bool = False  # a single linear layer
    path: bool = False  # with a linear path beside the network

    def __repr__(self) -> str:
        return repr(self.method)

    def net(self) -> nn.Module:
        """A small network; unless ``plain`` or ``linear`` with buffers, Dropout and parameters without a prior."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            if self.linear:
                return nn.Linear(3, 3 if self.likelihood.has_classes else 1)
            first, last = nn.Linear(3, 5), nn.Linear(5, 3 if self.likelihood.has_classes else 1)
        middle = [nn.Tanh()] if self.plain else [nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.1)]
        return self.beside_path(nn.Sequential(first, *middle, last))

    def beside_path(self, net: nn.Module) -> nn.Module:
        """Put a linear path beside a network if there is to be one."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return LinearPath(net, 3, 3 if self.likelihood.has_classes else 1) if self.path else net

    def fit(self, net: nn.Module | None = None, prior: AnyPrior | None = None, **options: Any) -> Posterior:
        """Fit a network, by default one of `net` and for four epochs of three batches."""
        model = BayesianModel(net or self.net(), prior or GaussianPrior(0.5), self.likelihood)
        rows = {} if self.method.full_batch else {"batch_size": BATCH}
        options = {"epochs": EPOCHS, "verbose": False, "jobs": 1, **rows, **options}
        return fit(model, (self.x, self.y), self.method, **options)


def case_of(method: Method) -> Case:
    """Find a problem that the algorithm takes: regression or else classification, of the richest network it can."""
    demand(isinstance(method, Method), f"{type(method).__name__} is no subclass of Method")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(36, 3, generator=generator)
    regression = Case(method, Gaussian(), x, 5 + 3 * x[:, 0] + 0.5 * torch.randn(36, generator=generator))
    classification = Case(method, Categorical(), x, x.argmax(1))
    problems = [case._replace(plain=plain) for case in (regression, classification) for plain in (False, True)]
    problems += [case._replace(linear=True) for case in (regression, classification)]
    problems += [case._replace(path=True) for case in (regression, classification)]
    refusals = []
    for problem in problems:
        try:
            problem.fit()
        except ParameterError as error:
            refusals.append(str(error))
        else:
            return problem
    raise AssertionError(f"it refuses regression and classification: {refusals[1]}; {refusals[-1]}")


def check_settings(case: Case) -> None:
    """Check that the settings are a frozen dataclass, which JSON gives back equal to itself."""
    method = case.method
    parameters: Any = getattr(method, "__dataclass_params__", None)
    frozen = parameters is not None and parameters.frozen
    demand(frozen, "it is no frozen dataclass")
    again = method_from(json.loads(json.dumps(describe(method))), [type(method)])
    demand(again == method, "the settings that JSON gives back are not equal: use numbers, strings and None")


def check_seed(case: Case) -> None:
    """Check that the seed decides the run and nothing else: two runs are equal, another seed gives another run."""
    global_state = torch.random.get_rng_state()
    net = case.net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    first, second, other = case.fit(net), case.fit(net), case.fit(net, seed=1)
    for name, value in net.state_dict().items():
        demand(torch.equal(value, before[name]), f"fit changes {name!r} of the network that it is given")
    untouched = torch.equal(torch.random.get_rng_state(), global_state)
    demand(untouched, "a run moves torch's global generator: draw from the generator that is handed over")
    with tempfile.TemporaryDirectory() as folder:
        saved = [_tensors(run, Path(folder) / str(number)) for number, run in enumerate((first, second, other))]
    _demand_equal(saved[0], saved[1], "two runs of one seed")
    same = saved[0].keys() == saved[2].keys() and all(torch.equal(saved[0][k], saved[2][k]) for k in saved[0])
    demand(not same, "runs of two seeds are equal")


def check_resume(case: Case) -> None:
    """Check that a run that is killed twice and resumed ends with the bits and the history of one left alone."""
    counter: list[int] = []
    alone_net = case.net()
    with _counting(alone_net, counter):
        alone = case.fit(alone_net)
    passes = len(counter)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kills = 0
        for share in (0.3, 0.4):  # of the forward passes of the whole run
            net = case.net()
            try:
                with _killing(net, after=max(1, int(share * passes))):
                    case.fit(net, resume=folder / "run", checkpoint_every=0)
            except Killed:
                kills += 1
            left = sorted(path.name for path in (folder / "run").iterdir())
            demand(bool(left), "a killed run leaves no checkpoint")
        demand(kills == 2, f"the run took fewer forward passes than the one before: it ended before kill {kills + 1}")
        resumed_net = case.net()
        with _counting(resumed_net, []):  # as before: a network without hooks may be passed in another order of sums
            resumed = case.fit(resumed_net, resume=folder / "run", checkpoint_every=0)
        left = sorted(path.name for path in (folder / "run").iterdir())
        demand(left == [MANIFEST, FILE], f"a finished run leaves {left} in its folder, not only {MANIFEST} and {FILE}")
        _demand_equal(_tensors(alone, folder / "alone"), _tensors(resumed, folder / "resumed"), "the resumed run")
        demand(alone.history == resumed.history, "the resumed run has another history")
        again = case.fit(resume=folder / "run")
        _demand_same_draws(alone, again, case.x, "resuming a finished run")


def check_saving(case: Case) -> None:
    """Check that a saved posterior is loaded by ``classes=`` with the same draws and predictions, also by mmap."""
    posterior = case.fit()
    with tempfile.TemporaryDirectory() as name:
        posterior.save(name)
        for mmap in (False, True):
            again = load(name, case.net(), classes=[type(case.method)], mmap=mmap)
            _demand_same_draws(posterior, again, case.x, f"loading with mmap={mmap}")
            demand(again.history == posterior.history, "the posterior that is loaded has another history")
            demand(repr(again) == repr(posterior), "the posterior that is loaded prints otherwise")


def check_draws(case: Case) -> None:
    """Check shapes of draws, that a seed decides them, and that predictions are finite."""
    posterior = case.fit()
    size, rows = posterior.model.size, len(case.x)
    weights = posterior.sample(3, seed=1)
    demand(
        weights.dim() == 2 and weights.shape[1] == size, f"sample(3) has shape {tuple(weights.shape)}, not (3, {size})"
    )
    demand(bool(weights.isfinite().all()), "draws of the weights are not finite")
    demand(torch.equal(weights, posterior.sample(3, seed=1)), "sample gives two results for one seed")
    prediction = posterior.predict(case.x, 5, seed=2)
    draws = prediction.samples.shape[0]
    demand(1 <= draws <= 5 and prediction.samples.shape[1] == rows, "predict(x, 5) is not of (draws, rows, ...)")
    demand(bool(prediction.samples.isfinite().all()), "predictions are not finite")
    demand(bool(prediction.log_prob(case.y).isfinite().all()), "the log density of the targets is not finite")
    again = posterior.predict(case.x, 5, seed=2)
    demand(torch.equal(prediction.samples, again.samples), "predict gives two results for one seed")
    pieces = posterior.predict(case.x, 5, seed=2, rows=7).samples
    demand(torch.allclose(pieces, prediction.samples, rtol=1e-4, atol=1e-5), "predictions depend on rows=")
    available = posterior.source.available
    wanted = 3 if available is None else min(3, available)
    generator = torch.Generator(posterior.model.device).manual_seed(0)
    sizes = [len(networks.weights) for networks in posterior.source.draws(wanted, generator, at_once=2)]
    demand(max(sizes) <= 2 and sum(sizes) == wanted, f"draws({wanted}, at_once=2) come in parts of {sizes}")
    state = next(posterior.state_dicts(1, seed=0))
    case.net().load_state_dict(state)
    for name, value in state.items():
        demand(bool(value.isfinite().all()), f"{name!r} of a drawn state dict is not finite")
    try:
        mean, means = posterior.mean(), posterior.predict(case.x, "mean").samples
    except ParameterError as error:  # the mean of several solutions is no network
        demand("\n" not in str(error), "the mean weights are refused in more than one line")
        return
    demand(tuple(mean.shape) == (size,), f"mean() has shape {tuple(mean.shape)}, not ({size},)")
    demand(means.shape[:2] == (1, rows) and bool(means.isfinite().all()), "predict(x, 'mean') is no finite prediction")


def check_history(case: Case) -> None:
    """Check that the history has an entry for each epoch, with finite numbers."""
    history = case.fit().history
    demand(len(history) == EPOCHS, f"the history of {EPOCHS} epochs has {len(history)} entries")
    for name, value in ((name, value) for entry in history for name, value in entry.items()):
        demand(math.isfinite(value), f"the history has {name}={value}")


def check_learning(case: Case) -> None:
    """Check that a longer run learns a simple rule: half of the variance, or two thirds of the classes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3 if case.likelihood.has_classes else 1))
    posterior = case.fit(case.net() if case.linear else case.beside_path(net), GaussianPrior(1.0), epochs=LONG_RUN)
    prediction: Any = posterior.predict(case.x)
    if case.likelihood.has_classes:
        share = float((prediction.label == case.y).double().mean())
        demand(share > 2 / 3, f"after {LONG_RUN} epochs it predicts {share:.0%} of the training classes")
    else:
        share = 1 - float((prediction.mean.reshape(case.y.shape) - case.y).var() / case.y.var())
        demand(share > 0.5, f"after {LONG_RUN} epochs it explains {share:.0%} of the training targets' variance")


def check_priors(case: Case) -> None:
    """Check that a prior with scales and a pole at zero is taken, or refused in one line before anything is written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        if case.method.suits_every_prior:
            weights = case.fit(prior=R2D2()).sample(3)
            demand(bool(weights.isfinite().all()), "draws under the prior R2D2 are not finite")
            return
        try:
            case.fit(prior=R2D2(), checkpoint_to=folder)
        except ParameterError as error:
            demand("\n" not in str(error), "the prior R2D2 is refused in more than one line")
            demand("R2D2" in str(error), f"the refusal of the prior R2D2 does not name it: {error}")
            demand(not folder.exists(), "files are written before the prior is refused")
        else:
            demand(False, "suits_every_prior is False, and the prior R2D2 is taken")


def check_early_stopping(case: Case) -> None:
    """Check that validation rows give scores, and patience is taken by an algorithm that optimises alone."""
    history = case.fit(validation=0.25).history
    demand(all("validation" in entry for entry in history), "the history lacks the score of validation rows")
    try:
        case.fit(validation=0.25, patience=2)
    except ParameterError:
        demand(not case.method.optimizes, "patience=2 is refused, and the method says that it optimizes")
    else:
        demand(case.method.optimizes, "patience=2 is taken, and the method says that it does not optimize")


# --- what the checks have in common


def _tensors(posterior: Posterior, folder: Path) -> dict[str, Tensor]:
    """All that a saved posterior holds."""
    return load_file(posterior.save(folder))


def _demand_equal(expected: dict[str, Tensor], actual: dict[str, Tensor], what: str) -> None:
    differing = sorted(expected.keys() ^ actual.keys())
    demand(not differing, f"{what} has other tensors: {', '.join(differing[:3])}")
    for name, value in expected.items():
        demand(torch.equal(value, actual[name]), f"{what} differs in {name}")


def _demand_same_draws(posterior: Posterior, again: Posterior, x: Tensor, what: str) -> None:
    demand(
        torch.equal(again.sample(2, seed=3), posterior.sample(2, seed=3)), f"{what} gives other draws of the weights"
    )
    same = torch.equal(again.predict(x, 7).samples, posterior.predict(x, 7).samples)
    demand(same, f"{what} gives other predictions")


@contextmanager
def _counting(net: nn.Module, passes: list[int]) -> Iterator[None]:
    """Note the forward passes."""
    handle = net.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _killing(net: nn.Module, after: int) -> Iterator[None]:
    """Stop the run in the forward pass that follows so many."""
    passes = 0

    def hook(module: nn.Module, _: Any) -> None:
        nonlocal passes
        passes += 1
        if passes > after:
            raise Killed

    handle = net.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


ALGORITHM_CHECKS: dict[str, Callable[[Case], None]] = {
    "its settings are saved and loaded": check_settings,
    "the seed decides the run": check_seed,
    "a killed run goes on where it stopped": check_resume,
    "a posterior is saved and loaded": check_saving,
    "draws and predictions have their shapes": check_draws,
    "the history has every epoch": check_history,
    "a longer run learns": check_learning,
    "priors are taken or refused": check_priors,
    "early stopping is taken or refused": check_early_stopping,
}
"""The properties of an algorithm, by name, and the functions that check them."""


def check_algorithm(method: Method) -> None:
    """Check that an algorithm keeps the contract of `r2d2net.inference.Method`, seen through `r2d2net.fit`.

    Args:
        method: The algorithm with settings for short runs: a sampler must keep draws of a run of 12 steps.

    Raises:
        ContractError: Names the first property that the algorithm does not have.
    """
    cases: list[Case] = []
    run_checks(method, {"it fits a small network": lambda algorithm: cases.append(case_of(algorithm))})
    run_checks(cases[0], ALGORITHM_CHECKS)
