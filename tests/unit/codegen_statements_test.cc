// SPDX-License-Identifier: Apache-2.0
// Every statement of loop IR and how they nest: compiled code gives what the interpreter gives, for any number of
// workers, and touches nothing that the loop function does not.
#include <gtest/gtest.h>

#include "codegen/backend.h"
#include "support/asm_check.h"
#include "support/compiled.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon {
namespace {

using namespace tir;

PrimFunc parse(const std::string& text) {
  PrimFunc f = parse_prim_func("case", text);
  verify(f);
  return f;
}

/// Small whole numbers, other ones for each input.
Array small_numbers(const Buffer& buffer, int64_t seed) {
  Shape shape;
  for (const Expr& extent : buffer->shape) shape.push_back(int_value(extent));
  int64_t n = element_count(shape);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back((i * 7 + seed * 5 + i * i % 11) % 13 - (is_unsigned_integer(buffer->dtype) ? 0 : 6));
  Buffer from({.name = "x", .dtype = DType::I64, .shape = {n}}), to({.name = "y", .dtype = buffer->dtype, .shape = {n}});
  Expr i = var("i");
  PrimFunc convert{.name = "convert",
                   .params = {from, to},
                   .num_inputs = 1,
                   .attrs = {},
                   .body = for_loop(i, 0, n, ForKind::Serial, store(to, {i}, cast(buffer->dtype, load(from, {i}))))};
  Array integers = array_of(DType::I64, {n}, values);
  Array flat = interpret(convert, {&integers, 1})[0];
  return make_array(buffer->dtype, shape, flat.bytes);
}

void expect_same(const std::string& text) {
  PrimFunc f = parse(text);
  std::vector<Array> inputs;
  for (int64_t i = 0; i < f.num_inputs; ++i) inputs.push_back(small_numbers(f.params[static_cast<size_t>(i)], i));
  std::vector<Array> expected = interpret(f, inputs);
  for (const char* target : {"llvm", "llvm -mcpu=x86-64"})
    for (int64_t workers : {1, 5}) {
      std::vector<Array> actual = test::run_compiled(f, inputs, parse_target(target), workers);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(actual[i], expected[i]) << text << "output " << i << " on " << target << " with " << workers << " workers";
    }
}

struct Case {
  const char* name;
  const char* text;
};

class Statements : public testing::TestWithParam<Case> {};

TEST_P(Statements, CompiledEqualsInterpreted) { expect_same(GetParam().text); }

constexpr Case kLoops[] = {
    {"scalar", R"(primfunc @f(x: f32[]) -> (y: f32[]) { y[] = (x[] + 1.0:f32) })"},
    {"loop_bounds_that_depend_on_loops", R"(primfunc @f(x: f32[6,6]) -> (y: f32[6,6]) {
      for i = 0 extent 6 { for j = 0 extent 6 { y[i, j] = 0.0:f32 } for j2 = i extent (6 - i) { y[i, j2] = x[j2, i] } } })"},
    {"loops_of_no_iterations", R"(primfunc @f(x: f32[6]) -> (y: f32[6]) {
      for i = 0 extent 6 { y[i] = x[i] for j = 0 extent (i - 3) { y[i] = (y[i] + x[j]) } } })"},
    {"bounds_read_from_memory", R"(primfunc @f(x: f32[6], n: u8[6]) -> (y: f32[6]) {
      for i = 0 extent 6 { y[i] = x[i]
        for j = 0 extent cast<i64>(n[i]) { y[i] = (y[i] + cast<f32>(j)) } } })"},
    {"unrolled", R"(primfunc @f(x: f32[4,3]) -> (y: f32[3,4]) {
      for i = 1 extent 3 unrolled { for j = 0 extent 3 unrolled { y[j, i] = x[i, j] y[j, 0] = x[0, j] } } })"},
    {"every_other", R"(primfunc @f(x: f32[31]) -> (y: f32[16], z: f32[15]) {
  for i = 0 extent 2 {
    for j = 0 extent 8 vectorized {
      y[((i * 8) + j)] = x[(((i * 8) + j) * 2)]
    }
  }
  for i_1 = 0 extent 3 {
    for j_1 = 0 extent 5 vectorized {
      z[((i_1 * 5) + j_1)] = x[((((i_1 * 5) + j_1) * 2) + 1)]
    }
  }
}
)"},
    {"reversed_and_strided", R"(primfunc @f(x: f32[32]) -> (y: f32[16], z: f32[16]) {
      for i = 0 extent 16 vectorized { y[i] = x[(31 - i)] z[(15 - i)] = x[(2 * i)] } })"},
    {"floor_division", R"(primfunc @f(x: f32[6,8]) -> (y: f32[48], z: f32[48]) {
      for i = 0 extent 48 { y[i] = x[floordiv(i, 8), floormod(i, 8)] z[i] =
          x[floormod(floordiv(i, 5), 6), floormod((i + 3), 7)] } })"},
    {"division_in_lanes", R"(primfunc @f(x: f32[6,8]) -> (y: f32[48]) {
      for i = 0 extent 6 { for l = 0 extent 8 vectorized { y[((i * 8) + l)] = x[floordiv(((i * 8)
          + l), 8), floormod(((i * 8) + l), 8)] } } })"},
    {"a_block_with_init", R"(primfunc @f(a: f32[3,5], b: f32[5,4]) -> (c: f32[3,4]) {
      for i = 0 extent 3 parallel { for j = 0 extent 4 { for k = 0 extent 5 {
        block product { iter vi: spatial 3 = i iter vj: spatial 4 = j iter vk: reduce 5 = k
          reads a[vi : 1, vk : 1] reads b[vk : 1, vj : 1] writes c[vi : 1, vj : 1]
          init { c[vi, vj] = 0.0:f32 } body { c[vi, vj] = (c[vi, vj] + (a[vi, vk] * b[vk, vj])) } } } } } })"},
    {"strides", R"(primfunc @f(x: f32[4,4]) -> (y: f32[4,4]) {
      alloc t: f32[4,4] strides [1,4]
      for i = 0 extent 4 { for j = 0 extent 4 { t[i, j] = x[i, j] } }
      for i2 = 0 extent 4 { for j2 = 0 extent 4 vectorized { y[i2, j2] = (t[i2, j2] + t[j2, i2]) } } })"},
};

