"""What the documentation says about files of this project is true."""

from __future__ import annotations

import re

import pytest
from helpers import TESTS

DOCS = TESTS.parent / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_that_a_page_names_exist(page):
    for file, test in re.findall(r"`(\w+\.py)::(\w+)`", page.read_text()):
        assert re.search(rf"^def {test}\(", (TESTS / file).read_text(), re.M), f"{file}::{test}"


def test_every_difference_names_its_test():
    rows = [
        line
        for line in (DOCS / "differences.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| native", "| MXNet", "| `mx."))
    ]
    assert len(rows) > 20
    for row in rows:
        assert re.search(r"`\w+\.py::test_\w+`[^|]*\|$", row), row
