"""Batch transforms against Pillow, and what `Preprocess`, `Augment` and `image_loader` promise."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Generator, Tensor, nn

import r2d2net as rn
from data_files import bytes_of
from r2d2net.data import Augment, ImageSet, Preprocess, image_loader, transforms
from r2d2net.errors import DataError, ParameterError


def smooth(n: int, channels: int, side: int, seed: int = 0) -> Tensor:
    """Random images whose pixels are alike their neighbours, as in photographs."""
    coarse = torch.from_numpy(bytes_of(n, channels, 5, 5, seed=seed)).float()
    wide = nn.functional.interpolate(coarse, (side, side), mode="bicubic", align_corners=False)
    return wide.clamp(0, 255).to(torch.uint8)


def picture(image: Tensor) -> Image.Image:
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)


def pixels(image: Image.Image) -> Tensor:
    array = np.asarray(image)
    return torch.tensor(array[None] if array.ndim == 2 else array.transpose(2, 0, 1)).int()


@pytest.mark.parametrize("size", [9, 28, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_resize_and_grey_are_pillows(size: int, channels: int) -> None:
    images = smooth(3, channels, 32)
    resized = transforms.resize(images, size)
    grey = transforms.to_channels(images, 1)
    assert resized.dtype == grey.dtype == torch.uint8
    for k in range(3):
        expected = pixels(picture(images[k]).resize((size, size), Image.Resampling.BILINEAR))
        assert (resized[k].int() - expected).abs().max() <= 1
        assert (grey[k].int() - pixels(picture(images[k]).convert("L"))).abs().max() <= 1


def test_colour_of_grey_is_three_equal_channels() -> None:
    images = smooth(2, 1, 8)
    assert torch.equal(transforms.to_channels(images, 3), images.repeat(1, 3, 1, 1))
    assert torch.equal(transforms.invert(images), 255 - images)


def test_crops_are_windows_of_the_padded_image() -> None:
    images = torch.from_numpy(bytes_of(200, 3, 8, 8) // 2 + 1)
    crops = transforms.random_crop(images, 2, Generator().manual_seed(0))
    padded = nn.functional.pad(images, (2, 2, 2, 2))
    places = []
    for image, crop in zip(padded, crops, strict=True):
        found = [(t, l) for t in range(5) for l in range(5) if torch.equal(image[:, t : t + 8, l : l + 8], crop)]  # noqa: E741
        assert len(found) == 1
        places += found
    assert len(set(places)) == 25  # one of them is missed in 200 draws with probability .007; the seed is pinned


def test_flips_are_half_of_the_images() -> None:
    images = smooth(400, 1, 8)
    flipped = transforms.random_flip(images, Generator().manual_seed(0))
    same = (flipped == images).all(dim=3).all(dim=2).all(dim=1)
    assert torch.equal(flipped[~same], images[~same].flip(3))
    assert 160 < int(same.sum()) < 240  # four standard deviations


@pytest.mark.parametrize(
    ("strength", "enhance", "row"),
    [
        ("brightness", ImageEnhance.Brightness, 0),
        ("contrast", ImageEnhance.Contrast, 1),
        ("saturation", ImageEnhance.Color, 2),
    ],
)
def test_jitter_is_pillows_enhancement(strength: str, enhance: type, row: int) -> None:
    images = smooth(5, 3, 16)
    jittered = transforms.colour_jitter(images, Generator().manual_seed(3), **{strength: 0.6})
    factors = 1 + 0.6 * (2 * torch.rand(3, 5, generator=Generator().manual_seed(3)) - 1)[row]
    for image, made, factor in zip(images, jittered, factors.tolist(), strict=True):
        assert (made.int() - pixels(enhance(picture(image)).enhance(factor))).abs().max() <= 2


def test_augment_follows_its_generator_and_leaves_the_global_one() -> None:
    images = smooth(50, 3, 16)
    augment = Augment(padding=2, flip=True, brightness=0.2, contrast=0.2, saturation=0.2)
    before = torch.random.get_rng_state()
    first, again, other = (augment(images, Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(Augment()(images, Generator()), images)


def test_preprocess_standardises_the_training_images_only() -> None:
    train, other = smooth(40, 3, 16), smooth(40, 3, 16, seed=1) // 4
    prepare = Preprocess.fitted(train)
    x = prepare(train)
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)
    expected = (other.double() / 255 - train.double().div(255).mean((0, 2, 3), keepdim=True)) / train.double().div(
        255
    ).std((0, 2, 3), correction=0, keepdim=True)
    torch.testing.assert_close(prepare(other), expected.float(), atol=1e-4, rtol=1e-5)


def test_one_preprocessing_takes_every_set_and_keeps_them_apart_by_content_alone() -> None:
    """The same picture becomes the same input whichever set it is in; normalising each set by itself breaks that."""
    inside, outside = smooth(20, 1, 28), transforms.to_channels(smooth(20, 1, 28, seed=1) // 3, 3)
    outside[0] = inside[0]
    prepare = Preprocess.fitted(inside, size=28)
    assert torch.equal(prepare(outside)[0], prepare(inside)[0])
    leaky = Preprocess.fitted(outside, size=28, channels=1)
    assert not torch.allclose(leaky(outside)[0], prepare(inside)[0], atol=0.1)
    with pytest.raises(DataError, match=r"images are of torch\.float32"):
        prepare(prepare(inside))  # twice


def test_other_sets_come_out_in_the_size_of_the_training_images() -> None:
    prepare = Preprocess.fitted(smooth(4, 1, 28))
    assert prepare.size == 28
    assert prepare(smooth(2, 3, 105)).shape == (2, 1, 28, 28)
    assert Preprocess.fitted(smooth(4, 1, 28), size=32).size == 32
    assert Preprocess.fitted(smooth(4, 1, 28)[..., :20]).size is None  # stretching would spoil them


def test_preprocess_is_data() -> None:
    prepare = Preprocess.fitted(smooth(4, 3, 16), size=8, channels=1)
    again = Preprocess(**json.loads(json.dumps(dataclasses.asdict(prepare))))
    assert again == prepare
    assert hash(again) == hash(prepare)
    constant = Preprocess.fitted(torch.full((2, 1, 4, 4), 7, dtype=torch.uint8))
    assert constant.std == (1.0,)


def test_bad_arguments() -> None:
    images = smooth(2, 3, 8)
    for call in (
        lambda: Preprocess((0.5,), (0.0,)),
        lambda: Preprocess((0.5, 0.5), (1.0, 1.0)),
        lambda: Preprocess(size=0),
        lambda: transforms.to_channels(images, 2),
        lambda: transforms.random_crop(images, -1, Generator()),
        lambda: transforms.colour_jitter(images, Generator(), brightness=2),
        lambda: transforms.normalise(images, [0.0] * 3, [0.0] * 3),
    ):
        with pytest.raises(ParameterError):
            call()
    for call in (
        lambda: transforms.normalise(images, [0.0], [1.0]),
        lambda: transforms.resize(images.float(), 4),
        lambda: Preprocess.fitted(images[:0]),
    ):
        with pytest.raises(DataError):
            call()


def image_set() -> ImageSet:
    return ImageSet(smooth(50, 3, 8), torch.arange(50) % 4, ("a", "b", "c", "d"))


def test_loader_gives_whole_batches() -> None:
    data, prepare = image_set(), Preprocess((0.0,) * 3, (1 / 255,) * 3)
    batches = list(image_loader(data, prepare, batch_size=16, shuffle=False))
    assert [len(y) for _, y in batches] == [16, 16, 16, 2]
    assert torch.equal(torch.cat([x for x, _ in batches]).round().to(torch.uint8), data.images)
    torch.manual_seed(0)
    shuffled = list(image_loader(data, prepare, batch_size=16))
    assert [len(y) for _, y in shuffled] == [16, 16, 16]
    assert len(image_loader(data, prepare, batch_size=16)) == 3
    assert [len(y) for _, y in image_loader(data, prepare, batch_size=60)] == [50]


def test_fit_takes_the_loader_and_repeats_to_the_bit() -> None:
    loader = image_loader(image_set(), Preprocess.fitted(image_set().images, size=4), Augment.standard(), batch_size=25)

    def trained() -> Tensor:
        net = nn.Sequential(nn.Flatten(), nn.Linear(48, 4))
        nn.init.ones_(net[1].weight)
        nn.init.zeros_(net[1].bias)
        model = rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical())
        return rn.fit(model, loader, epochs=2, seed=1).state_dict()["1.weight"]

    assert torch.equal(trained(), trained())