constexpr Case kBranches[] = {
    {"select_guards_its_loads", R"(primfunc @f(x: f32[5]) -> (y: f32[9]) {
      for i = 0 extent 9 { y[i] = select(((2 <= i) && (i < 7)), x[(i - 2)], 9.0:f32) } })"},
    {"select_guards_loads_in_lanes", R"(primfunc @f(x: f32[5], b: i8[5]) -> (y: f32[16], z: i8[16], w: f32[16]) {
      for i = 0 extent 16 vectorized {
        y[i] = select(((2 <= i) && (i < 7)), x[(i - 2)], 9.0:f32)
        z[i] = select(((2 <= i) && (i < 7)), b[(i - 2)], 0:i8)
        w[i] = select(((2 <= i) && (i < 7)), select((i < 5), x[(i - 2)], x[(6 - i)]), 0.0:f32) } })"},
    {"strided_loads_of_which_one_lane_is_in_bounds", R"(primfunc @f(x: f32[12]) -> (y: f32[3,4]) {
      for i = 0 extent 3 { for l = 0 extent 4 vectorized {
        y[i, l] = select(((i < 1) && (1 <= l)), x[((i * 3) + ((l * 3) - 3))], 0.0:f32) } } })"},
    {"nested_selects", R"(primfunc @f(x: f32[5]) -> (y: f32[9]) {
      for i = 0 extent 9 { y[i] = select((i < 5), select((x[i] < 0.0:f32), x[i], (x[i] * 2.0:f32)),
          select((i == 8), x[0], 1.0:f32)) } })"},
    {"uniform_load_behind_a_lane_condition", R"(primfunc @f(x: f32[3]) -> (y: f32[4,8]) {
      for i = 0 extent 4 { for l = 0 extent 8 vectorized { y[i, l] = select(((l + i) < 3), x[i], 5.0:f32) } } })"},
    {"indirect_loads_in_lanes", R"(primfunc @f(x: f32[13], k: u8[16]) -> (y: f32[16]) {
      for i = 0 extent 16 vectorized { y[i] = x[cast<i64>(k[i])] } })"},
    {"indirect_guarded_loads_in_lanes", R"(primfunc @f(x: f32[7], k: i32[16]) -> (y: f32[16]) {
      for i = 0 extent 16 vectorized { y[i] = select((0:i32 <= k[i]), x[cast<i64>(k[i])], -1.0:f32) } })"},
    {"indirect_rows", R"(primfunc @f(x: f32[13,8], k: u8[5]) -> (y: f32[5,8]) {
      for i = 0 extent 5 { let r: i64 = cast<i64>(k[i]) for l = 0 extent 8 vectorized { y[i, l] = x[r, l] } } })"},
    {"scatter", R"(primfunc @f(x: f32[5], k: u8[5]) -> (y: f32[13]) {
      for i = 0 extent 13 { y[i] = 0.0:f32 } for i2 = 0 extent 5 { y[cast<i64>(k[i2])] = (y[cast<i64>(k[i2])] + x[i2]) } })"},
    {"masked_stores", R"(primfunc @f(x: f32[16], b: u8[16]) -> (y: f32[16], z: u8[16], w: f32[32]) {
      for i = 0 extent 32 { w[i] = 0.0:f32 }
      for i2 = 0 extent 16 vectorized { y[i2] = 1.0:f32 z[i2] = 1:u8
        if (i2 < 11) { y[i2] = x[i2] z[i2] = b[i2] w[(2 * i2)] = x[i2] if (x[i2] < 0.0:f32) { y[i2] = 7.0:f32 } else {
          z[i2] = 9:u8 } } } })"},
    {"if_else", R"(primfunc @f(x: f32[9]) -> (y: f32[9]) {
      for i = 0 extent 9 { if (x[i] < 0.0:f32) { y[i] = 1.0:f32 } else { if (i == 4) { y[i] = 2.0:f32 } else {
          y[i] = x[i] } } } })"},
    {"uniform_if_around_lanes", R"(primfunc @f(x: f32[3,8]) -> (y: f32[3,8]) {
      for i = 0 extent 3 { if (i == 1) { for l = 0 extent 8 vectorized { y[i, l] = x[i, l] } }
                           else { for l2 = 0 extent 8 vectorized { if (i == 0) { y[i, l2] = 3.0:f32 } else {
          y[i, l2] = 4.0:f32 } } } } })"},
};

