"""Finds, gets, checks and prepares the data of environments: ``python -m sharpo.data alfworld|webshop ...``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from sharpo.errors import DataError, SharpoError

_FILES = ("source", "items", "attributes", "human", "nouns")
_UNREAD = {"build": ("replace",), "demo": _FILES, "verify": (*_FILES, "products", "replace")}
"""Options that an action of ``webshop`` does not read."""


def alfworld(arguments: argparse.Namespace, console: Console) -> None:
    """Check ALFWorld's games, and compile them unless only a check is asked for."""
    release: Any = import_module("sharpo.envs.native.release")
    if arguments.action == "download":
        _download(arguments.source)
    root = release.find(arguments.source)
    splits = [split for split in arguments.split or release.OFFICIAL if arguments.split or (root / split).is_dir()]
    if not splits:
        raise DataError(
            f"no ALFWorld games in {root}: give --source the folder that holds {', '.join(release.OFFICIAL)}, or run "
            "`python -m sharpo.data alfworld download`"
        )
    with Progress(console=console, transient=True) as bar:
        for split in splits:
            task = bar.add_task(f"read {split}", total=None)
            found = release.inspect(root, split, lambda n, of, task=task: bar.update(task, completed=n, total=of))
            counts = ", ".join(f"{family} {n}" for family, n in zip(release.FAMILIES, found.families, strict=True))
            verdict = "the official counts" if found.official else "not the official counts"
            console.print(
                f"{split}: {sum(found.families)} games ({counts}): {verdict}; form {', '.join(found.forms)}; "
                f"fingerprint {found.fingerprint}",
                soft_wrap=True,
            )
    if arguments.action == "verify":
        return
    for split in splits:
        _show(console, f"compile {split}", release.compile_split(root, split, arguments.workers))
    console.print(f"ready: env.data={root}, or ALFWORLD_DATA={root}", soft_wrap=True)


def _show(console: Console, what: str, steps: Iterable[tuple[int, int]]) -> None:
    """Go through the steps of long work with a bar, or where the output is a file with a line at each tenth."""
    tenths = 0
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        for done, total in steps:
            bar.update(task, completed=done, total=total)
            if not console.is_terminal and 10 * done // max(total, 1) > tenths:
                tenths = 10 * done // total
                console.print(f"{what}: {done} of {total}")


def _download(target: str | None) -> None:
    """Let ALFWorld's own command fetch its release."""
    program = Path(sys.executable).with_name("alfworld-download")
    if not program.exists():
        raise DataError("alfworld-download is not installed: pip install 'sharpo[alfworld]'")
    folder = target or os.environ.get("ALFWORLD_DATA") or str(Path("~/.cache/alfworld").expanduser())
    done = subprocess.run([str(program), "--data-dir", folder], check=False)  # noqa: S603 - the package's own program
    if done.returncode:
        raise DataError(
            f"alfworld-download ended with code {done.returncode} (its message is above): it needs the internet; a "
            "copy from another machine does as well: python -m sharpo.data alfworld --source FOLDER"
        )


def webshop(arguments: argparse.Namespace, console: Console) -> None:
    """Build WebShop's catalogue from the original's files or from made-up products, or check it."""
    command: Any = import_module("sharpo.envs.webshop.command")
    for name in _UNREAD[arguments.action]:
        if getattr(arguments, name) not in (None, False):
            raise DataError(f"--{name} has no effect on `webshop {arguments.action}`: leave it out")
    if arguments.action == "verify":
        command.check(console, arguments.target)
    elif arguments.action == "demo":
        command.invent(
            console,
            arguments.target,
            3000 if arguments.products is None else arguments.products,
            arguments.seed,
            replace=arguments.replace,
        )
    else:
        nouns = arguments.nouns or command.TAGGER
        files = (arguments.items, arguments.attributes, arguments.human)
        if any(files) if arguments.source else None in files[:2]:
            raise DataError(
                "webshop build needs --source, the folder of items_shuffle.json and items_ins_v2.json, or in its place "
                "the files: --items FILE --attributes FILE, and --human FILE for human goals"
            )
        command.make(console, arguments.source or files, arguments.target, arguments.products, nouns, arguments.seed)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a user's mistake is one message on stderr and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m sharpo.data", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    games = kinds.add_parser("alfworld", help="ALFWorld's games: check and compile")
    games.add_argument("action", nargs="?", choices=("prepare", "download", "verify"), default="prepare")
    games.add_argument("--source", help="folder of the games; else ALFWORLD_DATA, else ~/.cache/alfworld")
    games.add_argument("--split", action="append", choices=("train", "valid_seen", "valid_unseen"))
    games.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    games.set_defaults(run=alfworld)
    shop = kinds.add_parser("webshop", help="WebShop's catalogue: build, or invent one, and check")
    shop.add_argument("action", choices=("build", "demo", "verify"))
    shop.add_argument("--source", help="build: folder of the original's files, the full or the 1,000-product ones")
    shop.add_argument("--items", help="build, in place of --source: items_shuffle.json, wherever it is")
    shop.add_argument("--attributes", help="build, with --items: items_ins_v2.json")
    shop.add_argument("--human", help="build, with --items: items_human_ins.json, for human goals")
    shop.add_argument("--target", help="folder of the catalogue; else WEBSHOP_DATA, else ~/.cache/sharpo/webshop")
    shop.add_argument("--products", type=int, help="build: only the first; demo: how many (3000)")
    shop.add_argument("--nouns", help="build: a spaCy model for the titles' nouns, or `words` to do without")
    shop.add_argument("--seed", type=int, default=0, help="of range prices and price bounds; demo: of everything")
    shop.add_argument("--replace", action="store_true", help="demo: even another catalogue that is there")
    shop.set_defaults(run=webshop)
    given = parser.parse_args(arguments)
    try:
        given.run(given, Console())
    except SharpoError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
