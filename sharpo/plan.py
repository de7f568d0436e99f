"""What a run would do, in words and numbers, from its configuration alone: no weights are loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sharpo.algorithms.base import Algorithm
from sharpo.checks import check_panel, model_remedy
from sharpo.errors import ConfigError, DataError
from sharpo.rollout.schedule import check_groups
from sharpo.typed import value_of

GIB = 2**30
_BYTES = {"float32": 4, "bfloat16": 2}
_WRITTEN = {
    "credit": ("credit", ""),
    "last": ("checkpoints", "last.ckpt"),
    "best": ("checkpoints", "best.ckpt"),
    "episodes": ("episodes", ""),
    "curve": ("", "curve.png, curve.csv"),
    "export": ("policy", ""),
}
"""By callback: its place in the run's folder where it is given no folder, and the files there."""


def parameter_count(config: Mapping[str, Any]) -> int:
    """Count the weights of a Llama or Qwen2 style decoder from its ``config.json``.

    N = V·d·(1 or 2) + L·(2·d·d_q + 2·d·d_kv + 3·d·f + norms and biases) + d.

    Args:
        config: the values of ``config.json``.

    Example:
        >>> parameter_count({"vocab_size": 10, "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        ...     "num_attention_heads": 2, "tie_word_embeddings": True})
        212
    """
    width, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    head = config.get("head_dim") or width // heads
    q, kv = heads * head, (config.get("num_key_value_heads") or heads) * head
    bias = q + 2 * kv if config.get("attention_bias") or config.get("model_type") == "qwen2" else 0
    block = 2 * width * q + 2 * width * kv + bias + 3 * width * config["intermediate_size"] + 2 * width
    tables = 1 if config.get("tie_word_embeddings") else 2
    return config["vocab_size"] * width * tables + layers * block + width


