"""A from-scratch model of half a million parameters with a word-and-phrase tokenizer, as a Hugging Face folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sharpo.errors import ConfigError
from sharpo.policy.folder import write_folder
from sharpo.ranges import Count, Natural, check

RECIPE = 2  # part of a folder's name: counts up when the same description gives other weights or another tokenizer
SPECIAL_TOKENS = ("<|pad|>", "<|unk|>", "<|obs|>", "<|act|>", "<|end|>")
PAD, UNKNOWN, OBSERVATION, ACT, END = SPECIAL_TOKENS
HEAD_WIDTHS = (32, 64, 80, 96, 112, 128)
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}{{ '<|act|>' + message['content'] + '<|end|>' }}"
    "{%- else -%}{{ '<|obs|>' + message['content'] }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|act|>' }}{%- endif -%}"
)
_WORD = r"\w+(?:'\w+)*"


def _pieces(lexicon: Iterable[str]) -> list[str]:
    """Return every entry and every word of an entry, lower-case, once, phrases first and longest first."""
    found: set[str] = set()
    for entry in lexicon:
        text = " ".join(entry.lower().split())
        if text:
            found.add(text)
            found.update(re.findall(rf"{_WORD}|[^\w\s]", text))
    return sorted(found, key=lambda piece: (-len(piece), piece))


def _bounded(piece: str) -> str:
    start = r"(?<!\w)" if piece[0].isalnum() or piece[0] == "_" else ""
    stop = r"(?!\w)" if piece[-1].isalnum() or piece[-1] == "_" else ""
    return start + r"\s+".join(re.escape(word) for word in piece.split()) + stop


def word_tokenizer(lexicon: Iterable[str]) -> Any:
    """Return a ``tokenizers.Tokenizer`` whose tokens are the lexicon's phrases and words; anything else is ``<|unk|>``.

    Text is lower-cased; at each place the longest phrase of the lexicon wins, else one word or one punctuation mark.
    Decoding joins tokens by single spaces and closes the space before ``. , ? !``.

    Args:
        lexicon: phrases (``go to``, ``cabinet 1``), words and punctuation marks.

    Example:
        >>> tokenizer = word_tokenizer(["go to", "cabinet 1", "you", "see", "nothing", "."])
        >>> tokenizer.encode("Go to cabinet 1").tokens
        ['go to', 'cabinet 1']
        >>> tokenizer.decode(tokenizer.encode("you see nothing.").ids)
        'you see nothing.'
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pieces = _pieces(lexicon)
    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *sorted(pieces)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " ")])
    phrases = [_bounded(piece) for piece in pieces if re.fullmatch(_WORD + r"|[^\w\s]", piece) is None]
    pattern = "|".join([*phrases, _WORD, r"[^\w\s]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True)
    tokenizer.decoder = decoders.WordPiece(prefix="\x00", cleanup=True)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


def compose_phrases(embedding: Any, vocabulary: Mapping[str, int], share: float = 0.75) -> None:
    """Let a phrase begin near its words: e ← √share · Σ_w e_w / √n + √(1 − share) · e, which keeps the variance.

    ``mug 1`` then starts out like ``mug``, so that a model need not learn from games which object a task names.

    Args:
        embedding: (V, D) weights, changed in place.
        vocabulary: token to row.
        share: share of a phrase's variance that comes from its words, in [0, 1].
    """
    import torch

    with torch.no_grad():
        before = embedding.clone()
        for token, row in vocabulary.items():
            words = [vocabulary[word] for word in re.findall(rf"{_WORD}|[^\w\s]", token) if word in vocabulary]
            if len(words) > 1 and token not in SPECIAL_TOKENS:
                composed = before[words].sum(0) / len(words) ** 0.5
                embedding[row] = share**0.5 * composed + (1 - share) ** 0.5 * before[row]


@dataclass(frozen=True, slots=True)
class TinyModel:
    """Describes a Llama model to build from scratch; :meth:`prepare` builds it once and returns its folder.

    Args:
        folder: parent of the built folders, which are named by the hash of everything that shapes them.
        width: hidden size.
        layers: decoder layers.
        heads: attention heads; ``width / heads`` must be a head size that vLLM can run.
        feed_forward: hidden size of the feed-forward block.
        max_positions: longest sequence in tokens.
        tied: share the embedding with the output head.
        seed: of the initial weights.
    """

    folder: str
    width: Count = 128
    layers: Count = 3
    heads: Count = 4
    feed_forward: Count = 256
    max_positions: Count = 1024
    tied: bool = True
    seed: Natural = 0

    def __post_init__(self) -> None:
        check("model.path", asdict(self), TinyModel)
        if self.width % self.heads or self.width // self.heads not in HEAD_WIDTHS:
            raise ConfigError(
                f"model.path.width={self.width} with model.path.heads={self.heads}: width / heads must be one of "
                f"{HEAD_WIDTHS}"
            )

    def prepare(self, lexicon: Callable[[], Sequence[str]]) -> str:
        """Build the folder (weights, config, tokenizer, chat template) unless it is there; return its path."""
        words = _pieces(lexicon())
        shape = {key: value for key, value in asdict(self).items() if key != "folder"}
        digest = hashlib.sha256(json.dumps([shape, words, CHAT_TEMPLATE, RECIPE], sort_keys=True).encode()).hexdigest()[
            :12
        ]
        target = Path(self.folder) / f"tiny-{digest}"
        if (target / "model.safetensors").is_file():
            return str(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".tiny-", dir=target.parent))
        try:
            self._write(draft, words)
            os.replace(draft, target)
        except OSError:
            if not target.exists():  # another process may have finished first
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return str(target)

    def _write(self, folder: Path, words: Sequence[str]) -> None:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=word_tokenizer(words),
            pad_token=PAD,
            unk_token=UNKNOWN,
            eos_token=END,
            extra_special_tokens=[OBSERVATION, ACT],
            chat_template=CHAT_TEMPLATE,
            clean_up_tokenization_spaces=False,
            model_max_length=self.max_positions,
        )
        tokenizer.save_pretrained(folder)
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=self.width,
            intermediate_size=self.feed_forward,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            max_position_embeddings=self.max_positions,
            tie_word_embeddings=self.tied,
            bos_token_id=None,
            eos_token_id=SPECIAL_TOKENS.index(END),
            pad_token_id=SPECIAL_TOKENS.index(PAD),
            dtype="float32",
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = LlamaForCausalLM(config)
            compose_phrases(model.get_input_embeddings().weight, tokenizer.get_vocab())
            write_folder(folder, config, model.state_dict())
