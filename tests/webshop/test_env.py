"""WebShop as an environment: tasks, splits, oracles, purchases, moments to return to, prompts."""

import pickle
import random
import time

import numpy as np
import pytest
from sharpo.envs.webshop import WebShop, build, goals
from sharpo.envs.webshop.env import ASK

from sharpo.episode import Task
from sharpo.errors import ConfigError, DataError


def play(env, task, informed):
    _, info = env.reset(options={"task": task, "informed_oracle": informed})
    earned, ended = 0.0, False
    while not ended:
        _, reward, done, truncated, info = env.step(info["oracle"] or "click[nothing]")
        earned, ended = earned + reward, done or truncated
    return env.outcome(), earned


def goals_at(env, places):
    return [env._task(f"webshop/goal/{place}", int(place)) for place in places]


def test_the_exact_purchase_succeeds_exactly_where_the_catalogue_says_so(thousand_built):
    env = WebShop(str(thousand_built.folder))
    met = thousand_built.attainable("synthetic", "legacy")
    places = range(0, len(met), 11)  # a prime: a product's goals differ by their place in its grid of options
    outcomes = [play(env, task, True)[0] for task in goals_at(env, places)]
    assert all(outcome.terminated for outcome in outcomes)
    assert [outcome.success for outcome in outcomes] == met[places].tolist()
    assert np.mean([outcome.score for outcome in outcomes]) == pytest.approx(0.990, abs=0.002)


def test_what_the_exact_purchase_misses_earns_nothing_until_the_rule_is_mended(thousand_built):
    env = WebShop(str(thousand_built.folder))
    missed = goals_at(env, np.flatnonzero(~thousand_built.attainable("synthetic", "legacy"))[:40])
    for task in missed:
        outcome, earned = play(env, task, True)
        assert outcome.terminated
        assert not outcome.success
        assert (outcome.score < 1, earned) == (True, 0.0)
    mended = WebShop(str(thousand_built.folder), fixes=["options"])
    assert all(play(mended, task, True)[0].success for task in missed)


@pytest.mark.timeout(900)
def test_the_first_hit_over_all_goals(thousand_built):
    env = WebShop(str(thousand_built.folder))
    outcomes = [play(env, task, False)[0] for task in goals_at(env, range(6910))]
    assert all(outcome.terminated for outcome in outcomes)
    assert sum(outcome.success for outcome in outcomes) == 88  # 1.3 %
    assert np.mean([outcome.score for outcome in outcomes]) == pytest.approx(0.566, abs=0.001)


def test_only_a_full_purchase_earns_unless_graded(shop):
    env = shop()
    task = next(task for index in range(50) if "with" in (task := env.task("val", index)).instruction)
    outcome, earned = play(env, task, True)
    assert (outcome.success, outcome.score, earned) == (True, 1.0, 10.0)
    for graded in (False, True):
        env = shop(graded=graded, reward=2.0)
        env.reset(options={"task": task})
        asin = env.catalogue.goal("synthetic", task.payload["place"]).asin
        title = env.catalogue.shelf[asin].title.lower()
        env.step(f"search[{title}]")
        env.step(f"click[{asin.lower()}]")
        _, reward, done, _, info = env.step("click[buy now]")  # no option was chosen
        assert done
        assert 0 < info["score"] < 1
        assert reward == (2.0 * info["score"] if graded else 0.0)
        assert (info["won"], env.outcome().success, env.outcome().score) == (False, False, info["score"])
        assert env.step("search[more]")[1:3] == (0.0, True)  # the purchase stands


def test_numbers_of_the_benchmark_name_the_same_goals(thousand_built, read):
    env = WebShop(str(thousand_built.folder), observation="text")
    recorded = read("golden_text_synth.json.xz")
    for number, first in enumerate(recorded["first_goals"]):
        text, _ = env.reset(options={"goal_idx": number})
        assert env.current_task.instruction == first["instruction_text"]
        assert text == f"WebShop [SEP] Instruction: [SEP] {first['instruction_text'].strip()} [SEP] Search"
        assert env.task("val", number).instruction == first["instruction_text"]
    with pytest.raises(ConfigError, match="goal_idx=6910"):
        env.reset(options={"goal_idx": 6910})


