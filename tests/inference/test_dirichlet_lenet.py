"""EDL and DPN train a LeNet on MNIST, and their Dirichlet laws are weaker at images that are no upright digits."""

import os
from pathlib import Path

import pytest
import torch

import r2d2net as rn
from r2d2net import metrics
from r2d2net.data import Preprocess, load

ACCURACY = 0.955


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = os.environ.get("R2D2NET_DATA")
    if not root:
        pytest.skip("R2D2NET_DATA is not set: no real data here")
    monkeypatch.setenv("R2D2NET_CACHE", str(tmp_path))
    return Path(root)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["EDL", "DPN"])
def test_lenet_knows_digits_and_is_weak_elsewhere(
    algorithm: str, real: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three epochs with default settings.

    Strength falls away from the data as the paper of EDL shows it: at digits turned by 90 degrees, at other images.
    """
    train, test = load("mnist", real), load("mnist", real, "test")
    prepare = Preprocess.fitted(train.images)
    x = prepare(test.images)
    outside = {"turned": torch.rot90(x, dims=(2, 3)), "clothes": prepare(load("fashion-mnist", real, "test").images)}
    net = rn.nets.LeNet(channels=1, classes=10, size=28)
    model = rn.BayesianModel(net, rn.priors.Gaussian(1.0), rn.likelihoods.Categorical())
    data = prepare(train.images), train.labels
    posterior = rn.fit(model, data, algorithm, epochs=3, standardize=False, verbose=False)
    predicted = posterior.predict(x)
    accuracy = metrics.accuracy(test.labels, predicted.probs)
    results = {}
    for name, images in outside.items():
        other = posterior.predict(images)
        areas = [
            metrics.compare_scores(inside, out).auroc
            for inside, out in (
                (-predicted.strength, -other.strength),
                (predicted.entropy, other.entropy),
                (predicted.mutual_information, other.mutual_information),
            )
        ]
        results[name] = float(other.strength.median()), *areas
    at_digits = float(predicted.strength.median())
    with capsys.disabled():
        print(f"\n{algorithm}: accuracy {accuracy:.4f}, NLL {metrics.nll(test.labels, predicted):.4f}, ", end="")
        print(f"ECE {metrics.ece(test.labels, predicted.probs):.4f}, strength {at_digits:.1f}")
        for name, (there, *areas) in results.items():
            print(f"{name}: strength {there:.1f}, AUROC of strength, entropy, mutual information", end=" ")
            print(", ".join(f"{area:.4f}" for area in areas))
    assert accuracy >= ACCURACY
    for name, (there, area, *_) in results.items():
        assert there < 0.5 * at_digits, name
        assert area > 0.8, name
