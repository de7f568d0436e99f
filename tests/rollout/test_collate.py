"""Collate: exact-prefix merging, spans and segments, hints spliced for the teacher or the student, batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from toy_env import ToyEnv

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Update
from sharpo.engine.expert import ExpertEngine
from sharpo.engine.scripted import ScriptedEngine
from sharpo.episode import EpisodeGroup
from sharpo.errors import DataError
from sharpo.hints.none import NoHint
from sharpo.hints.peer import PeerHint
from sharpo.protocols import Hint
from sharpo.rollout.collate import collate, rows_of, to_batch, turn_span
from sharpo.rollout.render import Renderer


@dataclass(frozen=True, kw_only=True)
class Method(Algorithm):
    """Base advantage: the episode's return minus a half."""

    teach: bool = True
    share: float = 0.0
    part: str = "action"

    @property
    def needs_teacher(self):
        return self.teach

    @property
    def hinted_share(self):
        return self.share

    @property
    def span(self):
        return self.part

    def base_advantages(self, group):
        return torch.tensor([e.episode_return - 0.5 for e in group.episodes for _ in e.turns])


class FixedHint:
    """The same hint for every member but those left out."""

    def __init__(self, ids=(5, 6, 7), without=()):
        self.ids, self.without = ids, without

    def build(self, group, member, tokenize, room=None):
        return None if member in self.without else Hint(tuple(self.ids), "fixed")


def groups_of(result):
    return [EpisodeGroup(episodes[0].task, tuple(episodes)) for episodes in result.groups]


@pytest.fixture
def groups(play):
    return groups_of(play(3, 4, engine=ExpertEngine(noise=0.4)))


def make(groups, renderer, algorithm=None, hints=None, **more):
    return collate(groups, algorithm or Method(), hints or FixedHint(), renderer.tokenize, **more)


def batch_of(collated, with_teacher=True):
    return to_batch(collated.rows, pad_id=0, update=Update(1, 1), policy_version=0, with_teacher=with_teacher)


def test_append_episodes_are_one_row_each_and_hold_the_whole_conversation(groups, toy_renderer):
    collated = make(groups, toy_renderer)
    episodes = [e for group in groups for e in group.episodes]
    assert len(collated.rows) == len(episodes) == 12
    for row, episode in zip(collated.rows, episodes, strict=True):
        last = episode.turns[-1]
        assert row.token_ids == [*last.prompt_ids, *last.action_ids]
        sampled = [i for turn in episode.turns for i in turn.action_ids]
        assert [i for i, flag in zip(row.token_ids, row.action, strict=True) if flag] == sampled
        assert row.trained == sum(row.action)


def test_windowed_episodes_are_one_row_for_each_turn(play, toy_tokenizer):
    windowed = Renderer(toy_tokenizer, style="windowed", template="household_plain", action_format="plain")
    result = play(2, 2, engine=ExpertEngine(), renderer=windowed)
    collated = make(groups_of(result), windowed)
    assert len(collated.rows) == sum(len(e.turns) for group in result.groups for e in group)
    assert {row.hint_at for row in collated.rows} == {1}


def test_a_turn_joins_a_row_only_when_it_extends_it_token_for_token(groups):
    episode = groups[0].episodes[0]
    assert len(rows_of(episode, 0, "action")) == 1
    second = episode.turns[1]
    ids = list(second.prompt_ids)
    ids[2] = ids[2] + 1
    changed = replace(second, prompt_ids=tuple(ids))
    assert len(rows_of(replace(episode, turns=(episode.turns[0], changed)), 0, "action")) == 2
    moved = replace(second, hint_at=second.hint_at + 1)
    assert len(rows_of(replace(episode, turns=(episode.turns[0], moved)), 0, "action")) == 2


@pytest.mark.parametrize("part", ["action", "turn", "think"])
def test_the_table_has_one_row_a_turn_and_its_spans_cover_the_right_tokens(groups, toy_renderer, part):
    collated = make(groups, toy_renderer, Method(part=part))
    batch, table = batch_of(collated), collated.segments
    turns = [turn for group in groups for e in group.episodes for turn in e.turns]
    assert len(table) == len(turns)
    for s, turn in enumerate(turns):
        inside = batch.segment_index == s
        assert tuple(batch.token_ids[inside].tolist()) == turn.action_ids
        start, stop = turn_span(turn, part)
        assert int(table.length[s]) == stop - start == int((inside & batch.span_mask).sum())
        assert bool(table.selected[s]) == (stop > start)
        if part == "action":
            assert stop - start == len(turn.action_ids) - 1  # the stop token is trained but outside the span
    assert not (batch.span_mask & ~batch.action_mask).any()
    assert torch.equal(batch.segment_index >= 0, batch.action_mask)
    assert table.base.unique().tolist() == sorted({e.episode_return - 0.5 for g in groups for e in g.episodes})
    assert table.turn[:3].tolist() == [0, 1, 2]


