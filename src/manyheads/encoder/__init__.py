"""The shared encoder: minBERT over packed tokens, or any transformers encoder behind the same face."""

from manyheads.encoder.base import Encoder
from manyheads.encoder.loading import LoadedEncoder, load_encoder, locate

__all__ = ["Encoder", "LoadedEncoder", "load_encoder", "locate"]
