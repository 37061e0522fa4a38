"""Every public name says what it takes and what it returns: Google docstrings with Args and Returns, by package.

    python tests/test_docstrings.py    # the share of complete docstrings by package, and the names that lack a section

A name is public if it is reachable through `__all__` of r2d2net or of a package named there; so are the methods of a
public class that do not start with an underscore. A docstring is complete if its Args (Attributes for a NamedTuple or a
dataclass) name every parameter and if it has Returns (or Yields) where something is returned. Properties need a
sentence only. A method may inherit the sections of the base class whose contract it implements; methods of
other libraries' contracts (`log_prob` of torch.distributions, `forward` of torch.nn) are documented there.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

import r2d2net

PACKAGES = ["r2d2net", *(f"r2d2net.{name}" for name in r2d2net.__all__ if inspect.ismodule(getattr(r2d2net, name)))]
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:", re.MULTILINE)


class Documented(NamedTuple):
    """A public function, class or method with what its docstring leaves out.

    Attributes:
        name: Dotted name below the package.
        missing: Parameters without an entry, "Returns" or "docstring".
    """

    name: str
    missing: list[str]


def sections(docstring: str) -> dict[str, str]:
    """The text of each section of a Google docstring by its heading."""
    _, *rest = SECTION.split(docstring)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def named_parameters(docstrings: list[str]) -> set[str]:
    """The names with an entry in Args or Attributes of any of the docstrings."""
    texts = [sections(docstring).get(heading, "") for docstring in docstrings for heading in ("Args", "Attributes")]
    return {name.lstrip("*") for text in texts for entry in ENTRY.findall(text) for name in entry.split(", ")}


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names that a caller passes."""
    names = list(inspect.signature(function).parameters)
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def returns_something(function: Callable[..., Any]) -> bool:
    return inspect.signature(function).return_annotation not in (None, "None", inspect.Signature.empty)


def lacking(function: Callable[..., Any], docstrings: list[str]) -> list[str]:
    """What the docstrings of a function and of the contracts it implements leave out together."""
    if not docstrings:
        return ["docstring"]
    entries = named_parameters(docstrings)
    missing = [name for name in parameters(function) if name not in entries]
    headings = {heading for docstring in docstrings for heading in sections(docstring)}
    if returns_something(function) and not headings & {"Returns", "Yields"}:
        missing.append("Returns")
    return missing


def ours(cls: type) -> bool:
    return cls.__module__.split(".")[0] == "r2d2net"


def constructor(cls: type) -> Documented:
    """What a class's docstring leaves out of the parameters of its constructor."""
    docstring = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    if not docstring:
        return Documented(cls.__name__, ["docstring"])
    takes_parameters = any(
        "__init__" in base.__dict__ or "__new__" in base.__dict__ for base in cls.__mro__ if ours(base)
    )
    if not takes_parameters or issubclass(cls, enum.Enum | BaseException) or getattr(cls, "_is_protocol", False):
        return Documented(cls.__name__, [])
    bases = [base for base in cls.__mro__ if ours(base)]
    docstrings = [inspect.cleandoc(base.__doc__ or "") for base in bases]
    docstrings += [inspect.cleandoc(base.__init__.__doc__ or "") for base in bases if "__init__" in base.__dict__]  # type: ignore[misc]
    entries = named_parameters(docstrings)
    return Documented(cls.__name__, [name for name in parameters(cls) if name not in entries])


def methods(cls: type, exported: set[type]) -> Iterator[Documented]:
    """The public methods that a class defines itself or inherits from a base class that is not exported."""
    own = [cls, *(base for base in cls.__mro__[1:] if ours(base) and base not in exported)]
    for name, member in {name: member for base in reversed(own) for name, member in base.__dict__.items()}.items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if any(name in base.__dict__ for base in cls.__mro__ if not ours(base)):
            continue  # the contract of another library
        overridden = [base.__dict__[name] for base in cls.__mro__ if ours(base) and name in base.__dict__]
        docstrings = [inspect.cleandoc(method.__doc__) for method in overridden if method.__doc__]
        yield Documented(f"{cls.__name__}.{name}", lacking(function, docstrings))


def public(package: str) -> list[Documented]:
    """The functions, classes and methods that a package exports; r2d2net's own without those of its packages."""
    module = import_module(package)
    exported = {member for name in module.__all__ if inspect.isclass(member := getattr(module, name))}
    entries: list[Documented] = []
    for name in module.__all__:
        member = getattr(module, name)
        home = ".".join(getattr(member, "__module__", package).split(".")[:2])
        if package == "r2d2net" and home in PACKAGES:
            continue
        if inspect.isclass(member):
            entries += [constructor(member), *methods(member, exported)]
        elif inspect.isfunction(member):
            docstring = inspect.cleandoc(member.__doc__ or "")
            entries.append(Documented(name, lacking(member, [docstring] if docstring else [])))
    return entries


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_document_parameters_and_returns(package: str) -> None:
    incomplete = {entry.name: entry.missing for entry in public(package) if entry.missing}
    assert not incomplete


def test_missing_entries_are_reported() -> None:
    def scaled(values: list[float], factor: float) -> list[float]:
        """Multiply.

        Args:
            values: Numbers.
        """
        return [factor * value for value in values]

    assert scaled.__doc__ is not None
    assert lacking(scaled, [inspect.cleandoc(scaled.__doc__)]) == ["factor", "Returns"]
    assert lacking(scaled, []) == ["docstring"]
    assert lacking(scaled, ["Multiply.\n\nArgs:\n    values, factor: Numbers.\n\nReturns:\n    Products."]) == []


def main() -> None:
    for package in PACKAGES:
        entries = public(package)
        complete = sum(not entry.missing for entry in entries)
        print(f"{package}: {complete} of {len(entries)} complete")
        for entry in entries:
            if entry.missing:
                print(f"    {entry.name}: {', '.join(entry.missing)}")


if __name__ == "__main__":
    main()
