"""A hook of mkdocs: every script of tutorials/ becomes a page.

The docstring's first line is the title and the rest of it the introduction; a paragraph of comments becomes prose, and
what stands between them code. What the script prints and draws is kept in tutorials/output/; tests/test_tutorials.py
holds the text to what it prints now. The picture stands after the lines that draw it.
"""

import ast
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

SCRIPTS = Path(__file__).parents[1] / "tutorials"


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages to those that mkdocs has found."""
    for script in sorted(SCRIPTS.glob("*.py")):
        output = (SCRIPTS / "output" / f"{script.stem}.txt").read_text(encoding="utf-8")
        content = page(script.read_text(encoding="utf-8"), output, script.name)
        files.append(File.generated(config, f"tutorials/{script.stem}.md", content=content))
        picture = SCRIPTS / "output" / f"{script.stem}.png"
        files.append(File.generated(config, f"tutorials/{picture.name}", content=picture.read_bytes()))
    return files


def page(source: str, output: str, name: str) -> str:
    """A script and what it prints as Markdown."""
    tree = ast.parse(source)
    title, _, introduction = (ast.get_docstring(tree) or name).partition("\n")
    begin = tree.body[0].end_lineno or 0
    picture = f"{Path(name).stem}.png"
    parts = [f"# {title.rstrip('.')}", introduction.strip()]
    for paragraph in grouped(source.splitlines()[begin:]):
        if is_prose(paragraph):
            parts.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in paragraph.splitlines()))
        else:
            parts.append(f"```python\n{paragraph}\n```")
            if f'savefig("{picture}"' in paragraph:
                parts.append(f"![What these lines draw]({picture})")
    parts.append(f"`python tutorials/{name}` prints")
    parts.append(f"```text\n{output.rstrip()}\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def grouped(lines: list[str]) -> list[str]:
    """Paragraphs, those of code that follow each other joined."""
    groups: list[str] = []
    for paragraph in "\n".join(lines).strip("\n").split("\n\n"):
        if groups and not is_prose(groups[-1]) and not is_prose(paragraph):
            groups[-1] += f"\n\n{paragraph}"
        else:
            groups.append(paragraph)
    return [group.strip("\n") for group in groups if group.strip()]


def is_prose(paragraph: str) -> bool:
    """Whether all of its lines are comments that begin a line."""
    return all(line.startswith("#") for line in paragraph.strip("\n").splitlines())
