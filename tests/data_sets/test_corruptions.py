"""Corrupted images: each kind does what its formula says, more so with severity, and leaves its input alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from r2d2net.data.corruptions import SEVERITIES, STRENGTHS, corrupt
from r2d2net.errors import DataError, ParameterError


def photographs(channels: int) -> torch.Tensor:
    """Smooth random images with edges."""
    rng = np.random.default_rng(0)
    smooth = gaussian_filter(rng.normal(size=(20, channels, 32, 32)), (0, 0, 2, 2))
    return torch.from_numpy(np.clip(128 + 300 * smooth, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", STRENGTHS)
def test_severity_moves_images_further_away(kind, channels) -> None:
    images = photographs(channels)
    before = images.clone()
    found = [corrupt(images, kind, severity) for severity in SEVERITIES]
    assert torch.equal(images, before)
    assert all(one.shape == images.shape and one.dtype == torch.uint8 for one in found)
    distances = [float((one.float() - images.float()).square().mean()) for one in found]
    assert distances[0] > 0
    assert all(a < b for a, b in pairwise(distances)), distances
    assert torch.equal(corrupt(images, kind, 5), found[-1])


def test_kinds_follow_their_formulas() -> None:
    images = photographs(3)
    x = images.double().numpy() / 255
    mean = x.mean((2, 3), keepdims=True)
    expected = {
        "contrast": mean + 0.4 * (x - mean),
        "blur": gaussian_filter(x, (0, 0, 0.7, 0.7), mode="mirror"),
        "brightness": x * (x.max(1, keepdims=True) + 0.15).clip(max=1) / x.max(1, keepdims=True).clip(1e-9),
    }
    for kind, values in expected.items():
        np.testing.assert_allclose(corrupt(images, kind, 3).numpy(), 255 * values.clip(0, 1), atol=0.6)


def test_images_of_one_row_are_blurred_along_it() -> None:
    """As images are whose rows are all the same, but for rounding."""
    images = photographs(1)[:, :, :1]
    for flat, square in ((images, images.expand(-1, -1, 32, -1)), (images.mT, images.mT.expand(-1, -1, -1, 32))):
        found = corrupt(flat.contiguous(), "blur", 5)
        assert not torch.equal(found, flat)
        expected = corrupt(square.contiguous(), "blur", 5)[:, :, : flat.shape[2], : flat.shape[3]]
        torch.testing.assert_close(found.int(), expected.int(), rtol=0, atol=1)


def test_noise_has_its_deviation_and_its_seed() -> None:
    """35,000 draws: the deviation has a relative standard error of 0.4%, and 2.5% is left to rounding."""
    grey = torch.full((12, 3, 31, 31), 128, dtype=torch.uint8)
    noisy = corrupt(grey, "noise", 3, seed=1)
    assert float((noisy.float() / 255).std()) == pytest.approx(0.08, rel=0.025)
    assert not torch.equal(noisy, corrupt(grey, "noise", 3, seed=2))


def test_severities_of_numpy_are_taken() -> None:
    images = photographs(1)
    assert torch.equal(corrupt(images, "noise", np.int64(3)), corrupt(images, "noise", 3))


def test_what_cannot_be_corrupted_is_refused() -> None:
    images = photographs(1)
    for severity in (0, 6, 2.0, True):
        with pytest.raises(ParameterError, match="severity="):
            corrupt(images, "noise", severity)
    with pytest.raises(ParameterError, match="kind='fog' is out of range: use one of noise, blur"):
        corrupt(images, "fog", 1)
    with pytest.raises(ParameterError, match=r"kind=\['noise'\] is out of range: use one of noise, blur"):
        corrupt(images, ["noise"], 3)
    with pytest.raises(DataError, match="give uint8"):
        corrupt(images.float(), "noise", 1)
    assert corrupt(images[:0], "jpeg", 1).shape == (0, 1, 32, 32)
