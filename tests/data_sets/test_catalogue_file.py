"""Catalogue files: which of them apply, what they may say, and that a hostile one reaches nothing outside."""

import errno
import hashlib
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from data_files import bytes_of, catalogue, mnist, refused, unpacked
from r2d2net.data import load
from r2d2net.data.catalogue_file import read_catalogue
from r2d2net.data.copy_kinds import KINDS
from r2d2net.data.known_sets import PUBLIC, known_sets
from r2d2net.data.loading import known
from r2d2net.data.verifying import verify
from r2d2net.errors import ParameterError

ROOT = Path(__file__).parents[2]
PETS = '[pets.train]\nkind = "image-npz"\nfiles = ["pets.npz"]\nclasses = ["cat", "dog"]\n'


def pets(root: Path, name: str = "pets.npz", label: int = 1) -> None:
    root.mkdir(exist_ok=True)
    np.savez(root / name, images=bytes_of(2, 4, 4), labels=np.array([0, label]))


# ---- which files apply


def test_argument_then_variable_then_the_folders_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, elsewhere = tmp_path / "data", tmp_path / "mine.toml"
    pets(root)
    pets(root, "more.npz", label=0)
    with pytest.raises(ParameterError, match="name='pets' is no data set known here"):
        load("pets", root)
    elsewhere.write_text(PETS)
    assert load("pets", root, catalogue=elsewhere).labels.tolist() == [0, 1]
    assert load("pets", str(root), catalogue=str(elsewhere)).classes == ("cat", "dog")
    monkeypatch.setenv("R2D2NET_DATA_CATALOGUE", str(elsewhere))
    assert load("pets", root).labels.tolist() == [0, 1]
    catalogue(root, PETS.replace("pets.npz", "more.npz") + PETS.replace("train", "test"))
    assert load("pets", root).labels.tolist() == [0, 1]  # the named file comes first
    assert known("pets", root).splits == ("train", "test")  # and the folder's own counts too
    monkeypatch.delenv("R2D2NET_DATA_CATALOGUE")
    assert load("pets", root).labels.tolist() == [0, 0]
    monkeypatch.setenv("R2D2NET_DATA", str(root))
    assert load("pets").labels.tolist() == [0, 0]
    assert len(known("pets", catalogue=root / "r2d2net-data.toml").copies) == 2  # not read twice


def test_a_catalogue_needs_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("R2D2NET_DATA", raising=False)
    (tmp_path / "mine.toml").write_text(PETS)
    with pytest.raises(ParameterError, match="root is not given and R2D2NET_DATA is not set"):
        load("pets", catalogue=tmp_path / "mine.toml")


def test_a_catalogue_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match=r"^catalogue=.*none\.toml is not a file: name a catalogue file"):
        load("mnist", tmp_path, catalogue=tmp_path / "none.toml")
    monkeypatch.setenv("R2D2NET_DATA_CATALOGUE", str(tmp_path))
    with pytest.raises(ParameterError, match=r"^R2D2NET_DATA_CATALOGUE=.* is not a file"):
        load("mnist", tmp_path)


def test_originals_come_before_copies_and_copies_before_packages(tmp_path: Path) -> None:
    pets(tmp_path)
    classes = [str(k) for k in range(10)]
    text = f'[mnist.train]\nkind = "image-npz"\nfiles = ["pets.npz"]\nclasses = {classes}\n'
    np.savez(tmp_path / "d.npz", X=np.zeros((2, 10)), y=np.zeros(2))
    text += '[diabetes.all]\nkind = "table-npz"\nfiles = ["d.npz"]\nx = ["X"]\ny = ["y"]\n'
    catalogue(tmp_path, text)
    assert len(load("mnist", tmp_path)) == 2
    mnist(tmp_path / "mnist")
    assert len(load("mnist", tmp_path)) == 6
    assert len(load("diabetes", tmp_path)) == 2
    (tmp_path / "d.npz").unlink()
    assert len(load("diabetes", tmp_path)) == 442


