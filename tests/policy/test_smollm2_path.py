"""`make smollm2` prepares the folder that the experiment looks in."""

from pathlib import Path

from sharpo.policy.smollm2 import DEFAULT


def test_the_command_prepares_what_the_configuration_reads():
    text = (Path(__file__).resolve().parents[2] / "configs/model/smollm2.yaml").read_text()
    assert "runs/" + text.split("${paths.root}/")[1].split()[0] == DEFAULT
