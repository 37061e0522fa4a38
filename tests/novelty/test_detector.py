"""Detectors of several networks: false alarms as promised, planted novelty found, kept on disk, bad input refused."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.errors import CheckpointError, DataError, ParameterError
from r2d2net.novelty.layer_statistics import layers_to_read

ALPHAS = (0.01, 0.05, 0.1)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Words(nn.Module):
    """A small transformer of rows of numbers of words, whose mean over places is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.words(x)).mean(1))


def smooth_images(count: int, g: torch.Generator) -> Tensor:
    return nn.functional.avg_pool2d(torch.randn(count, 1, 14, 14, generator=g), 3, 1)


def images(count: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    x = smooth_images(count, g)
    return x, (x.mean((1, 2, 3)) > 0).long()


def table(count: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, 4, generator=g) @ torch.linspace(-1, 1, 16).reshape(4, 4)
    return x, x[:, 0] + 0.3 * torch.randn(count, generator=g)


def sentences(count: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randint(0, 15, (count, 6), generator=g)
    return x, (x[:, 0] > 7).long()


CLASSES = rn.likelihoods.Categorical()
CASES = {
    "conv": (images, lambda: rn.nets.LeNet(1, 2, 12), CLASSES, lambda g: torch.randn(200, 1, 12, 12, generator=g)),
    "flat": (images, lambda: rn.nets.LeNet(1, 2, 12), CLASSES, lambda g: 0.05 * smooth_images(200, g)),
    "mlp": (table, lambda: rn.nets.mlp(4, [20], 1), None, lambda g: 2 * torch.randn(200, 4, generator=g)),
    "transformer": (sentences, Words, CLASSES, lambda g: torch.randint(15, 20, (200, 6), generator=g)),
}


@cache
def fitted(name: str, rows: int = 300) -> rn.Posterior:
    data, net, likelihood, _ = CASES[name]
    torch.manual_seed(0)
    return rn.fit(rn.BayesianModel(net(), likelihood=likelihood), data(rows, generator(1)), epochs=3, verbose=False)


def bounds(alpha: float, held: int, rows: int) -> tuple[float, float]:
    """How many of some inside rows are flagged: beta-binomial, over held-back rows and new ones; 1e-4 on each side."""
    k = int(alpha * (held + 1) + 1e-9)
    law = stats.betabinom(rows, k, held + 1 - k)
    return law.ppf(1e-4), law.isf(1e-4)


@pytest.mark.parametrize("name", CASES)
def test_false_alarms_are_bounded_and_planted_novelty_is_found(name) -> None:
    """12 counts, each within bounds that a right detector leaves with probability 2e-4: a false alarm in 400 seeds."""
    data, _, _, novel = CASES[name]
    x, _ = data(300, generator(1))
    detector = rn.novelty.fit(fitted(name), x, holdout=data(499, generator(2))[0], draws=10)
    inside = detector.p_values(data(600, generator(3))[0])
    for alpha in ALPHAS:
        least, most = bounds(alpha, 499, 600)
        assert least <= int((inside <= alpha).sum()) <= most
    outside = novel(generator(4))
    assert float(detector.is_novel(outside).double().mean()) > 0.5
    assert detector.says(outside[:50], 0.05)[int(detector.p_values(outside[:50]).argmin())].endswith(
        ": unlike the training data"
    )


def test_calibration_by_rows_that_the_fit_has_seen_is_noticed() -> None:
    """A network that knows its rows by heart: calibrated by some of them, alarms exceed the bounds above."""
    g = generator(5)
    x, y = torch.randn(400, 20, generator=g), torch.randint(0, 2, (400,), generator=g)
    model = rn.BayesianModel(rn.nets.mlp(20, [100], 2), rn.priors.Gaussian(), CLASSES)
    posterior = rn.fit(model, (x, y), "map", epochs=150, verbose=False)
    new = torch.randn(600, 20, generator=g)
    right = rn.novelty.fit(posterior, x, holdout=torch.randn(200, 20, generator=g), draws=1)
    wrong = rn.novelty.fit(posterior, x[:200], holdout=x[200:], draws=1)
    most = bounds(0.1, 200, 600)[1]
    assert int((right.p_values(new) <= 0.1).sum()) <= most < int((wrong.p_values(new) <= 0.1).sum())
    with pytest.raises(DataError, match="holdout holds 200 rows of x_train among its 200"):
        rn.novelty.fit(posterior, x, holdout=x[200:])


def test_rows_are_judged_one_by_one_and_again_after_saving(tmp_path: Path) -> None:
    posterior = fitted("conv")
    x, new = images(300, generator(1))[0], torch.randn(40, 1, 12, 12, generator=generator(2))
    held = images(120, generator(3))[0]
    detector = rn.novelty.fit(posterior, x, holdout=held, draws=5)
    small = rn.novelty.fit(posterior, x, holdout=held, draws=5, rows=7)
    torch.testing.assert_close(small.scores(new), detector.scores(new), rtol=0.02, atol=0.02)
    detector.save(tmp_path / "detector")
    again = rn.novelty.load(tmp_path / "detector", posterior)
    assert torch.equal(again.scores(new), detector.scores(new))
    assert repr(again) == repr(detector)
    assert again.names == ("input", "features.0", "features.3", "head.0", "head.2", "head.4", "entropy", "disagreement")
    assert again.parts(new)["input"].shape == (40,)
    with pytest.raises(CheckpointError, match="is of another posterior"):
        rn.novelty.load(tmp_path / "detector", fitted("conv", rows=200))
    posterior.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="a folder of its own"):
        detector.save(tmp_path / "run")
    (tmp_path / "detector" / "detector.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(CheckpointError, match="truncated, altered"):
        rn.novelty.load(tmp_path / "detector", posterior)


def test_an_estimator_is_asked_about_tables() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.choice(["x", "y", "z"], 400)})
    model = rn.R2D2Regressor(hidden=(10,), epochs=5, random_state=0).fit(frame[:250], frame["a"][:250])
    detector = rn.novelty.fit(model, frame[:250], holdout=frame[250:], draws=5)
    assert detector.is_novel(pd.DataFrame({"a": [30.0], "b": ["x"]})).tolist() == [True]
    assert detector.is_novel(frame[:100]).double().mean() < 0.1