def test_a_weighted_draw_is_the_originals(thousand_built):
    env = WebShop(str(thousand_built.folder))
    weights = thousand_built.table("synthetic")["weight"][goals.order(6910)].tolist()
    drawn = []
    for seed in range(200):
        env.reset(seed=seed, options={"weighted": True})
        number = goals.draw(weights, random.Random(seed))
        assert env.current_task.id == f"webshop/goal/{number}"
        drawn.append(number)
    assert 0 not in drawn
    assert np.mean([weights[number - 1] for number in drawn]) > 5 * np.mean(weights)  # the goal before lends its weight
    assert np.mean([weights[number] for number in drawn]) < 2 * np.mean(weights)
    with pytest.raises(ConfigError, match="weighted=True without a seed: give one"):
        env.reset(options={"weighted": True})


def test_splits_by_number_and_by_product(thousand_built):
    def parts(way, **knobs):
        env = WebShop(str(thousand_built.folder), goal_split=way, **knobs)
        rows = thousand_built.table("synthetic")["row"]
        places = {split: env._places(split) for split in ("train", "val")}
        return places, {split: set(rows[found].tolist()) for split, found in places.items()}

    places, products = parts("index")
    assert (len(places["val"]), len(places["train"])) == (500, 6410)
    assert not set(places["val"]) & set(places["train"])
    assert products["val"] & products["train"]  # other goals of the same products: a leak
    places, products = parts("asin")
    assert not products["val"] & products["train"]
    assert 100 < len(places["val"]) < len(places["train"])
    leaked, _ = parts("legacy_workers")
    assert set(leaked["val"]) <= set(leaked["train"])  # every validation goal is trained on
    met, _ = parts("index", attainable_only=True)
    assert len(met["val"]) + len(met["train"]) == 6452
    paper = WebShop(str(thousand_built.folder), goal_split="paper")
    assert [paper.num_tasks(split) for split in ("test", "val", "train")] == [500, 1000, 5410]


def test_splits_that_the_catalogue_cannot_give_are_refused(thousand_built, shop):
    with pytest.raises(ConfigError, match="holds out 500 goals, but this catalogue has 13 human ones"):
        WebShop(str(thousand_built.folder), goals="human").num_tasks("val")
    with pytest.raises(ConfigError, match=r"'test': env\.goal_split=index has no such split"):
        shop().num_tasks("test")
    with pytest.raises(ConfigError, match="there is no goal 500"):
        shop().task("val", 500)


@pytest.mark.parametrize("options", [{"weighted": True}, {"goal_idx": 0}])
def test_a_kind_without_goals_is_named(webshop_data, tmp_path, options):
    files = (webshop_data / name for name in ("items_shuffle_1000.json", "items_ins_v2_1000.json"))
    env = WebShop(str(build.build(build.files(*files, limit=20), tmp_path / "shop", "words").folder), goals="human")
    with pytest.raises(ConfigError, match=r"env\.goals=human: the catalogue in .* has no goals of this kind; choose"):
        env.reset(seed=0, options=options)


def test_human_goals_are_met_by_the_exact_purchase(shop):
    env = shop(goals="human", goal_split="asin")
    assert all(play(env, env.task("train", index), True)[0].success for index in range(0, 60, 3))


def test_bad_settings_name_their_field(shop):
    for knobs, words in (
        ({"observation": "html"}, "env.observation must be among parts"),
        ({"goals": "mine"}, "env.goals must be among"),
        ({"goal_split": "random"}, "env.goal_split must be among"),
        ({"fixes": ["all"]}, "env.fixes must be among options, search_bar; got 'all'"),
        ({"reward": 0}, "env.reward must be above 0"),
    ):
        with pytest.raises(ConfigError) as raised:
            shop(**knobs)
        assert words.replace("parts", "text, text_rich, parts") in str(raised.value)


