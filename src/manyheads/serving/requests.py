"""What a client asks for, checked; and how it is documented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from manyheads.data.table import question_columns, text_columns
from manyheads.data.words import join_words
from manyheads.errors import UserError, nearest
from manyheads.inference.prepared import TextInput
from manyheads.inference.texts import choice_texts, takes_texts
from manyheads.serving.errors import RequestError, short_name
from manyheads.serving.limits import Limits
from manyheads.serving.models import ServedModel
from manyheads.tasks.task import Task

NumberedInput = tuple[int, TextInput]  # which input of the request it is of, from 1 on
MOST_KEYS = 20  # of a request
MOST_TASKS = 1_000
TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": r"\S"}
ONE_INPUT: dict[str, Any] = {
    "anyOf": [
        {**TEXT, "description": "A text."},
        {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2, "description": "A pair."},
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]},
            "description": "A row with the tasks' own text columns; a text that is tagged may be a list of words.",
        },
    ]
}
SEVERAL_INPUTS = {"type": "array", "items": ONE_INPUT, "minItems": 1}
TEXTS = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}


class RequestModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


class PredictRequest(RequestModel):
    inputs: Annotated[Any, WithJsonSchema({"anyOf": [TEXT, SEVERAL_INPUTS]})]
    tasks: list[str] | None = Field(None, min_length=1, description="Which heads answer; by default all that fit.")
    model: str | None = Field(None, description="Which model; by default the first.")
    timeout_ms: int | None = Field(None, ge=1, description="After so long the answer is 504.")
    explain: bool = Field(False, description="Also which words mattered: gradient × input, for few inputs.")


class EmbeddingRequest(RequestModel):
    input: Annotated[Any, WithJsonSchema(TEXTS)]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    timeout_ms: int | None = Field(None, ge=1)
    user: str | None = Field(None, description="Ignored.")


class TaskPrediction(BaseModel):
    """'prediction' is a class, a list of classes, a value in the labels' units, or a list of spans of the text."""

    model_config = ConfigDict(extra="allow")
    prediction: Any
    probabilities: dict[str, float] | None = None


class InputPrediction(BaseModel):
    tasks: dict[str, TaskPrediction] | None = None
    tokens: int
    truncated: bool
    error: dict[str, str] | None = None


class PredictResponse(BaseModel):
    id: str
    model: str
    predictions: list[InputPrediction]
    usage: dict[str, int]
    milliseconds: dict[str, float]


class EmbeddingResponse(BaseModel):
    object: Literal["list"]
    data: list[dict[str, Any]]
    model: str
    usage: dict[str, int]


class ErrorResponse(BaseModel):
    error: dict[str, str]
    id: str


def read_request(model: type[RequestModel], content: dict[str, Any], limits: Limits) -> Any:
    """The request, or the first fault in a sentence that repeats nothing of what was sent."""
    if len(content) > MOST_KEYS:
        raise RequestError(422, "bad-request", f"Unknown keys. Known: {', '.join(model.model_fields)}.")
    tasks = content.get("tasks")
    if isinstance(tasks, list) and len(tasks) > MOST_TASKS:
        raise RequestError(422, "bad-request", f"tasks: at most {MOST_TASKS:,}.")
    try:
        request = model.model_validate(content)
    except ValidationError as fault:
        raise RequestError(422, "bad-request", _first_fault(fault, ", ".join(model.model_fields))) from None
    timeout = getattr(request, "timeout_ms", None)
    if timeout is not None and timeout > limits.longest_timeout_ms:
        raise RequestError(422, "bad-request", f"timeout_ms: at most {limits.longest_timeout_ms:,}.")
    return request


def _first_fault(fault: ValidationError, known: str) -> str:
    first = fault.errors(include_input=False, include_url=False, include_context=False)[0]
    key = ".".join(map(str, first["loc"]))
    if not first["loc"]:  # pydantic cannot name a key that is no text
        return f"A key has half of a surrogate pair, which is no text. Known: {known}."
    if first["type"] == "extra_forbidden":
        if not key or not key.isprintable():
            return f"Unknown key: an empty one, or one with unprintable characters. Known: {known}."
        return f"Unknown key '{short_name(key)}'. Known: {known}."
    if first["type"] == "missing":
        return f"'{key}' is missing. Known: {known}."
    return f"{key}: {first['msg']}."


