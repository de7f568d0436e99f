"""The notebook runs from a clean state, gives the outputs that are in the repository, and names no machine."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PATH = ROOT / "notebooks" / "credit_on_one_group.ipynb"


def printed(notebook) -> list[str]:
    return [
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    ]


def test_the_stored_outputs_are_small_have_a_picture_and_name_no_machine():
    text = PATH.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert len(text) < 300_000
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert not re.search(r"(/home/|/root/|/tmp/|/Users/|site-packages|[A-Z]:\\\\)", text)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the notebook tools
def test_the_notebook_runs_and_prints_what_is_stored(tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    stored = nbformat.read(PATH, as_version=4)
    fresh = nbformat.read(PATH, as_version=4)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(fresh, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert printed(fresh)[:6] == printed(stored)[:6], "what was played, the spans and the hint are the same everywhere"
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