def test_the_teachers_tail_is_the_students_token_for_token(groups, toy_renderer):
    hints = PeerHint(wording=plain_wording())
    collated = make(groups, toy_renderer, hints=hints)
    batch = batch_of(collated)
    assert batch.teacher_token_ids is not None
    assert batch.teacher_attention is not None
    t = batch.token_ids.shape[1]
    hinted = batch.teacher_attention.any(1)
    assert 0 < int(hinted.sum()) <= len(collated.rows)
    for i, row in enumerate(collated.rows):
        assert bool(hinted[i]) == (row.hint is not None)
        if row.hint is None:
            continue
        tail = slice(-t + row.hint_at, None)
        assert torch.equal(batch.teacher_token_ids[i, tail], batch.token_ids[i, row.hint_at :])
        assert torch.equal(batch.teacher_attention[i, tail], batch.attention[i, row.hint_at :])
        seen = batch.teacher_token_ids[i][batch.teacher_attention[i]].tolist()
        assert seen == row.token_ids[: row.hint_at] + list(row.hint) + row.token_ids[row.hint_at :]
        assert len(seen) == row.teacher_length


def plain_wording():
    from sharpo.hints.attempt import Wording

    return Wording("", "{observation} > {action} ", "> {action} ", "", "")


def test_without_a_peer_nothing_is_selected_and_it_is_counted(play, toy_renderer):
    result = play(2, 3, engine=ScriptedEngine(["look"]), env=ToyEnv(max_turns=2))
    collated = make(groups_of(result), toy_renderer, hints=PeerHint())
    assert not collated.segments.selected.any()
    assert not collated.segments.hinted.any()
    assert (collated.hints["wanted"], collated.hints["built"]) == (6, 0)
    assert batch_of(collated).teacher_token_ids is None


def test_a_row_too_long_with_its_hint_loses_the_hint_and_is_counted(groups, toy_renderer):
    longest = max(len(row) for row in make(groups, toy_renderer, hints=NoHint()).rows)
    collated = make(groups, toy_renderer, max_row=longest + 2)
    lost = [row for row in collated.rows if row.hint is None]
    assert collated.hints["too_long"] == len(lost) > 0
    assert all(len(row) + 3 > longest + 2 for row in lost)
    assert int(collated.segments.hinted.sum()) < len(collated.segments)


def test_a_peer_that_does_not_fit_beside_its_row_is_shortened(play, toy_renderer):
    groups = groups_of(play(1, 2, engine=ExpertEngine()))  # each is the other's peer
    longest = max(len(row) for row in make(groups, toy_renderer, hints=NoHint()).rows)
    wording = plain_wording()
    whole = make(groups, toy_renderer, hints=PeerHint(wording=wording))
    tokens = max(len(row.hint) for row in whole.rows)
    short = make(groups, toy_renderer, hints=PeerHint(wording=wording), max_row=longest + tokens - 1)
    assert short.hints["built"] == whole.hints["built"] == 2
    assert (short.hints["shortened"] > 0, short.hints["too_long"]) == (True, 0)
    assert all(len(row) + len(row.hint) < longest + tokens for row in short.rows)
    none = make(groups, toy_renderer, hints=PeerHint(wording=wording), max_row=longest + 1)
    assert (none.hints["built"], none.hints["too_long"]) == (0, 2)


def test_a_hinted_share_puts_the_hint_into_the_last_members_own_rows(groups, toy_renderer):
    algorithm = Method(teach=False, share=0.5)
    collated = make(groups, toy_renderer, algorithm, FixedHint(without=(3,)))
    plain = make(groups, toy_renderer, Method(teach=False), NoHint())
    assert (collated.hints["wanted"], collated.hints["built"]) == (6, 3)
    for i, (row, bare) in enumerate(zip(collated.rows, plain.rows, strict=True)):
        if i % 4 != 2:
            assert row.token_ids == bare.token_ids
            continue
        at = row.hint_at
        assert row.token_ids == [*bare.token_ids[:at], 5, 6, 7, *bare.token_ids[at:]]
        for name in ("action", "span", "segment"):
            values, before = getattr(row, name), getattr(bare, name)
            assert values == [*before[:at], *([-1] * 3 if name == "segment" else [False] * 3), *before[at:]]
        assert row.hint is None
    assert not collated.segments.hinted.any()


def test_untrainable_turns_are_sampled_but_not_trained(groups, toy_renderer):
    episode = groups[0].episodes[0]
    turns = (replace(episode.turns[0], trainable=False), *episode.turns[1:])
    group = replace(groups[0], episodes=(replace(episode, turns=turns), *groups[0].episodes[1:]))
    collated = make([group], toy_renderer)
    row, first = collated.rows[0], len(turns[0].action_ids)
    assert [s for s, flag in zip(row.segment, row.action, strict=True) if s == 0 and not flag] == [0] * first
    assert not any(flag for s, flag in zip(row.segment, row.span, strict=True) if s == 0)
    assert not collated.segments.selected[0]
    assert collated.rows[0].trained == sum(len(turn.action_ids) for turn in turns[1:])


def test_a_wrong_number_of_base_advantages_is_refused(groups, toy_renderer):
    class Wrong(Method):
        def base_advantages(self, group):
            return torch.zeros(1)

    with pytest.raises(DataError, match="one value for each turn"):
        make(groups, toy_renderer, Wrong())


def test_no_rows_make_one_zero_weight_row_and_behaviour_is_nan_where_unknown(groups, toy_renderer):
    empty = to_batch([], pad_id=3, update=Update(1, 1), policy_version=2, with_teacher=True)
    assert empty.token_ids.tolist() == [[3]]
    assert empty.attention.tolist() == [[True]]
    assert not empty.action_mask.any()
    assert batch_of(make(groups, toy_renderer)).behaviour_logp.isnan().all()
