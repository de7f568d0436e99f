"""The shuffled-teacher control: whose hint a row gets, what is compared, and that ranks stay together."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sharpo.control import _draw, _other_hints, shuffled_teacher
from sharpo.functional.credit_report import segment_gaps

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def scored(fit):
    trainer, module, _ = fit("algorithm=sharpo", "validate_first=false", "trainer.max_epochs=1", "optimizer.lr=0.0")
    return trainer.train_dataloader.dataset, module


def run(buffer, module, rows=16):
    return shuffled_teacher(buffer, module.policy, rows=rows, temperature=module.temperature, device="cpu")


@torch.no_grad()
def _reference_gaps(buffer, module, rows):
    """Own and other gap of every span, one row at a time, with the hint spliced in by hand."""
    gap, known = segment_gaps(buffer.segments)
    drawn = _draw(buffer, known, rows)
    out = {}
    for number, hint in zip(drawn, _other_hints(buffer, drawn), strict=True):
        row = buffer.rows[number]
        ids = [*row.token_ids[: row.hint_at], *hint, *row.token_ids[row.hint_at :]]
        mask = [*row.action[: row.hint_at], *[False] * len(hint), *row.action[row.hint_at :]]
        logp = module.policy(
            torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), torch.tensor([mask]), module.temperature
        ).logp[0, -len(row) :]
        for k in {k for k, inside in zip(row.segment, row.span, strict=True) if inside}:
            places = [t for t in range(len(row)) if row.span[t] and row.segment[t] == k]
            total = sum(float(logp[t]) for t in places)
            out[k] = (float(gap[k]), (total - float(buffer.segments.student_logp[k])) / len(places))
    return [out[k] for k in sorted(out)]


def test_it_equals_a_plain_loop_and_is_the_same_again(scored):
    buffer, module = scored
    before = buffer.segments.teacher_logp.clone()
    state = torch.get_rng_state()
    found, again = run(buffer, module), run(buffer, module)
    own, other = zip(*_reference_gaps(buffer, module, 16), strict=True)
    assert torch.allclose(found.own, torch.tensor(own), atol=1e-5)
    assert torch.allclose(found.other, torch.tensor(other), atol=1e-5)
    assert torch.equal(found.other, again.other)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(buffer.segments.teacher_logp.nan_to_num(), before.nan_to_num())
    assert not torch.equal(found.own, found.other)


def test_a_row_gets_the_hint_of_another_group_and_becomes_no_longer_than_any_before(scored):
    buffer, _ = scored
    _, known = segment_gaps(buffer.segments)
    drawn = _draw(buffer, known, 16)
    owners = {}
    for row in buffer.rows:
        owners.setdefault(row.hint, set()).add(int(buffer.segments.group[max(row.segment)]))
    longest = max(row.teacher_length for row in buffer.rows)
    for number, hint in zip(drawn, _other_hints(buffer, drawn), strict=True):
        row = buffer.rows[number]
        assert hint is not None
        assert hint != row.hint
        assert owners[hint] - {int(buffer.segments.group[max(row.segment)])}
        assert len(row) + len(hint) <= longest


def test_successes_and_failures_take_turns(scored):
    buffer, _ = scored
    _, known = segment_gaps(buffer.segments)
    every = _draw(buffer, known, 10**6)
    success = [bool(buffer.segments.success[max(buffer.rows[number].segment)]) for number in every]
    fewer = min(sum(success), len(success) - sum(success))
    assert success[: 2 * fewer] == [True, False] * fewer
    assert _draw(buffer, known, 3) == every[:3]
    assert len(set(every)) == len(every)


def test_the_same_hint_everywhere_is_no_control(scored):
    buffer, module = scored
    buffer.rows = [replace(row, hint=None if row.hint is None else (7,)) for row in buffer.rows]
    found = run(buffer, module, rows=5)
    assert (found.rows, found.left_out, len(found.own)) == (0, 5, 0)


@pytest.mark.integration
def test_sharded_processes_make_the_same_number_of_passes(small, tmp_path):
    command = [
        sys.executable, str(ROOT / "tests/lightning/processes.py"), str(tmp_path), *small, "algorithm=sharpo",
        "validate_first=false", "strategy=fsdp2", "trainer.devices=2", "data.sizes.micro_rows=2",
        "data.sizes.groups=12",
        "+callbacks.credit._target_=sharpo.callbacks.credit_report.CreditReport", f"paths.root={tmp_path}",
    ]  # fmt: skip
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "tests"), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"
    }  # fmt: skip
    environment.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = torch.load(tmp_path / "result.pt")["metrics"]
    assert 0 < metrics["credit/control_rows"] <= 32  # 16 of each process
    assert len(list((tmp_path / "second/credit").glob("*.png"))) == 1
