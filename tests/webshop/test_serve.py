"""The store's web pages over real HTTP: the same play as the text environment, and every way of asking wrongly."""

import json
import random
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
import urllib3
import uvicorn
from sharpo.envs.webshop import WebShop, build, demo, serve
from sharpo.envs.webshop.serve_app import LONGEST, MOST_BYTES, make_app
from sharpo.envs.webshop.serve_play import Plays

from sharpo.errors import ConfigError


class Page(HTMLParser):
    """What a page holds: its nodes' texts in order, what its buttons do, texts by id."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.nodes, self.actions, self.ids, self.inputs = [], [], {}, {}
        self._open, self.told = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "button" and given.get("name") == "action":
            self.actions.append(given["value"])
        if tag == "input":
            self.inputs[given.get("name")] = given.get("value")
        if tag in self.VOID:
            return
        self._open.append((tag, given))
        if "data-node" in given:
            self.nodes.append("")
        if "id" in given:
            self.ids[given["id"]] = ""

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        self.told += data
        for _, given in self._open:
            if "data-node" in given:
                self.nodes[-1] += data
            if "id" in given:
                self.ids[given["id"]] += data

    @property
    def observation(self):
        return self.ids["observation"][1:]  # a browser drops the line break after the tag


class Client:
    """A browser without a screen: follows redirects, sends forms."""

    def __init__(self, url):
        self.url, self.pool = url, urllib3.PoolManager(retries=False)

    def get(self, path, **headers):
        return self.pool.request("GET", self.url + path, headers=headers)

    def post(self, path, fields, **headers):
        body = fields if isinstance(fields, bytes) else urlencode(fields)
        return self.pool.request("POST", self.url + path, body=body, redirect=False, headers=headers)

    def begin(self, **fields):
        answer = self.post("/play", {"split": "all", **fields})
        assert answer.status == 303, answer.data
        return answer.headers["location"]

    def act(self, place, **fields):
        turn = self.step(place)["turn"]
        return self.post(place, {"turn": turn, **fields})

    def do(self, place, action):
        """Do what pressing the page's own button does."""
        if action.startswith("search["):
            answer = self.act(place, query=action[7:-1], action="click[search]")
        else:
            answer = self.act(place, action=action)
        assert (answer.status, answer.headers["location"]) == (303, place)

    def page(self, place):
        answer = self.get(place)
        assert answer.status == 200
        return Page(answer.data.decode())

    def step(self, place):
        return json.loads(self.get(place + ".json").data)


