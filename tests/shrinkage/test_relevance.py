"""Relevance has the closed form of a linear network, and finds the inputs that matter among those that do not."""

import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

import r2d2net as rn
from r2d2net.priors import R2D2
from r2d2net.shrinkage import column_shuffles, explained_shares, input_relevance
from r2d2net.shrinkage.shuffled_outputs import parts_of


def friedman(seed: int, rows: int = 500, inputs: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """Friedman's function of the first five of so many uniform inputs, noise 1: an interaction, a bend, two slopes."""
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(rows, inputs, generator=g)
    mean = 10 * torch.sin(torch.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, mean + torch.randn(rows, generator=g)


@pytest.mark.parametrize(("prior", "seed"), [(R2D2(), 0), (R2D2(), 1), (R2D2(), 2), (R2D2.adaptive(), 0)])
def test_keeps_the_five_that_matter_of_twenty(prior: R2D2, seed: int) -> None:
    """Over eight seeds the intervals of those that matter begin above .05, those of the others end at .01 or below."""
    x, y = friedman(seed)
    model = rn.BayesianModel(rn.nets.mlp(20, [50]), prior=prior)
    posterior = rn.fit(model, (x, y), epochs=60, batch_size=100, seed=seed, verbose=False)
    found = input_relevance(posterior, x[:250], draws=50, shuffles=1)
    assert found.kept.tolist() == 5 * [True] + 15 * [False]
    assert float(found.low[:5].min()) > 0.02
    assert float(found.high[5:].max()) < 0.02


def test_linear_network_has_the_closed_form() -> None:
    """r = w^2 Var x / sum over the inputs; 1,000 rows shuffled four times leave a standard error of 0.02 at most."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 4, generator=g) * torch.tensor([1.0, 100.0, 1.0, 0.01]) + 5
    y = (x - 5) @ torch.tensor([3.0, 0.02, 1.0, 0.0]) + 0.1 * torch.randn(1000, generator=g)
    model = rn.BayesianModel(torch.nn.Linear(4, 1), prior=R2D2())
    posterior = rn.fit(model, (x, y), epochs=50, seed=0, verbose=False)
    found = input_relevance(posterior, x)
    assert found.mean.tolist() == pytest.approx([9 / 14, 4 / 14, 1 / 14, 0], abs=0.06)
    assert found.kept.tolist() == [True, True, True, False]
    assert bool((found.low <= found.mean).all() & (found.mean <= found.high).all())
    for same in (x.numpy(), pd.DataFrame(x.numpy(), columns=list("abcd")), TensorDataset(x, y)):
        again = input_relevance(posterior, same)
        assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    with pytest.raises(rn.DataError, match=r"^x of type DataFrame is no array of numbers: give a tensor[^\n]*$"):
        input_relevance(posterior, pd.DataFrame({"a": ["high", "low"]}))
    with pytest.raises(rn.DataError, match=r"^x has 2 inputs: give one table"):
        input_relevance(posterior, (x, x))
    # 1/14 is more than 5% and less than 10%
    assert input_relevance(posterior, x, least=0.05).kept.tolist() == [True, True, True, False]
    assert input_relevance(posterior, x, least=0.1).kept.tolist() == [True, True, False, False]


def test_a_network_that_uses_nothing_keeps_nothing() -> None:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(500, 3, generator=g), torch.randn(500, generator=g)
    posterior = rn.fit(rn.BayesianModel(torch.nn.Linear(3, 1)), (x, y), epochs=20, seed=0, verbose=False)
    constant = x[:1].expand(10, 3)  # the output does not vary: 0 / 0
    assert input_relevance(posterior, constant).mean.tolist() == [0, 0, 0]


def linear_posterior(weights: list[float]) -> rn.Posterior:
    """A linear network with these weights, as good as certain."""
    net = torch.nn.Linear(len(weights), 1)
    x = torch.randn(2000, len(weights), generator=torch.Generator().manual_seed(9))
    y = x @ torch.tensor(weights)
    return rn.fit(rn.BayesianModel(net), (x, y), epochs=60, batch_size=100, seed=0, verbose=False)


def test_an_input_that_another_stands_in_for_ranks_above_noise() -> None:
    """Of f = x1 the input x2, correlated by rho with x1, has r = 0 and m = rho^2; noise has neither.

    The standard error of m at 2,000 rows is 2 rho (1 - rho^2) / sqrt(2000) = 0.011.
    """
    g = torch.Generator().manual_seed(1)
    x = torch.randn(2000, 3, generator=g)
    x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    found = input_relevance(linear_posterior([1.0, 0.0, 0.0]), x, draws=20, shuffles=2)
    assert found.mean.tolist() == pytest.approx([1, 0, 0], abs=0.07)
    assert found.alone.tolist() == pytest.approx([1, 0.64, 0], abs=0.045)
    assert found.importance.tolist() == pytest.approx(((found.mean + found.alone) / 2).tolist(), abs=1e-5)
    assert found.kept.tolist() == [True, False, False]
    assert bool((found.importance_std < 0.02).all())


def test_the_columns_of_a_category_are_one_input() -> None:
    """Its share is the correlation ratio of its levels, and twenty levels of noise tell nothing on average.

    Without the adjustment they would tell 19 / 400 = 0.048; the mean over 40 categories has a standard error of
    sqrt(2 * 19 / 40) / 400 = 0.0024, and clamping at zero adds half a standard deviation, sqrt(38) / 400 / 2.5 = 0.006.
    """
    g = torch.Generator().manual_seed(2)
    level = torch.randint(3, (1500,), generator=g)
    x = torch.cat([torch.nn.functional.one_hot(level, 3), torch.randn(1500, 1, generator=g)], dim=1).float()
    posterior = linear_posterior([1.0, 2.0, 4.0, 0.5])
    found = input_relevance(posterior, x, groups=[[0, 1, 2], [3]], draws=20)
    between = torch.tensor([1.0, 2.0, 4.0])[level].var(correction=0)
    share = float(between / (between + 0.25))
    assert found.mean.tolist() == pytest.approx([share, 1 - share], abs=0.05)
    assert found.alone.tolist() == pytest.approx([share, 1 - share], abs=0.05)
    noise = torch.randint(20, (40, 400), generator=g)
    y = torch.randn(400, 1, generator=g)
    told, first = [], linear_posterior([1.0] + 20 * [0.0])
    for levels in noise:
        columns = torch.cat([y, torch.nn.functional.one_hot(levels, 20).float()], dim=1)
        groups = [[0], list(range(1, 21))]
        told.append(float(input_relevance(first, columns, groups=groups, draws=2, shuffles=1).alone[1]))
    assert sum(told) / len(told) < 0.02


def test_a_bend_tells_as_much_as_a_slope() -> None:
    """Of f = 2 a + (b^2 - 1) the shares are 4/6 and 2/6, alone as well as shuffled (standard error 0.03)."""

    class Bend(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = torch.nn.Linear(2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.line(torch.stack([x[:, 0], x[:, 1] ** 2 - 1], dim=1))

    x = torch.randn(3000, 2, generator=torch.Generator().manual_seed(4))
    y = 2 * x[:, 0] + x[:, 1] ** 2 - 1
    posterior = rn.fit(rn.BayesianModel(Bend()), (x, y), epochs=40, batch_size=100, seed=0, standardize=False)
    found = input_relevance(posterior, x, draws=20, shuffles=2)
    assert found.mean.tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.12)
    assert found.alone.tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.12)


def test_what_moves_all_logits_alike_is_not_relevant() -> None:
    """Softmax does not see it: the second input adds 5 to every logit, the first tells the classes."""
    net = torch.nn.Linear(2, 2)
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(5))
    model = rn.BayesianModel(net, prior=rn.priors.Gaussian(), likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (x, (x[:, 0] > 0).long()), epochs=5, seed=0, standardize=False)
    mean = torch.tensor([[-3.0, 5.0], [3.0, 5.0]])
    state = posterior.state._replace(mean=posterior.state.mean.clone(), rho=torch.full_like(posterior.state.rho, 20.0))
    posterior.model.bayesian[0].of(state.mean).copy_(mean)
    certain = rn.Posterior(posterior.source.with_state(state), posterior.units, flat_target=False)
    found = input_relevance(certain, x, draws=5)
    assert found.mean.tolist() == pytest.approx([1, 0], abs=0.1)
    assert found.kept.tolist() == [True, False]


def test_the_weights_are_drawn_once_whatever_the_number_of_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = linear_posterior([1.0, 0.0, 0.0, 0.0, 0.0])
    kind, drawn = type(posterior.source), []
    draws = kind.draws

    def counting(self, n, *arguments, **options):
        drawn.append(n)
        return draws(self, n, *arguments, **options)

    monkeypatch.setattr(kind, "draws", counting)
    told: list[tuple[int, int]] = []
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    input_relevance(posterior, x, draws=7, progress=lambda done, total: told.append((done, total)))
    assert sum(drawn) <= 7 + 1  # one more to see whether the rows can be predicted
    assert told == [(i, 7) for i in range(1, 8)]


NETS = {
    "linear": lambda outputs: rn.nets.mlp(4, [], outputs),
    "one hidden layer": lambda outputs: rn.nets.mlp(4, [8], outputs),
    "tanh": lambda outputs: rn.nets.mlp(4, [8], outputs, "tanh"),
    "softplus": lambda outputs: rn.nets.mlp(4, [8], outputs, "softplus"),
    "two hidden layers": lambda outputs: rn.nets.mlp(4, [8, 5], outputs),
    "linear path beside a linear layer": lambda outputs: rn.nets.LinearPath(torch.nn.Linear(4, outputs), 4, outputs),
    "linear path": lambda outputs: rn.nets.mlp(4, [8], outputs, linear=True),
    "linear path, deeper": lambda outputs: rn.nets.mlp(4, [8, 5], outputs, linear=True),
    "one activation twice": lambda outputs: twice(torch.nn.ReLU(), outputs),
}


def twice(activation: torch.nn.Module, outputs: int) -> torch.nn.Module:
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(4, 8), activation, linear(8, 5), activation, linear(5, outputs))


class Other(torch.nn.Module):
    """A network of which nothing is known: it is evaluated at the shuffled tables."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("kind", NETS)
def test_every_way_to_the_outputs_is_the_whole_network(kind: str, classes: bool, monkeypatch) -> None:
    """Closed forms and evaluation from the first layer on, beside the network at the shuffled tables: same draws."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=g) * torch.tensor([1.0, 10.0, 1.0, 1.0]) + 3
    y = torch.randint(3, (300,), generator=g) if classes else x[:, 0] * x[:, 2]
    likelihood = rn.likelihoods.Categorical() if classes else rn.likelihoods.Gaussian()
    found = []
    for wrap in (lambda net: net, Other):
        torch.manual_seed(1)
        model = rn.BayesianModel(wrap(NETS[kind](3 if classes else 1)), likelihood=likelihood)
        assert (parts_of(model) is None) == (wrap is Other)
        posterior = rn.fit(model, (x, y), epochs=3, seed=0, verbose=False)
        for kept in (column_shuffles.KEPT, 0):
            monkeypatch.setattr(column_shuffles, "KEPT", kept)
            found.append(input_relevance(posterior, x[:200], groups=[[0], [1, 3], [2]], draws=5))
    for first, *others in zip(*found, strict=True):
        for other in others:
            torch.testing.assert_close(first, other, rtol=1e-3, atol=1e-5)


def test_a_network_with_hooks_is_evaluated_as_a_whole() -> None:
    net = rn.nets.mlp(4, [8], 1)
    net[0].register_forward_hook(lambda module, inputs, output: 2 * output)
    assert parts_of(rn.BayesianModel(net)) is None


def test_bases_of_many_columns_are_those_of_each() -> None:
    """Columns of numbers, of 0 and 1, nearly 0 and 1, of three values, constant, far from zero: rank and projection."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 6, generator=g, dtype=torch.float64)
    x[:, 1] = (x[:, 1] > 0).double()
    x[:, 2] = (x[:, 2] > 0).double() + 1e-6 * x[:, 0]
    x[:, 3], x[:, 4] = x[:, 3].sign() * (x[:, 0] > 0), 3.0
    x[:, 5] += 1e4
    bases, ranks = explained_shares._parabolas(x.T)
    assert ranks.tolist() == [2, 1, 2, 2, 0, 2]
    for i in range(6):
        basis, rank = explained_shares._directions(x[:, [i]])
        assert int(rank) == int(ranks[i])
        torch.testing.assert_close(bases[i].T @ bases[i], basis[0].T @ basis[0], rtol=0, atol=1e-8)


def test_bad_input_is_named() -> None:
    posterior = rn.fit(rn.BayesianModel(torch.nn.Linear(3, 1)), (torch.rand(9, 3), torch.rand(9)), epochs=1)
    with pytest.raises(rn.DataError, match="x has shape"):
        input_relevance(posterior, torch.zeros(4))
    with pytest.raises(rn.ParameterError, match="least=0"):
        input_relevance(posterior, torch.zeros(4, 3), least=0)
    with pytest.raises(rn.ParameterError, match="draws=0"):
        input_relevance(posterior, torch.zeros(4, 3), draws=0)
    for groups in ([[0], []], [[3]], [[0.5]]):
        with pytest.raises(rn.ParameterError, match=r"groups=.*use lists of columns from 0 to 2"):
            input_relevance(posterior, torch.zeros(4, 3), groups=groups)
