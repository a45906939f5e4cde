"""The page of a certificate's fields: names and types from the published schema, meanings from the code's own words."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from .markdown import cell, code, page, table

PROOF = Path(__file__).resolve().parents[2] / "proof/hicache_proof"
SCHEMA = PROOF / "schema/certificate-v1.schema.json"
SOURCES = ("certificate.py", "evidence.py", "verdict.py", "witnesses/state.py")
INTRODUCTION = """
A certificate is one JSON document; its [JSON Schema](../../proof/hicache_proof/schema/certificate-v1.schema.json) is
the contract, and unknown fields are refused. An optional part that is `null` means that this witness was not there,
which is not the same as a zero. Explained on an example: [a certificate, line by line](../certificate.md).
"""


def rendered() -> str:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    parts, said = schema["$defs"], _words()
    order = ["Certificate", *sorted(parts.keys() - {"Certificate"})]
    sections = [_section(name, parts[name], said.get(name, {})) for name in order]
    return page("Certificate", INTRODUCTION, *sections, source="proof/hicache_proof/certificate.py and evidence.py")


def _section(name: str, part: dict[str, Any], said: dict[str, str]) -> str:
    required = part.get("required", ())
    rows = [
        (code(field), _type(what), "yes" if field in required else "", cell(_plain(said.get(field, ""))))
        for field, what in part["properties"].items()
    ]
    fields = table(("field", "type", "required", "meaning"), rows)
    return f"## {name}\n\n{_plain(part.get('description', ''))}\n\n{fields}"


def _plain(text: str) -> str:
    """The code's own words, as Markdown."""
    return text.replace("``", "`")


def _type(what: dict[str, Any]) -> str:
    if "$ref" in what:
        name = what["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in what:
        return " or ".join(_type(one) for one in what["anyOf"])
    if "enum" in what:
        return ", ".join(code(str(value)) for value in what["enum"])
    if "const" in what:
        return code(str(what["const"]))
    if "items" in what:
        return f"list of {_type(what['items'])}"
    if "prefixItems" in what:
        return "list of " + ", ".join(_type(one) for one in what["prefixItems"])
    return str(what.get("type", "any"))


def _words() -> dict[str, dict[str, str]]:
    """Class to field to the sentence that stands under it in the source."""
    found: dict[str, dict[str, str]] = {}
    for name in SOURCES:
        path = PROOF / name
        tree = ast.parse(path.read_text("utf-8")) if path.exists() else ast.parse("")
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = _fields(node)
    return found


def _fields(node: ast.ClassDef) -> dict[str, str]:
    """A sentence belongs to the field in front of it."""
    said: dict[str, str] = {}
    field = None
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            field = line.target.id
        elif field and isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
            said[field] = str(line.value.value)
    return said