def test_missing_files_are_named(tmp_path: Path) -> None:
    catalogue(tmp_path, PETS.replace("pets.npz", "sub/pets_*.npz"))
    refused(lambda: load("pets", tmp_path), f"pets (train) is not in {tmp_path}: put sub/pets_*.npz into {tmp_path}")
    with pytest.raises(ParameterError, match="split='val' is none of pets: use one of train"):
        load("pets", tmp_path, "val")


def test_a_changed_setting_is_not_answered_from_the_cache(tmp_path: Path) -> None:
    np.savez(tmp_path / "pets.npz", images=bytes_of(2, 4, 4), labels=np.array([0, 1]), turned=np.array([1, 0]))
    catalogue(tmp_path, PETS)
    assert load("pets", tmp_path).labels.tolist() == [0, 1]
    catalogue(tmp_path, PETS + 'labels = "turned"\n')
    assert load("pets", tmp_path).labels.tolist() == [1, 0]


def test_verify_by_the_catalogues_counts_and_checksums(tmp_path: Path) -> None:
    pets(tmp_path)
    digest = hashlib.sha256((tmp_path / "pets.npz").read_bytes()).hexdigest()
    catalogue(tmp_path, f'{PETS}rows = 2\nsha256 = {{ "pets.npz" = "{digest}" }}\n')
    assert [finding.fault for finding in verify(known("pets", tmp_path), tmp_path)] == ["", ""]
    catalogue(tmp_path, f"{PETS}rows = 3\n")
    assert [finding.fault for finding in verify(known("pets", tmp_path), tmp_path)] == ["2 rows, not 3"]
    catalogue(tmp_path, f'{PETS}sha256 = {{ "pets.npz" = "{"0" * 64}" }}\n')
    (finding,) = verify(known("pets", tmp_path), tmp_path)
    assert f"sha256 is {digest}, not 000" in finding.fault


# ---- what they may say


MOSAIC = '[svhn.train]\nkind = "mosaic"\nfiles = ["a.webp"]\nlabels = "l.npz"\nkey = "y"\n'
TEN = 'classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not = [toml", ["is not a catalogue file, or damaged"]),
        ("[pets]\nkind = 'mosaic'\n", ["pets has no splits", "[pets.train]"]),
        ("pets = 7\n", ["pets has no splits"]),
        ("[[pets]]\nkind = 'mosaic'\n", ["pets has no splits"]),
        ("[pets.train]\nfiles = ['a']\n", ["[pets.train]: kind is missing; use mosaic, image-npz"]),
        ("[pets.train]\nkind = 'pickle'\n", ["kind='pickle' is not known"]),
        ("[pets.train]\nkind = ['mosaic']\n", ["kind=['mosaic'] is not known"]),
        ("[pets.train]\nkind = 'mosaic'\n", ["files is missing; use a list of paths"]),
        ("[pets.train]\nkind = 'uci'\nfiles = 'a'\n", ["files='a' cannot be used; use a list of paths"]),
        ("[pets.train]\nkind = 'uci'\nfiles = []\n", ["files=[] cannot be used"]),
        ("[pets.train]\nkind = 'uci'\nfiles = [1]\n", ["files=[1] cannot be used"]),
        ("[pets.train]\nkind = 'uci'\nfiles = ['a', 'b']\n", ["files names 2 files; use one file"]),
        (PETS + "lables = 'y'\n", ["'lables' is no setting of kind image-npz; use kind, files,"]),
        (PETS + "rows = -1\n", ["rows=-1 cannot be used; use a whole number"]),
        (PETS + "rows = true\n", ["rows=True cannot be used"]),
        (PETS + "images = 3\n", ["images=3 cannot be used"]),
        (PETS.replace('["cat", "dog"]', '"cat"'), ["classes='cat' cannot be used"]),
        (PETS + "sha256 = 'abc'\n", ["sha256='abc' cannot be used"]),
        (PETS + "sha256 = { 'pets.npz' = 'abc' }\n", ["sha256 of pets.npz is 'abc'; use 64 hexadecimal digits"]),
        (PETS + "sha256 = { 'x.npz' = 'abc' }\n", ["sha256 has 'x.npz', which is none of the files; use pets.npz"]),
        (MOSAIC, ["[svhn.train]: classes is missing"]),
        (MOSAIC + "classes = ['a', 'b']\n", ["classes has 2 names; use the 10 classes of svhn"]),
        (MOSAIC.replace("train", "val") + TEN, ["svhn has no split 'val'; use train, test, extra"]),
        (MOSAIC + TEN + "tile = 0\n", ["tile=0 cannot be used; use a whole number from 1 to 4096"]),
        (MOSAIC + TEN + "tile = 1_000_000_000\n", ["tile=1000000000 cannot be used"]),
        (MOSAIC + TEN + "tile = 32.0\n", ["tile=32.0 cannot be used"]),
        ("[svhn.train]\nkind = 'uci'\nfiles = ['a']\n", ["kind='uci' does not fit svhn, which is images; use mosaic"]),
        ("[boston.all]\nkind = 'tiny-imagenet'\nfiles = ['a']\n", ["does not fit boston, which is a table; use uci"]),
        ("[p.all]\nkind = 'image-folder'\nfiles = ['a']\nchannels = 2\n", ["channels=2 cannot be used; use 1 (grey)"]),
        ("[p.all]\nkind = 'image-folder'\nfiles = ['a']\nchannels = true\n", ["channels=True cannot be used"]),
        ("[p.all]\nkind = 'table-npz'\nfiles = ['a']\ny = ['y']\nx = ['a', 'b', 'c']\n", ["x=['a', 'b', 'c'] cannot"]),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(tmp_path: Path, text: str, words: list[str]) -> None:
    path = catalogue(tmp_path, text)
    refused(lambda: load("mnist", tmp_path), str(path), *words)


