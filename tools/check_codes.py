#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every error code appears in a test: a file under tests/errors/ named `<code>_<case>.tenon`, or a test that names the code in
quotes or brackets. The codes are those of `tenon explain` (tests/cli checks that its table is the source's) and the
constraints of the operators. Exemptions stand in tests/errors/EXEMPT, a code and a reason a line."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSTRAINT = re.compile(r'"([a-z0-9_]+(?:-[a-z0-9_]+)*-C\d+)"')
EXPLAINED = re.compile(r'^    \{"([a-z0-9-]+)",', re.MULTILINE)
NAMED = re.compile(r'''["'\[]([A-Za-z0-9_-]+)["'\]]''')


def text_of(folder, *suffixes):
    return "\n".join(p.read_text(errors="replace") for p in sorted((ROOT / folder).rglob("*")) if p.suffix in suffixes)


def main():
    codes = set(CONSTRAINT.findall(text_of("src", ".cc", ".h")))
    codes |= set(EXPLAINED.findall((ROOT / "src/cli/explain_table.cc").read_text()))
    tested = set(NAMED.findall(text_of("tests", ".cc", ".h", ".py", ".tenon")))
    exempt = {line.split(":")[0].strip() for line in (ROOT / "tests/errors/EXEMPT").read_text().splitlines()
              if line.strip() and not line.startswith("#")}
    errors = [f"`{code}` is in no test" for code in sorted(codes - tested - exempt)]
    errors += [f"tests/errors/EXEMPT: a test names `{code}`" for code in sorted(exempt & tested)]
    errors += [f"tests/errors/EXEMPT: there is no code `{code}`" for code in sorted(exempt - codes)]
    print("\n".join(errors) if errors else f"codes: {len(codes)} error codes are tested")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
