"""Products, prices and goals are the original's, one for one, for the seeds of the recordings."""

import random

import pytest
from sharpo.envs.webshop import goals, products

from sharpo.errors import DataError


def as_recorded(goal):
    options = goal.options
    return {
        "asin": goal.asin, "category": goal.category, "query": goal.query, "name": goal.name,
        "product_category": goal.product_category, "instruction_text": goal.instruction,
        "attributes": list(goal.attributes), "price_upper": goal.price_upper,
        "goal_options": list(options) if options and isinstance(options[0], str) else dict(options),
        "weight": goal.weight,
    }  # fmt: skip


def shuffled(made):
    return [made[place] for place in goals.order(len(made))]


@pytest.mark.parametrize("human", [0, 1])
def test_edge_products_prices_and_goals(edge, human):
    recorded, make = edge
    shelf, made = make(human)
    run = recorded["runs"][f"text_{human}"]
    assert {one.asin: one.price for one in shelf} == run["prices"]
    for one, raw in zip(shelf, run["products"], strict=True):
        assert (one.asin, one.title, one.description, list(one.bullets), one.label) == tuple(
            raw[key] for key in ("asin", "Title", "Description", "BulletPoints", "Price")
        )
        assert {name: list(values) for name, values in one.options} == raw["options"]
        assert (list(one.attributes), one.query, one.category, one.product_category) == tuple(
            raw[key] for key in ("Attributes", "query", "category", "product_category")
        )
    assert [as_recorded(goal) for goal in shuffled(made)] == run["goals"]


@pytest.mark.parametrize("name", ["golden_text_synth.json.xz", "golden_text_rich_synth.json"])
def test_the_thousand_products_prices_and_goals(read, thousand, name):
    shelf, made = thousand
    recorded = read(name)
    ordered = shuffled(made)
    assert len(ordered) == recorded["num_goals"] == 6910
    assert {one.asin: one.price for one in shelf} == recorded["prices"]
    first = [{"asin": goal.asin, "instruction_text": goal.instruction} for goal in ordered[:50]]
    assert first == recorded["first_goals"]
    for episode in recorded["episodes"]:
        assert as_recorded(ordered[episode["goal_idx"]]) == episode["goal"]


def test_the_thousand_products_have_thirteen_human_goals(read, thousand):
    attributes, said = read("items_ins_v2_1000.json"), read("items_human_ins.1k.json")
    made = goals.human([(one, goals.entry(one.asin, attributes, said)) for one in thousand[0]], random.Random(0))
    assert len(made) == 13
    assert all(isinstance(option, str) for goal in made for option in goal.options)


def test_a_draw_never_takes_the_first_goal_and_gives_the_last_two_shares():
    draws = random.Random(5)
    counts = [0, 0, 0]
    for _ in range(3000):
        counts[goals.draw([1.0, 1.0, 1.0], draws)] += 1
    assert counts[0] == 0
    assert counts[2] == pytest.approx(2 * counts[1], rel=0.15)


def test_a_price_without_a_dollar_sign_is_refused_by_name():
    with pytest.raises(DataError, match=r"B0: its pricing 'free' holds no price"):
        products.prices("free", "B0")


def test_files_of_two_sets_are_refused(thousand):
    with pytest.raises(DataError, match="has no entry in the attributes file"):
        goals.entry(thousand[0][0].asin, {}, {})
