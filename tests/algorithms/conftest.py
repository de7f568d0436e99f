"""Small groups, tables and batches made by hand for the algorithm tests."""

from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.batch import Batch, PolicyOutput, Scores, Update
from sharpo.episode import Episode, EpisodeGroup, Outcome, Task, Turn
from sharpo.segments import Segments


def make_turn(reward=0.0, penalty=0.0):
    return Turn(
        prompt_ids=(1, 2), action_ids=(3, 4), action_logp=(-0.1, -0.2), text="go", action="go",
        spans={"action": (0, 1)}, observation="", next_observation="", reward=reward, penalty=penalty, finish="stop",
        hint_at=1,
    )  # fmt: skip


def make_group(*episodes):
    """Each episode is a list of (reward, penalty), one for each turn."""
    task = Task(id="toy/1", family="pick", instruction="", seed=0)
    built = []
    for member, turns in enumerate(episodes):
        won = sum(reward for reward, _ in turns) > 0
        outcome = Outcome(success=won, score=float(won), terminated=won, truncated=not won)
        built.append(Episode(task, tuple(make_turn(*turn) for turn in turns), outcome, policy_version=0, member=member))
    return EpisodeGroup(task, tuple(built))


def make_segments(gap, base, length, *, episode=None, group=None, success=None, selected=None):
    """A scored table from mean gaps: student sums are 0, teacher sums are gap * length."""
    s = len(gap)
    length = torch.tensor(length)
    episode = torch.zeros(s, dtype=torch.int64) if episode is None else torch.tensor(episode)
    selected = torch.ones(s, dtype=torch.bool) if selected is None else torch.tensor(selected)
    return Segments(
        group=torch.zeros(s, dtype=torch.int64) if group is None else torch.tensor(group),
        episode=episode,
        turn=torch.arange(s),
        length=length,
        success=torch.zeros(s, dtype=torch.bool) if success is None else torch.tensor(success),
        episode_return=torch.zeros(s) if success is None else torch.tensor(success).float(),
        hinted=selected,
        base=torch.tensor(base),
        selected=selected,
        student_logp=torch.zeros(s),
        teacher_logp=torch.where(selected, torch.tensor(gap) * length, torch.full((s,), float("nan"))),
    )


def random_problem(seed=0):
    """A scored table and a batch over it, with every kind of token: padding, context, thinking, span, untrained."""
    rows, width, segments = 4, 9, 6
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator)

    selected = [True, True, False, True, True, False]
    table = make_segments(
        torch.randn(segments, generator=generator).tolist(),
        torch.randn(segments, generator=generator).tolist(),
        torch.randint(1, 9, (segments,), generator=generator).tolist(),
        episode=[0, 0, 0, 1, 1, 2],
        selected=selected,
        success=[False, False, False, True, True, False],
    )
    attention = torch.ones(rows, width, dtype=torch.bool)
    attention[1, 6:] = False
    index = torch.where(uniform(rows, width) < 0.6, torch.randint(0, segments, (rows, width), generator=generator), -1)
    index = index.where(attention, torch.tensor(-1))
    index[:, 0] = -1
    mask = (index >= 0) & (uniform(rows, width) < 0.8)
    batch = Batch(
        token_ids=torch.randint(0, 50, (rows, width), generator=generator),
        attention=attention,
        action_mask=mask,
        span_mask=mask & (uniform(rows, width) < 0.6),
        segment_index=index,
        behaviour_logp=-uniform(rows, width),
        update=Update(tokens=int(mask.sum()), sequences=int(mask.any(1).sum())),
        policy_version=0,
    )
    scores = Scores(
        old_logp=-uniform(rows, width), teacher_logp=-uniform(rows, width), reference_logp=-uniform(rows, width)
    )
    logp = (scores.old_logp + 0.3 * torch.randn(rows, width, generator=generator)).requires_grad_()
    hinted = torch.ones(rows, width + 2, dtype=torch.bool)
    hinted[2] = False
    batch = replace(batch, teacher_token_ids=hinted.long(), teacher_attention=hinted)
    return table, batch, scores, PolicyOutput(logp, uniform(rows, width), some_divergence(logp, mask))


def some_divergence(logp, mask, outside=0.0):
    """A stand-in for the divergence from a teacher, with a gradient to the policy's log-probabilities."""
    return torch.where(mask, torch.where(mask, logp, 0.0).square(), outside)


def make_tokens(gaps, base, *, selected=None, **columns):
    """A scored table and a batch with one row for each segment: a context token, then the tokens of its span.

    ``gaps[k]`` are the gaps of the tokens of segment k; the teacher has not read rows of segments not selected.
    """
    length = [len(g) for g in gaps]
    table = make_segments([sum(g) / len(g) for g in gaps], base, length, selected=selected, **columns)
    rows, width = len(gaps), max(length) + 1
    mask = torch.arange(width)[None] <= torch.tensor(length)[:, None]
    gap = torch.tensor([[0.0, *g, *[0.0] * (width - 1 - len(g))] for g in gaps])
    attention = mask.clone()
    mask[:, 0] = False
    student = torch.full((rows, width), -1.0)
    batch = Batch(
        token_ids=torch.zeros(rows, width, dtype=torch.int64), attention=attention, action_mask=mask,
        span_mask=mask.clone(), segment_index=torch.where(mask, torch.arange(rows)[:, None], -1),
        behaviour_logp=student, update=Update(int(mask.sum()), rows), policy_version=0,
    )  # fmt: skip
    teacher = torch.where(table.selected[:, None], student + gap, torch.tensor(float("nan")))
    return table, batch, Scores(student, teacher)


def credited(batch, scores, table, algorithm, iteration=0):
    """Run the stages up to the update."""
    credit = algorithm.credit(table, iteration)
    return replace(batch, advantages=algorithm.advantages([batch], [scores], table, credit, iteration)[0])


def taught_problem(logp, teacher, *, old=None, poison=float("nan")):
    """A row with a hint (prompt, the given action tokens, padding) and a row without one, whose action is one token.

    ``Batch.update`` counts the hinted row's tokens only, so that a mean is the mean over them.
    """
    n = len(logp)
    mask = torch.zeros(2, n + 2, dtype=torch.bool)
    mask[0, 1 : n + 1] = mask[1, 1] = True
    attention = mask.clone()
    attention[:, 0] = True

    def grid(values, other):
        out = torch.full((2, n + 2), poison)
        out[0, 1 : n + 1], out[1, 1] = torch.as_tensor(values), other
        return out

    batch = Batch(
        token_ids=torch.zeros(2, n + 2, dtype=torch.int64),
        attention=attention,
        action_mask=mask,
        span_mask=mask,
        segment_index=torch.where(mask, torch.tensor([[0], [1]]), -1),
        behaviour_logp=torch.full((2, n + 2), poison),
        update=Update(tokens=n, sequences=2),
        policy_version=0,
        advantages=grid([0.0] * n, 0.0),
    )
    scores = Scores(grid(logp if old is None else old, -1.0), grid(teacher, float("nan")))
    return batch, scores, PolicyOutput(grid(logp, -1.0).requires_grad_())


@pytest.fixture
def toys():
    """The builders of this file as attributes."""

    class Toys:
        group = staticmethod(make_group)
        segments = staticmethod(make_segments)
        problem = staticmethod(random_problem)
        tokens = staticmethod(make_tokens)
        credited = staticmethod(credited)
        taught = staticmethod(taught_problem)
        divergence = staticmethod(some_divergence)
        plain = PolicyLoss()

    return Toys
