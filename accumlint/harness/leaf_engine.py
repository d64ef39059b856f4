"""The leaf check's own program: drawn data D1, D2 and D1+D2, and how far the pair misses its two identities.

This file's text runs in the worker after the text of the program under test (see `leaf.check_pair`), so it imports
nothing but the standard library, and all of its names begin with `leaf_`. Nothing of it runs in accumlint's process.
"""

from __future__ import annotations

import math
from typing import Any

LEAF_SCENARIOS = (
    "unequal",
    "one fully ignored",
    "one valid target",
    "different classes",
    "nothing ignored",
    "equal rows",
)
LEAF_TARGETS = ("class_targets", "binary_targets")
LEAF_DIFFERENTIABLE = ("logits", "log_probabilities", "values", "token_losses")


class LeafError(Exception):
    """The pair fails, for a reason that is not a number."""


def leaf_rows(scenario: str) -> tuple[int, int]:
    return {"equal rows": (4, 4), "nothing ignored": (3, 5)}.get(scenario, (5, 3))


def leaf_draw(torch: Any, leaf: dict[str, Any], sizes: dict[str, int], scenario: str, part: int, g: Any) -> Any:
    """Draw one leaf for part 0 (D1) or 1 (D2); `shape` holds numbers and the symbols of `sizes` ("B" is the batch)."""
    shape = [sizes[size] if isinstance(size, str) else size for size in leaf["shape"]]
    kind = leaf["kind"]
    if kind in ("logits", "values"):
        return torch.randn(shape, generator=g, dtype=torch.float64)
    if kind == "log_probabilities":
        return torch.randn(shape, generator=g, dtype=torch.float64).log_softmax(leaf["class_dim"])
    if kind == "token_losses":
        return torch.rand(shape, generator=g, dtype=torch.float64) + 0.1
    if kind == "float_targets":
        return torch.randn(shape, generator=g, dtype=torch.float64)
    if kind == "probabilities":
        return torch.rand(shape, generator=g, dtype=torch.float64) * 0.9 + 0.05
    if kind == "class_weights":
        return torch.rand(shape, generator=g, dtype=torch.float64) * 2 + 0.05
    if kind == "binary_targets":
        return (torch.rand(shape, generator=g) < 0.5).double()
    if kind == "mask":
        mask = leaf_keep(torch, shape, scenario, part, leaf["batch_dim"], g)
        return mask.to(getattr(torch, leaf["dtype"]))
    if kind == "class_targets":
        low = int(leaf["first_class"])
        targets = torch.randint(low, leaf["classes"], shape, generator=g)
        if scenario == "different classes":
            middle = (low + leaf["classes"] + 1) // 2
            low, high = (low, middle) if part == 0 else (middle - 1, leaf["classes"])
            targets = torch.randint(low, max(high, low + 1), shape, generator=g)
        if leaf["ignore_index"] is not None:
            keep = leaf_keep(torch, shape, scenario, part, leaf["batch_dim"], g)
            targets = torch.where(keep, targets, torch.full_like(targets, leaf["ignore_index"]))
        return targets
    if kind == "lengths":
        return torch.randint(leaf["shortest"], leaf["longest"] + 1, shape, generator=g)
    raise LeafError(f"unknown kind of leaf: {kind}")


def leaf_keep(torch: Any, shape: list[int], scenario: str, part: int, batch_dim: int, g: Any) -> Any:
    """Draw which positions are valid, as bool; padding is at the end of a row more often than not."""
    if scenario == "nothing ignored":
        return torch.ones(shape, dtype=torch.bool)
    if scenario == "one fully ignored" and part == 0:
        return torch.zeros(shape, dtype=torch.bool)
    if scenario == "one valid target" and part == 0:
        keep = torch.zeros(shape, dtype=torch.bool)
        keep.view(-1)[int(torch.randint(keep.numel(), (1,), generator=g))] = True
        return keep
    share = 0.3 if part == 0 else 0.8
    keep = torch.rand(shape, generator=g) < share
    if len(shape) > 1:  # rows of different lengths; every row may keep its first position, which a shift drops
        last = len(shape) - 1 if batch_dim != len(shape) - 1 else 0
        length = torch.randint(1, shape[last] + 1, (shape[batch_dim],), generator=g)
        view = [1] * len(shape)
        view[batch_dim] = -1
        place = [1] * len(shape)
        place[last] = -1
        keep = keep | (torch.arange(shape[last]).view(place) < length.view(view))
    if not bool(keep.any()):
        keep.view(-1)[0] = True
    return keep


def leaf_data(torch: Any, leaves: list[dict[str, Any]], scenario: str, seed: int, sizes: dict[str, int]) -> Any:
    """Return the keyword arguments for D1, D2 and D1+D2. Leaves without a batch dimension are shared."""
    g = torch.Generator().manual_seed(seed)
    parts: list[dict[str, Any]] = [{}, {}]
    joined: dict[str, Any] = {}
    for leaf in leaves:
        name, dim = leaf["name"], leaf["batch_dim"]
        if dim is None:
            parts[0][name] = parts[1][name] = joined[name] = leaf_draw(torch, leaf, sizes, scenario, 0, g)
            continue
        for part, rows in enumerate(leaf_rows(scenario)):
            parts[part][name] = leaf_draw(torch, leaf, {**sizes, "B": rows}, scenario, part, g)
        joined[name] = torch.cat([parts[0][name], parts[1][name]], dim=dim)
    return parts[0], parts[1], joined


