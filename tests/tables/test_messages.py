"""What `r2d2net` says: in the words of its own options, in good time, and rightly in number."""

import errno
import io
import json
import re
import warnings
import zipfile
from unittest.mock import ANY

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from r2d2net.errors import CheckpointError, DivergenceError, FitWarning
from r2d2net.registry import ALGORITHMS, FOR_LINEAR_PATH, FOR_ONE_LAYER, PRIORS
from r2d2net.run.train import ADVICE
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.settings import Settings
from r2d2net.tables.terminal_output import show_inspection
from r2d2net.tables.training_table import read_training_table
from r2d2net.tables.validation import require_suitable
from signed_folders import sign
from table_runs import command, make_table

QUICK = ["--hidden", "0", "--epochs", "1", "--draws", "5"]


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch):
    """The page takes a second or two a fit, and says nothing that is asked for here."""
    monkeypatch.setattr("r2d2net.tables.fitting.write_run_page", lambda *parts: None)


def written(path, rows, y):
    x = np.random.default_rng(0).normal(size=rows)
    pd.DataFrame({"x": x, "y": y(x)}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return written(tmp_path_factory.mktemp("messages") / "data.csv", 150, lambda x: x)


@pytest.mark.parametrize("rows", [20, 98, 99])
def test_rows_far_from_any_number_of_training_rows_are_flagged(data, tmp_path, rows):
    run, table = tmp_path / "run", pd.read_csv(data)[:rows]
    table.to_csv(tmp_path / "table.csv", index=False)
    assert command("fit", tmp_path / "table.csv", "--target", "y", "--test", "0", *QUICK, "--out", run).code == 0
    table.assign(x=1e4).to_csv(tmp_path / "far.csv", index=False)
    ended = command("predict", run, tmp_path / "far.csv", "-o", tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["unlike"].all()
    assert "(100.0%; up to 1% expected of rows like them)" in ended.error
    assert command("evaluate", run, tmp_path / "far.csv", "--json").json["unlike_expected"] == 0.01
    assert "up to 1% expected" in command("evaluate", run, tmp_path / "far.csv").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--patience", "3", "--validation", "0"], "--patience 3 needs validation data: give --validation 0.1, say"),
        (["--patience", "3", "--algorithm", "sgld"], "--patience 3: SGLD keeps draws of many epochs"),
        (["--batch-size", "10", "--algorithm", "hmc"], "--batch-size 10: HMC takes all rows in every step"),
        (["--algorithm", "mfvi"], "--algorithm mfvi does not suit --prior r2d2: use --prior gaussian"),
        (["--algorithm", "map"], "does not suit --prior r2d2: use --prior gaussian or spike-and-slab or double-pareto"),
        (["--algorithm", "edl", "--prior", "gaussian"], "--algorithm edl is not for regression: use another"),
        (["--algorithm", "mcdropout", "--prior", "gaussian"], "--algorithm mcdropout does not suit --hidden 0"),
        (
            ["--algorithm", "linearfirst"],
            "linearfirst does not suit --hidden 0: use a hidden layer, such as --hidden 50",
        ),
        (["--algorithm", "lineargibbs", "--hidden", "9,8"], "lineargibbs does not suit --hidden 9,8: use --hidden 0"),
    ],
)
def test_what_does_not_go_together_is_said_in_options(data, tmp_path, options, message):
    ended = command("fit", data, "--target", "y", "--hidden", "0", "--quiet", "--out", tmp_path / "run", *options)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.error
    assert ended.error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_help_says_which_algorithms_need_another_prior():
    text = " ".join(command("fit", "--help").out.replace("│", " ").split())
    needs = r"need --prior gaussian, spike-and-slab or double-pareto\."
    (sentence,) = re.findall(rf"mfvi needs --prior gaussian; (.*?) {needs}", text)
    named, task = set(re.findall(r"\w+", sentence)) - {"and"}, Task("y", "binary", ("a", "b"))
    for algorithm in ALGORITHMS:
        if algorithm in (*FOR_ONE_LAYER, *FOR_LINEAR_PATH):  # for other networks, or not for classes
            continue
        suiting = {"gaussian"} if algorithm == "mfvi" else {"gaussian", "spike-and-slab", "double-pareto"}
        for prior in PRIORS:
            fits = prior in suiting or algorithm not in named | {"mfvi"}
            try:
                require_suitable(Settings(target="y", algorithm=algorithm, prior=prior), task)
            except ValueError:
                assert not fits, (algorithm, prior)
            else:
                assert fits, (algorithm, prior)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda x: 1e90 * (5 + x), r"--target y has values of size .*e\+90: rescale it to between 1e-15 and 1e\+15"),
        (lambda x: 1e-90 * x, r"--target y has values of size .*e-90: rescale"),
        (
            lambda x: 1e9 + 1e-3 * x,
            r"--target y varies by .* about 1e\+09, which seven digits do not tell: subtract",
        ),
    ],
)
def test_targets_that_float32_does_not_hold_are_refused(tmp_path, y, message):
    """Warnings are errors here: none is printed on the way."""
    path = written(tmp_path / "data.csv", 150, y)
    ended = command("fit", path, "--target", "y", *QUICK, "--out", tmp_path / "run")
    assert ended.code == 2
    assert re.search(message, ended.error)