constexpr Case kScratch[] = {
    {"prefetches_that_change_nothing", R"(primfunc @f(x: f32[6,4], at: i64[1]) -> (y: f32[6,4]) {
      for i = 0 extent 6 parallel { alloc t: f32[4] alloc r: f32[4] reg
        prefetch x[(i + 1), 0] prefetch x[-100000000000, at[0]] prefetch y[i, 0] prefetch t[0] prefetch r[0]
        for j = 0 extent 4 vectorized { prefetch x[(i + 2), j] prefetch x[j, i] t[j] = x[i, j] }
        for k = 0 extent 4 { y[i, k] = (t[k] + cast<f32>(at[0])) } } })"},
    {"an_allocation_that_is_all_of_a_body", R"(primfunc @f(x: f32[6]) -> (y: f32[6]) {
      for i = 0 extent 6 parallel { y[i] = x[i] if (x[i] < 0.0:f32) { alloc t: f32[6] } else { alloc r: f32[1] reg }
        for j = 0 extent 2 { alloc u: f32[6] local } } })"},
    {"workspace_of_all_workers", R"(primfunc @f(x: f32[6,4]) -> (y: f32[6,4]) {
      alloc t: f32[6,4]
      for i = 0 extent 6 parallel { for j = 0 extent 4 { t[i, j] = (x[i, j] * 2.0:f32) } }
      for i2 = 0 extent 6 parallel { for j2 = 0 extent 4 { y[i2, j2] = t[(5 - i2), j2] } } })"},
    {"scratch_of_one_worker", R"(primfunc @f(x: f32[6,20]) -> (y: f32[6,20]) {
      for i = 2 extent 4 parallel { alloc t: f32[20] local alloc u: f32[3] local
        for j = 0 extent 20 { t[j] = x[i, (19 - j)] } u[1] = 1.0:f32 for j2 = 0 extent 20 { y[i, j2] = (t[j2] + u[1]) } }
      for i2 = 0 extent 2 { alloc t2: f32[20] local for j3 = 0 extent 20 { t2[j3] = x[i2, j3] } for j4 = 0 extent 20 {
          y[i2, j4] = t2[j4] } } })"},
    {"reused_scratch", R"(primfunc @f(x: f32[40]) -> (y: f32[40]) {
      for i = 0 extent 2 unrolled {
        if (i < 2) { alloc t: f32[40] for j = 0 extent 40 vectorized { t[j] = (x[j] + 1.0:f32) }
          for j2 = 0 extent 40 vectorized { y[j2] = t[(39 - j2)] } }
        if (i < 2) { alloc u: f32[40] for j3 = 0 extent 40 vectorized { u[j3] = (y[j3] * 2.0:f32) }
          for j4 = 0 extent 40 vectorized { y[j4] = u[(39 - j4)] } } } })"},
    {"captured_values", R"(primfunc @f(x: f32[2,3,4]) -> (y: f32[2,3,4]) {
      for a = 0 extent 2 { let s: f32 = x[a, 0, 0] let n: i64 = cast<i64>(x[a, 1, 1]) let m: i64 = (a * 2)
          let p: bool = (x[a, 0, 1] < 0.0:f32)
        for b = 0 extent 3 parallel { for c = 0 extent 4 {
          y[a, b, c] = (((x[a, b, c] + s) + cast<f32>((n + m))) + select(p, 1.0:f32, 2.0:f32)) } } } })"},
    {"launch_axes", R"(primfunc @f(x: f32[3,4]) -> (y: f32[3,4]) {
      for i = 0 extent 3 blockIdx_y { for j = 0 extent 4 threadIdx_x { y[i, j] = (x[i, j] * 2.0:f32) } } })"},
    {"nested_parallel_loops", R"(primfunc @f(x: f32[3,4]) -> (y: f32[3,4]) {
      for i = 0 extent 3 parallel { for j = 0 extent 4 parallel { y[i, j] = x[i, j] } } })"},
    {"constants", R"(primfunc @f(x: f32[4]) -> (y: f32[4]) {
      allocate_const t: f32[2] = bytes "0000803f00000040"
      allocate_const k: i64[4] = bytes "0100000000000000000000000000000001000000000000000000000000000000"
      for i = 0 extent 4 parallel { y[i] = (x[k[i]] + t[floordiv(i, 2)]) } })"},
    {"bools", R"(primfunc @f(x: bool[16], v: f32[16]) -> (y: bool[16], z: f32[16]) {
      for i = 0 extent 16 vectorized { y[i] = (x[i] && (v[i] < 2.0:f32)) z[i] = select(x[i], v[i], cast<f32>(y[i])) } })"},
};

