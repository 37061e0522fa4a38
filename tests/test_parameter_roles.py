"""What parameters are to their modules, and the table of a model's parameters."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import MAP, SGLD, SVGI, MCDropout
from r2d2net.parameter_roles import copied, is_normalization, roles_of
from r2d2net.priors import R2D2, Gaussian


class LlamaLike(nn.Module):
    """Root-mean-square normalisation as language models write it themselves."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class ChannelsNorm(nn.Module):
    """Takes images alone, so that its name decides."""

    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        if x.dim() != 4:
            raise IndexError("images are needed")
        return nn.functional.normalize(x, dim=1) * self.gamma.view(1, -1, 1, 1)


class LayerScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(1e-5 * torch.ones(width))

    def forward(self, x):
        return x * self.gamma


class FarShift(LayerScale):
    """Outputs far from zero, which hardly differ relative to their size."""

    def forward(self, x):
        return x + self.gamma + 1e5


class NotANorm(LayerScale):
    """Its name lies."""


NotANorm.__name__ = "ScaleNormed"


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 4))
        self.position = nn.Parameter(0.02 * torch.randn(1, 3, 4))
        self.linear, self.norm, self.scale = nn.Linear(4, 4), LlamaLike(4), LayerScale(4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(x + self.scale(self.linear(self.norm(x)))).mean(1)


@pytest.mark.parametrize("layer", [LlamaLike(4), ChannelsNorm(4), nn.LayerNorm(4), nn.BatchNorm1d(4), nn.RMSNorm(4)])
def test_normalisation_layers(layer):
    assert is_normalization(layer)
    with torch.no_grad():
        layer.requires_grad_(False)
        for parameter in layer.parameters():
            parameter.mul_(1e-4)
    assert is_normalization(layer)


@pytest.mark.parametrize(
    "layer", [LayerScale(4), FarShift(4), NotANorm(4), nn.PReLU(4), nn.Linear(4, 1), nn.Identity()]
)
def test_other_layers(layer):
    assert not is_normalization(layer)


def test_a_table_of_every_parameter():
    net = Tokens()
    net.linear.requires_grad_(False)
    table = rn.BayesianModel(net, R2D2(), deterministic=["head.bias"]).summary()
    assert dict(table["role"]) == {
        "token": "token",
        "position": "token",
        "linear.weight": "weight",
        "linear.bias": "bias",
        "norm.weight": "norm",
        "scale.gamma": "scale",
        "head.weight": "weight",
        "head.bias": "bias",
    }
    assert list(table["count"]) == [4, 12, 16, 4, 4, 4, 4, 1]
    assert table["count"].sum() == sum(p.numel() for p in net.parameters())
    assert list(table["prior"][["linear.weight", "norm.weight", "head.bias"]]) == [
        "frozen",
        "deterministic",
        "deterministic",
    ]
    assert table["prior"]["token"] == repr(R2D2())
    assert table["prior"]["scale.gamma"] == repr(Gaussian(1.0))
    assert table["unit"]["head.weight"] == pytest.approx((2 / 4) ** 0.5)


def weight_normed(old):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    if old:
        with pytest.warns(FutureWarning):
            nn.utils.weight_norm(net[0])
    else:
        nn.utils.parametrizations.weight_norm(net[0])
    return net


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize(
    ("method", "prior"),
    [(SVGI(), R2D2()), (SGLD(thin=1), R2D2()), (MAP(), Gaussian()), (MCDropout(), Gaussian())],
    ids=["svgi", "sgld", "map", "mcdropout"],
)
def test_weight_norm_has_its_prior_on_lengths(old, method, prior, tmp_path):
    net = weight_normed(old)
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    net(x)  # leaves weights of a graph in the module, which Python cannot copy
    model = rn.BayesianModel(net, prior)
    assert sorted(model.roles.values()) == ["bias", "bias", "direction", "length", "weight"]
    length, direction = (
        ("0.weight_g", "0.weight_v") if old else tuple(f"0.parametrizations.weight.original{i}" for i in (0, 1))
    )
    assert dict(model.summary()["prior"])[length] == repr(prior)
    assert dict(model.summary()["prior"])[direction] == "deterministic"
    posterior = rn.fit(model, (x, x[:, 0]), method, epochs=3, verbose=False)
    posterior.save(tmp_path)
    again = rn.load(tmp_path, weight_normed(old))
    assert torch.equal(again.predict(x, 3).mean, posterior.predict(x, 3).mean)
    state = next(iter(posterior.state_dicts(1, seed=0)))
    fresh = weight_normed(old)
    fresh.load_state_dict(state)
    assert not torch.equal(state[length], net.state_dict()[length])
    copied(fresh)


def test_roles_of_shared_parameters_are_those_of_their_first_owner():
    net = nn.ModuleList([nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)])
    net[1].weight = net[0].weight
    assert roles_of(net) == {"0.weight": "weight"}
