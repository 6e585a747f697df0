#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operator of ONNX that Tenon reads, in every version and with every attribute, through `tenon run` at -O0 and -O3 against
ONNX Runtime without its optimisations, or ONNX's reference in NumPy for what ONNX Runtime has no kernel for.

usage: onnx_ops_test.py [OPERATOR…]

The cases are in onnx_cases.py; many run as one model. At the end it checks that these cases and ONNX's own node tests together
set every attribute of each operator and reach each version; gaps.txt lists what they cannot. Prints `N passed, N failed`."""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import defs, helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from onnx_cases import CASES, model_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build/bin/tenon"))
NODE_TESTS = pathlib.Path("/usr/share/libonnx-testdata/data/node")
OLDEST, NEWEST = 7, 24
BATCH = 40


def schemas():
    """The versions of each operator of the default domain, oldest first."""
    found = collections.defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name].append(schema)
    return {name: sorted(all_of, key=lambda s: s.since_version) for name, all_of in found.items()}


SCHEMAS = schemas()


def versions(op):
    """The versions that an opset from 7 to 24 selects and that are not withdrawn, each with the opset to test it at."""
    ends = [s.since_version for s in SCHEMAS[op][1:]] + [NEWEST + 1]
    return [(s.since_version, max(s.since_version, OLDEST)) for s, end in zip(SCHEMAS[op], ends)
            if end > OLDEST and s.since_version <= NEWEST and not (s.deprecated and s.since_version in ends)]


def opsets_of(case):
    def takes(start):
        schema = next(s for s in SCHEMAS[case.op] if s.since_version == start)
        return set(case.attrs) <= set(schema.attributes) and len(case.inputs) <= schema.max_input and case.outputs <= schema.max_output
    return [opset for start, opset in versions(case.op) if case.since <= start <= case.until and takes(start)]


def reference(case, opset):
    """The outputs of one case, by name."""
    model, fed = model_of([case], opset)
    names = [o.name for o in model.graph.output]
    if case.numpy:
        return dict(zip(names, case.numpy(*fed.values())))
    if case.prefer == "onnxruntime":
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return dict(zip(names, session.run(names, fed)))
        except (ort_state.NotImplemented, ort_state.Fail, ort_state.InvalidGraph, ort_state.RuntimeException):
            pass
    return dict(zip(names, ReferenceEvaluator(model).run(None, fed)))


def run(model, fed, level, folder):
    """The outputs of `tenon run`, or the message of its error."""
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "in.npz", **fed)
    command = [TENON, "run", str(folder / "model.onnx"), level, "-o", str(folder / "out.npz")] + (["-i", str(folder / "in.npz")] if fed else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr.strip()}"
    with np.load(folder / "out.npz") as arrays:
        return dict(arrays)


def difference(found, expected, rtol):
    expected = np.asarray(expected)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if not np.issubdtype(expected.dtype, np.floating):
        return "" if np.array_equal(found, expected) else f"{found.ravel()[:8]}, expected {expected.ravel()[:8]}"
    if expected.dtype == np.float16:
        rtol = max(rtol, 1e-3)
    near = np.isclose(found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=rtol, equal_nan=True)
    at = np.argmin(near.ravel()) if near.size else 0
    return "" if near.all() else f"element {at} is {found.ravel()[at]}, expected {expected.ravel()[at]}"


def describe(case, opset):
    shown = [("constant " if hasattr(v, "array") else "") + str(list(np.shape(getattr(v, "array", v)))) if v is not None else "none" for v in case.inputs]
    return f"{case.op} (opset {opset}) {', '.join(shown)} {({k: v for k, v in case.attrs.items() if k != 'value'})}"


def check(cases, opset, folder):
    """The failures of some cases as one model, in words."""
    model, fed = model_of(cases, opset)
    found = {level: run(model, fed, level, folder) for level in ("-O0", "-O3")}
    refused = [f"{level}: {outputs}" for level, outputs in found.items() if isinstance(outputs, str)]
    if refused and len(cases) > 1:
        half = len(cases) // 2
        return check(cases[:half], opset, folder) + check(cases[half:], opset, folder)
    if refused:
        return [f"{describe(cases[0], opset)}: {refused[0]}"]
    return [f"{describe(case, opset)}: {text}" for number, case in enumerate(cases) if (text := check_outputs(case, opset, number, found))]


def check_outputs(case, opset, number, found):
    """What is wrong with the outputs of case `number` at any level; empty if nothing is."""
    try:
        expected = reference(case, opset)
    except Exception as error:  # whatever keeps the references from having an opinion
        return f"no reference: {str(error).splitlines()[0]}"
    for level, outputs in found.items():
        for name, value in expected.items():
            index = name.split("_")[1]
            text = difference(outputs[f"y{number}_{index}"], value, case.rtol)
            if text:
                return f"{level}: output {index}: {text}"
    return ""


def node_tests():
    """(operator, version, attributes) of each node of the node tests that pass."""
    skipped = {line.split(":")[0] for line in (ROOT / "tests/nodes/skip.txt").read_text().splitlines() if line[:1] != "#"}
    for path in sorted(NODE_TESTS.glob("*/model.onnx")):
        if path.parent.name in skipped:
            continue
        model = onnx.load(path)
        opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        for node in model.graph.node:
            if node.op_type in SCHEMAS and node.domain in ("", "ai.onnx"):
                yield node.op_type, opset, {a.name: helper.get_attribute_value(a) for a in node.attribute}


def coverage_gaps():
    """`operator: version N` and `operator: attribute` that no case and no node test has."""
    uses = list(node_tests()) + [(c.op, opset, c.attrs) for c in CASES for opset in opsets_of(c)]
    reached, given = set(), set()
    for op, opset, attrs in uses:
        reached.add((op, max((s.since_version for s in SCHEMAS[op] if s.since_version <= opset), default=0)))
        given |= {(op, name) for name in attrs}
    listed = json.loads(subprocess.run([TENON, "ops", "--json"], capture_output=True, text=True, check=True).stdout)["onnx"]
    gaps = set()
    for op in {rule["op"] for rule in listed}:
        starts = {start for start, _ in versions(op)}
        gaps |= {f"{op}: version {start}" for start in starts if (op, start) not in reached}
        names = {name for s in SCHEMAS[op] if s.since_version in starts for name in s.attributes}
        gaps |= {f"{op}: {name}" for name in names if (op, name) not in given}
    return gaps


def coverage_errors():
    lines = [line for line in (pathlib.Path(__file__).parent / "gaps.txt").read_text().splitlines() if line and line[0] != "#"]
    listed = {": ".join(line.split(": ")[:2]) for line in lines}
    gaps = coverage_gaps()
    return [f"{gap}: no case" for gap in sorted(gaps - listed)] + [f"gaps.txt: {gap}: is covered" for gap in sorted(listed - gaps)]


def main():
    wanted = set(sys.argv[1:])
    by_opset = collections.defaultdict(list)
    failures = []
    for case in CASES:
        if wanted and case.op not in wanted:
            continue
        opsets = opsets_of(case)
        if not opsets:
            failures.append(f"{case.op} {case.attrs}: no version takes this case")
        for opset in opsets:
            by_opset[opset].append(case)
    total = sum(map(len, by_opset.values()))
    with tempfile.TemporaryDirectory() as folder:
        for opset, cases in sorted(by_opset.items()):
            for begin in range(0, len(cases), BATCH):
                failures += check(cases[begin:begin + BATCH], opset, pathlib.Path(folder))
    if not wanted:
        failures += coverage_errors()
    print("\n".join(failures + [f"{max(total - len(failures), 0)} passed, {len(failures)} failed"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
