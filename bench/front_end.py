#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the front and middle end, import to scheduled loop IR without a kernel cache, on generated graphs of growing size:
`front_end.py [--sizes N,N,…] [--threads N,N,…] [--runs N] [--save]`. Prints microseconds an operator and, for several sizes, the
growth exponent."""
import argparse
import json
import math
import pathlib
import random
import re
import subprocess
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
TENON = ROOT / "build/bin/tenon"


class Network:
    """A chain of blocks as models have them: convolutions with normalisation and activation, residual and gated branches,
    attention-like products, pooling. Channel counts and sizes are drawn anew for each block."""

    def __init__(self, operators, seed):
        self.random = random.Random(seed)
        self.nodes, self.weights = [], []
        self.channels, self.size = 16, 24
        value = "x"
        while len(self.nodes) < operators:
            value = self.random.choice([self.convolution, self.residual, self.gate, self.attention, self.pooling])(value)
        shape = [1, self.channels, self.size, self.size]
        self.model = helper.make_model(
            helper.make_graph(self.nodes, "generated", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 24, 24])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)], self.weights),
            opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op.lower()}_{len(self.nodes)}", **attributes))
        return name

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        data = numpy.full(shape, 0.01, numpy.float32)
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def shape(self, *extents):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.array(extents, numpy.int64), name))
        return name

    def conv(self, value, channels, kernel=1):
        self_channels, self.channels = self.channels, channels
        return self.node("Conv", value, self.weight(channels, self_channels, kernel, kernel), self.weight(channels),
                         pads=[kernel // 2] * 4)

    def normalised(self, value):
        scale, bias, mean, variance = (self.weight(self.channels) for _ in range(4))
        return self.node("BatchNormalization", value, scale, bias, mean, variance)

    def convolution(self, value):
        value = self.normalised(self.conv(value, self.random.randint(4, 48), self.random.choice([1, 3, 5])))
        return self.node(self.random.choice(["Relu", "Sigmoid", "Tanh", "HardSwish"]), value)

    def residual(self, value):
        inner = self.node("Relu", self.conv(value, self.channels, 3))
        return self.node("Relu", self.node("Add", value, self.conv(inner, self.channels)))

    def gate(self, value):
        mean = self.node("ReduceMean", value, axes=[2, 3], keepdims=1)
        scale = self.node("Sigmoid", self.conv(self.node("Relu", self.conv(mean, self.channels)), self.channels))
        return self.node("Mul", self.node("Mul", value, scale), self.weight(1, self.channels, 1, 1))

    def attention(self, value):
        area = self.size * self.size
        flat = self.node("Reshape", value, self.shape(1, self.channels, area))
        rows = self.node("Transpose", flat, perm=[0, 2, 1])
        hidden = self.random.randint(4, 40)
        product = self.node("Add", self.node("MatMul", rows, self.weight(self.channels, hidden)), self.weight(hidden))
        soft = self.node("Softmax", self.node("Div", product, self.weight(1)), axis=-1)
        self.channels = self.random.randint(4, 48)
        back = self.node("MatMul", soft, self.weight(hidden, self.channels))
        columns = self.node("Transpose", back, perm=[0, 2, 1])
        return self.node("Reshape", columns, self.shape(1, self.channels, self.size, self.size))

    def pooling(self, value):
        old, self.size = self.size, self.random.randint(7, 29)
        value = self.node("Exp", self.node("Neg", self.node("Abs", value)))
        if self.size <= old:  # a window of stride 1 that leaves this size
            return self.node("MaxPool", value, kernel_shape=[old - self.size + 1] * 2)
        grow = self.size - old
        pads = self.shape(0, 0, grow // 2, grow // 2, 0, 0, grow - grow // 2, grow - grow // 2)
        return self.node("Pad", value, pads)


def microseconds(path, threads, runs):
    """The least time of all passes up to the scheduled module, by pass."""
    best = None
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            out = subprocess.run([TENON, "compile", path, "--stop-after", "schedule", "--time-passes", "--threads", threads,
                                  "-o", folder + "/scheduled.tenon"], capture_output=True, text=True)
        if out.returncode:
            raise SystemExit(out.stderr)
        passes = {name: 1000 * float(ms) for ms, name in re.findall(r"([\d.]+) ms  (\S+)", out.stderr)}
        if best is None or sum(passes.values()) < sum(best.values()):
            best = passes
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="write bench/results/front_end.json and .md")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in map(int, options.sizes.split(",")):
            path = f"{folder}/{size}.onnx"
            network = Network(size, seed=size)
            onnx.save(network.model, path)
            count = len(network.nodes)
            for threads in options.threads.split(","):
                passes = microseconds(path, threads, options.runs)
                rows.append({"operators": count, "threads": int(threads), "us": sum(passes.values()), "passes": passes})
                print(f"{count} operators, {threads} threads: {rows[-1]['us'] / count:.1f} us each;",
                      ", ".join(f"{name} {us / count:.1f}" for name, us in passes.items()))
    lines = ["# Front and middle end", "", "Import to scheduled loop IR, no kernel cache.", "", "| operators | threads | us an operator |", "|---|---|---|"]
    lines += [f"| {r['operators']} | {r['threads']} | {r['us'] / r['operators']:.1f} |" for r in rows]
    growth = {}
    for threads in sorted({r["threads"] for r in rows}):
        of = [r for r in rows if r["threads"] == threads]
        if len(of) > 1:
            growth[threads] = math.log(of[-1]["us"] / of[0]["us"]) / math.log(of[-1]["operators"] / of[0]["operators"])
            lines.append(f"\nGrowth exponent with {threads} threads: {growth[threads]:.2f}.")
            print(lines[-1].strip())
    if options.save:
        results = ROOT / "bench/results"
        (results / "front_end.json").write_text(json.dumps({"growth_exponents": growth, "rows": rows}, indent=1) + "\n")
        (results / "front_end.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
