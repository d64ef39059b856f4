"""The style sheet of the page. Every colour is named once for light and once for dark."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2128;--soft:#59636e;--ground:#f6f7f9;--card:#fff;--line:#d8dee4;--track:#eceff2;
--right:#1f883d;--wrong:#cf4a1e;--wrong-soft:#fdece5;--right-ink:#116329;--wrong-ink:#a03413;
--accent:#3d5a80}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--ground:#0d1117;--card:#161b22;--line:#30363d;
--track:#21262d;--right:#3fb950;--wrong:#f0743e;--wrong-soft:#2d1a12;--right-ink:#56d364;
--wrong-ink:#ff9b6b;--accent:#8fb3e0}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:66rem;font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"DejaVu Sans",sans-serif;color:var(--ink);background:var(--ground);overflow-wrap:anywhere;-webkit-text-size-adjust:100%}
h1{font-size:1.4rem;line-height:1.25;margin:0 0 .3rem}h2{font-size:1.15rem;margin:0}
h3{font-size:.95rem;margin:0;line-height:1.35}p{margin:.35rem 0}
code{font-family:ui-monospace,SFMono-Regular,"DejaVu Sans Mono",monospace;font-size:.92em}
.soft{color:var(--soft);font-weight:normal}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.9rem 0 0;padding:0;list-style:none;font-size:.9rem}
.legend svg{width:1.9rem;height:1rem;margin:0 .4rem 0 0;vertical-align:-.15rem;display:inline-block}
section{margin-top:2rem;border-top:1px solid var(--line);padding-top:1.2rem}
.verdict{white-space:pre-line;border-left:4px solid var(--line);padding:.1rem 0 .1rem .8rem;margin:.8rem 0;
max-width:48rem}
.verdict.right{border-color:var(--right)}.verdict.wrong{border-color:var(--wrong)}
.pair{display:grid;grid-template-columns:minmax(0,1fr);gap:.9rem;margin:1rem 0}
@media (min-width:52rem){.pair.two{grid-template-columns:minmax(0,1fr) minmax(0,1fr)}
.pair.one{grid-template-columns:minmax(0,34rem)}}
.window{background:var(--card);border:1px solid var(--line);border-radius:.7rem;padding:.85rem 1rem 1rem;min-width:0}
.window.none{background:none;border-style:dashed;color:var(--soft)}
.tag{display:inline-block;font-size:.72rem;font-weight:600;letter-spacing:.04em;text-transform:uppercase;
border-radius:1rem;padding:.05rem .6rem;margin-bottom:.35rem;background:var(--track);color:var(--soft)}
.tag.wrong{background:var(--wrong-soft);color:var(--wrong-ink)}
.loss{font-size:.9rem;color:var(--soft);margin:.3rem 0 .1rem}.loss code{color:var(--ink)}
.shares{list-style:none;margin:.5rem 0 .2rem;padding:0;font-size:.88rem}
.shares li{display:flex;flex-wrap:wrap;gap:0 .5rem;margin:.35rem 0}
.shares .name{font-weight:600}.shares .count{color:var(--soft)}
.shares .number{margin-left:auto;font-variant-numeric:tabular-nums}
.shares .number.right{color:var(--right-ink)}.shares .number.wrong{color:var(--wrong-ink);font-weight:600}
svg.bar{display:block;width:100%;height:18px;overflow:visible;margin:.1rem 0 .15rem}
.track{fill:var(--track)}.gets.right{fill:var(--right)}.gets.wrong{fill:var(--wrong)}.gets.unknown{fill:var(--soft)}
.should{fill:none;stroke:var(--ink);stroke-width:1.5;stroke-dasharray:3 2}
.events{list-style:none;padding:0;margin:.7rem 0 0;display:flex;flex-wrap:wrap;gap:.35rem 0;font-size:.82rem;
align-items:center}
.events li{display:flex;align-items:center}
.events li:not(:last-child)::after{content:"";width:.8rem;height:2px;background:var(--line);flex:none}
.events span{border:1px solid var(--line);border-radius:.4rem;padding:.05rem .45rem;background:var(--card)}
.events .backward span{border-radius:1rem;border-color:var(--accent);color:var(--accent);font-weight:600}
.events .step span{background:var(--accent);border-color:var(--accent);color:var(--card);font-weight:600}
.events small{opacity:.8;font-size:.92em;font-weight:normal}
.more{color:var(--soft);font-size:.9rem;text-align:center;margin:.4rem 0}
footer{margin-top:2.5rem;font-size:.85rem;color:var(--soft)}
"""
