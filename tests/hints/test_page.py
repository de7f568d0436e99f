"""The page about hints runs, prints what it says it prints, and names every choice."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from sharpo.overrides import choices

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "hints.md").read_text()


def test_the_example_prints_what_the_page_says():
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    said = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    assert said is not None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code.group(1), {})
    assert out.getvalue() == said.group(1)


def test_every_choice_is_in_the_table():
    named = set(re.findall(r"^\| `(\w+)` \| ", PAGE.partition("## Options")[0], re.MULTILINE))
    assert named == set(choices()["hint"])
