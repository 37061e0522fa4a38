"""The documentation: its examples run as they stand, the site builds without a warning and without the network."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import takewhile
from pathlib import Path
from statistics import mean, median
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from typer.main import get_command

import r2d2net
from r2d2net.cli import app
from r2d2net.paper.report.grid_results import read_grid
from r2d2net.paper.report.oracle_verdicts import verdicts
from r2d2net.paper.report.row_ranking import placements
from r2d2net.paper.report.row_styles import display_name
from r2d2net.paper.report.table_layouts import compare_grid
from r2d2net.registry import ALGORITHMS, PRIORS
from r2d2net.shrinkage.relevance import LEVEL
from r2d2net.tables import novelty

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")

ROOT = Path(__file__).parents[1]
SWEEPS = ("gibbs", "gibbs, compiled", "cavi", "cavi, compiled")
BLOCK = re.compile(r"(?P<needs><!-- needs (?P<variable>\w+) -->\n)?```python\n(?P<code>.*?)```", flags=re.DOTALL)
NAMESPACES = ["r2d2net", *(f"r2d2net.{name}" for name in r2d2net.__all__ if inspect.ismodule(getattr(r2d2net, name)))]


def blocks() -> list[pytest.param]:
    """The Python blocks of all pages; those that need files say which variable of the environment has them."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for i, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
            variable = match["variable"]
            missing = variable is not None and not os.environ.get(variable)
            marks = pytest.mark.skipif(missing, reason=f"{variable} is not set")
            found.append(pytest.param(match["code"], page, marks=marks, id=f"{page.relative_to(ROOT / 'docs')}-{i}"))
    return found


@pytest.mark.parametrize(("code", "page"), blocks())
def test_example_runs(code: str, page: Path) -> None:
    exec(compile(code, str(page), "exec"), {})


@pytest.mark.parametrize("command", ["fit", "predict", "explain", "evaluate", "inspect"])
def test_command_line_page_knows_every_option(command: str) -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    options = {name for p in get_command(app).commands[command].params for name in p.opts if name.startswith("--")}
    assert f"r2d2net {command} " in text
    assert options - {"--help"} <= set(re.findall(r"--[a-z-]+", text))


def test_estimators_page_knows_every_algorithm_and_prior() -> None:
    text = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    rows = {name: re.search(rf"^\| `{name}` \|.*", text, flags=re.MULTILINE) for name in ("algorithm", "prior")}
    known = {"algorithm": {*ALGORITHMS, "auto"}, "prior": {*PRIORS, "auto"}}
    for name, row in rows.items():
        assert row is not None
        assert set(re.findall(r'`"([\w+-]+)"`', row[0])) == known[name]


def test_own_loop_page_has_the_figures_of_the_benchmark() -> None:
    text = (ROOT / "docs" / "own-loop.md").read_text(encoding="utf-8")
    file = ROOT / "results" / "benchmarks" / "optimiser-step.json"
    for name, found in json.loads(file.read_text(encoding="utf-8"))["milliseconds a step"].items():
        ratios = " | ".join(f"{found[f'over {other}']:.2f}" for other in ("weights", "default"))
        assert f"| {name} | {found['weights in all']:,} | {ratios} |" in text


def test_algorithms_page_has_the_figures_of_the_tables() -> None:
    """Mean NLL of each contestant on each table, and the seconds, as `benchmarks/tables_by_chains.py` wrote them."""
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    file = ROOT / "results" / "benchmarks" / "tables-by-chains.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["summary"]
    contestants = ("SVGI", "MCLMC", "linear", "boosted trees", "random forest")
    for table in dict.fromkeys(row["table"] for row in rows):
        own = {row["contestant"]: row for row in rows if row["table"] == table}
        line = next(line for line in text.splitlines() if line.startswith(f"| {table} |")).replace("**", "")
        cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
        assert cells[:5] == [f"{own[name]['nll']:.3f}" for name in contestants]
        assert cells[5] == (f"{own['MCLMC']['coverage']:.2f}" if "coverage" in own["MCLMC"] else "")
        assert cells[6] == f"{own['SVGI']['seconds']:.1f} / {own['MCLMC']['seconds']:.1f}"


