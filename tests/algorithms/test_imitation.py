"""Imitation: which tokens count, how much, and that nothing else does."""

from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.imitation import Imitation
from sharpo.batch import Batch, PolicyOutput, Scores, Update
from sharpo.errors import ConfigError

# columns: first token, context, expert's action, noise (sampled, not trained), context, action, padding
LOGP = torch.tensor([[-9.0, -1.0, -2.0, -7.0, -3.0, -4.0, -8.0]])
MASK = torch.tensor([[False, False, True, False, False, True, False]])


UPDATE = Update(tokens=2, sequences=1)


def toy_batch(mask=MASK, update=UPDATE):
    return Batch(
        token_ids=torch.zeros(1, 7, dtype=torch.int64),
        attention=torch.tensor([[True] * 6 + [False]]),
        action_mask=mask,
        span_mask=mask,
        segment_index=torch.tensor([[-1, -1, 0, 1, -1, 2, -1]]),
        behaviour_logp=torch.full((1, 7), float("nan")),
        update=update,
        policy_version=0,
    )


SCORES = Scores(torch.full((1, 7), float("nan")))


def test_actions_and_context(assert_golden):
    # actions 2 + 4 = 6, context 1 + 3 = 4: (6 + 0.5*4)/2 = 4
    logp = LOGP.clone().requires_grad_()
    out = Imitation().objective(PolicyOutput(logp), SCORES, toy_batch())
    assert_golden(out.loss, 4.0)
    assert_golden(out.metrics["nll"], 3.0)
    assert_golden(out.metrics["context_nll"], 2.0)
    (gradient,) = torch.autograd.grad(out.loss, logp)
    assert_golden(gradient, [[0.0, -0.25, -0.5, 0.0, -0.25, -0.5, 0.0]])


def test_actions_alone(assert_golden):
    algorithm = Imitation(context_weight=0.0)
    assert not algorithm.scores_context
    logp = LOGP.where(MASK, torch.tensor(float("nan")))  # context is not scored then
    out = algorithm.objective(PolicyOutput(logp), SCORES, toy_batch())
    assert_golden(out.loss, 3.0)
    assert_golden(out.metrics["context_nll"], 0.0)


def test_a_row_without_trained_tokens_weighs_nothing():
    out = Imitation().objective(PolicyOutput(LOGP), SCORES, toy_batch(torch.zeros_like(MASK)))
    assert out.loss.item() == 0.0


def test_unread_log_probabilities_may_be_nan(assert_golden):
    logp = LOGP.clone()
    logp[0, [0, 3, 6]] = float("nan")
    assert_golden(Imitation().objective(PolicyOutput(logp), SCORES, toy_batch()).loss, 4.0)


def test_left_padding_moves_the_first_token(assert_golden):
    batch = toy_batch()
    attention = batch.attention.clone()
    attention[0, 0] = False  # now column 1 is the first token and has no log-probability
    out = Imitation().objective(PolicyOutput(LOGP), SCORES, replace(batch, attention=attention))
    assert_golden(out.loss, (6 + 0.5 * 3) / 2)


def test_micro_batches_share_the_count(assert_golden):
    update = Update(tokens=4, sequences=2, averaging=2)
    out = Imitation().objective(PolicyOutput(LOGP), SCORES, toy_batch(update=update))
    assert_golden(out.loss, 4.0)  # 8/4 * 2; the trainer's mean over the two gives back 8/4 of each
    assert_golden(out.metrics["nll"], 1.5)


def test_it_compares_with_nothing(toys):
    algorithm = Imitation()
    assert not algorithm.needs_scores
    assert not algorithm.needs_teacher
    assert algorithm.scores_context
    assert Imitation(hinted_share=0.3).hinted_share == 0.3
    assert torch.equal(algorithm.base_advantages(toys.group([(0.0, 0.0)], [(1.0, 0.0)] * 2)), torch.ones(3))


@pytest.mark.parametrize(("name", "value"), [("context_weight", -0.1), ("hinted_share", 1.5)])
def test_wrong_knobs_name_themselves(name, value):
    with pytest.raises(ConfigError, match=f"algorithm.{name}.*{value}"):
        Imitation(**{name: value})
