"""How each script of shapes/ is called: one shape of loop or loss in each, in varied style."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from drive import Columns, Examples, Problem
from problems import (
    COUNTS,
    COUNTS_EMPTY_WINDOW,
    VOCABULARY,
    WINDOWS,
    K,
    Table,
    Tokens,
    adam,
    dense,
    scaler,
    sgd,
    table_problem,
    token_loss,
    token_model,
    tokens_problem,
)
from torch import nn

F = nn.functional
Build = Callable[[], Problem]
SPECS: dict[str, dict[str, Build]] = {}
EMPTY = "window without targets"
SIZES = (4, 4, 4, 4, 4, 4, 2)


def both(name: str, make: Callable[..., Problem]) -> None:
    """With unequal counts, and with a last window that has no valid target."""
    SPECS[name] = {"base": make, EMPTY: partial(make, counts=COUNTS_EMPTY_WINDOW)}


def schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.9**n)


# --- over functions ---------------------------------------------------------------------------------------------------

both(
    "class_micro_and_update",
    partial(
        tokens_problem,
        lambda model, t: lambda ns, _: ns["LanguageTrainer"](model, sgd(model), micro_batches=K).fit(t.batches, 2),
        WINDOWS * 2,
    ),
)
both(
    "functions_micro_and_update",
    partial(tokens_problem, lambda model, t: lambda ns, _: ns["train"](model, t.dicts("x", "y"), sgd(model), parts=K)),
)


def drawn(call: Callable[..., object], loss: Callable[..., torch.Tensor], classes: int | None) -> Problem:
    """Microbatches of equal size, drawn anew each time."""

    def run(model, table):
        def draw(size):
            rows = torch.randint(0, len(table.x), (size,))
            return table.x[rows], table.y[rows]

        return lambda ns, _: call(ns, model, draw)

    return table_problem(run, (3, 3), 20, loss, classes=classes)


SPECS["clip_in_micro_function"] = {
    "base": lambda: drawn(
        lambda ns, model, draw: ns["train"](model, draw, sgd(model), updates=2, micro=K), F.cross_entropy, 3
    )
}
SPECS["step_in_micro_method"] = {
    "base": lambda: drawn(lambda ns, model, draw: ns["Loop"](model, sgd(model), K).run(draw, 2), F.mse_loss, None)
}
SPECS["scaler_in_methods"] = {
    "base": lambda: drawn(
        lambda ns, model, draw: ns["AmpTrainer"](model, sgd(model), scaler(), K).run(draw, 2), F.cross_entropy, 3
    )
}

# --- losses of several terms ------------------------------------------------------------------------------------------


class TwoHeads(nn.Module):
    """Logits from the last and from an inner layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Linear(6, 6), nn.Tanh())
        self.early, self.late = nn.Linear(6, VOCABULARY), nn.Linear(6, VOCABULARY)

    def forward(self, ids):
        hidden = self.body(ids)
        return self.late(hidden.tanh()), self.early(hidden)


def two_heads(run: Callable[..., object], weight: float, counts=COUNTS) -> Problem:
    model, tokens = TwoHeads(), Tokens(counts)
    one = token_loss()

    def loss(m: nn.Module, keys: torch.Tensor, columns: Columns):
        late, early = m(keys)
        first, count = one(lambda _: late, keys, columns)
        second, _ = one(lambda _: early, keys, columns)
        return first + weight * second, count

    return Problem(model, tokens.examples, loss, lambda ns, _: run(ns, model, tokens), WINDOWS)


both(
    "early_exit_two_terms",
    partial(two_heads, lambda ns, model, t: ns["train"](model, t.batches, sgd(model), accum=K, weight=0.3), 0.3),
)


