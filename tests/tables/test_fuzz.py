"""2,000 command lines and config files, valid, broken and hostile: each ends in time with exit code 0, 1 or 2.

What goes wrong is one line. The commands run in this process; warnings are errors here, so none is left to users.
"""

import hashlib
import json
import random
import shutil
import signal

from typer.main import get_command

from r2d2net import cli
from r2d2net.report.run_page import write_run_page
from table_runs import command

COMMANDS = 2000
SECONDS = 60  # a command's limit
FIGURES = 8  # fits of which the report is made, which takes a second or two
SMALL = ["--hidden", "2", "--epochs", "1", "--draws", "3"]

NUMBERS = [
    "0",
    "-1",
    "1",
    "3",
    "0.5",
    "1e9",
    "-0.0",
    "nan",
    "inf",
    "1e400",
    "",
    "abc",
    "9" * 30,
    "1_0",
    "0x10",
    "２",
    "--",
]
TEXTS = [
    "",
    " ",
    "y",
    "a",
    "é",
    "$x$",
    "[b]",
    "\udcff",
    "a,b",
    "no such",
    "../..",
    "y" * 5000,
    "--json",
    "0",
    "a\nb",
    "%s",
]
CHOICES = {
    "task": ["auto", "regression", "binary", "multiclass", "ranking"],
    "prior": ["r2d2", "gaussian", "horseshoe", "adaptive", "flat"],
    "algorithm": ["svgi", "map", "edl", "cavi", "mcdropout", "bayes"],
    "activation": ["relu", "tanh", "step"],
    "hidden": ["0", "2", "2,2", "", "-1", "1e3", "999999999", "a", "2,,2", "None", "0,0"],
    "categorical": ["a", "c,d", "zz", "", "y"],
    "ignore": ["a", "c,d", "zz", "", "y", "a,b,c,d"],
    "decimal": [",", ".", "auto", "", "comma"],
    "dates": ["day", "month", "year"],
}
WHOLE = ["epochs", "batch-size", "patience", "restarts", "draws", "seed"]
SHARES = ["validation", "test", "level"]


def table(rows, target, seed=0):
    draw = random.Random(seed)
    lines = ["a,b,c,d,y"]
    for i in range(rows):
        a, b = draw.gauss(0, 1), draw.choice(["u", "v", ""])
        y = {"number": f"{a + 3:.3f}", "class": "yes" if a > 0 else "no", "many": str(i % 3)}[target]
        lines.append(f"{a:.3f},{b},{draw.randint(0, 9)},2020-01-{1 + i % 28:02d},{y}")
    return "\n".join(lines) + "\n"


def files(folder):
    """Tables of every kind of trouble, by name."""
    good, classes = table(30, "number"), table(30, "class")
    rows = good.splitlines()
    found = {
        "good.csv": good,
        "classes.csv": classes,
        "many.csv": table(30, "many"),
        "semicolons.csv": good.replace(",", ";"),
        "empty.csv": "",
        "blank.csv": "\n \n\n",
        "header.csv": rows[0] + "\n",
        "one-row.csv": "\n".join(rows[:2]) + "\n",
        "one-column.csv": "y\n" + "1\n2\n" * 10,
        "duplicate.csv": good.replace("a,b,c", "a,a,c", 1),
        "ragged.csv": good + "1,2\n1,2,3,4,5,6,7\n",
        "wide-row.csv": rows[0] + "\n" + "\n".join(row + ",9,9" for row in rows[1:]),
        "quote.csv": good + '"never closed,1,2',
        "nan.csv": "\n".join([rows[0], *(",".join(["nan", *row.split(",")[1:]]) for row in rows[1:])]),
        "no-target.csv": "\n".join([rows[0], *(row.rsplit(",", 1)[0] + "," for row in rows[1:])]),
        "inf.csv": good.replace("\n", "\ninf,u,1,2020-01-01,inf\n", 3),
        "huge.csv": good.replace("\n", "\n1e308,u,-1e308,2020-01-01,1e300\n", 3),
        "wide-range.csv": good.replace("\n", "\n1e90,u,1e-90,2020-01-01,1e20\n", 3),
        "constant.csv": "\n".join([rows[0], *["1,u,1,2020-01-01,2"] * 20]),
        "texts.csv": "\n".join([rows[0], *(f"t{i},t{i},t{i},t{i},{i}.5" for i in range(30))]),
        "labels.csv": "\n".join([rows[0], *(f"1,u,{i},2020-01-01,label {i}" for i in range(30))]),
        "dates.csv": good.replace("2020-01-01", "9999-99-99").replace("2020-01-02", "2020-01-02T25:00Z"),
        "markup.csv": good.replace("a,b", "[bold]$a_1$</b>|<script>,b", 1),
        "bom.csv": "\ufeff" + good,
        "short.csv": "\n".join(rows[:7]),
        "notes.txt": "not a table at all, but text\nof two lines\n",
        "fake.parquet": good,
    }
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "latin.csv").write_bytes(good.replace("u", "é").encode("latin-1"))
    (folder / "utf16.csv").write_bytes(good.encode("utf-16"))
    (folder / "binary.csv").write_bytes(random.Random(0).randbytes(3000))
    (folder / "zeros.csv").write_bytes(bytes(500))
    (folder / "zipped.csv.gz").write_bytes(b"\x1f\x8b" + random.Random(1).randbytes(200))
    (folder / "folder.csv").mkdir()
    return [*found, "latin.csv", "utf16.csv", "binary.csv", "zeros.csv", "zipped.csv.gz", "folder.csv", "missing.csv"]


