#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models against ONNX Runtime without its optimisations: at -O0 and -O3, from the model and from its artifact, on one and
two threads. `models_test.py [NAME…]` runs some. Prints one line a model and `N passed, N failed`."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import generate_models  # noqa: E402
from models import MODELS, inputs_of, path_of, shapes_of  # noqa: E402

TENON = str(ROOT / "build/bin/tenon")
LIMIT = 1e-4  # of the output's scale


def tenon(*arguments):
    result = subprocess.run([TENON, *map(str, arguments)], text=True, capture_output=True)
    if result.returncode:
        raise AssertionError(f"tenon {' '.join(map(str, arguments))}: exit {result.returncode}\n{result.stderr[-1500:]}")
    return result.stdout


def reference(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def worst_error(found, expected):
    """The largest error of any output, as a share of that output's scale."""
    worst = 0.0
    for name, want in expected.items():
        got = found[name]
        assert got.shape == want.shape and got.dtype == want.dtype, f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        scale = max(float(np.abs(want.astype(np.float64)).max()), 1e-30)
        error = float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max()) / scale
        assert np.isfinite(error), f"{name}: not finite"
        worst = max(worst, error)
    return worst


def run_model(name, folder):
    path = path_of(name)
    session = reference(path)
    inputs = inputs_of(name, session)
    expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))
    np.savez(folder / "in.npz", **inputs)
    shapes = [a for s in shapes_of(inputs) for a in ("--input-shapes", s)]
    lines = []
    for level in ("-O0", "-O3"):
        outputs = {}
        artifact = folder / "model.so"
        tenon("compile", path, "-o", artifact, level, *shapes)
        for how, arguments in {"model": [path, level], "artifact": [artifact], "2 threads": [artifact, "--threads", 2]}.items():
            tenon("run", *arguments, "-i", folder / "in.npz", "-o", folder / "out.npz")
            with np.load(folder / "out.npz") as found:
                outputs[how] = dict(found)
            error = worst_error(outputs[how], expected)
            assert error <= LIMIT, f"{level} from {how}: error {error:.3g} of the output's scale, at most {LIMIT}"
        lines.append(f"{level} {error:.1e}")
        for key in expected:
            for how in ("artifact", "2 threads"):
                same = outputs["model"][key].tobytes() == outputs[how][key].tobytes()
                assert same, f"{level}: {key} from {how} differs in its bits from the model's"
    return ", ".join(lines)


# Kernels and how often each is called, counted by hand from the architectures.
RESNET50_TASKS = {
    "conv_add_relu": [1, *(1, 2, 3), *(1, 3, 1, 3), *(1, 5, 1, 5), *(1, 2, 1, 2)],  # stem; 1x1 in, 3x3 of each stage
    "conv_add_add_relu": [3, 4, 6, 3],  # 1x1 out of each block
    "conv_add": [1, 1, 1, 1],  # the way past the first block of each stage
    "max_pool": [1], "mean": [1], "matmul_add": [1],
}
# Twelve layers: q, k, v and no more of one kind of product; 25 norms (one after the embeddings, two in each layer).
BERT_MATMUL_TASKS = {
    "matmul_add": [36], "matmul_multiply_add": [12], "matmul": [12], "matmul_add_add": [12, 12],
    "matmul_add_divide_erf_add_multiply_multiply": [12], "matmul_add_tanh": [1],
}


def check_tasks():
    """The tasks of two models against tables made by hand; the sums are below the reference's 29 / 58 and 19 / 336."""
    def tasks(name):
        found = {}
        for task in json.loads(tenon("tasks", path_of(name), "--json")):
            ops = re.sub(r"_\d+$", "", task["name"].removeprefix("fused_"))
            found.setdefault(ops, []).append(task["weight"])
        return {k: sorted(v) for k, v in found.items()}

    expected = {k: sorted(v) for k, v in RESNET50_TASKS.items()}
    assert tasks("resnet50") == expected, f"resnet50: {tasks('resnet50')}, expected {expected}"
    products = {k: v for k, v in tasks("bert_base").items() if k.startswith("matmul")}
    assert products == BERT_MATMUL_TASKS, f"bert_base: {products}, expected {BERT_MATMUL_TASKS}"
    return "ResNet-50 and BERT as counted by hand"