def test_the_file_of_the_fit_is_no_test_and_it_is_said(price_run, tables):
    folder, _ = price_run
    note = "train.csv is the file of the fit: its rows include those that the model was trained on"
    ended = command("evaluate", folder, tables / "train.csv", "--json")
    assert note in ended.error
    assert ended.json["notes"][0].startswith(note)
    assert "the file of the fit" not in command("evaluate", folder, tables / "new.csv", "--json").out


def test_windows_text_is_told_of_by_every_command(price_run, tables, tmp_path):
    folder, _ = price_run
    make_table(40, seed=5).assign(größe=1).to_csv(tmp_path / "new.csv", index=False, encoding="cp1252")
    said = "new.csv is no UTF-8 text and is read as Windows text (cp1252)"
    for name in ("predict", "evaluate"):
        ended = command(name, folder, tmp_path / "new.csv")
        assert ended.code == 0, ended.error
        assert said in ended.error
        assert "ignored: 'größe'" in ended.error
    notes = read_training_table(tmp_path / "new.csv", Settings(target="price")).notes
    assert any(said in note for note in notes)


def test_a_target_of_1e90_among_rows_to_evaluate_gives_no_warning(data, price_run, tables):
    folder, _ = price_run
    table = make_table(50, seed=4)
    table.loc[3, "price"] = 1e90
    table.to_csv(tables / "huge.csv", index=False)
    ended = command("evaluate", folder, tables / "huge.csv", "--json")
    assert ended.code == 0, ended.error
    assert ended.json["rmse"] == pytest.approx(1e90 / np.sqrt(50))


def test_one_of_a_kind_is_singular(tmp_path):
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=150)})
    table["y"] = table["x"]
    table.loc[0, "y"], table.loc[1, "x"] = np.nan, np.nan
    table.to_csv(tmp_path / "data.csv", index=False)
    ended = command("fit", tmp_path / "data.csv", "--target", "y", *QUICK, "--out", tmp_path / "run")
    assert "inputs: 1 column (1 number) as 1 input of the network" in ended.error
    assert "1 row without a readable y left out" in ended.error
    assert "1 cell missing" in ended.error
    table[2:3].to_csv(tmp_path / "one.csv", index=False)
    assert "1 row predicted;" in command("predict", tmp_path / "run", tmp_path / "one.csv").error
    assert "1 row of one.csv" in command("evaluate", tmp_path / "run", tmp_path / "one.csv").out
    explained = command("explain", tmp_path / "run", tmp_path / "data.csv", "--rows", "1")
    assert "the first row of the file is explained" in explained.error
    assert not re.search(r"\.\d{7}", explained.out)  # a value of the file has 16 digits
    assert (
        len(command("explain", tmp_path / "run", tmp_path / "one.csv", "--json").json["rows"][0]["contributions"]) == 1
    )
    (tmp_path / "none.csv").write_text("z\n1\n2\n")
    assert "lacks the column 'x': add it" in command("predict", tmp_path / "run", tmp_path / "none.csv").error