def damaged(folder, draw):
    """Copies of a run with a file cut, altered or missing."""
    parts = ["run.json", "relevance.json", "novelty.safetensors", "model/estimator.json", "model/posterior.safetensors"]
    found = ["no-run", "folder.csv", "good.csv"]
    for i in range(40):
        copy = folder / f"damaged{i}"
        shutil.copytree(folder / "run", copy)
        path = copy / draw.choice(parts)
        content = path.read_bytes()
        match draw.choice(["cut", "remove", "replace", "number", "state"]):
            case "cut":
                path.write_bytes(content[: draw.randrange(len(content))])
            case "remove":
                path.unlink()
            case "replace":
                path.write_bytes(draw.choice([b"{}", b"[]", b"null", b"\xff", b"", b"[" * 100_000]))
            case "number":
                start = draw.randrange(len(content))
                path.write_bytes(content[:start] + bytes([draw.randrange(256)]) + content[start + 1 :])
            case "state":
                run = json.loads((copy / "run.json").read_text())
                key = draw.choice(list(run))
                run[key] = draw.choice([None, 1, "fitting", [], {}, {"used": 3}, True])
                (copy / "run.json").write_text(json.dumps(run))
        found.append(copy.name)
    return found


def options(draw):
    """A few options, most of them sensible."""
    found = []
    for _ in range(draw.randrange(4)):
        kind = draw.random()
        if kind < 0.45:
            name = draw.choice(list(CHOICES))
            found += [f"--{name}", draw.choice(CHOICES[name])]
        elif kind < 0.65:
            found += [f"--{draw.choice(WHOLE)}", draw.choice(NUMBERS)]
        elif kind < 0.85:
            found += [f"--{draw.choice(SHARES)}", draw.choice(NUMBERS)]
        else:
            found.append(
                draw.choice(["--colour", "--quiet=3", "-x", "--", "--epochs", "--overwrite", "--help", "extra"])
            )
    return found


def config(draw, folder, number):
    """A config file, of which most have something wrong."""
    values = {"target": "y", "data": "good.csv", "hidden": [2], "epochs": 1, "draws": 3}
    for _ in range(draw.randrange(1, 4)):
        name = draw.choice([*values, *CHOICES, *WHOLE, *SHARES, "outt", "json", "out"])
        values[name] = draw.choice(
            [None, True, -1, 0, 2, 1.5, 1e308, "x", "", "a\0b", [], {}, ["a"], [1, "b"], "good.csv"]
        )
    text = json.dumps(values)
    path = folder / f"config{number}.{draw.choice(['json', 'toml', 'txt'])}"
    if path.suffix == ".toml":
        plain = {k: v for k, v in values.items() if v is not None and v != {}}
        text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in plain.items())
    if draw.random() < 0.3:
        cut = draw.randrange(len(text))
        text = text[:cut] + draw.choice(["", "{", "\x00", "é", '"']) + text[cut + draw.randrange(3) :]
    path.write_text(text, encoding=draw.choice(["utf-8", "utf-8", "utf-16"]))
    return path.name