def describe(config: Mapping[str, Any], env: Any, run: Path, panels: Mapping[str, Any], algorithm: Algorithm) -> str:
    """Return the plan of a run as text.

    Args:
        config: the composed configuration as plain values.
        env: one environment, to count its tasks.
        run: folder of the run's files.
        panels: made, by name; one that its split cannot fill is told.
        algorithm: made.
    """
    sizes, budgets, trainer = config["data"]["sizes"], config["data"]["budgets"], config["trainer"]
    episodes = sizes["groups"] * sizes["group_size"]
    turns, iterations = env.max_turns, trainer["max_epochs"]
    turn_tokens = value_of(budgets, "turn_tokens")
    per_episode = value_of(budgets, "episode_tokens") or turns * turn_tokens
    world = int(trainer.get("num_nodes", 1)) * (trainer["devices"] if isinstance(trainer["devices"], int) else 1)
    micro = value_of(sizes, "micro_rows") * trainer.get("accumulate_grad_batches", 1) * world
    passes, group = value_of(sizes, "passes"), sizes["group_size"]
    updates = -(-episodes // micro) * passes
    missing: list[str] = []
    model = _model(config, env, missing)
    hint = _target(config["hint"]) if algorithm.reads_hint else "none"
    lines = [
        f"plan of {config['name']}",
        f"  method       {_target(config['algorithm'])}, hint {hint}",
        f"  engine       {_target(config['engine'])}; strategy {_target(config['strategy'])}; processes {world}",
        f"  environment  {_target(config['env'])}, families {', '.join(env.families)}, at most {turns} turns",
        f"  tasks        {sizes['groups']} of {_many(env, 'train', missing)} per iteration, {group} episodes each",
        f"  iterations   {iterations}: {episodes:,} episodes each, {iterations * episodes:,} in all",
        f"  rows         {episodes:,} (turns append) to {episodes * turns:,} (they do not) per iteration",
        f"  updates      {updates} per iteration when turns append: {micro} rows each, {passes} pass(es)",
        f"  tokens       at most {episodes * per_episode:,} sampled per iteration",
        *_panels(config["panel"], env, missing),
        *(f"  refused      {line}" for line in _refused(sizes["groups"], panels, env)),
        *(f"  missing      {line}" for line in dict.fromkeys(missing)),
        *model,
        "  files",
        *(f"    {path}" for path in (run / "config.yaml", *_files(config, run))),
    ]
    return "\n".join(lines)


def tell(config: Mapping[str, Any], env: Any, run: Path, panels: Mapping[str, Any], algorithm: Algorithm) -> None:
    """Print the plan of a run (see :func:`describe`).

    Raises:
        ConfigError: after it, when the run would be refused.
    """
    print(describe(config, env, run, panels, algorithm))  # noqa: T201
    for line in _refused(config["data"]["sizes"]["groups"], panels, env):
        raise ConfigError(line)


def _panels(panels: Mapping[str, Any], env: Any, missing: list[str]) -> list[str]:
    out = []
    for name, panel in panels.items():
        split = value_of(panel, "split")
        known = _many(env, split, missing)  # asked in any case, so that missing data is told
        count = value_of(panel, "workers") or value_of(panel, "tasks") or known
        out.append(
            f"  panel        {name}: {count} tasks of {split}, {value_of(panel, 'samples')} episode(s) each at "
            f"temperature {value_of(panel, 'temperature')}"
        )
    return out


def _refused(groups: int, panels: Mapping[str, Any], env: Any) -> Iterator[str]:
    held = (partial(check_panel, name, panel, env) for name, panel in panels.items())
    for check in (partial(check_groups, env, groups), *held):
        try:
            check()
        except ConfigError as error:
            yield str(error)
        except DataError:  # told as missing
            pass


def _model(config: Mapping[str, Any], env: Any, missing: list[str]) -> list[str]:
    path = config["model"]["path"]
    if isinstance(path, Mapping):  # made from scratch: one token for each word, so this is about right
        try:
            words = len(env.lexicon())
        except DataError as error:
            missing.append(str(error))
            return [f"  model        from scratch in {path['folder']}; its size is not known without the words"]
        shape: dict[str, Any] = {
            "vocab_size": words,
            "hidden_size": value_of(path, "width"),
            "num_hidden_layers": value_of(path, "layers"),
            "num_attention_heads": value_of(path, "heads"),
            "intermediate_size": value_of(path, "feed_forward"),
            "tie_word_embeddings": value_of(path, "tied"),
        }
        name = f"from scratch in {path['folder']}, about"
    elif (Path(path).expanduser() / "config.json").is_file():
        shape = json.loads((Path(path).expanduser() / "config.json").read_text(encoding="utf-8"))
        name = f"{path}:"
    else:
        remedy = config["model"].get("remedy")
        local = remedy or Path(path).expanduser().is_absolute()
        how = model_remedy(path, remedy) if local else "its size is not known before it is fetched"
        return [f"  model        {path}: not on this machine; {how}"]
    count = parameter_count(shape)
    wide = _BYTES[value_of(config["model"], "dtype")]
    mixed = 2 if "mixed" in str(config["trainer"].get("precision")) else 0
    training, engine = count * (wide * 4 + mixed), count * wide
    return [
        f"  model        {name} {count:,} weights",
        f"  memory       training {_size(training)} (weights, gradient, two moments), divided by sharding; engine",
        f"               {_size(engine)} of weights; activations and the key-value cache come on top",
    ]


def _size(count: float) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 2**20:.1f} MiB"


def _files(config: Mapping[str, Any], run: Path) -> list[Path]:
    """Return what callbacks and loggers write, where their own settings say; those set to null write nothing."""
    callbacks = {name: node for name, node in config["callbacks"].items() if name in _WRITTEN and node is not None}
    loggers = {name: node for name, node in config["logger"].items() if node is not None}
    return [
        *(Path(node.get("folder") or run / _WRITTEN[name][0], _WRITTEN[name][1]) for name, node in callbacks.items()),
        *(
            Path(node.get("save_dir") or run, "wandb" if name == "wandb" else value_of(node, "name") or "")
            for name, node in loggers.items()
        ),
    ]


def _target(node: Mapping[str, Any]) -> str:
    return str(node.get("_target_", node.get("name"))).rpartition(".")[2]


def _many(env: Any, split: str, missing: list[str]) -> str:
    """Return how many tasks a split has, in words; what is missing is noted, and the plan goes on."""
    env.check_split(split)
    try:
        count = env.num_tasks(split)
    except DataError as error:
        missing.append(str(error))
        return "(unknown)"
    return "endlessly many" if count is None else str(count)
