"""A toy encoder: a real BERT with its tokenizer, untrained, 2 layers of 32, made on the spot. It learns nothing useful.

`encoder: toy` lets a recipe or a whole study be tried out in seconds.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyheads.data.demo import demo_vocabulary
from manyheads.encoder.bert import BertConfig, random_bert

WORDS = """
    the a film book meal hotel was is not very good bad great poor dull warm one two three men women play plays
    guitar dog cat runs sleeps how do i can what best way learn swim cook eat tea coffee red blue old new . , ?
""".split()  # noqa: SIM905  (a list of words reads better so)


def write_toy_encoder(folder: Path, words: Sequence[str] = WORDS, **changes: Any) -> Path:
    """Write one as Hugging Face lays them out: these words, and letters; `changes` are settings of its config."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)] + [str(digit) for digit in range(10)]
    pieces = list(dict.fromkeys([*special, *words, *letters, *(f"##{letter}" for letter in letters)]))
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "vocab_size": len(pieces),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        **changes,
    }
    random_bert(BertConfig(**settings), seed=1).save(folder)
    modules = [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]  # as a sentence encoder has it
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return folder


def toy_encoder(cache: Path) -> Path:
    """The folder of the toy encoder, made at its first use."""
    folder = cache / "toy-encoder-2"  # the first one had no pooling
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=cache, prefix=".toy-encoder."))
        # room for words spelt by letters
        write_toy_encoder(unfinished, demo_vocabulary(), max_position_embeddings=256)
        try:
            unfinished.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(unfinished)
    return folder
