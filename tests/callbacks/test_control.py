"""The shuffled-teacher control: whose hint a row gets, and what is compared."""

from dataclasses import replace

import pytest
import small_run
import torch

from sharpo.control import _draw, _other_hints, shuffled_teacher
from sharpo.functional.credit_report import segment_gaps


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    settings = ("algorithm=sharpo", "validate_first=false", "trainer.max_epochs=1", "optimizer.lr=0.0")
    trainer, module, _ = small_run.train(tmp_path_factory.mktemp("scored"), *settings)
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


def test_the_same_hint_everywhere_is_no_control(scored, monkeypatch):
    buffer, module = scored
    same = [replace(row, hint=None if row.hint is None else (7,)) for row in buffer.rows]
    monkeypatch.setattr(buffer, "rows", same)
    found = run(buffer, module, rows=5)
    assert (found.rows, found.left_out, len(found.own)) == (0, 5, 0)
