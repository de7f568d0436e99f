"""Client and server speak both dialects over real sockets, and faults end as retries or as one clear error."""

import json
import pickle
import threading
import time
import urllib.request

import pytest
import uvicorn
from sharpo.envs.searchqa.client import HttpRetriever
from sharpo.envs.searchqa.retriever import Bm25Retriever, RetrievalError, Retriever
from sharpo.envs.searchqa.server import make_app

from sharpo.errors import ConfigError

QUERIES = ["Which river flows through Varnholt?", "Gulf Cup", "zzz"]


@pytest.fixture(scope="module")
def url():
    """Our own server over the built-in passages."""
    server = uvicorn.Server(uvicorn.Config(make_app(Bm25Retriever()), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/retrieve"
    server.should_exit = True
    thread.join()


def post(url, body):
    request = urllib.request.Request(url, body if isinstance(body, bytes) else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.parametrize("dialect", ["search_r1", "verl_agent"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_over_http_the_same_passages_are_found_as_in_process(url, dialect, k):
    here, there = Bm25Retriever(), HttpRetriever(url, dialect)
    assert isinstance(there, Retriever)
    assert there.search(QUERIES, k) == here.search(QUERIES, k)
    assert there.search([], k) == []


def test_the_server_answers_in_both_dialects(url):
    status, answer = post(url, {"queries": ["Varnholt", "Kessel"], "topk": 2, "return_scores": True})
    assert status == 200
    assert [len(found) for found in answer["result"]] == [2, 2]
    first = answer["result"][0][0]
    assert set(first) == {"document", "score"}
    assert first["document"]["title"] == "Varnholt"
    assert first["document"]["contents"] == f'"Varnholt"\n{first["document"]["text"]}'
    status, answer = post(url, {"query": "Varnholt", "topk": None, "return_scores": False})
    assert status == 200
    assert len(answer["result"]) == 1
    assert len(answer["result"][0]) == 3
    assert answer["result"][0][0] == first["document"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "either 'queries'"),
        ({"query": "a", "queries": ["b"]}, "either 'queries'"),
        ({"queries": "a"}, "list of texts"),
        ({"query": 3}, "list of texts"),
        ({"query": "a", "topk": "x"}, "'topk' must be"),
        ({"query": "a", "topk": 10**9}, "'topk' must be"),
        (b"{", ""),
    ],
)
def test_a_request_of_no_dialect_is_refused(url, body, message):
    status, answer = post(url, body)
    assert status == 422
    assert message in answer["error"]


def test_our_client_says_when_it_is_refused(url):
    with pytest.raises(RetrievalError, match=r"refused a search \(status 422: .*'topk' must be"):
        HttpRetriever(url).search(["a"], 10**9)
    with pytest.raises(RetrievalError, match=r"refused a search \(status 404"):
        HttpRetriever(url.replace("retrieve", "nowhere")).search(["a"], 1)


@pytest.mark.parametrize("fault", [500, 502, 503, 504, "hang", "reset", "cut"])
def test_a_fault_that_passes_is_tried_again(faulty, fault):
    server = faulty(fault, fault)
    clock = time.monotonic()
    patience = 1.0 if fault == "hang" else 10.0  # a busy machine answers late
    found = HttpRetriever(server.url, tries=3, wait_s=0.02, timeout_s=patience).search(["q"], 3)
    assert [passage.contents for passage in found[0]] == ['"T"\nx']
    assert server.bodies == [{"queries": ["q"], "topk": 3, "return_scores": True}] * 3
    assert time.monotonic() - clock >= 0.06  # waited one and two times wait_s


@pytest.mark.parametrize("fault", [500, "hang", "reset", "cut"])
def test_a_fault_that_stays_is_one_error(faulty, fault):
    server = faulty(*[fault] * 5)
    with pytest.raises(RetrievalError, match=rf"{server.url} did not answer a search in 2 tries \(the last: "):
        HttpRetriever(server.url, tries=2, wait_s=0.0, timeout_s=0.2 if fault == "hang" else 10.0).search(["q"], 3)
    assert len(server.bodies) == 2


@pytest.mark.parametrize("fault", [400, 404, "html", "foreign", "two"])
def test_an_answer_that_will_not_change_is_not_asked_for_again(faulty, fault):
    server = faulty(fault)
    with pytest.raises(RetrievalError, match=r"refused a search|no list of passages|2 lists of passages for 1"):
        HttpRetriever(server.url, tries=3, wait_s=0.0).search(["q"], 3)
    assert len(server.bodies) == 1


def test_servers_are_taken_in_turn_and_a_dead_one_is_passed_over(faulty):
    one, two = faulty(), faulty()
    client = HttpRetriever([one.url, two.url], "verl_agent", tries=2, wait_s=0.0)
    client.search(["a", "b", "c", "d"], 1)
    assert (len(one.bodies), len(two.bodies)) == (2, 2)
    assert one.bodies[0]["query"] in "abcd"
    dead = HttpRetriever(["http://127.0.0.1:9/retrieve", two.url], tries=2, wait_s=0.0, timeout_s=1.0)
    for _ in range(4):
        assert dead.search(["q"], 1)[0]


def test_many_threads_share_one_client(url):
    client, answers = HttpRetriever(url), []
    threads = [threading.Thread(target=lambda: answers.append(client.search(QUERIES, 3))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [Bm25Retriever().search(QUERIES, 3)] * 16


def test_a_client_travels_to_other_processes(url):
    client = HttpRetriever(url, tries=2)
    client.search(["a"], 1)
    again = pickle.loads(pickle.dumps(client))
    assert (again.urls, again.tries) == (client.urls, 2)
    assert again.search(QUERIES, 2) == client.search(QUERIES, 2)


@pytest.mark.parametrize(
    "knobs", [{"urls": []}, {"urls": "localhost"}, {"dialect": "x"}, {"tries": 0}, {"timeout_s": 0.0}]
)
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ConfigError, match=r"env\.retriever"):
        HttpRetriever(**{"urls": "http://a/b", **knobs})
