"""Tokens: framing as the tokenizer itself does it, truncation, the cache on disk, and packing."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors

from manyheads.encoder.loading import locate
from manyheads.errors import UserError
from manyheads.parts.encodings import Cross, Single
from manyheads.storage.cache import FORMAT
from manyheads.storage.strings import Strings
from manyheads.tokens import column as module
from manyheads.tokens.column import tokenise, tokenise_once
from manyheads.tokens.packing import PositionsNeeded, Sequence, pack
from manyheads.tokens.tokenizer import Spans, Tokenizer, truncate_pair

SENTENCES = ["a good film", "the", "how do i learn to swim, cook and eat?", "2 old men play guitar. a dog sleeps"]


def column(*texts: str) -> Strings:
    return Strings.of(texts)


def roberta_like(folder: Path) -> Path:
    """A tokenizer that frames a pair as <s> a </s></s> b </s>, all of one segment."""
    words = ["<s>", "</s>", "<unk>", *" ".join(SENTENCES).split()]
    backend = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(dict.fromkeys(words))}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    folder.mkdir()
    backend.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(params=["toy", "default", "roberta-like"])
def tokenizer(request: pytest.FixtureRequest, toy_encoder: Path, tmp_path: Path) -> Tokenizer:
    if request.param == "roberta-like":
        return Tokenizer(roberta_like(tmp_path / "roberta"))
    return Tokenizer(toy_encoder if request.param == "toy" else locate("all-MiniLM-L6-v2").folder)


@pytest.fixture
def toy(toy_encoder: Path) -> Tokenizer:
    return Tokenizer(toy_encoder)


# --- framing ---------------------------------------------------------------------------------------------------


def test_framed_pairs_are_the_tokenizers_own(tokenizer: Tokenizer) -> None:
    for first, second in product(SENTENCES, repeat=2):
        expected = tokenizer.backend.encode(first, second)
        one, two = (np.array(ids) for ids in tokenizer.encode([first, second]))
        ((ids, segments),) = Cross(16).inputs((one, two), tokenizer.special_tokens, 512)
        assert ids.tolist() == expected.ids
        assert segments.tolist() == expected.type_ids
        assert len(ids) == len(one) + len(two) + tokenizer.special_tokens.around_pair


def test_framed_sentences_are_the_tokenizers_own(tokenizer: Tokenizer) -> None:
    for text in SENTENCES:
        expected = tokenizer.backend.encode(text)
        (bare,) = tokenizer.encode([text])
        ((ids, segments),) = Single(16).inputs((np.array(bare),), tokenizer.special_tokens, 512)
        assert ids.tolist() == expected.ids
        assert segments.tolist() == expected.type_ids
        assert len(ids) == len(bare) + tokenizer.special_tokens.around_single


def test_frames_by_hand(toy: Tokenizer, tmp_path: Path) -> None:
    special_tokens = toy.special_tokens  # [CLS] is 2, [SEP] is 3
    assert [part.tolist() for part in (special_tokens.start, special_tokens.middle, special_tokens.end)] == [
        [2],
        [3],
        [3],
    ]
    assert (special_tokens.segment_b, special_tokens.around_single, special_tokens.around_pair) == (1, 2, 3)
    special_tokens = Tokenizer(roberta_like(tmp_path / "roberta")).special_tokens
    assert [part.tolist() for part in (special_tokens.start, special_tokens.middle, special_tokens.end)] == [
        [0],
        [1, 1],
        [1],
    ]
    assert (special_tokens.segment_b, special_tokens.around_single, special_tokens.around_pair) == (0, 2, 4)


def test_the_default_tokenizer_does_not_cut_at_128_though_its_file_says_so() -> None:
    folder = locate("all-MiniLM-L6-v2").folder
    assert json.loads((folder / "tokenizer.json").read_text())["truncation"]["max_length"] == 128
    long, short = Tokenizer(folder).encode(["good " * 300, "good"])
    assert (len(long), len(short)) == (300, 1)


def test_a_tokenizer_is_built_from_a_vocabulary_where_there_is_no_tokenizer_json(
    toy: Tokenizer, tmp_path: Path
) -> None:
    vocabulary = sorted(toy.backend.get_vocab().items(), key=lambda item: item[1])
    (tmp_path / "vocab.txt").write_text("\n".join(word for word, _ in vocabulary))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    built = Tokenizer(tmp_path)
    assert built.encode(SENTENCES) == toy.encode(SENTENCES)
    assert built.special_tokens.middle.tolist() == [3]


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer can be loaded from here") as caught:
        Tokenizer(tmp_path)
    assert caught.value.code == "no-tokenizer"


# --- truncation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "room", "expected"),
    [
        (3, 4, 7, (3, 4)),
        (3, 9, 7, (3, 4)),
        (9, 3, 7, (4, 3)),
        (9, 2, 10, (8, 2)),
        (9, 8, 7, (4, 3)),
        (8, 9, 7, (3, 4)),
        (9, 9, 7, (3, 4)),  # as the tokenizers library cuts
        (9, 9, 8, (4, 4)),
        (0, 9, 5, (0, 5)),
        (9, 9, 0, (0, 0)),
    ],
)
def test_truncation_by_hand(first: int, second: int, room: int, expected: tuple[int, int]) -> None:
    assert truncate_pair(first, second, room) == expected


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 80))
def test_truncation_takes_from_the_longer_first(first: int, second: int, room: int) -> None:
    cut = truncate_pair(first, second, room)
    assert sum(cut) == min(first + second, room), "nothing is cut in vain, and what is cut fills the room"
    assert 0 <= cut[0] <= first
    assert 0 <= cut[1] <= second
    shorter = 0 if first <= second else 1
    if cut[shorter] < min(first, second):
        assert abs(cut[0] - cut[1]) <= 1, "the shorter is cut only once the longer has come down to it"


@pytest.mark.parametrize("max_length", [8, 9, 15])
def test_truncated_inputs_keep_their_frame(toy: Tokenizer, max_length: int) -> None:
    one, two = np.arange(100, 120), np.arange(200, 206)
    ((ids, segments),) = Cross(16).inputs((one, two), toy.special_tokens, max_length)
    first, second = {8: (3, 2), 9: (3, 3), 15: (6, 6)}[max_length]
    assert ids.tolist() == [2, *one[:first], 3, *two[:second], 3]
    assert segments.tolist() == [0] * (first + 2) + [1] * (second + 1)
    ((ids, _),) = Single(16).inputs((one,), toy.special_tokens, max_length)
    assert ids.tolist() == [2, *one[: max_length - 2], 3]


# --- the cache -------------------------------------------------------------------------------------------------


class Refusing(Tokenizer):
    """Cannot encode: whoever gets tokens with it got them from the cache."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        raise AssertionError("tokenised again")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / FORMAT / "tokens"


