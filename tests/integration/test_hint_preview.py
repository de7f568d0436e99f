"""The preview of a real run's groups is what collate gives the teacher, token for token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharpo import hint_preview
from sharpo.cli import Parts, read, train
from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError, DataError
from sharpo.rollout import store
from sharpo.rollout.collate import collate

SMALL = (
    "~experiment", "name=test", "env._target_=word_env.WordEnv", "env.max_turns=2", "wording=tiny", "engine=hf",
    "engine.max_context=128", "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool", "data.sizes.groups=6",
    "data.sizes.group_size=4", "data.budgets.turn_tokens=4", "model.path.width=32", "model.path.heads=1",
    "model.path.layers=2", "model.path.feed_forward=64", "panel=none", "callbacks=quiet", "trainer.accelerator=cpu",
    "trainer.max_epochs=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one iteration: its folder, and its first saved file."""
    root = tmp_path_factory.mktemp("preview")
    train(read("train", [*SMALL, f"paths.root={root}", f"data.save_rollouts={root}/saved"]))
    return root, root / "saved" / "iteration_00000_rank0.jsonl"


def parts_of(run, *more):
    return Parts(read("train", [*SMALL, f"paths.root={run[0]}", *more]))


def mixed(run):
    return next(g for g in hint_preview.load(str(run[1])) if 0 < sum(e.outcome.success for e in g.episodes) < 4)


def test_the_command_prints_a_member_of_a_saved_group(run, monkeypatch, capsys):
    task = mixed(run).task.id
    words = ["hint_preview", str(run[1]), "--task", task, "--member", "1", *SMALL, f"paths.root={run[0]}"]
    monkeypatch.setattr("sys.argv", words)
    hint_preview.main()
    printed = capsys.readouterr().out
    assert printed.startswith(f"{task} [")
    assert "member 1: " in printed
    assert "member 0: " not in printed


@pytest.mark.parametrize("hint", ["peer", "outcome", "contrast"])
def test_it_shows_what_collate_gives_the_teacher(run, hint):
    group = mixed(run)
    parts = parts_of(run, f"hint={hint}")
    text = hint_preview.preview(parts, group, whole=True)
    data = parts.data()
    rows = collate([group], parts.algorithm, data.hint, data.renderer.tokenize, 128).rows
    assert len(rows) == 4
    for row in rows:
        if row.hint is None:
            continue
        teacher = [*row.token_ids[: row.hint_at], *row.hint, *row.token_ids[row.hint_at :]]
        decode = data.renderer.decode
        line = decode(row.token_ids[: row.hint_at]) + f"⟦{decode(row.hint)}⟧" + decode(row.token_ids[row.hint_at :])
        assert line in text
        assert "".join(line.split()).replace("⟦", "").replace("⟧", "") == "".join(decode(teacher).split())
        assert f"student {len(row)}, hint {len(row.hint)}, together {len(teacher)}; budget of the hint" in text
    assert sum(row.hint is not None for row in rows) == text.count("⟦") > 0


def test_it_says_why_there_is_no_hint(run):
    group = mixed(run)
    won = next(e for e in group.episodes if e.outcome.success)
    lost = next(e for e in group.episodes if not e.outcome.success)
    alone = EpisodeGroup(group.task, (replace(won, member=0), replace(lost, member=1)))
    parts = parts_of(run)
    text = hint_preview.preview(parts, alone)
    assert "member 0: solved, " in text
    assert "no hint: no other episode of the group was solved" in text
    assert "hint peer:0" in text
    assert "not shortened" in text
    assert "no hint: nothing of peer:0 fits into 1 tokens" in hint_preview.preview(
        parts_of(run, "hint.max_tokens=1"), alone
    )
    nothing = EpisodeGroup(group.task, (lost, replace(lost, member=9)))
    assert "no hint: no action sets" in hint_preview.preview(parts_of(run, "hint=contrast"), nothing)


def test_what_cannot_be_shown_is_refused(run, tmp_path):
    groups = hint_preview.load(str(run[1]))
    with pytest.raises(DataError, match=r"--task x: not there; the file has word/train/0, word/train/1"):
        hint_preview.find(groups, "x")
    assert hint_preview.find(groups, None) is groups[0]
    with pytest.raises(DataError, match="--member 4: the group has members 0 to 3"):
        hint_preview.preview(parts_of(run), groups[0], 4)
    with pytest.raises(ConfigError, match="Grpo never asks for a hint"):
        hint_preview.preview(parts_of(run, "algorithm=grpo"), groups[0])
    episodes = tuple(
        replace(e, turns=tuple(replace(t, text="something else") for t in e.turns)) for e in groups[0].episodes
    )
    with pytest.raises(DataError, match="give the experiment and the model that played it"):
        hint_preview.preview(parts_of(run), EpisodeGroup(groups[0].task, episodes))
    store.save(tmp_path / "one.jsonl", [list(groups[0].episodes[:1])])
    with pytest.raises(DataError, match="at least two episodes"):
        hint_preview.load(str(tmp_path / "one.jsonl"))
