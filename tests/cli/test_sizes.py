"""Sizes that cannot go together are refused before anything starts."""

import json

import pytest

from sharpo import cli
from sharpo.errors import ConfigError
from sharpo.sizes import check_shares, model_positions

TINY = ("model=tiny", "engine=hf")


def parts(*arguments, command="train"):
    return cli.Parts(cli.read(command, arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["engine.max_context=100000"], "engine.max_context=100000: the model has 1024 positions"),
        (["model.path.max_positions=256"], "engine.max_context=512: the model has 256 positions"),
        (["data.budgets.turn_tokens=512"], "turn_tokens=512 leaves no room for a prompt in engine.max_context=512"),
        (["data.budgets.context=8"], "turn_tokens=8 leaves no room for a prompt in data.budgets.context=8"),
        (["data.sizes.max_row=7"], "data.sizes.max_row=7 is below data.budgets.turn_tokens=8"),
        (
            ["strategy=fsdp2", "trainer.devices=3"],
            "data.sizes.groups=16 cannot be shared by 3 processes (trainer.devices=3, trainer.num_nodes=1)",
        ),
        (["strategy=ddp", "trainer.devices=2", "trainer.num_nodes=3"], "cannot be shared by 6 processes"),
    ],
)
def test_what_does_not_fit(arguments, message):
    with pytest.raises(ConfigError) as caught:
        parts(*TINY, *arguments)
    assert message in str(caught.value)


def test_the_positions_of_a_folder_are_read_where_they_are_the_whole_truth(tmp_path):
    def folder(**config):
        (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 300, **config}))
        return str(tmp_path)

    with pytest.raises(ConfigError, match=r"engine.max_context=512: the model has 300 positions"):
        parts("engine=hf", f"model.path={folder()}")
    assert model_positions(folder(rope_parameters={"rope_type": "default", "rope_theta": 1.0})) == 300
    assert model_positions(folder(rope_scaling={"type": "yarn", "factor": 4.0})) is None
    (tmp_path / "config.json").write_text("[]")
    assert model_positions(str(tmp_path)) is None
    assert model_positions("Qwen/Qwen2.5-7B-Instruct") is None


def test_judging_collects_nothing_so_any_number_of_processes_may_judge():
    parts(*TINY, "strategy=fsdp2", "trainer.devices=3", command="eval")
    check_shares(16, -1, 1)
