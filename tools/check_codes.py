#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every error code in src/ appears in a test: a file under tests/errors/ named `<code>_<case>.tenon`, or any test that names
the code in quotes. The reverse too: an error file's code is one that src/ uses. Exemptions stand in tests/errors/EXEMPT, a
code and a reason a line."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# "dense-C1" or .code = "some-word" / fail("some-word", / error("some-word" / unsupported(0, "some-word"
CONSTRAINT = re.compile(r'"([a-z0-9_]+(?:-[a-z0-9_]+)*-C\d+)"')
CODE = re.compile(r'(?:\.code\s*=\s*|\bfail\w*\(|\berror\w*\(|\bunsupported\(\s*-?\w+,\s*|\bmalformed\w*\()\s*"([a-z0-9]+(?:-[a-z0-9]+)+)"')


def main():
    source = "\n".join(p.read_text() for p in sorted((ROOT / "src").rglob("*.cc")) + sorted((ROOT / "src").rglob("*.h")))
    used = set(CONSTRAINT.findall(source)) | set(CODE.findall(source))
    files = {p.stem.split("_")[0] if "-" in p.stem.split("_")[0] else p.stem for p in (ROOT / "tests/errors").glob("*.tenon")}
    tests = "\n".join(p.read_text(errors="replace") for p in (ROOT / "tests").rglob("*")
                      if p.suffix in (".cc", ".py", ".tenon", ".h") and p.is_file())
    exempt_file = ROOT / "tests/errors/EXEMPT"
    exempt = {line.split(":")[0].strip() for line in exempt_file.read_text().splitlines()
              if line.strip() and not line.startswith("#")} if exempt_file.is_file() else set()
    errors = [f"`{code}` is in no test" for code in sorted(used) if code not in exempt and code not in tests]
    errors += [f"tests/errors: `{code}` is exempt, but a test or no source uses it" for code in sorted(exempt)
               if code in files or code not in used]
    print("\n".join(errors) if errors else f"codes: {len(used)} error codes are tested")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
