"""README.md of an exported folder: how to run it with onnxruntime and tokenizers alone."""

from __future__ import annotations

from manyheads.inference.graph_session import EXACT_INT8
from manyheads.inference.onnx_folder import Description, output_names
from manyheads.tasks.task import Task
from manyheads.tokens.framing import Frame, PairFrame, SingleFrame, frame_from_json

PAGE = """# {name}

{kind} by manyheads; {precision}, {layout}. Tasks: {tasks}.

    manyheads predict {folder} --all --text "…"        # also evaluate, serve; no torch is imported

## Without manyheads

    pip install onnxruntime tokenizers numpy

```python
{code}
```

{about_inputs}
"""

PACKED = """The graph reads sequences end to end, without padding: `ids`, `segments` [tokens], `lengths` [sequences]."""
PADDED = """The graph reads padded sequences: `input_ids`, `attention_mask`, `token_type_ids` [sequences, longest]."""
BOTH = """
`TASK.sequences` [examples, inputs of an example] says which sequences are a task's, by number; a task without any has 0
rows. Outputs: `TASK.probabilities` or `TASK.value`, calibrated and in the labels' units; `TASK.prediction`, the class's
number in `onnx.json` (of several labels a 0 or 1 for each); `embeddings`, the mean token state of each sequence.
Sequences have at most {max_length} tokens: cut longer ones. `onnx.json` says what each input of an example holds."""

HEAD = """import numpy as np, onnxruntime, tokenizers

tokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")
tokenizer.no_padding(), tokenizer.no_truncation()
options = onnxruntime.SessionOptions()
options.add_session_config_entry("{exact_int8}", "1")  # int8 on CPUs without VNNI
model = onnxruntime.InferenceSession("model.onnx", options)
encoded = tokenizer.encode_batch({texts})
"""
PACKED_FEEDS = """feeds = {
    "ids": np.concatenate([text.ids for text in encoded]),
    "segments": np.concatenate([text.type_ids for text in encoded]),
    "lengths": np.array([len(text.ids) for text in encoded]),
}
"""
PADDED_FEEDS = """lengths = np.array([len(text.ids) for text in encoded])
mask = np.arange(lengths.max()) < lengths[:, None]
ids, segments = np.zeros(mask.shape, np.int64), np.zeros(mask.shape, np.int64)
ids[mask] = np.concatenate([text.ids for text in encoded])
segments[mask] = np.concatenate([text.type_ids for text in encoded])
feeds = {"input_ids": ids, "attention_mask": mask.astype(np.int64), "token_type_ids": segments}
"""
TAIL = """for given in model.get_inputs():  # no examples of any task …
    if given.name.endswith(".sequences"):
        feeds[given.name] = np.zeros((0, given.shape[1]), np.int64)
feeds[{numbers!r}] = np.arange(len(encoded)).reshape(-1, {inputs})  # … but of this one
print(model.run([{output!r}], feeds)[0])"""


def usage(description: Description, tasks: dict[str, Task]) -> str:
    """The page, with code for the first task whose inputs the tokenizer frames by itself."""
    shown = next((name for name in tasks if _texts(description, tasks[name]) is not None), None)
    code = "# no task reads texts as the tokenizer frames them: build its inputs as onnx.json says"
    if shown is not None:
        frames = len(description.frames[shown]) * (2 if tasks[shown].both_orders else 1)
        code = HEAD.format(texts=_texts(description, tasks[shown]), exact_int8=EXACT_INT8)
        code += PACKED_FEEDS if description.layout == "packed" else PADDED_FEEDS
        code += TAIL.format(numbers=f"{shown}.sequences", inputs=frames, output=output_names(tasks[shown])[0])
    about = PACKED if description.layout == "packed" else PADDED
    name = description.about.get("run", "model")
    return PAGE.format(
        name=name,
        kind="A model with several heads on one encoder" if len(tasks) > 1 else "A model",
        precision=description.precision,
        layout=description.layout,
        tasks=", ".join(tasks),
        folder=".",
        code=code,
        about_inputs=about + BOTH.format(max_length=description.max_length),
    )


def _texts(description: Description, task: Task) -> str | None:
    """What to give the tokenizer for two examples of a task; None where it frames them otherwise."""
    frames: list[Frame] = [frame_from_json(saved) for saved in description.frames[task.name]]
    if task.both_orders:
        return None
    if frames == [SingleFrame(0)]:
        return '["A warm and funny film.", "Never again."]'
    if frames == [SingleFrame(0), SingleFrame(1)]:  # an example's two texts one after the other
        return '["A man plays.", "Somebody plays.", "A dog runs.", "It rains."]'
    if frames == [PairFrame()]:
        return '[("A man plays.", "Somebody plays."), ("A dog runs.", "It rains.")]'
    return None
