"""The store in a real browser, against a server process: page by page what the text environment shows."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from sharpo.envs.webshop import WebShop

LOOK = """
const texts = all => Array.from(document.querySelectorAll(all), one => one.textContent);
const nodes = Array.from(document.querySelectorAll('[data-node]'));
const text = id => document.getElementById(id)?.textContent ?? null;
return {
  nodes: nodes.map(one => one.textContent),
  hidden: nodes.filter(one => one.textContent.trim() && !(one.checkVisibility() && one.innerText.trim())).length,
  buttons: Array.from(document.querySelectorAll('button[name=action]'), one => one.value),
  bar: document.getElementById('query') !== null,
  goal: document.querySelector('.goal strong').innerText,
  observation: text('observation'), admissible: texts('#admissible li'), turn: text('turn'),
  score: text('score'), reward: text('reward'), notice: text('notice'),
  scripts: document.scripts.length, wide: document.documentElement.scrollWidth - window.innerWidth,
};
"""
FIND = "return Array.from(document.querySelectorAll('button[name=action]')).find(one => one.value === arguments[0])"


def program(*names):
    """The first of these programs that is there; without one the test skips, or fails in CI."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = f"no {names[0]}: on Debian, apt-get install chromium chromium-driver"
        if os.environ.get("CI") and sys.platform == "linux":
            pytest.fail(f"{reason}; the browser tests would be skipped")
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--no-proxy-server", "--window-size=1000,900",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def serve(made_up_shop):
    """Start the command and return its process and address; ended with the test."""
    running = []

    def start(*arguments, port=0):
        command = [sys.executable, "-m", "sharpo.envs.webshop.serve", "--data", str(made_up_shop), "--port", str(port)]
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process, process.stdout.readline().split()[0]

    yield start
    for process in running:
        end(process)


def end(process):
    """Interrupt a server as a person does, and say how it ended."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    code = process.wait(20)
    process.stdout.close()
    return code


class Person:
    """Someone at the browser who presses buttons by mouse and by keyboard in turn."""

    def __init__(self, browser, url):
        self.browser, self.url, self.presses = browser, url, 0

    def press(self, element):
        self.presses += 1
        if self.presses % 2:
            element.click()
        else:
            element.send_keys(Keys.ENTER)

    def choose(self, number, split="all"):
        self.browser.get(f"{self.url}?split={split}")
        field = self.browser.find_element(By.ID, "number")
        field.send_keys(str(number), Keys.ENTER)
        self.wait(0)

    def wait(self, turn):
        code = "return document.readyState === 'complete' && document.getElementById('turn')?.textContent"
        patience = WebDriverWait(self.browser, 60, 0.02, ignored_exceptions=[WebDriverException])
        patience.until(lambda now: now.execute_script(code) == str(turn))

    def do(self, action, turn):
        if action.startswith("search["):
            self.browser.switch_to.active_element.send_keys(action[7:-1], Keys.ENTER)  # the field has the focus
        else:
            self.press(self.browser.execute_script(FIND, action))
        self.wait(turn)

    def look(self):
        return self.browser.execute_script(LOOK)


def alike(person, env, text, info, turn):
    """What a person sees is what the agent sees: every piece of text in order, and every action."""
    seen = person.look()
    assert seen["observation"] == text
    assert seen["admissible"] == list(info["admissible"])
    assert seen["goal"] == env.current_task.instruction
    assert (seen["turn"], seen["scripts"], seen["hidden"]) == (str(turn), 0, 0)
    assert seen["wide"] <= 0
    if env.snapshot().session.page != "done":
        assert seen["nodes"] == [node.text for node in env.store.nodes(env.snapshot().session)]
        assert {*seen["buttons"], *(["search[<your query>]"] if seen["bar"] else [])} == set(info["admissible"])
    return seen


def play(person, env, number, advise):
    """Play a goal in the browser and in the text environment at once; return both last looks."""
    text, info = env.reset(options={"goal_idx": number, "informed_oracle": True})
    person.choose(number)
    earned, ended, turn = 0.0, False, 0
    alike(person, env, text, info, 0)
    while not ended:
        action, turn = advise(turn, info), turn + 1
        person.do(action, turn)
        text, reward, done, truncated, info = env.step(action)
        earned, ended = earned + reward, done or truncated
        seen = alike(person, env, text, info, turn)
    assert (seen["score"], seen["reward"]) == (str(env.outcome().score), str(earned))
    return env.outcome()


def wander(turn, info):
    """Look at everything there is on the way to a purchase that misses something."""
    offered = info["admissible"]
    first = next((one for one in offered if one.startswith("click[d") and one[7].isdigit()), None)
    plan = ["search[tumble dry]", "click[next >]", "click[< prev]", first, "click[description]", "click[< prev]"]
    plan += ["click[features]", "click[< prev]", "click[reviews]", "click[back to search]", "search[trousers]"]
    return [*plan, first, "click[buy now]"][turn]


def test_a_person_sees_and_earns_what_an_agent_does(browser, serve, made_up_shop):
    process, url = serve()
    env, person = WebShop(str(made_up_shop)), Person(browser, url)
    for number in (0, 1, 2):
        assert play(person, env, number, lambda _, info: info["oracle"]).success
    outcome = play(person, env, 3, wander)
    assert (outcome.terminated, outcome.success) == (True, False)
    assert [line for line in browser.get_log("browser") if "Content Security" in line["message"]] == []
    assert end(process) == 0


def test_buttons_of_an_old_page_and_sessions_of_an_old_server_are_told(browser, serve):
    process, url = serve("--max-turns", "3")
    person = Person(browser, url)
    person.choose(0)
    person.do("search[lamp]", 1)
    place = browser.current_url
    browser.switch_to.new_window("tab")
    browser.get(place)
    person.do("click[next >]", 2)
    browser.close()
    browser.switch_to.window(browser.window_handles[0])
    person.press(browser.find_element(By.CSS_SELECTOR, "button[value='click[next >]']"))  # of turn 1, still shown
    person.wait(2)
    assert "no longer current" in person.look()["notice"]
    browser.find_element(By.CSS_SELECTOR, "#agent summary").send_keys(Keys.ENTER)
    browser.find_element(By.ID, "typed").send_keys("Dance", Keys.ENTER)
    person.wait(3)
    seen = person.look()
    assert (seen["score"], seen["buttons"]) == ("0.0", [])
    assert seen["notice"].startswith("dance changed nothing")
    assert end(process) == 0
    _, again = serve(port=int(url.rstrip("/").rpartition(":")[2]))
    assert again == url
    browser.get(place)
    assert "There is no such session" in browser.find_element(By.ID, "message").text
    browser.find_element(By.LINK_TEXT, "Choose a goal").send_keys(Keys.ENTER)
    WebDriverWait(browser, 60, 0.02).until(lambda now: now.find_elements(By.ID, "number"))