def test_algorithms_page_has_the_figures_of_stacking() -> None:
    """Those of the splits that stacking has been run on, all contestants."""
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    text = text[text.index("## Several models of a table") :]
    file = ROOT / "results" / "benchmarks" / "tables-by-chains.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["where_stacked"]
    contestants = ("default, stacked", "SVGI", "MCLMC", "linear", "boosted trees", "random forest")
    for table in dict.fromkeys(row["table"] for row in rows):
        own = {row["contestant"]: row for row in rows if row["table"] == table}
        line = next(line for line in text.splitlines() if line.startswith(f"| {table} |")).replace("**", "")
        cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
        stacked = own[contestants[0]]
        assert cells[:6] == [f"{own[name]['nll']:.3f}" for name in contestants]
        assert cells[6] == (f"{stacked['coverage']:.2f}" if "coverage" in stacked else "")
        assert cells[7] == f"{stacked['seconds']:.0f}"


def test_command_line_page_knows_no_other_option() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    options = {
        name for c in get_command(app).commands.values() for p in c.params for name in (*p.opts, *p.secondary_opts)
    }
    assert set(re.findall(r"(?<=`)--[a-z-]+", text)) <= options | {"--help"}


def test_the_numbers_of_the_method_are_those_of_the_code() -> None:
    text = " ".join((ROOT / "docs" / "method.md").read_text(encoding="utf-8").split())
    assert f"unlike if p(x) <= {novelty.ALARM}" in text
    assert f"Of fewer than {novelty.FEWEST} training rows none has so small a p" in text
    assert f"at most {novelty.MOST_ROWS:,})" in text
    assert novelty.FOLDS == 10
    assert "of the other nine of ten folds" in text
    least = inspect.signature(r2d2net.shrinkage.input_relevance).parameters["least"].default
    assert f"needed if r_i is {least:.0%} or more with posterior probability {LEVEL:.0%} or more" in text
    other = " ".join((ROOT / "docs" / "uncertainty.md").read_text(encoding="utf-8").split())
    assert f"Fewer than {novelty.FEWEST} training rows mark a row only at a distance well beyond" in other