def test_every_kind_and_setting_is_documented() -> None:
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        for setting in kind.settings:
            assert f"`{setting}`" in line, (name, setting)


def test_the_catalogue_of_the_tests_is_valid_for_any_folder(tmp_path: Path) -> None:
    copies = read_catalogue(Path(__file__).parents[1] / "data" / "shared_copies.toml", tmp_path, PUBLIC)
    assert {copy.name for copy in copies} <= set(PUBLIC)
    assert len(copies) == 9


# ---- hostile files


OUTSIDE = [
    "../x.npz",
    "a/../../x.npz",
    "/etc/x.npz",
    "..",
    "a\\..\\x.npz",
    "C:/x.npz",
    "C:x.npz",
    "**/x.npz",
    "*/x.npz",
]


@pytest.mark.parametrize("file", [*OUTSIDE, "[a-z].npz", "[a-z]*.npz", "\\\\host\\x.npz", "a\tb.npz", "a\x00b.npz"])
def test_paths_outside_the_folder(tmp_path: Path, file: str) -> None:
    root = tmp_path / "in"
    pets(root)
    pets(tmp_path, "x.npz")
    quoted = file.replace("\\", "\\\\").replace("\t", "\\t").replace("\x00", "\\u0000")
    catalogue(root, PETS.replace("pets.npz", quoted))
    refused(lambda: load("pets", root), "[pets.train]: files=", "cannot be used; use a")
    text = MOSAIC.replace("l.npz", quoted)
    catalogue(root, text + TEN)
    refused(lambda: load("svhn", root), "[svhn.train]: labels=", "cannot be used; use a path inside the data folder")


def test_links_outside_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "in"
    pets(root)
    pets(tmp_path / "out")
    (root / "link.npz").symlink_to(tmp_path / "out" / "pets.npz")
    (root / "folder").symlink_to(tmp_path / "out")
    (root / "loop").symlink_to(root / "loop")
    for file in ("link.npz", "folder/pets.npz", "folder/*.npz", "l*k.npz"):
        catalogue(root, PETS.replace("pets.npz", file))
        refused(lambda: load("pets", root), f"leads outside {root} by a link; use the file itself there")
    catalogue(root, PETS.replace("pets.npz", "loop"))
    refused(lambda: load("pets", root))
    (root / "inner.npz").symlink_to(root / "pets.npz")
    catalogue(root, PETS.replace("pets.npz", "inner.npz"))
    assert len(load("pets", root)) == 2
    (tmp_path / "alias").symlink_to(root)  # the root itself may be a link
    assert len(load("pets", tmp_path / "alias")) == 2