def check_cache(folder):
    """ResNet-50 compiled without a cache, by a cold one and by a warm one, with one worker and with all: the same bytes."""
    reports, artifacts = [], []
    for arguments in ([], ["--cache-dir", folder / "kernels"], ["--cache-dir", folder / "kernels", "--threads", 1]):
        reports.append(json.loads(tenon("compile", path_of("resnet50"), "-o", folder / "model.so", "--json", *arguments)))
        artifacts.append((folder / "model.so").read_bytes())
    kernels = reports[0]["kernels"]
    counts = [report["cache"] for report in reports]
    assert counts == [{"hits": 0, "misses": kernels}] * 2 + [{"hits": kernels, "misses": 0}], f"{kernels} kernels, {counts}"
    assert artifacts[0] == artifacts[1] == artifacts[2], "the artifacts differ"
    return f"{kernels} kernels found by a second process, equal artifacts"


def check_traces(folder):
    """The steps of every schedule of two models, taken one function after the other on the module before `schedule`: the functions
    that the pass makes, and an artifact that gives the same bits."""
    lines = []
    for name in ("ocr_cls", "magika"):
        inputs = inputs_of(name, reference(path_of(name)))
        np.savez(folder / "in.npz", **inputs)
        shapes = [a for s in shapes_of(inputs) for a in ("--input-shapes", s)]
        tenon("compile", path_of(name), *shapes, "--dump-passes", folder / name, "-o", folder / "straight.so")
        module = next((folder / name).glob("*-lower.tenon"))
        scheduled = json.loads(tenon("lower", path_of(name), *shapes, "--to", "tir-scheduled", "--json"))
        traces = json.loads(tenon("lower", path_of(name), *shapes, "--to", "trace", "--json"))
        assert traces.keys() == scheduled.keys(), f"{name}: {traces.keys() ^ scheduled.keys()}"
        for function, steps in traces.items():
            (folder / "steps.txt").write_text(steps)
            tenon("opt", module, "--function", function, "--schedule", folder / "steps.txt", "-o", folder / name / "next.tenon")
            module = folder / name / "next.tenon"
        text = module.read_text()
        for function, expected in scheduled.items():
            assert expected in text, f"{name}: @{function} is not what its trace makes"
        tenon("compile", module, "-o", folder / "replayed.so")
        outputs = []
        for artifact in ("straight", "replayed"):
            tenon("run", folder / f"{artifact}.so", "-i", folder / "in.npz", "-o", folder / "out.npz")
            with np.load(folder / "out.npz") as found:
                outputs.append(dict(found))
        assert all(np.array_equal(outputs[0][key], outputs[1][key]) for key in outputs[0]), f"{name}: other results"
        lines.append(f"{name} {len(traces)} functions, {text.count('_packed')} uses of packed constants")
    return "; ".join(lines)


# Convolutions and products with more than one row, counted in the models.
ONEDNN_REGIONS = {"resnet50": 53, "mobilenet_v2": 52, "ocr_rec": 51}


def check_external(folder):
    """Whole models with the convolutions and products of oneDNN against the same models without, on one thread and two."""
    if not (ROOT / "build/lib/libtenon_onednn.so").exists():
        return "left out: component `onednn` is not built"
    lines = []
    for name, regions in ONEDNN_REGIONS.items():
        inputs = inputs_of(name, None)
        np.savez(folder / "in.npz", **inputs)
        shapes = [a for s in shapes_of(inputs) for a in ("--input-shapes", s)]
        report = json.loads(tenon("compile", path_of(name), "-o", folder / "external.so", "--external", "onednn", "--json", *shapes))
        assert report["external"] == {"onednn": regions}, f"{name}: {report['external']}, expected {regions} regions"
        tenon("run", path_of(name), "-i", folder / "in.npz", "-o", folder / "own.npz", *shapes)
        with np.load(folder / "own.npz") as own:
            expected = dict(own)
        worst = 0.0
        for threads in (1, 2):
            tenon("run", folder / "external.so", "-i", folder / "in.npz", "-o", folder / "out.npz", "--threads", threads)
            with np.load(folder / "out.npz") as found:
                worst = max(worst, worst_error(dict(found), expected))
        assert worst <= LIMIT, f"{name}: error {worst:.3g} of the output's scale, at most {LIMIT}"
        lines.append(f"{name} {regions} regions {worst:.1e}")
    return ", ".join(lines)


def main():
    generate_models.generate(generate_models.cache_folder())
    passed = failed = 0
    for name in sys.argv[1:] or [*MODELS, "tasks", "cache", "traces", "external"]:
        start = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                checks = {"tasks": check_tasks, "cache": lambda: check_cache(folder),
                          "traces": lambda: check_traces(folder), "external": lambda: check_external(folder)}
                line = checks[name]() if name in checks else run_model(name, folder)
                print(f"{name}: {line} ({time.monotonic() - start:.0f} s)", flush=True)
            passed += 1
        except AssertionError as error:
            print(f"{name}: FAILED: {error}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