@pytest.fixture(scope="module")
def serving():
    """Serve an application on a free port; ended with the module."""
    servers = []

    def begin(app):
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        servers.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return Client(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")

    yield begin
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def client(serving, made_up_shop):
    return serving(make_app(partial(WebShop, str(made_up_shop))))


def same(client, place, env, text, info, earned=0.0):
    """The page, the data and the text environment tell the same."""
    page, step = client.page(place), client.step(place)
    assert step["observation"] == text == page.observation
    assert step["admissible"] == list(info["admissible"])
    assert step["instruction"] == env.current_task.instruction
    assert step["return"] == earned
    if step["ended"] is None:
        assert page.nodes == [node.text for node in env.store.nodes(env.snapshot().session)]
        searching = ["search[<your query>]"] if "query" in page.inputs else []
        assert {*searching, *page.actions} == set(info["admissible"])
    assert env.current_task.instruction in page.told
    return page, step


@pytest.mark.parametrize("informed", [True, False])
def test_the_oracles_play_is_the_text_environments(client, made_up_shop, informed):
    env = WebShop(str(made_up_shop))
    scores = []
    for number in range(0, 40, 8):
        place, earned, ended = client.begin(number=number), 0.0, False
        text, info = env.reset(options={"goal_idx": number, "informed_oracle": informed})
        same(client, place, env, text, info)
        while not ended:
            client.do(place, info["oracle"])
            text, reward, done, truncated, info = env.step(info["oracle"])
            earned, ended = earned + reward, done or truncated
            page, step = same(client, place, env, text, info, earned)
        outcome = env.outcome()
        assert (step["ended"], step["success"], step["score"]) == ("purchase", outcome.success, outcome.score)
        assert (page.ids["score"], page.ids["reward"]) == (str(outcome.score), str(earned))
        told = step["bought"]
        met = [one["met"] for one in (*told["attributes"], *told["options"], told["price"])]
        assert sum(met) / len(met) * told["verdict"]["kind"] == pytest.approx(outcome.score)
        assert page.ids["parts"].count("missed") == met.count(False)
        scores.append(outcome.score)
    assert (min(scores) == 1.0) == informed


@pytest.mark.parametrize("observation", ["text", "text_rich"])
def test_wandering_shows_what_the_text_environment_shows(serving, made_up_shop, observation):
    make = partial(WebShop, str(made_up_shop), observation=observation, show_attributes=True, max_turns=40)
    client, env, draws = serving(make_app(make)), make(), random.Random(0)
    pages = set()
    for number in range(3):
        place = client.begin(number=number)
        text, info = env.reset(options={"goal_idx": number})
        ended = False
        while not ended:
            _, step = same(client, place, env, text, info)
            pages.add(step["page"])
            choices = [one for one in info["admissible"] if one != "click[buy now]" and not one.startswith("search")]
            action = draws.choice(choices)
            if step["page"] == "index":
                action = "search[" + env.current_task.instruction.split(" with ")[0].lower() + "]"
            client.do(place, action)
            text, _, done, truncated, info = env.step(action)
            ended = done or truncated
        page, step = client.page(place), client.step(place)
        assert (step["ended"], step["score"], step["bought"]) == ("turn limit", 0.0, None)
        assert "The turns are used up" in client.get(place).data.decode()
        assert page.actions == []
    assert pages == {"index", "results", "item", "description", "features", "reviews", "attributes"}


def test_results_are_numbered_by_the_size_of_their_page(serving, made_up_shop):
    for observation, first in (("parts", 11), ("brief", 4)):
        client = serving(make_app(partial(WebShop, str(made_up_shop), observation=observation)))
        place = client.begin(number=0)
        for action in ("search[lamp]", "click[next >]"):
            client.do(place, action)
        assert f'<ol class="products" start="{first}">' in client.get(place).data.decode()


def test_typed_actions_are_read_as_an_agents(client, made_up_shop):
    env = WebShop(str(made_up_shop))
    place = client.begin(number=1)
    env.reset(options={"goal_idx": 1})
    for typed, action in (
        ("  Search[Lamp] ", "search[lamp]"),
        ("click[next >]", "click[next >]"),
        ("search[a [b] c]", "search[a [b] c]"),
        ("dance", "dance"),
    ):
        assert client.act(place, typed=typed).status == 303
        text, _, _, _, info = env.step(action)
        _, step = same(client, place, env, text, info)
        assert step["changed"] == info["changed"]
    assert "dance changed nothing; it cost a turn." in client.get(place).data.decode()
    assert step["turn"] == 4
    answer = client.act(place, typed="  ")
    assert (answer.status, client.step(place)["turn"]) == (400, 4)
    assert "nothing was typed" in answer.data.decode()


def test_the_search_boxs_words(client):
    place = client.begin(number=0)
    assert client.act(place, query=" Red\r\n[lamp] ", action="click[search]").status == 303
    assert client.step(place)["actions"] == ["search[red lamp]"]
    client.do(place, "click[back to search]")
    assert client.act(place, query=" ", action="click[search]").status == 303  # the button alone, as in the text
    step = client.step(place)
    assert (step["actions"][-1], step["changed"], step["page"]) == ("click[search]", False, "index")
    assert client.act(place, query="lamp").status == 303  # a form sent by the Enter key alone
    assert client.step(place)["page"] == "results"


def test_goals_by_number_by_split_and_by_seed(client, made_up_shop):
    env = WebShop(str(made_up_shop))
    for split, number in (("val", 7), ("train", 0), ("all", 3)):
        step = client.step(client.begin(split=split, number=number))
        assert (step["split"], step["number"]) == (split, number)
        if split != "all":
            assert (step["task"], step["instruction"]) == (
                env.task(split, number).id,
                env.task(split, number).instruction,
            )
    env.reset(seed=5)
    assert client.step(client.begin(split="train", seed=5))["task"] == env.current_task.id
    assert client.step(client.begin(seed=5))["task"] == client.step(client.begin(seed=5))["task"]
    assert client.begin(seed="") != client.begin()
    listed = client.get("/?split=val&page=1").data.decode()
    assert all(env.task("val", number).instruction in listed for number in range(10, 20))
    assert "page 2 of 50" in listed


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"number": "500", "split": "val"}, "goal number 500: val has 500 goals, numbers 0 to 499"),
        ({"number": "-1"}, "goal number must be a whole number from 0 on, got &#39;-1&#39;"),
        ({"number": "1.5"}, "got &#39;1.5&#39;"),
        ({"number": ""}, "goal number must be a whole number"),
        ({"number": "9" * 400}, "goal number must be a whole number"),
        ({"number": "٣"}, "goal number must be a whole number"),
        ({"seed": "soon"}, "seed must be a whole number"),
        ({"split": "<b>"}, "split &#39;&lt;b&gt;&#39; has no synthetic goals here; splits with goals: all, train, val"),
        ({"split": "test", "number": "0"}, "env.goal_split=index has no such split"),
    ],
)
def test_bad_choices_of_a_goal_are_told(client, fields, words):
    answer = client.post("/play", {"split": "all", **fields})
    assert answer.status == 400
    assert words in answer.data.decode()
    assert "Choose a goal" in answer.data.decode()


