"""Diabetic retinopathy: a folder of fundus pictures with a CSV file of their grades 0 to 4, as on Kaggle."""

from __future__ import annotations

from pathlib import Path

from r2d2net.data.formats.image_folder import read_labelled
from r2d2net.data.formats.members import last_part, member_names
from r2d2net.data.formats.pictures import is_picture
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet

GRADES = ("none", "mild", "moderate", "severe", "proliferative")
COLUMNS = (("image", "level"), ("id_code", "diagnosis"))  # the Kaggle 2015 and the APTOS 2019 headers


def retinopathy_folder(pictures: str | Path, grades: str | Path, *, size: int = 64) -> ImageSet:
    """Read a folder (or zip) of pictures and the CSV file of their grades.

    Args:
        pictures: The folder; a picture's name without its suffix is its id.
        grades: The CSV file, with columns image and level, or id_code and diagnosis. Every id in it needs a picture.
        size: Height and width to which every picture is stretched.

    Returns:
        The pictures that the CSV file lists, in sorted order of their ids.

    Raises:
        DataError: If the CSV file is damaged, or a picture is missing or damaged.
    """
    import pandas as pd

    pictures, grades = Path(pictures), Path(grades)
    kind = "a CSV of grades"
    with reading(grades, kind):
        frame = pd.read_csv(grades, dtype={image: str for image, _ in COLUMNS})  # "007" is not 7
        header = next((pair for pair in COLUMNS if set(pair) <= set(frame.columns)), None)
        if header is None:
            raise damaged(grades, kind, "its columns are not image and level, or id_code and diagnosis")
        grade_of = dict(zip(frame[header[0]], frame[header[1]], strict=True))
        wrong = [grade for grade in grade_of.values() if grade not in range(len(GRADES))]
        if wrong:
            raise damaged(grades, kind, f"grade {wrong[0]}, grades are 0 to 4")
    located = {last_part(name).rsplit(".", 1)[0]: name for name in member_names(pictures) if is_picture(name)}
    missing = [image for image in grade_of if image not in located]
    if missing:
        raise damaged(pictures, "a complete set", f"{len(missing)} pictures missing, such as {missing[0]}")
    labels = {located[image]: GRADES[int(grade)] for image, grade in grade_of.items()}
    return read_labelled(pictures, labels, GRADES, channels=3, size=size)
