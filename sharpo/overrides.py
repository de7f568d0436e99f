"""What the command line may say: choices that exist, knobs that a part takes, and close matches for the rest."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from sharpo.errors import ConfigError
from sharpo.typed import resolve

LISTED = 20
"""Most names that are listed beside a close match."""


def choices(package: str = "sharpo.configs") -> dict[str, list[str]]:
    """Return the options of every config group, by group; a group inside a group is named ``outer/inner``.

    Example:
        >>> "grpo" in choices()["algorithm"], choices()["env/retriever"]
        (True, ['bm25', 'dense', 'http'])
    """
    outer = {entry.name: entry for entry in resources.files(package).iterdir() if entry.is_dir()}
    inner = {f"{name}/{x.name}": x for name, folder in outer.items() for x in folder.iterdir() if x.is_dir()}
    found = {
        group: sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".yaml"))
        for group, folder in {**outer, **inner}.items()
    }
    return {group: options for group, options in found.items() if options}


def split(arguments: Sequence[str], groups: Mapping[str, list[str]]) -> tuple[list[str], list[str]]:
    """Return (choices of groups, settings of values), in order.

    Raises:
        ConfigError: for an option that its group does not have, or an argument that is no ``key=value``.
    """
    chosen, values = [], []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not key.strip("+~ ") or (not equals and not key.startswith("~")):
            raise ConfigError(f"{argument!r} is not of the form key=value, for example experiment=household_demo")
        group = key.lstrip("+~").partition("@")[0]
        if group not in groups:
            values.append(argument)
            continue
        chosen.append(argument)
        option = value.strip("'\"")
        if "," in option and set(option.split(",")) <= set(groups[group]):
            raise ConfigError(f"{argument}: one run has one {group}; add -m for a run of each")
        if option not in groups[group] and not key.startswith("~"):
            raise ConfigError(f"{group}={value}: there is no such choice{_close(option, groups[group])}")
    return chosen, values


HYDRA_FUNCTIONS = ("bool", "choice", "float", "glob", "int", "interval", "range", "shuffle", "sort", "str", "tag")
_CALL = re.compile(r"(\w+)\([^(),'\"]*\)")
_TEXT = re.compile(r"[^\[{'\"][^,'\"{}\[\]]*")  # neither quoted, nor a list, a mapping or a sweep
_FOREIGN = re.compile(r"[^\w\s/\\+.$%*@?|:-]|[^\x00-\x7f]")  # what Hydra reads in quotes alone


def quoted(setting: str) -> str:
    """Return ``key='value'`` for a value that Hydra reads only in quotes: ``name(N)``, a path with ``=`` or ``é``.

    Example:
        >>> quoted("algorithm.lambda_schedule=linear_to_zero(50)")
        "algorithm.lambda_schedule='linear_to_zero(50)'"
        >>> quoted("ckpt=runs/épreuve/epoch=3.ckpt"), quoted("seed=range(3)"), quoted("seed=1,2")
        ("ckpt='runs/épreuve/epoch=3.ckpt'", 'seed=range(3)', 'seed=1,2')
    """
    key, equals, value = setting.partition("=")
    called = _CALL.fullmatch(value)
    if value.partition("(")[0] in HYDRA_FUNCTIONS and value.endswith(")"):
        return setting
    return f"{key}{equals}'{value}'" if called or (_TEXT.fullmatch(value) and _FOREIGN.search(value)) else setting


def repaired(composed: Mapping[str, Any], values: Iterable[str]) -> list[str]:
    """Return the settings as Hydra reads them: ``name(N)`` in quotes, ``++`` before what a yaml leaves at its default.

    A setting inside a part that no yaml names (``algorithm.bound.tau``) brings that part's ``_target_``, at the end.

    Args:
        composed: the configuration of the chosen groups, as plain values.
        values: ``a.b=v`` settings.

    Raises:
        ConfigError: for a knob that nothing takes, with close matches.
    """
    out, parts_added = [], {}
    for setting in map(quoted, values):
        key = setting.partition("=")[0].lstrip("+").strip()
        forced = setting.startswith("+")
        if key.startswith(("~", "hydra.")):
            out.append(setting)
            continue
        node: Any = composed
        parts = key.split(".")
        for depth, part in enumerate(parts):
            if isinstance(node, Mapping) and part in node:
                node = node[part]
                continue
            own = re.fullmatch(r"\$\{([\w.]+)\}", node) if isinstance(node, str) else None
            if own is not None:
                rest = setting.partition("=")[2]
                raise ConfigError(f"{key}: that part is {own[1]}: set {own[1]}.{'.'.join(parts[depth:])}={rest}")
            target = node.get("_target_") if isinstance(node, Mapping) else None
            if depth == len(parts) - 1 and target is not None and takes(target, part):
                setting = f"++{setting.lstrip('+')}"
                break
            inner = default_part(target, part) if depth < len(parts) - 1 else None
            if inner is not None:  # a part at its default: its knobs are those of its class
                parts_added[".".join(parts[: depth + 1])] = inner
                node = {"_target_": inner}
                continue
            if forced and depth and target is None:  # a new part of a group that names its parts
                break
            known = sorted({*(node if isinstance(node, Mapping) else ()), *parameters(target)} - {"_target_"})
            where = ".".join(parts[:depth]) or "the configuration"
            raise ConfigError(f"{key}: {where} has no {part!r}{_close(part, known)}")
        out.append(setting)
    return [*out, *(f"++{where}._target_={inner}" for where, inner in parts_added.items())]


def default_part(target: str | None, name: str) -> str | None:
    """Return the class of a dataclass's field that is a dataclass made by default, as a dotted path; None otherwise.

    Example:
        >>> default_part("sharpo.algorithms.sharpo.Sharpo", "bound")
        'sharpo.algorithms.sharpo.Bound'
    """
    owner = resolve(target) if target is not None else None
    for field in dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ():
        if field.name == name and dataclasses.is_dataclass(field.default_factory):
            made: Any = field.default_factory
            return f"{made.__module__}.{made.__qualname__}"
    return None


def for_hydra(arguments: Sequence[str], composed: Callable[..., Mapping[str, Any]]) -> list[str]:
    """Return a command line that Hydra drives with its settings repaired, as :func:`repaired` does, for every choice.

    Args:
        arguments: the command line; flags and settings of Hydra's own pass through.
        composed: the configuration of the chosen groups as plain values, ``composed(*choices)``.
    """
    groups = choices()
    own = ("-", "hydra", "+hydra")
    swept = [a for a in arguments if not a.startswith((*own, "hparams_search=")) and ("=" in a or a.startswith("~"))]
    grouped = [a for a in swept if a.partition("=")[0].lstrip("+~").partition("@")[0] in groups]
    values = [a for a in swept if a not in grouped]
    options = [
        [f"{key}={one.strip()}" for one in value.split(",")] if equals else [a]
        for a in grouped
        if "(" not in a
        for key, equals, value in [a.partition("=")]
    ]
    mended = values
    more: list[str] = []
    for chosen in itertools.product(*options):
        split(chosen, groups)
        forms = repaired(composed(*chosen), values)
        more += [extra for extra in forms[len(values) :] if extra not in more]
        mended = [
            form if form.startswith("++") or old == value else old
            for form, old, value in zip(forms, mended, values, strict=False)
        ]
    by_value = dict(zip(values, mended, strict=True))
    return [*(by_value.get(argument, argument) for argument in arguments), *more]


def parameters(target: str | None) -> list[str]:
    """Return the names that a target's constructor takes; none without a target."""
    if target is None:
        return []
    return [name for name in inspect.signature(resolve(target)).parameters if name != "self"]


