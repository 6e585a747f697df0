# SPDX-License-Identifier: Apache-2.0
"""The command from the outside: exit codes, JSON, files. Needs plain Python only.

usage: cli_test.py [unittest arguments]; TENON names the command, build/bin/tenon by default.
"""
import json
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import unittest

from command import (CommandTest, PRODUCT, ROOT, TENON, conv_relu, conv_relu_expected, node, onnx_model, read_npz, run_tests,
                     tensor, value_info, write_npz)


class External(CommandTest):
    def sums(self, *source):
        self.tenon("run", *source, "-i", self.inputs, "-o", self.path("out.npz"))
        return read_npz(self.path("out.npz"))

    def test_c_takes_part_in_a_model_and_can_be_left_out(self):
        native = self.sums(self.model)
        for level in ("-O0", "-O3"):
            report = self.json("compile", self.model, "-o", self.path("c.so"), "--external", "csource -O=1", level)
            self.assertEqual(report["external"], {"csource": 1})
            self.assertEqual(self.sums(self.path("c.so")), native)
        self.assertEqual(self.sums(self.model, "--external", "csource"), native)
        self.assertEqual(self.json("compile", self.model, "-o", self.path("n.so"), "--external", "none")["external"], {})

    def test_constants_of_regions_are_in_the_artifact(self):
        for workers in ("1", "2"):  # a bias and relu
            report = self.json("compile", self.onnx, "-o", self.path(f"c{workers}.so"), "--external", "csource", "--threads", workers)
            self.assertEqual(report["external"], {"csource": 1})
            self.tenon("run", self.path(f"c{workers}.so"), "-i", self.image, "-o", self.path("out.npz"))
            self.assertEqual(read_npz(self.path("out.npz"))["y"], ("<f4", (1, 1, 4, 4), conv_relu_expected()))
        self.assertEqual((self.folder / "c1.so").read_bytes(), (self.folder / "c2.so").read_bytes())

    def test_every_command_goes_along(self):
        self.assertTrue(self.json("verify", self.model, "--external", "csource")["ok"])
        self.tenon("run", self.model, "-i", self.inputs, "--external", "csource", "--debug-memory")
        self.assertEqual(self.json("lower", self.model, "--external", "csource", "--to", "te"), {})
        self.assertEqual(self.json("tasks", self.model, "--external", "csource"), [])

    def test_a_dump_goes_on_and_a_written_region_can_be_switched_off(self):
        self.tenon("compile", self.model, "--external", "csource", "--stop-after", "partition", "-o", self.path("p.tenon"))
        text = (self.folder / "p.tenon").read_text()
        self.assertIn('{external = "csource", primitive = true, symbol = "csource_0"}', text)
        self.assertEqual(self.sums(self.path("p.tenon")), self.sums(self.model))
        self.assertEqual(self.json("compile", self.path("p.tenon"), "-o", self.path("c.so"))["external"], {"csource": 1})
        self.assertEqual(self.error("compile", self.path("p.tenon"), "-o", self.path("x"), "--external", "none", code=9)["code"],
                         "stage-mismatch")
        written = self.write("w.tenon", re.sub(r"^module .*\n", "", text))
        self.assertEqual(self.json("compile", written, "-o", self.path("n.so"), "--external", "none")["external"], {})
        self.assertEqual(self.sums(self.path("n.so")), self.sums(self.model))

    def test_options_and_missing_tools_are_named(self):
        for bad in ("csource -fast=1", "onednn -ops=softmax", "csource -O=x"):
            self.assertEqual(self.error("run", self.model, "--external", bad, code=2)["code"], "external-option")
        error = self.error("run", self.model, "--external", "csource -cc=/no/compiler", code=5)
        self.assertEqual(error["code"], "external-compiler")
        self.assertIn("/no/compiler", error["message"])
        self.assertEqual(self.error("run", self.model, "--external", "csource", code=6, environment={"TMPDIR": "/no/folder"})["code"],
                         "temporary-folder")

    def test_an_artifact_names_the_component_that_it_lacks(self):
        report = self.json("compile", self.onnx, "-o", self.path("d.so"), "--external", "onednn -self-test=off")
        self.assertEqual(report["external"], {"onednn": 1})
        self.assertEqual(self.json("inspect", self.path("d.so"))["components"], {"onednn": 1})
        alone = self.folder / "bin/tenon"
        alone.parent.mkdir()
        shutil.copy2(TENON, alone)
        error = self.error("run", self.path("d.so"), "-i", self.image, code=5, program=str(alone))
        self.assertEqual(error["code"], "component-missing")
        self.assertIn("`onednn`", error["message"])
        self.tenon("compile", self.onnx, "-o", self.path("n.so"))
        self.tenon("run", self.path("n.so"), "-i", self.image, program=str(alone))
        self.assertEqual(self.error("compile", self.onnx, "-o", self.path("x.so"), "--external", "onednn", code=5,
                                    program=str(alone))["code"], "component-missing")

    @unittest.skipUnless((pathlib.Path(TENON).parent.parent / "lib/libtenon_onednn.so").exists(), "component `onednn` is not built")
    def test_onednn_runs_in_an_artifact(self):
        self.tenon("compile", self.onnx, "-o", self.path("d.so"), "--external", "onednn")
        for threads in ("1", "2"):
            self.tenon("run", self.path("d.so"), "-i", self.image, "-o", self.path("out.npz"), "--threads", threads)
            self.assertEqual(read_npz(self.path("out.npz"))["y"], ("<f4", (1, 1, 4, 4), conv_relu_expected()))
        self.assertNotEqual(self.json("doctor")["onednn"], "not installed")

    def test_tvms_files_hold_c_but_no_component(self):
        self.assertEqual(self.json("compile", self.model, "--emit", "tvm", "-o", self.path("tvm"), "--external", "csource")["external"],
                         {"csource": 1})
        out, own = self.sums(self.path("tvm")), self.sums(self.model)  # TVM's graph does not name its outputs
        self.assertEqual((out["out0"], out["out1"]), (own["sum"], own["out:0"]))
        self.assertEqual(self.error("compile", self.onnx, "--emit", "tvm", "-o", self.path("t"), "--external", "onednn -self-test=off",
                                    code=4)["code"], "tvm-external")