def check_same(found: module.TokenColumn, expected: list[list[int]]) -> None:
    assert len(found) == len(expected)
    assert [found[row].tolist() for row in range(len(found))] == expected
    assert found.lengths.tolist() == [len(ids) for ids in expected]


def test_a_column_is_tokenised_once(toy: Tokenizer, toy_encoder: Path, cache: Path) -> None:
    first = tokenise(column(*SENTENCES), toy)
    check_same(first, toy.encode(SENTENCES))
    again = tokenise(column(*SENTENCES), Refusing(toy_encoder))
    check_same(again, toy.encode(SENTENCES))
    assert first.fingerprint == again.fingerprint == cache.joinpath(first.fingerprint).name
    assert [one.name for one in cache.iterdir()] == [first.fingerprint], "nothing half-written is left"


@pytest.mark.parametrize(
    "texts", [("a good film", "the dog"), ("a good", " filmthe"), ("a goodfilm", "the"), ("the", "a good film")]
)
def test_other_texts_are_tokenised_anew(toy: Tokenizer, cache: Path, texts: tuple[str, str]) -> None:
    before = tokenise(column("a good film", "the"), toy)
    after = tokenise(column(*texts), toy)
    assert before.fingerprint != after.fingerprint
    check_same(after, toy.encode(list(texts)))


def test_another_tokenizer_tokenises_anew(toy: Tokenizer, cache: Path, tmp_path: Path) -> None:
    other = Tokenizer(roberta_like(tmp_path / "roberta"))
    assert tokenise(column(*SENTENCES), toy).fingerprint != tokenise(column(*SENTENCES), other).fingerprint
    check_same(tokenise(column(*SENTENCES), other), other.encode(SENTENCES))


def test_long_columns_are_tokenised_in_several_calls(toy: Tokenizer, cache: Path) -> None:
    texts = [f"a film {i}" for i in range(module.TEXTS_PER_CALL + 3)]
    found = tokenise(column(*texts), toy)
    assert len(found) == len(texts)
    for row in (0, module.TEXTS_PER_CALL - 1, module.TEXTS_PER_CALL, len(texts) - 1):
        assert [found[row].tolist()] == toy.encode([texts[row]])


def test_texts_that_have_no_tokens_are_empty_rows(toy: Tokenizer, cache: Path) -> None:
    blank = "\x00\x01"  # control characters, which BERT's normalizer drops
    check_same(tokenise(column(blank, "a film"), toy), [[], *toy.encode(["a film"])])
    check_same(tokenise(column(blank), toy), [[]])


