"""A few of ALFWorld's own games, unpacked once per run, and stock TextWorld to compare with."""

import tarfile
from pathlib import Path

import pytest

PICKED = {
    "valid_seen/look_at_obj_in_light-": 1,
    "valid_seen/pick_and_place_simple-": 2,
    "valid_seen/pick_two_obj_and_place-": 1,
    "valid_seen/pick_clean_then_place_in_recep-": 1,
    "valid_unseen/look_at_obj_in_light-": 1,
    "valid_unseen/pick_and_place_simple-": 1,
}
"""Real games by the start of their path; from scenes 201 on, bathrooms, bedrooms and living rooms, which load fast."""


@pytest.fixture(scope="session")
def alfworld_games(shared_data, made_once) -> Path:
    """Seven small real games of four families; two unseen ones stand in for the training games."""
    return made_once("alfworld", lambda target: unpack(shared_data / "alfworld" / "valid.tar.xz", target))


def unpack(source: Path, target: Path) -> None:
    """Take the picked games out of the archive."""
    left = dict(PICKED)
    with tarfile.open(source) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if not name.endswith("game.tw-pddl") or int(name.split("/")[1].rsplit("-", 1)[1]) <= 200:
                continue
            prefix = next((prefix for prefix in left if name.startswith(prefix)), None)
            if prefix is not None and left[prefix]:
                left[prefix] -= 1
                archive.extract(member, target, filter="data")
            if not any(left.values()):
                break
    assert not any(left.values()), left
    (target / "valid_unseen").rename(target / "train")


@pytest.fixture(scope="session")
def stock(tmp_path_factory):
    """Make stock TextWorld environments, named by ALFWorld's own code, for a game given as data."""
    patch = pytest.MonkeyPatch()
    patch.setenv("ALFWORLD_DATA", str(tmp_path_factory.mktemp("unused")))  # alfworld's import makes this folder
    import textworld
    from alfworld.agents.utils.misc import Demangler
    from textworld.envs import PddlEnv

    patch.undo()

    def make(data):
        env = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True))
        env.load(data)
        demangler = Demangler(game_infos=env._entity_infos)
        for info in env._entity_infos.values():
            info.name = demangler.demangle_alfred_name(info.id)
        return env

    return make