class Page(HTMLParser):
    """What a page of the site links to and can be linked by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []  # pictures, scripts and styles: a browser fetches these unasked
        self.ids: set[str] = set()
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.tags.add(tag)
        self.ids.update(given[name] for name in ("id", "name") if name in given)
        if tag in ("img", "script", "link", "iframe", "source"):
            self.loaded += [given[name] for name in ("src", "href") if name in given]
        elif "href" in given:
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """Every page of the site, built as `make docs` builds it, with a proxy that answers nothing for a network."""
    folder = tmp_path_factory.mktemp("site").resolve()
    unreachable = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, **unreachable, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}


def test_internal_links_resolve(site: dict[Path, Page]) -> None:
    broken = []
    for path, page in site.items():
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchored = not parts.fragment or (target in site and unquote(parts.fragment) in site[target].ids)
            if not target.exists() or not (anchored or parts.fragment == "__top"):
                broken.append(f"{path.name}: {link}")
    assert not broken, broken


def test_nothing_is_fetched_from_elsewhere(site: dict[Path, Page]) -> None:
    fetched = {link for page in site.values() for link in page.loaded if urlsplit(link).netloc}
    assert not fetched


def test_every_public_name_is_in_the_reference(site: dict[Path, Page]) -> None:
    documented = set().union(*(page.ids for path, page in site.items() if path.parent.name == "api"))
    modules = [importlib.import_module(name) for name in NAMESPACES]
    names: dict[int, set[str]] = {}  # of one thing, in all places where it can be found
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if name != "__version__" and not inspect.ismodule(thing):
                home = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
                names.setdefault(id(thing), {home}).add(f"{module.__name__}.{name}")
    missing = [found for found in names.values() if not found & documented]
    assert not missing, missing


def test_pages_have_what_they_promise(site: dict[Path, Page]) -> None:
    pages = {path.name if path.parent.name != "api" else f"api/{path.name}": page for path, page in site.items()}
    assert "img" in pages["index.html"].tags
    assert "figures/predictive_band.png" in pages["index.html"].loaded
    assert {"table", "pre"} <= pages["algorithms.html"].tags
    assert {"pre", "code"} <= pages["method.html"].tags
    linked = set(pages["index.html"].links)
    for tutorial in (ROOT / "tutorials").glob("*.py"):
        assert f"tutorials/{tutorial.stem}.html" in linked
        assert "pre" in pages[f"{tutorial.stem}.html"].tags


def test_what_is_said_of_the_simulation_is_what_its_files_say() -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    grid = read_grid(ROOT / "results" / "simulation-machine")
    entries = next(table.entries for table in compare_grid(grid) if table.metric == "mse")
    places = Counter(place.word for place in placements(entries))
    said = "lowest mean test error in {} cells, is within one standard error of the lowest in {} and behind in {}"
    assert said.format(places["leads"], places["ties"], places["is behind"]) in text
    report = (ROOT / "results" / "simulation-machine" / "report.md").read_text(encoding="utf-8")
    assert "R2D2-SVGI's is at or below the paper's in **10 of 11**." in report
    assert "in 10 of the 11 cells where that is above the noise" in text
    mean = {(entry.setting, entry.row): entry.mean for entry in entries}
    cells = [f"S{scenario} L={layers}" for scenario in (1, 2) for layers in (1, 2, 3)]
    for prior, words in {
        "gauss": "Gaussian prior's error is {} to {} larger",
        "sas": "spike-and-slab's {} to {}",
        "hs": "the horseshoe's {} to {}",
    }.items():
        ratios = [mean[cell, f"{prior}-svi"] / mean[cell, f"{prior}-svgi"] - 1 for cell in cells]
        assert words.format(f"{min(ratios):.0%}", f"{max(ratios):.0%}") in text
    by_svgi = [[mean[cell, f"{prior}-svgi"] for prior in ("gauss", "sas", "hs", "r2d2")] for cell in cells]
    widest = max(max(errors) / min(errors) - 1 for errors in by_svgi)
    assert f"all four priors are within {widest:.1%} of each other" in text
    wide = [f"{mean['S3 L=0', f'{prior}-svgi']:.2f}" for prior in ("r2d2", "hs", "gauss", "sas")]
    assert "R2D2 {} and the horseshoe {} by SVGI, Gaussian {} and spike-and-slab {}".format(*wide) in text


def test_what_is_said_of_inference_errors_is_what_their_files_say() -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    results = read_grid(ROOT / "results" / "simulation-machine").results
    oracles, judged = (
        [cell for cell in results if cell["settings"]["kind"] == kind] for kind in ("oracle", "judgement")
    )
    rhat = {cell["key"]: cell["result"]["rhat"] for cell in oracles}
    assert f"{sum(value <= 1.01 for value in rhat.values())} of the {len(rhat)} oracles have converged" in text
    wide = [rhat[f"oracle-{prior}-s3-l0-0"] for prior in ("hs", "r2d2")]
    assert "the horseshoe and R2D2 on 1,000 inputs ({:.2f} and {:.2f})".format(*wide) in text
    for layers, words in (
        ("-l1-", "With one hidden layer R-hat is {} to {}"),
        ("-s1-l2-", "with two in scenario 1 {} to {}"),
    ):
        hidden = [value for key, value in rhat.items() if layers in key]
        digits = 1 if layers == "-l1-" else 2
        assert words.format(f"{min(hidden):.{digits}f}", f"{max(hidden):.{digits}f}") in text
    found = {metric: verdicts(judged, oracles, metric) for metric in ("function_error", "function_distance")}

    def multiples(metric: str, algorithm: str) -> list[float]:
        return [v.ratio for v in found[metric] if v.converged and v.row.endswith(f"-{algorithm}")]

    means, spreads = multiples("function_error", "svgi"), multiples("function_distance", "svgi")
    assert f"(k between {min(means):.1f} and {max(means):.1f}, median {median(means):.1f})" in text
    assert f"({min(spreads):.1f} to {max(spreads):.0f}, median {median(spreads):.1f})" in text
    svi = [median(multiples(metric, "svi")) for metric in found]
    assert "SVI has neither (medians {:.1f} and {:.0f})".format(*svi) in text
    sgld, sghmc = multiples("function_distance", "sgld"), multiples("function_distance", "sgmcmc")
    assert f"({min(sgld):.1f} to {max(sgld):.1f}), SGHMC's {min(sghmc):.1f} to {max(sghmc):.0f} off" in text
    mclmc = sorted(multiples("function_distance", "mclmc"))
    assert "MCLMC's {:.1f}, {:.1f} and {:.1f} with 44 draws".format(*mclmc) in text
    assert sum(v.word == "within" for v in found["function_distance"]) == 2
    names = ("svgi", "sgmcmc", "sgld", "svi")

    def medians(layers: str) -> list[float]:
        near = [v for v in found["function_distance"] if layers in v.setting]
        return [median(v.ratio for v in near if v.row.endswith(f"-{name}")) for name in names]

    one, two = medians("L=1"), medians("L=2")
    words = "are {:.1f} by SVGI, {:.1f} by SGHMC, {:.1f} by SGLD and {:.0f} by SVI with one hidden layer"
    assert words.format(*one) in text
    assert "{:.1f}, {:.1f}, {:.1f} and {:.0f} with two".format(*two) in text
    assert min(one) == one[0]
    assert min(two) == two[0]


def test_what_is_said_of_regimes_is_what_their_files_say() -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    results = {cell["key"]: cell["result"] for cell in read_grid(ROOT / "results" / "regimes-machine").results}
    rhat = [result["rhat"] for result in results.values() if "rhat" in result]
    assert f"{sum(value <= 1.01 for value in rhat)} of {len(rhat)} exact runs have R-hat of at most 1.01" in text
    assert f"the others at most {max(rhat):.2f}" in text
    means = mean_by(results, "mse")
    mse = {key: f"{value:.2f}" for key, value in means.items()}
    dense = [mse[f"{row}-dense"] for row in ("r2d2-exact", "adaptive-exact")]
    assert "({}, where the adaptive prior has {})".format(*dense) in text
    assert f"SVGI loses more under it ({mse['r2d2-svgi-dense']})" in text
    adaptive = sorted(mse[f"adaptive-{mode}-dense"] for mode in ("svgi", "cavi", "exact"))
    assert f"The adaptive prior has {adaptive[0]} to {adaptive[-1]} by all three" in text
    for prior, words in {"r2d2": "R2D2 {}, exact {}", "dl": "Dirichlet-Laplace {}, exact {}"}.items():
        assert words.format(mse[f"{prior}-svgi-sparse"], mse[f"{prior}-exact-sparse"]) in text
    assert f"({mse['r2d2-cavi-sparse']}; {mse['dl-cavi-sparse']})" in text
    for kind in ("sparse", "big", "dense"):
        exact = {key: value for key, value in means.items() if key.endswith(f"-exact-{kind}")}
        assert min(exact, key=lambda key: exact[key]) == f"adaptive-exact-{kind}"
    covered = [mean_by(results, "coverage")[f"adaptive-exact-{kind}"] for kind in ("sparse", "big", "dense")]
    assert f"its 90% intervals cover {min(covered):.1%} to {max(covered):.1%}" in text


def mean_by(results: dict[str, dict[str, float]], metric: str) -> dict[str, float]:
    """Return the mean over data sets, by the key of a cell without its number."""
    values: dict[str, list[float]] = {}
    for key, result in results.items():
        values.setdefault(key.rpartition("-")[0], []).append(result[metric])
    return {key: mean(entries) for key, entries in values.items()}


def test_what_is_said_of_images_is_what_its_files_say() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    for inside, folder in {"MNIST": "ood-mnist", "CIFAR-10": "ood-cifar10"}.items():
        tables = {
            table.metric: table.entries for table in compare_grid(read_grid(ROOT / "results" / f"{folder}-machine"))
        }
        ours = {(metric, entry.setting, entry.row): entry.mean for metric in tables for entry in tables[metric]}
        for outside in ("Fashion-MNIST", "OMNIGLOT", "SVHN"):
            directed, undirected = (ours[metric, outside, "r2d2-svgi"] for metric in ("auroc", "paper_auroc"))
            rows = {
                row: mean for (metric, setting, row), mean in ours.items() if (metric, setting) == ("auroc", outside)
            }
            best = max(rows, key=lambda row: rows[row])
            line = next(line for line in text.splitlines() if line.startswith(f"| {inside} | {outside} |"))
            assert f"| {directed:.1f} | {undirected:.1f} |" in line
            assert f"| {rows[best]:.1f}, {display_name(best)} |" in line
    tables = compare_grid(read_grid(ROOT / "results" / "classification-lenet-machine"))
    entries = next(table.entries for table in tables if table.metric == "accuracy")
    accuracy = {entry.row: entry.mean for entry in entries if entry.setting == "CIFAR-10"}
    assert f"R2D2-SVGI has {accuracy['r2d2-svgi']:.1f}% (Gaussian prior by SVI {accuracy['gauss-svi']:.1f}%" in text


def measured(name: str) -> dict[str, Any]:
    """The content of a file of results of benchmarks."""
    content: dict[str, Any] = json.loads((ROOT / "results" / "benchmarks" / name).read_text(encoding="utf-8"))
    return content


def table_below(text: str, head: str) -> list[list[str]]:
    """The rows of the table that begins with a line."""
    lines = takewhile(lambda line: line.startswith("|"), text[text.index(f"{head}\n") :].splitlines()[2:])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_names_every_speed_that_misses_its_target() -> None:
    figures = [
        (f"{row['section']}, {row['what']}, {row['who']}", row["value"], row["unit"], row["limit"])
        for name in ("speed.json", "native-steps.json")
        for row in measured(name)["rows"]
        if row["limit"] is not None
    ]
    times = measured("process-time.json")
    figures += [(f"process, {k}", times["cpu_seconds"][k], "CPU s", limit) for k, limit in times["limits"].items()]
    for row in measured("relevance-speed.json")["relevance"]:
        if row["limit"] is not None:
            figures.append((f"relevance, {row['of']}, {row['network']}", row["cpu_seconds"], "CPU s", row["limit"]))
    reading = measured("table-reading.json")
    for row in reading["tables"]:
        what = f"reading, {row['columns']:,} columns, decimal {row['decimal']}"
        figures.append((what, row["seconds"], "CPU s", reading["limits"][str(row["columns"])]))
    missed = [[what, f"{value:.3g} {unit}", f"{limit:g}"] for what, value, unit, limit in figures if value > limit]
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert table_below(page, "| figure | measured | target |") == missed
    assert f"{len(figures)} figures have a target" in " ".join(page.split())


def test_what_is_said_of_waiting_is_what_its_files_say() -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    times = measured("process-time.json")["cpu_seconds"]
    names = ("r2d2net --help", "fit, 400 rows", "fit, 400 rows, --algorithm svgi", "predict, 100 rows")
    rows = table_below(page, "| process | before | now | of which |")
    assert [now for _, _, now, _ in rows] == [f"{times[name]:.1f}" for name in names]
    relevance = {
        (row["network"], row["of"]): row["cpu_seconds"] for row in measured("relevance-speed.json")["relevance"]
    }
    rows = table_below(page, "| network | rows | before | now |")
    assert len(rows) == len(relevance)
    for network, count, _, now in rows:
        assert now == f"{relevance[network.removesuffix(' of 50'), f'4,000 inputs, {count} rows']:.2g}"
    reading = {(row["columns"], row["decimal"]): row["seconds"] for row in measured("table-reading.json")["tables"]}
    rows = table_below(page, "| columns | before | now, decimal point | now, decimal comma |")
    assert [[point, comma] for _, _, point, comma in rows] == [
        [f"{reading[columns, decimal]:.2g}" for decimal in ("point", "comma")] for columns in (500, 5000)
    ]


def test_what_is_said_of_speed_is_what_its_file_says() -> None:
    rows = json.loads((ROOT / "results" / "benchmarks" / "speed.json").read_text(encoding="utf-8"))["rows"]
    figure = {(row["section"], row["what"], row["who"], row["unit"]): row["value"] for row in rows}
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    seen: Counter[str] = Counter()
    for header, body in re.findall(r"^\| \| (MLP.*) \|\n\|-.*\n((?:\|.*\n)+)", text, flags=re.MULTILINE):
        section, unit = ("prediction", "of plain passes") if "rows" in header else ("training step", "of plain")
        for line in body.splitlines():
            who, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            for what, cell in zip(header.split(" | "), cells, strict=True):
                if cell:
                    assert cell == f"{figure[section, what, who, unit]:.2f}", (what, who)
                    seen[section] += 1
    assert seen == {"training step": 44, "prediction": 14}
    sweeps = re.findall(r"^\| ([\d,]+) \| ((?:[\d.]+ \| ){3}[\d.]+) \|$", text, flags=re.MULTILINE)
    assert len(sweeps) == 5
    for count, cells in sweeps:
        kept = [figure["sweep", f"{count} weights", kind, "ns a weight"] for kind in SWEEPS]
        assert cells.split(" | ") == [f"{value:.3g}" for value in kept]

    floats, layer = "floats a weight beyond the networks", "a layer of 10 million weights"
    words, ours = " ".join(text.split()), "R2D2 by SVGI"
    layers = [figure["memory", layer, who, floats] for who in (ours, "R2D2 by CAVI", "plain")]
    assert (
        "takes {:.1f} floats a weight to train by SVGI, {:.1f} by CAVI, {:.1f} by torch's Adam".format(*layers) in words
    )
    resnets = [figure["ResNet step", net, ours, floats] for net in ("resnet50", "resnet101")]
    assert "ResNet50 takes {:.1f} and ResNet101 {:.1f}".format(*resnets) in words
    assert f"plain training of ResNet50 {figure['ResNet step', 'resnet50', 'plain', floats]:.1f}" in words
    pictures = [ROOT / "docs" / "figures" / "speed.png", ROOT / "results" / "benchmarks" / "speed.png"]
    assert pictures[0].read_bytes() == pictures[1].read_bytes()

    def step(net: str, who: str) -> str:
        return f"{figure['training step', net, who, 'of plain']:.2f}"

    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    other = "torchbnn, Gaussian"
    assert f"costs {step('LeNet', ours)} of plain training on LeNet and {step('MLP', ours)} on an MLP" in readme
    assert f"(compiled {step('MLP', ours + ', compiled')}, with" in readme
    assert f"torchbnn, costs {step('LeNet', other)} and {step('MLP', other)}" in readme


def test_what_is_said_of_native_kernels_is_what_their_file_says() -> None:
    rows = json.loads((ROOT / "results" / "benchmarks" / "native-steps.json").read_text(encoding="utf-8"))["rows"]
    assert not [row for row in rows if row["limit"] is not None and row["value"] > row["limit"]]
    figure = {(row["section"], row["what"], row["who"]): row["value"] for row in rows}
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    for section, title, form in (("training step", "step of", ".2f"), ("sweep", "layer of", ".3g")):
        (found,) = re.findall(rf"^\| {title} \| (.*) \|\n\|-.*\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
        heads, lines = found[0].split(" | "), found[1].splitlines()
        for line in lines:
            first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            pairs = [(head, first) if section == "training step" else (first, head) for head in heads]
            assert cells == [f"{figure[section, what, who]:{form}}" for what, who in pairs]
        assert len(lines) == (7 if section == "training step" else 3)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    native = figure["training step", "MLP", "R2D2 by SVGI, native"]
    assert f"with [native kernels](docs/speed.md#native-kernels) {native:.2f})" in readme
    of_ivon = [figure["training step", net, "ivon, Gaussian"] for net in ("LeNet", "MLP")]
    assert "the optimiser IVON {:.2f} and {:.2f}".format(*of_ivon) in readme
    assert native < of_ivon[1] < figure["training step", "MLP", "R2D2 by SVGI"]  # what docs/speed.md says in words


def test_what_is_said_of_small_networks_is_what_its_file_says() -> None:
    rows = json.loads((ROOT / "results" / "benchmarks" / "speed.json").read_text(encoding="utf-8"))["rows"]
    figure = {(r["what"], r["who"], r["unit"]): r["value"] for r in rows if r["section"] == "small network"}
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    units = {"of plain", "of plain with fused Adam"}
    tables = re.findall(r"^\| \| (a step.*) \|\n\|-.*\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    seen = 0
    for header, body in tables:
        for line in body.splitlines():
            who, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            for column, cell in zip(header.split(" | "), cells, strict=True):
                what, _, reference = column.rpartition(", ")
                unit = f"of {reference}" if f"of {reference}" in units else "of one"
                if cell:
                    assert cell == f"{figure[column if unit == 'of one' else what, who, unit]:.2f}", (column, who)
                    seen += 1
    assert seen == len(figure) - 4  # those of plain training in units of itself, and of fused Adam in units of it


def test_the_table_of_linear_paths_is_that_of_the_results() -> None:
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    path = ROOT / "results" / "benchmarks" / "linear-path.json"
    cells: dict[str, dict[str, str]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["summary"]:
        assert row["splits"] == 3
        shown = f"{row['rmse']:.3f} / {row['nll']:.2f} / {row['coverage']:.2f}"
        cells.setdefault(row["table"], {})[row["contestant"]] = shown
    assert f"| table | {' | '.join(next(iter(cells.values())))} |\n" in page
    for table, shown in cells.items():
        assert f"| {table} | {' | '.join(shown.values())} |\n" in page


def test_every_block_of_the_gallery_has_its_picture_and_no_picture_is_large() -> None:
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    figures = ROOT / "docs" / "figures"
    shown = re.findall(r"\(figures/(gallery-\d+\.png)\)", text)
    assert shown == [f"gallery-{place}.png" for place in range(1, len(BLOCK.findall(text)) + 1)]
    assert all((figures / name).stat().st_size < 100_000 for name in (*shown, "gallery-report.png"))
    assert all(re.search(r"^figure, ", match["code"], flags=re.MULTILINE) for match in BLOCK.finditer(text))


def test_the_home_page_begins_with_an_example() -> None:
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()[:25]
    assert any(line.startswith("r2d2net fit") for line in first)
    assert "```python" in first


def test_what_is_said_of_the_novelty_score_is_what_its_files_say() -> None:
    text = " ".join((ROOT / "docs" / "uncertainty.md").read_text(encoding="utf-8").split())
    for inside, name in {"MNIST": "mnist", "CIFAR-10": "cifar10"}.items():
        found = measured(f"novelty-{name}.json")["result"]
        for outside, scores in found["outside"].items():
            figures = " | ".join(f"{scores[score]:.1f}" for score in ("novelty", "entropy", "mutual information"))
            assert f"| {inside} | {outside} | {figures} | {100 * scores['alarms']['0.05']:.0f}% |" in text
        shares = ", ".join(f"{100 * share:.1f}%" for share in found["false alarms"].values())
        assert f"{shares} ({inside})" in text
    controls = measured("novelty-controls.json")["result"]
    for name, phrase in {
        "by 28 pixels": "by 28 pixels",
        "by 24 pixels": "by 24",
        "SVHN, noise 1": "SVHN with noise",
    }.items():
        assert f"{phrase} {controls[name]['novelty']:.0f}" in text
    for outside in ("Fashion-MNIST", "OMNIGLOT", "SVHN"):
        assert f"{controls[f'barely trained, {outside}']['novelty']:.1f} on {outside}" in text
    tables = [
        measured(f"novelty-{name}.json")["result"]["auroc"]
        for name in ("boston", "energy", "kin8nm", "naval", "wine", "yacht")
    ]
    for kind in tables[0]:
        ours, rule = (mean(table[kind][which] for table in tables) for which in ("novelty", "rule"))
        assert f"| {ours:.1f} | {rule:.1f} |" in text
