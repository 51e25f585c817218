"""Print how a page of a million rows does in a headless browser: its bytes, how long it takes, and frames a second.

Frames are counted while the view moves through the run, once for each zoom; the browser draws at most 60 a second. How
many it draws hangs on what else the machine does, the processor time of a frame much less.
`python tests/bench/page.py [WIDTH HEIGHT]`, needs a browser (see tests/viewer/browser.py).
"""

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "viewer"))
from browser import ABSENT, Browser, find_browser

import ascendsim as asc
from ascendsim.viewer import report_html

SHAPES = {f"tensors.{name}.shape": [26_000, 960] for name in ("grad", "src", "dst")}
SHARES = (0.5, 0.3, 0.1, 0.03, 0.01, 0.001)
"""Of the run, how much is in view."""
FRAMES = 90
MOVES = """(async (share, frames) => {
    const { view, model } = viewer, length = model.makespan * share, scripts = [];
    const begun = await new Promise(requestAnimationFrame);
    let now = begun;
    for (let k = 0; k < frames; k++) {
        const from = (model.makespan - length) * k / frames, before = performance.now();
        view.from = from;
        view.to = from + length;
        view.drawNow();
        scripts.push(performance.now() - before);
        now = await new Promise(requestAnimationFrame);
    }
    return [1000 * frames / (now - begun), scripts.sort((a, b) => a - b)[frames >> 1]];
})(%s, %s)"""


def moved(browser, page, share):
    """Frames a second, ms of script for each (median), ms of processor time of all of the browser for each."""
    before = _processor_seconds(browser)
    frames, script = page.run(MOVES % (json.dumps(share), FRAMES))
    return frames, script, 1000 * (_processor_seconds(browser) - before) / FRAMES


def _processor_seconds(browser):
    return sum(process["cpuTime"] for process in browser.ask("SystemInfo.getProcessInfo")["processInfo"])


def main(width=1280, height=800):
    result = asc.run("softmaxgrad_960x960_float", set=SHAPES | {"machine.values": "none"})
    begun = time.process_time()
    text = report_html(result)
    written = time.process_time() - begun
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        file = Path(folder) / "report.html"
        file.write_text(text, encoding="utf-8")
        page = browser.open(file, width, height)
        ready = page.run("viewer.milliseconds")
        speeds = [moved(browser, page, share) for share in SHARES]
    print(f"{len(result.timeline):,} rows, {len(text):,} bytes, made in {written:.1f} s, shown in {ready / 1000:.1f} s")
    print(f"{width} x {height} pixels, frames a second, for each ms of script (median) and of processor time (mean):")
    for share, speed in zip(SHARES, speeds, strict=True):
        print("  {:>6.1%} of the run in view: {:4.0f} {:6.1f} {:6.1f}".format(share, *speed))


if __name__ == "__main__":
    if find_browser() is None:
        sys.exit(ABSENT)
    main(*map(int, sys.argv[1:3]))
