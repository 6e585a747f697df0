#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's node tests through the command: `tenon run MODEL -i in.npz --check out.npz` at -O0 and -O3, where an .npz file can carry
the arrays. What passes and what is refused must be what tests/nodes/skip.txt says of the C++ runner.

usage: tenon_run_test.py [PART OF A NAME]. Prints `N passed, N refused, N failed`."""
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build/bin/tenon"))
DATA = pathlib.Path("/usr/share/libonnx-testdata/data/node")


def read_list(name):
    lines = (ROOT / "tests/nodes" / name).read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and line[0] != "#")


SKIPPED, CONSTANT = read_list("skip.txt"), read_list("constant_inputs.txt")


def arrays(folder, kind, values):
    """The arrays of `input_0.pb`, … by name; None if one is of a type that an .npz file has not."""
    found = {}
    for index, value in enumerate(values):
        kind_of = value.type.WhichOneof("value")
        dtype = value.type.tensor_type.elem_type
        if kind_of != "tensor_type" or dtype in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.STRING):
            return None
        found[value.name] = numpy_helper.to_array(onnx.load_tensor(folder / f"{kind}_{index}.pb"))
    return found


def run(folder):
    """`passed`, `refused`, `failed` or `not carried`, and a reason."""
    model = onnx.load(folder / "model.onnx")
    given = {i.name for i in model.graph.initializer}
    inputs = arrays(folder / "test_data_set_0", "input", [i for i in model.graph.input if i.name not in given])
    outputs = arrays(folder / "test_data_set_0", "output", model.graph.output)
    if inputs is None or outputs is None:
        return "not carried", ""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        np.savez(scratch / "in.npz", **inputs)
        np.savez(scratch / "out.npz", **outputs)
        constants = [a for name in CONSTANT.get(folder.name, "").split() for a in ("--constant", name)]
        for level in ("-O0", "-O3"):
            command = [TENON, "run", str(folder / "model.onnx"), level, "-i", str(scratch / "in.npz"), "--check", str(scratch / "out.npz"),
                       "--rtol", "1e-3", "--atol", "1e-7", *constants]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return "refused" if done.returncode == 4 else "failed", f"{level}: exit {done.returncode}: {done.stderr.strip()[:300]}"
    return "passed", ""


def complaint(name, outcome, reason):
    listed = SKIPPED.get(name, "")
    if outcome == "passed":
        return "passes, but is listed in skip.txt" if listed else ""
    if outcome == "failed" and listed.startswith(("random", "data")):
        return ""
    return "" if outcome == "not carried" or (outcome == "refused" and listed) else f"{outcome}: {reason}"


def main():
    folders = sorted(f for f in DATA.iterdir() if not sys.argv[1:] or sys.argv[1] in f.name)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip((f.name for f in folders), pool.map(run, folders)))
    complaints = [f"{name}: {text}" for name, result in results.items() if (text := complaint(name, *result))]
    counts = collections.Counter(outcome for outcome, _ in results.values())
    kept = [name for name, (outcome, _) in results.items() if outcome == "not carried" and name not in SKIPPED]
    print("\n".join(complaints + [f"{len(kept)} that pass are of types that an .npz file cannot carry: {' '.join(kept)}"]))
    print(f"{counts['passed']} passed, {counts['refused']} refused, {counts['failed']} failed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
