"""WebShop in a browser, for a person: ``python -m sharpo.envs.webshop.serve [--data FOLDER] [--port 8000]``."""

from __future__ import annotations

import argparse
import contextlib
import functools
import socket
import sys
from typing import Any, get_args

from sharpo.envs.webshop.env import FIXES, WebShop
from sharpo.envs.webshop.goals import Kind
from sharpo.envs.webshop.pages import Observation
from sharpo.envs.webshop.serve_play import ALL
from sharpo.envs.webshop.splits import GOAL_SPLITS

from sharpo.errors import ConfigError, SharpoError, end

HOSTS = ("127.0.0.1", "localhost")
MOST_PORT = 65535


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that only this machine reaches.

    Args:
        host: ``127.0.0.1`` or ``localhost``.
        port: 0 for a free one.

    Raises:
        ConfigError: the host is another, or the port cannot be had.
    """
    if host not in HOSTS:
        raise ConfigError(
            f"--host {host}: the pages have no log-in, so they are for this machine alone: leave --host out "
            "(127.0.0.1); from another machine, forward the port: ssh -L 8000:127.0.0.1:8000 MACHINE"
        )
    if not 0 <= port <= MOST_PORT:
        raise ConfigError(f"--port {port}: a port is 0 (a free one) to {MOST_PORT}")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
        made.listen()  # whoever comes before the server is ready waits, instead of being turned away
    except OSError as error:
        made.close()
        raise ConfigError(f"--port {port}: {error.strerror}; choose another, or --port 0 for a free one") from None
    return made


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    made = argparse.ArgumentParser(description=__doc__, prog="python -m sharpo.envs.webshop.serve")
    made.add_argument("--data", help="folder of the catalogue; else $WEBSHOP_DATA, else ~/.cache/sharpo/webshop")
    made.add_argument("--host", default=HOSTS[0], help="127.0.0.1 or localhost: the pages are for this machine alone")
    made.add_argument("--port", type=int, default=8000, help="0 for a free one")
    made.add_argument(
        "--goals", choices=get_args(Kind), default="synthetic", help="from attributes and options, or people's"
    )
    made.add_argument("--goal-split", choices=GOAL_SPLITS, default="index", help="which goals train, val and test hold")
    made.add_argument("--split", choices=(ALL, *WebShop.splits), default=ALL, help="whose goals are offered first")
    made.add_argument(
        "--observation", choices=get_args(Observation), default="parts", help="how the agent's text is shown"
    )
    made.add_argument("--fixes", nargs="*", choices=FIXES, default=(), help="quirks of the original to mend")
    made.add_argument("--show-attributes", action="store_true", help="an item's page leads to its attributes")
    made.add_argument("--max-turns", type=int, default=15, help="turns until an episode ends")
    return made  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Serve the store until interrupted."""
    given = parser().parse_args(arguments)
    knobs: dict[str, Any] = {
        "catalogue": given.data,
        "observation": given.observation,
        "goals": given.goals,
        "goal_split": given.goal_split,
        "fixes": given.fixes,
        "show_attributes": given.show_attributes,
        "max_turns": given.max_turns,
    }
    try:
        bound = listen(given.host, given.port)
    except SharpoError as error:
        end(error)
    with bound:
        try:
            if given.max_turns < 1:
                raise ConfigError(f"--max-turns {given.max_turns}: an episode has at least one turn")
            server = _server(knobs, given.split)
        except SharpoError as error:
            end(error)
        sys.stdout.write(f"http://127.0.0.1:{bound.getsockname()[1]}/ (only on this machine; Ctrl-C ends it)\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[bound])


def _server(knobs: dict[str, Any], split: str) -> Any:
    try:
        import uvicorn
        from sharpo.envs.webshop.serve_app import make_app
    except ImportError as error:
        raise ConfigError(f"the pages need a library ({error}): pip install 'sharpo[webshop]'") from error
    app = make_app(functools.partial(WebShop, **knobs), split)
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))


if __name__ == "__main__":
    main()
