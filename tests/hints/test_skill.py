"""Skill texts: looked up by the task's family, shortened by whole lines, and really in front of the teacher."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

import pytest
import torch
from sharpo.envs import lexicon
from sharpo.envs.webshop import WebShop

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Update
from sharpo.errors import ConfigError, DataError
from sharpo.hints.attempt import TinyWording
from sharpo.hints.skill import GENERAL, SkillHint, load
from sharpo.policy.tiny import word_tokenizer
from sharpo.rollout.collate import collate, to_batch

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "envs" / "skills"
G, A, B = ["g1", "x", "x", "-", "g2"], ["a1", "x", "-", "a2", "-", "a3"], ["b1", "-", "b2"]
FAMILIES = {
    "household": ("pick", "look", "clean", "heat", "cool", "pick2"),
    "alfworld": ("pick", "look", "clean", "heat", "cool", "pick2"),
    "webshop": ("beauty", "electronics", "fashion", "garden", "grocery"),
    "searchqa": ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"),
}


class Teaching(Algorithm):
    @property
    def needs_teacher(self):
        return True

    def base_advantages(self, group):
        return torch.ones(sum(len(e.turns) for e in group.episodes))


@pytest.fixture
def own(tmp_path):
    """A small folder of texts."""
    for name, text in {"general": "g1 x x\n- g2\n", "a": "a1 x\n- a2\n- a3\n", "b": "b1\n- b2\n"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "c.txt").write_text("same as b\n")
    return f"{tmp_path}/"


@pytest.mark.parametrize("environment", FAMILIES)
def test_every_family_has_a_text_of_its_own_besides_the_general_one(made, environment):
    hint = SkillHint(environment)
    hint.check_families(FAMILIES[environment])
    assert set(hint.texts) == {*FAMILIES[environment], GENERAL}
    for family in FAMILIES[environment]:
        group = made.group((["look"], False), (["look"], False), task=made.task(family))
        built, text = made.spoken(hint, group, 0)
        assert (built.source, built.shortened) == (f"skill:{family}", False)
        assert text == "".join([*hint.texts[GENERAL], *hint.texts[family]]) + "\n"
        assert len(hint.texts[GENERAL]) >= 6
        assert len(hint.texts[family]) >= 4


def test_the_environments_class_names_its_texts_and_one_may_stand_for_another():
    assert SkillHint("sharpo.envs.household.Household").name == "household"
    assert SkillHint("sharpo.envs.webshop.WebShop").name == "webshop"
    assert SkillHint("sharpo.envs.alfworld.AlfWorld").texts == SkillHint("household").texts
    searchqa = SkillHint("searchqa").texts
    assert searchqa["bamboogle"] == searchqa["hotpotqa"] != searchqa["nq"]


def test_the_family_is_the_tasks_and_not_read_from_words(made):
    task = made.task("clean")  # its instruction speaks of putting a key on a table
    _, text = made.spoken(SkillHint("household"), made.group((["heat it"], False), (["x"], False), task=task), 1)
    assert "How to put a clean object somewhere" in text
    assert "How to put a hot object" not in text


def test_every_family_may_be_shown_its_own_first(made, own):
    group = made.group((["x"], False), (["x"], False), task=made.task("b"))
    built, text = made.spoken(SkillHint(own, families="all"), group, 0)
    assert (built.source, text.split()) == ("skill:all", [*G, *B, *A])


def test_too_long_drops_the_general_lines_first_and_the_familys_own_last(made, own):
    group = made.group((["x"], False), (["x"], False), task=made.task("a"))

    def of(budget, **knobs):
        built, text = made.spoken(SkillHint(own, max_tokens=budget, **knobs), group, 0)
        return built.shortened, text and text.split()

    assert of(11) == (False, [*G, *A])
    assert of(10) == (True, [*G[:3], *A])
    assert of(8) == of(6) == (True, A)
    assert of(5) == (True, A[:4])
    assert of(3) == (True, None)
    assert of(12, families="all") == (True, [*G[:3], *A, *B])
    assert of(11, families="all") == (True, [*A, *B])
    assert of(8, families="all") == (True, [*A, *B[:1]])
    assert of(6, families="all") == (True, A)
    assert len(SkillHint(own).build(group, 0, made.words, 9).ids) == 9
    assert SkillHint(own).build(group, 0, made.words, 2).ids == ()


def test_an_unknown_family_or_environment_says_what_there_is(made, own):
    group = made.group((["x"], False), (["x"], False), task=made.task("z"))
    with pytest.raises(DataError, match=r"no text for the family 'z'; the folder has a.txt, b.txt, c.txt, general.txt"):
        SkillHint(own).build(group, 0, made.words)
    with pytest.raises(ConfigError, match=r"hint.skills=x.Chess: there are no skill texts in .*household, searchqa"):
        SkillHint("x.Chess")
    with pytest.raises(ConfigError, match=r"no skill texts for the wording 'tiny' in .*searchqa"):
        SkillHint("searchqa", wording=TinyWording())
    with pytest.raises(ConfigError, match=r"hint.families must be one of own, all; got 'some'"):
        SkillHint(own, families="some")
    with pytest.raises(ConfigError, match=r"hint.max_tokens must be >= 1"):
        SkillHint(own, max_tokens=0)


@pytest.mark.parametrize("words", [lexicon.household(("Apple",), 4), lexicon.alfworld()], ids=["household", "alfworld"])
def test_a_tiny_policy_knows_every_word_of_its_texts(words):
    tokenizer = word_tokenizer(words)
    _, texts = load("household", TinyWording.skills)
    assert set(texts) == {*FAMILIES["household"], GENERAL}
    for family, lines in texts.items():
        assert "<|unk|>" not in tokenizer.encode("".join(lines)).tokens, family
    assert len(set(texts.values())) == 7


@pytest.mark.parametrize("style", ["text", "brief"])
def test_a_tiny_shopper_knows_every_word_of_its_texts(made_up_shop, style):
    tokenizer = word_tokenizer(WebShop(str(made_up_shop), observation=style).lexicon())
    _, texts = load("webshop", TinyWording.skills)
    assert set(texts) == {*FAMILIES["webshop"], GENERAL}
    for family, lines in texts.items():
        assert "<|unk|>" not in tokenizer.encode("".join(lines)).tokens, family


def test_the_familys_part_reaches_the_teacher(made):
    tokenizer = word_tokenizer(lexicon.household(("Apple",), 4))
    hint = SkillHint("sharpo.envs.household.Household", wording=TinyWording())
    groups = [
        made.group((["look"], True), (["look"], False), task=made.task(family, f"t/{family}"))
        for family in ("clean", "heat")
    ]
    rows = collate(groups, Teaching(), hint, lambda text: tokenizer.encode(text).ids).rows
    batch = to_batch(
        rows, pad_id=0, update=Update(tokens=4, sequences=4), policy_version=0, with_teacher=True, advantages=None
    )
    seen = [
        tokenizer.decode(ids[mask].tolist(), skip_special_tokens=False)
        for ids, mask in zip(batch.teacher_token_ids, batch.teacher_attention, strict=True)
    ]
    assert ["clean it with the sinkbasin" in text for text in seen] == [True, True, False, False]
    assert ["heat it with the microwave" in text for text in seen] == [False, False, True, True]
    assert all("open the receptacle" in text for text in seen)
    assert torch.equal(batch.teacher_token_ids[:, -2:], batch.token_ids)


def test_every_text_is_in_the_package():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["sharpo.envs"]
    paths = list(FOLDER.rglob("*.txt"))
    assert len(paths) > len(FAMILIES)
    for path in paths:
        name = str(path.relative_to(ROOT / "envs"))
        assert any(fnmatch.fnmatch(name, p) and name.count("/") == p.count("/") for p in patterns), name
