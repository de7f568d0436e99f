"""The Python blocks of docs/algorithms/*.md run and print what they say."""

import doctest
import itertools
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "algorithms"
PAGES = sorted(FOLDER.glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page):
    names = {}
    for number, block in enumerate(BLOCK.findall(page.read_text())):
        if ">>>" not in block:
            exec(compile(block, f"{page.name}[{number}]", "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(block, names, f"{page.name}[{number}]", str(page), 0)
        result = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE).run(test, clear_globs=False)
        assert result.failed == 0
        names.update(test.globs)


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "README.md"], ids=lambda p: p.name)
def test_every_page_has_a_worked_example(page):
    assert BLOCK.search(page.read_text())


BASES = {"__init__", "base", "baseline", "policy_loss", "shaped", "auxiliary"}


def test_every_algorithm_file_has_a_page():
    modules = FOLDER.parents[1] / "sharpo" / "algorithms"
    assert {path.stem for path in modules.glob("*.py")} - BASES <= {page.stem for page in PAGES}


def cells(text, start):
    """Rows of the Markdown table whose first line starts so, header aside, as lists of cells."""
    lines = text[text.index(start) :].splitlines()[2:]
    table = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_comparison_says_what_the_benchmarks_measured_for_every_method():
    measured = {
        row[0].split()[0]: (row[2], row[1])
        for row in cells((FOLDER.parent / "benchmarks.md").read_text(), "| method | score + update")
    }
    yamls = {path.stem for path in (FOLDER.parents[1] / "configs" / "algorithm").glob("*.yaml")}
    named = set()
    for row in cells((FOLDER / "README.md").read_text(), "| method | `algorithm=`"):
        names = re.findall(r"`(\w+)`", row[1])
        named |= set(names)
        rows, cost = measured.get(names[0], ("", ""))
        assert row[5:7] == [f"{rows} of 36" if int(rows or 0) else rows, cost], row[0]
    assert named == yamls
    assert {name for name in yamls if not name.startswith("imitation")} == set(measured)
