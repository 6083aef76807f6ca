"""Further pre-training of the encoder by masked language modelling."""

from manyheads.pretraining.run import is_pretraining, pretrain, resume_pretraining

__all__ = ["is_pretraining", "pretrain", "resume_pretraining"]
