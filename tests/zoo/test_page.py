"""The table of networks in docs/your-network.md is that of the zoo."""

import re
from pathlib import Path

from zoo.cases import ZOO

PAGE = Path(__file__).parents[2] / "docs" / "your-network.md"


def test_the_page_lists_the_zoo():
    rows = re.findall(r"^\| ((?:torch|transformers|peft|timm|torch-geometric): [^|]+) \|", PAGE.read_text(), re.M)
    assert rows == list(ZOO)