def test_tokens_of_texts_met_once_are_not_written(toy: Tokenizer, cache: Path) -> None:
    check_same(tokenise_once(column(*SENTENCES), toy), toy.encode(SENTENCES))
    assert not cache.exists()


@pytest.mark.parametrize("file", ["ids.bin", "ids_starts.bin", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_cache_is_told_with_what_to_do(toy: Tokenizer, cache: Path, file: str, damage: str) -> None:
    found = cache / tokenise(column(*SENTENCES), toy).fingerprint
    if damage == "cut":
        (found / file).write_bytes((found / file).read_bytes()[:-4])
    else:
        (found / file).unlink()
    expected = f"^{found}: this cache entry is damaged .*Delete that folder and run again"
    with pytest.raises(UserError, match=expected) as caught:
        tokenise(column(*SENTENCES), toy)
    assert caught.value.code == "cache-damaged"


def test_a_cache_that_cannot_be_written_is_told(
    toy: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "file"))
    expected = r"cache cannot be written .*Set MANYHEADS_CACHE to another folder"
    with pytest.raises(UserError, match=expected) as caught:
        tokenise(column(*SENTENCES), toy)
    assert caught.value.code == "cache-not-writable"


def test_a_run_that_breaks_off_leaves_nothing_behind(toy: Tokenizer, toy_encoder: Path, cache: Path) -> None:
    with pytest.raises(AssertionError, match="tokenised again"):
        tokenise(column(*SENTENCES), Refusing(toy_encoder))
    assert list(cache.iterdir()) == []
    check_same(tokenise(column(*SENTENCES), toy), toy.encode(SENTENCES))


def test_two_runs_at_once_end_with_one_whole_cache(toy: Tokenizer, toy_encoder: Path, cache: Path) -> None:
    class Overtaken(Tokenizer):
        def encode(self, texts: list[str]) -> list[list[int]]:
            tokenise(column(*texts), toy)  # the other run finishes while this one still encodes
            return super().encode(texts)

    check_same(tokenise(column(*SENTENCES), Overtaken(toy_encoder)), toy.encode(SENTENCES))
    assert len(list(cache.iterdir())) == 1


# --- offsets ---------------------------------------------------------------------------------------------------

HARD_TEXTS = [
    "A GOOD Film",
    "naïve café – Ångström, ÉCOLE",
    "我喜欢电影 and tea",
    "great 🎬 film 👩‍👩‍👧!",
    "İstanbul  ﬁnal\t x\u00a0y",
    "e\u0301a o\u0308",
    "",
]


def bare(text: str, tokenizer: Tokenizer) -> str:
    """As the tokenizer sees it: lower case, no accents, no spaces."""
    normalised = tokenizer.backend.normalizer.normalize_str(text) if tokenizer.backend.normalizer else text
    return normalised.replace(" ", "")


@pytest.mark.parametrize("encoder", ["toy", "all-MiniLM-L6-v2"])
def test_offsets_lead_back_to_the_text(encoder: str, toy: Tokenizer, cache: Path) -> None:
    tokenizer = toy if encoder == "toy" else Tokenizer(locate(encoder).folder)
    found = tokenise(column(*HARD_TEXTS), tokenizer, offsets=True)
    check_same(found, tokenizer.encode(HARD_TEXTS))
    for row, text in enumerate(HARD_TEXTS):
        offsets = found.offsets_of(row)
        assert offsets is not None
        assert offsets.shape == (len(found[row]), 2)
        for token, (start, end) in zip(found[row].tolist(), offsets.tolist(), strict=True):
            surface = text[start:end]
            assert surface
            assert surface == surface.strip()
            piece = tokenizer.backend.id_to_token(token)
            if piece != "[UNK]":
                assert bare(surface, tokenizer) == piece.removeprefix("##"), (text, piece)
        assert (np.diff(offsets[:, 0]) >= 0).all(), "in order"
        covered = {at for start, end in offsets.tolist() for at in range(start, end)}
        missed = [text[at] for at in range(len(text)) if at not in covered and bare(text[at], tokenizer)]
        assert missed == [], "every character that the tokenizer reads belongs to a token"


def test_offsets_by_hand(toy: Tokenizer) -> None:
    found = tokenise(column("The GOOD  film.", "é 我"), toy, offsets=True)
    offsets = found.offsets_of(0)
    assert offsets is not None
    assert offsets.tolist() == [[0, 3], [4, 8], [10, 14], [14, 15]]
    second = found.offsets_of(1)
    assert second is not None
    assert second.tolist() == [[0, 1], [2, 3]]


def test_a_space_before_a_word_is_not_part_of_its_token(tmp_path: Path) -> None:
    """Sentencepiece-like tokenizers write it as ▁ and count it."""
    backend = tokenizers.Tokenizer(models.WordLevel({"▁a": 0, "▁dog": 1, "[UNK]": 2}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
    backend.save(str(tmp_path / "tokenizer.json"))
    _, (spans,) = Tokenizer(tmp_path).encode_with_offsets(["a dog"])
    assert spans == [(0, 1), (2, 5)]


def test_offsets_have_an_entry_of_their_own_and_cost_nobody_else(
    toy: Tokenizer, toy_encoder: Path, cache: Path
) -> None:
    plain = tokenise(column(*SENTENCES), toy)
    assert plain.offsets_of(0) is None
    assert [file.name for file in (cache / plain.fingerprint).iterdir() if "token" in file.name] == []
    located = tokenise(column(*SENTENCES), toy, offsets=True)
    assert located.fingerprint == plain.fingerprint, "the same texts and tokenizer"
    assert {folder.name for folder in cache.iterdir()} == {plain.fingerprint, f"{plain.fingerprint}-offsets"}

    class RefusingOffsets(Tokenizer):
        def encode_with_offsets(self, texts: list[str]) -> tuple[list[list[int]], list[Spans]]:
            raise AssertionError("tokenised again")

    again = tokenise(column(*SENTENCES), RefusingOffsets(toy_encoder), offsets=True)
    assert np.array_equal(again.offsets_of(3), located.offsets_of(3))  # type: ignore[arg-type]


# --- packing ---------------------------------------------------------------------------------------------------


def sequence(length: int, positions_needed: PositionsNeeded, mark: int) -> Sequence:
    """Ids that tell which sequence and which place they are from."""
    return Sequence(np.arange(length) + 1000 * mark, np.arange(length) % 2 + mark, positions_needed)


def test_packing_by_hand() -> None:
    packed = pack([sequence(3, "first", 0), sequence(1, "all", 1), sequence(3, "all", 2), sequence(3, "last", 3)])
    assert packed.ids.tolist() == [1000, 0, 1, 2, 3000, 3001, 3002, 2000, 2001, 2002]
    assert packed.positions.tolist() == [0, 0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert packed.segments.tolist() == [1, 0, 1, 0, 3, 4, 3, 2, 3, 2]
    assert [(one.count, one.length, one.kept_length) for one in packed.groups] == [(1, 1, 1), (2, 3, 1), (1, 3, 3)]
    assert (packed.starts.tolist(), packed.lengths.tolist()) == ([1, 0, 7, 4], [3, 1, 3, 3])
    assert packed.kept_rows is not None
    assert packed.kept_rows.tolist() == [0, 1, 6, 7, 8, 9]
    assert (packed.kept_starts.tolist(), packed.kept_lengths.tolist()) == ([1, 0, 3, 2], [1, 1, 3, 1])
    assert len(packed) == 10


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["first", "last", "all"])), min_size=1, max_size=12))
def test_packing_agrees_with_a_naive_layout(shapes: list[tuple[int, PositionsNeeded]]) -> None:
    given_ = [sequence(length, positions_needed, mark) for mark, (length, positions_needed) in enumerate(shapes)]
    packed = pack(given_)
    kept_lengths = [length if positions_needed == "all" else 1 for length, positions_needed in shapes]
    order = sorted(range(len(shapes)), key=lambda i: (shapes[i][0], kept_lengths[i]))  # ties as they were given
    ids, positions, segments, kept = [], [], [], []
    starts, kept_starts = [0] * len(shapes), [0] * len(shapes)
    for i in order:
        length, positions_needed = shapes[i]
        starts[i], kept_starts[i] = len(ids), len(kept)
        kept += [len(ids) + at for at in {"first": [0], "last": [length - 1], "all": range(length)}[positions_needed]]
        ids += given_[i].ids.tolist()
        positions += range(length)
        segments += given_[i].segments.tolist()
    assert packed.ids.tolist() == ids
    assert packed.positions.tolist() == positions
    assert packed.segments.tolist() == segments
    assert (packed.starts.tolist(), packed.lengths.tolist()) == (starts, [length for length, _ in shapes])
    assert (packed.kept_starts.tolist(), packed.kept_lengths.tolist()) == (kept_starts, kept_lengths)
    assert (list(range(len(ids))) if packed.kept_rows is None else packed.kept_rows.tolist()) == kept
    laid = [(one.length, one.kept_length) for one in packed.groups for _ in range(one.count)]
    assert laid == [(shapes[i][0], kept_lengths[i]) for i in order]
    assert len({(one.length, one.kept_length) for one in packed.groups}) == len(packed.groups), (
        "as few groups as possible"
    )


def test_no_rows_are_chosen_where_all_are_kept() -> None:
    assert pack([sequence(3, "all", 0), sequence(1, "first", 1)]).kept_rows is None
    assert pack([sequence(3, "all", 0), sequence(2, "first", 1)]).kept_rows is not None
