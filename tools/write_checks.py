"""Write the tables of docs/checks.md from the catalogue of rules; what stands around them is left as it is.

python tools/write_checks.py
"""

from pathlib import Path

from ascendsim.show_rules import with_tables

PAGE = Path(__file__).resolve().parents[1] / "docs" / "checks.md"

if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
