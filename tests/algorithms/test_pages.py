"""The Python blocks of docs/algorithms/*.md run and print what they say."""

import doctest
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