class Run(CommandTest):
    def test_a_text_module_runs_at_every_level(self):
        for level in ("-O0", "-O1", "-O2", "-O3"):
            self.tenon("run", self.model, "-i", self.inputs, "-o", self.path("out.npz"), level)
            outputs = read_npz(self.path("out.npz"))
            self.assertEqual(outputs["sum"], ("<f4", (2, 3), [1.5, -1.5, 3.5, -3.5, 5.5, -5.5]))
            self.assertEqual(outputs["out:0"], ("<f4", (2, 3), [1.5, 0, 3.5, 0, 5.5, 0]))

    def test_an_onnx_model_runs_from_the_model_and_from_its_artifact(self):
        for level in ("-O0", "-O3"):
            self.tenon("compile", self.onnx, "-o", self.path("model.so"), level)
            for source in ([self.onnx, level], [self.path("model.so")]):
                for threads in ("1", "2"):
                    self.tenon("run", *source, "-i", self.image, "-o", self.path("out.npz"), "--threads", threads)
                    self.assertEqual(read_npz(self.path("out.npz"))["y"], ("<f4", (1, 1, 4, 4), conv_relu_expected()))

    def test_dynamic_dimensions_come_from_arrays_or_flags(self):
        model = self.write("dynamic.onnx", conv_relu("n"))
        write_npz(self.path("two.npz"), {"x": ("<f4", [2, 1, 4, 4], list(range(16)) * 2)})
        self.tenon("run", model, "-i", self.path("two.npz"), "-o", self.path("out.npz"))
        self.assertEqual(read_npz(self.path("out.npz"))["y"][2], conv_relu_expected() * 2)
        shown = self.json("run", model, "--fill", "random:3", "--input-shapes", "x:[3,1,4,4]")
        self.assertEqual(shown["outputs"][0]["shape"], [3, 1, 4, 4])
        self.error("run", model, "--fill", "random:3", "--input-shapes", "x:[3,2,4,4]", code=3)

    def test_fill_is_the_same_each_time_and_differs_by_seed(self):
        first, again, other = (self.json("run", self.model, "--fill", f"random:{seed}")["outputs"] for seed in (7, 7, 8))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_check_compares_with_a_reference(self):
        reference = self.path("ref.npz")
        write_npz(reference, {"sum": ("<f4", [2, 3], [1.5, -1.5, 3.5, -3.5, 5.5, -5.5])})
        self.tenon("run", self.model, "-i", self.inputs, "--check", reference)
        write_npz(reference, {"sum": ("<f4", [2, 3], [1.5, -1.5, 3.75, -3.5, 5.5, -5.5])})
        error = self.error("run", self.model, "-i", self.inputs, "--check", reference, code=1)
        self.assertEqual((error["code"], error["expected"], error["found"]), ("check-failed", "3.75", "3.5"))
        self.tenon("run", self.model, "-i", self.inputs, "--check", reference, "--atol", "0.3")
        write_npz(reference, {"sum": ("<f4", [3, 2], [0.0] * 6)})
        self.error("run", self.model, "-i", self.inputs, "--check", reference, code=1)
        write_npz(reference, {"nothing": ("<f4", [1], [0.0])})
        self.assertEqual(self.error("run", self.model, "-i", self.inputs, "--check", reference, code=3)["code"], "output-unknown")

    def test_keep_makes_a_node_an_output(self):
        self.tenon("run", self.onnx, "-i", self.image, "-o", self.path("out.npz"), "--keep", "conv 1")
        self.assertEqual(min(read_npz(self.path("out.npz"))["conv 1"][2]), -30.0)  # 0+1+4+5-40
        self.assertEqual(self.error("run", self.onnx, "-i", self.image, "--keep", "nowhere", code=2)["code"], "unknown-node")

    def test_wrong_inputs_are_named(self):
        def error(arrays, code=3):
            write_npz(self.path("bad.npz"), arrays)
            return self.error("run", self.model, "-i", self.path("bad.npz"), code=code)

        good = ("<f4", [2, 3], [0.0] * 6)
        self.assertEqual(error({"x/a:0": good})["code"], "input-missing")
        self.assertEqual(error({"x/a:0": good, "z": good})["input"], "z")
        self.assertEqual(error({"y": ("<f4", [3, 2], [0.0] * 6)})["expected"], "f32[2,3]")
        self.assertEqual(error({"y": ("<i4", [2, 3], [0] * 6)})["found"], "i32[2,3]")

    def test_the_c_example_prints_the_same(self):
        library = pathlib.Path(TENON).resolve().parents[1] / "lib"
        if not shutil.which("gcc"):
            self.skipTest("no C compiler")
        program = self.path("run_model")
        subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", str(ROOT / "examples/c/main.c"), "-o",
                        program, f"-L{library}", "-ltenon_runtime", f"-Wl,-rpath,{library}"], check=True)
        self.tenon("compile", self.model, "-o", self.path("model.so"))
        expected = self.tenon("run", self.path("model.so"), "--fill", "random:5").stdout
        self.assertEqual(subprocess.run([program, self.path("model.so"), "random:5"], capture_output=True, text=True).stdout, expected)
        raw = [self.write("x.bin", struct.pack("<6f", 1, -2, 3, -4, 5, -6)), self.write("y.bin", struct.pack("<6f", *[0.5] * 6))]
        expected = self.tenon("run", self.path("model.so"), "-i", self.inputs).stdout
        self.assertEqual(subprocess.run([program, self.path("model.so"), *raw], capture_output=True, text=True).stdout, expected)
        for tool in (["ldd", program], ["ldd", library / "libtenon_runtime.so"], ["nm", "-D", library / "libtenon_runtime.so"]):
            self.assertNotIn("llvm", subprocess.run(tool, capture_output=True, text=True, check=True).stdout.lower())


