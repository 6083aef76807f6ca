"""Which tokens are hidden for masked language modelling: a pure function of texts and a generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.errors import UserError
from manyheads.tokens.packing import Sequence
from manyheads.tokens.tokenizer import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "<pad>", "<unk>", "<s>", "</s>")
REPLACED, SWAPPED = 0.8, 0.1  # of the chosen tokens: [MASK], another token at random; the rest stays as it is


@dataclass(frozen=True)
class Vocabulary:
    """What masking must know of the tokenizer."""

    mask: int  # id of the token that hides another
    ordinary: np.ndarray  # ids that may stand in a text
    continues: np.ndarray  # [ids] whether a token goes on with the word before it

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        known = tokenizer.backend.get_vocab(with_added_tokens=True)
        mask = next((known[name] for name in ("[MASK]", "<mask>") if name in known), None)
        if mask is None:
            raise UserError("pretrain: this encoder's tokenizer has no mask token ([MASK] or <mask>).", "no-mask-token")
        special = {int(one) for one in tokenizer.backend.get_added_tokens_decoder()}
        special_tokens = tokenizer.special_tokens
        special |= {mask, *special_tokens.start.tolist(), *special_tokens.middle.tolist(), *special_tokens.end.tolist()}
        special |= {known[name] for name in SPECIAL if name in known}
        continues = np.zeros(max(known.values()) + 1, dtype=bool)
        pieces = any(name.startswith("##") for name in known)  # WordPiece marks what goes on, others what starts
        for name, number in known.items():
            continues[number] = name.startswith("##") if pieces else not name.startswith(("Ġ", "▁"))
        ordinary = np.array(sorted(set(known.values()) - special))
        return cls(mask, ordinary, continues)


def mask_tokens(
    sequence: Sequence, vocabulary: Vocabulary, share: float, whole_words: bool, draw: np.random.Generator
) -> tuple[Sequence, np.ndarray]:
    """The sequence with some tokens hidden, and where: a share of its ordinary tokens, at least one.

    With `whole_words`, words are chosen and all their pieces hidden. Of the chosen, 80 % become the mask token, 10 %
    another token, 10 % stay as they are, as in BERT.
    """
    may = np.flatnonzero(np.isin(sequence.ids, vocabulary.ordinary))
    if not len(may):
        return sequence, may
    wanted = max(1, round(share * len(may)))
    if whole_words:
        starts = ~vocabulary.continues[sequence.ids[may]] | np.r_[True, np.diff(may) > 1]
        word = np.cumsum(starts) - 1
        order = draw.permutation(word[-1] + 1)
        sizes = np.bincount(word)[order]
        chosen = order[: max(1, int(np.searchsorted(np.cumsum(sizes), wanted, side="right")))]
        where = may[np.isin(word, chosen)]
    else:
        where = np.sort(draw.choice(may, size=wanted, replace=False))
    fate = draw.random(len(where))
    others = draw.choice(vocabulary.ordinary, size=len(where))
    ids = sequence.ids.copy()
    ids[where] = np.where(
        fate < REPLACED, vocabulary.mask, np.where(fate < REPLACED + SWAPPED, others, sequence.ids[where])
    )
    return Sequence(ids, sequence.segments), where
