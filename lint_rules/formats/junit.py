"""``junit``: the XML of test reports, a suite for each file and a failed case for each finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mla_guard.diagnostic import Diagnostic

if TYPE_CHECKING:
    from lint_rules.run import FileFailure

__all__ = ["render"]

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, escaped or not (section 2.2)."""


def render(findings: Sequence[Diagnostic], failures: Sequence[FileFailure]) -> str:
    """The document; without any finding it holds one case, passed, as an empty one is an error."""
    cases: dict[str, list[Element]] = {}
    for failure in failures:
        case = _case(cases, failure.path, "can be checked")
        error = SubElement(case, "error", message=_legal(failure.message), type="error")
        error.text = _legal(f"{failure.path}:{failure.line}: {failure.message}")
    seen: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        path, name = finding.place.path, f"{finding.code} {finding.symbol}".rstrip()
        seen[path, name] += 1
        if seen[path, name] > 1:
            name += f" ({seen[path, name]})"
        case = _case(cases, path, name)
        said = SubElement(case, "failure", message=_legal(finding.message), type=finding.severity)
        said.text = _legal(finding.text())
    if not cases:
        cases["mla-guard"] = [Element("testcase", name="check", classname="mla-guard")]
    root = Element("testsuites", name="mla-guard")
    for path, found in cases.items():
        suite = SubElement(root, "testsuite", {"name": _legal(path), **_counts(found)})
        suite.extend(found)
    root.attrib.update(_counts([case for found in cases.values() for case in found]))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _case(cases: dict[str, list[Element]], path: str, name: str) -> Element:
    """A new case of the suite of ``path``, with the attributes that every reader's schema knows."""
    case = Element("testcase", name=_legal(name), classname=_legal(path))
    cases.setdefault(path, []).append(case)
    return case


def _counts(cases: Sequence[Element]) -> dict[str, str]:
    def ended(tag: str) -> str:
        return str(sum(case.find(tag) is not None for case in cases))

    return {"tests": str(len(cases)), "failures": ended("failure"), "errors": ended("error")}


def _legal(text: str) -> str:
    return _FORBIDDEN.sub(lambda found: ascii(found[0])[1:-1], text)
