"""What becomes of a model's text: ours never guesses, the benchmark family's always does and judges the form."""

import pytest
from sharpo.envs.alfworld import AlfWorld

from sharpo.engine.scripted import TextEngine
from sharpo.env import parse_benchmark, parse_tags
from sharpo.policy.tiny import TinyModel
from sharpo.rollout.collector import Collector
from sharpo.rollout.env_pool import InlineEnvPool
from sharpo.rollout.prompts import quoted
from sharpo.rollout.render import Renderer

GOOD = "<think>The desk.</think><action> Go to desk 1 </action>"


@pytest.mark.parametrize(
    ("text", "action", "valid"),
    [
        (GOOD, "go to desk 1", True),
        ("<action>look</action><think>after</think>", "look", True),
        ("<think>a</think><ACTION>Look</Action>", "look", True),
        ("<think>a</think><action>fly away</action>", "fly away", True),
        ("<think>a</think><action>look</action><action>examine desk 1</action>", "look", True),
        ("<Think>a</Think><action>look</action>", "look", False),
        ("<action>look</action>", "look", False),
        ("<think>a<action>look</action>", "look", False),
        ("<think>看</think><action>look</action>", "look", False),
        ("<think>é</think><action>look</action>", "look", True),
        ("<think>a</think><action></action>", "", False),
        ("</action><think>a</think><action>look", "", False),
        ("I would Go to the desk now, since the mug is there", "sk now, since the mug is there", False),
        ("<think>a</think><action>look", "<think>a</think><action>look", False),
        ("", "", False),
    ],
)
def test_the_benchmarks_form_always_acts_and_judges_the_form_alone(text, action, valid):
    found = parse_benchmark(text)
    assert (found.action, found.valid) == (action, valid)
    if found.chars:
        start, stop = found.chars["action"]
        assert text[start:stop].lower() == action
    assert (parse_tags(text) is None) == (not found.chars)


def test_a_letter_that_grows_in_lower_case_does_not_move_the_action():
    text = "<think>İİİ</think><action>Take Mug</action>"
    start, stop = parse_benchmark(text).chars["action"]
    assert text[start:stop] == "Take Mug"


class Said(TextEngine):
    """Says its lines word for word."""

    def __init__(self, lines, encode):
        super().__init__(lambda text: [*encode(text)])
        self.lines = lines

    def act(self, request):
        return self.lines[request.view.turn], True


def test_a_broken_form_is_played_and_costs_its_own_turn(alfworld_games, tmp_path):
    """Through the collector: the action of a text without thoughts is executed, and the turn pays for it."""

    def make():
        return AlfWorld(data=str(alfworld_games), action_format="benchmark", invalid_penalty=0.1, max_turns=3)

    env = make()
    words = (*env.lexicon(), "<think>", "</think>", "<action>", "</action>")
    path = TinyModel(str(tmp_path)).prepare(lambda: words)
    renderer = Renderer(path, style="windowed", template="household_plain", action_format="benchmark")
    end = renderer.turn_end[0]
    lines = ["<think></think><action>inventory</action>", "<action>inventory</action>", "inventory"]
    engine = Said(lines, lambda text: [*renderer.tokenize(text), end])
    collector = Collector(engine, InlineEnvPool(make), renderer, env.parse)
    engine.load_weights(0, [])
    (episode,) = collector.collect([env.task("val", 0)], 1, seed=0, version=0, temperature=1.0).groups[0]
    assert [turn.action for turn in episode.turns] == ["inventory"] * 3
    assert [turn.invalid for turn in episode.turns] == [False, True, True]
    assert [turn.penalty for turn in episode.turns] == [0.0, 0.1, 0.1]
    assert all(turn.next_observation.startswith("You are not carrying") for turn in episode.turns)
    assert ["action" in turn.spans for turn in episode.turns] == [True, True, False]


def test_the_prompt_lists_what_can_be_done_without_help(alfworld_games):
    env = AlfWorld(data=str(alfworld_games))
    _, info = env.reset(options={"task": env.task("val", 0)})
    assert "help" not in info["admissible"]
    assert quoted(info["admissible"]).splitlines()[0] == f"['{info['admissible'][0]}'"
    assert quoted(["help", "look"]) == "['look']"
