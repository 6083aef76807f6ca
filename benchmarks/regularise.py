"""What SMART costs: our step with and without it, beside smart-pytorch on the same encoder, padded.

    python benchmarks/regularise.py [--data FOLDER] [--turns N] [--write]

Default encoder, three tasks, batch 16, one ascent step, all tasks regularised. smart-pytorch runs as its README has
it, task by task on transformers' own model with padded batches, but on word embeddings (the README sends embeddings
through the embedding layer twice). With --data the tasks are SST-5, Quora pairs and STS, else the generated ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from smart_pytorch import SMARTLoss, sym_kl_loss
from torch.nn import functional as F
from transformers import AutoModel, BertModel

from combine import three_tasks
from manyheads.parts.regularisers import Regulariser
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find
from manyheads.training.gradients.combination import Combination
from manyheads.training.setup import Setup
from side_by_side import machine, ratio, time_in_turns, write_block


class Padded:
    """The same encoder and heads in transformers, a padded batch for each task."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.model: BertModel = AutoModel.from_pretrained(setup.encoder_folder, attn_implementation="sdpa").train()
        parameters = [*self.model.parameters(), *setup.model.heads.parameters()]
        self.optimizer = torch.optim.AdamW([one for one in parameters if one.requires_grad], lr=1e-12, fused=True)

    def run(self, step: int, smart: bool) -> None:
        for batch in self.setup.rounds(step)[0]:
            data = self.setup.datasets.train[batch.task]
            inputs = [data.inputs(self.setup.model, row)[0] for row in batch.indices.tolist()]
            longest = max(len(one.ids) for one in inputs)
            ids, segments, mask = (torch.zeros(len(inputs), longest, dtype=torch.long) for _ in range(3))
            for number, one in enumerate(inputs):
                ids[number, : len(one.ids)] = torch.from_numpy(one.ids.astype("int64"))
                segments[number, : len(one.ids)] = torch.from_numpy(one.segments.astype("int64"))
                mask[number, : len(one.ids)] = 1
            head = self.setup.model.head(batch.task)

            def outputs(embedded, segments=segments, mask=mask, head=head):  # type: ignore[no-untyped-def]
                states = self.model(inputs_embeds=embedded, token_type_ids=segments, attention_mask=mask)
                first = states.last_hidden_state[:, 0]
                rows = torch.arange(len(first))
                return head({head.pooling.layer: first}, rows, torch.ones_like(rows))

            embedded = self.model.get_input_embeddings()(ids)
            clean = outputs(embedded)
            labels = data.labels
            assert labels is not None
            loss = head.loss(clean, labels[batch.indices]).mean()
            if smart:
                apart = sym_kl_loss if clean.shape[-1] > 1 else F.mse_loss
                loss = loss + 0.45 * SMARTLoss(outputs, apart)(embedded, clean)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def ours(setup: Setup, *regularisers: Regulariser) -> Callable[[int], None]:
    combination = Combination(Sum(list(setup.model.tasks)))

    def run(step: int) -> None:
        setup.backward.step(setup.rounds(step), combination, (0, step), regularisers)
        torch.nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
        for group in setup.optimizer.param_groups:
            group["lr"] = 0.0  # the work of a step without its effect
        setup.optimizer.step()
        for one in regularisers:
            one.after_step(setup.model)
        setup.optimizer.zero_grad(set_to_none=True)

    return run


def build(setup: Setup, name: str) -> Regulariser:
    one: Regulariser = find("regularisers", name).factory(list(setup.model.tasks))
    one.name = name
    one.begin(setup.model)
    return one


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files; else the generated tasks")
    given.add_argument("--turns", type=int, default=15)
    given.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = given.parse_args()
    setup = three_tasks(options.data)
    padded = Padded(setup)
    rivals = {
        "plain": ours(setup),
        "smart": ours(setup, build(setup, "smart")),
        "bregman": ours(setup, build(setup, "bregman")),
        "padded": lambda step: padded.run(step, smart=False),
        "smart-pytorch": lambda step: padded.run(step, smart=True),
    }
    taken = time_in_turns(rivals, options.turns, warm_up=2)
    tokens = "SST-5, Quora, STS" if options.data else "generated tasks"
    lines = [
        f"{machine()}; {tokens}, batch 16 each, {options.turns} turns; medians of ratios, quartiles in brackets.",
        "",
        "| a step of | ÷ a plain step of the same kind | ÷ our SMART step |",
        "|---|---|---|",
        f"| manyheads, plain | 1 | {ratio(taken, 'plain', 'smart')} |",
        f"| manyheads, `smart` | {ratio(taken, 'smart', 'plain')} | 1 |",
        f"| manyheads, `bregman` | {ratio(taken, 'bregman', 'plain')} | {ratio(taken, 'bregman', 'smart')} |",
        f"| transformers, padded, plain | 1 | {ratio(taken, 'padded', 'smart')} |",
        f"| transformers, padded, smart-pytorch | {ratio(taken, 'smart-pytorch', 'padded')} | "
        f"{ratio(taken, 'smart-pytorch', 'smart')} |",
    ]
    print("\n".join(lines))
    if options.write:
        write_block("smart data" if options.data else "smart", lines)


if __name__ == "__main__":
    main()
