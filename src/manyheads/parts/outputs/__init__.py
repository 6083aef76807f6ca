"""What becomes of a head's outputs. Importing registers every output."""

from manyheads.parts.outputs.output import Clamp, Output, Raw, Sigmoid, Similarity

__all__ = ["Clamp", "Output", "Raw", "Sigmoid", "Similarity"]