constexpr Case kRegisters[] = {
    {"one_number_in_vectors_of_several_widths", R"(primfunc @f(x: f32[12], s: f32[1]) -> (y: f32[12]) {
      for i = 0 extent 8 vectorized { y[i] = (x[i] * s[0]) } for j = 0 extent 4 vectorized { y[(j + 8)] = (x[(j + 8)] * s[0]) } })"},
    {"halves_of_a_row", R"(primfunc @f(x: f32[21]) -> (y: f32[1]) {
      alloc all: f32[8] reg alloc half: f32[4] reg alloc quarter: f32[2] reg
      for a = 0 extent 8 vectorized { all[a] = x[a] } for b = 0 extent 8 vectorized { all[b] = (all[b] + x[(b + 8)]) }
      for c = 0 extent 8 vectorized { if (c < 5) { all[c] = (all[c] + x[(c + 16)]) } }
      for d = 0 extent 4 vectorized { half[d] = (all[d] + all[(d + 4)]) }
      for e = 0 extent 2 vectorized { quarter[e] = (half[e] + half[(e + 2)]) } y[0] = (quarter[0] + quarter[1]) })"},
    {"accumulators_through_two_loops", R"(primfunc @f(x: f32[3,4,16]) -> (y: f32[16]) {
      alloc acc: f32[2,8] reg
      for i = 0 extent 2 unrolled { for l = 0 extent 8 vectorized { acc[i, l] = 0.0:f32 } }
      for a = 0 extent 3 { for b = 0 extent 4 { for i2 = 0 extent 2 unrolled { for l2 = 0 extent 8 vectorized {
        acc[i2, l2] = (acc[i2, l2] + x[a, b, ((i2 * 8) + l2)]) } } } }
      for i3 = 0 extent 2 unrolled { for l3 = 0 extent 8 vectorized { y[((i3 * 8) + l3)] = acc[i3, l3] } } })"},
    {"first_iteration_initialises", R"(primfunc @f(x: f32[5,8]) -> (y: f32[8]) {
      alloc acc: f32[8] reg
      for a = 0 extent 5 { if (a == 0) { for l = 0 extent 8 vectorized { acc[l] = 1.0:f32 } }
        for l2 = 0 extent 8 vectorized { acc[l2] = (acc[l2] + x[a, l2]) } }
      for l3 = 0 extent 8 vectorized { y[l3] = acc[l3] } })"},
    {"a_loop_that_may_not_run", R"(primfunc @f(x: f32[5,8]) -> (y: f32[6]) {
      for n = 0 extent 6 { alloc acc: f32[1] reg acc[0] = -1.0:f32
        for a = 0 extent n { acc[0] = (acc[0] + x[a, 2]) } y[n] = acc[0] } })"},
    {"branches_merge", R"(primfunc @f(x: f32[9]) -> (y: f32[9]) {
      alloc r: f32[2] reg r[0] = 0.0:f32 r[1] = 1.0:f32
      for i = 0 extent 9 { if (x[i] < 0.0:f32) { r[0] = (r[0] + x[i]) } else { r[1] = (r[1] + r[0]) } y[i] = (r[0] * r[1])
          } })"},
    {"lanes_read_one_by_one", R"(primfunc @f(x: f32[4,8]) -> (y: f32[3]) {
      alloc acc: f32[8] reg alloc s: f32[1] reg
      for l = 0 extent 8 vectorized { acc[l] = x[0, l] }
      for a = 1 extent 3 { for l2 = 0 extent 8 vectorized { acc[l2] = max(acc[l2], x[a, l2]) } }
      s[0] = acc[0] for l3 = 1 extent 7 unrolled { s[0] = (s[0] + acc[l3]) }
      y[0] = s[0] y[1] = acc[5] acc[5] = 100.0:f32 y[2] = (acc[5] + acc[4]) })"},
    {"rows_of_two_widths", R"(primfunc @f(x: f32[24]) -> (y: f32[24]) {
      alloc r: f32[24] reg
      for l = 0 extent 16 vectorized { r[l] = x[l] } for l2 = 0 extent 8 vectorized {
          r[(16 + l2)] = (x[(16 + l2)] * 2.0:f32) }
      for o = 0 extent 6 unrolled { for l3 = 0 extent 4 vectorized { y[((o * 4) + l3)] = r[(((5 - o) * 4) + l3)] } } })"},
    {"private_to_a_lane", R"(primfunc @f(x: f32[3,8]) -> (y: f32[8], z: f32[8]) {
      for l = 0 extent 8 vectorized { alloc best: f32[1] reg alloc at: i64[1] reg best[0] = x[0, l] at[0] = 0
        for a = 1 extent 2 { if (best[0] < x[a, l]) { best[0] = x[a, l] at[0] = a } }
        y[l] = best[0] z[l] = cast<f32>(at[0]) } })"},
    {"private_index", R"(primfunc @f(x: f32[3,8]) -> (y: f32[8]) {
      for l = 0 extent 8 vectorized { alloc at: i64[1] reg at[0] = 0
        for a = 1 extent 2 { if (x[0, l] < x[a, l]) { at[0] = a } }
        y[l] = x[max(0, min(at[0], 2)), l] } })"},
    {"masked_rows", R"(primfunc @f(x: f32[3,8]) -> (y: f32[8]) {
      alloc acc: f32[8] reg for l = 0 extent 8 vectorized { acc[l] = 0.0:f32 }
      for a = 0 extent 3 { for l2 = 0 extent 8 vectorized { if ((a + l2) < 7) { acc[l2] = (acc[l2] + x[a, l2]) } } }
      for l3 = 0 extent 8 vectorized { y[l3] = acc[l3] } })"},
    {"a_loop_that_swaps", R"(primfunc @f(x: f32[2]) -> (y: f32[2]) {
      alloc r: f32[3] reg r[0] = x[0] r[1] = x[1]
      for i = 0 extent 5 { r[2] = r[0] r[0] = r[1] r[1] = r[2] } y[0] = r[0] y[1] = r[1] })"},
    {"other_dtypes", R"(primfunc @f(x: i8[4,16], h: f16[4,8]) -> (y: i32[16], z: f16[8], w: bool[1]) {
      alloc acc: i32[16] reg alloc hacc: f16[8] reg alloc any: bool[1] reg any[0] = false
      for l = 0 extent 16 vectorized { acc[l] = 0:i32 } for l2 = 0 extent 8 vectorized { hacc[l2] = 0.0:f16 }
      for a = 0 extent 4 { any[0] = (any[0] || (x[a, 0] < 0:i8))
        for l3 = 0 extent 16 vectorized { acc[l3] = (acc[l3] + (cast<i32>(x[a, l3]) * 3:i32)) }
        for l4 = 0 extent 8 vectorized { hacc[l4] = (hacc[l4] + (h[a, l4] * 0.3330078125:f16)) } }
      for l5 = 0 extent 16 vectorized { y[l5] = acc[l5] } for l6 = 0 extent 8 vectorized { z[l6] = hacc[l6] }
          w[0] = any[0] })"},
};