class Extensions(CommandTest):
    """The examples of a pass, a schedule, a code generator and a planner, built in a folder that holds them and the public headers."""

    def build(self, example, program):
        library = pathlib.Path(TENON).resolve().parents[1]
        if not shutil.which("g++"):
            self.skipTest("no C++ compiler")
        shutil.copytree(ROOT / "include", self.folder / "include", dirs_exist_ok=True)
        shutil.copytree(ROOT / "examples" / example, self.folder / "examples" / example)
        make = ["make", "-C", self.path(f"examples/{example}"), "CXX=g++ -Werror", f"BUILD={library}"]
        subprocess.run(make, check=True, capture_output=True)
        return self.path(f"examples/{example}/{program}")

    def runs(self, *command, code=0):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        return done

    def test_the_example_of_a_pass(self):
        program = self.build("pass", "own_pass")
        model = self.write("gelu.tenon", """fn @main(%0: f32[4] "x") -> ("y") {
  %1 = gelu(%0) {approximate = "none"} : f32[4]
  return %1
}
""")
        self.assertEqual(self.runs(program, model, self.path("own.so")).stdout, "1 calls, 0 buffers\n")
        x = [-1.0, 0.0, 0.5, 2.0]
        write_npz(self.path("x.npz"), {"x": ("<f4", [4], x)})
        tanh = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3))) for v in x]
        erf = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x]
        for artifact, want in (("own.so", tanh), ("plain.so", erf)):
            if artifact == "plain.so":
                self.tenon("compile", model, "-o", self.path(artifact))
            self.tenon("run", self.path(artifact), "-i", self.path("x.npz"), "-o", self.path("y.npz"))
            for got, wanted in zip(read_npz(self.path("y.npz"))["y"][2], want):
                self.assertAlmostEqual(got, wanted, delta=2e-6)
        self.assertEqual(self.runs(program, self.path("nothing.tenon"), self.path("own.so"), code=6).stdout, "")

    def test_the_example_of_a_schedule(self):
        program = self.build("schedule", "own_schedule")
        model = self.write("product.tenon", """fn @main(%0: f32[4,8] "a", %1: f32[8,16] "b") -> ("c") {
  %2 = matmul(%0, %1) : f32[4,16]
  return %2
}
""")
        for mode in ("steps", "loops"):
            self.assertIn('provider = "own_product"', self.runs(program, model, self.path(mode), mode).stdout)
            self.tenon("run", self.path(mode), "--fill", "random:1", "-o", self.path("out.npz"))
            self.tenon("run", model, "-O0", "--fill", "random:1", "--check", self.path("out.npz"))
        refused = self.runs(program, model, self.path("wrong"), "wrong", code=1).stderr
        self.assertIn("`own_product` changes the result", refused)
        self.assertIn("@fused_matmul", refused)
        self.assertFalse(os.path.exists(self.path("wrong")))
        declined = self.runs(program, self.model, self.path("other"), "wrong")
        self.assertNotIn("provider", declined.stdout)

    def test_the_example_of_a_code_generator(self):
        program = self.build("external", "own_external")
        model = self.write("gates.tenon", """fn @main(%0: f32[2,3] "x", %1: f32[2,3] "z") -> ("y") {
  %2 = sigmoid(%0) : f32[2,3]
  %3 = multiply(%0, %2) : f32[2,3]
  %4 = sigmoid(%3) : f32[2,3]
  %5 = multiply(%4, %1) : f32[2,3]
  return %5
}
""")
        x, z = [-1.0, 0.0, 0.5, 2.0, -30.0, 4.0], [1.0, 2.0, -3.0, 0.25, 1.0, -1.0]
        write_npz(self.path("x.npz"), {"x": ("<f4", [2, 3], x), "z": ("<f4", [2, 3], z)})
        gate = [v / (1 + math.exp(-v)) for v in x]
        want = [b / (1 + math.exp(-a)) for a, b in zip(gate, z)]
        for mode in ("code", "loops"):
            self.assertEqual(self.runs(program, model, self.path(mode), mode).stdout.count('external = "own"'), 2)
            self.tenon("run", self.path(mode), "-i", self.path("x.npz"), "-o", self.path("y.npz"))
            for got, wanted in zip(read_npz(self.path("y.npz"))["y"][2], want):
                self.assertAlmostEqual(got, wanted, delta=2e-6)
        refused = self.runs(program, model, self.path("wrong"), "wrong", code=1).stderr
        self.assertIn("[external-self-test]", refused)
        self.assertIn("`own` computes `@own_0` wrong", refused)
        self.assertFalse(os.path.exists(self.path("wrong")))

    def test_a_planner_of_a_program_is_used_and_checked(self):
        program = self.build("planner", "own_planner")
        model = self.write("chain.tenon", 'fn @main(%0: f32[64] "x") -> ("y") {\n  %1 = exp(%0) "a"\n  %2 = softmax(%1) {axes = [0]} "b"\n'
                                          '  %3 = softmax(%2) {axes = [0]} "c"\n  %4 = cos(%3) "d"\n  return %4\n}\n')
        self.runs(program, model, self.path("own.so"))
        self.assertEqual(self.json("inspect", self.path("own.so"))["memory"]["planner"], "first_fit")
        self.tenon("run", self.path("own.so"), "--fill", "random:1", "-o", self.path("out.npz"))
        self.tenon("run", model, "--fill", "random:1", "--check", self.path("out.npz"))
        refused = self.runs(program, model, self.path("wrong.so"), "wrong", code=1).stderr
        self.assertIn("[plan-overlap]", refused)
        self.assertIn("`a`", refused)
        self.assertFalse(os.path.exists(self.path("wrong.so")))