def test_bad_pages_of_goals_are_told(client):
    for query, words in (("page=99999", "page 99999: all has"), ("page=x", "page must be"), ("split=no", "has no")):
        answer = client.get(f"/?{query}")
        assert answer.status == 400
        assert words in answer.data.decode()


def test_unknown_sessions_paths_and_methods_are_told(client):
    for answer in (client.get("/play/nobody"), client.post("/play/nobody", {"turn": 0, "action": "click[search]"})):
        assert answer.status == 404
        assert "There is no such session" in answer.data.decode()
    answer = client.get("/play/nobody.json")
    assert answer.status == 404
    assert json.loads(answer.data)["error"].startswith("There is no such session")
    assert client.get("/nowhere").status == 404
    assert client.get("/play").status == 405
    key = client.begin(number=0).removeprefix("/play/")
    assert len(key) == 32
    assert client.get(f"/play/{key[:-1]}").status == 404


def test_a_form_sent_twice_or_from_an_old_page_changes_nothing(client):
    place = client.begin(number=0)
    assert client.post(place, {"turn": 0, "query": "lamp"}).status == 303
    before = client.step(place)
    for fields in ({"turn": 0, "query": "sofa"}, {"turn": "x", "query": "sofa"}, {"query": "sofa"}):
        answer = client.post(place, fields)
        assert answer.status == 409
        assert "no longer current" in answer.data.decode()
    assert client.step(place) == before
    client.do(place, next(one for one in before["admissible"] if one.startswith("click[d")))
    bought = {"turn": 2, "action": "click[buy now]"}
    assert [client.post(place, bought).status, client.post(place, bought).status] == [303, 409]
    after = client.step(place)
    assert (after["ended"], after["turn"]) == ("purchase", 3)
    answer = client.post(place, {"turn": 3, "action": "click[buy now]"})
    assert answer.status == 409
    assert "this goal is over (purchase)" in answer.data.decode()
    assert client.step(place) == after


def test_what_is_too_long_or_no_form_is_refused_and_costs_nothing(client):
    place = client.begin(number=0)
    answer = client.act(place, query="x" * (LONGEST + 1))
    assert answer.status == 400
    assert "query has 2,001 characters; at most 2,000 are taken" in answer.data.decode()
    assert client.act(place, query="x" * MOST_BYTES).status == 413
    assert client.post(place, b"turn=0&query=%ff").status == 400
    assert client.post(place, b"\xff\xfe").status == 400
    assert client.act(place, action="").status == 400
    assert client.step(place)["turn"] == 0
    assert client.act(place, query="😀" * LONGEST).status == 303
    assert client.step(place)["turn"] == 1


