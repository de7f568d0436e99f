"""Dense retrieval on a tiny BERT: the vectors are the formula, the search is exact, and indexes know their encoder."""

import json
import pickle
import shutil
import threading
import time

import numpy as np
import pytest
import uvicorn
from hydra.utils import instantiate
from sharpo.envs.searchqa import dense as dense_module
from sharpo.envs.searchqa import index, server
from sharpo.envs.searchqa.client import HttpRetriever
from sharpo.envs.searchqa.dense import META, PROGRESS, VECTORS, DenseRetriever
from sharpo.envs.searchqa.encoder import Encoder
from sharpo.envs.searchqa.retriever import Retriever
from sharpo.envs.searchqa.server import make_app

from sharpo.cli import read
from sharpo.errors import ConfigError, DataError

pytest.importorskip("faiss", reason="dense retrieval needs faiss-cpu: pip install 'sharpo[dense]'")
QUERIES = ["Which river flows through Varnholt?", "Gulf Cup"]


def _reference_vector(folder, text, most=256):
    """One text alone, in plain loops: the mean of its tokens' last states, at length 1."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    ids = tokenizer(text, truncation=True, max_length=most)["input_ids"]
    with torch.inference_mode():
        states = model(torch.tensor([ids])).last_hidden_state[0].tolist()
    mean = [sum(state[i] for state in states) / len(states) for i in range(len(states[0]))]
    length = sum(x * x for x in mean) ** 0.5
    return [x / length for x in mean], len(ids)


def test_a_vector_is_the_mean_of_the_states_at_length_1_whatever_else_is_in_the_batch(encoder):
    texts = ["river", "a much longer text than the others, of many words", "x " * 600, ""]
    for kind, prefix in (("query", "query: "), ("passage", "passage: ")):
        made = Encoder(encoder, batch=3).encode(texts, kind)
        assert made.shape == (4, 32)
        assert made.dtype == np.float32
        expected = [_reference_vector(encoder, prefix + text) for text in texts]
        np.testing.assert_allclose(made, [vector for vector, _ in expected], atol=1e-5)
        assert expected[2][1] == 256  # cut


def test_the_search_is_exact_over_all_passages(encoder):
    retriever = DenseRetriever(encoder)
    assert isinstance(retriever, Retriever)
    documents = list(retriever.corpus.documents([]))
    asked = [np.array(_reference_vector(encoder, f"query: {query}")[0]) for query in QUERIES]
    kept = np.array([_reference_vector(encoder, f"passage: {contents}")[0] for _, contents in documents])
    for k in (1, 5, 1000):
        for own, vector in zip(retriever.search(QUERIES, k), asked, strict=True):
            scores = kept @ vector
            best = np.argsort(-scores, kind="stable")[:k]
            assert [(p.id, p.contents) for p in own] == [documents[place] for place in best]
            assert [p.score for p in own] == pytest.approx(scores[best].tolist(), abs=1e-5)
    alone = [retriever.search([query], 5)[0] for query in QUERIES]
    assert [[p.id for p in found] for found in alone] == [[p.id for p in f] for f in retriever.search(QUERIES, 5)]
    assert retriever.search(QUERIES[:1], 5)[0] == alone[0]
    assert retriever._remembered.cache_info().hits == 1
    assert retriever.search([], 3) == []


def test_an_interrupted_build_goes_on_where_it_stopped(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(dense_module, "CHUNK", 5)
    whole = DenseRetriever(encoder, index=str(tmp_path / "whole"))
    assert whole.build() == 24

    def killed(done):
        if done == 10:
            raise KeyboardInterrupt

    broken = DenseRetriever(encoder, index=str(tmp_path / "broken"))
    with pytest.raises(KeyboardInterrupt):
        broken.build(killed)
    assert not (broken.folder / META).exists()
    seen = []
    again = DenseRetriever(encoder, index=str(tmp_path / "broken"))
    assert again.build(seen.append) == 24
    assert seen == [15, 20, 24]  # the first ten were there
    one, two = (np.load(found.folder / VECTORS, mmap_mode="r") for found in (whole, again))
    assert (np.asarray(one) == np.asarray(two)).all()
    assert not (again.folder / PROGRESS).exists()
    assert isinstance(again._open()[0].base, np.memmap)  # mapped, not read


def test_what_another_encoder_began_is_not_gone_on_with(make_encoder, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(dense_module, "CHUNK", 5)

    def killed(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DenseRetriever(make_encoder(1), index=str(tmp_path / "index")).build(killed)
    seen = []
    DenseRetriever(encoder, index=str(tmp_path / "index")).build(seen.append)
    assert seen == [5, 10, 15, 20, 24]


@pytest.mark.parametrize("change", ["weights", "prefix", "length"])
def test_an_index_of_another_encoder_is_refused(make_encoder, encoder, tmp_path, change):
    folder = str(tmp_path / "index")
    DenseRetriever(encoder, index=folder).search(QUERIES, 1)
    other = {
        "weights": lambda: DenseRetriever(make_encoder(2), index=folder),
        "prefix": lambda: DenseRetriever(encoder, index=folder, query=""),
        "length": lambda: DenseRetriever(encoder, index=folder, most_tokens=64),
    }[change]()
    with pytest.raises(DataError, match="was made by another encoder, or with other prefixes or lengths"):
        other.search(QUERIES, 1)
    assert DenseRetriever(encoder).folder != other.corpus.cache("dense", other.encoder.fingerprint)


def test_what_does_not_belong_together_is_one_message(encoder, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"there is no encoder in .*set env\.retriever\.encoder"):
        DenseRetriever(str(tmp_path)).search(["a"], 1)
    with pytest.raises(DataError, match=r"there is no corpus .*nowhere\.jsonl: set env\.retriever\.corpus"):
        DenseRetriever(encoder, str(tmp_path / "nowhere.jsonl"), str(tmp_path / "new" / "index")).build()
    assert not (tmp_path / "new").exists()
    folder = tmp_path / "index"
    DenseRetriever(encoder, index=str(folder)).search(["a"], 1)
    other = tmp_path / "corpus.jsonl"
    other.write_text('{"id": "1", "contents": "T\\nx"}\n')
    with pytest.raises(DataError, match="is not of "):
        DenseRetriever(encoder, str(other), str(folder)).search(["a"], 1)
    meta = json.loads((folder / META).read_text())
    (folder / META).write_text(json.dumps({**meta, "layout": 0}))
    with pytest.raises(DataError, match="holds another kind of index"):
        DenseRetriever(encoder, index=str(folder)).search(["a"], 1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(DataError, match="not empty"):
        DenseRetriever(encoder, index=str(tmp_path / "full")).search(["a"], 1)
    monkeypatch.setattr(dense_module, "SMALL_BYTES", 10)
    with pytest.raises(DataError, match=r"has no dense index .*sharpo.envs.searchqa.index --corpus .* --encoder"):
        DenseRetriever(encoder, index=str(tmp_path / "new")).search(["a"], 1)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "special_tokens_map.json", "spiece.model"])
def test_a_fingerprint_is_of_every_file_that_a_vector_depends_on(encoder, tmp_path, name):
    folder = tmp_path / "copy"
    shutil.copytree(encoder, folder)
    assert Encoder(str(folder)).fingerprint == Encoder(encoder).fingerprint
    (folder / "README.md").write_text("about it")
    assert Encoder(str(folder)).fingerprint == Encoder(encoder).fingerprint
    with (folder / name).open("ab") as file:
        file.write(b" ")
    assert Encoder(str(folder)).fingerprint != Encoder(encoder).fingerprint


@pytest.mark.parametrize("knobs", [{"batch": 0}, {"most_tokens": 0}, {"cached": -1}])
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ConfigError, match=r"env\.retriever"):
        DenseRetriever("x", **knobs)


def test_the_commands_build_it_and_the_server_serves_it_to_both_dialects(encoder, tmp_path, capsys):
    corpus = str(DenseRetriever(encoder).corpus.path)
    folder = str(tmp_path / "index")
    index.main(["--corpus", corpus, "--index", folder, "--encoder", encoder])
    assert "24 passages, 32 numbers each" in capsys.readouterr().out
    here = DenseRetriever(encoder, corpus, folder)
    app = make_app(here)
    served = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    while not served.started:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{served.servers[0].sockets[0].getsockname()[1]}/retrieve"
    try:
        expected = [[p.id for p in found] for found in here.search(QUERIES, 3)]
        for dialect in ("search_r1", "verl_agent"):
            found = HttpRetriever(url, dialect).search(QUERIES, 3)
            assert [[p.id for p in passages] for passages in found] == expected
    finally:
        served.should_exit = True
        thread.join()
    options = server.argparse.Namespace(
        encoder=encoder, corpus=corpus, index=folder, query="query: ", passage="passage: ", device="cpu"
    )
    assert server.dense(options).search(QUERIES, 3) == here.search(QUERIES, 3)


def test_it_is_chosen_in_the_configuration_and_travels_to_workers(encoder):
    cfg = read("train", ["env=searchqa", "env/retriever=dense", f"env.retriever.encoder={encoder}"])
    env = pickle.loads(pickle.dumps(instantiate(cfg.env).retriever))
    assert isinstance(env, DenseRetriever)
    game = instantiate(cfg.env)
    game.reset(options={"task": game.task("val", 0)})
    text = game.step("<search>Mount Terrik</search>")[0]
    assert text.startswith('<information>{"result": "Doc 1: ')
    assert env.search(["Mount Terrik"], 3) == game.retriever.search(["Mount Terrik"], 3)
    http = read("train", ["experiment=sharpo_searchqa", "env/retriever=bm25"])
    assert http.env.retriever._target_.endswith("Bm25Retriever")


def test_threads_of_torch_and_of_faiss_take_turns_in_one_process(encoder):
    import torch

    expected = DenseRetriever(encoder).search(QUERIES, 3)  # before any other thread
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        retriever, found = DenseRetriever(encoder, cached=0), []
        callers = [threading.Thread(target=lambda: found.append(retriever.search(QUERIES, 3))) for _ in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
        assert len(found) == 8
        for mine, theirs in (pair for answer in found for pair in zip(answer, expected, strict=True)):
            assert [p.id for p in mine] == [p.id for p in theirs]
            assert [p.score for p in mine] == pytest.approx([p.score for p in theirs], abs=1e-5)
    finally:
        torch.set_num_threads(before)
