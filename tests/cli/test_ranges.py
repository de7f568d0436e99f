"""Every number of every part has a range, and leaving it is one message before anything is built, a plan included."""

import typing
from pathlib import Path

import pytest
import yaml
from sharpo.envs.searchqa import SearchQA

from sharpo import checks, cli, ranges, typed
from sharpo.errors import ConfigError, SharpoError
from sharpo.rollout.draw import WorkerDraw
from sharpo.rollout.panel import Panel

CONFIGS = Path(cli.__file__).resolve().parents[1] / "configs"
OTHERS = ("lightning.", "torch.")  # not ours: they check themselves
ANY = {"seed", "threshold"}  # numbers that may be anything finite
EARLY = ("sharpo.algorithms.", "sharpo.envs.", "sharpo.hints.", "sharpo.rollout.buffer.", "sharpo.rollout.draw.",
         "sharpo.rollout.panel.", "sharpo.rollout.play.")  # fmt: skip


def refused(*arguments):
    with pytest.raises(SharpoError) as caught:
        cli.Parts(cli.read("train", ["model=tiny", *arguments]))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.pool.workers=0"], "data.pool.workers=0: must be at least 1"),
        (["data.pool.step_timeout_s=0"], "data.pool.step_timeout_s=0: must be above 0"),
        (["model.chunk_tokens=0"], "model.chunk_tokens=0: must be at least 1"),
        (["model.path.layers=0"], "model.path.layers=0: must be at least 1"),
        (["model.path.max_positions=-1"], "model.path.max_positions=-1: must be at least 1"),
        (["engine.max_sequences=0"], "engine.max_sequences=0: must be at least 1"),
        (["engine.gpu_memory_utilization=1.5"], "engine.gpu_memory_utilization=1.5: must be above 0 and at most 1"),
        (["engine=hf", "engine.max_context=0"], "engine.max_context=0: must be at least 1"),
        (["engine=expert", "algorithm=imitation", "engine.noise=2"], "engine.noise=2: must be at least 0 and at most"),
        (["prompt.history=-1"], "prompt.history=-1: must be at least 0"),
        (["prompt.most_chars=0"], "prompt.most_chars=0: must be at least 1"),
        (["gate.max_abs=0"], "gate.max_abs=0: must be above 0"),
        (["callbacks.last.every=0"], "callbacks.last.every=0: must be at least 1"),
        (["callbacks.episodes.episodes=-1"], "callbacks.episodes.episodes=-1: must be at least 0"),
        (["callbacks.credit.rows=-1"], "callbacks.credit.rows=-1: must be at least 0"),
        (["experiment=household_warmstart", "schedule.floor=2"], "schedule.floor=2: must be at least 0 and at most 1"),
        (["optimizer=muon_adamw", "optimizer.momentum=1"], "optimizer.momentum=1: must be at least 0 and below 1"),
        (["policy_loss.kl_coef=inf"], "policy_loss.kl_coef=inf: must be a finite number"),
        (["algorithm.bound.tau=inf"], "algorithm.bound.tau=inf: must be a finite number"),
        (["temperature=0"], "temperature=0: must be above 0; greedy play is a panel's temperature=0"),
        (["teacher=old"], "teacher='old' must be shared"),
        (["env.object_types=[]"], "env.object_types=[] allows no task of the families pick, look"),
        (["env.object_types=[Pen]"], "allows no task of the families clean, heat, cool"),
        (["swept=abc"], "swept='abc': a run logs numbers such as val/success/all"),
        (
            ["swept=val_other/success/all"],
            "their groups are train, rollout, credit, gate, time, throughput, val, val",
        ),
        (["trainer.limit_train_batches=0.5"], "trainer.limit_train_batches=0.5: an iteration is collected, trained on"),
        (["trainer.max_steps=3"], "trainer.max_steps=3: an iteration is collected"),
        (["trainer.fast_dev_run=true"], "use trainer.max_epochs and data.sizes, or debug=fast for a quick check"),
        (["trainer.limit_val_batches=0.5"], "trainer.limit_val_batches=0.5: an iteration"),
        (["callbacks.best.monitor=abc"], "callbacks.best.monitor='abc': a run logs numbers such as val/success/all"),
        (["callbacks.best=monitor"], "callbacks.best=monitor: the chosen group has no such part; null leaves one out"),
        (["++callbacks.mine.every=1"], "callbacks.mine={'every': 1}: the chosen group has no such part"),
        (["~callbacks.success"], "callbacks.curve and callbacks.best read what it counts; remove them too"),
        (["panel.val.split=foo"], "split 'foo': Household has no such split, it has train, val"),
        (["model.dtype=foo"], "model.dtype must be float32 or bfloat16, got 'foo'"),
        (["model.attention=foo"], "model.attention must be sdpa, eager, flash_attention_2"),
        (["trainer.val_check_interval=2"], "trainer.val_check_interval=2: an iteration"),
        (["algorithm=scpo", "algorithm.similarity=3"], "algorithm.similarity must be a Similarity, got 3"),
    ],
)
def test_what_a_plan_refuses_too(settings, message):
    assert message in refused(*settings, "debug=plan")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["algorithm.bound.alpha=0.1"], "algorithm.bound.alpha=0.1 has no effect without another bound.kind"),
        (["algorithm.bound.kind=zscore_clip", "algorithm.bound.tau=2"], "algorithm.bound.tau=2 has no effect"),
        (["algorithm.balance.rule=none", "algorithm.balance.gamma=1"], "algorithm.balance.gamma=1 has no effect"),
        (["algorithm=step_opsd", "algorithm.step_clip=3"], "algorithm.step_clip=3 has no effect without step_norm"),
        (["algorithm=opsd", "algorithm.top_k=9"], "algorithm.top_k=9 has no effect without loss=jsd_topk"),
        (["algorithm=opsd_jsd", "algorithm.gate_beta=1"], "algorithm.gate_beta=1 has no effect without loss=repo_"),
        (["algorithm=opsd_repo", "algorithm.jsd_beta=0.1"], "algorithm.jsd_beta=0.1 has no effect without loss=jsd"),
        (["hint.remember=5"], "hint.remember=5 has no effect without fallback=replay_buffer"),
        (["hint.skills=household"], "hint.skills=household has no effect without fallback=skills"),
    ],
)
def test_a_knob_that_the_choice_beside_it_leaves_unread(settings, message):
    assert message in refused(*settings, "debug=plan")


