#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/generated from what the command says of itself: the table of operators by dtype with the reason for each gap, and
the list of passes. `generate_docs.py --check` only says whether the files are current."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DTYPES = ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"]


def ask(*arguments):
    return json.loads(subprocess.run([str(ROOT / "build/bin/tenon"), *arguments, "--json"], check=True, text=True, capture_output=True).stdout)


def operators():
    lines = ["# Operators by dtype", "", "Written by `tools/generate_docs.py` from `tenon ops --json`. The dtype is that of the first operand.", "",
             "| operator | " + " | ".join(DTYPES) + " | class | why the gaps |", "|---|" + "---|" * (len(DTYPES) + 2)]
    for op in ask("ops")["ops"]:
        cells = ["x" if d in op["dtypes"] else "" for d in DTYPES]
        gaps = "" if all(cells) else "expects " + op["dtype_note"]
        lines.append(f"| `{op['name']}` | " + " | ".join(cells) + f" | {op['fusion']} | {gaps} |")
    return "\n".join(lines) + "\n"


def passes():
    lines = ["# Passes", "", "Written by `tools/generate_docs.py` from `tenon passes --json`, in the order of a build.", "", "| pass | does | from level |", "|---|---|---|"]
    for p in ask("passes"):
        level = f"-O{p['min_opt_level']}" if p["default"] else "only `tenon opt`"
        lines.append(f"| `{p['name']}` | {p['summary']} | {level} |")
    return "\n".join(lines) + "\n"


def main():
    stale = []
    for name, text in {"operators.md": operators(), "passes.md": passes()}.items():
        path = ROOT / "docs/generated" / name
        if path.is_file() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    print(f"docs/generated: {', '.join(stale) or 'current'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
