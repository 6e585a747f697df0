#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damage to a real model and to its artifact: the file cut off at every 1 kB, seeded flipped bytes. Each must end in an error with
its exit code or in a run, never in a crash. TENON names the command, build/bin/tenon by default; one built with sanitizers
finds more. Prints `N passed, N failed`."""
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from models import path_of  # noqa: E402

TENON = os.environ.get("TENON", str(ROOT / "build/bin/tenon"))
SHAPES = ["--input-shapes", "x:[1,3,48,192]"]
MALFORMED, UNSUPPORTED, FILE, LIMIT, VERSION = 3, 4, 6, 7, 9


def outcome(arguments):
    """The exit code, and the error's code if there is an error."""
    done = subprocess.run([TENON, *map(str, arguments), "--json"], capture_output=True)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return done.returncode, f"no JSON: {done.stderr.decode(errors='replace')[-300:]}"
    return done.returncode, report["error"]["code"] if isinstance(report, dict) and "error" in report else ""


class Damage:
    """Counts the damaged files that do not end as they should."""

    def __init__(self, folder):
        self.folder, self.total, self.failures = folder, 0, []
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())

    def check(self, what, files, arguments, allowed):
        """`files` maps a name to bytes; a run on each ends with an allowed exit code and, if that is not 0, an error's code."""
        def one(item):
            name, content = item
            path = self.folder / f"{what}-{name}"
            path.write_bytes(content)
            code, error = outcome([*arguments[:1], path, *arguments[1:]])
            path.unlink()
            good = code in allowed and (code == 0) == (error == "") and not error.startswith("no JSON")
            return None if good else f"{what} {name}: exit {code} {error}"
        results = list(self.pool.map(one, files.items()))
        self.total += len(results)
        self.failures += [r for r in results if r]


def cuts(content, step):
    return {size: content[:size] for size in range(0, len(content), step)}


def flips(content, count, seed):
    draw = random.Random(seed)
    damaged = {}
    for number in range(count):
        copy = bytearray(content)
        places = [draw.randrange(len(content)) for _ in range(1 + number % 4)]
        # Half of the damage goes where the structure is dense: the ends of the file.
        if number % 2:
            places = [place % 4096 if place % 2 else len(content) - 1 - place % 16384 for place in places]
        for place in places:
            copy[place] ^= draw.randrange(1, 256)
        damaged[number] = bytes(copy)
    return damaged


def main():
    model = path_of("ocr_cls")
    content = model.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        damage = Damage(pathlib.Path(folder))
        damage.check("cut model", cuts(content, 1024), ["inspect"], {MALFORMED})
        damage.check("cut model, compiled", cuts(content, 16384), ["compile", "-o", damage.folder / "cut.so", *SHAPES], {MALFORMED})
        damage.check("flipped model", flips(content, 300, 1), ["inspect"], {0, MALFORMED, UNSUPPORTED, LIMIT})
        damage.check("flipped model, run", flips(content, 24, 2), ["run", "-O0", "--fill", "random:1", *SHAPES],
                     {0, MALFORMED, UNSUPPORTED, LIMIT})
        artifact = damage.folder / "model.so"
        assert outcome(["compile", model, "-o", artifact, *SHAPES])[0] == 0
        content = artifact.read_bytes()
        damage.check("cut artifact", cuts(content, 16384), ["run", "--fill", "random:1"], {MALFORMED, VERSION})
        damage.check("flipped artifact", flips(content, 100, 3), ["run", "--fill", "random:1"], {MALFORMED, VERSION})
    print("\n".join(damage.failures + [f"{damage.total - len(damage.failures)} passed, {len(damage.failures)} failed"]))
    return 1 if damage.failures else 0


if __name__ == "__main__":
    sys.exit(main())
