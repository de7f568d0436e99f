"""GRPO+OPSD: the form of the public code has no teacher in its gradient, ours has."""

import torch

from sharpo.algorithms.grpo_opsd import GrpoOpsd

LOGP, TEACHER = [-1.0, -0.5, -2.0], [-0.8, -0.9, -2.0]


def gradient(algorithm, toys, teacher):
    batch, scores, output = toys.taught(LOGP, teacher)
    out = algorithm.objective(output, scores, batch)
    return out, torch.autograd.grad(out.loss, output.logp)[0]


def test_t_opsd_1_with_a_teacher_in_the_gradient(toys, assert_golden):
    # coef 0.01 * -[0.2, -0.4, 0]/3, times 100 to keep the digits
    out, slope = gradient(GrpoOpsd(policy_loss=toys.plain), toys, TEACHER)
    assert_golden(100 * slope[0], [0.0, -0.2 / 3, 0.4 / 3, 0.0, 0.0])
    assert_golden(out.metrics["teacher_gap"], -0.2 / 3)


def test_t_opsd_1_of_the_public_code(toys, assert_golden):
    # 0.5 (0.2 - 0.4)/3 = -0.0333, gradient -0.1667 on each token, both times 0.01
    out, slope = gradient(GrpoOpsd(policy_loss=toys.plain, loss="repo_surrogate"), toys, TEACHER)
    assert_golden(100 * out.loss.detach(), -0.0333, printed_decimals=4)
    assert_golden(100 * slope[0], [0.0, -0.1667, -0.1667, -0.1667, 0.0], printed_decimals=4)


def test_another_teacher_changes_the_gradient_of_one_form_only(toys):
    other = [-5.0, -0.1, -1.0]
    for loss, differs in (("sampled_pg", True), ("repo_surrogate", False)):
        algorithm = GrpoOpsd(policy_loss=toys.plain, loss=loss)
        slopes = [gradient(algorithm, toys, teacher)[1] for teacher in (TEACHER, other)]
        assert torch.equal(*slopes) != differs
