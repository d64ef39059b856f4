"""One page of HTML that needs nothing else: no script, no font, no other file. The bars are inline SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from accumlint.picture.model import Loop, Loss, Mark, Share, Window, largest, like_above, part, show
from accumlint.picture.style import STYLE
from accumlint.picture.text import printable

BACKWARD, STEP = "backward", "step"


def page(loops: Iterable[Loop], title: str, caption: str, everything: bool = False) -> str:
    """Return the page. `caption` says what `gets` and `should` are and where the counts come from.

    Windows that look like earlier ones are counted unless `everything` is to be drawn.
    """
    name = _text(title)
    body = "\n".join(_section(loop, everything) for loop in loops)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: accumulation windows</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n"
        f'<h1>{name} <span class="soft">accumulation windows</span></h1>\n{_legend()}\n</header>\n<main>\n{body}\n'
        f"</main>\n<footer>{_text(caption)}</footer>\n</body>\n</html>\n"
    )


def _legend() -> str:
    items = (
        ('<rect class="gets right" x="0" y="3" width="26" height="10" rx="2"/>', "what a target gets, right"),
        ('<rect class="gets wrong" x="0" y="3" width="26" height="10" rx="2"/>', "what a target gets, wrong"),
        ('<rect class="should" x="1" y="2" width="26" height="12" rx="2"/>', "what it should get"),
    )
    return (
        '<ul class="legend">'
        + "".join(f'<li><svg viewBox="0 0 28 16" aria-hidden="true">{drawn}</svg>{text}</li>' for drawn, text in items)
        + "</ul>"
    )


def _section(loop: Loop, everything: bool) -> str:
    place = f' <span class="soft">{_text(loop.place)}</span>' if loop.place else ""
    parts = [f"<h2>{_text(loop.name)}{place}</h2>"]
    parts += [f'<p class="soft">{_text(loop.about)}</p>'] if loop.about else []
    for is_right, verdict in loop.verdicts:
        lines = "\n".join(_text(text) for text in verdict.split("\n"))
        parts.append(f'<p class="verdict {"right" if is_right else "wrong"}">{lines}</p>')
    parts += [f"<p>not drawn: {_text(loop.reason)}</p>"] if loop.reason else []
    for row in loop.rows(everything):
        if isinstance(row, int):
            parts.append(f'<p class="more">{like_above(row)}</p>')
        else:
            parts.append(_pair(loop, *row))
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _pair(loop: Loop, left: Window | None, right: Window | None) -> str:
    """A window beside the repaired one, drawn to one scale."""
    scale = largest(left, right)
    if loop.repaired is None:
        return f'<div class="pair one">\n{_window(loop, left, "", scale)}\n</div>'
    cells = (_window(loop, left, "as it is", scale), _window(loop, right, "repaired", scale))
    return '<div class="pair two">\n' + "\n".join(cells) + "\n</div>"


def _window(loop: Loop, window: Window | None, tag: str, scale: float) -> str:
    if window is None:
        return f'<article class="window none"><span class="tag">{tag}</span><p>no window starts here</p></article>'
    style = " wrong" if window.is_wrong(loop.tolerance) else ""
    parts = [f'<span class="tag{style}">{tag}</span>'] if tag else []
    parts.append(f"<h3>{_text(window.title)}</h3>")
    for loss in window.losses:
        parts.append(f'<p class="loss"><code>{_text(loss.text)}</code> {_text(loss.said)}</p>')
        parts.append(_bars(loop, loss, scale))
    parts.append('<ol class="events">' + "".join(_event(mark) for mark in window.marks) + "</ol>")
    kind = "repaired" if tag == "repaired" else "original"
    return f'<article class="window" data-text="{kind}">\n' + "\n".join(parts) + "\n</article>"


def _bars(loop: Loop, loss: Loss, scale: float) -> str:
    return '<ul class="shares">' + "\n".join(_share(share, scale, loop.tolerance) for share in loss.shares) + "</ul>"


def _share(share: Share, scale: float, tolerance: float) -> str:
    """One microbatch: its count, its weight in words, and a bar whose widths are percentages of the card's."""
    style = {True: "right", False: "wrong", None: "unknown"}[share.is_right(tolerance)]
    targets = f"{show(share.count)} target{'' if share.count == 1 else 's'}"
    said = show(share.gets) if share.count != 0 else "nothing to weigh"
    if style == "wrong":
        said += f", not {show(share.should)}" + ("" if share.ratio is None else f" · {float(share.ratio):.3g}×")
    values = {"microbatch": share.microbatch, "count": share.count, "gets": share.gets, "should": share.should}
    data = "".join(f' data-{name}="{value}"' for name, value in values.items())
    gets, should = (f"{100 * part(value, scale):.2f}%" for value in (share.gets, share.should))
    return (
        f'<li><span class="name">k{share.microbatch}</span><span class="count">{_text(targets)}</span>'
        f'<span class="number {style}">{_text(said)}</span>'
        f'<svg class="bar" role="img" aria-label="k{share.microbatch} gets {_text(said)}"><g{data}>'
        '<rect class="track" x="0" y="3" width="100%" height="12" rx="2"/>'
        f'<rect class="gets {style}" x="0" y="3" width="{gets}" height="12" rx="2"/>'
        f'<rect class="should" x="0" y="1" width="{should}" height="16" rx="2"/></g></svg></li>'
    )


def _event(mark: Mark) -> str:
    kind = mark.what.split(" ")[0]
    place = f" <small>{_text(mark.place)}</small>" if mark.place and kind != BACKWARD else ""
    text = f"k{mark.microbatch}" if kind == BACKWARD else _text(mark.what)
    style = kind if kind in (BACKWARD, STEP) else "other"
    return f'<li class="{style}"><span title="{_text(mark.what)}">{text}{place}</span></li>'


def _text(text: str) -> str:
    return escape(printable(text))
