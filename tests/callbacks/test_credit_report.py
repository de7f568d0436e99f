"""The credit report: the control leaves training alone, sees what it must, and every validation has its picture."""

import math

import pytest
import torch
from sharpo.callbacks.credit_picture import Seen, draw
from sharpo.callbacks.credit_report import CreditReport, _columns

from sharpo.errors import ConfigError
from sharpo.segments import Segments

ONE = ("algorithm=sharpo", "validate_first=false")


def weights(module):
    return {name: value.detach().clone() for name, value in module.policy.state_dict().items()}


@pytest.mark.parametrize("teacher", ["shared", "frozen", "ema(0.5)"])
def test_training_is_the_same_with_and_without_it_bit_for_bit(fit, tmp_path, teacher):
    _, plain, _ = fit(*ONE, f"teacher={teacher}", folder=tmp_path / "a")
    _, reported, _ = fit(*ONE, f"teacher={teacher}", callbacks=[CreditReport()], folder=tmp_path / "b")
    mine, other = weights(plain), weights(reported)
    assert mine.keys() == other.keys()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_every_validation_after_an_iteration_has_its_picture_and_its_control(fit, tmp_path):
    report = CreditReport()
    trainer, _, _ = fit("algorithm=sharpo", callbacks=[report])
    pictures = sorted((tmp_path / "run/credit").glob("*.png"))
    assert len(pictures) == 2  # two iterations; the validation before the first has none
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures)
    assert [row["iteration"] for row in report.history] == [0.0, 1.0]
    logged = trainer.callback_metrics
    assert 0 < logged["credit/control_rows"] <= 16
    assert logged["credit/control_left_out"] == 0
    assert 0 <= logged["credit/control_above_share"] <= 1
    assert report.history[-1]["control_difference"] == pytest.approx(float(logged["credit/control_difference"]))


def test_only_iterations_that_end_with_a_validation_pay_for_the_control(fit):
    report = CreditReport()
    fit(*ONE, "trainer.max_epochs=3", "trainer.check_val_every_n_epoch=2", callbacks=[report])
    assert [row["iteration"] for row in report.history] == [1.0]


def test_a_method_without_a_teacher_has_a_picture_and_no_control(fit, tmp_path):
    report = CreditReport()
    trainer, _, _ = fit("algorithm=grpo", "validate_first=false", callbacks=[report])
    assert len(list((tmp_path / "run/credit").glob("*.png"))) == 2
    assert not any(name.startswith("credit/control") for name in trainer.callback_metrics)
    assert report.history[-1]["step_share"] == pytest.approx(0.0, abs=1e-6)


def test_one_group_alone_has_no_other_task_and_says_so(fit):
    report = CreditReport()
    trainer, _, _ = fit(*ONE, "data.sizes.groups=1", "data.sizes.group_size=8", "seed=1", callbacks=[report])
    assert trainer.callback_metrics["credit/control_rows"] == 0
    left_out = [row["control_left_out"] for row in report.history]
    assert max(left_out) > 0
    assert all(math.isnan(row["control_difference"]) for row in report.history)


def test_the_history_survives_a_resume_and_is_not_doubled(fit, tmp_path):
    first = CreditReport()
    fit(*ONE, "trainer.max_epochs=1", callbacks=[first], folder=tmp_path / "a")
    again = CreditReport()
    fit(*ONE, callbacks=[again], ckpt=tmp_path / "a/run/checkpoints/last.ckpt", folder=tmp_path / "b")
    assert [row["iteration"] for row in again.history] == [0.0, 1.0]
    assert again.history[0] == pytest.approx(first.history[0], nan_ok=True)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ConfigError, match=r"callbacks\.credit\.rows=-1: must be at least 0"):
        CreditReport(rows=-1)


def table(episodes, base, scored=True):
    n = len(episodes)
    zeros, some = torch.zeros(n), torch.full((n,), scored)
    return Segments(
        group=torch.zeros(n, dtype=torch.int64),
        episode=torch.tensor(episodes, dtype=torch.int64),
        turn=torch.arange(n),
        length=torch.arange(1, n + 1),
        success=torch.tensor(base) > 0,
        episode_return=zeros,
        hinted=some,
        base=torch.tensor(base),
        selected=some,
        student_logp=-torch.ones(n),
        teacher_logp=-torch.linspace(0.5, 2.0, n),
    )


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("rows", [1, 2])
def test_one_segment_and_no_control_can_be_drawn(tmp_path, scored, rows):
    segments = table([0] * rows, [1.0] * rows, scored)
    credit = segments.base * 1.1 if scored else segments.base
    from sharpo.functional.credit_report import credit_diagnostics

    report = {name: float(value) for name, value in credit_diagnostics(segments, credit).items()}
    path = tmp_path / "one.png"
    draw(Seen.from_columns(_columns(segments, credit)), torch.zeros(0, 3), report, [{"iteration": 0.0, **report}], path)
    assert path.stat().st_size > 1000


def test_no_segment_at_all_can_be_drawn(tmp_path):
    segments = table([], [])
    from sharpo.functional.credit_report import credit_diagnostics

    report = {name: float(value) for name, value in credit_diagnostics(segments, segments.base).items()}
    seen = Seen.from_columns(_columns(segments, segments.base))
    draw(seen, torch.zeros(0, 3), report, [{"iteration": 0.0, **report}], tmp_path / "none.png")
    assert (tmp_path / "none.png").is_file()