def test_the_relevance_of_inputs_has_a_bar_and_the_kl_a_meaning(data, tmp_path, monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("r2d2net.tables.terminal_output.terminal", lambda: terminal)
    options = ["--target", "y", *QUICK, "--out", tmp_path / "run"]
    assert command("fit", data, *options, "--quiet").code == 0
    assert screen.getvalue() == ""
    assert command("fit", data, *options, "--overwrite").code == 0
    assert re.search(r"inputs .*100%", screen.getvalue())
    shown = " ".join(command("inspect", tmp_path / "run").out.split())
    assert re.search(r"[\d.]+ nats from the prior \(KL divergence: what the data have taught it\)", shown)


def test_a_stopped_fit_says_how_to_go_on(data, tmp_path):
    """Ctrl-C and a full disk are nobody's wrong argument: exit code 1, and what was begun stays."""
    run = tmp_path / "run"

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("r2d2net.estimators.perceptron.fit", stop)
        ended = command("fit", data, "--target", "y", *QUICK, "--quiet", "--out", run)
        assert (ended.code, ended.error) == (1, f"error: interrupted: go on by `r2d2net fit --resume {run}`\n")
        assert command("fit", "--resume", run, "--quiet").error == ended.error
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("r2d2net.checkpoint.os.fsync", full)
        ended = command("fit", "--resume", run, "--quiet")
    assert ended.code == 1
    assert re.fullmatch(rf"error: .*No space left on device; then go on by `r2d2net fit --resume {run}`\n", ended.error)
    assert command("fit", "--resume", run, "--quiet").code == 0


def test_the_result_of_a_damaged_run_is_one_line(data, tmp_path):
    run = tmp_path / "run"
    assert command("fit", data, "--target", "y", *QUICK, "--quiet", "--out", run).code == 0
    (run / "run.json").write_text(json.dumps({**json.loads((run / "run.json").read_text()), "task": None}))
    ended = command("fit", "--resume", run)
    assert ended.code == 2
    assert "run.json is not the part that manifest.json names" in ended.error
    sign(run)
    ended = command("fit", "--resume", run)
    assert ended.code == 2
    assert re.search(r"error: the task of the run cannot be read: TypeError .*; fit the table anew\n$", ended.error)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda: Settings.back({}), "the settings of the run"),
        (lambda: Task.of({}), "the task of the run"),
        (lambda: Task.of({**Task("y", "regression").plain(), "kind": "odd"}), ANY),
    ],
)
def test_parts_of_a_damaged_run_give_value_and_fix(read, value):
    with pytest.raises(CheckpointError, match=r"^the (settings|task) of the run .*; fit the table anew$") as caught:
        read()
    assert (caught.value.value, caught.value.fix) == (value, "fit the table anew")


def test_a_disk_that_fails_is_told_with_the_way_to_go_on(data, tmp_path):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("r2d2net.estimators.perceptron.fit", full)
        ended = command("fit", data, "--target", "y", *QUICK, "--quiet", "--out", tmp_path / "run")
    how = f"remove the cause; then go on by `r2d2net fit --resume {tmp_path / 'run'}`"
    assert ended.error == f"error: [Errno 28] No space left on device: {how}\n"


def test_going_on_with_a_finished_run_writes_nothing_and_says_so(data, tmp_path):
    run = tmp_path / "run"
    ended = command("fit", data, "--target", "y", *QUICK, "--out", run)
    assert re.search(rf"fitted in [\d.]+ s; wrote {run / 'report.html'}\n", ended.out)
    ended = command("fit", "--resume", run)
    assert ended.code == 0
    assert "wrote" not in ended.out
    assert f"s; it was finished already, and its report is {run / 'report.html'}\n" in ended.out


@pytest.mark.parametrize("restarts", ["1", "2"])
def test_divergence_is_met_with_options_that_there_are(data, tmp_path, monkeypatch, restarts):
    def diverge(run, running, nll=0.0):
        raise DivergenceError("training diverged at step 3: nll is nan", fix=ADVICE)

    monkeypatch.setattr("r2d2net.run.train.require_finite", diverge)
    monkeypatch.setattr("r2d2net.run.several_runs.joblib.cpu_count", lambda: 1)  # in this process
    ended = command("fit", data, "--target", "y", *QUICK, "--restarts", restarts, "--quiet", "--out", tmp_path / "run")
    assert ended.code == 1
    assert (
        "training diverged at step 3: nll is nan; use another --algorithm or --seed, a larger --batch-size"
        in ended.error
    )
    assert "lr" not in ended.error
    options = command("fit", "--help").out
    assert all(option in options for option in re.findall(r"--[\w-]+", ended.error))


