"""Pages in a headless Chromium: a script is put at the end of a copy of the page, and what it finds is read back."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--enable-logging=stderr",
]
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
MEASURE = """
const wide = (element) => element.closest(".wide, details:not([open]), #tip");
const found = { width: innerWidth, scroll: document.documentElement.scrollWidth, outside: [] };
for (const text of document.querySelectorAll("svg text")) {
  const box = text.getBoundingClientRect(), room = text.ownerSVGElement.getBoundingClientRect();
  if (box.width && (box.left < room.left - 1 || box.right > room.right + 1 || box.bottom > room.bottom + 1))
    found.outside.push(text.textContent);
}
for (const element of document.body.querySelectorAll("*")) {
  if (wide(element) || element.ownerSVGElement) continue;
  if (element.getBoundingClientRect().right > innerWidth + 1) found.outside.push(element.outerHTML.slice(0, 80));
}
const dot = document.querySelector("circle[data-tip]");
const place = dot.getBoundingClientRect();
const at = { bubbles: true, clientX: place.left + 2, clientY: place.top + 2 };
dot.dispatchEvent(new PointerEvent("pointermove", at));
const tip = document.getElementById("tip"), shown = tip.getBoundingClientRect();
found.tip = [tip.textContent, getComputedStyle(tip).visibility, shown.left >= 0 && shown.right <= innerWidth];
found.lit = document.querySelectorAll(".on").length;
document.body.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 1, clientY: 1 }));
found.gone = getComputedStyle(tip).visibility;
const table = document.querySelector("table.sortable");
for (const part of document.querySelectorAll("details")) part.open = true;
if (table) {
  const first = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
  const before = first();
  table.tHead.querySelector("th").click(); const down = first();
  table.tHead.querySelector("th").click(); const up = first();
  found.sorted = [before, down, up];
}
found.background = getComputedStyle(document.body).backgroundColor;
"""


def framed(page: str, width: int) -> str:
    """A page in a frame of a width, since windows have at least 500 pixels."""
    frame = f'<iframe id="frame" style="border:0;width:{width}px;height:900px" srcdoc="{html.escape(page)}"></iframe>'
    return f'<!doctype html><meta charset="utf-8"><body style="margin:0">{frame}</body>'


def look(page: Path, *, width: int = 1200, dark: bool = False, script: str = MEASURE) -> dict:
    """What a script finds on a page, and what the browser wrote on its console."""
    mark = f'<script>(() => {{ {script}; const out = parent.document.createElement("pre"); out.id = "found";'
    mark += "out.textContent = JSON.stringify(found); parent.document.body.append(out); })();</script></body>"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page.html"
        copy.write_text(framed(page.read_text(encoding="utf-8").replace("</body>", mark), width), encoding="utf-8")
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        size = ["--window-size=1280,1000", f"--user-data-dir={folder}/profile", "--dump-dom"]
        command = [str(BROWSER), *OPTIONS, scheme, *size, copy.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    content = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert content is not None, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return {**json.loads(html.unescape(content[1])), "console": console}
