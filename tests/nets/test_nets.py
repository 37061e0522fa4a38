"""Every network has the parameters it should, becomes Bayesian, takes one SVGI step and predicts."""

import math
import resource
import sys

import pytest
import torch

import r2d2net as rn
from r2d2net import nets
from r2d2net.nets.resnet import Bottleneck
from r2d2net.registry import NETWORKS

SMALL = {  # the least of each kind that still has every one of its parts
    "simple_cnn": {"channels": 1, "size": 8},
    "lenet": {"channels": 1, "size": 28},
    "alexnet": {"size": 32},
    "resnet50": {"size": 8, "width": 8},
    "resnet101": {"size": 8, "width": 4},
    "vgg": {"size": 8, "widths": (8, 16)},
    "vit": {"size": 8, "width": 16, "depth": 2},
}
TABLES = {"mlp": {"inputs": 5, "hidden": [7, 6], "outputs": 3}, "paper_mlp": {"inputs": 5, "layers": 3, "outputs": 3}}


def images(rows, channels, size):
    return torch.randn(rows, channels, size, size, generator=torch.Generator().manual_seed(rows))


def one_step(net, x):
    """Fit for one epoch of one batch and predict; what every network must survive."""
    before = {name: value.clone() for name, value in net.state_dict().items()}
    model = rn.BayesianModel(net, prior=rn.priors.R2D2(), likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (x, torch.arange(len(x)) % 3), rn.inference.SVGI(), epochs=1, verbose=False)
    assert int(posterior.state.step) == 1
    prediction = posterior.predict(x, draws=2)
    assert bool(torch.isfinite(prediction.samples).all())
    torch.testing.assert_close(prediction.probs.sum(-1), torch.ones(len(x)))
    outputs = posterior.outputs(x, draws=2)  # a ResNet's probabilities are 0 and 1 while its norms have seen one batch
    assert bool(torch.isfinite(outputs).all())
    assert not torch.equal(outputs[0], outputs[1])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    return model, prediction


@pytest.mark.parametrize("name", [*(name for name in SMALL if name != "resnet101"), *TABLES])
def test_one_svgi_step_and_a_prediction(name):
    options = SMALL.get(name) or TABLES[name]
    channels, size = options.get("channels", 3), options.get("size")
    x = images(4, channels, size) if name in SMALL else images(4, 1, 5)[:, 0, 0]
    classes = 10 if name in SMALL else 3
    model, prediction = one_step(nets.build(name, **options), x)
    assert prediction.probs.shape == (4, classes)
    assert model.size + model.fixed_size == sum(p.numel() for p in model.net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "resnet101"])
def test_the_paper_s_resnets_at_full_width(name, capsys):
    """At full width on 8 x 8 images; prints the peak memory of the process so far."""
    one_step(nets.build(name, size=8), images(4, 3, 8))
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes there, KiB elsewhere
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    with capsys.disabled():
        print(f"\n{name}: peak memory {peak:.1f} GiB")
    assert peak < 12


# --- counts


def linear(inputs, outputs):
    return inputs * outputs + outputs


def conv(inputs, outputs, kernel):
    return inputs * outputs * kernel**2 + outputs


def bottlenecks(blocks):
    """Parameters of the stages by the formula: convolutions without bias, two numbers a normalised channel."""
    total, inputs = 0, 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for k in range(count):
            total += inputs * width + 9 * width**2 + 4 * width**2 + 2 * (width + width + 4 * width)
            total += (inputs * 4 * width + 8 * width) if k == 0 else 0
            inputs = 4 * width
    return total


COUNTS = {
    ("lenet", 10): conv(3, 6, 5) + conv(6, 16, 5) + linear(400, 120) + linear(120, 84) + linear(84, 10),
    ("alexnet", 10): conv(3, 64, 11)
    + conv(64, 192, 5)
    + conv(192, 384, 3)
    + conv(384, 256, 3)
    + conv(256, 256, 3)
    + linear(256, 10),
    ("resnet50", 10): 3 * 64 * 9 + 128 + bottlenecks((3, 4, 6, 3)) + linear(2048, 10),
    ("resnet101", 10): 3 * 64 * 9 + 128 + bottlenecks((3, 4, 23, 3)) + linear(2048, 10),
    ("resnet50", 1000): 25_557_032,  # the published count of ImageNet's
    ("resnet101", 1000): 44_549_160,
}


@pytest.mark.parametrize(("name", "classes"), COUNTS)
def test_parameters_are_those_of_the_formula(name, classes):
    options = {"stem": "large", "size": 224} if classes == 1000 else {}
    with torch.device("meta"):
        net = nets.build(name, classes=classes, **options)
    assert sum(p.numel() for p in net.parameters()) == COUNTS[name, classes]


# --- shapes and arguments


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("channels", "size"), [(1, 32), (3, 64)])
def test_every_network_takes_the_usual_images(name, channels, size):
    width = {"width": 4} if name.startswith("resnet") else {}
    net = nets.build(name, channels=channels, classes=7, size=size, **width).eval()
    assert net(images(2, channels, size)).shape == (2, 7)


@pytest.mark.parametrize("name", ["simple_cnn", "lenet", "resnet50", "resnet101", "vgg", "vit"])
def test_digits_of_28_pixels(name):
    width = {"width": 4} if name.startswith("resnet") else {}
    net = nets.build(name, channels=1, classes=10, size=28, **width).eval()
    assert net(images(2, 1, 28)).shape == (2, 10)


