"""The reward equals the original code's, quirks included."""

import json

import pytest
from sharpo.envs.webshop import reward
from sharpo.envs.webshop.colours import COLOURS
from sharpo.envs.webshop.fuzzy import token_set_ratio
from sharpo.envs.webshop.goals import Goal
from sharpo.envs.webshop.products import Product


def a_product(raw, price, nouns):
    return Product(
        asin=raw["asin"], title=raw["Title"], description=raw["Description"], bullets=tuple(raw["BulletPoints"]),
        label="", price=price, options=(), attributes=tuple(raw["Attributes"]), query=raw["query"], category="",
        product_category=raw["product_category"], nouns=tuple(nouns),
    )  # fmt: skip


def a_goal(raw):
    options = raw["goal_options"]
    options = tuple(options.items()) if isinstance(options, dict) else tuple(options)
    return Goal(
        asin=raw["asin"], category=raw["category"], query=raw["query"], name=raw["name"],
        product_category=raw["product_category"], instruction="", attributes=tuple(raw["attributes"]),
        options=options, price_upper=raw["price_upper"],
    )  # fmt: skip


def test_sixteen_purchases_score_what_the_original_gave(read):
    cases = read("reward_cases.json")
    assert len(cases) == 16
    for case in cases:
        product = a_product(case["product"], case["price"], case["product_nouns"])
        got = reward.judge(product, case["options"], a_goal(case["goal"]), case["goal_nouns"])
        info = case["info"]
        assert got.score == case["reward"], case["name"]
        assert (got.kind, got.query_match, got.category_match, got.title_score, got.attributes, got.price) == (
            info["r_type"], info["query_match"], info["category_match"], info["title_score"], info["r_att"],
            info["r_price"],
        ), case["name"]  # fmt: skip
        assert got.options == info.get("r_option"), case["name"]
        assert got.success == (case["reward"] == 1.0)


def test_the_colour_words_are_the_originals_in_order(webshop_data):
    assert list(COLOURS) == json.loads((webshop_data / "color_words.json").read_text())


@pytest.mark.parametrize(
    ("chosen", "wanted", "legacy", "fixed"),
    [
        ("rectangular", ("shape", "rectangular"), 0, 1),  # holds "tan": the pair keeps its word
        ("black2626", ("color", "black2626"), 0, 1),
        ("fashion black woman", ("color", "fashion black woman"), 0, 1),  # holds "ash"
        ("large", ("size", "x-large"), 1, 1),  # one set of words holds the other: part of the rule
        ("color", ("color", "navy blue"), 1, 0),  # the option's name takes part
        ("true black", ("color", "black"), 1, 1),
        ("navy", ("color", "black"), 0, 0),
    ],
)
def test_options_by_the_original_and_by_the_mended_rule(chosen, wanted, legacy, fixed):
    assert reward.options_met({"any": chosen}, (wanted,), "legacy") == legacy
    assert reward.options_met({"any": chosen}, (wanted,), "fixed") == fixed


def test_letters_of_the_latin_supplement_are_dropped_and_others_stay():
    assert token_set_ratio("café", "caf") == 100
    assert token_set_ratio("Ω", "ω") == 100
    assert token_set_ratio("?", "?") == 0
