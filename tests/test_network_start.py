"""Whether a network was trained, and that fits say what they start from."""

import warnings

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.errors import FitWarning
from r2d2net.inference import HMC, MAP, SGLD, SVGI, DeepEnsemble
from r2d2net.network_start import suited_start

FRESH = {
    "mlp": lambda: rn.nets.mlp(6, [32], 1),
    "lenet": rn.nets.LeNet,
    "vgg": rn.nets.VGG,
    "vit": lambda: rn.nets.ViT(depth=1),
    "lstm": lambda: nn.LSTM(3, 4),
    "cell": lambda: nn.GRUCell(3, 4),
    "attention": lambda: nn.MultiheadAttention(8, 2, kdim=4, vdim=4, add_bias_kv=True),
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16),
    "embedding": lambda: nn.Embedding(50, 8, padding_idx=0),
    "transposed": lambda: nn.ConvTranspose2d(6, 4, 3, groups=2),
    "grouped": lambda: nn.Conv2d(6, 6, 3, groups=3),
    "bilinear": lambda: nn.Bilinear(3, 4, 5),
    "one weight": lambda: nn.Linear(1, 1),
    "rounded": lambda: nn.Linear(30, 30).bfloat16().float(),
}


def start_of(net, frozen=()):
    return suited_start(net, {name for name, _ in net.named_parameters()} - set(frozen), has_frozen=bool(frozen))


def trained(seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    x = torch.randn(64, 3)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(60):
        optimiser.zero_grad()
        (net(x) - x[:, :1] * x[:, 1:2]).square().mean().backward()
        optimiser.step()
    return net


@pytest.mark.parametrize("name", FRESH)
def test_networks_as_torch_makes_them_are_not_trained(name):
    """Uniform laws are bounded: no false alarm but for embeddings, at six standard errors (p < 1e-8)."""
    for seed in range(3):
        torch.manual_seed(seed)
        assert start_of(FRESH[name]()) == ("he", None)


def test_trained_networks_are_recognised():
    for seed in range(5):
        start = start_of(trained(seed))
        assert start.name == "net"
        assert "looks trained" in start.why


def test_statistics_and_norm_weights_tell_of_training():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).train()
    net(torch.randn(8, 3))  # a dry run
    assert start_of(net) == ("he", None)
    for _ in range(10):
        net(torch.randn(8, 3))
    assert start_of(net).name == "net"
    layer = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    nn.init.constant_(layer[1].weight, 0.1)  # an initialisation
    assert start_of(layer) == ("he", None)
    with torch.no_grad():
        layer[1].weight[0] = 0.2
    assert start_of(layer).name == "net"


@pytest.mark.parametrize(
    "initialise",
    [nn.init.xavier_uniform_, nn.init.orthogonal_, lambda w: nn.init.normal_(w, std=2.0)],
    ids=["xavier", "orthogonal", "normal"],
)
@pytest.mark.parametrize("zero_bias", [False, True])
def test_initialisations_of_ones_own_are_drawn_anew_and_said(initialise, zero_bias):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(30, 60), nn.ReLU(), nn.Linear(60, 30))
    for layer in (net[0], net[2]):
        initialise(layer.weight)
        if zero_bias:
            nn.init.zeros_(layer.bias)
    start = start_of(net)
    assert start.name == "he"
    assert "not initialised as torch does" in start.why


def test_adapters_of_zero_beside_frozen_parts_are_started_from():
    net = nn.ModuleDict({"base": nn.Linear(3, 3), "a": nn.Linear(3, 2), "b": nn.Linear(2, 3)})
    nn.init.zeros_(net["b"].weight)
    assert start_of(net).name == "he"
    assert start_of(net, ["base.weight", "base.bias"]).name == "net"
    nn.init.ones_(net["b"].weight)  # factors
    assert start_of(net, ["base.weight", "base.bias"]).name == "net"


X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = X[:, 0] + 0.1 * X[:, 1]


@pytest.mark.parametrize("method", [SVGI(lr=1e-6), SGLD(lr=1e-9, preconditioner="none"), MAP(lr=1e-6)])
def test_a_fit_of_a_trained_network_starts_from_it_and_says_so(method):
    prior = rn.priors.Gaussian(1.0)
    net, name = trained(), type(method).__name__
    with pytest.warns(
        FitWarning, match=rf"^net looks trained .*: {name} starts from its weights; give {name}\(start='he'\)"
    ):
        posterior = rn.fit(rn.BayesianModel(net, prior), (X, Y), method, epochs=2, verbose=False)
    assert posterior.settings["algorithm"]["arguments"]["start"] == "net"
    drawn = next(iter(posterior.state_dicts(1, seed=0)))["0.weight"]
    assert float((drawn - net[0].weight.detach()).abs().max()) < 0.5
    with pytest.warns(FitWarning, match="standardize=False if it was trained without"):
        rn.fit(rn.BayesianModel(net, prior), (10 * X, Y), method, epochs=1, verbose=False)


def test_the_users_word_needs_no_warning_and_ensembles_start_apart():
    model, data = rn.BayesianModel(trained(), rn.priors.Gaussian(1.0)), (X, Y)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(starts from|draws new)")
        for start in ("he", "net"):
            rn.fit(model, data, SVGI(start=start), epochs=1, verbose=False)
        rn.fit(rn.BayesianModel(nn.Linear(3, 1)), data, epochs=1, verbose=False)
    for method in (DeepEnsemble(members=2), HMC(chains=2, max_tree_depth=1)):
        with pytest.warns(FitWarning, match="draws new weights for every run; give"):
            posterior = rn.fit(model, data, method, epochs=4, jobs=1, verbose=False)
        assert posterior.settings["algorithm"]["arguments"]["start"] == "he"
