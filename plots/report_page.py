"""The picture of docs/viewer.md: a run's page in a browser. Without a browser it stays as it is."""

import sys
import tempfile
from pathlib import Path

import ascendsim as asc
from ascendsim.viewer import report_html

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "viewer"))

from browser import ABSENT, Browser, find_browser  # noqa: E402 - found by the line above

SELECT = """(() => {
    const { model, view } = viewer, { ops } = model.head;
    view.goTo(model.nextRow(([op]) => ops[op][0] === "Mmad"));
    view.look(0, model.makespan / 2);
})()"""


def main() -> None:
    """Write docs/images/report_page.png."""
    if find_browser() is None:
        print(f"report_page.png stays as it is: {ABSENT}")
        return
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        file = Path(folder) / "report.html"
        file.write_text(report_html(asc.run("fag_same_ab_small")), encoding="utf-8")
        page = browser.open(file, 1280, 800)
        page.run(SELECT)
        page.settle()
        (ROOT / "docs/images/report_page.png").write_bytes(page.picture())


if __name__ == "__main__":
    main()
