#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times Tenon beside ONNX Runtime and OpenVINO, interleaved in one run on the same inputs, one thread each: the models of
bench/models.py and seeded single-operator shapes. Each is timed at its own interface: Tenon through its C interface, the peers
through theirs, with the cost of an empty call measured and taken off. Writes bench/results/<what>.json and a table.

  compare.py [models|shapes] [--rounds N] [--only NAME]"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import generate_models  # noqa: E402
from models import MODELS, inputs_of, path_of, shapes_of  # noqa: E402

TENON = str(ROOT / "build/bin/tenon")
RESULTS = ROOT / "bench/results"


def tenon_runner(path, inputs, folder):
    """Compiles, loads the artifact through the C interface, and returns (run, milliseconds to compile)."""
    from tenon_c import Session
    artifact = folder / "model.so"
    shapes = [a for s in shapes_of(inputs) for a in ("--input-shapes", s)]
    start = time.perf_counter()
    subprocess.run([TENON, "compile", str(path), "-o", str(artifact), *shapes], check=True, capture_output=True)
    compile_ms = 1e3 * (time.perf_counter() - start)
    session = Session(artifact, inputs)
    return session.run, compile_ms


def ort_runner(path, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding)


def openvino_runner(path, inputs):
    import openvino
    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY",
                                                 "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1})
    request = compiled.create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return request.infer


def identity_model(path):
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "empty",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(model, str(path))
    return {"x": np.zeros(1, np.float32)}


