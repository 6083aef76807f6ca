"""Folders that other packages open: transformers, and both kinds of sentence-transformers' models, as safetensors.

transformers            AutoModelForSequenceClassification: one text or a pair, [CLS] through a pooler
cross-encoder           CrossEncoder: the same, any pooling, further layers
sentence-transformers   SentenceTransformer: the vectors of a search, else mean token states of the trained encoder, as
                        `embed` gives them
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import save_file
from torch import Tensor

from manyheads.config.plugins import import_parts
from manyheads.encoder.bert import Bert
from manyheads.encoder.hf_names import to_hugging_face
from manyheads.errors import UserError, nearest
from manyheads.exporting.chain import Chain, Step, as_two_classes, chain_of, vector_chain_of
from manyheads.exporting.graph import cannot_export
from manyheads.inference.torch_backend import TorchBackend
from manyheads.model.folder import TOKENIZER_FILES
from manyheads.model.multitask import ManyHeads
from manyheads.storage.files import write_folder
from manyheads.tasks.task import Task

Form = Literal["transformers", "cross-encoder", "sentence-transformers"]
MODULE_TYPES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}
ACTIVATIONS = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "none": "torch.nn.modules.linear.Identity",
}
POOLING_MODES = {"first": "cls", "last": "lasttoken", "mean": "mean"}
# how a score is read: 'classes' are logits, for `apply_softmax=True`
SCORE_ACTIVATIONS = {
    "classes": ACTIVATIONS["none"],
    "one of two": "torch.nn.modules.activation.Sigmoid",
    "labels": "torch.nn.modules.activation.Sigmoid",
    "value": ACTIVATIONS["none"],
}


def export_form(
    model_folder: str | Path, to: str | Path, form: Form, task: str | None = None, imports: tuple[str | Path, ...] = ()
) -> Path:
    """Write a folder in another package's form; of one task, unless it holds the encoder alone."""
    for file in imports:
        import_parts(Path(file).expanduser().resolve(), "imports")
    backend = TorchBackend.open(Path(model_folder), tokens_per_pass=4096)
    if not isinstance(backend.model.encoder, Bert):
        raise cannot_export("the encoder is one of transformers' own: save_pretrained writes it")
    writers: dict[str, Callable[[Path], None]] = {
        "transformers": lambda aside: _write_transformers(aside, backend.model, _chosen(backend, task)),
        "cross-encoder": lambda aside: _write_cross_encoder(aside, backend.model, _chosen(backend, task)),
        "sentence-transformers": lambda aside: _write_sentence_transformer(
            aside, backend.model, _searching(backend, task)
        ),
    }

    def fill(aside: Path) -> None:
        _copy_encoder(Path(model_folder), aside, backend.model)
        writers[form](aside)

    write_folder(Path(to), fill)
    return Path(to)


def _chosen(backend: TorchBackend, name: str | None) -> Task:
    if name is None and len(backend.tasks) == 1:
        return next(iter(backend.tasks.values()))
    if name not in backend.tasks:
        reason = "say which task: --task" if name is None else f"no task '{name}'"
        raise UserError(f"export: {reason}.{nearest(name or '', backend.tasks)}", code="unknown-task")
    return backend.tasks[name]


def _searching(backend: TorchBackend, name: str | None) -> Task | None:
    """The task whose vectors are exported: named, else the only one that searches; None for the encoder's own."""
    searching = {task.name: task for task in backend.tasks.values() if task.kind.searches}
    if name is None and len(searching) < 2:
        return next(iter(searching.values()), None)
    if name not in searching:
        reason = "say which task: --task" if name is None else f"no task '{name}' that searches"
        raise UserError(f"export: {reason}.{nearest(name or '', searching)}", code="unknown-task")
    return searching[name]


def _copy_encoder(source: Path, target: Path, model: ManyHeads) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json", *TOKENIZER_FILES):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    file = target / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    _write_json(file, {**settings, "model_max_length": model.max_length})  # as the model truncates


# --- transformers -----------------------------------------------------------------------------------------------


