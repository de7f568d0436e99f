"""``python -m sharpo.data webshop``: invents, builds and checks a catalogue, and says what is wrong in one line."""

import pytest

from sharpo import data


def test_invent_then_verify(tmp_path, capsys):
    target = str(tmp_path / "shop")
    assert data.main(["webshop", "demo", "--target", target, "--products", "60"]) == 0
    told = capsys.readouterr().out
    assert "60 products; nouns by stated" in told
    assert "with env.fixes=[options]; too few for env.goal_split=index" in told
    assert f"env.catalogue={target}" in told
    assert data.main(["webshop", "verify", "--target", target]) == 0
    assert "verified" in capsys.readouterr().out


def test_build_from_the_files_without_a_tagger(webshop_data, tmp_path, capsys):
    target = str(tmp_path / "shop")
    given = ["--source", str(webshop_data), "--target", target, "--products", "50", "--nouns", "words"]
    assert data.main(["webshop", "build", *given]) == 0
    told = capsys.readouterr().out
    assert "50 products; nouns by words" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build"], "webshop build needs --source"),
        (["build", "--source", "nowhere"], "no WebShop files in nowhere"),
        (["demo", "--products", "5"], "products must be 60 to 100000, got 5"),
        (["verify"], "no WebShop catalogue in"),
        (["build", "--source", "nowhere", "--products", "-1"], "--products -1"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, arguments, message):
    assert data.main(["webshop", *arguments, "--target", str(tmp_path / "shop")]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())
