"""`ood_images` guards against the normalisation leak: one preprocessing, and no way around it for either side."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import r2d2net as rn
from data_files import bytes_of
from r2d2net.data import ImageSet, Preprocess, ood_images, transforms
from r2d2net.prediction import Classification


class Recorded:
    """A posterior that is uncertain of dark inputs and remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []
        self.how: list[tuple[int | str, int | None]] = []

    def predict(self, x: Tensor, draws: int | str = 100, *, seed: int | None = 0) -> Classification:
        self.seen.append(x)
        self.how.append((draws, seed))
        bright = x.mean((1, 2, 3), dtype=torch.float64)
        return Classification(torch.softmax(torch.stack([bright, -bright], -1), -1)[None])


def image_set(n: int, channels: int = 1, side: int = 28, darker: int = 1, seed: int = 0) -> ImageSet:
    images = torch.from_numpy(bytes_of(n, channels, side, side, seed=seed)) // darker
    return ImageSet(images, torch.zeros(n, dtype=torch.int64), ("any",))


def test_both_sides_reach_the_posterior_through_the_one_preprocessing() -> None:
    train, inside = image_set(30, seed=1), image_set(20, seed=2)
    outside = {"dark": image_set(12, darker=3, seed=3), "colour": image_set(8, 3, 32, seed=4)}
    prepare, posterior = Preprocess.fitted(train.images), Recorded()
    results = ood_images(posterior, prepare, inside, outside, draws=7, seed=3)
    assert list(results) == ["dark", "colour"]
    assert posterior.how == [(7, 3)] * 3
    for seen, raw in zip(posterior.seen, [inside, *outside.values()], strict=True):
        assert torch.equal(seen, prepare(raw.images))
        assert seen.shape[1:] == (1, 28, 28)
    for name, data in outside.items():
        expected = rn.metrics.ood_scores(posterior, prepare(inside.images), prepare(data.images))
        assert results[name].auroc == expected.auroc


def test_the_same_pictures_on_both_sides_cannot_be_told_apart() -> None:
    """With a preprocessing for each side they could: the second half of the test is the leak."""
    train, same = image_set(30, darker=2, seed=1), image_set(25, seed=2)
    prepare, posterior = Preprocess.fitted(train.images), Recorded()
    assert ood_images(posterior, prepare, same, {"same": same})["same"].auroc == 0.5
    own = Preprocess.fitted(same.images)
    leak = rn.metrics.ood_scores(posterior, prepare(same.images), own(same.images))
    assert leak.auroc == 1


def test_polarity_is_the_set_s_own_and_undone_by_invert() -> None:
    white_on_black, prepare = image_set(30, darker=5, seed=1), Preprocess.fitted(image_set(30, darker=5).images)
    black_on_white = replace(white_on_black, images=transforms.invert(white_on_black.images))
    undone = replace(black_on_white, images=transforms.invert(black_on_white.images))
    posterior = Recorded()
    ood_images(posterior, prepare, white_on_black, {"inverted": black_on_white, "undone": undone})
    assert not torch.equal(posterior.seen[1], posterior.seen[0])
    assert torch.equal(posterior.seen[2], posterior.seen[0])


def test_what_was_preprocessed_elsewhere_is_refused() -> None:
    data = image_set(5)
    prepare, posterior = Preprocess.fitted(data.images), Recorded()
    ready = prepare(data.images)
    bare = Preprocess((0.1,), (0.3,))
    for call, words in (
        (
            lambda: ood_images(posterior, prepare, data, {"o": ready}),
            r"outside\['o'\] is a Tensor: give the raw ImageSet",
        ),
        (lambda: ood_images(posterior, prepare, ready, {"o": data}), "inside is a Tensor: give the raw ImageSet"),
        (
            lambda: ood_images(posterior, lambda x: x, data, {"o": data}),
            "preprocess is a function: give the Preprocess",
        ),
        (
            lambda: ood_images(posterior, bare, data, {"o": image_set(5, side=32)}),
            r"outside\['o'\] comes out as \(1, 32, 32\), inside as \(1, 28, 28\): use a Preprocess with a size",
        ),
    ):
        with pytest.raises(rn.DataError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