def sample(run, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return 1e3 * (time.perf_counter() - start) / repeats


def interleaved(runners, rounds, rng):
    """Milliseconds by name, one per round; the order changes each round."""
    repeats = {}
    for name, run in runners.items():
        run()
        once = sample(run, 1)
        repeats[name] = max(1, int(0.8 / max(once, 1e-4)))
    times = {name: [] for name in runners}
    for _ in range(rounds):
        for name in rng.permutation(list(runners)):
            times[name].append(sample(runners[name], repeats[name]))
    return times


def row_of(name, times, extra):
    calls = {k: min(times.pop(f"{k} call")) for k in list(times) if f"{k} call" in times}
    clean = {k: [max(t - calls[k], 1e-6) for t in v] for k, v in times.items()}
    row = {"name": name, "ms": {k: {"min": min(v), "median": statistics.median(v)} for k, v in clean.items()}, **extra}
    for peer in clean:
        if peer != "tenon":
            ratios = sorted(p / t for p, t in zip(clean[peer], clean["tenon"]))
            n = len(ratios)
            row.setdefault("ratio", {})[peer] = {"median": statistics.median(ratios), "low": ratios[n // 10], "high": ratios[n - 1 - n // 10],
                                                 "of_minima": min(clean[peer]) / min(clean["tenon"])}
    return row


def cpu_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def runners_for(path, inputs, folder):
    tenon, compile_ms = tenon_runner(path, inputs, folder)
    runners = {"tenon": tenon, "onnxruntime": ort_runner(path, inputs)}
    try:
        runners["openvino"] = openvino_runner(path, inputs)
    except Exception as error:  # a peer that cannot run a model is reported, not fatal
        print(f"  openvino: {str(error).splitlines()[0][:100]}", file=sys.stderr)
    return runners, compile_ms


def empty_calls(folder):
    """Runs of a model that does nothing, timed in each round beside the others: what a call costs in each interface."""
    path = folder / "empty.onnx"
    runners, _ = runners_for(path, identity_model(path), folder)
    return {f"{k} call": run for k, run in runners.items()}


def seeded_shapes(count=200):
    """Single operators on awkward shapes: primes, strides, groups, dilation, batch 1 to 5."""
    rng = np.random.default_rng(200)
    pick = lambda *options: options[rng.integers(len(options))]
    extents = (1, 3, 7, 13, 16, 17, 29, 31, 32, 37, 48, 53, 61, 64, 97, 128)
    for i in range(count):
        kind = ("Conv", "MatMul", "MaxPool", "AveragePool", "Softmax", "Transpose", "ReduceMean", "ReduceMax")[i % 8]
        n = int(rng.integers(1, 6))
        c = int(pick(*extents[1:]))
        h, w = int(pick(7, 13, 14, 28, 29, 31, 56)), int(pick(7, 13, 14, 28, 31, 37, 56))
        feeds, attributes = {}, {}
        if kind == "Conv":
            groups = int(pick(1, 1, 1, 2, 4))
            c = max(groups, c // groups * groups)
            out, k, stride, dilation = groups * int(pick(1, 4, 8, 13, 16, 32)), int(pick(1, 3, 3, 5)), int(pick(1, 1, 2)), int(pick(1, 1, 2))
            attributes = {"group": groups, "strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [dilation * (k // 2)] * 4, "kernel_shape": [k, k]}
            feeds = {"x": (n, c, h, w)}
            weight = (rng.standard_normal((out, c // groups, k, k)) / np.sqrt(c // groups * k * k)).astype(np.float32)
            label = f"conv n{n} {c}->{out} {h}x{w} k{k} s{stride} d{dilation} g{groups}"
        elif kind == "MatMul":
            m, k, columns = int(pick(1, 7, 31, 64, 128)), int(pick(17, 64, 97, 256)), int(pick(8, 31, 64, 97, 256))
            feeds, weight = {"x": (n, m, k)}, (rng.standard_normal((k, columns)) / np.sqrt(k)).astype(np.float32)
            label = f"matmul {n}x{m}x{k} x {k}x{columns}"
        else:
            weight, feeds = None, {"x": (n, c, h, w)}
            if "Pool" in kind:
                k = int(pick(2, 3))
                attributes = {"kernel_shape": [k, k], "strides": [int(pick(1, 2))] * 2, "pads": [k // 2 if k == 3 else 0] * 4}
            elif kind == "Softmax":
                attributes = {"axis": int(pick(1, 3))}
            elif kind == "Transpose":
                attributes = {"perm": [int(a) for a in rng.permutation(4)]}
            else:
                attributes = {"axes": sorted(int(a) for a in rng.choice(4, int(rng.integers(1, 4)), replace=False)), "keepdims": 1}
            label = f"{kind.lower()} {n}x{c}x{h}x{w} {attributes}"
        yield label, kind, feeds, attributes, weight


def save_single(path, kind, feeds, attributes, weight):
    names, initializers = list(feeds), []
    if weight is not None:
        initializers.append(onnx.numpy_helper.from_array(weight, "w"))
        names.append("w")
    graph = helper.make_graph([helper.make_node(kind, names, ["y"], **attributes)], "one",
                              [helper.make_tensor_value_info(k, TensorProto.FLOAT, list(s)) for k, s in feeds.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(onnx.shape_inference.infer_shapes(model), str(path))


def cases(what, only):
    if what == "models":
        generate_models.generate(generate_models.cache_folder())
        for name in MODELS:
            if only in name:
                session = onnxruntime.InferenceSession(str(path_of(name)), providers=["CPUExecutionProvider"])
                yield name, path_of(name), inputs_of(name, session), None
        return
    rng = np.random.default_rng(1)
    for label, *single in seeded_shapes():
        if only in label:
            folder = tempfile.TemporaryDirectory()
            path = pathlib.Path(folder.name) / "one.onnx"
            save_single(path, *single)
            yield label, path, {k: (rng.random(s) * 2 - 1).astype(np.float32) for k, s in single[1].items()}, folder


def table(rows):
    peers = sorted({p for r in rows for p in r.get("ratio", {})})
    lines = ["| case | tenon ms | " + " | ".join(f"{p} ms | ratio (10-90 %)" for p in peers) + " |", "|---|---|" + "---|---|" * len(peers)]
    for r in rows:
        cells = [r["name"], f"{r['ms']['tenon']['median']:.3f}"]
        for p in peers:
            q = r.get("ratio", {}).get(p)
            cells += [f"{r['ms'][p]['median']:.3f}", f"{q['median']:.2f} ({q['low']:.2f}-{q['high']:.2f})"] if q else ["-", "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", choices=("models", "shapes"), default="models")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    rng = np.random.default_rng(3)
    empty_folder = tempfile.TemporaryDirectory()
    empty = empty_calls(pathlib.Path(empty_folder.name))
    rows = []
    for name, path, inputs, keep in cases(arguments.what, arguments.only):
        with tempfile.TemporaryDirectory() as folder:
            runners, compile_ms = runners_for(path, inputs, pathlib.Path(folder))
            times = interleaved(runners | {k: empty[k] for k in empty if k.removesuffix(" call") in runners}, arguments.rounds, rng)
            rows.append(row_of(name, times, {"compile_ms": compile_ms}))
            del runners, keep
        print(f"{name}: " + ", ".join(f"{p} {q['median']:.2f}x" for p, q in rows[-1]["ratio"].items()), file=sys.stderr, flush=True)
    ratios = sorted(r["ratio"]["onnxruntime"]["median"] for r in rows)
    summary = {"least": ratios[0], "median": statistics.median(ratios)}
    RESULTS.mkdir(exist_ok=True)
    report = {"processor": cpu_name(), "threads": 1, "rounds": arguments.rounds, "against_onnxruntime": summary, "rows": rows}
    if not arguments.only:
        (RESULTS / f"{arguments.what}.json").write_text(json.dumps(report, indent=1) + "\n")
        text = f"# {arguments.what}\n\n{report['processor']}, 1 thread. A ratio above 1 means that Tenon is faster.\n\n{table(rows)}\n"
        (RESULTS / f"{arguments.what}.md").write_text(text)
    print(table(rows))
    print(f"against ONNX Runtime: least {summary['least']:.2f}, median {summary['median']:.2f} over {len(rows)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