class Compile(CommandTest):
    def test_json_holds_what_the_contract_says(self):
        report = self.json("compile", self.onnx, "-o", self.path("model.so"))
        self.assertEqual(report["artifact"], self.path("model.so"))
        self.assertEqual(report["bytes"], os.path.getsize(self.path("model.so")))
        self.assertGreaterEqual(report["kernels"], 1)
        self.assertEqual(set(report["ms"]), {"import", "passes", "lower", "codegen", "link", "total"})
        self.assertEqual(set(report["cache"]), {"hits", "misses"})
        self.assertEqual(set(report["memory"]), {"arena_bytes", "lower_bound_bytes", "optimal", "weights_bytes"})

    def test_threads_change_no_byte(self):
        for threads in ("1", "2", "3"):
            self.tenon("compile", self.onnx, "-o", self.path(threads), "--threads", threads)
        one = (self.folder / "1").read_bytes()
        self.assertEqual(one, (self.folder / "2").read_bytes())
        self.assertEqual(one, (self.folder / "3").read_bytes())

    def test_every_dumped_stage_goes_on_to_the_same_bytes(self):
        for level in ("-O0", "-O3"):
            dumps = self.path("dumps" + level)
            self.tenon("compile", self.onnx, "-o", self.path("whole.so"), level, "--dump-passes", dumps, "--verify", "each")
            stages = sorted(name for name in os.listdir(dumps) if name.endswith(".tenon"))
            self.assertEqual(stages[0], "000-import.tenon")
            self.assertTrue(stages[-1].endswith("-order.tenon"))
            for stage in stages:
                self.tenon("compile", os.path.join(dumps, stage), "-o", self.path("resumed.so"))
                self.assertEqual((self.folder / "resumed.so").read_bytes(), (self.folder / "whole.so").read_bytes(), stage)
                self.tenon("run", os.path.join(dumps, stage), "-i", self.image, "-o", self.path("out.npz"))
                self.assertEqual(read_npz(self.path("out.npz"))["y"][2], conv_relu_expected(), stage)

    def test_a_lowered_stage_shows_loop_functions(self):
        text = self.tenon("compile", self.onnx, "--stop-after", "lower").stdout
        self.assertIn("\nprimfunc @", text)
        self.assertIn("call_lowered @", text)

    def test_a_number_edited_in_a_scheduled_stage_changes_the_result(self):
        model = self.write("scaled.tenon", 'fn @main(%0: f32[4] "x") -> ("y") {\n  %1 = leaky_relu(%0) {alpha = 0.25} : f32[4]\n  return %1\n}\n')
        self.tenon("compile", model, "--stop-after", "schedule", "-o", self.path("scheduled.tenon"))
        text = (self.folder / "scheduled.tenon").read_text()
        self.assertEqual(text.count("0.25"), 1, text)
        self.write("scheduled.tenon", text.replace("0.25", "0.5"))
        write_npz(self.path("four.npz"), {"x": ("<f4", [4], [-8, -4, 4, 8])})
        self.tenon("run", self.path("scheduled.tenon"), "-i", self.path("four.npz"), "-o", self.path("out.npz"))
        self.assertEqual(read_npz(self.path("out.npz"))["y"][2], [-4, -2, 4, 8])

    def test_options_that_contradict_a_stage_are_refused(self):
        self.tenon("compile", self.onnx, "--stop-after", "schedule", "-o", self.path("scheduled.tenon"), "-O3")
        self.assertEqual(self.error("compile", self.path("scheduled.tenon"), "-o", self.path("x.so"), "-O0", code=9)["code"], "stage-mismatch")

    def test_print_after_and_time_passes(self):
        done = self.tenon("compile", self.model, "-o", self.path("m.so"), "--print-after", "fuse", "--time-passes")
        self.assertIn("primitive = true", done.stdout)
        self.assertRegex(done.stderr, r"ms  lower\n")

    def test_a_plan_can_be_dumped(self):
        self.tenon("compile", self.onnx, "-o", self.path("m.so"), "-O0", "--dump-plan", self.path("plan"))
        rows = (self.folder / "plan/plan.csv").read_text().splitlines()
        self.assertEqual(rows[0], "id,lower,upper,size,alignment,kind,offset")
        self.assertGreater(len(rows), 1)


    def test_a_second_process_finds_the_kernels_of_the_first(self):
        plain = self.json("compile", self.onnx, "-o", self.path("plain.so"))
        self.assertEqual(plain["cache"], {"hits": 0, "misses": plain["kernels"]})
        kept = ["--cache-dir", self.path("new/cache")]
        cold = self.json("compile", self.onnx, "-o", self.path("cold.so"), *kept)
        self.assertEqual(cold["cache"], plain["cache"])
        warm = self.json("compile", self.onnx, "-o", self.path("warm.so"), *kept)
        self.assertEqual(warm["cache"], {"hits": plain["kernels"], "misses": 0})
        bytes_of = [(self.folder / name).read_bytes() for name in ("plain.so", "cold.so", "warm.so")]
        self.assertEqual(bytes_of[0], bytes_of[1])
        self.assertEqual(bytes_of[0], bytes_of[2])
        for command in ("run", "bench", "profile", "verify"):
            self.tenon(command, self.onnx, "--fill", "random:1", *kept)
        self.assertEqual(self.error("compile", self.onnx, "-o", "x", "--cache-dir", self.model, code=6)["code"], "file-write")