def test_only_this_machines_own_pages_are_listened_to(client):
    place, port = client.begin(number=0), client.url.rpartition(":")[2]
    for name in ("127.0.0.1", "localhost"):
        assert client.get("/", host=f"{name}:{port}").status == 200
    assert client.get("/", host=f"shop.example:{port}").status == 400
    fields = {"turn": 0, "query": "lamp"}
    for headers in ({"origin": "http://shop.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert client.post(place, fields, **headers).status == 403
        assert client.post("/play", {"number": 0}, **headers).status == 403
    assert client.step(place)["turn"] == 0
    assert client.post(place, fields, origin=client.url, **{"sec-fetch-site": "same-origin"}).status == 303
    told = client.get(place).headers
    assert "default-src 'none'" in told["content-security-policy"]
    assert told["cache-control"] == "no-store"


def test_a_program_may_ask_for_data_throughout(client):
    answer = client.post("/play", {"number": 0}, accept="application/json")
    place = answer.headers["location"]
    assert place.endswith(".json")
    answer = client.post(place.removesuffix(".json"), {"turn": 0, "query": "lamp"}, accept="application/json")
    assert json.loads(client.get(answer.headers["location"]).data)["page"] == "results"


def test_sessions_are_apart_and_end_by_idleness_or_number(serving, made_up_shop):
    now = [0.0]
    make = partial(WebShop, str(made_up_shop))
    client = serving(make_app(make, plays=Plays(make, most=3, idle=100.0, clock=lambda: now[0])))
    first, second = client.begin(number=0), client.begin(number=0)
    client.do(first, "search[lamp]")
    assert [client.step(place)["turn"] for place in (first, second)] == [1, 0]
    now[0] = 60.0
    assert client.get(second).status == 200
    now[0] = 120.0  # the first was not touched for more than 100
    answer = client.get(first)
    assert answer.status == 404
    assert "after 0.0277778 hours without a click" in answer.data.decode()
    assert client.get(second).status == 200
    for number in range(3):
        client.begin(number=number)
    assert client.get(second).status == 404


ODD = "<script>alert('x')</script> & \"so\" on\r\nand 😀"


def test_texts_are_escaped_and_come_through_as_they_are(serving, tmp_path):
    given = demo.source(60)
    for row in given.rows:
        row["name"] = f"{ODD} {row['name']}"
        row["full_description"] = ODD
        row["small_description"] = ["", " ", ODD]
        row["customization_options"] = {ODD: [{"value": '"><i>a</i>'}, {"value": "plain"}], "none": []}
    shop = build.build(given, tmp_path / "odd", "words").folder
    make = partial(WebShop, str(shop), goals="human")
    client, env = serving(make_app(make)), make()
    place = client.begin(number=0)
    text, info = env.reset(options={"goal_idx": 0})
    item = ('click["><i>a</i>]', "click[description]", "click[< prev]", "click[features]", "click[< prev]")
    for action in ("search[lamp <script>]", "first", *item, "click[buy now]"):
        chosen = action
        if action == "first":
            chosen = next(one for one in info["admissible"] if one.startswith("click[d"))
        client.do(place, chosen)
        text, _, _, _, info = env.step(chosen)
        same(client, place, env, text, info)
        html = client.get(place).data.decode()
        assert "<script" not in html
        assert "<i>" not in html
        assert "\r" not in html  # a browser would drop it; as a reference it comes through
    assert client.step(place)["ended"] == "purchase"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0: the pages have no log-in, so they are for this machine alone"),
        (["--port", "70000"], "--port 70000: a port is 0"),
        (["--max-turns", "0"], "--max-turns 0: an episode has at least one turn"),
        (["--data", "EMPTY"], "python -m sharpo.data webshop demo"),
        (["--split", "test"], "env.goal_split=index has no such split"),
        (["--goals", "human", "--split", "val"], "this catalogue has 80 human ones"),
    ],
)
def test_what_cannot_be_served_is_one_clear_message(made_up_shop, tmp_path, capsys, arguments, words):
    given = [str(tmp_path) if word == "EMPTY" else word for word in arguments]
    with pytest.raises(SystemExit) as raised:
        serve.main(["--port", "0", "--data", str(made_up_shop), *given])
    told = capsys.readouterr()
    assert (raised.value.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert words in told.err


def test_a_port_that_is_taken_is_told():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigError, match=r"choose another, or --port 0"):
            serve.listen("localhost", other.getsockname()[1])


def test_a_catalogue_too_small_for_the_splits_still_has_all_its_goals(serving, made_up_shop):
    client = serving(make_app(partial(WebShop, str(made_up_shop), goals="human")))
    assert client.step(client.begin(number=79))["task"] == "webshop/goal/79"
    assert "?split=val" not in client.get("/").data.decode()


def test_help_needs_no_library_of_the_pages():
    code = (
        "import sys\nfrom sharpo.envs.webshop import serve\n"
        "try: serve.main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'starlette', 'uvicorn', 'jinja2'} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--goal-split" in done.stdout
