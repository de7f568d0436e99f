"""The re-ranker: a real, randomly initialised cross-encoder with one label, and folders that hold none."""

import pytest
import torch

from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.algorithms.scpo import Scpo
from sharpo.errors import ConfigError, DataError
from sharpo.policy.reranker import Reranker

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "you", "see", "a", "mug", "pen", "take", "go", ">", "."]
STEPS = [("You see a mug.", "take mug"), ("You see a pen.", "take pen"), ("You see a mug.", "take mug")]


def make(folder, labels=1):
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        num_labels=labels, initializer_range=0.5,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("reranker"))


def test_scores_are_the_models_own(folder):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    scores = Reranker(path=folder, batch=2)(STEPS, STEPS[:2])
    assert scores.shape == (3, 2)
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder).eval(),
    )  # fmt: skip
    for i, failed in enumerate(STEPS):
        for j, successful in enumerate(STEPS[:2]):
            read = tokenizer(" > ".join(failed), " > ".join(successful), return_tensors="pt")
            with torch.no_grad():
                expected = model(**read).logits.sigmoid()[0, 0]
            torch.testing.assert_close(scores[i, j], expected)
    assert torch.equal(scores[0], scores[2])
    assert float(scores.max() - scores.min()) > 1e-3


def test_the_batch_size_changes_nothing_and_results_repeat(folder):
    one = Reranker(path=folder, batch=1)(STEPS, STEPS)
    many = Reranker(path=folder, batch=64)
    torch.testing.assert_close(one, many(STEPS, STEPS))
    assert torch.equal(many(STEPS, STEPS), many(STEPS, STEPS))
    assert not many(STEPS, STEPS).requires_grad


def test_long_steps_are_cut_to_the_budget(folder):
    alike = "you see a mug . " * 20  # 100 tokens
    long = [(alike + "take pen . " * 200, "go"), (alike + "a mug . " * 200, "go")]
    assert Reranker(path=folder, max_tokens=32)(long, long).unique().numel() == 1
    whole = Reranker(path=folder, max_tokens=256)(long, long)
    assert whole.isfinite().all()
    assert not torch.equal(whole[0], whole[1])


def test_it_serves_scpo(folder):
    from stories import story

    algorithm = Scpo(policy_loss=PolicyLoss(), similarity=Reranker(path=folder), threshold=0.0)
    won = [("You see a mug.", "take mug", "You see a pen."), ("You see a pen.", "take pen", "won", 10.0)]
    group = story(won, [("You see a mug.", "go", "You see a mug.")])
    progress = algorithm.progress(group)
    assert progress.tolist()[:2] == [0.0, 0.0]
    assert progress[2] in (0.5, 1.0)
    assert hash(algorithm) == hash(Scpo(policy_loss=PolicyLoss(), similarity=Reranker(path=folder), threshold=0.0))


def test_a_folder_that_holds_no_reranker_says_so(tmp_path):
    with pytest.raises(DataError, match=r"algorithm\.similarity\.path=.*nowhere.*no config\.json"):
        Reranker(path=str(tmp_path / "nowhere"))(STEPS, STEPS)
    (tmp_path / "two").mkdir()
    with pytest.raises(DataError, match="has 2 labels, a re-ranker has 1"):
        Reranker(path=make(tmp_path / "two", labels=2))(STEPS, STEPS)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        Reranker(path=str(tmp_path / "broken"))(STEPS, STEPS)


@pytest.mark.parametrize(("knob", "value"), [("max_tokens", 0), ("batch", 0)])
def test_wrong_knobs_name_themselves(knob, value):
    with pytest.raises(ConfigError, match=rf"algorithm\.similarity\.{knob}.*{value}"):
        Reranker(**{"path": "x", knob: value})
