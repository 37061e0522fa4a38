"""What modules keep to themselves in training: modes of frozen parts, padding rows, sparse gradients."""

import warnings

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import MAP, SGLD, SVGI, MCDropout
from r2d2net.likelihoods import Categorical
from r2d2net.priors import R2D2, Gaussian

METHODS = {
    "svgi": (SVGI(estimator="weights"), R2D2()),
    "local": (SVGI(estimator="local"), R2D2()),
    "sgld": (SGLD(thin=1, burn_in=0.5), R2D2()),
    "map": (MAP(), Gaussian()),
    "mcdropout": (MCDropout(), Gaussian()),
}


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


SEEN = []  # least of ones that went through Dropout, in every pass of a test


@pytest.fixture(autouse=True)
def _see_anew():
    SEEN.clear()


class Body(nn.Module):
    """A layer whose statistics move and a Dropout that would be seen in the output."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)

    def forward(self, x):
        SEEN.append(self.drop(torch.ones(len(x), 50)).min().item())
        return self.drop(self.norm(self.linear(x)))


def with_body():
    torch.manual_seed(0)
    return nn.Sequential(Body(), nn.Linear(4, 1))


@pytest.mark.parametrize("name", METHODS)
def test_a_frozen_body_in_evaluation_mode_stays_as_it_was(name):
    net = with_body()
    net[0].requires_grad_(False).eval()
    method, prior = METHODS[name]
    model = rn.BayesianModel(net, prior)
    posterior = rn.fit(model, (rows(30, 3) + 5, rows(30)), method, epochs=4, batch_size=10, verbose=False)
    for key, value in net[0].state_dict().items():
        assert torch.equal(next(iter(posterior.state_dicts(1, seed=0)))[f"0.{key}"], value), key
    assert set(SEEN) == {1.0}  # no Dropout
    assert not torch.equal(posterior.state_dict()["1.weight"], net[1].weight)  # the head was learnt


def test_a_frozen_body_left_in_training_mode_moves_as_in_torch_and_says_so():
    net = with_body()
    net[0].requires_grad_(False)
    with pytest.warns(UserWarning, match=r"net: frozen '0.norm' is in training mode.*\.eval\(\)"):
        posterior = rn.fit(rn.BayesianModel(net), (rows(30, 3) + 5, rows(30)), epochs=2, verbose=False)
    assert not torch.equal(posterior.state_dict()["0.norm.running_mean"], net[0].norm.running_mean)


def test_a_network_in_evaluation_mode_is_trained_all_the_same():
    """As it is after plain training: Dropout is on, and statistics of learnt layers move."""
    net = with_body().eval()
    model = rn.BayesianModel(net)
    posterior = rn.fit(model, (rows(30, 3) + 5, rows(30)), epochs=2, verbose=False)
    assert 0.0 in SEEN
    assert not torch.equal(posterior.state_dict()["0.norm.running_mean"], net[0].norm.running_mean)


def test_a_dropout_switched_off_by_itself_stays_off():
    net = with_body()
    net[0].drop.eval()
    model = rn.BayesianModel(net)
    rn.fit(model, (rows(30, 3), rows(30)), epochs=2, verbose=False)
    assert set(SEEN) == {1.0}


def embedding(**options):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(6, 4, **options), nn.Flatten(), nn.Linear(12, 3))


TOKENS = torch.randint(0, 6, (40, 3), generator=torch.Generator().manual_seed(1))
CLASSES = TOKENS[:, 0] % 3


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("constant", [0.0, 2.5])
def test_padding_rows_keep_their_value(name, constant):
    net = embedding(padding_idx=2)
    with torch.no_grad():
        net[0].weight[2] = constant
    method, prior = METHODS[name]
    model = rn.BayesianModel(net, prior, Categorical())
    posterior = rn.fit(model, (TOKENS, CLASSES), method, epochs=3, batch_size=20, verbose=False)
    for state in posterior.state_dicts(3, seed=0):
        assert torch.equal(state["0.weight"][2], torch.full((4,), constant))
        assert not torch.equal(state["0.weight"][1], net[0].weight[1])
    draws = posterior.named(posterior.sample(3, seed=0))["0.weight"]
    assert torch.equal(draws[:, 2], torch.full((3, 4), constant))
    net.load_state_dict(state)  # what predictions are made of is what the state dict holds
    outputs = posterior.outputs(torch.full((1, 3), 2), draws="mean")[0] if name != "sgld" else None
    if outputs is not None:
        net.load_state_dict(posterior.state_dict())
        assert torch.allclose(outputs, net.eval()(torch.full((1, 3), 2)), atol=1e-6)


def test_padding_rows_that_a_decoder_shares_are_learnt():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(6, 4, padding_idx=0)
            self.decoder = nn.Linear(4, 6, bias=False)
            self.decoder.weight = self.embedding.weight

        def forward(self, x):
            return self.decoder(self.embedding(x).mean(1))

    net = Tied()
    posterior = rn.fit(rn.BayesianModel(net, likelihood=Categorical()), (TOKENS, TOKENS[:, 0]), epochs=3, verbose=False)
    assert not torch.equal(posterior.state_dict()["decoder.weight"][0], torch.zeros(4))


@pytest.mark.parametrize("name", METHODS)
def test_sparse_embeddings_have_the_numbers_of_dense_ones(name):
    method, prior = METHODS[name]
    fitted = [
        rn.fit(
            rn.BayesianModel(embedding(sparse=sparse), prior, Categorical()), (TOKENS, CLASSES), method, epochs=2,
            verbose=False,
        )
        for sparse in (True, False)
    ]  # fmt: skip
    first, second = (next(iter(posterior.state_dicts(1, seed=0))) for posterior in fitted)
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_no_warning_without_running_statistics():
    net = nn.Sequential(nn.Linear(3, 4).requires_grad_(False), nn.LayerNorm(4), nn.Linear(4, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rn.BayesianModel(net).warn_of_moving_statistics()
