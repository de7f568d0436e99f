"""``python -m sharpo.data webshop``: invents, builds and checks a catalogue, and says what is wrong in one line."""

import json

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


def test_build_from_files_by_their_own_paths(webshop_data, tmp_path, capsys):
    files = {
        "--items": "items_shuffle_1000.json",
        "--attributes": "items_ins_v2_1000.json",
        "--human": "items_human_ins.1k.json",
    }
    given = [word for name, file in files.items() for word in (name, str(webshop_data / file))]
    more = ["--products", "50", "--nouns", "words"]
    assert data.main(["webshop", "build", *given, "--target", str(tmp_path / "a"), *more]) == 0
    assert "50 products; nouns by words" in capsys.readouterr().out
    assert data.main(["webshop", "build", "--source", str(webshop_data), "--target", str(tmp_path / "b"), *more]) == 0
    one, other = (json.loads((tmp_path / name / "meta.json").read_text())["fingerprint"] for name in "ab")
    assert one == other


@pytest.mark.parametrize(
    "given",
    [[], ["--items", "x.json"], ["--attributes", "x.json"], ["--human", "x.json"], ["--source", ".", "--items", "x"]],
)
def test_a_build_says_which_files_it_needs(given, capsys):
    assert data.main(["webshop", "build", *given]) == 2
    told = capsys.readouterr().err
    assert "or in its place the files: --items FILE --attributes FILE, and --human FILE for human goals" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "given",
    [["demo", "--source", "."], ["demo", "--nouns", "words"], ["verify", "--products", "9"], ["build", "--replace"]],
)
def test_an_option_that_the_action_does_not_read_is_refused(given, tmp_path, capsys):
    assert data.main(["webshop", *given, "--target", str(tmp_path / "shop")]) == 2
    told = capsys.readouterr().err
    assert told == f"error: {given[1]} has no effect on `webshop {given[0]}`: leave it out\n"
    assert not (tmp_path / "shop").exists()


def test_another_catalogue_is_lost_on_demand_alone(tmp_path, capsys):
    target = tmp_path / "shop"
    given = ["webshop", "demo", "--target", str(target), "--products"]
    for again in range(2):  # the same once more is no loss
        assert data.main([*given, "60"]) == 0, again
    before = (target / "meta.json").read_bytes()
    for other in (["61"], ["60", "--seed", "1"]):
        capsys.readouterr()
        assert data.main([*given, *other]) == 2
        told = capsys.readouterr().err
        assert f"{target} holds another catalogue: 60 products, nouns by stated, seed 0; choose another" in told
        assert told.count("\n") == 1
    assert (target / "meta.json").read_bytes() == before
    assert data.main([*given, "61", "--replace"]) == 0
    assert "61 products" in capsys.readouterr().out


def test_a_catalogue_of_an_older_format_is_lost_only_when_it_had_these_settings(webshop_data, tmp_path, capsys):
    real, made_up = tmp_path / "real", tmp_path / "made_up"
    given = ["--source", str(webshop_data), "--target", str(real), "--products", "60", "--nouns", "words"]
    assert data.main(["webshop", "build", *given]) == 0
    assert data.main(["webshop", "demo", "--target", str(made_up), "--products", "60"]) == 0
    for target, code in ((real, 2), (made_up, 0)):
        meta = target / "meta.json"
        meta.write_text(json.dumps({**json.loads(meta.read_text()), "format": 1}))
        capsys.readouterr()
        assert data.main(["webshop", "demo", "--target", str(target), "--products", "60"]) == code
        assert json.loads(meta.read_text())["format"] == (1 if code else 2)
    assert data.main(["webshop", "demo", "--target", str(real), "--products", "60"]) == 2
    assert f"{real} holds another catalogue: 60 products, nouns by words, seed 0;" in capsys.readouterr().err
    assert data.main(["webshop", "demo", "--target", str(real), "--products", "60", "--replace"]) == 0


@pytest.mark.parametrize(
    ("action", "place", "message"),
    [
        ("demo", "file", "file is a file, not a folder: choose another --target"),
        ("demo", "file/shop", "file/shop cannot be made (Not a directory): choose another --target"),
        ("verify", "file", "no WebShop catalogue in"),
    ],
)
def test_a_target_that_is_no_folder(tmp_path, capsys, action, place, message):
    (tmp_path / "file").touch()
    assert data.main(["webshop", action, "--target", str(tmp_path / place)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


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