class Spans(nn.Module):
    """A start and an end score for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))

    def forward(self, ids):
        return self.body(ids)


STARTS = ((1, 1, 1, 0), (1, 0, 0, 0), (0, 0, 0, 0), (1, 1, 0, 1), (0, 1, 1, 1), (1, 0, 1, 0), (1, 1, 1, 1))
ENDS = ((1, 0, 0, 0), (1, 1, 1, 0), (0, 1, 0, 0), (1, 1, 1, 1), (1, 0, 0, 1), (0, 0, 0, 0), (1, 0, 0, 1))
"""Which examples of a microbatch have a start, and which an end."""


def spans(last: tuple[int, ...] = ENDS[-1]) -> Problem:
    model, batches = Spans(), []
    for starts, ends in zip(STARTS, (*ENDS[:-1], last), strict=True):
        ids, placed = torch.randint(0, VOCABULARY, (4, 5)), torch.randint(0, 5, (2, 4))
        start, end = torch.where(torch.tensor([starts, ends]) > 0, placed, -1)
        batches.append((ids, start, end))
    ids, start, end = (torch.cat(parts) for parts in zip(*batches, strict=True))

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        total = m(keys).sum() * 0.0
        for place, name in enumerate(("start", "end")):
            keep = c[name] != -1
            picked = m(keys)[..., place].log_softmax(-1)[keep].gather(1, c[name][keep][:, None])
            total = total - picked.sum() / max(int(keep.sum()), 1)
        return total / 2, 1.0

    return Problem(
        model,
        Examples(ids, {"start": start, "end": end}),
        loss,
        lambda ns, _: ns["train"](model, batches, sgd(model), gradient_accumulation_steps=K),
        WINDOWS,
    )


SPECS["span_start_and_end"] = {"base": spans, "window without an end": partial(spans, (0, 0, 0, 0))}


class TagsAndScore(nn.Module):
    """A tag for each token and a score for each text."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.tags, self.score = nn.Embedding(VOCABULARY, 6), nn.Linear(6, VOCABULARY), nn.Linear(6, 1)

    def forward(self, ids):
        hidden = self.body(ids).tanh()
        return self.tags(hidden), self.score(hidden.mean(1)).squeeze(-1)


def tagged_and_scored(counts=COUNTS) -> Problem:
    model, tokens = TagsAndScore(), Tokens(counts)
    scores = torch.randn(len(tokens.examples.keys))
    rows = [len(ids) for ids, _ in tokens.batches]
    batches = [
        {"ids": ids, "tags": tags, "score": score}
        for (ids, tags), score in zip(tokens.batches, scores.split(rows), strict=True)
    ]
    one = token_loss()

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        tags, score = m(keys)
        first, count = one(lambda _: tags, keys, c)
        return first / max(count, 1.0) + F.mse_loss(score, c["score"]), 1.0

    return Problem(
        model,
        Examples(tokens.examples.keys, {**tokens.examples.columns, "score": scores}),
        loss,
        lambda ns, _: ns["train_epoch"](model, batches, sgd(model), accumulate=K),
        WINDOWS,
    )


both("loss_dict_summed", tagged_and_scored)

# --- dicts, criteria, helpers -----------------------------------------------------------------------------------------

both(
    "loss_dict_item",
    partial(tokens_problem, lambda model, t: lambda ns, _: ns["fit"](model, t.batches, sgd(model), accum=K)),
)
both(
    "criterion_of_caller",
    partial(
        tokens_problem,
        lambda model, t: lambda ns, _: ns["main"](model, t.batches, 2, accumulation_steps=K),
        WINDOWS * 2,
        ignore=0,
    ),
)
for name in ("helper_with_branches", "helper_in_chunks"):
    both(
        name,
        partial(tokens_problem, lambda model, t: lambda ns, _: ns["train"](model, t.batches, sgd(model), accum=K)),
    )
both(
    "loader_without_a_name",
    partial(
        tokens_problem,
        lambda model, t: lambda ns, _: ns["train"](model, t.batches, sgd(model), accumulation=K, epochs=2),
        WINDOWS * 2,
    ),
)
both(
    "branch_of_precision",
    partial(tokens_problem, lambda model, t: lambda ns, _: ns["train"](model, t.batches, sgd(model), steps=K)),
)


class Images(Tokens):
    """Pixels with a class each; 255 is no class."""

    def __init__(self, counts=COUNTS) -> None:
        super().__init__(counts, ignore=255)


def segmented(counts=COUNTS) -> Problem:
    model, images = token_model(), Images(counts)
    weights = torch.rand(VOCABULARY) + 0.5

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        labels = c["labels"].flatten()
        keep = labels != 255
        logits, labels = m(keys).flatten(0, 1)[keep], labels[keep]
        picked = logits.log_softmax(-1).gather(1, labels[:, None]).squeeze(1)
        return -(weights[labels] * picked).sum(), weights[labels].sum()

    return Problem(
        model,
        images.examples,
        loss,
        lambda ns, _: ns["Segmenter"](model, adam(model), weights, K).train_epoch(images.batches),
        WINDOWS,
    )


both("weighted_criterion_of_init", segmented)


def one_batch_method() -> Problem:
    return table_problem(
        lambda model, t: lambda ns, _: ns["Learner"](model, sgd(model), n_acc=K).fit(t.dataset, 2),
        (3, 2) * 2,
        18,
        F.mse_loss,
        classes=None,
    )


