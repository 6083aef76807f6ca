"""What labels and predictions are. Importing registers every kind of task; none of them needs torch."""

from manyheads.parts.kinds.answer_span import AnswerSpan
from manyheads.parts.kinds.classification import Classification
from manyheads.parts.kinds.multi_label import MultiLabel
from manyheads.parts.kinds.multiple_choice import MultipleChoice
from manyheads.parts.kinds.ordinal import Ordinal
from manyheads.parts.kinds.regression import Regression
from manyheads.parts.kinds.similarity_search import SimilaritySearch
from manyheads.parts.kinds.tags import Tags

__all__ = [
    "AnswerSpan",
    "Classification",
    "MultiLabel",
    "MultipleChoice",
    "Ordinal",
    "Regression",
    "SimilaritySearch",
    "Tags",
]