def test_a_knob_of_a_late_part_that_is_not_read(toy_tokenizer, tmp_path):
    from sharpo.policy.causal_lm import CausalPolicy
    from sharpo.rollout.render import Renderer

    with pytest.raises(ConfigError, match=r"prompt.history=4 has no effect without a .*household_plain does not"):
        Renderer(toy_tokenizer, style="append", template="household_plain", history=4)
    with pytest.raises(ConfigError, match=r"model.seed=3 has no effect without model.init=random"):
        CausalPolicy(str(tmp_path), seed=3)


def test_a_panel_larger_than_its_split_before_anything_is_loaded():
    sizes = ("data.budgets.turn_tokens=16", "data.sizes.groups=8", "panel.val.tasks=9999")
    cfg = cli.read("train", ["~experiment", "name=test", "env=searchqa", "prompt=searchqa_windowed", *sizes])
    with pytest.raises(ConfigError, match=r"^panel\.val\.tasks=9999: split 'val' has \d+ tasks, lower it"):
        cli.Parts(cfg).trainer()


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        (Panel("val", first=9999), "panel.seen.first=9999: split 'val' has "),
        (Panel("train"), "panel.seen.tasks is null, but split 'train' is endless"),
        (WorkerDraw("val", order="nowhere.txt"), "panel.seen.order=nowhere.txt cannot be read"),
        (Panel("test"), "panel.seen: split 'test': "),
    ],
)
def test_what_a_panel_cannot_be_names_the_panel(panel, message, monkeypatch):
    env = SearchQA()
    if panel.split == "train":
        monkeypatch.setattr(env, "num_tasks", lambda split: None)
    with pytest.raises(SharpoError) as caught:
        checks.check_panel("seen", panel, env)
    assert str(caught.value).startswith(message)


def test_infinity_where_it_means_never():
    cli.Parts(cli.read("train", ["algorithm.balance.clip=inf", "algorithm.balance.gamma=1"]))


def targets():
    """Every class of ours that a yaml names, but for those that are built before anything else and check themselves."""
    found = set()
    for path in sorted(CONFIGS.rglob("*.yaml")):
        todo = [yaml.safe_load(path.read_text()) or {}]
        while todo:
            node = todo.pop()
            if isinstance(node, dict):
                todo += node.values()
                found.add(node.get("_target_", ""))
    return sorted(name for name in found if name and not name.startswith((*OTHERS, *EARLY)))


@pytest.mark.parametrize("target", targets())
def test_every_number_of_a_part_that_is_built_late_states_its_range(target):
    hints = typed._hints("part", target)
    numbers = [name for name, hint in hints.items() if _is_number(hint) and name not in ANY]
    bare = [name for name in numbers if ranges.limits(hints[name]) is None]
    assert target.endswith("RolloutDataModule") or not bare, f"{target}: {bare}"


def _is_number(hint):
    inner = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    return inner in (int, float) or any(_is_number(one) for one in typing.get_args(inner) if inner is not hint)


def test_a_constructor_says_the_same():
    from sharpo.engine.hf import HfEngine
    from sharpo.policy.tiny import TinyModel

    for make, message in (
        (lambda: HfEngine("nowhere", max_context=0), "engine.max_context=0: must be at least 1"),
        (lambda: TinyModel("nowhere", feed_forward=0), "model.path.feed_forward=0: must be at least 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()


def test_the_swept_metric_that_was_never_logged_is_said(capsys):
    from sharpo.sweep import swept_value

    logged = {"train/loss": 0.5, "val/success/all": 0.25}
    assert swept_value(logged, "val/success/all") == 0.25
    assert swept_value(logged, "train/los") is None
    assert "swept=train/los: this run logged no such number; nearest: train/loss" in capsys.readouterr().err
    assert swept_value({"train/loss": 0.5}, "val/success/all") is None
    assert capsys.readouterr().err == ""  # nothing was validated
