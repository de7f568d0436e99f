"""Whole episodes on the thousand products, through a built catalogue and its own search: as recorded."""

import pytest
from sharpo.envs.webshop import goals
from sharpo.envs.webshop.pages import Session, clickables, render
from sharpo.envs.webshop.store import Store


@pytest.mark.parametrize(
    ("name", "style", "steps"),
    [("golden_text_synth.json.xz", "text", 4329), ("golden_text_rich_synth.json", "text_rich", 1704)],
)
def test_recorded_episodes(read, thousand_built, name, style, steps):
    found = thousand_built
    store = Store(found.shelf, found.search, show_attributes=style == "text_rich")
    order = goals.order(len(found.table("synthetic")))
    seen = 0
    for episode in read(name)["episodes"]:
        session = Session(found.goal("synthetic", order[episode["goal_idx"]]))
        for step in episode["trace"]:
            before, bought = session, False
            if step["action"] is not None:
                session = store.act(before, step["action"])
                bought = session is not before and session.page == "done"
            shown = store.nodes(session)
            bar = session.page == "index"
            assert render(session, shown, style) == step["obs"], (episode["goal_idx"], step["action"])
            assert {"has_search_bar": bar, "clickables": list(clickables(shown))} == step["available"]
            reward = session.score if bought else 0.0
            assert (reward, bought) == (step.get("reward", 0.0), step.get("done", False))
            seen += 1
    assert seen == steps
