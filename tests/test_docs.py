"""What the documentation says about this project is true, and its examples run."""

from __future__ import annotations

import doctest
import inspect
import re

import numpy as np
import pytest
from helpers import TESTS, run, run_code

import fused_rnn
from fused_rnn import weights

DOCS = TESTS.parent / "docs"
PAGES = [TESTS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


def examples(page) -> str:
    """All Python blocks of a page, as one program."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page)], ids=lambda page: page.stem
)
def test_examples_of_a_page(page):
    run_code(examples(page))


@pytest.mark.parametrize("module", [fused_rnn.functional, weights.layout, weights.torch])
def test_examples_in_docstrings(module):
    results = doctest.testmod(module, globs={"fused_rnn": fused_rnn, "np": np})
    assert results.attempted and not results.failed


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


FUNCTIONS = [fused_rnn.functional.Outputs.backward, fused_rnn.functional.LSTMOutputs.backward]
FUNCTIONS += [fused_rnn.functional.lstm, fused_rnn.functional.gru, fused_rnn.functional.rnn]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_functions_of_arrays_are_typed_and_documented(function):
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    assert signature.return_annotation is not signature.empty
    assert all(p.annotation is not p.empty for p in parameters)
    assert {p.name for p in parameters} <= set(re.findall(r"\w+", inspect.getdoc(function)))


DESCRIBED = [fused_rnn.functional.lstm, fused_rnn.functional.gru, fused_rnn.functional.rnn]
DESCRIBED += [fused_rnn.nd.RNN, fused_rnn.sym.RNN]


@pytest.mark.parametrize("function", DESCRIBED, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_arguments_are_described_once_each_in_their_order(function):
    text = inspect.getdoc(function)
    section = re.search(r"^Parameters\n-+\n(.*?)\n\n", text, re.M | re.S)[1]
    names = [n for entry in re.findall(r"^(\S.*?) : ", section, re.M) for n in entry.split(", ")]
    assert len(set(names)) == len(names)
    parameters = inspect.signature(function).parameters.values()
    assert set(names) <= {p.name for p in parameters}
    assert not re.search(r"[{]\w+[}]", text)
    wrapped = [line for line in section.splitlines() if len(line) > 96]
    assert not wrapped, wrapped


def test_every_public_name_is_in_the_reference():
    reference = (DOCS / "api.md").read_text()
    for package in (fused_rnn, fused_rnn.gluon):
        for name in package.__all__:
            assert re.search(rf"\b{name}$", reference, re.M), name


def test_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
    config = TESTS.parent / "mkdocs.yml"
    done = run(["-m", "mkdocs", "build", "-f", str(config), "-d", str(tmp_path)])
    assert done.returncode == 0, done.stdout
    page = (tmp_path / "api.html").read_text()
    assert "functional.LSTMOutputs.backward" in page
    # Descriptions that functions share: all arguments of all five functions.
    assert "{arguments}" not in page
    assert page.count("Probability that an element of the output of a layer but the last") >= 5
