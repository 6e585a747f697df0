// SPDX-License-Identifier: Apache-2.0
// Packings run as copies give what the interpreter gives; other functions are interpreted.
#include "driver/pack.h"

#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon::driver {
namespace {

/// 0, 1, 2, … as bytes of the dtype's width.
Array counted(DType dtype, int64_t elements) {
  MutableArray out(dtype, {elements});
  for (size_t i = 0; i < out.size_bytes; ++i) out.data()[i] = static_cast<std::byte>(i);
  return std::move(out).freeze();
}

struct Case {
  const char* name;
  const char* text;
};

class PackOf : public testing::TestWithParam<Case> {};

TEST_P(PackOf, GivesWhatTheInterpreterGives) {
  tir::PrimFunc f = tir::parse_prim_func("pack", GetParam().text);
  Array input = counted(f.params[0]->dtype, *tir::as_int(f.params[0]->shape[0]));
  std::vector<Array> results = run_packs({{&f, input}, {&f, input}}, 2);
  Array expected = tir::interpret(f, {&input, 1})[0];
  EXPECT_TRUE(results[0] == expected);
  EXPECT_TRUE(results[1] == expected);
}

const Case kCases[] = {
    {"panels_with_a_tile_moved_back", R"(primfunc @f(w: f32[42]) -> (p: f32[48]) {
      for tile = 0 extent 2 { let begin: i64 = min((tile * 4), 3) for k = 0 extent 6 { for j = 0 extent 4 unrolled {
        p[(((tile * 24) + (k * 4)) + j)] = w[(((begin + j) * 6) + k)] } } } })"},
    {"panels_of_groups", R"(primfunc @f(w: i8[48]) -> (p: i8[48]) {
      for tile = 0 extent 6 { let at: i64 = floormod(tile, 2) let group: i64 = floordiv(tile, 2) for k = 0 extent 8 {
        p[((tile * 8) + k)] = w[(((at * 24) + (group * 8)) + k)] } } })"},
    {"reversed_halves", R"(primfunc @f(w: f16[10]) -> (p: f16[10]) {
      for i = 0 extent 10 { p[(9 - i)] = w[i] } })"},
    {"doubles_in_part", R"(primfunc @f(w: f64[6]) -> (p: f64[3]) {
      for i = 0 extent 3 parallel { p[i] = w[(i * 2)] } })"},
    {"not_a_sum_of_parts", R"(primfunc @f(w: f32[6]) -> (p: f32[6]) {
      for i = 0 extent 2 { for j = 0 extent 3 { p[((i * 3) + j)] = w[floormod(((i * 3) + (j * 2)), 6)] } } })"},
    {"not_a_copy", R"(primfunc @f(w: i32[6]) -> (p: i32[6]) {
      for i = 0 extent 6 { p[i] = (w[i] + 1:i32) } })"},
};
INSTANTIATE_TEST_SUITE_P(, PackOf, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

/// What the interpreter gives, with 0 where nothing is written: it marks that with bits that `counted` never holds.
Array expected_of(const PackJob& job) {
  Array result = tir::interpret(*job.function, {&job.input, 1})[0];
  MutableArray out(result.dtype, result.shape);
  for (int64_t i = 0; i < result.elements(); ++i)
    if (auto bits = result.read<uint32_t>(i); bits != 0xffffffff) out.as<uint32_t>()[i] = bits;
  return std::move(out).freeze();
}

/// Arrays of 1 MiB and more, in which later results may stand: each of the jobs is the only one to read its input but for the
/// last two, which have one in common that is also ours.
TEST(Pack, ResultsInTheMemoryOfInputsAreWhole) {
  tir::PrimFunc turn = tir::parse_prim_func("turn", R"(primfunc @f(w: f32[524288]) -> (p: f32[524288]) {
    for a = 0 extent 16 { for b = 0 extent 4 { for c = 0 extent 256 { for d = 0 extent 32 {
      p[((((a * 32768) + (b * 8192)) + (c * 32)) + d)] = w[((((a * 32768) + (d * 1024)) + (b * 256)) + c)] } } } } })");
  tir::PrimFunc gaps = tir::parse_prim_func("gaps", R"(primfunc @f(w: f32[400000]) -> (p: f32[410000]) {
    for i = 0 extent 400 { for j = 0 extent 1000 { p[((i * 1025) + j)] = w[((i * 1000) + j)] } } })");
  tir::PrimFunc half = tir::parse_prim_func("half", R"(primfunc @f(w: f32[300000]) -> (p: f32[300000]) {
    for i = 0 extent 150000 { p[(i * 2)] = w[i] } })");
  Array shared = counted(DType::F32, 300000), as_it_was = counted(DType::F32, 300000);
  for (int workers : {1, 3}) {
    std::vector<PackJob> jobs;
    for (const tir::PrimFunc* f : {&half, &gaps, &turn, &turn, &gaps, &turn})
      jobs.push_back({f, counted(DType::F32, *tir::as_int(f->params[0]->shape[0]))});
    jobs.push_back({&half, shared});
    jobs.push_back({&half, shared});
    std::vector<Array> expected;
    for (const PackJob& job : jobs) expected.push_back(expected_of(job));
    std::vector<Array> results = run_packs(std::move(jobs), workers);
    for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(results[i] == expected[i]) << i << ", " << workers << " workers";
    EXPECT_TRUE(shared == as_it_was);
  }
}

TEST(Pack, RefusesAnIndexOutsideTheConstant) {
  tir::PrimFunc f = tir::parse_prim_func("pack", R"(primfunc @f(w: f32[6]) -> (p: f32[6]) {
    for i = 0 extent 6 { p[i] = w[(i + 1)] } })");
  try {
    run_packs({{&f, counted(DType::F32, 6)}}, 1);
    FAIL() << "not refused";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "interpret-bounds");
  }
}

}  // namespace
}  // namespace tenon::driver