SPECS["criterion_attribute_unbound"] = {"base": one_batch_method}

# --- boundaries -------------------------------------------------------------------------------------------------------


def flagged(counts=COUNTS) -> Problem:
    def run(model, t):
        optimizer = sgd(model)
        return lambda ns, _: ns["train"](
            model, t.dicts("input_ids", "labels"), optimizer, schedule(optimizer), grad_accum=K
        )

    return tokens_problem(run, counts=counts)


SPECS["flag_of_the_boundary"] = {"base": flagged}
SPECS["counter_without_flush"] = {
    "base": partial(
        tokens_problem,
        lambda model, t: lambda ns, _: ns["fit"](model, t.batches, sgd(model), K, epochs=2),
        WINDOWS * 2,
        ignore=0,
    )
}
SPECS["flush_behind_inner_loop"] = {
    "base": partial(
        table_problem,
        lambda model, t: lambda ns, _: ns["train"](model, t.dataset, sgd(model), 2, accumulation=K),
        (3, 2) * 2,
        18,
        F.mse_loss,
        classes=None,
    )
}
SPECS["boundary_with_else"] = {
    "base": partial(
        tokens_problem,
        lambda model, t: lambda ns, _: ns["train"](model, t.batches, sgd(model), lambda *_: None, accum=K),
    )
}
both(
    "gradients_multiplied",
    partial(tokens_problem, lambda model, t: lambda ns, _: ns["train"](model, t.batches, sgd(model), n_micro=K)),
)


