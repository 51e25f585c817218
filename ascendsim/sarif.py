"""Judged findings as SARIF 2.1.0, which code hosts and editors read.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ascendsim import __version__
from ascendsim.check_target import Judged, places
from ascendsim.errors import Finding, InputError, Rule, Severity
from ascendsim.places import Place, from_here
from ascendsim.rule_codes import rules_by_code
from ascendsim.runfolder import write_whole

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(judged: Judged) -> dict[str, Any]:
    """Return the findings as one SARIF log of one run; names of files start at the working folder."""
    all_found = list(places(judged))
    codes = sorted({finding.code for finding, _, _ in all_found})
    rules = rules_by_code()
    driver = {"name": "ascendsim", "version": __version__, "rules": [_rule(code, rules) for code in codes]}
    results = [_result(finding, place, reason, codes) for finding, place, reason in all_found]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def sarif_text(judged: Judged) -> str:
    """Return the log as a file's text."""
    return json.dumps(sarif(judged), indent=1, ensure_ascii=False) + "\n"


def write_sarif(judged: Judged, path: Path) -> None:
    """Write the log whole.

    Raises:
        InputError: nothing can be written there.
    """
    try:
        if path.is_dir():
            raise InputError(f"--sarif {path}: is a folder; name a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, sarif_text(judged).encode())
    except OSError as error:
        raise InputError(f"--sarif {path}: cannot write: {error.strerror}") from None


def _rule(code: str, rules: Mapping[str, Rule]) -> dict[str, Any]:
    rule = rules[code]
    return {
        "id": code,
        "shortDescription": {"text": rule.condition or re.sub(r"\{\w+\}", "...", rule.message)},
        "help": {"text": rule.hint or rule.condition or code},
        "defaultConfiguration": {"level": _LEVELS[Severity(rule.level or code[0])]},
        "properties": {"source": rule.source},
    }


def _result(finding: Finding, place: Place | None, reason: str | None, codes: list[str]) -> dict[str, Any]:
    text = f"{finding.message} (to mend it: {finding.hint})" if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding, place)],
        "occurrenceCount": finding.count,
        "properties": {"operand": finding.operand, "got": finding.got, "wanted": finding.wanted},
    }
    if reason is not None:
        result["suppressions"] = [{"kind": "external", "justification": reason}]
    return result


def _location(finding: Finding, place: Place | None) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if place is not None:
        location["physicalLocation"] = {"artifactLocation": _artifact(place.file), **_region(place)}
    if finding.where:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.where, "kind": _kind(finding)}]
    return location


def _kind(finding: Finding) -> str:
    """What the place is: a call in a kernel, or a key of a file."""
    return "function" if ".py:" in finding.where else "member"


def _artifact(file: Path) -> dict[str, str]:
    name = from_here(file)
    if Path(name).is_absolute():
        return {"uri": Path(name).as_uri()}
    return {"uri": quote(name), "uriBaseId": "%SRCROOT%"}


def _region(place: Place) -> dict[str, Any]:
    if place.line is None:
        return {}
    region = {"startLine": place.line, "startColumn": place.column, "endColumn": place.end_column}
    return {"region": region | {"snippet": {"text": place.text}}}
