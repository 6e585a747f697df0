# SPDX-License-Identifier: Apache-2.0
"""Memory planning from the outside: problems, plans, pools and pins. Needs plain Python only.

usage: plan_test.py [unittest arguments]; TENON names the command, build/bin/tenon by default.
"""
import csv
import json

from command import CommandTest, run_tests, write_npz


class Plan(CommandTest):
    PROBLEM = "id,lower,upper,size,alignment\nb1,0,3,4,4\nb2,3,9,4,4\nb3,0,9,4,4\nb4,9,21,4,4\nb5,0,21,4,4\n"

    def setUp(self):
        super().setUp()
        self.problem = self.write("problem.csv", self.PROBLEM)

    def test_every_planner_writes_a_plan_that_passes_the_check(self):
        for planner in ("auto", "exact", "hill_climb", "greedy_by_size", "greedy_by_conflicts", "best_fit_tokens", "naive"):
            report = self.json("plan", self.problem, "--planner", planner, "-o", self.path("plan.csv"))
            self.assertEqual((report["planner"], report["buffers"], report["lower_bound_bytes"]), (planner, 5, 12))
            self.assertGreaterEqual(report["peak_bytes"], 20 if planner == "naive" else 12)
            self.assertGreaterEqual(report["ms"], 0)
            checked = self.json("plan", self.problem, "--check", self.path("plan.csv"))
            self.assertEqual(checked["peak_bytes"], report["peak_bytes"])
        self.assertTrue(self.json("plan", self.problem, "--planner", "exact", "--capacity", "12")["optimal"])

    def test_check_exits_1_on_each_kind_of_fault(self):
        good = {"b1": 8, "b2": 8, "b3": 4, "b4": 4, "b5": 0}

        def check(places, *arguments, header="id,offset", problem=None):
            rows = "".join(f"{name},{place}\n" for name, place in places.items())
            plan = self.write("plan.csv", header + "\n" + rows)
            return self.error("plan", problem or self.problem, "--check", plan, *arguments, code=1)["code"]

        self.tenon("plan", self.problem, "--check", self.write("good.csv", "id,offset\n" + "".join(f"{n},{o}\n" for n, o in good.items())))
        self.assertEqual(check(good | {"b1": 4}), "plan-overlap")
        self.assertEqual(check(good | {"b1": 9}), "plan-alignment")
        self.assertEqual(check(good, "--capacity", "11"), "plan-pool-limit")
        self.assertEqual(check({name: place for name, place in good.items() if name != "b4"}), "plan-missing")
        self.assertEqual(check(good | {"b9": 0}), "plan-missing")
        self.assertEqual(check({n: f"{8 if n == 'b1' else 4},{o}" for n, o in good.items()}, header="id,size,offset"), "plan-size")
        pinned = self.write("pinned.csv", "id,lower,upper,size,offset\na,0,2,4,8\nb,0,2,4,\n")
        self.assertEqual(check({"a": 0, "b": 4}, problem=pinned), "plan-pin")

    def test_pools_pictures_and_json(self):
        report = self.json("plan", self.problem, "--pool", "fast:8", "--pool", "slow", "-o", self.path("plan.json"), "--svg", self.path("plan.svg"))
        self.assertEqual([p["name"] for p in report["pools"]], ["fast", "slow"])
        self.assertLessEqual(report["pools"][0]["peak_bytes"], 8)
        plan = json.loads((self.folder / "plan.json").read_text())
        self.assertEqual(len(plan["buffers"]), 5)
        for pool in ("fast", "slow"):
            self.assertIn("</svg>", (self.folder / f"plan-{pool}.svg").read_text())
        self.assertEqual(self.json("plan", self.problem, "--planner", "exact", "--time-limit-ms", "60000")["time_limit_ms"], 60000)

    def test_refusals(self):
        error = self.error("plan", self.problem, "--capacity", "11", "--planner", "exact", code=7)
        self.assertEqual(error["code"], "memory-limit")
        self.assertIn("1 bytes more", error["message"])
        bad = self.error("plan", self.write("bad.csv", "id,lower,upper,size\na,0,x,4\n"), code=3)
        self.assertEqual((bad["code"], bad["found"], bad["expected"]), ("csv-field", "x", "a 64-bit integer"))
        self.assertEqual(self.error("plan", self.problem, "--planner", "best", code=2)["code"], "unknown-planner")
        self.error("plan", self.problem, "--pool", "a:b", code=2)
        self.error("plan", self.problem, "--pool", "a", "--capacity", "3", code=2)
        self.error("plan", self.problem, "--planner", "exact", "--check", self.problem, code=2)
        self.error("plan", self.path("none.csv"), code=6)

    def test_a_compiled_models_plan_passes_the_check(self):
        self.tenon("compile", self.onnx, "-o", self.path("m.so"), "-O0", "--dump-plan", self.path("plan"))
        self.tenon("plan", self.path("plan/problem.csv"), "--check", self.path("plan/plan.csv"))

    def test_a_page_shows_every_pool_and_buffer(self):
        self.tenon("compile", self.chain(), "-o", self.path("m.so"), "-O0", "--dump-plan", self.path("plan"), "--pool", "slow", "--pool", "fast:4096",
                   "--pin", "b=fast", "--no-in-place")
        page = (self.folder / "plan/plan.html").read_text()
        self.assertEqual(page.count("<svg"), 2)
        for buffer in ("a", "b", "c"):
            self.assertRegex(page, f"<title>{buffer}: 256 bytes at 0, alive ")
        self.tenon("plan", self.path("plan/problem.csv"), "--pool", "slow", "--pool", "fast:4096", "--html", self.path("p.html"))
        self.assertEqual((self.folder / "p.html").read_text(), page)

    def chain(self, memory=""):
        nodes = "".join(f'  %{i + 1} = {op}(%{i}) {memory if name == "b" else ""} "{name}"\n'
                        for i, (op, name) in enumerate([("exp", "a"), ("sin", "b"), ("cos", "c"), ("tan", "d")]))
        return self.write("chain.tenon", f'fn @main(%0: f32[64] "x") -> ("y") {{\n{nodes}  return %4\n}}\n')

    def pools(self, *arguments):
        memory = self.json("inspect", *arguments, "-O0", "--memory", "--no-in-place")["memory"]
        return {pool["name"]: pool["bytes"] for pool in memory["pools"]}

    def test_values_are_pinned_from_the_command_and_from_the_text(self):
        pools = ["--pool", "slow", "--pool", "fast:4096:256"]
        self.assertEqual(self.pools(self.chain(), *pools), {"slow": 512, "fast": 0})
        self.assertEqual(self.pools(self.chain(), *pools, "--pin", "b=fast@1024"), {"slow": 256, "fast": 1280})
        self.assertEqual(self.pools(self.chain('{memory = "fast@1024"}'), *pools), {"slow": 256, "fast": 1280})
        for level in ("-O0", "-O3"):
            plain = self.tenon("run", self.chain(), level, "--fill", "random:3").stdout
            self.assertEqual(self.tenon("run", self.chain(), level, "--fill", "random:3", *pools, "--pin", "b=fast").stdout, plain)

    def test_a_pin_that_cannot_be_kept_is_an_error(self):
        error = self.error("compile", self.chain(), "-o", "x", "--pool", "slow", "--pool", "fast:100", "--pin", "b=fast", code=7)
        self.assertEqual((error["code"], error["input"]), ("memory-limit", "b"))
        self.assertIn("156 bytes more", error["message"])
        self.assertEqual(self.error("compile", self.chain(), "-o", "x", "--pin", "b=fast", code=3)["code"], "memory-pool")
        self.assertEqual(self.error("compile", self.chain(), "-o", "x", "--pin", "nobody=arena", code=2)["code"], "unknown-node")
        self.error("compile", self.chain(), "-o", "x", "--pin", "b", code=2)
        folded = self.write("folded.tenon", 'fn @main(%0: f32[4] "x") -> ("y") {\n  %1 = identity(%0) {memory = "arena"} "same"\n'
                                            '  %2 = exp(%1)\n  return %2\n}\n')
        error = self.error("compile", folded, "-o", "x", code=3)
        self.assertEqual((error["code"], error["node"]), ("memory-place", "same"))

    def test_tvms_storage_has_no_places(self):
        stages = self.stages("t: fast")
        for arguments, named in (([self.chain(), "--pool", "slow"], "slow"), ([self.chain(), "--planner", "exact"], "exact"),
                                 ([self.chain(), "--pin", "b=arena"], "b"), ([self.chain('{memory = "fast"}')], "b"), ([stages], "t")):
            error = self.error("compile", *arguments, "--emit", "tvm", "-o", self.path("tvm"), code=4)
            self.assertEqual((error["code"], error["input"]), ("tvm-memory", named))
            self.assertFalse((self.folder / "tvm").exists())

    def test_a_build_uses_the_planner_that_is_asked_for(self):
        for planner, peak in (("naive", 768), ("auto", 512)):
            memory = self.json("inspect", self.chain(), "-O0", "--memory", "--no-in-place", "--planner", planner)["memory"]
            self.assertEqual((memory["planner"], memory["arena_bytes"]), (planner, peak))
        self.tenon("compile", self.chain(), "-o", self.path("m.so"), "--planner", "exact", "--plan-time-limit-ms", "500", "--plan-steps", "1000")
        self.assertEqual(self.json("inspect", self.path("m.so"))["memory"]["time_limit_ms"], 500)
        self.assertEqual(self.error("compile", self.chain(), "-o", "x", "--planner", "best", code=2)["code"], "unknown-planner")

    def test_kernels_report_their_memory(self):
        self.tenon("compile", self.onnx, "-o", self.path("m.so"))
        kernels = self.json("inspect", self.path("m.so"))["memory"]["kernels"]
        self.assertEqual([set(k) for k in kernels], [{"name", "io_bytes", "constant_bytes", "workspace_bytes", "worker_bytes"}] * len(kernels))
        self.assertGreater(sum(k["constant_bytes"] for k in kernels), 0)

    # b reads a through three stages of its own, of which two are needed at once.
    STAGES = """fn @main(%0: f32[64] "x") -> ("y") {
  %1 = call_lowered @stages(%0) : f32[64] "a"
  %2 = call_lowered @stages(%1) : f32[64] "b"
  return %2
}
primfunc @stages(x: f32[64]) -> (y: f32[64]) {MEMORY} {
  alloc t: f32[64]
  alloc u: f32[64]
  alloc v: f32[64]
  for i = 0 extent 64 { block t { iter vi: spatial 64 = i reads x[(63 - vi) : 1] writes t[vi : 1]
    body { t[vi] = (x[(63 - vi)] * 0.5:f32) } } }
  for j = 0 extent 64 { block u { iter vj: spatial 64 = j reads t[(63 - vj) : 1] writes u[vj : 1]
    body { u[vj] = (t[(63 - vj)] + 1.0:f32) } } }
  for k = 0 extent 64 { block v { iter vk: spatial 64 = k reads u[(63 - vk) : 1] writes v[vk : 1]
    body { v[vk] = (u[(63 - vk)] * 3.0:f32) } } }
  for l = 0 extent 64 { block y { iter vl: spatial 64 = l reads v[(63 - vl) : 1] writes y[vl : 1]
    body { y[vl] = (v[(63 - vl)] - 2.0:f32) } } }
}
"""

    def stages(self, memory):
        return self.write("stages.tenon", self.STAGES.replace("{MEMORY}", f'{{memory = "{memory}"}}' if memory else ""))

    def test_what_a_kernel_allocates_is_planned_with_the_rest(self):
        self.tenon("compile", self.stages(""), "-o", self.path("m.so"), "-O0", "--dump-plan", self.path("plan"))
        with open(self.path("plan/problem.csv"), newline="") as file:
            rows = {row["id"]: (int(row["lower"]), int(row["upper"]), row["kind"]) for row in csv.DictReader(file)}
        self.assertEqual(rows, {"a": (0, 4, ""),
                                "a.t": (0, 1, "workspace"), "a.u": (0, 2, "workspace"), "a.v": (1, 2, "workspace"),
                                "b.t": (2, 3, "workspace"), "b.u": (2, 4, "workspace"), "b.v": (3, 4, "workspace")})
        memory = self.json("inspect", self.path("m.so"))["memory"]
        self.assertEqual(memory["arena_bytes"], 3 * 256)
        self.assertEqual(memory["kernels"][0]["workspace_bytes"], 2 * 256)

    def test_what_a_kernel_allocates_is_pinned(self):
        pools = ["--pool", "slow", "--pool", "fast:4096:256"]
        plain = self.tenon("run", self.stages(""), "--fill", "random:3").stdout
        for level in ("-O0", "-O3"):
            for places, bytes_of_pools in (("u: fast@512", {"slow": 512 if level == "-O0" else 256, "fast": 768}),
                                           ("t: fast, v: fast@256", None)):
                model = self.stages(places)
                for debug in ([], ["--debug-memory"]):
                    self.assertEqual(self.tenon("run", model, level, "--fill", "random:3", *pools, *debug).stdout, plain)
                self.tenon("compile", model, "-o", self.path("m.so"), level, *pools, "--dump-plan", self.path("plan"))
                self.tenon("plan", self.path("plan/problem.csv"), *pools, "--check", self.path("plan/plan.csv"))
                if bytes_of_pools:
                    found = self.json("inspect", self.path("m.so"))["memory"]["pools"]
                    self.assertEqual({p["name"]: p["bytes"] for p in found}, bytes_of_pools)

    def test_a_place_for_what_a_kernel_allocates_can_be_wrong(self):
        pools = ["--pool", "slow", "--pool", "fast:4096:256"]
        for level in ("-O0", "-O3"):
            together = self.error("compile", self.stages("t: fast@512, u: fast@512"), "-o", "x", level, *pools, code=7)
            self.assertEqual(together["code"], "memory-pin")
            self.assertIn(together["input"], ("a.t", "a.u"))
            full = self.error("compile", self.stages("u: fast@4096"), "-o", "x", level, *pools, code=7)
            self.assertEqual((full["code"], full["input"]), ("memory-limit", "a.u"))
            nobody = self.error("compile", self.stages("w: fast"), "-o", "x", level, *pools, code=3)
            self.assertEqual((nobody["code"], nobody["input"]), ("memory-place", "w"))

    def test_a_kernel_that_writes_where_it_must_not_is_found(self):
        bodies = {"a result": ("y", "for i = 0 extent 16 { y[i] = x[i] } y[(0 + at[0])] = 1.0:f32"),
                  "what it allocates": ("the bad one.t", """alloc t: f32[16] alloc u: f32[16]
                      for i = 0 extent 16 { t[i] = x[i] } t[(0 + at[0])] = 1.0:f32
                      for j = 0 extent 16 { u[j] = t[j] } for k = 0 extent 16 { y[k] = u[k] }""")}
        for what, (buffer, body) in bodies.items():
            model = self.write("bad.tenon", f"""module {{opt_level = 3, stage = "schedule"}}
fn @main(%0: f32[16] "x", %1: i64[1] "at") -> ("y") {{
  %2 = call_lowered @bad(%0, %1) : f32[16] "the bad one"
  return %2
}}
primfunc @bad(x: f32[16], at: i64[1]) -> (y: f32[16]) {{scheduled = true}} {{ {body} }}
""")
            for at in (0, 16):
                with self.subTest(what=what, at=at):
                    write_npz(self.path("at.npz"), {"x": ("<f4", [16], [0] * 16), "at": ("<i8", [1], [at])})
                    arguments = ["run", model, "-i", self.path("at.npz"), "--debug-memory"]
                    if at == 0:
                        self.tenon(*arguments)
                    else:
                        error = self.error(*arguments, code=1)
                        self.assertEqual((error["code"], error["node"]), ("memory-write", "the bad one"))
                        self.assertIn(f"behind the end of `{buffer.replace(' ', '_')}`", error["message"])


if __name__ == "__main__":
    run_tests()