auto case_name = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Loops, Statements, testing::ValuesIn(kLoops), case_name);
INSTANTIATE_TEST_SUITE_P(Branches, Statements, testing::ValuesIn(kBranches), case_name);
INSTANTIATE_TEST_SUITE_P(Scratch, Statements, testing::ValuesIn(kScratch), case_name);
INSTANTIATE_TEST_SUITE_P(Registers, Statements, testing::ValuesIn(kRegisters), case_name);

std::string compile_error(const std::string& text) {
  try {
    codegen::compile_text(parse(text), host_target(), codegen::TextKind::LlvmIr);
  } catch (const CompileError& error) {
    return error.what();
  }
  return "compiled";
}

TEST(StatementErrors, RegistersNeedConstantIndices) {
  std::string message = compile_error(R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
    alloc acc: f32[8] reg for i = 0 extent 8 { acc[i] = x[i] } for i2 = 0 extent 8 unrolled { y[i2] = acc[i2] } })");
  EXPECT_NE(message.find("`acc`"), std::string::npos) << message;
  EXPECT_NE(message.find("[reg-not-promotable]"), std::string::npos) << message;
  EXPECT_NE(message.find("@f"), std::string::npos) << message;
}

TEST(StatementErrors, RegistersBelongToOneWorker) {
  std::string message = compile_error(R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
    alloc acc: f32[1] reg acc[0] = 1.0:f32 for i = 0 extent 8 parallel { y[i] = acc[0] } })");
  EXPECT_NE(message.find("[reg-not-promotable]"), std::string::npos) << message;
}

