"""`posterior.to_module`: the numbers of `predict` in a plain module, which torch.export can follow."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import r2d2net as rn

G = torch.Generator().manual_seed(0)
X = 5 + 3 * torch.randn(40, 4, generator=G)
REAL = 100 + 20 * X[:, 0] + torch.randn(40, generator=G)
COUNT = torch.poisson(torch.exp(0.2 * (X[:, 0] - 5)), generator=G)
CLASS = (X[:, 0] > 5).long()
PROBLEMS: dict[str, tuple[Any, Tensor, int]] = {
    "gaussian": (rn.likelihoods.Gaussian(), REAL, 1),
    "two outputs": (rn.likelihoods.Gaussian(), torch.stack([REAL, -REAL], 1), 2),
    "heteroscedastic": (rn.likelihoods.Heteroscedastic(), REAL, 2),
    "student": (rn.likelihoods.StudentT(), REAL, 1),
    "log-normal": (rn.likelihoods.LogNormal(), REAL, 1),
    "gamma": (rn.likelihoods.Gamma(), REAL, 1),
    "categorical": (rn.likelihoods.Categorical(), CLASS, 2),
    "bernoulli": (rn.likelihoods.Bernoulli(), CLASS, 1),
    "ordinal": (rn.likelihoods.Ordinal(2), CLASS, 1),
    "poisson": (rn.likelihoods.Poisson(), COUNT, 1),
    "negative binomial": (rn.likelihoods.NegativeBinomial(), COUNT, 1),
}


def posterior_of(name: str, net: nn.Module | None = None, x: Any = X) -> Any:
    likelihood, y, width = PROBLEMS[name]
    torch.manual_seed(0)
    net = rn.nets.mlp(4, [6], width) if net is None else net
    return rn.fit(rn.BayesianModel(net, likelihood=likelihood), (x, y), epochs=3, verbose=False)


@pytest.mark.parametrize("name", PROBLEMS)
def test_numbers_are_those_of_predict(name: str) -> None:
    posterior = posterior_of(name)
    for draws in ("mean", 1, 7):
        module = posterior.to_module(draws)
        want = posterior.predict(X, draws).mean
        assert module(X).shape == want.shape
        assert torch.allclose(module(X), want, rtol=1e-5, atol=1e-5)


EXPORTED = sorted(PROBLEMS.keys() - {"log-normal"})  # whose mean over several draws looks at values to decide


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "gaussian" else pytest.mark.slow) for name in EXPORTED]
)
def test_numbers_survive_export(name: str) -> None:
    posterior = posterior_of(name)
    module, want = posterior.to_module(7), posterior.predict(X, 7).mean
    rows = torch.export.Dim("rows")
    exported = torch.export.export(module, (X[:5],), dynamic_shapes={"inputs": ({0: rows},)})
    assert torch.allclose(exported.module()(X), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "categorical", "student", "poisson"])
def test_spread_is_the_standard_deviation(name: str) -> None:
    posterior = posterior_of(name)
    mean, std = posterior.to_module(9, seed=4, spread=True)(X)
    prediction = posterior.predict(X, 9, seed=4)
    assert torch.allclose(mean, prediction.mean, rtol=1e-5)
    assert torch.allclose(std, prediction.std, rtol=1e-4)


def images() -> tuple[Tensor, Tensor]:
    return torch.randn(30, 1, 6, 6, generator=torch.Generator().manual_seed(1)), torch.arange(30) % 2


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.layer(x).mean(1))
        return out


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.number, self.head = nn.Embedding(5, 3, padding_idx=0), nn.Linear(2, 3), nn.Linear(3, 2)
        self.word.weight.requires_grad_(False)

    def forward(self, word: Tensor, number: Tensor) -> Tensor:
        out: Tensor = self.head(torch.tanh(self.word(word) + self.number(number)))
        return out


@pytest.mark.parametrize("draws", ["mean", 3])
@pytest.mark.parametrize("kind", ["convolution", "attention", "two inputs"])
def test_networks_of_all_kinds(kind: str, draws: Any) -> None:
    torch.manual_seed(0)
    x: Any
    x, y = images()
    if kind == "convolution":
        net: nn.Module = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    elif kind == "attention":
        net, x = Attention(), x[:, 0, :, :4].contiguous()
    else:
        net, x = Two(), (torch.randint(0, 5, (30,)), torch.randn(30, 2))
    model = rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (x, y), epochs=2, batch_size=10, verbose=False)
    module = posterior.to_module(draws)
    assert not module.train().training  # BatchNorm and Dropout are as in predictions
    arguments = x if isinstance(x, tuple) else (x,)
    assert torch.allclose(module(*arguments), posterior.predict(x, draws).mean, atol=1e-6)
    if draws == "mean":
        exported = torch.export.export(module, arguments)
        assert torch.allclose(exported.module()(*arguments), posterior.predict(x, draws).mean, atol=1e-6)


def test_a_module_of_its_own_that_is_saved_by_torch(tmp_path: Any) -> None:
    posterior = posterior_of("gaussian")
    module = posterior.to_module(5, spread=True)
    again = posterior.to_module(5, seed=3, spread=True)
    torch.save(module.state_dict(), tmp_path / "module.pt")
    again.load_state_dict(torch.load(tmp_path / "module.pt", weights_only=True))
    for one, other in zip(module(X), again(X), strict=True):
        assert torch.equal(one, other)
    posterior.source.state.mean.add_(100.0)  # whatever happens to the posterior
    assert torch.equal(module(X)[0], again(X)[0])


def test_stored_draws_and_refusals() -> None:
    model = rn.BayesianModel(rn.nets.mlp(4, [3], 1), rn.priors.Gaussian())
    ensemble = rn.fit(model, (X, REAL), rn.inference.DeepEnsemble(members=2), epochs=2, jobs=1, verbose=False)
    assert torch.allclose(ensemble.to_module(9)(X), ensemble.predict(X, 9).mean, rtol=1e-5)
    with pytest.raises(rn.ParameterError, match="mean"):
        ensemble.to_module()
    for draws in (0, True, 1.5, "all"):
        with pytest.raises(rn.ParameterError, match="draws="):
            ensemble.to_module(draws)
    with pytest.raises(rn.DataError, match="x has shape"):
        ensemble.to_module(2)(X[:, :2])


def test_units_of_float64_are_worked_out_in_float64() -> None:
    estimator = rn.R2D2Regressor(hidden=(4,), epochs=3, random_state=0)
    x = (X.double() / 1e3 + 1e6).numpy()
    estimator.fit(x, REAL.double().numpy() + 1e9)
    posterior = estimator.posterior_
    assert torch.allclose(
        posterior.to_module(6)(torch.from_numpy(x)), posterior.predict(x, 6).mean, rtol=1e-12, atol=1e-4
    )
