#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models as folders for TVM's graph executor: TVM's own run time where it is at hand, the small executor of examples/tvm
and `tenon run` give the bits of `tenon run MODEL`. `tvm_models_test.py [NAME…]` runs some. Prints one line a model and `N passed, N failed`."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/cli")]
import generate_models  # noqa: E402
from models import MODELS, inputs_of, path_of, shapes_of  # noqa: E402
from tvm_test import TVM, build_loader, run_in_tvm  # noqa: E402

TENON = str(ROOT / "build/bin/tenon")
THREADS = 2


def run(*arguments, **options):
    result = subprocess.run(list(map(str, arguments)), text=True, capture_output=True, **options)
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, arguments))}: exit {result.returncode}\n{result.stderr[-1500:]}")
    return result.stdout


def run_tenon(path, folder, *arguments):
    report = run(TENON, "run", path, "-i", folder / "in.npz", "-o", folder / "out.npz", "--json", *arguments)
    with np.load(folder / "out.npz") as found:
        return [found[output["name"]] for output in json.loads(report)["outputs"]]


def run_loader(loader, path, folder, inputs, like):
    options = []
    for k, (name, array) in enumerate(inputs.items()):
        (folder / f"in{k}.bin").write_bytes(array.tobytes())
        options.append(f"{name}={folder / f'in{k}.bin'}")
    run(loader, path, THREADS, folder / "out", *options)
    return [np.frombuffer((folder / f"out{k}.bin").read_bytes(), a.dtype).reshape(a.shape) for k, a in enumerate(like)]


def run_model(name, folder, loader):
    path = path_of(name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    inputs = inputs_of(name, onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))
    np.savez(folder / "in.npz", **inputs)
    shapes = [a for s in shapes_of(inputs) for a in ("--input-shapes", s)]
    compiled = json.loads(run(TENON, "compile", path, "--emit", "tvm", "-o", folder / "tvm", "--json", *shapes))
    expected = run_tenon(path, folder)
    found = {"tenon run": run_tenon(folder / "tvm", folder, "--threads", THREADS),
             "examples/tvm": run_loader(loader, folder / "tvm", folder, inputs, expected)}
    if TVM:
        found["TVM"] = run_in_tvm(folder / "tvm", folder / "in.npz", folder / "out.npz", THREADS)
    for where, outputs in found.items():
        assert len(outputs) == len(expected), f"{where}: {len(outputs)} outputs, expected {len(expected)}"
        for k, (got, want) in enumerate(zip(outputs, expected)):
            assert got.dtype == want.dtype and got.shape == want.shape, f"{where}: output {k} is {got.dtype}{got.shape}"
            assert got.tobytes() == want.tobytes(), f"{where}: output {k} differs in its bits from the model's"
    return f"{compiled['kernels']} kernels, {compiled['bytes']} bytes, same bits in {', '.join(found)}"


def main():
    generate_models.generate(generate_models.cache_folder())
    if not TVM:
        print("without TVM's own run time, which is not here; TENON_TVM_DIR names its folder")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as shared:
        loader = build_loader(pathlib.Path(shared))
        for name in sys.argv[1:] or MODELS:
            start = time.monotonic()
            try:
                with tempfile.TemporaryDirectory() as folder:
                    print(f"{name}: {run_model(name, pathlib.Path(folder), loader)} ({time.monotonic() - start:.0f} s)", flush=True)
                passed += 1
            except AssertionError as error:
                print(f"{name}: FAILED: {error}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
