"""The store as a web application: choose a goal, play it page by page, see what the purchase was worth."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

from sharpo.envs.webshop.env import WebShop
from sharpo.envs.webshop.oracle import query_of
from sharpo.envs.webshop.pages import SEARCH
from sharpo.envs.webshop.serve import HOSTS
from sharpo.envs.webshop.serve_play import ALL, Goals, Play, Plays, whole
from sharpo.envs.webshop.serve_view import POLICY, html, step, view
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from sharpo.env import Split
from sharpo.errors import ConfigError, SharpoError

LONGEST = 2000
"""Characters of a search or an action; longer ones are refused."""
MOST_BYTES = 4 * LONGEST * 3 + 1000
"""Of a form: as many characters, each of four bytes and written as ``%XX``."""
LISTED = 10
_PRESS_SEARCH = f"click[{SEARCH.lower()}]"
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


async def form(request: Request) -> dict[str, str]:
    """Return a small form that one of our own pages sent.

    Raises:
        HTTPException: it comes from another site, is too long, or is no form.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin not in (None, f"http://{request.headers['host']}") or site not in (None, "same-origin", "none"):
        raise HTTPException(HTTPStatus.FORBIDDEN, "This form was sent by a page of another site.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise HTTPException(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A form may have {MOST_BYTES:,} bytes, this has more."
            )
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=20))
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "This is not a form of this store's pages.") from None


def action(play: Play, given: Mapping[str, str]) -> str:
    """Return the action that a form means: words to search for, something clicked, or an action as it was typed.

    Raises:
        ConfigError: it says nothing, or too much.
    """
    for name, value in given.items():
        if len(value) > LONGEST:
            raise ConfigError(f"{name} has {len(value):,} characters; at most {LONGEST:,} are taken")
    if "typed" in given:
        found = play.env.parse(f"<action>{given['typed']}</action>")
        if found is None:
            raise ConfigError("nothing was typed: an action is search[words] or click[something shown]")
        return found.action
    words = query_of(given.get("query", ""))
    if given.get("action", _PRESS_SEARCH) == _PRESS_SEARCH and words:
        return f"search[{words}]"
    if not given.get("action"):
        raise ConfigError("the form names no action")
    return given["action"]


class Shop:
    """The pages' handlers; they run one after the other, since a step takes a millisecond.

    Args:
        goals: that can be chosen.
        plays: under way.
        split: offered first.
    """

    def __init__(self, goals: Goals, plays: Plays, split: Split) -> None:
        self.goals, self.plays, self.split = goals, plays, split

    def _page(self, play: Play, notice: str = "", status: int = 200) -> Response:
        return HTMLResponse(html("play", notice=notice, **view(play)), status, HEADERS)

    def _choice(self, split: Split, place: int, notice: str = "", status: int = 200) -> Response:
        count = self.goals.counts[split]
        numbers = range(place * LISTED, min(count, (place + 1) * LISTED))
        rows = [(number, self.goals.task(split, number)) for number in numbers]
        last = max(0, (count - 1) // LISTED)
        given = {"split": split, "counts": self.goals.counts, "rows": rows, "place": place, "last": last}
        return HTMLResponse(html("start", notice=notice, **given), status, HEADERS)

    async def start(self, request: Request) -> Response:
        """Show the goals of a split, ten at a time."""
        split = request.query_params.get("split", self.split)
        try:
            self.goals.check(split)
        except ConfigError as error:
            return self._choice(self.split, 0, str(error), HTTPStatus.BAD_REQUEST)
        try:
            place = whole(request.query_params.get("page", "0"), "page")
            if place * LISTED >= self.goals.counts[split]:
                raise ConfigError(f"page {place}: {split} has {self.goals.counts[split]:,} goals, {LISTED} a page")
        except ConfigError as error:
            return self._choice(split, 0, str(error), HTTPStatus.BAD_REQUEST)
        return self._choice(split, place)

    async def begin(self, request: Request) -> Response:
        """Begin the goal of a number, or one that a seed draws, and go to its first page."""
        given = await form(request)
        split = given.get("split", self.split)
        try:
            self.goals.check(split)
            if "number" in given:
                number = whole(given["number"], "goal number")
            else:
                seed = given.get("seed", "").strip()
                number = self.goals.draw(split, whole(seed, "seed") if seed else secrets.randbelow(2**31))
            play = self.plays.start(self.goals.task(split, number), split, number)
        except ConfigError as error:
            known = split if self.goals.counts.get(split) else self.split
            return self._choice(known, 0, str(error), HTTPStatus.BAD_REQUEST)
        return self._onward(request, play)

    async def show(self, request: Request) -> Response:
        """Show where an episode is."""
        return self._page(self._find(request))

    async def as_json(self, request: Request) -> Response:
        """Return an episode's last step as data."""
        return JSONResponse(step(self._find(request)), headers=HEADERS)

    async def act(self, request: Request) -> Response:
        """Play one turn and go to the page it leads to; a form of an earlier turn changes nothing."""
        given = await form(request)
        play = self._find(request)
        if given.pop("turn", "") != str(len(play.actions)):
            notice = "That button was on a page that is no longer current, so nothing was done. This is where you are."
            return self._page(play, notice, HTTPStatus.CONFLICT)
        try:
            play.act(action(play, given))
        except ConfigError as error:
            return self._page(play, str(error), HTTPStatus.CONFLICT if play.ended else HTTPStatus.BAD_REQUEST)
        return self._onward(request, play)

    def _find(self, request: Request) -> Play:
        play = self.plays.find(request.path_params["key"])
        if play is None:
            hours = f"{self.plays.idle / 3600:g}"
            raise HTTPException(
                HTTPStatus.NOT_FOUND,
                f"There is no such session. Sessions end with the server, after {hours} hours without a click, and "
                f"when more than {self.plays.most:,} newer ones were begun. Choose a goal to begin a new one.",
            )
        return play

    def _onward(self, request: Request, play: Play) -> Response:
        ending = ".json" if request.headers.get("accept") == "application/json" else ""
        return RedirectResponse(f"/play/{play.key}{ending}", HTTPStatus.SEE_OTHER, HEADERS)


def _failed(request: Request, error: Exception) -> Response:
    """Return the page, or for programs the data, that says what is wrong."""
    status, words, headers = HTTPStatus.INTERNAL_SERVER_ERROR, str(error), HEADERS
    if isinstance(error, HTTPException):
        status, words, headers = HTTPStatus(error.status_code), error.detail, {**HEADERS, **(error.headers or {})}
    if request.url.path.endswith(".json") or request.headers.get("accept") == "application/json":
        return JSONResponse({"error": words}, status, headers)
    return HTMLResponse(html("message", status=status, words=words), status, headers)


def make_app(make: Callable[[], WebShop], split: Split = ALL, plays: Plays | None = None) -> Starlette:
    """Return the application.

    Args:
        make: an environment for each episode; all over one catalogue, with the same settings.
        split: whose goals are offered first.
        plays: under way; None for none yet.

    Raises:
        ConfigError: the catalogue cannot give the split.
        DataError: there is no catalogue.
    """
    goals = Goals(make())
    goals.check(split)
    shop = Shop(goals, Plays(make) if plays is None else plays, split)
    routes = [
        Route("/", shop.start),
        Route("/play", shop.begin, methods=["POST"]),
        Route("/play/{key}.json", shop.as_json),
        Route("/play/{key}", shop.show, methods=["GET"]),
        Route("/play/{key}", shop.act, methods=["POST"]),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False)
    return Starlette(
        routes=routes, middleware=[hosts], exception_handlers={HTTPException: _failed, SharpoError: _failed}
    )
