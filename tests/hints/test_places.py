"""Every hint at every place: the teacher reads the student's very ids around it, and it stands where it should."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from toy_env import ToyEnv

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Update
from sharpo.env import Observed, parse_plain, parse_tags
from sharpo.episode import Episode, EpisodeGroup, Outcome, Turn
from sharpo.errors import DataError
from sharpo.hints.attempt import TinyWording, Wording
from sharpo.hints.contrast import ContrastHint
from sharpo.hints.outcome import OutcomeHint
from sharpo.hints.peer import PeerHint
from sharpo.hints.skill import SkillHint
from sharpo.policy import smollm2
from sharpo.rollout.collate import collate, to_batch
from sharpo.rollout.render import Renderer

PLACES = ("before_instructions", "user_top", "assistant_prefix", "before_chat_template")
TASK = replace(ToyEnv().task("train", 0), family="pick")
SAW = "you are at the table ."


class Teaching(Algorithm):
    @property
    def needs_teacher(self):
        return True

    def base_advantages(self, group):
        return torch.ones(sum(len(e.turns) for e in group.episodes))


@pytest.fixture(scope="module")
def smollm2_tokenizer(tmp_path_factory) -> str:
    """Folder of a real tokenizer with its own chat template."""
    try:
        return smollm2.save_tokenizer(tmp_path_factory.mktemp("smollm2"))
    except DataError as error:
        if os.environ.get("CI"):
            pytest.fail(f"the set-up of the tests is broken: {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["tiny append", "smollm2 append", "smollm2 windowed"])
def setting(request, tmp_path_factory):
    """(renderer at a place, wording, folder of skills, is real) of a tokenizer and a style."""
    kind, style = request.param.split()
    skills = tmp_path_factory.mktemp("skills")
    (skills / "pick.txt").write_text("take key\n- put key\n- look\n")
    if kind == "tiny":
        from toy_env import WORDS

        from sharpo.policy.tiny import TinyModel

        path = TinyModel(str(tmp_path_factory.mktemp("models")), width=32, heads=1, layers=1).prepare(WORDS.split)
        (skills / "tiny").mkdir()
        (skills / "tiny" / "pick.txt").write_text("take key\nput key\nlook\n")
        return (
            cache(partial(Renderer, path, style=style, template="household_plain", action_format="plain")),
            TinyWording(),
            f"{skills}/",
            False,
        )
    real = request.getfixturevalue("smollm2_tokenizer")
    return (
        cache(partial(Renderer, real, style=style, template=f"alfworld_{style}", action_format="tags")),
        Wording(),
        f"{skills}/",
        True,
    )


def played(renderer, member, actions, success):
    turns: list[Turn] = []
    for action in actions:
        prompt = renderer.prompt(TASK, turns, Observed(SAW, ("look", "take key", "put key")))
        ids = renderer.action_ids(action)
        parsed = (parse_plain if renderer.action_format == "plain" else parse_tags)(renderer.text(ids))
        turns.append(
            Turn(prompt.ids, tuple(ids), (), renderer.text(ids), action, renderer.spans(ids, parsed), SAW,
                 "nothing happens .", 0.0, 0.0, "stop", prompt.hint_at)
        )  # fmt: skip
    return Episode(TASK, tuple(turns), Outcome(success, float(success), success, not success), 0, member)


def hints(wording, skills):
    replay = PeerHint(wording=wording, fallback="replay_buffer")
    return {
        "peer": PeerHint(wording=wording), "replay": replay, "skill": SkillHint(skills, wording=wording),
        "outcome": OutcomeHint(wording=wording), "contrast": ContrastHint(wording=wording),
    }  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_every_hint_leaves_the_students_ids_as_they_are(setting, place):
    make, wording, skills, real = setting
    renderer = make(place=place)
    group = EpisodeGroup(
        TASK, (played(renderer, 0, ["look", "look"], False), played(renderer, 1, ["take key", "put key"], True))
    )
    for name, hint in hints(wording, skills).items():
        if name == "replay":
            hint.memory.remember([group.episodes[1]])
            group = EpisodeGroup(TASK, (group.episodes[0], replace(group.episodes[0], member=1)))
        elif name == "skill":
            group = EpisodeGroup(TASK, (group.episodes[0], played(renderer, 1, ["take key", "put key"], True)))
        rows = collate([group], Teaching(), hint, renderer.tokenize).rows
        batch = to_batch(
            rows, pad_id=renderer.pad_id, update=Update(tokens=1, sequences=1), policy_version=0, with_teacher=True
        )
        shown = [i for i, row in enumerate(rows) if row.hint is not None]
        assert shown, name
        for i in shown:
            row = rows[i]
            teacher = batch.teacher_token_ids[i][batch.teacher_attention[i]].tolist()
            assert teacher == [*row.token_ids[: row.hint_at], *row.hint, *row.token_ids[row.hint_at :]], name
            tail = len(row) - row.hint_at
            assert teacher[len(teacher) - tail :] == row.token_ids[row.hint_at :]
            before, after = (
                renderer.decode(part) for part in (row.token_ids[: row.hint_at], row.token_ids[row.hint_at :])
            )
            if place == "before_chat_template":
                assert before == ""
            elif place == "user_top":
                assert before.endswith("<|im_start|>user\n" if real else "<|obs|>")
            elif place == "assistant_prefix":
                assert before.endswith("<|im_start|>assistant\n" if real else "<|act|>")
                assert after.startswith("<think>" if real else ("look", "take key", "take"))
            elif not real:
                assert before.endswith("<|obs|>")
            else:
                assert before.endswith("'put key']\n\n")


def test_the_place_moves_the_cut_and_never_the_words(setting):
    make, *_ = setting
    asked = TASK, [], Observed(SAW, ("look",))
    texts = {make(place=place).decode(make(place=place).prompt(*asked).ids) for place in PLACES}
    assert len(texts) == 1
