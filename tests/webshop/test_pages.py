"""Every recorded step on made-up products comes out the same: text, clickables in order, reward, end."""

import pytest
from sharpo.envs.webshop import goals
from sharpo.envs.webshop.pages import Session, clickables, render
from sharpo.envs.webshop.store import Store


class Everything:
    """Finds every product, in the catalogue's order: what the recordings' search did."""

    def __init__(self, products):
        self.found = [(one.asin, 1.0) for one in products]

    def top(self, query, k):
        return self.found[:k]


def play(store, session, action):
    """Return the next session, and reward and end as the original's step gave them."""
    after = store.act(session, action)
    bought = after is not session and after.page == "done"
    return after, after.score if bought else 0.0, bought


def shown(store, session, style):
    made = store.nodes(session)
    bar = session.page == "index"
    return render(session, made, style), {"has_search_bar": bar, "clickables": list(clickables(made))}


@pytest.mark.parametrize("human", [0, 1])
@pytest.mark.parametrize("style", ["text", "text_rich"])
def test_edge_cases(edge, tagged, human, style):
    recorded, make = edge
    shelf, made = make(human)
    shelf = tagged(shelf)
    store = Store({one.asin: one for one in shelf}, Everything(shelf), show_attributes=True)
    steps = 0
    for episode in recorded["runs"][f"{style}_{human}"]["episodes"]:
        session = Session(made[goals.order(len(made))[episode["goal"]]])
        for action, text, reward, done, available in episode["trace"]:
            session, got_reward, got_done = play(store, session, action)
            got = (*shown(store, session, style), got_reward, got_done)
            assert got == (text, available, reward, done), (episode, action)
            steps += 1
    assert steps == (573, 191)[human]
