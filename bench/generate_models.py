#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ResNet-50, MobileNetV2 and BERT-base (sequence 128) at their true sizes with seeded random parameters, scaled so that
activations keep their spread and the outputs depend on every layer. `generate_models.py [FOLDER]`; files that are there
stay. Architectures: He et al. 2015 (v1.5: stride in the 3x3), Sandler et al. 2018, Devlin et al. 2018."""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from fetch_models import cache_folder  # noqa: E402

OPSET = 13


class Writer:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def weight(self, array):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def number(self, value):
        return self.weight(np.array(value, np.float32))

    def normal(self, shape, scale):
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def uniform(self, low, high, n):
        return self.random.uniform(low, high, n).astype(np.float32)

    def op(self, kind, inputs, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{kind}_{len(self.nodes)}", **attributes))
        return output

    def conv(self, x, cin, cout, kernel, stride=1, groups=1, gain=2.0):
        fan_in = cin // groups * kernel * kernel
        w = self.normal((cout, cin // groups, kernel, kernel), np.sqrt(gain / fan_in))
        y = self.op("Conv", [x, self.weight(w)], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)
        statistics = [self.uniform(0.8, 1.2, cout), self.normal(cout, 0.1), self.normal(cout, 0.1), self.uniform(0.8, 1.2, cout)]
        return self.op("BatchNormalization", [y, *map(self.weight, statistics)], epsilon=1e-5)

    def linear(self, x, cin, cout):
        y = self.op("MatMul", [x, self.weight(self.normal((cin, cout), 1 / np.sqrt(cin)))])
        return self.op("Add", [y, self.weight(self.normal(cout, 0.1))])

    def save(self, path, inputs, outputs):
        graph = helper.make_graph(self.nodes, path.stem,
                                  [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 7
        part = path.with_suffix(".part")
        onnx.save(model, str(part))
        part.rename(path)


def classifier(w, x, channels):
    x = w.op("Flatten", [w.op("GlobalAveragePool", [x])])
    return w.op("Gemm", [x, w.weight(w.normal((channels, 1000), 1 / np.sqrt(channels))), w.weight(w.normal(1000, 0.1))])


def resnet50(path):
    w = Writer(50)
    x = w.op("Relu", [w.conv("x", 3, 64, 7, 2)])
    x = w.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    cin = 64
    for mid, count, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(count):
            step = stride if block == 0 else 1
            shortcut = x if block else w.conv(x, cin, mid * 4, 1, step, gain=1.0)
            y = w.op("Relu", [w.conv(x, cin, mid, 1)])
            y = w.op("Relu", [w.conv(y, mid, mid, 3, step)])
            y = w.conv(y, mid, mid * 4, 1, gain=0.5)
            x = w.op("Relu", [w.op("Add", [y, shortcut])])
            cin = mid * 4
    w.save(path, [("x", TensorProto.FLOAT, [1, 3, 224, 224])], [(classifier(w, x, 2048), [1, 1000])])


def mobilenet_v2(path):
    w = Writer(2)
    low, high = w.number(0), w.number(6)
    relu6 = lambda v: w.op("Clip", [v, low, high])
    x, cin = relu6(w.conv("x", 3, 32, 3, 2)), 32
    for expand, cout, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for block in range(count):
            step, hidden, y = stride if block == 0 else 1, cin * expand, x
            if expand != 1:
                y = relu6(w.conv(y, cin, hidden, 1))
            y = relu6(w.conv(y, hidden, hidden, 3, step, groups=hidden))
            y = w.conv(y, hidden, cout, 1, gain=1.0)
            x = w.op("Add", [x, y]) if step == 1 and cin == cout else y
            cin = cout
    x = relu6(w.conv(x, cin, 1280, 1))
    w.save(path, [("x", TensorProto.FLOAT, [1, 3, 224, 224])], [(classifier(w, x, 1280), [1, 1000])])


def bert_base(path, sequence=128, layers=12, hidden=768, heads=12, inner=3072, words=30522):
    w = Writer(12)
    head = hidden // heads
    two, one, half, epsilon = w.number(2), w.number(1), w.number(0.5), w.number(1e-12)
    root_two, scale = w.number(np.sqrt(2)), w.number(np.sqrt(head))
    split, join = w.weight(np.array([1, sequence, heads, head], np.int64)), w.weight(np.array([1, sequence, hidden], np.int64))

    def norm(x):
        centred = w.op("Sub", [x, w.op("ReduceMean", [x], axes=[-1])])
        variance = w.op("ReduceMean", [w.op("Pow", [centred, two])], axes=[-1])
        y = w.op("Div", [centred, w.op("Sqrt", [w.op("Add", [variance, epsilon])])])
        return w.op("Add", [w.op("Mul", [y, w.weight(w.uniform(0.8, 1.2, hidden))]), w.weight(w.normal(hidden, 0.1))])

    def heads_of(x, order):
        return w.op("Transpose", [w.op("Reshape", [w.linear(x, hidden, hidden), split])], perm=order)

    table = w.weight(w.normal((words, hidden), 0.05))
    position = w.weight(w.normal((1, sequence, hidden), 0.05))
    kinds = w.weight(w.normal((2, hidden), 0.05))
    x = w.op("Add", [w.op("Gather", [table, "input_ids"]), position])
    x = norm(w.op("Add", [x, w.op("Gather", [kinds, "token_type_ids"])]))
    mask = w.op("Cast", [w.op("Unsqueeze", ["attention_mask", w.weight(np.array([1, 2], np.int64))])], to=TensorProto.FLOAT)
    mask = w.op("Mul", [w.op("Sub", [one, mask]), w.number(-10000)])
    for _ in range(layers):
        q, k, v = heads_of(x, [0, 2, 1, 3]), heads_of(x, [0, 2, 3, 1]), heads_of(x, [0, 2, 1, 3])
        scores = w.op("Add", [w.op("Div", [w.op("MatMul", [q, k]), scale]), mask])
        mixed = w.op("Transpose", [w.op("MatMul", [w.op("Softmax", [scores], axis=-1), v])], perm=[0, 2, 1, 3])
        x = norm(w.op("Add", [x, w.linear(w.op("Reshape", [mixed, join]), hidden, hidden)]))
        y = w.linear(x, hidden, inner)
        y = w.op("Mul", [w.op("Mul", [y, w.op("Add", [w.op("Erf", [w.op("Div", [y, root_two])]), one])]), half])
        x = norm(w.op("Add", [x, w.linear(y, inner, hidden)]))
    first = w.op("Gather", [x, w.weight(np.array(0, np.int64))], axis=1)
    pooled = w.op("Tanh", [w.linear(first, hidden, hidden)])
    ids = [(n, TensorProto.INT64, [1, sequence]) for n in ("input_ids", "attention_mask", "token_type_ids")]
    w.save(path, ids, [(x, [1, sequence, hidden]), (pooled, [1, 1, hidden])])


MODELS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "bert_base": bert_base}


def generate(folder):
    """Write what is missing into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in MODELS.items():
        path = folder / f"{name}.onnx"
        if not path.is_file():
            write(path)


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder())
