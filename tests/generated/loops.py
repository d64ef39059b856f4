"""The loop skeletons: where microbatches come from, where a window ends, what happens to the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.generated.render import Renderer, Writer


def write(r: Renderer, w: Writer) -> None:
    """Write the body of the entry: set-up of counters, the loops, the return."""
    f = r.f
    if f["comments"]:
        w.put(r.rng.choice(("# one optimizer step per window", "# gradient accumulation", "# train")))
    if f["log"] or f["division"] == "after_backward":
        w.put("running = 0.0")
    {
        "enumerate": finite,
        "while": finite,
        "range": stream,
        "microstep": nested,
        "prefetch": nested,
        "chunks": finite,
        "slices": slices,
    }[f["loop"]](r, w)
    if f["log"]:
        w.put("return running")
    elif r.rng.random() < 0.5:
        w.put(f"return {r.role('model')}")


def counts(r: Renderer, w: Writer) -> None:
    """The count of a window starts at zero."""
    if r.f["division"] in ("deferred", "deferred_mean"):
        w.put(f"{r.n['count']} = 0")


def boundary_test(r: Renderer) -> tuple[str, str]:
    """The condition of a full window, and its negation."""
    i, k, pending = r.n["i"], r.role("k"), r.n["pending"]
    return {
        "plus1": (f"({i} + 1) % {k} == 0", f"({i} + 1) % {k} != 0"),
        "flag": (f"({i} + 1) % {k} == 0", f"({i} + 1) % {k} != 0"),
        "continue": (f"({i} + 1) % {k} == 0", f"({i} + 1) % {k} != 0"),
        "minus1": (f"{i} % {k} == {k} - 1", f"{i} % {k} != {k} - 1"),
        "start1": (f"{i} % {k} == 0", f"{i} % {k} != 0"),
        "off_by_one": (f"{i} % {k} == 0", f"{i} % {k} != 0"),
        "counter": (f"{pending} == {k}", f"{pending} < {k}"),
    }[r.f["boundary"]]


def clear_first(r: Renderer, w: Writer) -> None:
    if r.f["clear_before"]:
        r.clear(w)


def finite(r: Renderer, w: Writer) -> None:
    """A pass over a finite loader, with an epoch loop or without."""
    f = r.f
    body = {"enumerate": enumerate_pass, "while": while_pass, "chunks": chunk_pass}[f["loop"]]
    if f["loop"] != "chunks" and not f["epochs"]:
        clear_first(r, w)
    if f["epochs"]:
        with w.block(f"for {r.n['epoch']} in range({r.role('epochs')}):"):
            if r.rng.random() < 0.4:
                w.put(f"{r.role('model')}.train()")
            if f["loop"] != "chunks":
                clear_first(r, w)
            body(r, w)
    else:
        body(r, w)


def loader(r: Renderer) -> str:
    return r.role("loader") if r.f["data"] == "list" else r.local(r.n["loader"])


def enumerate_pass(r: Renderer, w: Writer) -> None:
    f, n = r.f, r.n
    i = n["i"]
    if f["tail"] == "or_last" or f["division"] == "window":
        w.put(f"n_batches = len({loader(r)})")
    if f["tail"] == "usable":
        w.put(f"usable = len({loader(r)}) // {r.role('k')} * {r.role('k')}")
    counts(r, w)
    if f["boundary"] == "counter":
        w.put(f"{n['pending']} = 0")
    item = f"({r.item()})" if "," in r.item() else r.item()
    start = r.rng.choice((", 1", ", start=1")) if f["boundary"] == "start1" else ""
    with w.block(f"for {i}, {item} in enumerate({loader(r)}{start}):"):
        if f["tail"] == "usable":
            with w.block(f"if {i} {r.rng.choice(('>=', '=='))} usable:"):
                w.put("break")
        flat_body(r, w)
    flush(r, w)


def while_pass(r: Renderer, w: Writer) -> None:
    f, n = r.f, r.n
    w.put(f"it = iter({loader(r)})")
    counts(r, w)
    w.put(f"{n['pending'] if f['boundary'] == 'counter' else n['i']} = 0")
    with w.block("while True:"):
        with w.block("try:"):
            w.put(f"{r.item()} = next(it)")
        with w.block("except StopIteration:"):
            w.put("break")
        flat_body(r, w)
    flush(r, w)


def stream(r: Renderer, w: Writer) -> None:
    """`for i in range(updates * K)` over an endless source."""
    f, n = r.f, r.n
    clear_first(r, w)
    counts(r, w)
    if f["boundary"] == "counter":
        w.put(f"{n['pending']} = 0")
    with w.block(f"for {n['i']} in range({r.role('updates')} * {r.role('k')}):"):
        w.put(f"{r.item()} = {r.draw()}")
        flat_body(r, w)


def flat_body(r: Renderer, w: Writer) -> None:
    """One microbatch of a flat loop and, at the boundary, the update."""
    f, n = r.f, r.n
    i, k = n["i"], r.role("k")
    test, negated = boundary_test(r)
    one_based = f["boundary"] == "start1"
    last = ""
    if f["tail"] == "or_last":
        last = f"{i} == n_batches" if one_based else r.rng.choice((f"{i} + 1 == n_batches", f"{i} == n_batches - 1"))
    r.unpack(w)
    if f["clear"] == "start":
        with w.block(f"if {i} % {k} == 0:"):
            r.clear(w)
    if f["boundary"] == "flag":
        w.put(f"at_boundary = {test}" + (f" or {last}" if last else ""))
        if r.rng.random() < 0.5:
            negated_flag = True
            w.lines[-1] = (w.lines[-1][0], f"accumulating = {negated}" + (f" and not ({last})" if last else ""), "")
        else:
            negated_flag = False
    r.micro(w)
    if f["boundary"] == "counter":
        w.put(f"{n['pending']} += 1")
    elif f["loop"] == "while":
        w.put(f"{i} += 1")
    late_update = f["scaler_fault"] == "per_micro"
    if f["boundary"] == "continue":
        with w.block(f"if {negated}{f' and not ({last})' if last else ''}:", "boundary"):
            w.put("continue")
        boundary_body(r, w)
        return
    if f["boundary"] == "flag":
        test, last = ("not accumulating" if negated_flag else "at_boundary"), ""
    with w.block(f"if {test}{f' or {last}' if last else ''}:", "boundary"):
        boundary_body(r, w)
    if late_update:
        w.put(f"{r.scaler}.update()", "update")


def boundary_body(r: Renderer, w: Writer) -> None:
    r_start = len(w.lines)
    r.call_update(w)
    counts(r, w)
    if r.f["boundary"] == "counter":
        w.put(f"{r.n['pending']} = 0")
    if len(w.lines) == r_start:
        w.put("pass")


def flush(r: Renderer, w: Writer) -> None:
    f, n = r.f, r.n
    if f["tail"] != "after":
        return
    k = r.role("k")
    if f["boundary"] == "counter":
        test = f"{n['pending']}" + r.rng.choice(("", " > 0"))
    elif f["loop"] == "while" or f["boundary"] == "start1":
        test = f"{n['i']} % {k}"
    else:
        test = r.rng.choice((f"({n['i']} + 1) % {k}", f"len({loader(r)}) % {k} != 0"))
    with w.block(f"if {test}:"):
        at = len(w.lines)
        r.call_update(w)
        if len(w.lines) == at:
            w.put("pass")


def window_total(r: Renderer, source: str) -> str:
    """The count of a collected window."""
    if r.f["batch"] == "dict":
        batch = {key: f'b["{r.dict_keys[key]}"]' for key in ("x", "y", "m")}
        return f"sum({r.count_text(batch)} for b in {source})"
    return f"sum({r.count_text(r.batch)} for {r.unpacked} in {source})"


def inner_window(r: Renderer, w: Writer) -> None:
    """The microbatches of a collected window, then the update."""
    f, n = r.f, r.n
    total = ""
    if f["division"] in ("precount", "share"):
        total = n["count"]
        value = window_total(r, n["window"])
        w.put(f"{total} = {value}")
    counts(r, w)
    if f["clear"] == "start":
        r.clear(w)
    with w.block(f"for {r.item()} in {n['window']}:"):
        r.unpack(w)
        r.micro(w, total)
    r.call_update(w)


def chunk_pass(r: Renderer, w: Writer) -> None:
    """Windows cut from a loader by islice."""
    n, k = r.n, r.role("k")
    r.imports.add("from itertools import islice")
    w.put(f"it = iter({loader(r)})")
    if r.rng.random() < 0.5:
        with w.block(f"while {n['window']} := list(islice(it, {k})):"):
            inner_window(r, w)
    else:
        with w.block("while True:"):
            w.put(f"{n['window']} = list(islice(it, {k}))")
            with w.block(f"if not {n['window']}:"):
                w.put("break")
            inner_window(r, w)


def nested(r: Renderer, w: Writer) -> None:
    """K micro steps for each update, drawn one by one or fetched first."""
    f, n = r.f, r.n
    clear_first(r, w)
    with w.block(f"for {r.rng.choice(('update', 'it', '_'))} in range({r.role('updates')}):"):
        if f["loop"] == "prefetch":
            w.put(f"{n['window']} = [{r.draw()} for _ in range({r.role('k')})]")
            inner_window(r, w)
            return
        counts(r, w)
        if f["clear"] == "start":
            r.clear(w)
        with w.block(f"for {r.rng.choice((n['micro'], '_'))} in range({r.role('k')}):"):
            w.put(f"{r.item()} = {r.draw()}")
            r.unpack(w)
            r.micro(w)
        r.call_update(w)


def slices(r: Renderer, w: Writer) -> None:
    """Slices of one large batch; every slice has the same number of rows."""
    f, n = r.f, r.n
    arrays = {"x": r.role("x_all"), "y": r.role("y_all"), "m": r.role("m_all") if r.masked else ""}
    micro = r.role("micro_size")
    total_rows = r.rng.choice((f"{arrays['x']}.size(0)", f"len({arrays['x']})"))
    w.put(f"n_rows = {total_rows}")
    with w.block(f"if n_rows % {micro}:"):
        w.put('raise ValueError("the batch must be a multiple of the micro batch")')
    w.put(f"{r.local('n_micro')} = n_rows // {micro}")
    if f["division"] == "window":
        w.put(f"starts = list(range(0, n_rows, {micro}))")
    clear_first(r, w)
    with w.block(f"for _ in range({r.role('updates')}):"):
        total = ""
        if f["division"] in ("precount", "share"):
            total = n["count"]
            value = r.count_text(arrays)
            w.put(f"{total} = {value}")
        counts(r, w)
        if f["clear"] == "start":
            r.clear(w)
        source = "starts" if f["division"] == "window" else f"range(0, n_rows, {micro})"
        with w.block(f"for s in {source}:"):
            for key in ("x", "y", "m") if r.masked else ("x", "y"):
                w.put(f"{n[key]} = {arrays[key]}[s : s + {micro}]")
            r.micro(w, total)
        r.call_update(w)