@pytest.mark.parametrize("name", ["book.xlsx", "book.csv"])
def test_spreadsheets_are_refused_with_what_to_do(price_run, tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w") as book:
        book.writestr("xl/workbook.xml", "<workbook/>")
    message = f"error: {tmp_path / name} is a spreadsheet, and CSV or Parquet is read: save the sheet as CSV\n"
    run, _ = price_run
    for arguments in (
        ["fit", tmp_path / name, "--target", "y", "--out", tmp_path / "run"],
        ["predict", run, tmp_path / name],
        ["evaluate", run, tmp_path / name],
    ):
        ended = command(*arguments)
        assert (ended.code, ended.out, ended.error) == (2, "", message)


def test_text_that_is_called_a_spreadsheet_and_zipped_text_are_read(data, tmp_path):
    (tmp_path / "data.xls").write_bytes(data.read_bytes())
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as zipped:
        zipped.write(data, "data.csv")
    for name in ("data.xls", "data.zip"):
        ended = command("fit", tmp_path / name, "--target", "y", *QUICK, "--out", tmp_path / f"run-{name}")
        assert ended.code == 0, ended.error


def test_a_file_of_the_run_is_not_its_folder(price_run):
    folder, _ = price_run
    ended = command("inspect", folder / "run.json")
    message = f"error: {folder / 'run.json'} is a file: give the folder of the run, such as {folder}\n"
    assert (ended.code, ended.out, ended.error) == (2, "", message)


def test_a_level_written_otherwise_is_refused_and_truth_values_are_read_from_any_program(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.normal(size=120), "on": rng.random(120) < 0.5, "place": rng.choice(["in", "out"], 120)}
    )
    table["y"] = table["x"] + table["on"]
    table.to_parquet(tmp_path / "data.parquet")
    run = tmp_path / "run"
    assert command("fit", tmp_path / "data.parquet", "--target", "y", *QUICK, "--quiet", "--out", run).code == 0
    outputs = []
    for spelling in (str, lambda cell: str(cell).upper(), lambda cell: str(cell).lower()):
        table.assign(on=table["on"].map(spelling)).to_csv(tmp_path / "new.csv", index=False)
        outputs.append(command("predict", run, tmp_path / "new.csv").out)
    assert outputs[0] == outputs[1] == outputs[2] == command("predict", run, tmp_path / "data.parquet").out
    table.assign(place=table["place"].str.upper()).to_csv(tmp_path / "new.csv", index=False)
    for name in ("predict", "evaluate"):
        ended = command(name, run, tmp_path / "new.csv")
        assert (ended.code, ended.out) == (2, "")
        assert (
            "column 'place': none of 120 filled cells is of a level that training rows had: write them" in ended.error
        )


def test_inspect_takes_a_seed(data, tmp_path):
    run = tmp_path / "run"
    options = ["--target", "y", "--hidden", "0", "--algorithm", "sgld", "--epochs", "60", "--quiet", "--out", run]
    assert command("fit", data, *options).code == 0
    noise = [command("inspect", run, "--seed", seed, "--json").json["noise_sd"] for seed in (1, 1, 2)]
    assert noise[0] == noise[1] != noise[2]
    assert command("inspect", run, "--seed", "-1").code == 2


def stack_content(**more):
    """What `inspect_run` says of a stack of two models."""
    entry = {"prior": "Gaussian", "algorithm": "LinearGibbs", "weight": 0.25, "score": -1.25}
    candidates = [{"name": "linear, Gaussian", **entry}, {"name": "network, R2D2", **entry, "weight": 0.75}]
    layer = {"parameter": "net.0.weight", "shape": [4, 3], "weights": 12, "prior": "?", "effective_weights": None}
    task, rows = {"kind": "regression", "target": "y"}, {"training": 40}
    named = {"data": "t.csv", "task": task, "rows": rows, "noise_sd": None, "noise_of": "target", "kl": None}
    found = {
        "candidates": candidates,
        "parameters": [layer],
        "effective_weights": None,
        "training_rows": 40,
        **named,
        "weights": 12,
    }
    return {**found, "algorithm": "Stacked", "epochs": None, **more}


def test_inspect_shows_the_models_of_a_stack(capsys):
    show_inspection(stack_content())
    shown = capsys.readouterr().out
    assert "Models of the stack" in shown
    assert shown.rindex("network, R2D2") < shown.rindex("linear, Gaussian")
    assert "75%" in shown
    assert "-1.25" in shown
    assert "net.0.weight" not in shown
    assert "the effective number is not known" in shown
    show_inspection(stack_content(noise_sd=0.5, noise_of="logarithm of the target"))
    assert "sd 0.5 (in units of the logarithm of the target)" in capsys.readouterr().out


def test_inspect_shows_no_column_of_what_is_not_known(capsys):
    show_inspection(stack_content(candidates=[], algorithm="MCLMC", epochs=10))
    shown = capsys.readouterr().out
    assert "net.0.weight" in shown
    assert "effective  " not in shown
    assert "the effective number is not known" in shown


def test_what_a_fit_warns_of_is_in_the_line_on_health_alone(data, tmp_path, monkeypatch):
    monkeypatch.setattr("r2d2net.run.fit.warn_of", lambda *parts: warnings.warn("it is odd", FitWarning, stacklevel=2))
    for place, quiet in (("one", ["--quiet"]), ("two", [])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ended = command("fit", data, "--target", "y", "--no-baselines", *QUICK, *quiet, "--out", tmp_path / place)
        assert ended.code == 0
        assert (ended.error == "") == bool(quiet)
        assert [str(warning.message) for warning in caught if issubclass(warning.category, FitWarning)] == []
