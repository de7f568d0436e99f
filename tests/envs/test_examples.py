"""The examples in the docstrings of environments and callbacks run, each module's own."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOLDERS = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix()
    for folder in ("envs", "callbacks")
    for path in (ROOT / folder).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_there_are_examples_to_run():
    assert {"envs/household", "envs/native/engine", "envs/searchqa/reward", "envs/webshop/store"} <= set(HOLDERS)


@pytest.mark.parametrize("name", HOLDERS)
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(f"sharpo.{name.replace('/', '.')}")
    found = [test for test in doctest.DocTestFinder(exclude_empty=True).find(module) if test.examples]
    assert sum(len(test.examples) for test in found) == Path(ROOT / f"{name}.py").read_text().count(">>> ")
    for test in found:
        assert doctest.DocTestRunner().run(test).failed == 0
