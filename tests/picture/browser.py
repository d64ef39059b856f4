"""Loads a page in headless Chromium and measures what is on the screen. No driver: the page's copy measures itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
NO_CHROMIUM = "no Chromium is installed (Debian: apt-get install chromium)"
MEASURE = """
<script>
function lum(c){const v=c.map(x=>{x/=255;return x<=.03928?x/12.92:((x+.055)/1.055)**2.4});
  return .2126*v[0]+.7152*v[1]+.0722*v[2]}
function parse(c){return c.match(/[\\d.]+/g).map(Number)}
function ground(e){for(;e;e=e.parentElement){const c=parse(getComputedStyle(e).backgroundColor);
  if(c.length<4||c[3]>0)return c}return [255,255,255]}
function contrast(e){const a=lum(parse(getComputedStyle(e).color)),b=lum(ground(e));
  return (Math.max(a,b)+.05)/(Math.min(a,b)+.05)}
const wide=e=>e?e.getBoundingClientRect().width:0;
const texts=[...document.querySelectorAll('h1,h2,h3,p,li,span,code,small,footer')]
  .filter(e=>[...e.childNodes].some(n=>n.nodeType===3&&n.textContent.trim()));
const bars=[...document.querySelectorAll('g[data-microbatch]')].map(g=>({
  kind:g.closest('article').dataset.text,microbatch:g.dataset.microbatch,count:g.dataset.count,gets:g.dataset.gets,
  should:g.dataset.should,getsWidth:wide(g.querySelector('.gets')),shouldWidth:wide(g.querySelector('.should')),
  track:wide(g.querySelector('.track')),right:g.querySelector('.gets').classList.contains('right'),
  row:g.closest('article').getBoundingClientRect().top,left:g.closest('article').getBoundingClientRect().left}));
const result={width:innerWidth,needed:document.documentElement.scrollWidth,ground:ground(document.body),
  contrast:Math.min(...texts.map(contrast)),smallest:Math.min(...texts.map(e=>parseFloat(getComputedStyle(e).fontSize))),
  requests:performance.getEntriesByType('resource').length,bars:bars};
const out=document.createElement('pre');out.id='measured';out.textContent=JSON.stringify(result);
parent.document.body.append(out);
</script>
"""


def measure(page: str, folder: Path, *, width: int = 1200, dark: bool = False) -> dict[str, Any]:
    """Return the widths, colours and sizes that Chromium gives the page in a frame of `width` pixels.

    A frame, because windows cannot be as narrow as a phone.
    """
    assert CHROMIUM is not None
    path = folder / "measured.html"
    inner = escape(page.replace("</body>", f"{MEASURE}</body>"))
    frame = f'<iframe style="border:0" width="{width}" height="900" srcdoc="{inner}"></iframe>'
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{frame}</body>", encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(unescape(found[1]))
    return result
