# SPDX-License-Identifier: Apache-2.0
"""Folders of TVM's three files, both ways: what `compile --emit tvm` writes runs in TVM's own executor, in the small one of
examples/tvm and in ours; what TVM compiled runs in ours.

usage: tvm_test.py [unittest arguments]; TENON names the command, TENON_TVM_DIR the folder with TVM's run time and what it
compiled (../shared/tvm beside the checkout by default; without it those tests are skipped)."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build/bin/tenon"))


def tvm_folder():
    named = os.environ.get("TENON_TVM_DIR")
    for folder in [named] if named else [ROOT.parent / "shared/tvm", ROOT.parent.parent / "shared/tvm"]:
        if (pathlib.Path(folder) / "libtvm_runtime.so").is_file():
            return pathlib.Path(folder)
    return None


TVM = tvm_folder()
needs_tvm = unittest.skipUnless(TVM, "TVM's run time is not here; TENON_TVM_DIR names its folder")

# Runs a folder in TVM. Ends without the destructors of its thread pool, which wait for ever on a worker of two and more.
IN_TVM = """
import os, sys
sys.path.insert(0, sys.argv[1])
import numpy, run_tvm
try:
    numpy.savez(sys.argv[4], *run_tvm.run(sys.argv[2], dict(numpy.load(sys.argv[3]))))
except RuntimeError as error:
    sys.stderr.write(str(error))
    sys.stderr.flush()
    os._exit(1)
os._exit(0)
"""


def run_in_tvm(path, inputs, outputs, threads):
    """The outputs of a folder in TVM's run time; `inputs` and `outputs` are .npz files."""
    done = subprocess.run([sys.executable, "-c", IN_TVM, TVM, path, inputs, outputs], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "TVM_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode:
        raise AssertionError(f"TVM: {done.stderr[-1500:]}")
    with np.load(outputs) as found:
        return [found[f"arr_{k}"] for k in range(len(found.files))]


# Small modules of every kind: name -> (text, inputs).
F32 = np.float32
MODULES = {
    "parallel": ("""fn @main(%0: f32[64,96] "x", %1: f32[96,80] "w") -> ("y") {
  %2 = matmul(%0, %1) : f32[64,80]
  %3 = relu(%2) : f32[64,80]
  %4 = softmax(%3) {axes = [1]} : f32[64,80]
  return %4
}""", {"x": ((64, 96), F32), "w": ((96, 80), F32)}),
    "views": ("""fn @main(%0: f32[4,6] "x/a:0") -> ("r", "s", "q", "x") {
  %1 = abs(%0) : f32[4,6]
  %2 = reshape(%1) {shape = [24]} : f32[24]
  %3 = exp(%1) : f32[4,6]
  %4 = sqrt(%3) : f32[4,6]
  %5 = reshape(%3) {shape = [2,12]} : f32[2,12]
  return %2, %4, %5, %0
}""", {"x/a:0": ((4, 6), F32)}),
    "types": ("""fn @main(%0: f32[] "scalar", %1: i64[5] "i", %2: f16[3,5] "h", %3: bool[5] "b") -> ("a", "c", "d", "e", "f") {
  %4 = exp(%0) : f32[]
  %5 = add(%1, %1) : i64[5]
  %6 = cast(%2) {to = "f64"} : f64[3,5]
  %7 = logical_not(%3) : bool[5]
  %8 = cast(%1) {to = "u8"} : u8[5]
  return %4, %5, %6, %7, %8
}""", {"scalar": ((), F32), "i": ((5,), np.int64), "h": ((3, 5), np.float16), "b": ((5,), np.bool_)}),
    "constants": ("""constant @x : f32[4] = bytes "0000803f000000400000404000008040"
fn @main(%0: f32[4] "x") -> ("sum", "same") {
  %1 = constant @x : f32[4]
  %2 = add(%0, %1) : f32[4]
  return %2, %1
}""", {"x": ((4,), F32)}),
    "copies_only": ("""fn @main(%0: f32[2,3] "x") -> ("a", "b") {
  return %0, %0
}""", {"x": ((2, 3), F32)}),
    "empty": ("""fn @main(%0: f32[0,3] "x") -> ("y", "z") {
  %1 = relu(%0) : f32[0,3]
  %2 = sum(%0) {axes = [0], keepdims = false} : f32[3]
  return %1, %2
}""", {"x": ((0, 3), F32)}),
}


def random_arrays(shapes):
    random = np.random.default_rng(5)
    return {name: (random.random(shape) * 9 - 4).astype(dtype) for name, (shape, dtype) in shapes.items()}


def build_loader(folder):
    """The executor of examples/tvm, which shares no code with ours."""
    loader = folder / "run_graph"
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", str(ROOT / "examples/tvm/run_graph.c"), "-o",
                    str(loader), "-lpthread", "-ldl"], check=True)
    return loader


class FolderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="tenon_tvm_loader_"))
        cls.loader = build_loader(cls.shared)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tenon_tvm_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def tenon(self, *arguments, code=0):
        done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *arguments, code=0):
        return json.loads(self.tenon(*arguments, "--json", code=code).stdout)

    def ours(self, path, *arguments):
        """The outputs of `tenon run`, in the order of the report."""
        report = self.json("run", path, "-i", self.folder / "in.npz", "-o", self.folder / "out.npz", *arguments)
        with np.load(self.folder / "out.npz") as found:
            return [found[output["name"]] for output in report["outputs"]]

    def in_tvm(self, path, threads):
        return run_in_tvm(path, self.folder / "in.npz", self.folder / "out.npz", threads)

    def in_loader(self, path, inputs, threads, like):
        options = []
        for k, (name, array) in enumerate(inputs.items()):
            file = self.folder / f"in{k}.bin"
            file.write_bytes(np.ascontiguousarray(array).tobytes())
            options.append(f"{name}={file}")
        done = subprocess.run([self.loader, path, str(threads), self.folder / "out", *options], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), len(like), done.stdout)
        return [np.frombuffer((self.folder / f"out{k}.bin").read_bytes(), a.dtype).reshape(a.shape) for k, a in enumerate(like)]

    def expect_same(self, found, expected, where):
        self.assertEqual(len(found), len(expected), where)
        for k, (got, want) in enumerate(zip(found, expected)):
            self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape), f"{where}: output {k}")
            self.assertEqual(got.tobytes(), want.tobytes(), f"{where}: output {k}")

    def module(self, name):
        text, shapes = MODULES[name]
        path = self.folder / f"{name}.tenon"
        path.write_text(text + "\n")
        inputs = random_arrays(shapes)
        np.savez(self.folder / "in.npz", **inputs)
        return path, inputs


class Emit(FolderTest):
    def test_what_we_write_gives_our_outputs_everywhere(self):
        for name in MODULES:
            for level in ("-O0", "-O3"):
                path, inputs = self.module(name)
                expected = self.ours(path, level)
                out = self.folder / f"{name}{level}"
                report = self.json("compile", path, "--emit", "tvm", "-o", out, level)
                self.assertEqual(report["bytes"], sum(f.stat().st_size for f in out.iterdir()))
                self.assertEqual(sorted(f.name for f in out.iterdir()), ["graph.json", "lib.so", "params.bin"])
                for threads in (1, 3):
                    where = f"{name} {level} on {threads}"
                    self.expect_same(self.ours(out, "--threads", threads), expected, f"{where} in tenon run")
                    self.expect_same(self.in_loader(out, inputs, threads, expected), expected, f"{where} in examples/tvm")
                    if TVM:
                        self.expect_same(self.in_tvm(out, threads), expected, f"{where} in TVM")

    def test_the_graph_has_the_reference_s_form(self):
        path, _ = self.module("views")
        out = self.folder / "views"
        self.tenon("compile", path, "--emit", "tvm", "-o", out, "-O0")
        graph = json.loads((out / "graph.json").read_text())
        functions = [node.get("attrs", {}).get("func_name") for node in graph["nodes"]]
        self.assertEqual(functions.count("__nop"), 2)
        self.assertEqual(functions[0], None)
        self.assertEqual(graph["nodes"][0]["name"], "x/a:0")
        self.assertTrue(all(f is None or f == "__nop" or f.startswith("tvmgen_default_fused_") for f in functions))
        self.assertEqual(graph["attrs"]["storage_id"], ["list_int", [0, 1, 1, 2, 3, 2]])
        self.assertEqual(graph["attrs"]["dltype"], ["list_str", ["float32"] * 6])
        self.assertEqual(graph["attrs"]["device_index"], ["list_int", [1] * 6])
        self.assertEqual(graph["heads"], [[2, 0, 0], [4, 0, 0], [5, 0, 0], [0, 0, 0]])

    def test_linked_constants_leave_no_parameters(self):
        path, inputs = self.module("constants")
        path.write_text(MODULES["constants"][0].replace("%2, %1", "%2, %2"))
        expected = self.ours(path)
        for flags, empty in (([], False), (["--link-params"], True)):
            out = self.folder / f"linked{empty}"
            self.tenon("compile", path, "--emit", "tvm", "-o", out, *flags)
            self.assertEqual((out / "params.bin").stat().st_size == 32, empty)
            self.expect_same(self.in_loader(out, inputs, 1, expected), expected, str(flags))

    def test_the_same_input_gives_the_same_bytes(self):
        path, _ = self.module("parallel")
        folders = [self.folder / "a", self.folder / "b"]
        for out, threads in zip(folders, (1, 2)):
            self.tenon("compile", path, "--emit", "tvm", "-o", out, "--threads", threads)
        for name in ("lib.so", "graph.json", "params.bin"):
            self.assertEqual(*((out / name).read_bytes() for out in folders), name)

    def test_the_plan_of_its_storage_can_be_dumped(self):
        path, _ = self.module("views")
        self.tenon("compile", path, "--emit", "tvm", "-o", self.folder / "v", "--dump-plan", self.folder / "plan")
        self.assertTrue((self.folder / "plan/plan.csv").read_text().startswith("id,lower,upper,size,alignment,offset\n"))

    def test_a_file_in_the_way_is_an_error(self):
        path, _ = self.module("views")
        self.assertEqual(self.json("compile", path, "--emit", "tvm", "-o", path, code=6)["error"]["code"], "file-write")