def leaf_evaluate(torch: Any, function: Any, data: dict[str, Any], inputs: list[str]) -> Any:
    """Return (value, gradients by name, dtype) of a scalar loss."""
    arguments = {k: v.clone().requires_grad_(k in inputs) if hasattr(v, "clone") else v for k, v in data.items()}
    loss = function(**arguments)
    if not hasattr(loss, "numel") or loss.numel() != 1:
        raise LeafError(f"{function.__name__} must return a scalar tensor")
    gradients = torch.autograd.grad(loss, [arguments[name] for name in inputs], allow_unused=True)
    found = [torch.zeros_like(data[n]) if d is None else d for n, d in zip(inputs, gradients, strict=True)]
    return float(loss.detach()), found, str(loss.dtype)


def leaf_distance(torch: Any, left: list[Any], right: list[Any]) -> float:
    """Return the relative L2 distance of two lists of tensors or numbers."""
    pairs = [(torch.as_tensor(a).double(), torch.as_tensor(b).double()) for a, b in zip(left, right, strict=True)]
    difference = math.sqrt(sum(float((a - b).square().sum()) for a, b in pairs))
    size = math.sqrt(max(sum(float(x.square().sum()) for x in side) for side in zip(*pairs, strict=True)))
    if not math.isfinite(difference):
        return math.inf
    return difference / size if size > 0 else difference


def leaf_count(count: Any, data: dict[str, Any]) -> float:
    value = count(**data)
    number = float(value.detach().double().sum() if hasattr(value, "detach") else value)
    if not math.isfinite(number) or number < 0:
        raise LeafError(f"count returned {number:g}")
    return number


def leaf_pair_errors(torch: Any, mean: Any, total: Any, count: Any, data: Any, inputs: list[str]) -> dict[str, Any]:
    """Return the errors of both identities, in values and in gradients, on one drawing."""
    counts = [leaf_count(count, part) for part in data]
    means = [leaf_evaluate(torch, mean, part, inputs) for part in data]
    batch_dims = [
        next((d for d in range(part.dim()) if part.shape[d] != joined.shape[d]), None)
        for part, joined in zip(means[0][1], means[2][1], strict=True)
    ]
    if counts[2] == 0:
        raise LeafError("count is 0 where there are valid targets")

    def weighted(k: int) -> Any:  # mean * n; nothing where there is no target, as the repaired loop adds nothing
        value, gradients, _ = means[k]
        n = counts[k]
        return (value * n if n else 0.0), [d * n if n else torch.zeros_like(d) for d in gradients]

    sides = [weighted(k) for k in range(3)]
    both = [
        a + b if dim is None else torch.cat([a, b], dim=dim)  # a shared leaf gets both gradients
        for a, b, dim in zip(sides[0][1], sides[1][1], batch_dims, strict=True)
    ]
    errors = {
        "additive count": abs(counts[2] - counts[0] - counts[1]) / counts[2],
        "mean of D1+D2": leaf_distance(torch, [sides[2][0]], [sides[0][0] + sides[1][0]]),
        "mean of D1+D2, gradient": leaf_distance(torch, sides[2][1], both),
    }
    if total is not None:
        sums = [leaf_evaluate(torch, total, part, inputs) for part in data]
        # a mean over no target that is nan stays nan when it is multiplied by 0; what counts is its gradient
        stays = [n == 0 and math.isnan(m[0]) and math.isnan(s[0]) for n, m, s in zip(counts, means, sums, strict=True)]
        errors["mean * n = sum"] = max(
            0.0 if nan else leaf_distance(torch, [s[0]], [w[0]]) for s, w, nan in zip(sums, sides, stays, strict=True)
        )
        errors["mean * n = sum, gradient"] = max(
            leaf_distance(torch, s[1], w[1]) for s, w in zip(sums, sides, strict=True)
        )
    return {"errors": errors, "counts": counts, "dtype": means[2][2]}


def leaf_run(torch: Any, *, pair: dict[str, Any], leaves: Any, seeds: Any, sizes: Any) -> dict[str, Any]:
    """Entry point: every scenario with every seed; the first problem that is not a number ends it."""
    space = globals()
    mean, count = space[pair["mean"]], space[pair["count"]]
    total = space[pair["sum"]] if pair["sum"] else None
    inputs = [leaf["name"] for leaf in leaves if leaf["kind"] in LEAF_DIFFERENTIABLE]
    can_ignore = any(leaf["kind"] == "mask" or leaf.get("ignore_index") is not None for leaf in leaves)
    worst: dict[str, float] = {}
    drawings: list[list[Any]] = []
    dtype, vacuous = "torch.float64", True
    for scenario in LEAF_SCENARIOS:
        if scenario in ("one fully ignored", "one valid target") and not can_ignore:
            continue
        for seed in seeds:
            data = leaf_data(torch, leaves, scenario, seed, sizes)
            try:
                found = leaf_pair_errors(torch, mean, total, count, data, inputs)
            except LeafError as failure:
                return {"problem": f"{scenario}, seed {seed}: {failure}", "drawings": drawings, "errors": worst}
            for name, error in found["errors"].items():
                worst[name] = max(worst.get(name, 0.0), error)
            dtype = found["dtype"] if found["dtype"] != "torch.float64" else dtype
            vacuous = vacuous and found["counts"][0] == found["counts"][1]
            drawings.append([scenario, seed, *found["counts"]])
    problem = "the counts of D1 and D2 were always equal" if vacuous else ""
    ways = sorted(space.get("program_ways", ()))
    return {"problem": problem, "drawings": drawings, "errors": worst, "dtype": dtype, "ways": ways}