@dataclass(frozen=True)
class Reader:
    """Makes text inputs of what stands in `inputs`."""

    model: ServedModel
    task_names: list[str] | None
    limits: Limits

    def read(self, inputs: Any) -> list[NumberedInput]:
        """What is encoded: one text input of each input, or several of a row whose tasks read different columns."""
        listed = inputs if isinstance(inputs, list) else [inputs]
        if not listed:
            raise RequestError(422, "bad-request", "inputs: expected at least one text.")
        if len(listed) > self.limits.inputs:
            message = f"inputs: {len(listed):,} of them, at most {self.limits.inputs:,} at a time."
            raise RequestError(413, "too-many-inputs", message)
        tasks = self._chosen_tasks()
        numbered: list[NumberedInput] = []
        for number, content in enumerate(listed, start=1):
            for text_input in self._read_one(content, number, tasks):
                numbered.append((number, text_input))
        return numbered

    def _chosen_tasks(self) -> list[Task]:
        known = self.model.backend.tasks
        if self.task_names is None:
            return list(known.values())
        for name in self.task_names:
            if name not in known:
                short = short_name(name)
                raise RequestError(422, "unknown-task", f"tasks: no task '{short}'.{nearest(short, known)}")
        return [known[name] for name in dict.fromkeys(self.task_names)]

    def _read_one(self, content: Any, number: int, tasks: list[Task]) -> list[TextInput]:
        if isinstance(content, str):
            return [self._fitting((content,), number, tasks)]
        if isinstance(content, list) and len(content) == 2 and all(isinstance(side, str) for side in content):
            return [self._fitting(tuple(content), number, tasks)]
        if isinstance(content, dict) and content:
            return self._read_row(content, number, tasks)
        expected = 'a text, a pair ["one", "another"], or a row {"column": "text"}'
        raise RequestError(422, "bad-request", f"inputs: input {number}: expected {expected}.")

    def _fitting(self, texts: tuple[str, ...], number: int, tasks: list[Task]) -> TextInput:
        fitting = tuple(task for task in tasks if takes_texts(task, len(texts)))
        if not fitting:
            kind = "pairs" if len(texts) == 2 else "single texts"
            names = ", ".join(task.name for task in tasks)
            message = f"inputs: input {number}: none of the tasks takes {kind} ({names})."
            raise RequestError(422, "no-fitting-task", message)
        return TextInput(_checked(texts, number), fitting)

    def _read_row(self, row: dict[str, Any], number: int, tasks: list[Task]) -> list[TextInput]:
        """The tasks whose columns a row has."""
        tasks_by_columns: dict[tuple[str, ...], list[Task]] = {}
        text_inputs: list[TextInput] = []
        for task in tasks:
            if all(column in row for column in text_columns(task.columns)):
                if task.kind.per_candidate:
                    text_inputs.append(_read_choice(row, number, task))
                    continue
                tasks_by_columns.setdefault(task.columns.text, []).append(task)
        if not tasks_by_columns and not text_inputs:
            wanted = "; ".join(f"{task.name}: {', '.join(text_columns(task.columns))}" for task in tasks)
            message = f"inputs: input {number}: has the text columns of no task ({wanted})."
            raise RequestError(422, "no-fitting-task", message)
        for columns, fitting in tasks_by_columns.items():
            text_inputs.append(_read_texts_of_row(row, number, columns, fitting))
        return text_inputs


def _read_texts_of_row(row: dict[str, Any], number: int, columns: tuple[str, ...], tasks: list[Task]) -> TextInput:
    """A text or a pair; a list is one text, word by word."""
    texts = tuple(row[column] for column in columns)
    words_given = isinstance(texts[0], list) and len(texts) == 1
    if words_given:
        texts = (_joined(texts[0], number),)
    if not all(isinstance(text, str) for text in texts):
        message = f"inputs: input {number}: expected text in {', '.join(columns)}."
        raise RequestError(422, "bad-request", message)
    return TextInput(_checked(texts, number), tuple(tasks), words_given)


def _read_choice(row: dict[str, Any], number: int, task: Task) -> TextInput:
    """A question, with its context if the task has one, and candidates: a list, or a column each."""
    assert task.columns.choices is not None
    texts, own = question_columns(task.columns), task.columns.choices.candidates
    candidates = row[own[0]] if len(own) == 1 else [row[name] for name in own]
    try:
        joined = choice_texts([(*(row[name] for name in texts), candidates)], task)[0]
    except UserError as fault:
        message = str(fault).removeprefix("input 1: ")
        raise RequestError(422, "bad-request", f"inputs: input {number}: {message}") from None
    return TextInput(_checked(tuple(joined), number), (task,))


def read_texts(content: Any, limits: Limits) -> list[NumberedInput]:
    """What is to be embedded."""
    listed = content if isinstance(content, list) else [content]
    if not listed or not all(isinstance(text, str) for text in listed):
        raise RequestError(422, "bad-request", "input: expected a text or a list of texts.")
    if len(listed) > limits.inputs:
        message = f"input: {len(listed):,} texts, at most {limits.inputs:,} at a time."
        raise RequestError(413, "too-many-inputs", message)
    return [(number, TextInput(_checked((text,), number))) for number, text in enumerate(listed, start=1)]


def _joined(words: list[Any], number: int) -> str:
    try:
        return join_words(words)
    except ValueError as fault:
        raise RequestError(422, "bad-text", f"input {number}: {fault}.") from None


def _checked(texts: tuple[str, ...], number: int) -> tuple[str, ...]:
    for text in texts:
        if not text.strip():
            raise RequestError(422, "bad-text", f"input {number}: empty text.")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RequestError(422, "bad-text", f"input {number}: half of a surrogate pair is no text.") from None
    return texts


def user_fault(fault: UserError) -> RequestError:
    """A fault of the texts that only the model sees."""
    return RequestError(422, fault.code, str(fault))
