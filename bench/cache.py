#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times compiles of a model with a cold and a warm kernel cache: `cache.py [--model FILE] [--runs N] [FLAG…]`, ResNet-50 by
default; further flags go to `tenon compile`. Prints the least time of each phase in milliseconds, and how many times faster the
warm compile is."""
import argparse
import json
import pathlib
import subprocess
import tempfile

from models import path_of

TENON = pathlib.Path(__file__).resolve().parent.parent / "build/bin/tenon"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=str(path_of("resnet50")))
    parser.add_argument("--runs", type=int, default=5)
    options, flags = parser.parse_known_args()
    least = {"cold": {}, "warm": {}}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            for state, times in least.items():
                command = [TENON, "compile", options.model, "-o", f"{folder}/model.so", "--cache-dir", f"{folder}/cache", "--json", *flags]
                report = json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)
                for phase, ms in report["ms"].items():
                    times[phase] = min(ms, times.get(phase, ms))
    for state, times in least.items():
        print(state, "  ".join(f"{phase} {ms:.0f}" for phase, ms in times.items()))
    print(f"warm is {least['cold']['total'] / least['warm']['total']:.2f} times as fast")


if __name__ == "__main__":
    main()