def test_huge_rows_are_novel() -> None:
    detector = rn.novelty.fit(fitted("mlp"), table(300, generator(1))[0], holdout=table(99, generator(2))[0], draws=5)
    assert detector.p_values(torch.full((1, 4), 1e30)).tolist() == [0.01]
    assert detector.says(torch.full((1, 4), 1e30)) == ["p = .010: unlike the training data"]


class Masked(nn.Module):
    """A network of numbers and of a mask that is added to scores, of which the softmax is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.head((self.scores(x) + mask).softmax(1))


def test_inputs_that_are_read_are_those_of_all_rows_of_the_fit(tmp_path: Path) -> None:
    g = generator(1)
    x, none = torch.randn(300, 4, generator=g), torch.zeros(300, 4)
    late = none.clone()
    late[250:, 1] = -torch.inf
    model = rn.BayesianModel(Masked(), likelihood=CLASSES)
    posterior = rn.fit(model, ((x, late), (x[:, 0] > 0).long()), epochs=1, verbose=False)
    options = {"draws": 2, "rows": 40}
    held = torch.randn(120, 4, generator=g), none[:120]
    for train, other in (((x, late), held), ((x, none), (held[0], late[180:]))):
        detector = rn.novelty.fit(posterior, train, holdout=other, **options)
        detector.save(tmp_path / "detector")
        again = rn.novelty.load(tmp_path / "detector", posterior)
        assert again.row_scores.reader.inputs == detector.row_scores.reader.inputs == ("input 0",)
        assert torch.equal(again.p_values((x, late)), detector.p_values((x, late)))
    detector = rn.novelty.fit(posterior, (x, none), holdout=held, **options)
    detector.save(tmp_path / "detector")
    for one in (detector, rn.novelty.load(tmp_path / "detector", posterior)):
        with pytest.raises(
            DataError, match=r"^x has infinite values in input 1, which had none in the rows of the fit: "
        ):
            one.p_values((x, late))


def test_deep_networks_are_read_at_six_layers_and_left_without_hooks() -> None:
    net = rn.nets.mlp(3, [5] * 12, 2)
    model = rn.BayesianModel(net, likelihood=CLASSES)
    network = rn.fit(model, (torch.randn(20, 3), torch.arange(20) % 2), epochs=1, verbose=False).source.center()
    layers = layers_to_read(model, network, torch.randn(2, 3))
    assert len(layers) == 6
    assert not any(module._forward_hooks for module in model.net.modules())


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        (
            {"holdout": torch.zeros(50, 4)},
            ParameterError,
            "alpha=0.01 is below any p-value of 50 held-back rows, 1 / 51",
        ),
        ({"holdout": 1.5}, ParameterError, "holdout=1.5 is out of range"),
        ({"holdout": torch.zeros(0, 4)}, DataError, "holdout has 0 rows"),
        ({"holdout": "x"}, DataError, "holdout of type str is no array"),
        ({"holdout": torch.zeros(200, 5)}, DataError, "5"),
        ({"holdout": torch.full((200, 4), torch.nan)}, DataError, "not finite"),
        ({"x_train": torch.zeros(1, 4)}, DataError, "x_train has 1 rows"),
        ({"posterior": 3}, ParameterError, "posterior is a int: give what fit returned"),
        ({"draws": 0}, ParameterError, "draws=0"),
        ({"rows": 0}, ParameterError, "rows=0"),
        ({"seed": 0.5}, ParameterError, "seed=0.5"),
    ],
)
def test_bad_input_ends_in_one_line(changed, kind, message) -> None:
    given = {"posterior": fitted("mlp"), "x_train": table(300, generator(1))[0], "holdout": torch.randn(200, 4)}
    with pytest.raises(kind, match=message) as error:
        rn.novelty.fit(**{**given, **changed})
    assert "\n" not in str(error.value)
