"""What is refused at start."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from sharpo import overrides, sizes, typed
from sharpo.algorithms.base import Algorithm
from sharpo.errors import ConfigError, DataError
from sharpo.policy.teacher import TeacherWeights
from sharpo.rollout.schedule import check_groups

_OWN: dict[str, Any] = {  # the settings that belong to no part
    "name": str,
    "seed": int,
    "temperature": float,
    "teacher": str,
    "validate_first": bool,
    "ckpt": str | None,
    "swept": str,
}
_NEEDED = (
    *("algorithm", "policy_loss", "hint", "env", "prompt", "data", "model", "optimizer", "engine", "gate", "panel"),
    *("trainer", "strategy", "callbacks", "logger", "paths", "schedule"),
)
_AT_LEAST_1 = ("max_epochs", "accumulate_grad_batches", "check_val_every_n_epoch", "num_nodes")
_WHOLE = {  # what would leave rows of an iteration out, stop inside it or validate inside it, and its only value
    "limit_train_batches": (None, 1.0),
    "overfit_batches": (0.0,),
    "fast_dev_run": (False,),
    "max_steps": (-1,),
    "max_time": (None,),
    "val_check_interval": (None, 1.0),
    "limit_val_batches": (None, 0, 1),
}
_METRICS = ("train", "rollout", "credit", "gate", "time", "throughput", "val")


def check_needed(cfg: Mapping[str, Any]) -> None:
    """Refuse a configuration from which a part was removed (``~engine``), or with a value that is still missing.

    Raises:
        ConfigError: naming the part or the value.
    """
    for name in (*_NEEDED, *_OWN):
        if name not in cfg:
            raise ConfigError(f"~{name}: a run needs {name}; choose another value instead of removing it")
    for name in overrides.missing(cfg):
        raise ConfigError(f"{name} has no value: give it, for example {name}=...")


def check_values(cfg: Mapping[str, Any]) -> None:
    """Refuse values of a wrong type, or out of the range in which the program can honour them.

    Raises:
        ConfigError: naming the field, the value and what is allowed.
    """
    place = str(cfg["env"]["_target_"]).rpartition(".")[0]
    if place.startswith("sharpo.envs.") and importlib.util.find_spec(place) is None:
        raise ConfigError(f"env: {place} is not part of this version yet; choose env=household or env=alfworld")
    for name, hint in _OWN.items():
        if not typed.fits(cfg[name], hint):
            raise ConfigError(f"{name} must be {typed.words(hint)}, got {cfg[name]!r}")
    _check_schedule(cfg["schedule"])
    typed.check(cfg)
    if not 0 <= cfg["seed"] < 2**32:
        raise ConfigError(f"seed={cfg['seed']}: must be 0 to {2**32 - 1}")
    if not 0 < cfg["temperature"] < math.inf:
        raise ConfigError(f"temperature={cfg['temperature']}: must be above 0; greedy play is a panel's temperature=0")
    TeacherWeights.parse(cfg["teacher"])
    _check_metric("swept", cfg["swept"], cfg["panel"])
    for callback, node in cfg["callbacks"].items():
        if node is not None and not (isinstance(node, Mapping) and "_target_" in node):
            raise ConfigError(f"callbacks.{callback}={node}: the chosen group has no such part; null leaves one out")
        if node is not None and "monitor" in node:
            _check_metric(f"callbacks.{callback}.monitor", node["monitor"], cfg["panel"])
    if not cfg["name"].strip() or Path(cfg["name"]).is_absolute() or ".." in Path(cfg["name"]).parts:
        raise ConfigError(f"name={cfg['name']!r}: it names the run's folder inside paths.root; give a plain name")
    for name, value in cfg["paths"].items():
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"paths.{name}={value!r}: must be a folder")
    _check_trainer(cfg["trainer"])


def _check_schedule(schedule: Any) -> None:
    if schedule is not None and (not isinstance(schedule, Mapping) or "_target_" not in schedule):
        raise ConfigError(
            f"schedule={schedule!r}: must be null, or a part with a _target_, for example "
            "'schedule={_target_: sharpo.policy.optim.warm_up, updates: 100}'"
        )


def check_tasks(panels: Mapping[str, Any], env: Any, read: bool) -> None:
    """Refuse a panel of a split that the environment does not have, and training without its data.

    Args:
        panels: by name.
        env: the environment.
        read: its data may be read; without, the splits' names alone are checked.

    Raises:
        ConfigError: naming the split.
        DataError: when there is no data to read.
    """
    for panel in panels.values():
        env.check_split(panel.split)
    if read:
        env.num_tasks("train")


def _check_metric(field: str, name: str, panels: Mapping[str, Any]) -> None:
    groups = (*_METRICS, *(f"val_{panel}" for panel in panels if panel != "val"))
    group, _, rest = name.partition("/")
    if group not in groups or not rest:
        raise ConfigError(
            f"{field}={name!r}: a run logs numbers such as val/success/all or train/loss; their groups are "
            f"{', '.join(groups)}"
        )
    if group == "val" and panels and "val" not in panels:
        raise ConfigError(f"{field}={name}: no panel is called val; choose among {', '.join(groups[len(_METRICS) :])}")


def _check_trainer(trainer: Mapping[str, Any]) -> None:
    for name, allowed in _WHOLE.items():
        if name in trainer and trainer[name] not in allowed:
            raise ConfigError(
                f"trainer.{name}={trainer[name]}: an iteration is collected, trained on and validated as a whole; use "
                "trainer.max_epochs and data.sizes, or debug=fast for a quick check"
            )
    for name in _AT_LEAST_1:
        value = trainer.get(name, 1)
        if value is None or value < 1:
            raise ConfigError(f"trainer.{name}={value}: must be a whole number of at least 1")
    if "max_epochs" not in trainer:
        raise ConfigError("trainer.max_epochs has no value: give the number of iterations")
    clip = trainer.get("gradient_clip_val")
    if clip is not None and clip <= 0:
        raise ConfigError(f"trainer.gradient_clip_val={clip}: must be above 0, or null for no clipping")
    if trainer.get("gradient_clip_algorithm", "norm") not in (None, "norm"):
        raise ConfigError(
            f"trainer.gradient_clip_algorithm={trainer['gradient_clip_algorithm']}: only the global norm clips "
            "here; leave it out"
        )


def check_run(cfg: Mapping[str, Any], panels: Mapping[str, Any], env: Any) -> None:
    """Refuse what a run could not do to its end: GPUs that are not there, more tasks than a split has.

    Raises:
        ConfigError: naming the setting and what there is.
        DataError: when its data is not there.
    """
    _check_machine(cfg["trainer"])
    if not cfg.get("judge"):  # judging collects nothing
        check_groups(env, cfg["data"]["sizes"]["groups"])
    for name, panel in panels.items():
        check_panel(name, panel, env)


def check_panel(name: str, panel: Any, env: Any) -> None:
    """Refuse a panel that its split cannot fill.

    Raises:
        ConfigError: naming the panel's own field.
        DataError: when its data is not there.
    """
    try:
        panel.check(env)
    except (ConfigError, DataError) as error:
        said = str(error)
        if said.startswith(("panel:", "panel.")):
            said = f"panel.{name}{said.removeprefix('panel')}"
        elif isinstance(error, ConfigError):
            said = f"panel.{name}: {said}"
        raise type(error)(said) from None


def _check_machine(trainer: Mapping[str, Any]) -> None:
    kind, wanted, found = trainer.get("accelerator"), trainer["devices"], torch.cuda.device_count()
    if kind not in ("gpu", "cuda") or (kind == "gpu" and torch.backends.mps.is_available()):
        return
    if not found:
        raise ConfigError(
            f"trainer.accelerator={kind}: PyTorch sees no GPU on this machine; choose a machine with one, or "
            "trainer.accelerator=cpu and a model that fits"
        )
    if isinstance(wanted, int) and wanted > found:
        raise ConfigError(f"trainer.devices={wanted}: this machine has {found} GPU(s); choose at most as many")


def check_choices(cfg: Mapping[str, Any], algorithm: Algorithm) -> None:
    """Refuse what the chosen parts cannot honour together, before anything is loaded.

    Raises:
        ConfigError: naming the field and the remedy.
    """
    trainer, engine = cfg["trainer"], str(cfg["engine"]["_target_"])
    strategy = str(cfg["strategy"].get("_target_", cfg["strategy"].get("name")))
    devices, hint = trainer["devices"], str(cfg["hint"]["_target_"])
    on_gpu = torch.cuda.is_available() and trainer.get("accelerator") != "cpu"
    if strategy.endswith("FSDPStrategy") and not on_gpu:
        raise ConfigError("strategy=fsdp needs a GPU; on a CPU use strategy=fsdp2 (or ddp, single)")
    if not isinstance(devices, int) or isinstance(devices, bool):
        raise ConfigError(f"trainer.devices={devices}: give a number, since groups are dealt to processes")
    many = devices * trainer.get("num_nodes", 1) > 1
    if many and strategy == "auto":
        raise ConfigError(f"trainer.devices={devices} needs strategy=ddp or strategy=fsdp2")
    if many and strategy.endswith(".FSDPStrategy"):
        raise ConfigError(
            f"strategy=fsdp with trainer.devices={devices}: torch's first sharding keeps flat pieces of the weights, "
            "which can be neither published to the engine nor clipped by their global norm here; use strategy=fsdp2"
        )
    sizes.check_room(cfg)
    if not cfg.get("judge"):  # judging collects nothing
        sizes.check_shares(cfg["data"]["sizes"]["groups"], devices, trainer.get("num_nodes", 1))
    if str(trainer.get("precision")) in ("bf16-true", "16-true"):
        raise ConfigError("trainer.precision=bf16-true loses small updates: use bf16-mixed")
    if not engine.endswith(("ExpertEngine", "ScriptedEngine")) and not algorithm.needs_scores:
        raise ConfigError("algorithm=imitation learns from an expert: choose engine=expert")
    if hint.endswith(".NoHint") and algorithm.needs_teacher:
        raise ConfigError(
            f"hint=none leaves {type(algorithm).__name__}'s teacher nothing that the student does not see: choose "
            "hint=peer, or algorithm=grpo"
        )
    if algorithm.needs_teacher and algorithm.span == "think" and cfg["env"].get("action_format") == "plain":
        raise ConfigError(
            "algorithm.span=think needs answers with a <think> part, and env.action_format=plain has none: choose a "
            "prompt with action_format=tags (prompt=alfworld_append), or algorithm.span=action"
        )
    parts = {str(node["_target_"]).rpartition(".")[2] for node in cfg["callbacks"].values() if node}
    if parts & {"LearningCurve", "KeepBest"} and "LogSuccessByFamily" not in parts:
        raise ConfigError("~callbacks.success: callbacks.curve and callbacks.best read what it counts; remove them too")
    if engine.endswith("ExpertEngine") and algorithm.needs_scores:
        raise ConfigError(
            "engine=expert plays the oracle, not the policy; it goes with algorithm=imitation. Choose engine=vllm or hf"
        )


def check_model(path: Any, remedy: str | None) -> str:
    """Return a model's folder or hub name when it can be one.

    Args:
        path: the setting.
        remedy: how to make the configuration's own model, by its path.

    Raises:
        ConfigError: when it is no text.
        DataError: when the folder holds no model.
    """
    if not isinstance(path, str) or not path.strip():
        raise ConfigError(f"model.path={path!r}: give a model's folder or its name on the Hugging Face hub")
    local = path.startswith((".", "/", "~")) or path.count("/") != 1
    known = remedy or Path(path).expanduser().is_absolute()
    if known and local and not (Path(path).expanduser() / "config.json").is_file():
        raise DataError(f"model.path={path!r} holds no model (no config.json): {model_remedy(path, remedy)}")
    return path


def model_remedy(path: str, remedy: str | None) -> str:
    """Return how to make a model when the remedy is for this path, else what a model folder holds.

    Example:
        >>> model_remedy("runs/mine", "make runs/mine with `make mine`")
        'make runs/mine with `make mine`'
        >>> model_remedy("/nowhere", "make runs/mine with `make mine`").partition(";")[0]
        "give a folder with config.json, model.safetensors and the tokenizer's files"
    """
    if remedy and f" {path} " in remedy:
        return remedy
    return (
        "give a folder with config.json, model.safetensors and the tokenizer's files; a run with callbacks.export "
        "leaves one in its policy/"
    )


def check_optimizer(make: Callable[..., torch.optim.Optimizer], schedule: Callable[..., Any] | None) -> None:
    """Make the optimizer and its schedule for a toy layer, so that a value they refuse is found at start.

    Raises:
        ConfigError: with what they said.
    """
    name, made = "optimizer", make
    try:
        toy = make(list(torch.nn.Linear(2, 2).named_parameters()))
        if schedule is not None:
            name, made = "schedule", schedule
            schedule(toy)
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError) as error:
        given = getattr(getattr(made, "func", None), "keywords", {})  # of the part that the configuration names
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ConfigError(", ".join([f"{name}: {said}", *(f"{k}={v}" for k, v in given.items())])) from error
