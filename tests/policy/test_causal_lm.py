"""The policy equals the naive log-softmax of the full logits, whatever the padding, the chunks and the mask."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest
import torch

from sharpo.errors import ConfigError, DataError
from sharpo.policy import causal_lm
from sharpo.policy.causal_lm import CausalPolicy, compact


def _reference_logp(policy, row, temperature):
    """log-softmax over the full vocabulary, in a Python loop, fp64; position 0 has none."""
    logits = policy.lm(torch.tensor([row])).logits[0].double() / temperature
    return [0.0] + [(logits[t - 1][row[t]] - torch.logsumexp(logits[t - 1], 0)).item() for t in range(1, len(row))]


ROWS = [[2, 9, 17, 33, 21, 3, 40, 8], [5, 6, 7, 8], [11, 12, 13, 14, 15, 16]]


def batch(rows, left=(0, 0, 0), width=12, pad=0):
    ids = torch.full((len(rows), width), pad)
    attention = torch.zeros(len(rows), width, dtype=torch.bool)
    for n, row in enumerate(rows):
        ids[n, left[n] : left[n] + len(row)] = torch.tensor(row)
        attention[n, left[n] : left[n] + len(row)] = True
    mask = attention.clone()
    for n in range(len(rows)):
        mask[n, left[n]] = False
    return ids, attention, mask


@pytest.mark.parametrize("temperature", [1.0, 0.4])
@pytest.mark.parametrize("left", [(0, 0, 0), (4, 3, 1)])
def test_equals_the_naive_log_softmax(policy, left, temperature):
    ids, attention, mask = batch(ROWS, left)
    logp = policy(ids, attention, mask, temperature).logp
    assert logp.dtype == torch.float32
    for n, row in enumerate(ROWS):
        expected = torch.tensor(_reference_logp(policy, row, temperature))
        assert (logp[n, left[n] : left[n] + len(row)] - expected).abs().max() < 2e-5
    assert (logp[~mask] == 0).all()


def test_what_stands_in_the_padding_never_matters(policy):
    clean = policy(*batch(ROWS), 1.0).logp
    dirty = policy(*batch(ROWS, pad=10**6), 1.0).logp
    assert torch.equal(clean, dirty)


def test_a_row_of_padding_alone_scores_nothing(policy):
    ids, attention, mask = batch(ROWS)
    attention[1] = False
    mask[1] = False
    output = policy(ids, attention, mask, 1.0)
    assert (output.logp[1] == 0).all()
    assert output.logp.isfinite().all()


def test_chunks_and_checkpointing_change_nothing(folder, policy):
    other = CausalPolicy(folder, chunk_tokens=3, gradient_checkpointing=True)
    whole, pieces = policy(*batch(ROWS), 0.8, True), other(*batch(ROWS), 0.8, True)
    assert (whole.logp - pieces.logp).abs().max() < 1e-5
    assert (whole.entropy - pieces.entropy).abs().max() < 1e-5


def test_entropy_is_that_of_the_distribution_at_the_temperature(policy):
    ids, attention, mask = batch(ROWS, (4, 3, 1))
    entropy = policy(ids, attention, mask, 0.7, True).entropy
    logits = policy.lm(torch.tensor([ROWS[0]])).logits[0].double() / 0.7
    expected = torch.distributions.Categorical(logits=logits).entropy()[:-1].float()
    assert (entropy[0, 5:12] - expected).abs().max() < 2e-5
    assert (entropy[~mask] == 0).all()


def test_gradients_equal_the_naive_ones(folder):
    ours, naive = CausalPolicy(folder, chunk_tokens=2), CausalPolicy(folder)
    weight = torch.linspace(-1.0, 1.0, 8)
    ids, attention, mask = batch(ROWS[:1], (3,))
    (ours(ids, attention, mask, 0.6).logp[0, 3:11] * weight).sum().backward()
    logp = (naive.lm(torch.tensor(ROWS[:1])).logits[0, :-1] / 0.6).log_softmax(-1)
    picked = logp.gather(-1, torch.tensor(ROWS[0][1:])[:, None]).squeeze(-1)
    (picked * weight[1:]).sum().backward()
    for (name, a), (_, b) in zip(ours.named_parameters(), naive.named_parameters(), strict=True):
        scale = max(b.grad.abs().max().item(), 1.0)
        assert (a.grad - b.grad).abs().max() < 1e-5 * scale, name


def test_an_empty_mask_keeps_every_parameter_in_the_graph(folder):
    policy = CausalPolicy(folder)
    ids, attention, mask = batch(ROWS)
    output = policy(ids, attention, torch.zeros_like(mask), 1.0, True)
    assert (output.logp == 0).all()
    output.logp.sum().backward()
    assert all(p.grad is not None and (p.grad == 0).all() for p in policy.parameters())


@pytest.mark.parametrize("folder", [False], ids=["untied"], indirect=True)  # tying changes nothing here
def test_refuses_a_mask_over_padding_or_a_first_token(policy):
    ids, attention, mask = batch(ROWS, (4, 3, 1))
    for row, column in ((0, 4), (0, 0)):
        wrong = mask.clone()
        wrong[row, column] = True
        with pytest.raises(ValueError, match="score_mask"):
            policy(ids, attention, wrong, 1.0)
    with pytest.raises(ConfigError, match="temperature=0"):
        policy(ids, attention, mask, 0.0)


def test_compact_trims_to_the_longest_row():
    ids, attention, _ = batch(ROWS, (4, 3, 1))
    packed, columns, real = compact(ids, attention)
    assert packed.shape == (3, 8)
    assert packed[1].tolist() == [5, 6, 7, 8, 0, 0, 0, 0]
    assert columns[1, :4].tolist() == [3, 4, 5, 6]
    assert real.sum(1).tolist() == [8, 4, 6]


def test_named_weights_hold_the_head_and_no_graph(policy):
    weights = dict(policy.named_weights())
    head, words = weights["lm_head.weight"], weights["model.embed_tokens.weight"]
    assert head.shape == words.shape
    assert torch.equal(head, words) == policy.lm.config.tie_word_embeddings
    assert not any(tensor.requires_grad for tensor in weights.values())
    own = dict(policy.lm.named_parameters(remove_duplicate=False))
    assert weights.keys() == own.keys()


def test_saved_folder_is_a_plain_model_with_its_tokenizer(policy, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from sharpo.policy.folder import no_progress

    policy.save(tmp_path / "saved")
    with no_progress():
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").encode("go to desk 2") != []
    ids = torch.tensor([ROWS[0]])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, policy.lm(ids).logits)
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["use_cache"] is True


@pytest.mark.parametrize("folder", [False], ids=["untied"], indirect=True)  # tying changes nothing here
def test_random_weights_follow_the_seed_and_leave_the_global_one_alone(folder):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, again, other = (CausalPolicy(folder, init="random", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.lm.model.embed_tokens.weight, again.lm.model.embed_tokens.weight)
    assert not torch.equal(first.lm.model.embed_tokens.weight, other.lm.model.embed_tokens.weight)


@pytest.mark.parametrize("folder", [False], ids=["untied"], indirect=True)  # tying changes nothing here
def test_bad_folders_are_one_clear_message(folder, tmp_path):
    with pytest.raises(DataError, match=r"no config.json"):
        CausalPolicy(str(tmp_path / "nowhere"))
    mixed = tmp_path / "mixed"
    shutil.copytree(folder, mixed)
    config = json.loads((mixed / "config.json").read_text())
    (mixed / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
    with pytest.raises(DataError, match="another model"):
        CausalPolicy(str(mixed))
    (mixed / "config.json").write_text(json.dumps({**config, "hidden_size": 256, "intermediate_size": 512}))
    with pytest.raises(DataError, match=r"model.path"):
        CausalPolicy(str(mixed))
    (mixed / "config.json").write_text(json.dumps({**config, "model_type": "no_such_model"}))
    with pytest.raises(DataError, match="cannot be read"):
        CausalPolicy(str(mixed))
    (mixed / "config.json").write_text(json.dumps(config))
    (mixed / "model.safetensors").unlink()
    with pytest.raises(DataError, match="cannot be loaded"):
        CausalPolicy(str(mixed))
    with pytest.raises(ConfigError, match=r"model.dtype='float16'"):
        CausalPolicy(folder, dtype="float16")
    if importlib.util.find_spec("flash_attn") is None:
        with pytest.raises(ConfigError, match=r"model.attention=flash_attention_2: a package .*: Flash.* installed"):
            CausalPolicy(folder, attention="flash_attention_2")


@pytest.mark.parametrize("folder", [False], ids=["untied"], indirect=True)  # tying changes nothing here
def test_a_broken_package_is_the_attentions_fault_only_where_that_needs_one(folder, monkeypatch):
    def broken(*_):
        raise ImportError("Could not import module 'LlamaForCausalLM'\nmore")

    monkeypatch.setattr(causal_lm, "_load", broken)
    for attention, knob in (("sdpa", "model.path='.*'"), ("flex_attention", "model.attention=flex_attention")):
        with pytest.raises(ConfigError, match=f"^{knob}: a package is missing or broken: .*'LlamaForCausalLM'$"):
            CausalPolicy(folder, attention=attention)


@pytest.mark.parametrize("folder", [False], ids=["untied"], indirect=True)  # tying changes nothing here
def test_truncated_weights_are_named(folder, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(DataError, match="its weights cannot be loaded"):
        CausalPolicy(str(broken))