class Load(FolderTest):
    def compiled(self):
        path, _ = self.module("views")
        out = self.folder / "views"
        self.tenon("compile", path, "--emit", "tvm", "-o", out, "-O0")
        return out

    def test_inspect_bench_and_profile_take_a_folder(self):
        out = self.compiled()
        shown = self.json("inspect", out)
        self.assertEqual(shown["kind"], "artifact")
        self.assertEqual(shown["inputs"], [{"name": "x/a:0", "dtype": "f32", "shape": [4, 6]}])
        self.assertEqual([o["name"] for o in shown["outputs"]], ["out0", "out1", "out2", "out3"])
        self.assertEqual(self.json("bench", out, "-n", 2)["n"], 2)
        steps = self.json("profile", f"{out}/", "-n", 1)
        self.assertEqual(steps["model"], "views")
        self.assertIn("tvmgen_default_fused_abs", [s["kernel"] for s in steps["steps"]])

    def test_inspecting_runs_no_code(self):
        out = self.compiled()
        (out / "lib.so").write_bytes(b"no library")
        self.json("inspect", out)
        self.assertEqual(self.json("run", out, "--fill", "random:1", code=3)["error"]["code"], "tvm-library")

    def test_each_missing_file_is_named(self):
        for name in ("lib.so", "graph.json", "params.bin"):
            out = self.compiled()
            (out / name).unlink()
            error = self.json("run", out, "--fill", "random:1", code=6)["error"]
            self.assertEqual(error["code"], "file-open")
            self.assertIn(name, error["input"])

    def test_damage_is_an_error_with_a_code(self):
        out = self.compiled()
        graph = (out / "graph.json").read_text()
        (out / "graph.json").write_text(graph[:-20])
        self.assertEqual(self.json("run", out, "--fill", "random:1", code=3)["error"]["code"], "tvm-graph")
        (out / "graph.json").write_text(graph.replace("float32", "int4"))
        self.assertEqual(self.json("run", out, "--fill", "random:1", code=4)["error"]["code"], "tvm-unsupported")
        # Another shape of the input: the kernel itself refuses it.
        (out / "graph.json").write_text(json.dumps({**json.loads(graph), "attrs": {
            **json.loads(graph)["attrs"], "shape": ["list_shape", [[6, 4], [4, 6], [24], [4, 6], [4, 6], [2, 12]]]}}))
        error = self.json("run", out, "--fill", "random:1", code=3)["error"]
        self.assertEqual(error["code"], "tvm-kernel")
        self.assertIn("expected extent 4 of axis 0", error["message"])
        (out / "graph.json").write_text(graph)
        (out / "params.bin").write_bytes(b"x" * 40)
        self.assertEqual(self.json("run", out, "--fill", "random:1", code=3)["error"]["code"], "tvm-params")

    def test_unknown_parameters_are_errors_unless_allowed(self):
        path, inputs = self.module("constants")
        out = self.folder / "constants"
        expected = self.ours(path)
        self.tenon("compile", path, "--emit", "tvm", "-o", out)
        params, graph = (out / "params.bin").read_bytes(), json.loads((out / "graph.json").read_text())
        name = [n["name"] for n in graph["nodes"] if n["op"] == "null" and n["name"] not in inputs][0].encode()
        self.assertEqual(name, b"x_1")
        (out / "params.bin").write_bytes(params.replace(name, b"y_1"))
        error = self.json("run", out, "-i", self.folder / "in.npz", code=3)["error"]
        self.assertEqual((error["code"], error["node"]), ("tvm-params-unknown", "y_1"))
        np.savez(self.folder / "in.npz", **inputs, x_1=expected[1])  # it is an input then
        self.expect_same(self.ours(out, "--allow-unknown-params"), expected, "allowed")

    def test_a_library_that_calls_the_interface_by_name_is_served(self):
        # As TVM's C back end writes kernels: the call-backs are undefined symbols, found in the program.
        source = self.folder / "kernel.c"
        source.write_text("""
#include <stdint.h>
typedef struct { void* data; int32_t type, id, ndim; uint8_t code, bits; uint16_t lanes; int64_t *shape, *strides; uint64_t offset; } T;
typedef union { int64_t i; void* h; } V;
typedef struct { void* barrier; int32_t tasks; } E;
void* TVMBackendAllocWorkspace(int, int, uint64_t, int, int);
int TVMBackendFreeWorkspace(int, int, void*);
int TVMBackendParallelLaunch(int (*)(int, E*, void*), void*, int);
int TVMBackendParallelBarrier(int, E*);
void TVMAPISetLastError(const char*);
static int task(int k, E* e, void* c) { float** p = c; TVMBackendParallelBarrier(k, e);
  for (int i = k; i < 4; i += e->tasks) p[1][i] = p[0][i] * 2; return 0; }
int32_t twice(V* a, int32_t* codes, int32_t n, V* r, int32_t* rc, void* res) {
  if (n != 2) { TVMAPISetLastError("two"); return -1; }
  float* w = TVMBackendAllocWorkspace(1, 0, 16, 2, 32);
  float* p[2] = {((T*)a[0].h)->data, w};
  int s = TVMBackendParallelLaunch(task, p, 0);
  for (int i = 0; i < 4; ++i) ((float*)((T*)a[1].h)->data)[i] = w[i];
  TVMBackendFreeWorkspace(1, 0, w);
  return s; }
""")
        out = self.folder / "c"
        out.mkdir()
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", source, "-o", out / "lib.so"], check=True)
        call = {"func_name": "twice", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}
        (out / "graph.json").write_text(json.dumps({
            "nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "tvm_op", "name": "y", "attrs": call, "inputs": [[0, 0, 0]]}],
            "arg_nodes": [0], "heads": [[1, 0, 0]], "node_row_ptr": [0, 1, 2],
            "attrs": {"shape": ["list_shape", [[4], [4]]], "dltype": ["list_str", ["float32"] * 2], "storage_id": ["list_int", [0, 1]]}}))
        (out / "params.bin").write_bytes(b"")
        np.savez(self.folder / "in.npz", x=np.arange(4, dtype=F32))
        for threads in (1, 3):
            self.expect_same(self.ours(out, "--threads", threads), [np.arange(4, dtype=F32) * 2], f"{threads} threads")


@needs_tvm
class CompiledByTvm(FolderTest):
    def test_every_artifact_gives_its_stored_outputs(self):
        artifacts = sorted(p for p in (TVM / "artifacts").iterdir() if p.is_dir())
        self.assertEqual(len(artifacts), 10)
        for artifact in artifacts:
            shutil.copy(artifact / "in.npz", self.folder / "in.npz")
            with np.load(artifact / "out.npz") as stored:
                expected = [stored[f"out{k}"] for k in range(len(stored.files))]
            with np.load(artifact / "in.npz") as arrays:
                inputs = dict(arrays)
            for threads in (1, 2, 4):
                where = f"{artifact.name} on {threads}"
                self.expect_same(self.ours(artifact, "--threads", threads), expected, where)
                self.expect_same(self.in_loader(artifact, inputs, threads, expected), expected, f"{where} in examples/tvm")
            self.json("inspect", artifact)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    result = program.result
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed")
    sys.exit(1 if bad else 0)
