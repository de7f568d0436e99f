"""The pages of tiny policies: three products, nothing twice, on and back."""

import re


def test_brief_pages_show_three_products_and_nothing_twice(shop):
    env = shop(observation="brief", goal_split="asin")
    task = next(task for index in range(300) if ", and size: " in (task := env.task("train", index)).instruction)
    text, info = env.reset(options={"task": task, "informed_oracle": True})
    pages = [text]
    while info["oracle"] is not None:
        text, _, _, _, info = env.step(info["oracle"])
        pages.append(text)
    begin, results, item, one, two, last = pages
    color, size = re.search(r"color: ([^,]+), and size: ([^,]+)", task.instruction).groups()
    assert begin == task.instruction
    lines = results.split("\n")
    assert [re.fullmatch(r"(item \d) \w+ .+ \$.+", line).group(1) for line in lines] == ["item 1", "item 2", "item 3"]
    assert re.fullmatch(rf"color: .*{color}.*\nsize: .*{size}.*\nPrice: \$.+", item)
    assert (one, two) == (f"You have clicked {color}", f"You have clicked {color}, {size}")
    assert last == "Purchased: 1.00"


def test_brief_pages_lead_on_and_back(shop):
    env = shop(observation="brief", goal_split="asin")
    begin, _ = env.reset(options={"task": env.task("train", 0)})
    first, second = (env.step(action)[0] for action in ("search[usb cable]", "click[next >]"))
    assert not set(first.split("\n")) & set(second.split("\n"))
    assert "click[item 3]" in env.step("click[nothing]")[4]["admissible"]
    assert env.step("click[< prev]")[0] == first
    item = env.step("click[item 2]")[0]
    assert env._session.asin == env._session.results[1]
    assert len(env.step("click[features]")[0].split("\n")) == 5
    assert env.step("click[< prev]")[0] == item
    assert env.step("click[reviews]")[0] == "reviews"
    assert env.step("search[zzzz]")[0] == "Page 1 (Total results: 0)"
    assert env.step("click[back to search]")[0] == begin
    assert len(env.step("search[usb cable]")[0].split("\n")) == 3
