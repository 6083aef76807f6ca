"""Masked language modelling: the model, the loss of a step, and how well tokens of other texts are predicted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.config.training import PretrainSettings
from manyheads.encoder import Encoder
from manyheads.pretraining.masking import Vocabulary, mask_tokens
from manyheads.seeding import generator, seeded_rng
from manyheads.tokens.budget import split_by_tokens
from manyheads.tokens.packing import Sequence, pack


class MaskedLanguageModel(nn.Module):
    """An encoder and the head that predicts masked tokens."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, sequences: list[Sequence], positions: list[np.ndarray]) -> Tensor:
        """Logits [masked tokens, pieces], text by text."""
        device = self.encoder.words.device
        tokens = pack(sequences, device)
        states = self.encoder(tokens)
        rows = []
        for start, masked in zip(tokens.starts.tolist(), positions, strict=True):
            rows.append(start + masked)
        return self.head(states[torch.from_numpy(np.concatenate(rows)).to(device)], self.encoder.words)


@dataclass(frozen=True)
class MaskedText:
    """A text with some tokens masked."""

    masked: Sequence
    positions: np.ndarray  # of the masked tokens
    targets: Tensor  # the tokens that stood there


@dataclass(frozen=True)
class MaskedTask:
    """What is masked, and how many tokens go through the encoder at once."""

    model: MaskedLanguageModel
    vocabulary: Vocabulary
    settings: PretrainSettings
    seed: int

    def mask(self, texts: list[Sequence], draw: np.random.Generator) -> list[MaskedText]:
        masked_texts = []
        for text in texts:
            masked, positions = mask_tokens(text, self.vocabulary, self.settings.share, self.settings.whole_words, draw)
            masked_texts.append(MaskedText(masked, positions, torch.from_numpy(text.ids[positions]).long()))
        return masked_texts

    def backward(
        self,
        texts: list[Sequence],
        step: int,
        tokens_per_pass: int,
        autocast: Callable[[], AbstractContextManager[None]],
    ) -> float:
        """Add the gradient of one step to `.grad`; returns the mean loss over its masked tokens."""
        self.model.train()
        masked_texts = self.mask(texts, generator(self.seed, step, "masking"))
        total = sum(len(text.targets) for text in masked_texts)
        loss = 0.0
        with seeded_rng(self.seed, step, "step"):
            for passing in split_by_tokens(masked_texts, _tokens, tokens_per_pass):
                with autocast():
                    logits = self._logits(passing).float()
                part = F.cross_entropy(logits, _targets(passing, logits.device), reduction="sum") / total
                part.backward()
                loss += part.item()
        return loss

    @torch.no_grad()
    def evaluate(self, texts: list[Sequence], tokens_per_pass: int) -> dict[str, float]:
        """Loss and accuracy, always with the same tokens masked; nothing where there are no texts."""
        if not texts:
            return {}
        self.model.eval()
        loss, correct, total = 0.0, 0, 0
        masked_texts = self.mask(texts, generator(self.seed, "judge"))
        for passing in split_by_tokens(masked_texts, _tokens, tokens_per_pass):
            logits = self._logits(passing)
            targets = _targets(passing, logits.device)
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            correct += int((logits.argmax(dim=1) == targets).sum())
            total += len(targets)
        return {"loss": loss / max(1, total), "accuracy": correct / max(1, total)}

    def _logits(self, passing: list[MaskedText]) -> Tensor:
        logits: Tensor = self.model([text.masked for text in passing], [text.positions for text in passing])
        return logits


def _tokens(text: MaskedText) -> int:
    return len(text.masked.ids)


def _targets(passing: list[MaskedText], device: torch.device) -> Tensor:
    return torch.cat([text.targets for text in passing]).to(device)
