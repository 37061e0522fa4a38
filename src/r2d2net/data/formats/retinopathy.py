"""Diabetic retinopathy: a folder of fundus pictures with a CSV of grades 0 to 4, or an .npz of both."""

from __future__ import annotations

from pathlib import Path

from r2d2net.data.formats.image_folder import read_labelled
from r2d2net.data.formats.members import last_part, member_names
from r2d2net.data.formats.npz import open_npz
from r2d2net.data.formats.pictures import is_picture
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet, channels_first

GRADES = ("none", "mild", "moderate", "severe", "proliferative")
COLUMNS = (("image", "level"), ("id_code", "diagnosis"))  # the Kaggle 2015 and the APTOS 2019 headers


def retinopathy_folder(pictures: str | Path, grades: str | Path, *, size: int = 64) -> ImageSet:
    """Read a folder (or zip) of pictures and their CSV of grades.

    Args:
        pictures: The folder; a picture's name without its suffix is its id.
        grades: The CSV, with columns image and level, or id_code and diagnosis. Every id in it needs a picture.
        size: Side to which every picture is stretched.
    """
    import pandas as pd

    pictures, grades = Path(pictures), Path(grades)
    kind = "a CSV of grades"
    with reading(grades, kind):
        frame = pd.read_csv(grades, dtype={image: str for image, _ in COLUMNS})  # "007" is not 7
        header = next((pair for pair in COLUMNS if set(pair) <= set(frame.columns)), None)
        if header is None:
            raise damaged(grades, kind, "its columns are not image and level, or id_code and diagnosis")
        given = dict(zip(frame[header[0]], frame[header[1]], strict=True))
        wrong = [grade for grade in given.values() if grade not in range(len(GRADES))]
        if wrong:
            raise damaged(grades, kind, f"grade {wrong[0]}, grades are 0 to 4")
    found = {last_part(name).rsplit(".", 1)[0]: name for name in member_names(pictures) if is_picture(name)}
    missing = [image for image in given if image not in found]
    if missing:
        raise damaged(pictures, "a complete set", f"{len(missing)} pictures missing, such as {missing[0]}")
    labels = {found[image]: GRADES[int(grade)] for image, grade in given.items()}
    return read_labelled(pictures, labels, GRADES, channels=3, size=size)


def read_image_npz(path: Path, classes: tuple[str, ...]) -> ImageSet:
    """An .npz of ``images`` uint8 (n, height, width[, 3]) and ``labels`` (n,); pickled objects are never loaded."""
    kind = "an .npz of images and labels"
    with open_npz(path, kind) as content:
        images, labels = content["images"], content["labels"]
        if len(images) != len(labels):
            raise damaged(path, kind, f"{len(labels)} labels for {len(images)} images")
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
            raise damaged(path, kind, f"labels run from {labels.min()} to {labels.max()}")
        return channels_first(images, labels, classes)