def draw_command(draw, folder, tables, runs, number):
    """One command line."""
    flags = [flag for flag in ("--json", "--quiet") if draw.random() < 0.4]
    anywhere = draw.choice(tables) if draw.random() < 0.8 else draw.choice(TEXTS)
    run = draw.choice(runs) if draw.random() < 0.6 else "run"
    extra = [part for part in options(draw) if not part.startswith(("--hidden", "--epochs"))]
    match draw.choice(["fit", "fit", "config", "resume", "predict", "predict", "evaluate", "inspect", "noise"]):
        case "fit":
            target = "y" if draw.random() < 0.8 else draw.choice(TEXTS)
            return ["fit", anywhere, "--target", target, "--out", f"out{number}", *SMALL, *options(draw), *flags]
        case "config":
            return ["fit", "--config", config(draw, folder, number), "--out", f"out{number}", *flags]
        case "resume":
            return ["fit", "--resume", draw.choice([run, *TEXTS]), *draw.choice([[], [], [anywhere], extra]), *flags]
        case "predict":
            out = draw.choice([[], ["-o", f"p{number}.csv"], ["-o", f"p{number}.parquet"], ["-o", draw.choice(TEXTS)]])
            keep = draw.choice([[], [], ["--keep", draw.choice(TEXTS)]])
            return ["predict", run, anywhere, *out, *keep, *extra[:2], *flags]
        case "evaluate":
            return ["evaluate", run, anywhere, *extra[:2], *flags]
        case "inspect":
            return ["inspect", run, *draw.choice([[], ["--inputs", draw.choice(NUMBERS)]]), *flags]
    words = [
        "fit",
        "predict",
        "inspect",
        "data",
        "list",
        "report",
        "--help",
        "--version",
        *TEXTS,
        *tables[:4],
        *NUMBERS,
    ]
    return [draw.choice(words) for _ in range(draw.randrange(5))]


def run_one(arguments):
    """How a command ends; a hang is an error."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return command(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def content_of(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def hang(*_):
    raise RuntimeError(f"a command took more than {SECONDS} s")


def test_no_command_line_or_config_file_ends_in_a_traceback_or_a_hang(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGALRM, hang)
    try:
        draw, drawn = random.Random(7), []

        def page(*arguments):
            drawn.append(arguments)
            if len(drawn) <= FIGURES:
                write_run_page(*arguments)

        monkeypatch.setattr("r2d2net.tables.fitting.write_run_page", page)
        monkeypatch.setattr("r2d2net.provenance._commit", lambda: None)  # it asks git, thrice a fit
        monkeypatch.setattr(cli, "app", get_command(cli.app))  # typer would build all commands anew for each
        tables = files(tmp_path)
        ended = run_one(["fit", "good.csv", "--target", "y", *SMALL])
        assert ended.code == 0, ended.error
        kept, runs = content_of(tmp_path / "run"), damaged(tmp_path, draw)
        codes = {0: 0, 1: 0, 2: 0}
        for number in range(COMMANDS):
            arguments = draw_command(draw, tmp_path, tables, runs, number)
            try:
                ended = run_one(arguments)
            except BaseException as raised:
                raise AssertionError(f"{arguments} ended by {type(raised).__name__}: {raised}") from raised
            code, error = ended.code, ended.error
            assert code in codes, arguments
            codes[code] += 1
            lines = error.splitlines()
            said = [line for line in lines if line.startswith("error: ")]
            assert len(said) == (code != 0), (arguments, error)
            if code != 0:
                assert lines[-1] == said[0], (arguments, error)
                assert not (tmp_path / f"out{number}").exists(), arguments
            elif "--json" in arguments and arguments[0] in ("evaluate", "inspect") and "--help" not in arguments:
                json.loads(ended.out)
            shutil.rmtree(tmp_path / f"out{number}", ignore_errors=True)
        assert content_of(tmp_path / "run") == kept
        assert codes[0] > 100, codes
        assert codes[2] > 1000, codes
    finally:
        signal.signal(signal.SIGALRM, before)
