"""Folders altered by accident or on purpose: refused in one line, or used with the same predictions (SECURITY.md)."""

import re

import pytest

from altered_folders import run

FEW, MANY = 12, 1000


def counts_of(place, how, count, seed=1):
    said = run(place, how, count, seed)
    print(said)  # with -s: how many ended how
    return {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)(?:,|$)", said.splitlines()[-1])}


def require_refused(counts, count):
    assert counts["refused"] + counts["not altered"] == count, counts
    assert counts["refused"] >= 0.75 * count  # others were not altered, such as zeros among zeros


def require_unharmed(counts, count):
    assert counts["failed"] == counts["changed"] == 0, counts
    assert counts["refused"] >= 0.3 * count


def test_altered_folders_are_refused_in_one_line(tmp_path):
    for how in ("accidents", "one part"):
        require_refused(counts_of(tmp_path, how, FEW), FEW)
    require_unharmed(counts_of(tmp_path, "signed", 2 * FEW), 2 * FEW)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["accidents", "one part"])
def test_a_thousand_altered_folders_are_refused(tmp_path, how):
    require_refused(counts_of(tmp_path, how, MANY, 7), MANY)


@pytest.mark.slow
def test_a_thousand_signed_folders_do_no_harm(tmp_path):
    require_unharmed(counts_of(tmp_path, "signed", MANY, 7), MANY)
