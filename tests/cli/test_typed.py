"""A value of a wrong type is one message before anything is built: the field, the type, the value."""

import subprocess

import pytest

from sharpo import cli, typed
from sharpo.errors import ConfigError


def refused(*arguments):
    with pytest.raises(ConfigError) as caught:
        cli.Parts(cli.read("train", ["model=tiny", *arguments]))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.sizes.groups=abc", "data.sizes.groups must be a whole number, got 'abc'"),
        ("data.sizes.groups=2.5", "data.sizes.groups must be a whole number, got 2.5"),
        ("data.sizes.group_size=null", "data.sizes.group_size must be a whole number, got None"),
        ("data.budgets.turn_tokens=abc", "data.budgets.turn_tokens must be a whole number"),
        ("data.pool.workers=abc", "data.pool.workers must be a whole number"),
        ("algorithm.lam=abc", "algorithm.lam must be a number, got 'abc'"),
        ("policy_loss.clip_low=abc", "policy_loss.clip_low must be a number"),
        ("policy_loss.kl_coef=nan", "policy_loss.kl_coef must be a number, got nan"),
        ("optimizer.lr=abc", "optimizer.lr must be a number"),
        ("optimizer.betas=[1]", "optimizer.betas must be a list of 2"),
        ("trainer.max_epochs=abc", "trainer.max_epochs must be a whole number or null"),
        ("trainer.accumulate_grad_batches=abc", "trainer.accumulate_grad_batches must be a whole number"),
        ("env.max_turns=abc", "env.max_turns must be a whole number"),
        ("env.object_types=Apple", "env.object_types must be a list or null, got 'Apple'"),
        ("engine.max_context=abc", "engine.max_context must be a whole number"),
        ("engine.dtype=float99", "engine.dtype must be float32, bfloat16 or auto, got 'float99'"),
        ("panel.val.tasks=abc", "panel.val.tasks must be a whole number or null"),
        ("gate.max_abs=abc", "gate.max_abs must be a number"),
        ("model.init=foo", "model.init must be pretrained or random, got 'foo'"),
        ("model.path.width=abc", "model.path.width must be a whole number"),
        ("hint.wording=3", "hint.wording must be"),
        ("model._target_=foo", "model._target_=foo cannot be imported"),
    ],
)
def test_a_value_of_a_wrong_type(setting, message):
    assert message in refused(setting)


def test_hints_that_only_a_type_checker_sees_are_not_judged():
    typed.check({"part": {"_target_": f"{subprocess.__name__}.run", "input": 3, "check": "x"}})