TEST(StatementErrors, ScratchHasAConstantSize) {
  std::string message = compile_error(R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
    for i = 0 extent 8 { alloc t: f32[(i + 1)] t[i] = x[i] y[i] = t[i] } })");
  EXPECT_NE(message.find("`t`"), std::string::npos) << message;
  EXPECT_NE(message.find("[dynamic-allocation]"), std::string::npos) << message;
}

TEST(StatementCode, APrefetchIsOneInstruction) {
  std::string assembly = codegen::compile_text(parse(R"(primfunc @f(x: f32[640]) -> (y: f32[640]) {
    for i = 0 extent 640 { prefetch x[(i + 160)] y[i] = x[i] } })"),
                                               parse_target("llvm -mcpu=haswell"), codegen::TextKind::Assembly);
  size_t found = assembly.find("prefetcht1\t640(");
  EXPECT_NE(found, assembly.npos) << assembly;
  EXPECT_EQ(assembly.find("prefetch", found + 1), assembly.npos) << assembly;
}

TEST(StatementCode, SameInputGivesSameBytes) {
  PrimFunc f = parse(kRegisters[4].text);
  PrimFunc g = parse(kBranches[8].text);
  g.name = "g";
  const PrimFunc* functions[] = {&f, &g};
  Target target = parse_target("llvm -mcpu=haswell");
  codegen::Object first = codegen::compile_object(functions, target), second = codegen::compile_object(functions, target);
  EXPECT_EQ(first.bytes, second.bytes);
  EXPECT_EQ(first.symbols, (std::vector<std::string>{"f", "g"}));
}

TEST(StatementCode, ReluIsOneInstructionAVector) {
  PrimFunc f = parse(R"(primfunc @f(x: f32[64]) -> (y: f32[64]) {
    for i = 0 extent 8 { for l = 0 extent 8 vectorized { y[((i * 8) + l)] = max(x[((i * 8) + l)], 0.0:f32) } } })");
  std::string assembly = codegen::compile_text(f, parse_target("llvm -mcpu=haswell"), codegen::TextKind::Assembly);
  std::vector<test::InnermostLoop> loops = test::innermost_loops(assembly);
  ASSERT_EQ(loops.size(), 1u) << assembly;
  EXPECT_EQ(loops[0].count("vmaxps"), 1) << assembly;
  EXPECT_LE(loops[0].instructions.size(), 6u) << assembly;
}

}  // namespace
}  // namespace tenon
