#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on what a reader should not meet: commented-out code, disabled tests, printing or aborting outside src/cli, a file
without its SPDX line, a test without an assertion, a line that is too long; warns of files past 800 lines."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".cc", ".h", ".c", ".py"}
# A comment line that reads as a statement: ends in `;` or `{`, or starts as an #include or a control statement with a brace.
COMMENTED_CODE = re.compile(r"^\s*//+\s*(#\s*include|(if|for|while|switch|return|else)\b.*[;{]$|[\w:<>*&\s]+\(.*\);$|\w[\w.\->\[\]]* [-+*/|&]?= [^=].*;$)")
PRINTING = re.compile(r"\b(std::cout|std::cerr|std::clog|(?<![\w:.>])(?:std::)?(?:printf|puts|fprintf|putchar)\s*\(|fmt::print\s*\()|\b(?:std::)?(?:abort|exit|_exit)\s*\(")
DISABLED = re.compile(r"\bDISABLED_|GTEST_SKIP\(\)\s*;|@unittest\.skip\b|#\s*if\s+0\b")
TEST_START = re.compile(r"^TEST(_F|_P)?\(")
ASSERTION = re.compile(r"\b(EXPECT_|ASSERT_|FAIL\(|ADD_FAILURE|expect\w*\(|check\w*\(|round_trip\w*\()")
MAX_COLUMNS, LONG_FILE = 130, 800


def tracked():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, text=True,
                           capture_output=True).stdout.split("\n")
    return sorted(ROOT / n for n in names if n and pathlib.Path(n).suffix in CODE and (ROOT / n).is_file())


def tests_without_assertion(lines):
    start, body = None, []
    for number, line in enumerate(lines, 1):
        if TEST_START.match(line):
            start, body = number, []
        if start:
            body.append(line)
            if line.startswith("}") or (len(body) == 1 and line.rstrip().endswith("}")):
                if not ASSERTION.search("\n".join(body)):
                    yield start
                start = None


def check(path):
    name = path.relative_to(ROOT)
    lines = path.read_text().splitlines()
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:3]):
        yield f"{name}:1: no SPDX line"
    library = name.parts[0] in ("src", "include") and "cli" not in name.parts
    for number, line in enumerate(lines, 1):
        if path.suffix != ".py" and COMMENTED_CODE.match(line):
            yield f"{name}:{number}: commented-out code: {line.strip()}"
        if library and PRINTING.search(line.split("//")[0]):
            yield f"{name}:{number}: prints or ends the process outside src/cli: {line.strip()}"
        if name.parts[0] != "tools" and DISABLED.search(line):
            yield f"{name}:{number}: disabled code or test: {line.strip()}"
        if name.parts[0] != "tests" and path.suffix in (".cc", ".h", ".c") and len(line) > MAX_COLUMNS:
            yield f"{name}:{number}: {len(line)} columns, expected at most {MAX_COLUMNS}"
    for number in tests_without_assertion(lines):
        yield f"{name}:{number}: a test without an assertion"


def main():
    files = tracked()
    errors = [e for f in files for e in check(f)]
    for f in files:
        count = len(f.read_text().splitlines())
        if count > LONG_FILE:
            print(f"warning: {f.relative_to(ROOT)} has {count} lines; is there a seam?")
    print("\n".join(errors) if errors else f"source: {len(files)} files are clean")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