@pytest.mark.parametrize("name", ["../evil", "a/b", "/etc", "..", ".hidden", "a b", "", "x" * 65, "a\\nb", "é"])
def test_names_cannot_become_paths_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("R2D2NET_CACHE", str(tmp_path / "cache" / "deep"))
    pets(tmp_path)
    for text in (PETS.replace("[pets", f'["{name}"'), PETS.replace("train]", f'"{name}"]')):
        catalogue(tmp_path, text)
        refused(lambda: load("pets", tmp_path), "cannot name a", "use up to 64 letters, digits")
    assert not (tmp_path / "cache").exists()


def test_files_that_are_no_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "r2d2net-data.toml"
    for content in (
        b"\xff\xfe\x00",
        b"x = " + b"[" * 5000,
        b"a" * 100,
        b"x = " + b"9" * 9999,
        b"# " + b"x" * (1 << 20),
    ):
        path.write_bytes(content)
        refused(lambda: load("mnist", tmp_path), f"{path} is not a catalogue file, or damaged", "intact copy")
    path.unlink()
    os.mkfifo(path)  # reading it would wait for ever
    mnist(tmp_path / "mnist")
    assert len(load("mnist", tmp_path)) == 6


def test_nothing_is_unpickled_or_imported(tmp_path: Path) -> None:
    """A module and a class to be imported are no kind; an array of pickled objects in an .npz is not loaded."""
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(mark),)

    for kind in ("os.system", "r2d2net.data.formats.restricted_pickle", "__import__", "numpy.load"):
        catalogue(tmp_path, PETS.replace("image-npz", kind))
        refused(lambda: load("pets", tmp_path), f"kind={kind!r} is not known")
    np.savez(tmp_path / "pets.npz", images=np.array([Bomb(), Bomb()], dtype=object), labels=np.array([0, 1]))
    catalogue(tmp_path, PETS)
    refused(lambda: load("pets", tmp_path), "Object arrays cannot be loaded")
    with zipfile.ZipFile(tmp_path / "pets.npz", "w") as archive:
        archive.writestr("images.npy", pickle.dumps(Bomb()))
    refused(lambda: load("pets", tmp_path), "pets.npz")
    (tmp_path / "pets.npz").write_bytes(pickle.dumps(Bomb()))
    refused(lambda: load("pets", tmp_path), "pets.npz")
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb()))  # the bomb is a real one
    assert mark.exists()


def test_texts_without_control_characters(tmp_path: Path) -> None:
    for note in ("\\u001b[2J", "two\\nlines", ""):
        catalogue(tmp_path, f'{PETS}note = "{note}"\n')
        refused(lambda: load("pets", tmp_path), "note=", "use a text in one line")


def test_no_array_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("r2d2net.data.formats.members.LARGEST", 1000)
    np.savez_compressed(tmp_path / "pets.npz", images=np.zeros((2, 40, 40), np.uint8), labels=np.array([0, 1]))
    catalogue(tmp_path, PETS)
    refused(lambda: load("pets", tmp_path), "pets.npz holds 'images.npy' of 3328 bytes, more than 1000")


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    (tmp_path / "closed").mkdir()
    catalogue(tmp_path, PETS.replace("pets.npz", "closed/*.npz"))
    monkeypatch.setattr(Path, "iterdir", denied)
    refused(lambda: load("pets", tmp_path), "closed cannot be read (permission denied)")


def test_many_files_do_not_take_long(tmp_path: Path) -> None:
    unpacked(tmp_path / "many", {f"{'a' * 60}{k}.npz": b"" for k in range(200)})
    catalogue(tmp_path, PETS.replace("pets.npz", "many/" + "*a" * 30 + "b.npz"))
    assert "pets" in known_sets(tmp_path)