def takes(target: str, name: str) -> bool:
    """Say whether a target's constructor takes a parameter.

    Example:
        >>> takes("sharpo.episode.Task", "family"), takes("sharpo.episode.Task", "lam")
        (True, False)
    """
    return name in parameters(target)


def missing(node: Any, prefix: str = "") -> list[str]:
    """Return the dotted names whose value is ``???``.

    Example:
        >>> missing({"name": "???", "data": {"sizes": {"groups": "???"}}})
        ['name', 'data.sizes.groups']
    """
    if isinstance(node, Mapping):
        return [name for key, value in node.items() for name in missing(value, f"{prefix}.{key}" if prefix else key)]
    return [prefix] if node == "???" else []


def wants_hydra(arguments: Sequence[str]) -> bool:
    """Say whether Hydra itself must drive: flags, sweeps and settings of Hydra's own."""
    own = ("-", "hydra.", "hydra/", "+hydra.", "hparams_search=")
    return any(argument.startswith(own) for argument in arguments)


def refuse_fixed(field: str, node: Mapping[Any, Any], fixed: Iterable[str]) -> None:
    """Refuse a setting that the program would silently replace by its own.

    Raises:
        ConfigError: naming the setting, and where it is decided.
    """
    for key in sorted(set(fixed) & set(node)):
        raise ConfigError(f"{field}.{key}={node[key]!r}: the program sets it{instead(key)}; leave it out")


def instead(name: str) -> str:
    """Return where the command line decides what the program passes to a constructor, empty when nowhere.

    Example:
        >>> instead("strategy"), instead("callbacks"), instead("num_sanity_val_steps")
        (' from strategy=...', ' from callbacks=...', '')
    """
    place = {"default_root_dir": "paths.run", "path": "model.path", "pool": "data.pool"}.get(name, name)
    known = (*choices(), "temperature", "seed", "teacher", "paths.run", "model.path", "data.pool")
    return f" from {place}=..." if place in known else ""


def near(word: str, known: Iterable[str]) -> str:
    """Return the closest of the known words, in a list.

    Example:
        >>> near("train/los", ["train/loss", "val/success/all"])
        'train/loss'
    """
    return ", ".join(difflib.get_close_matches(word, list(known), n=3, cutoff=0.3)) or "none"


def _close(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    if meant and len(known) > LISTED:
        return meant
    return f"{meant} Known: {', '.join(known)}" if meant else f"; known: {', '.join(known)}"
