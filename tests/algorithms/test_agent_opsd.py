"""AgentOPSD: the golden vector, a loop reference, the prior, the order of the turns."""

import math
import statistics
from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.agent_opsd import AgentOpsd
from sharpo.errors import ConfigError
from sharpo.functional.turn_credit import belief_change, success_rate


def _sigmoid(x):
    return 1 / (1 + math.exp(-x))


def _reference_agent_opsd(table, *, lam, width, prior):
    out = table.base.tolist()
    for episode in set(table.episode.tolist()):
        rows = [k for k in range(len(table)) if int(table.episode[k]) == episode]
        rows.sort(key=lambda k: int(table.turn[k]))
        start = prior
        if prior == "success_rate":
            group = [k for k in range(len(table)) if table.group[k] == table.group[rows[0]]]
            wins = {int(table.episode[k]): bool(table.success[k]) for k in group}
            start = min(max(sum(wins.values()), 0.5), len(wins) - 0.5) / len(wins)
        logit, belief, change = math.log(start / (1 - start)), start, {}
        for k in rows:
            if table.selected[k]:
                logit += float(table.teacher_logp[k]) - float(table.student_logp[k])
                change[k] = _sigmoid(logit) - belief
                belief = _sigmoid(logit)
        if not change:
            continue
        mean, std = statistics.mean(change.values()), statistics.pstdev(change.values())
        for k, moved in change.items():
            a = out[k]
            z = (moved - mean) / std if std > 1e-8 else 0.0
            w = min(max(1 + width * math.copysign(1, a) * z, 1 - width), 1 + width)
            out[k] = a * ((1 - lam) + lam * w)
    return torch.tensor(out)


def test_t_aop_1(toys, assert_golden):
    # logits 0.5, 0.3, 1.3; B = [0.6225, 0.5744, 0.7858]; changes from 0.5: [0.1225, -0.0480, 0.2114]
    # mean 0.0953, population std 0.1076; z = [0.2525, -1.3323, 1.0797]; w = clip(1 + 0.2 z, 0.8, 1.2)
    # A_eff = 0.5 + 0.5 w
    evidence, order = torch.tensor([0.5, -0.2, 1.0]), torch.arange(3)
    one = torch.zeros(3, dtype=torch.int64)
    changes = belief_change(evidence, torch.full((3,), 0.5), one, order)
    assert_golden(changes, [0.1225, -0.0480, 0.2114], printed_decimals=4)
    assert_golden(0.5 + changes.cumsum(0), [0.6225, 0.5744, 0.7858], printed_decimals=4)
    table = toys.segments([0.5 / 2, -0.2 / 4, 1.0 / 5], [1.0] * 3, [2, 4, 5])  # gaps of a token; the turn's is read
    algorithm = AgentOpsd(policy_loss=toys.plain)
    assert_golden(algorithm.credit(table, 0), [1.0253, 0.9, 1.1], printed_decimals=4)
    full = replace(algorithm, lam=1.0).credit(table, 0)
    assert_golden(full, [1.0505, 0.8, 1.2], printed_decimals=4)
    # A = -1: 1 - 0.2 z = [0.9495, 1.2665 -> 1.2, 0.7841 -> 0.8]; mixed half and half
    lost = algorithm.credit(replace(table, base=-table.base), 0)
    assert_golden(lost, [-0.9747, -1.1, -0.9], printed_decimals=4)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("prior", [0.5, 0.2, "success_rate"])
def test_agrees_with_the_loops(seed, prior, toys):
    g = torch.Generator().manual_seed(seed)
    table = toys.segments(
        torch.randn(9, generator=g).tolist(), torch.randn(9, generator=g).tolist(),
        torch.randint(1, 4, (9,), generator=g).tolist(), episode=[0, 0, 0, 1, 1, 2, 2, 3, 3],
        group=[0, 0, 0, 0, 0, 0, 0, 1, 1], selected=[True, True, True, True, False, True, True, True, True],
        success=[False, False, False, True, True, True, True, False, False],
    )  # fmt: skip
    table = replace(table, turn=torch.tensor([2, 0, 1, 0, 1, 1, 0, 0, 1]))
    effective = AgentOpsd(policy_loss=toys.plain, prior=prior, width=0.7, lam=0.9).credit(table, 0)
    expected = _reference_agent_opsd(table, lam=0.9, width=0.7, prior=prior)
    torch.testing.assert_close(effective, expected, rtol=1e-4, atol=1e-5)


def test_the_belief_follows_the_turns_not_the_rows(assert_golden):
    episode, turn = torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 0, 0])
    evidence = torch.tensor([1.0, 5.0, -2.0, 0.0])
    changes = belief_change(evidence, torch.full((4,), 0.5), episode, turn)
    # episode 1: -2 then +1: 0.1192 - 0.5, then 0.2689 - 0.1192; episode 0: 0, then 0.9933 - 0.5
    assert_golden(changes, [0.1497, 0.4933, -0.3808, 0.0], printed_decimals=4)
    assert changes[3].item() == 0.0


def test_the_success_rate_counts_episodes_and_is_never_certain(assert_golden):
    success = torch.tensor([True, True, True, False, False, False])
    episode = torch.tensor([0, 0, 0, 1, 2, 3])
    assert_golden(success_rate(success, episode, torch.tensor([0, 0, 0, 0, 1, 1])), [0.5] * 4 + [0.25] * 2)
    assert_golden(success_rate(success | True, episode, torch.zeros(6, dtype=torch.int64)), [0.875] * 6)


def test_the_report_has_the_weights(toys, assert_golden):
    table = toys.segments([0.5, -0.2, 1.0], [1.0] * 3, [1] * 3)
    algorithm = AgentOpsd(policy_loss=toys.plain)
    report = algorithm.report(table, algorithm.credit(table, 0))
    assert_golden(report["weight_mean"], 1.0168, printed_decimals=4)  # (1.0505 + 0.8 + 1.2)/3
    assert report["selected_share"].item() == 1.0


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"span": "word"}, "algorithm.span must be one of action"),
        ({"select": "all"}, "algorithm.select must be one of"),
        ({"width": 0.0}, r"algorithm.width must be in \(0, 1\]"),
        ({"width": 1.5}, r"algorithm.width must be in \(0, 1\]"),
        ({"prior": 1.0}, r"algorithm.prior must be a number in \(0, 1\) or success_rate; got 1.0"),
        ({"prior": "rate"}, "algorithm.prior must be a number .* got 'rate'"),
    ],
)
def test_wrong_knobs_name_themselves(knobs, message, toys):
    with pytest.raises(ConfigError, match=message):
        AgentOpsd(policy_loss=toys.plain, **knobs)