class Refusals(CommandTest):
    def test_usage_errors_exit_2(self):
        for arguments in ([], ["nothing"], ["run"], ["run", self.model, "--no-such-flag"], ["compile", self.model],
                          ["run", self.model, "-O9"], ["run", self.model, "--fill", "zeros"], ["run", self.model, "--threads", "0"],
                          ["run", self.onnx, "--input-shapes", "x:1,2"], ["lower", self.model, "--to", "wasm"],
                          ["compile", self.model, "-o", "x", "--stop-after", "nothing"],
                          ["run", self.model, "--stop-after", "fuse"]):
            self.error(*arguments, code=2)
        self.assertEqual(self.error("opt", self.model, "--pass", "nothing", code=2)["code"], "unknown-pass")
        self.assertEqual(self.error("explain", "nothing", code=2)["code"], "unknown-code")
        self.assertEqual(self.error("run", self.model, "--target", "vax", code=2)["code"], "target-text")

    def test_tasks_are_the_kernels_with_their_calls(self):
        tasks = self.json("tasks", self.model)
        self.assertTrue(tasks)
        for task in tasks:
            self.assertEqual(set(task), {"name", "function", "weight", "op"})
            self.assertGreaterEqual(task["weight"], 1)
        self.assertEqual([t["name"] for t in tasks], sorted(t["name"] for t in tasks))

    def test_reduce_leaves_what_still_fails(self):
        check = "sh -c 'if grep -q relu \"$1\"; then exit 7; fi' -"
        reduced = self.json("reduce", self.model, "--check", check, "-o", self.path("reduced.tenon"))
        self.assertEqual(reduced["status"], 7)
        self.assertEqual(reduced["nodes"], 1)
        self.assertEqual(list(self.json("inspect", self.path("reduced.tenon"))["ops"]), ["relu"])
        self.assertEqual(self.error("reduce", self.model, "--check", "true", "-o", self.path("r.tenon"), code=2)["code"],
                         "nothing-to-reduce")

    def test_missing_components_exit_5(self):
        for arguments in (["compile", self.model, "-o", "x", "--target", "c"], ["run", self.model, "--target", "opencl"],
                          ["run", self.model, "--target", "cuda"], ["run", self.model, "--external", "nothing"],
                          ["compile", self.model, "-o", "x", "--emit", "c-header"], ["lower", self.model, "--to", "ptx"]):
            self.assertEqual(self.error(*arguments, code=5)["code"], "component-missing")

    def test_files_that_are_missing_damaged_or_something_else(self):
        self.error("run", self.path("none.onnx"), code=6)
        self.error("run", str(self.folder), code=6)
        self.assertEqual(self.error("compile", self.model, "-o", self.path("no/such/folder.so"), code=6)["code"], "file-write")
        self.error("run", self.model, "-i", self.path("none.npz"), code=6)
        for name, content in (("empty.onnx", b""), ("text.onnx", b"not a model at all"), ("bad.tenon", b"fn @main( {"),
                              ("short.so", b"\x7fELF" + b"x" * 200), ("cut.onnx", conv_relu()[:100])):
            self.error("run", self.write(name, content), "--fill", "random:1", code=3)
        self.assertEqual(self.error("run", self.model, "-i", self.write("bad.npz", b"PK not"), code=3)["code"], "npz-damaged")

    def test_a_stage_that_is_none_or_was_not_reached_is_refused(self):
        self.tenon("compile", self.onnx, "--stop-after", "lower", "-o", self.path("lowered.tenon"))
        text = (self.folder / "lowered.tenon").read_text()
        self.assertIn('stage = "lower"', text)
        for stage, expected in (("nowhere", "unknown-stage"), ("schedule", "not-scheduled")):
            edited = self.write("edited.tenon", text.replace('stage = "lower"', f'stage = "{stage}"'))
            self.assertEqual(self.error("compile", edited, "-o", self.path("x.so"), code=3)["code"], expected)

    def test_damaged_constants_beside_a_dump_are_refused(self):
        weights = onnx_model([node("Add", ["x", "w"], ["y"], "add")], [value_info("x", [64])], [value_info("y", [64])],
                             [tensor("w", [64], [0.5] * 64)])
        self.tenon("compile", self.write("w.onnx", weights), "-o", self.path("w.so"), "--dump-passes", self.path("dumps"))
        constants = self.folder / "dumps/constants.bin"
        whole = constants.read_bytes()
        self.tenon("compile", self.path("dumps/000-import.tenon"), "-o", self.path("x.so"))
        for content in (whole[:-1], whole[:-1] + b"!", b""):
            constants.write_bytes(content)
            error = self.error("compile", self.path("dumps/000-import.tenon"), "-o", self.path("x.so"), code=3)
            self.assertEqual(error["code"], "constants-file")

    def test_a_damaged_artifact_is_refused(self):
        self.tenon("compile", self.model, "-o", self.path("m.so"))
        whole = (self.folder / "m.so").read_bytes()
        for content in (whole[:-1], whole[:len(whole) // 2], whole[:300] + b"!" + whole[301:]):
            self.assertEqual(self.error("run", self.write("bad.so", content), "--fill", "random:1", code=3)["code"], "artifact-damaged")

    def test_an_unsupported_operator_is_named_before_any_work(self):
        model = self.write("odd.onnx", onnx_model([node("NoSuchOp", ["x"], ["y"], "odd one")], [value_info("x", [1])], [value_info("y", [1])]))
        self.assertEqual(self.error("compile", model, "-o", self.path("x.so"), code=4)["node"], "odd one")
        self.assertEqual(self.json("inspect", model)["unsupported"][0]["node"], "odd one")

    def test_a_processor_that_this_is_not_exits_9(self):
        host = json.loads(self.tenon("targets", "--json").stdout)
        foreign = [cpu for cpu in host["cpus"] if "sapphirerapids" in cpu]
        features = self.json("doctor")["features"]
        if not foreign or "avx512fp16" in features:
            self.skipTest("this machine can run everything")
        target = "llvm -mcpu=" + foreign[0]
        self.assertEqual(self.error("run", self.model, "--fill", "random:1", "--target", target, code=9)["code"], "cpu-feature")
        self.tenon("compile", self.model, "-o", self.path("m.so"), "--target", target)
        self.error("run", self.path("m.so"), "--fill", "random:1", code=9)
        self.assertEqual(self.json("inspect", self.path("m.so"))["target"], target)

    def test_an_interrupt_exits_130(self):
        process = subprocess.Popen([TENON, "bench", self.model, "--seconds", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            process.wait(timeout=2)
            self.fail("it ended by itself")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)


class Look(CommandTest):
    def test_bench_json(self):
        report = self.json("bench", self.onnx, "-n", "5", "--threads", "2")
        self.assertEqual((report["n"], report["threads"], report["opt_level"], report["model"]), (5, 2, 3, "model.onnx"))
        latency = report["latency_ms"]
        self.assertTrue(0 < latency["min"] <= latency["median"] <= latency["p90"] <= latency["p99"])
        for key in ("target", "gflops", "load_ms", "compile_ms"):
            self.assertIn(key, report)

    def test_profile_and_trace(self):
        report = self.json("profile", self.onnx, "-O0", "-n", "2", "--trace", self.path("trace.json"))
        self.assertAlmostEqual(sum(step["percent"] for step in report["steps"]), 100, places=3)
        trace = json.loads((self.folder / "trace.json").read_text())
        self.assertEqual(len(trace["traceEvents"]), len(report["steps"]))

    def test_inspect_says_what_a_file_holds(self):
        report = self.json("inspect", self.onnx)
        self.assertEqual((report["kind"], report["nodes"], report["ops"], report["opsets"]), ("onnx", 2, {"Conv": 1, "Relu": 1}, {"": 13}))
        self.assertEqual(report["inputs"], [{"name": "x", "dtype": "f32", "shape": [1, 1, 4, 4]}])
        text = self.json("inspect", self.model)
        self.assertEqual((text["kind"], [o["name"] for o in text["outputs"]]), ("tenon", ["sum", "out:0"]))
        self.tenon("compile", self.onnx, "-o", self.path("m.so"))
        artifact = self.json("inspect", self.path("m.so"))
        self.assertEqual((artifact["kind"], artifact["inputs"]), ("artifact", report["inputs"]))
        self.assertEqual(artifact["memory"], self.json("inspect", self.onnx, "--memory")["memory"])

    def test_another_process_lowers_to_the_same_text(self):  # case C43 of the reports
        for stage in ("te", "tir", "tir-scheduled", "asm"):
            texts = {self.tenon("lower", self.onnx, "--to", stage, "--threads", threads).stdout for threads in "112"}
            self.assertEqual(len(texts), 1, stage)

    def test_lower_shows_each_stage(self):
        for stage, sign in (("te", "relu"), ("tir", "primfunc @"), ("tir-scheduled", "scheduled = true"), ("llvm", "define "), ("asm", "ret")):
            self.assertIn(sign, self.tenon("lower", self.onnx, "--to", stage).stdout)
        for cpu in ("haswell", "skylake-avx512"):
            self.assertIn("ret", self.tenon("lower", self.onnx, "--to", "asm", "--target", f"llvm -mcpu={cpu}").stdout)
        name = next(iter(self.json("lower", self.onnx, "--to", "tir")))
        self.assertEqual(list(self.json("lower", self.onnx, "--to", "tir", "--function", name)), [name])
        self.assertEqual(self.error("lower", self.onnx, "--to", "tir", "--function", "nowhere", code=2)["code"], "unknown-function")
        self.tenon("lower", self.onnx, "--to", "tir", "--explain")

    def test_a_schedule_is_its_trace(self):
        """Each built-in schedule's steps, taken on the function before `schedule`, give the function after it."""
        lowered = self.write("lowered.tenon", self.tenon("opt", self.model, "--pass", "infer,fuse,lower").stdout)
        scheduled = self.tenon("opt", lowered, "--pass", "schedule").stdout
        traces = self.json("lower", lowered, "--to", "trace")
        self.assertEqual(sorted(traces), ["fused_add", "fused_relu"])
        for name, steps in traces.items():
            text = self.json("opt", lowered, "--function", name, "--schedule", self.write("steps.txt", steps))["text"]
            function = re.search(rf"primfunc @{name}\(.*?^}}", text, re.M | re.S)[0]
            self.assertIn("scheduled = true", function)
            self.assertIn(function, scheduled)

    def test_only_constants_are_packed(self):
        product = self.write("product.tenon", PRODUCT)
        lowered = self.write("lowered.tenon", self.tenon("opt", product, "--pass", "infer,fuse,lower").stdout)
        steps = self.write("steps.txt", "contraction matmul v=constant rows=4 lanes=8 block=16\nconstruct\n")
        error = self.error("opt", lowered, "--schedule", steps, code=3)
        self.assertEqual((error["code"], error["found"]), ("schedule-packed", "p1"))

    def test_opt_prints_what_it_reads_back(self):
        text = self.tenon("opt", self.model).stdout
        again = self.write("again.tenon", text)
        self.assertEqual(self.tenon("opt", again).stdout, text)
        fused = self.tenon("opt", self.model, "--pass", "infer,fuse").stdout
        self.assertIn("primitive = true", fused)

    def test_opt_takes_schedule_steps(self):
        tir = self.write("tir.tenon", self.tenon("opt", self.model, "--pass", "infer,fuse,lower").stdout)
        steps = self.write("steps.txt", "# one tile\nsplit i1 2 outer=tile inner=lane\nvectorize lane\n")
        text = self.tenon("opt", tir, "--schedule", steps, "--function", "fused_add").stdout
        self.assertIn("for tile = 0 extent 2", text)
        self.assertIn("for lane = 0 extent 2 vectorized", text)
        self.assertEqual(self.tenon("opt", self.write("again.tenon", text)).stdout, text)
        bad = self.write("bad.txt", "split i1 2\n\nsplit i9 2\n")
        refused = self.tenon("opt", tir, "--schedule", bad, "--function", "fused_add", code=3).stderr
        self.assertIn("bad.txt:3:1: error: `split i9 2`: there is no loop `i9`", refused)
        missing = self.error("opt", tir, "--schedule", steps, code=2)
        self.assertEqual((missing["code"], missing["expected"]), ("unknown-function", "`fused_add`, `fused_relu`"))

    def test_verify_agrees(self):
        self.assertEqual(self.json("verify", self.onnx), {"ok": True, "first_difference": None})

    def test_lists_and_doctor(self):
        self.assertIn("relu", [op["name"] for op in self.json("ops")["ops"]])
        self.assertEqual([p["name"] for p in self.json("passes") if p["default"]][-3:], ["lower", "schedule", "order"])
        self.assertIn({"kind": "llvm", "available": True}, self.json("targets")["kinds"])
        self.assertTrue(self.json("doctor")["code_runs"])

    def test_every_code_of_the_source_is_explained_and_no_other(self):
        known = {e["code"] for e in self.json("explain")}
        passes = {p["name"] for p in self.json("passes")}
        other = {"disable-lsr", "element-wise", "min-legal-vector-width", "output-fusable", "prefer-vector-width", "self-test",
                 "target-cpu", "target-features", "tir-scheduled", "after-fuse", "after-lower", "before-plan", "after-plan"}
        other |= set(self.json("targets")["cpus"]) | passes
        used = {"usage"}
        for path in [*(ROOT / "src").rglob("*.cc"), *(ROOT / "src").rglob("*.h")]:
            if path.name != "explain_table.cc":
                used |= set(re.findall(r'"([a-z]+(?:-[a-z0-9]+)+)"', path.read_text()))
        self.assertEqual(known, used - other)
        self.assertIn("next_step", self.json("explain", "input-shape"))
        self.assertIn("next_step", self.json("explain", "conv-C1"))


if __name__ == "__main__":
    run_tests()
