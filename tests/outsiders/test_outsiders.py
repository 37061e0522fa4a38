"""A prior and an algorithm written outside the package, by following CONTRIBUTING.md word by word."""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from swag import SWAG
from torch import nn
from triple_gamma import TripleGamma

import r2d2net as rn
from r2d2net.registry import ALGORITHMS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECTIONS = {"Add a prior": "triple_gamma.py", "Add an algorithm": "swag.py"}
every_section = pytest.mark.parametrize(("section", "file"), SECTIONS.items())


def blocks(section: str) -> list[tuple[str | None, str]]:
    """The code of a section of CONTRIBUTING.md, piece by piece, each with the file that it belongs to if it does."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    body = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    pieces = re.findall(r'^```python(?: title="(.*?)")?\n(.*?)^```', body, flags=re.MULTILINE | re.DOTALL)
    return [(file or None, code) for file, code in pieces]


@every_section
def test_the_pieces_of_code_are_the_whole_file(section: str, file: str) -> None:
    shown = [line for name, code in blocks(section) if name == file for line in code.splitlines() if line]
    assert shown == [line for line in (HERE / file).read_text(encoding="utf-8").splitlines() if line]
    assert {name for name, _ in blocks(section)} == {file, None}


@every_section
def test_the_instructions_work_word_by_word_outside_the_package(section: str, file: str, tmp_path: Path) -> None:
    """The file as CONTRIBUTING.md has it, proved and used in a folder of its own, by the public package alone."""
    parts = blocks(section)
    (tmp_path / file).write_text("\n".join(code for name, code in parts if name == file), encoding="utf-8")
    (tmp_path / "use.py").write_text("\n".join(code for name, code in parts if name is None), encoding="utf-8")
    source = str(Path(rn.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(36, 3, generator=torch.Generator().manual_seed(1))
    return x, 5 + 3 * x[:, 0]


def fit(prior=None, method=None, **options):
    model = rn.BayesianModel(network(), rn.priors.Gaussian() if prior is None else prior)
    return rn.fit(model, data(), method, **{"epochs": 4, "batch_size": 12, "verbose": False, **options})


EVERY_PRIOR = [cls.__name__ for cls in ALGORITHMS.classes() if cls.suits_every_prior and cls.suits_every_net]


@pytest.mark.parametrize("name", EVERY_PRIOR)
def test_every_algorithm_for_every_prior_takes_the_prior(name: str) -> None:
    short = {"SGLD": {"burn_in": 0.25}, "SGHMC": {"burn_in": 0.25}, "HMC": {"chains": 1, "max_tree_depth": 2}}
    method = getattr(rn.inference, name)(**short.get(name, {}))
    posterior = fit(TripleGamma(), method, **({"batch_size": None} if method.full_batch else {}))
    assert torch.isfinite(posterior.sample(3)).all()


def test_hmc_moves_its_scales_with_the_weights() -> None:
    method = rn.inference.HMC(chains=1, max_tree_depth=2, scales="joint")
    assert torch.isfinite(fit(TripleGamma(), method, batch_size=None).sample(2)).all()


@pytest.mark.parametrize("method", [rn.inference.MAP(), SWAG()], ids=repr)
def test_the_prior_has_no_finite_mode_and_is_refused_in_one_line(method) -> None:
    with pytest.raises(rn.ParameterError, match=r"does not suit the prior TripleGamma .* no finite mode") as caught:
        fit(TripleGamma(), method)
    assert "\n" not in str(caught.value)


def test_a_run_of_both_is_saved_and_loaded(tmp_path: Path) -> None:
    class Wide(rn.priors.Gaussian):
        """A prior from outside with a finite mode."""

    posterior = fit(Wide(2.0), SWAG(iterates=5))
    posterior.save(tmp_path)
    again = rn.load(tmp_path, network(), classes=[SWAG, Wide])
    assert torch.equal(again.predict(data()[0], 7).samples, posterior.predict(data()[0], 7).samples)
    for classes, missing in (([], "prior 'Wide'"), ([Wide], "algorithm 'SWAG'"), ([SWAG], "prior 'Wide'")):
        with pytest.raises(rn.CheckpointError, match=f"names the {missing}.*classes=") as caught:
            rn.load(tmp_path, network(), classes=classes)
        assert "\n" not in str(caught.value)
    with pytest.raises(rn.ParameterError, match=r"^classes"):
        rn.load(tmp_path, network(), classes=[SWAG, network])


def test_draws_of_swag_have_its_covariance() -> None:
    """Means within six standard errors, variances within six of theirs: false-alarm rate below 1e-7."""
    posterior = fit(method=SWAG(iterates=6, rank=4), epochs=10)
    state, draws = posterior.state, 20_000
    expected = (state.square - state.mean.square()).clamp(min=0) / 2 + state.deviations.square().sum(0) / (2 * 3)
    weights = posterior.sample(draws, seed=0)
    assert bool(((weights.mean(0) - state.mean).abs() < 6 * (expected / draws).sqrt()).all())
    assert bool(((weights.var(0) / expected - 1).abs() < 6 * (2 / draws) ** 0.5).all())
    assert int(state.collected) == 7  # 15 steps after the burn-in, every second of them


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def test_a_killed_run_under_the_prior_ends_with_the_same_bits(tmp_path: Path) -> None:
    """All runs have a hook: a network without one may be passed by hand, whose sums are in another order."""
    net, passes, most = network(), 0, math.inf

    def kill(*_: object) -> None:
        nonlocal passes
        passes += 1
        if passes > most:
            raise Killed

    net.register_forward_pre_hook(kill)
    options = {"epochs": 4, "batch_size": 12, "verbose": False, "checkpoint_every": 0}
    alone = rn.fit(rn.BayesianModel(net, TripleGamma()), data(), **options)
    most, options["resume"] = passes + 6, tmp_path
    with pytest.raises(Killed):
        rn.fit(rn.BayesianModel(net, TripleGamma()), data(), **options)
    most = math.inf
    resumed = rn.fit(rn.BayesianModel(net, TripleGamma()), data(), **options)
    assert torch.equal(resumed.sample(3, seed=0), alone.sample(3, seed=0))


def test_an_estimator_has_the_prior_and_the_algorithm(tmp_path: Path) -> None:
    x, y = (part.numpy() for part in data())
    for number, options in enumerate([{"prior": TripleGamma(a=0.4)}, {"prior": "gaussian", "algorithm": SWAG()}]):
        model = rn.R2D2Regressor(hidden=(4,), epochs=10, random_state=0, **options).fit(x, y)
        folder = model.save(tmp_path / str(number))
        again = rn.R2D2Regressor.load(folder, classes=[TripleGamma, SWAG])
        assert (again.predict(x) == model.predict(x)).all()
        with pytest.raises(rn.CheckpointError, match="classes="):
            rn.R2D2Regressor.load(folder)
    shutil.rmtree(tmp_path)
