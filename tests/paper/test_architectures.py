"""The networks' parameter counts beside the paper's: counted from the networks, and in the documentation."""

from pathlib import Path

import r2d2net as rn
from r2d2net import nets
from r2d2net.paper.architectures import architecture_table, architectures


def test_the_counts_are_of_the_paper_s_room():
    assert not {"architectures", "architecture_table", "Architecture"} & set(dir(nets))


def test_counts_round_to_the_paper_s_where_the_table_says_so():
    scale = {"K": 1e3, "M": 1e6}
    agreeing = [row for row in architectures() if row.word.startswith("agrees")]
    assert {row.name for row in agreeing} == {"lenet", "resnet50", "resnet101"}
    for row in agreeing:
        printed = row.paper.split(" / ")[0]
        digits = len(printed.partition(".")[2][:-1])
        assert round(row.parameters / scale[printed[-1]], digits) == float(printed[:-1])


def test_the_bayesian_count_is_the_model_s():
    rows = {(row.name, row.setting): row for row in architectures()}
    for name in ("lenet", "vgg", "vit"):
        model = rn.BayesianModel(nets.build(name))
        assert rows[name, "defaults"].bayesian == 2 * model.size + model.fixed_size


def test_the_documented_table_is_the_counted_one():
    text = (Path(__file__).parents[2] / "docs" / "networks.md").read_text(encoding="utf-8")
    assert architecture_table() in text