def test_the_large_stem_divides_the_image_by_four():
    net = nets.ResNet((1, 1, 1, 1), 3, 5, 64, stem="large", width=4)
    assert net.stem(images(1, 3, 64)).shape == (1, 4, 16, 16)
    assert net.eval()(images(1, 3, 64)).shape == (1, 5)


def test_the_stages_halve_the_image_but_the_first():
    net = nets.resnet50(size=16, width=4).eval()
    x, sides = net.stem(images(1, 3, 16)), []
    for stage in net.stages:
        x = stage(x)
        sides.append(x.shape[-1])
    assert sides == [16, 8, 4, 2]


def test_a_block_whose_body_says_nothing_is_its_shortcut():
    block = Bottleneck(16, 4, stride=1).eval()
    torch.nn.init.zeros_(block.body[-1].weight)
    x = images(2, 16, 4)
    torch.testing.assert_close(block(x), x.relu())
    wider = Bottleneck(8, 4, stride=2).eval()
    torch.nn.init.zeros_(wider.body[-1].weight)
    torch.testing.assert_close(wider(images(2, 8, 4)), wider.shortcut(images(2, 8, 4)).relu())


def test_patches_are_told_apart_by_their_position_alone():
    net, x = nets.ViT(1, 3, 8, width=8, depth=1).eval(), images(2, 1, 8)
    exchanged = x.roll(4, -1)  # the left patches for the right ones
    assert not torch.allclose(net(x), net(exchanged), atol=1e-4)
    torch.nn.init.zeros_(net.position)
    torch.testing.assert_close(net(x), net(exchanged))


def test_the_mlp_without_hidden_layers_is_linear():
    net, x = nets.mlp(3, [], 2), images(4, 1, 3)[:, 0, 0]
    torch.testing.assert_close(net(x), x @ net[0].weight.T + net[0].bias)
    assert len(nets.paper_mlp(3, 0)) == 1


def test_attention_is_the_textbook_s():
    """One block by hand, head by head."""
    block = nets.vit.Block(6, 2, 12)
    x = images(3, 1, 6)[:, 0]
    normal = block.norm(x)
    query, key, value = block.query_key_value(normal).split(6, -1)
    heads = []
    for k in range(2):
        part = slice(3 * k, 3 * k + 3)
        weight = torch.softmax(query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(3), -1)
        heads.append(weight @ value[..., part])
    y = x + block.merge(torch.cat(heads, -1))
    torch.testing.assert_close(block(x), y + block.mlp(y))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("lenet", {"size": 4}, "size=4 is out of range: LeNet needs at least 8 x 8 pixels"),
        ("alexnet", {"size": 28}, "size=28 is out of range: AlexNet needs at least 31 x 31"),
        ("resnet50", {"size": 4}, "size=4 .* stem='small' needs at least 8 x 8"),
        ("resnet50", {"size": 28, "stem": "large"}, "size=28 .* stem='large' needs at least 32 x 32"),
        ("resnet101", {"stem": "tiny"}, "stem='tiny' is out of range: use 'small' or 'large'"),
        ("vgg", {"size": 4}, "size=4 .* VGG of 3 stages needs at least 8 x 8"),
        ("vgg", {"widths": ()}, "widths=.* give at least one stage"),
        ("vit", {"size": 30}, "size=30 is out of range: use a multiple of patch=4"),
        ("vit", {"width": 30}, "width=30 is out of range: use a multiple of heads=4"),
        ("simple_cnn", {"size": 8, "kernel": 16}, "size=8 .* needs at least 13 x 13"),
        ("lenet", {"channels": 0}, "channels=0 is out of range: use a whole number from 1"),
        ("lenet", {"classes": 2.5}, "classes=2.5 is out of range: use a whole number from 1"),
        ("lenet", {"activation": "sine"}, "activation='sine' is out of range: use one of relu, softplus"),
        ("mlp", {"inputs": 3, "hidden": 5}, r"hidden=5 is out of range: use a list of widths"),
        ("mlp", {"inputs": 3, "hidden": [0]}, r"hidden=\[0\] is out of range: use whole numbers from 1"),
        ("paper_mlp", {"inputs": 3, "layers": 4}, "layers=4 is out of range: the paper has 0 to 3"),
        ("lenet", {"depth": 3}, "lenet does not take these options .*: its arguments are channels, classes, size"),
        ("leenet", {}, "name='leenet' is out of range: use one of mlp, paper_mlp"),
    ],
)
def test_errors_are_one_line(name, options, words):
    with pytest.raises(rn.ParameterError, match=words) as caught:
        nets.build(name, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "size"), [("lenet", 8), ("alexnet", 31), ("vgg", 8), ("simple_cnn", 2)])
def test_the_least_size_works(name, size):
    assert nets.build(name, size=size).eval()(images(2, 3, size)).shape == (2, 10)


def test_the_registry_has_every_network():
    assert set(NETWORKS) == {*SMALL, *TABLES}


def test_widths_of_a_graph_network_are_a_list():
    with pytest.raises(rn.ParameterError, match=r"hidden=8 is out of range: use a list of widths"):
        rn.nets.GCN(5, 8, 2)