def _write_transformers(folder: Path, model: ManyHeads, task: Task) -> None:
    """BertForSequenceClassification: W·tanh(P·h_[CLS] + p) + b."""
    chain = chain_of(model, task)
    if chain.position != "first" or [step.activation for step in chain.steps] != ["tanh", "none"]:
        reason = "AutoModelForSequenceClassification has [CLS], one pooler and one linear layer, this head has not"
        raise cannot_export(f"task '{task.name}': {reason}", "--to cross-encoder")
    pooler, classifier = chain.steps
    if chain.scores == "one of two":
        classifier = as_two_classes(classifier)
    encoder = {name: tensor.detach() for name, tensor in model.encoder.state_dict().items()}
    tensors = {f"bert.{name}": tensor for name, tensor in to_hugging_face(encoder).items()}
    tensors |= {"bert.pooler.dense.weight": pooler.weight, "bert.pooler.dense.bias": pooler.bias}
    tensors |= {"classifier.weight": classifier.weight, "classifier.bias": classifier.bias}
    _save(folder / "model.safetensors", tensors)
    _change_config(folder, {"architectures": ["BertForSequenceClassification"], **_labels(task, chain)})


def _labels(task: Task, chain: Chain) -> dict[str, Any]:
    """What config.json says of a task's scores."""
    names = (task.name,) if chain.scores == "value" else task.labels.names
    labels: dict[str, Any] = {
        "problem_type": task.kind.problem_type,
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }
    if task.thresholds:  # transformers knows none: whoever decides reads them here
        labels["thresholds"] = dict(zip(names, task.thresholds, strict=True))
    return labels


# --- sentence-transformers --------------------------------------------------------------------------------------


def _write_cross_encoder(folder: Path, model: ManyHeads, task: Task) -> None:
    chain = chain_of(model, task)
    modules = ["Transformer", "Pooling", *["Dense"] * len(chain.steps)]
    _write_modules(folder, modules, model, POOLING_MODES[chain.position])
    for number, step in enumerate(chain.steps, start=2):
        is_last = number == len(modules) - 1
        _write_dense(folder / f"{number}_Dense", step, "scores" if is_last else "sentence_embedding")
    _write_json(
        folder / "config_sentence_transformers.json",
        {"model_type": "CrossEncoder", "activation_fn": SCORE_ACTIVATIONS[chain.scores], "prompts": {}},
    )
    _change_config(folder, _labels(task, chain))


def _write_sentence_transformer(folder: Path, model: ManyHeads, task: Task | None) -> None:
    if task is None:
        _write_modules(folder, ["Transformer", "Pooling"], model, "mean")
    else:
        position, steps = vector_chain_of(model, task)
        modules = ["Transformer", "Pooling", *["Dense"] * len(steps), "Normalize"]
        _write_modules(folder, modules, model, POOLING_MODES[position])
        for number, step in enumerate(steps, start=2):
            _write_dense(folder / f"{number}_Dense", step, "sentence_embedding")
    similarity = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine", "prompts": {}}
    _write_json(folder / "config_sentence_transformers.json", similarity)


def _write_modules(folder: Path, modules: list[str], model: ManyHeads, pooling: str) -> None:
    listed: list[dict[str, Any]] = []
    for number, name in enumerate(modules):
        path = "" if name == "Transformer" else f"{number}_{name}"
        listed.append({"idx": number, "name": str(number), "path": path, "type": MODULE_TYPES[name]})
    _write_json(folder / "modules.json", listed)
    _write_json(
        folder / "sentence_bert_config.json",
        {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
            "module_output_name": "token_embeddings",
            "max_seq_length": model.max_length,
        },
    )
    (folder / "1_Pooling").mkdir()
    width = model.encoder.width
    _write_json(folder / "1_Pooling" / "config.json", {"embedding_dimension": width, "pooling_mode": pooling})


def _write_dense(folder: Path, step: Step, output: str) -> None:
    folder.mkdir()
    _save(folder / "model.safetensors", {"linear.weight": step.weight, "linear.bias": step.bias})
    _write_json(
        folder / "config.json",
        {
            "in_features": step.weight.shape[1],
            "out_features": step.weight.shape[0],
            "bias": True,
            "activation_function": ACTIVATIONS[step.activation],
            "module_input_name": "sentence_embedding",
            "module_output_name": output,
        },
    )


# --- files ------------------------------------------------------------------------------------------------------


def _save(file: Path, tensors: dict[str, Tensor]) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file, metadata={"format": "pt"})


def _change_config(folder: Path, changes: dict[str, Any]) -> None:
    file = folder / "config.json"
    _write_json(file, {**json.loads(file.read_text(encoding="utf-8")), **changes})


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
