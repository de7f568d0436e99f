"""RolloutBuffer: every row once a pass, exact counts over ranks, scores and advantages back in their places."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
import torch

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Scores
from sharpo.engine.expert import ExpertEngine
from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.protocols import Hint
from sharpo.rollout.buffer import Origin, RolloutBuffer, Sizes
from sharpo.rollout.collate import collate


@dataclass(frozen=True, kw_only=True)
class Method(Algorithm):
    """Teacher wanted; the base advantage is zero."""

    @property
    def needs_teacher(self):
        return True

    def base_advantages(self, group):
        return torch.zeros(sum(len(e.turns) for e in group.episodes))


class EvenHint:
    """A hint for members with an even number."""

    def build(self, group, member, tokenize, room=None):
        return Hint((5, 6), "even") if member % 2 == 0 else None


@pytest.fixture
def collated(play, toy_renderer):
    def build(tasks=3, members=3):
        result = play(tasks, members, engine=ExpertEngine(noise=0.4))
        groups = [EpisodeGroup(episodes[0].task, tuple(episodes)) for episodes in result.groups]
        return collate(groups, Method(), EvenHint(), toy_renderer.tokenize)

    return build


def make(collated, micro_rows=2, micro_batches=2, passes=2, world=1, seed=0, iteration=0, score_rows=None, **more):
    sizes = Sizes(3, 3, micro_rows, passes, score_rows)
    return RolloutBuffer(collated, sizes, micro_batches, Origin(seed, iteration, 7, 0, world), {}, **more)


def shown(buffer, start=0, stop=None):
    """The token rows of a range of items, without padding."""
    out = []
    for i in range(start, len(buffer) if stop is None else stop):
        batch, _ = buffer[i]
        out += [tuple(row[kept].tolist()) for row, kept in zip(batch.token_ids, batch.attention, strict=True)]
    return out


def test_every_pass_shows_every_row_once_in_an_order_of_its_own(collated):
    data = collated()
    buffer = make(data)
    assert (buffer.updates, len(buffer)) == (3, 12)  # ceil(9 rows / (2 rows x 2 micro-batches)), two passes
    rows = Counter(tuple(row.token_ids) for row in data.rows)
    first, second = shown(buffer, 0, 6), shown(buffer, 6, 12)
    assert Counter(r for r in first if len(r) > 1) == Counter(r for r in second if len(r) > 1) == rows
    assert first != second
    assert shown(make(data)) == first + second
    assert shown(make(data, seed=1)) != first + second
    assert shown(make(data, iteration=1)) != first + second
    with pytest.raises(IndexError):
        buffer[12]


def test_update_counts_are_exact_over_micro_batches(collated):
    buffer = make(collated())
    for update in range(len(buffer) // 2):
        batches = [buffer[2 * update + m][0] for m in range(2)]
        assert {b.update.tokens for b in batches} == {sum(int(b.action_mask.sum()) for b in batches)}
        assert {b.update.sequences for b in batches} == {sum(int(b.action_mask.any(1).sum()) for b in batches)}
        assert {b.update.averaging for b in batches} == {2}
        assert all(b.token_ids.shape[1] == int(b.attention.sum(1).max()) for b in batches)


def test_two_ranks_make_the_same_number_of_updates_and_share_their_counts(collated):
    many, few = collated(3, 3), collated(1, 3)  # 9 and 3 rows
    local = {}

    def build(rank, others):
        def reduce(x, how):
            local.setdefault(rank, []).append(x.clone())
            step = len(local[rank]) - 1
            if others is None:
                return torch.tensor([9]) if how == "max" else x
            return torch.maximum(x, others[step]) if how == "max" else x + others[step]

        return make(few if rank else many, world=2, reduce=reduce)

    build(0, None)
    build(1, None)  # first round: note what each rank gives
    given = {rank: list(values) for rank, values in local.items()}
    local.clear()
    buffers = [build(0, given[1]), build(1, given[0])]
    assert len(buffers[0]) == len(buffers[1]) == 12
    for i in range(12):
        one, two = buffers[0][i][0].update, buffers[1][i][0].update
        assert one == two
        assert one.averaging == 4
    for update in range(6):
        seen = sum(int(b[2 * update + m][0].action_mask.sum()) for b in buffers for m in range(2))
        assert buffers[0][2 * update][0].update.tokens == seen
    padded = [buffers[1][i][0] for i in range(6)]
    assert any(not batch.action_mask.any() and batch.token_ids.numel() == 1 for batch in padded)


def test_score_batches_hold_every_row_once_sorted_by_length_with_teachers_where_hinted(collated):
    data = collated()
    batches = make(data, score_rows=4).score_batches()
    assert [len(b.token_ids) for b in batches] == [4, 4, 1]
    rows = [tuple(r[a].tolist()) for b in batches for r, a in zip(b.token_ids, b.attention, strict=True)]
    assert Counter(rows) == Counter(tuple(row.token_ids) for row in data.rows)
    taught = sum(int(b.teacher_attention.any(1).sum()) for b in batches if b.teacher_attention is not None)
    assert taught == 6
    lengths = []
    for b in batches:
        own = b.attention.sum(1)
        lengths += (own if b.teacher_attention is None else own.maximum(b.teacher_attention.sum(1))).tolist()
    assert lengths == sorted(row.teacher_length for row in data.rows)
    assert all(b.teacher_token_ids is None for b in make(data, with_teacher=False).score_batches())


def test_scores_and_advantages_come_back_beside_their_own_tokens(collated):
    buffer = make(collated(), score_rows=4)
    batch, scores = buffer[0]
    assert batch.advantages is None
    assert scores.old_logp.isnan().all()
    for i, scored in enumerate(buffer.score_batches()):
        value = scored.token_ids.float()  # each token's own number, to recognise it again
        buffer.set_scores(i, Scores(value, value + 0.5))
        buffer.set_advantages(i, value * 2)
    for i in range(len(buffer)):
        batch, scores = buffer[i]
        if not batch.action_mask.any():
            continue
        kept = batch.attention
        value = batch.token_ids[kept].float()
        assert batch.advantages is not None
        assert scores.teacher_logp is not None
        assert torch.equal(scores.old_logp[kept], value)
        assert torch.equal(scores.teacher_logp[kept], value + 0.5)
        assert torch.equal(batch.advantages[kept], value * 2)
        assert scores.reference_logp is None
        assert batch.policy_version == 7


def test_scores_of_another_shape_and_another_table_are_refused(collated):
    buffer = make(collated())
    with pytest.raises(ValueError, match="scoring batch 0 has shape"):
        buffer.set_advantages(0, torch.zeros(1, 1))
    with pytest.raises(ValueError, match="segments"):
        buffer.set_segments(collated(1, 3).segments)


def test_sizes_that_cannot_work_name_their_field():
    with pytest.raises(ConfigError, match="group_size=1"):
        Sizes(2, 1)
    with pytest.raises(ConfigError, match=r"data.sizes.passes must be >= 1"):
        Sizes(2, 2, passes=0)