def test_a_task_of_another_catalogue_or_environment_is_refused(shop, thousand_built):
    env = shop()
    with pytest.raises(DataError, match="was made from the catalogue"):
        env.reset(options={"task": WebShop(str(thousand_built.folder)).task("val", 0)})
    with pytest.raises(DataError, match="not a task of WebShop"):
        env.reset(options={"task": Task("household/val/0", "pick", "put", 0, {})})


def test_a_search_where_no_bar_is_shown(shop):
    for fixes, page in (((), "Page 1"), (("search_bar",), "Description")):
        env = shop(fixes=fixes)
        env.reset(options={"task": env.task("val", 0)})
        env.step("search[lamp]")
        first = next(action for action in env._observed.admissible if action.startswith("click[d"))
        env.step(first)
        assert page in env.step("search[lamp]")[0]


def test_what_is_shown_and_offered(shop):
    env = shop()
    text, info = env.reset(options={"task": env.task("val", 0)})
    assert text == "'Search'"
    assert info["admissible"] == (ASK, "click[search]")
    text, _, _, _, info = env.step("search[lamp]")
    assert text.startswith("'Back to Search' [SEP] 'Page 1 (Total results: ")
    assert info["admissible"][:2] == ("click[back to search]", "click[next >]")
    assert env.current_task.instruction not in text
    assert env.step("click[nothing of the kind]")[0] == text


def test_a_moment_is_returned_to_in_any_environment_and_costs_nothing(shop):
    env, other = shop(), shop()
    _, info = env.reset(options={"task": env.task("val", 3), "informed_oracle": True})
    info = env.step(info["oracle"])[4]
    moment = env.snapshot()
    assert len(pickle.dumps(env._session)) < 10_000
    began = time.process_time()  # not the clock: other processes run too
    for _ in range(1000):
        env.restore(env.snapshot())
    assert (time.process_time() - began) / 1000 < 1e-4

    def rest(shopper):
        shopper.restore(moment)
        lines, advice, ended = [], shopper._observed.oracle, False
        while not ended:
            line = shopper.step(advice)
            advice, ended = line[4]["oracle"], line[2] or line[3]
            lines.append(line)
        return lines, shopper.outcome()

    first = rest(env)
    assert rest(env) == first == rest(other)
    assert first[1].success


def test_environments_of_one_process_share_the_catalogue(shop):
    one, two = shop(), shop(observation="text")
    one.num_tasks("val"), two.num_tasks("val")
    assert one.catalogue is two.catalogue
    assert one.store.search is two.store.search


def test_a_small_catalogues_words_cover_whatever_is_shown_and_every_click_is_one_token(shop):
    from sharpo.policy.tiny import UNKNOWN, word_tokenizer

    for style in ("text", "text_rich", "parts", "brief"):
        env = shop(observation=style, show_attributes=True, max_turns=60)
        tokenizer = word_tokenizer(env.lexicon())

        def covered(text, tokenizer=tokenizer):
            return UNKNOWN not in tokenizer.encode(text).tokens

        for index in range(12):
            text, info = env.reset(options={"task": env.task("val", index), "informed_oracle": True})
            ended = False
            while not ended:
                assert covered(text), text
                assert covered(env.current_task.instruction)
                for action in info["admissible"]:
                    if action.startswith("click[") and style != "brief":
                        assert tokenizer.encode(action).tokens == [action]
                said = tokenizer.decode(tokenizer.encode(info["oracle"]).ids)
                meant = [env._heard(env._session, action) for action in (said, info["oracle"])]
                assert meant[0] == meant[1] or "search[" in said
                for page in ("description", "features", "attributes"):
                    if f"click[{page}]" in info["admissible"]:
                        shown = env.step(f"click[{page}]")[0]
                        assert covered(shown), shown
                        env.step("click[< prev]")
                text, _, done, truncated, info = env.step(said)
                ended = done or truncated
            assert covered(text), text
            assert env.outcome().success