def masked_stream(counts=COUNTS[:6]) -> Problem:
    model, batches = token_model(), []
    for count in counts:
        mask = torch.zeros(2, 5)
        mask[:, 1:].view(2, 4)
        where = torch.randperm(8)[:count]
        mask[where // 4, 1 + where % 4] = 1.0
        batches.append({"ids": torch.randint(0, VOCABULARY, (2, 5)), "mask": mask})
    keys = torch.cat([b["ids"][:, :-1] for b in batches])
    ids, mask = torch.cat([b["ids"] for b in batches]), torch.cat([b["mask"] for b in batches])

    def shown(args, kwargs):
        return args[0][:, :-1]

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        picked = m(keys).log_softmax(-1).gather(2, c["ids"][:, 1:, None]).squeeze(2)
        return -(picked * c["mask"][:, 1:]).sum(), c["mask"][:, 1:].sum()

    return Problem(
        model,
        Examples(keys, {"ids": ids, "mask": mask}),
        loss,
        lambda ns, _: ns["train"](model, iter(batches), sgd(model), updates=2, micro=K),
        (3, 3),
        shown=shown,
    )


SPECS["iterator_by_hand"] = {"base": masked_stream}


def sliced(counts=((7, 2), (5, 1), (3,))) -> Problem:
    """Batches of five, four and one rows in slices of two; the last slice of the first holds one."""
    batches = []
    model = token_model()
    for rows in (5, 4, 1):
        labels = torch.randint(1, VOCABULARY, (rows, 5))
        labels[torch.rand(rows, 5) < 0.4] = -100
        labels[0, 0] = 1
        batches.append((torch.randint(0, VOCABULARY, (rows, 5)), labels))
    examples = Examples(torch.cat([x for x, _ in batches]), {"labels": torch.cat([y for _, y in batches])})
    return Problem(
        model,
        examples,
        token_loss(),
        lambda ns, _: ns["train"](model, batches, sgd(model), micro=2),
        (3, 2, 1),
    )


SPECS["slices_of_one_batch"] = {"base": sliced}

# --- normalisers ------------------------------------------------------------------------------------------------------


def robust() -> Problem:
    return table_problem(
        lambda model, t: lambda ns, _: ns["train"](model, t.cut(SIZES), sgd(model), accum=K),
        WINDOWS,
        sum(SIZES),
        F.mse_loss,
        classes=None,
    )


SPECS["branch_in_loop"] = {"base": robust}


def soft_labels() -> Problem:
    table = Table(18, classes=3)
    soft = torch.rand(18, 3).softmax(-1)
    model = dense(4, 3)
    dataset = torch.utils.data.TensorDataset(table.x, soft)

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        return F.kl_div(m(keys).log_softmax(-1), c["soft"], reduction="sum"), float(len(keys))

    return Problem(
        model, Examples(table.x, {"soft": soft}), loss, lambda ns, _: ns["train"](model, dataset, sgd(model), K), (3, 2)
    )


SPECS["kl_of_soft_labels"] = {"base": soft_labels}


def hot_labels() -> Problem:
    """A student and its teacher at a temperature of 2."""
    table = Table(sum(SIZES), classes=3)
    model, teacher = dense(4, 3), dense(4, 3)

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        soft = (teacher(keys) / 2).softmax(-1).detach()
        return 4 * F.kl_div((m(keys) / 2).log_softmax(-1), soft, reduction="sum"), float(len(keys))

    def run(ns, _):
        ns["distill"](model, teacher, table.cut(SIZES), sgd(model), accum=K)

    return Problem(model, table.examples, loss, run, WINDOWS)


SPECS["temperature_squared"] = {"base": hot_labels}


def triplets() -> Problem:
    model, sizes = dense(4, 3), (4, 2, 4, 4, 1, 4, 3)
    anchors, positive, negative = torch.randn(22, 4), torch.randn(22, 3), torch.randn(22, 3)
    batches = list(zip(*(part.split(sizes) for part in (anchors, positive, negative)), strict=True))

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        return F.triplet_margin_loss(m(keys), c["p"], c["n"], reduction="sum"), float(len(keys))

    examples = Examples(anchors, {"p": positive, "n": negative})
    return Problem(model, examples, loss, lambda ns, _: ns["train"](model, batches, sgd(model), K), WINDOWS)


SPECS["triplets"] = {"base": triplets}


def variances() -> Problem:
    model, table, sizes = dense(4, 2), Table(22), (4, 2, 4, 4, 1, 4, 3)

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        mean, raw = m(keys).unbind(-1)
        return F.gaussian_nll_loss(mean, c["y"], F.softplus(raw) + 1e-3, reduction="sum"), float(len(keys))

    def run(ns, _):
        learner = ns["Regression"](model, accum=K)
        learner.epoch(table.cut(sizes))

    return Problem(model, table.examples, loss, run, WINDOWS)


SPECS["variance_head"] = {"base": variances}


def speech() -> Problem:
    """Utterances and texts of several lengths: each one's loss is divided by the length of its text."""
    model, rows = dense(4, 5), sum(SIZES)
    frames, frame_lengths = torch.randn(rows, 12, 4), torch.randint(10, 13, (rows,))
    texts, text_lengths = torch.randint(1, 5, (rows, 4)), torch.randint(1, 5, (rows,))
    batches = list(zip(*(part.split(SIZES) for part in (frames, frame_lengths, texts, text_lengths)), strict=True))

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        log_probs = m(keys).log_softmax(-1).transpose(0, 1)
        each = F.ctc_loss(log_probs, c["texts"], c["frame_lengths"], c["text_lengths"], reduction="none")
        return (each / c["text_lengths"]).sum(), float(len(keys))

    columns = {"frame_lengths": frame_lengths, "texts": texts, "text_lengths": text_lengths}
    return Problem(
        model,
        Examples(frames, columns),
        loss,
        lambda ns, _: ns["train_epoch"](model, batches, sgd(model), accum_grad=K),
        WINDOWS,
    )


SPECS["speech_ctc"] = {"base": speech}


def pairs() -> Problem:
    model, left, right = dense(4, 3), torch.randn(13, 4), torch.randn(13, 4)
    label = torch.where(torch.rand(13) < 0.5, 1.0, -1.0)
    dataset = torch.utils.data.TensorDataset(left, right, label)

    def loss(m: nn.Module, keys: torch.Tensor, c: Columns):
        each = F.cosine_embedding_loss(m(keys), m(c["right"]), c["label"], margin=0.2, reduction="sum")
        return each, float(len(keys))

    return Problem(
        model,
        Examples(left, {"right": right, "label": label}),
        loss,
        lambda ns, _: ns["train"](model, dataset, sgd(model), accum=K),
        (3, 2),
        shown=lambda args, _: args[0].chunk(2)[0],
    )


SPECS["pairs_cosine"] = {"base": pairs}


def read_tags(counts=COUNTS) -> Problem:
    return tokens_problem(
        lambda model, t: lambda ns, _: ns["Tagger"](model, sgd(model), K).train(t.dicts("ids", "tags")), counts=counts
    )


both("tuple_of_helper", read_tags)
SPECS["boundary_in_method"] = {"base": one_batch_method}

NOT_DRIVEN: dict[str, str] = {
    "accelerate_helper_loss": "the loop of tests/end_to_end/test_accelerate.py with a helper",
    "accelerate_two_terms": "as early_exit_two_terms, divided as in tests/end_to_end/test_accelerate.py",
    "encoder_and_head_optimizers": "two optimizers step together, which the driver reads as two windows",
    "distilled_and_labelled": "two counts",
    "noise_prediction": "its targets are drawn anew in each run",
}
