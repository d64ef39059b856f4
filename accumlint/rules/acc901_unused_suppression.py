from __future__ import annotations

from collections.abc import Sequence

from accumlint.contract.verdict import Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import brief


class UnusedSuppression(Rule):
    """A `noqa` for an ACC code suppresses nothing.

    ## What it does
    Reports a `# noqa: ACC...` comment on a line on which that code is not found. Codes of other tools in the same
    comment are left alone.

    ## Why it is bad
    A suppression that has lost its finding hides the next one: after a repair divides `g = sum_k S_k / sum_k n_k`
    rightly, the comment would silence the day when somebody brings the constant division back. In a loop with 3
    suppressions of which 1 is used, nobody knows which 2 are history.

    ## Exceptions
    Silent for a bare `# noqa`, which may serve other tools, for codes that are not selected in this run, and for a code
    of a loop that could not be analysed: there is no verdict, so the comment cannot be called unused.

    ## References
    - https://docs.astral.sh/ruff/rules/unused-noqa/
    - https://flake8.pycqa.org/en/stable/user/violations.html
    """

    code = "ACC901"
    name = "unused-suppression"
    clause = None
    summary = "a noqa for an ACC code that suppresses nothing"
    opt_in = True
    repair = Repair.DELETE
    repair_safety = "Safe: only the code, or the comment if no code is left, is removed; no statement changes."

    def message_for(self, unused: Sequence[str]) -> str:
        """The message for the codes of one comment that suppressed nothing; there is no violation to word."""
        codes = ", ".join(unused)
        if not codes:
            return "unused suppression: this noqa suppresses no finding; remove it"
        verb = "is" if len(unused) == 1 else "are"
        return f"unused suppression: {codes} {verb} not found on this line; remove from the noqa"

    def message(self, violation: Violation) -> str:
        """For a violation made by hand: `detail` holds the codes, separated by commas or spaces."""
        return self.message_for(brief(violation.detail).replace(",", " ").split())

    def hint(self, violation: Violation) -> str:
        return "remove the code, or the whole comment if no other code is left"

    good = (
        example(
            """
            import torch.nn.functional as F


            def train(model, stream, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        ids, labels = next(stream)  # labels are -100 on padding
                        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
                        (loss / accum).backward()  # noqa: ACC101
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "The suppression is used.",
        ),
        example(
            """
            import torch.nn.functional as F


            def train(model, loader, optimizer):
                for ids, labels in loader:
                    loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
                    optimizer.zero_grad()
                    loss.backward()  # noqa
                    optimizer.step()
            """,
            "A bare `noqa` may serve another tool.",
        ),
        example(
            """
            import torch.nn.functional as F


            def train(model, loader, optimizer):
                for ids, labels in loader:
                    l = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())  # noqa: E741
                    optimizer.zero_grad()
                    l.backward()
                    optimizer.step()
            """,
            "The code of another tool.",
        ),
    )
    bad = (
        example(
            """
            import torch.nn.functional as F


            def train(model, loader, optimizer):
                for ids, labels in loader:
                    loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
                    optimizer.zero_grad()
                    loss.backward()  # noqa: ACC103  # <- here
                    optimizer.step()
            """,
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()  # noqa: ACC101  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "The counts are equal: there is nothing to suppress.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer):
                    self.model, self.optimizer = model, optimizer
                    self.criterion = torch.nn.CrossEntropyLoss()

                def fit(self, loader):
                    for ids, labels in loader:
                        self.optimizer.zero_grad()
                        self.criterion(self.model(ids).flatten(0, 1), labels.flatten()).backward()
                        self.optimizer.step()  # noqa: ACC301, E501  # <- here
            """,
            "Only ACC301 is reported; E501 belongs to another tool.",
        ),
    )
