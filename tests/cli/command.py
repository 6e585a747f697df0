# SPDX-License-Identifier: Apache-2.0
"""What tests of the command share: models and arrays without any library, and how to call the command. TENON names it,
build/bin/tenon by default."""
import ast
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build/bin/tenon"))

ADD_RELU = """fn @main(%0: f32[2,3] "x/a:0", %1: f32[2,3] "y") -> ("sum", "out:0") {
  %2 = add(%0, %1) : f32[2,3] "the add"
  %3 = relu(%2) : f32[2,3] "the relu"
  return %2, %3
}
"""
PRODUCT = """fn @main(%0: f32[8,16] "x", %1: f32[16,24] "w") -> ("y") {
  %2 = matmul(%0, %1) : f32[8,24]
  return %2
}
"""


def field(number, value):
    """One protobuf field: an int as a varint, bytes or text with their length."""
    def varint(n):
        out = b""
        while True:
            out += bytes([n & 127 | (128 if n > 127 else 0)])
            n >>= 7
            if not n:
                return out
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name, dims):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def node(op, inputs, outputs, name, attributes=b""):
    return b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name) + field(4, op) + attributes


def ints(name, values):
    return field(5, field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7))


def tensor(name, dims, floats):
    return b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) + field(9, struct.pack(f"<{len(floats)}f", *floats))


def onnx_model(nodes, inputs, outputs, initializers=(), opset=13):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "g")
    graph += b"".join(field(5, t) for t in initializers)
    graph += b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(2, opset))


def conv_relu(batch=1):
    """A 3x3 convolution of ones over one channel, with bias -40, then relu."""
    return onnx_model(
        [node("Conv", ["x", "w", "b"], ["c"], "conv 1", ints("pads", [1, 1, 1, 1])), node("Relu", ["c"], ["y"], "relu 1")],
        [value_info("x", [batch, 1, 4, 4])], [value_info("y", [batch, 1, 4, 4])],
        [tensor("w", [1, 1, 3, 3], [1.0] * 9), tensor("b", [1], [-40.0])])


def conv_relu_expected():
    x = list(range(16))
    out = []
    for i in range(4):
        for j in range(4):
            total = sum(x[r * 4 + c] for r in range(i - 1, i + 2) for c in range(j - 1, j + 2) if 0 <= r < 4 and 0 <= c < 4)
            out.append(float(max(total - 40, 0)))
    return out


CODES = {"<f4": "f", "<i8": "q", "<i4": "i", "|b1": "?", "|u1": "B"}


def write_npz(path, arrays):
    """arrays: name -> (descr, shape, flat values)"""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (descr, shape, values) in arrays.items():
            header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
            header += " " * ((64 - (11 + len(header)) % 64) % 64) + "\n"
            data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            archive.writestr(name + ".npy", data + struct.pack(f"<{len(values)}{CODES[descr]}", *values))


def read_npz(path):
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            length = struct.unpack("<H", data[8:10])[0]
            header = ast.literal_eval(data[10:10 + length].decode())
            code = CODES[header["descr"]]
            count = len(data[10 + length:]) // struct.calcsize(code)
            arrays[name[:-4]] = (header["descr"], header["shape"], list(struct.unpack(f"<{count}{code}", data[10 + length:])))
    return arrays


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tenon_cli_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.write("model.tenon", ADD_RELU)
        self.onnx = self.write("model.onnx", conv_relu())
        self.inputs = str(self.folder / "in.npz")
        write_npz(self.inputs, {"x/a:0": ("<f4", [2, 3], [1, -2, 3, -4, 5, -6]), "y": ("<f4", [2, 3], [0.5] * 6)})
        self.image = str(self.folder / "image.npz")
        write_npz(self.image, {"x": ("<f4", [1, 1, 4, 4], list(range(16)))})

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def path(self, name):
        return str(self.folder / name)

    def tenon(self, *arguments, code=0, program=TENON, environment=None):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *arguments, code=0, **how):
        return json.loads(self.tenon(*arguments, "--json", code=code, **how).stdout)

    def error(self, *arguments, code, **how):
        error = self.json(*arguments, code=code, **how)["error"]
        for key in ("code", "message", "node", "input", "expected", "found", "hint"):
            self.assertIn(key, error)
        return error


def run_tests():
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(failed > 0)
