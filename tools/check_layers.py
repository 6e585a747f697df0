#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include under src/ against src/LAYERS: a folder may include itself, the folders its line names, and what
those may include. Includes are resolved as the compiler does, relative ones too. Refuses a table with a cycle."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def read_table(path):
    table = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, _, names = line.partition(":")
        table[folder.strip()] = names.split()
    return table


def closure(table):
    """Every folder each one may include; raises on an unknown name or a cycle."""
    allowed, active = {}, []

    def visit(folder):
        if folder in active:
            raise SystemExit(f"LAYERS: cycle {' -> '.join(active[active.index(folder):] + [folder])}")
        if folder in allowed:
            return allowed[folder]
        if folder not in table:
            raise SystemExit(f"LAYERS: `{folder}` has no line")
        active.append(folder)
        allowed[folder] = set(table[folder]).union(*(visit(f) for f in table[folder]))
        active.pop()
        return allowed[folder]

    for folder in table:
        visit(folder)
    return allowed


def folder_of(path, table):
    relative = path.relative_to(SRC).parent
    for candidate in [relative, *relative.parents]:
        if str(candidate) in table:
            return str(candidate)
    return None


def check(src_files, table, allowed):
    errors = []
    for path in src_files:
        layer = folder_of(path, table)
        if layer is None:
            errors.append(f"{path.relative_to(ROOT)}: its folder has no line in src/LAYERS")
            continue
        for name in INCLUDE.findall(path.read_text()):
            target = next((c.resolve() for c in (path.parent / name, SRC / name) if c.is_file()), None)
            if target is None or SRC not in target.parents:
                if not name.startswith("tenon/"):
                    errors.append(f"{path.relative_to(ROOT)}: cannot find \"{name}\"")
                continue
            other = folder_of(target, table)
            if other != layer and other not in allowed[layer]:
                errors.append(f"{path.relative_to(ROOT)}: {layer} may not include {other} (\"{name}\")")
    return errors


def main():
    table = read_table(SRC / "LAYERS")
    files = sorted(p for p in SRC.rglob("*") if p.suffix in (".h", ".cc"))
    errors = check(files, table, closure(table))
    print("\n".join(errors) if errors else f"layers: {len(files)} files keep to src/LAYERS")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
