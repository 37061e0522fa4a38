"""Adapters start as the pretrained network, learn what the data ask for, and merge into a plain network."""

import copy

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import adapters
from r2d2net.inference import SVGI

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(1))


def pretrained():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))


def fitted(net, y, epochs=200, **settings):
    return rn.fit(
        rn.BayesianModel(net), (X, y), SVGI(**settings), epochs=epochs, standardize=False, seed=0, verbose=False
    )


def test_untrained_adapters_change_nothing_and_share_the_memory():
    net = pretrained()
    adapted = adapters.lora(net, 2, layers=["0", "2"], train="4.*")
    assert torch.equal(adapted(X), net(X))
    assert adapted[0].base.weight.data_ptr() == net[0].weight.data_ptr()
    assert adapted[4].weight.data_ptr() != net[4].weight.data_ptr()
    learnt = [name for name, p in adapted.named_parameters() if p.requires_grad]
    assert learnt == ["0.down.weight", "0.up.weight", "2.down.weight", "2.up.weight", "4.weight", "4.bias"]
    assert all(p.requires_grad for p in net.parameters())
    assert isinstance(net[0], nn.Linear)


def test_adapters_move_from_zero_and_merge():
    """Whatever their start, adapters of exactly zero are learnt; a draw merged gives the outputs of the draw."""
    net = pretrained()
    truth = copy.deepcopy(net)
    with torch.no_grad():
        truth[2].weight += 0.5 * torch.outer(torch.randn(16), torch.randn(16))
        y = truth(X)
        before = (net(X) - y).square().mean().sqrt()
    adapted = adapters.lora(net, 2)
    posterior = fitted(adapted, y)
    assert posterior.settings["algorithm"]["arguments"]["start"] == "net"
    assert posterior.model.size < 16 * 16
    after = (posterior.predict(X).mean - y).square().mean().sqrt()
    assert after < before / 3
    state = next(posterior.state_dicts(1, seed=3))
    plain = adapters.merged(adapted, state)
    assert not any(isinstance(module, adapters.AdaptedLinear) for module in plain.modules())
    adapted.load_state_dict(state)
    torch.testing.assert_close(plain(X), adapted(X))
    assert list(plain.state_dict()) == list(net.state_dict())


def test_changes_are_those_of_the_weights():
    adapted = adapters.lora(pretrained(), 2, layers="2", scale=3.0)
    posterior = fitted(adapted, X[:, :1], epochs=20)
    found = adapters.changes(posterior, 20)
    assert list(found) == ["2"]
    sizes = []
    for state in posterior.state_dicts(20, seed=0):
        plain = adapters.merged(adapted, state)
        own = pretrained()[2].weight.detach()
        sizes.append(float((plain[2].weight.detach() - own).norm() / own.norm()))
    assert found["2"].mean == pytest.approx(sum(sizes) / 20, rel=1e-4)
    assert found["2"].low < found["2"].mean < found["2"].high


def test_shrinkage_keeps_layers_that_need_no_change():
    """Targets of the pretrained network with noise change it less than those of a network with another layer."""
    net, other = pretrained(), pretrained()
    with torch.no_grad():
        other[2].weight += 0.5 * torch.outer(torch.randn(16), torch.randn(16))
        noise = 0.1 * torch.randn(60, 1, generator=torch.Generator().manual_seed(2))
        same, changed = (
            adapters.changes(fitted(adapters.lora(net, 2), target(X) + noise), 30) for target in (net, other)
        )
    assert all(same[name].mean < 0.3 for name in same)
    assert sum(each.mean for each in same.values()) < 0.7 * sum(each.mean for each in changed.values())


def test_fused_code_of_torch_reads_the_changed_weights():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    adapted = adapters.lora(encoder, 2, layers="linear*")
    with torch.no_grad():
        for module in adapted.modules():
            if isinstance(module, adapters.AdaptedLinear):
                module.up.weight.normal_()
    x = torch.randn(4, 5, 8)
    trained = adapted.train()(x)
    with torch.no_grad():
        torch.testing.assert_close(adapted.eval()(x), trained, rtol=1e-4, atol=1e-5)


def test_a_lone_linear_layer_and_half_precision():
    layer = nn.Linear(3, 2).to(torch.bfloat16)
    adapted = adapters.lora(layer, 1)
    assert adapted.down.weight.dtype == torch.float32
    assert adapted(X.to(torch.bfloat16)).dtype == torch.bfloat16
    assert type(adapters.merged(adapted)) is nn.Linear


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 0}, "^rank=0"),
        ({"scale": 0.0}, "^scale=0.0 is out of range: use a positive number$"),
        ({"layers": "attention.*"}, r"^layers: pattern 'attention.\*' matches no linear layer; there are 0, 2, 4$"),
        ({"layers": "4", "train": "4.*"}, "^layers: pattern '4' matches no linear layer; there are 0, 2$"),
        ({"train": "head.*"}, r"^train: pattern 'head.\*' matches no parameter; there are 0.weight, .*, 4.bias$"),
        ({"net": nn.ReLU()}, r"^layers: pattern '\*' matches no linear layer; there are none$"),
        ({"net": "net"}, "^net is a"),
    ],
)
def test_bad_arguments_are_one_line(arguments, message):
    with pytest.raises(rn.ParameterError, match=message) as caught:
        adapters.lora(**{"net": pretrained(), **arguments})
    assert "\n" not in str(caught.value)


def test_posteriors_without_adapters_have_no_changes():
    with pytest.raises(
        rn.ParameterError, match=r"^posterior is of a network without adapters: make it by adapters\.lora"
    ):
        adapters.changes(fitted(pretrained(), X[:, :1], epochs=1))
