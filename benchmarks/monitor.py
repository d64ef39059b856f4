"""What `accumlint.harness.watch` costs: the same small training steps with and without it, in turns.

    python benchmarks/monitor.py [--windows 120] [--limit 2]

Prints the median time of a window of 4 microbatches on each side, and the median ratio of neighbouring turns; exits 1
if the monitor costs more than `--limit` per cent. CPU time is judged, because it does not depend on what else the
machine does; wall time is printed beside it. The time to enter and leave the monitor, once a run, is printed apart.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import nullcontext

import torch
from torch.nn import functional

from accumlint.harness import watch

STEPS, ROWS, LENGTH, WIDTH, WORDS = 4, 8, 64, 128, 512
TURN = 4  # windows before the other side has its turn


class Model(torch.nn.Module):
    """Two transformer layers, small enough for a laptop and large enough to be a training step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(tokens)))


class Training:
    """A right loop: forward, loss by count, backward, clip, step, clear."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.data = [torch.randint(0, WORDS, (ROWS, LENGTH)) for _ in range(STEPS)]

    def window(self) -> None:
        total = sum(tokens.numel() for tokens in self.data)
        for tokens in self.data:
            logits = self.model(tokens)
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum")
            (loss / total).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def turn(self, watched: bool) -> tuple[float, float, float]:
        """Seconds of CPU and wall a window, and seconds of CPU to enter and leave the monitor."""
        start = time.process_time()
        with watch(self.optimizer, self.model, every=TURN) if watched else nullcontext():
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(TURN):
                self.window()
            spent = (time.process_time() - cpu) / TURN, (time.perf_counter() - wall) / TURN
        return *spent, time.process_time() - start - spent[0] * TURN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--windows", type=int, default=120, help="of each side")
    parser.add_argument("--limit", type=float, default=2.0, help="per cent")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    training = Training()
    training.turn(True), training.turn(False)  # loads what a first step loads
    pairs = []
    for number in range(max(arguments.windows // TURN, 2)):
        order = (True, False) if number % 2 else (False, True)  # neither side is always the first
        turns = {watched: training.turn(watched) for watched in order}
        pairs.append((turns[False], turns[True]))
    costs = []
    for column, name in enumerate(("CPU", "wall")):
        plain, watched = (statistics.median(pair[side][column] for pair in pairs) for side in (0, 1))
        cost = 100 * (statistics.median(pair[1][column] / pair[0][column] for pair in pairs) - 1)
        costs.append(cost)
        print(f"{name:5} a window: {1e3 * plain:7.2f} ms, watched {1e3 * watched:7.2f} ms: {cost:+.2f} %")
    print(f"enter and leave: {1e3 * statistics.median(pair[1][2] for pair in pairs):.1f} ms a run")
    if costs[0] > arguments.limit:
        sys.exit(f"the monitor costs more than {arguments.limit:g} %")


if __name__ == "__main__":
    main()
