"""The pictures of gallery.md: runs its Python blocks and saves what each calls ``figure``.

    python docs/gallery_figures.py [FOLDER]        docs/figures by default
"""

import re
import sys
from pathlib import Path

import matplotlib as mpl

DOCS = Path(__file__).parent
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
DOTS = 80  # an inch


def main(folder: Path) -> None:
    """Draw the pictures in the order of the blocks."""
    mpl.use("Agg")
    for place, code in enumerate(BLOCK.findall((DOCS / "gallery.md").read_text(encoding="utf-8")), 1):
        names: dict[str, object] = {}
        exec(compile(code, f"gallery.md, block {place}", "exec"), names)  # the page's own code
        names["figure"].savefig(folder / f"gallery-{place}.png", dpi=DOTS)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures")
