// SPDX-License-Identifier: Apache-2.0
// Breaks each rule of mixed modules that docs/mixed-modules.md lists, once.
#include "lower/invariants.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "op/all_ops.h"

namespace tenon {
namespace {

/// A module as the pass `lower` leaves it, with an external function and a view.
constexpr const char* kMixed = R"(constant @w : f32[2] = bytes "0000803f00000040"
fn @ext(%0: f32[2]) {external = "tool", primitive = true} {
  %1 = relu(%0) : f32[2]
  return %1
}
fn @main(%0: f32[2] "x") -> ("y") {
  %1 = constant @w : f32[2]
  %2 = call_lowered @k(%0, %1) : f32[2]
  %3 = call_lowered @ext(%2) : f32[2]
  %4 = call_lowered @flat(%3) {view = true} : f32[1,2]
  return %4
}
primfunc @flat(p0: f32[2]) -> (o: f32[1,2]) {
  for i = 0 extent 2 {
    o[0, i] = p0[i]
  }
}
primfunc @k(p0: f32[2], p1: f32[2]) -> (o: f32[2]) {
  for i = 0 extent 2 {
    o[i] = (p0[i] + p1[i])
  }
}
)";

void check(const graph::Module& module) {
  graph::verify(module);
  lower::verify_lowered(module);
}

graph::Module mixed() { return graph::parse("mixed", kMixed, op::all_ops()); }

/// The code of the first rule that the module breaks.
std::string broken(const graph::Module& module) {
  try {
    check(module);
  } catch (const CompileError& error) {
    return error.diagnostics()[0].code;
  }
  return "none";
}

graph::Node& call_of(graph::Module& module, std::string_view callee) {
  for (graph::Node& node : module.functions.at("main").nodes)
    if (node.callee == callee) return node;
  fail_internal("the callee is called");
}

TEST(MixedModule, HoldsAsItStands) { EXPECT_NO_THROW(check(mixed())); }

TEST(MixedModule, NamesAreUnique) {
  graph::Module m = mixed();
  graph::Function taken = m.functions.at("ext");
  taken.name = "k";
  m.functions.emplace("k", taken);
  EXPECT_EQ(broken(m), "duplicate-name");
  m = mixed();
  m.prim_funcs.at("k").name = "other";
  EXPECT_EQ(broken(m), "bad-name");
}

TEST(MixedModule, CalleesAreLoopFunctionsOrExternal) {
  graph::Module m = mixed();
  m.prim_funcs.erase("k");
  EXPECT_EQ(broken(m), "unknown-callee");
  m = mixed();
  m.functions.at("ext").attrs.erase("external");
  EXPECT_EQ(broken(m), "unknown-callee");
}

TEST(MixedModule, CallsFitTheirCallees) {
  graph::Module m = mixed();
  call_of(m, "k").inputs.pop_back();
  EXPECT_EQ(broken(m), "signature-mismatch");
  m = mixed();
  call_of(m, "flat").types[0] = {DType::F32, {2, 1}};
  EXPECT_EQ(broken(m), "signature-mismatch") << "the same memory, but not scheduled";
}

TEST(MixedModule, NothingPrimitiveIsLeft) {
  graph::Module m = mixed();
  graph::Function left = m.functions.at("ext");
  left.name = "left";
  left.attrs.erase("external");
  m.functions.emplace("left", left);
  EXPECT_EQ(broken(m), "not-lowered");
  m = mixed();
  call_of(m, "ext").kind = graph::NodeKind::Call;
  EXPECT_EQ(broken(m), "not-lowered");
}

TEST(MixedModule, OperatorsStandInExternalFunctionsOnly) {
  graph::Module m = mixed();
  graph::Function plain = m.functions.at("ext");
  plain.name = "plain";
  plain.attrs.clear();
  m.functions.emplace("plain", plain);
  EXPECT_EQ(broken(m), "op-outside-group");
  EXPECT_THROW(lower::verify_fused(m), CompileError);
}

TEST(MixedModule, MetadataIsTyped) {
  graph::Module m = mixed();
  call_of(m, "k").attrs["vieww"] = true;
  EXPECT_EQ(broken(m), "call-metadata");
  m = mixed();
  call_of(m, "k").attrs["view"] = int64_t{1};
  EXPECT_EQ(broken(m), "call-metadata");
}

TEST(MixedModule, ViewsMoveNothing) {
  graph::Module m = mixed();
  call_of(m, "k").attrs["view"] = true;
  EXPECT_EQ(broken(m), "view-moves") << "two operands";
  call_of(m, "k").attrs["view"] = false;
  EXPECT_EQ(broken(m), "none");
}

TEST(MixedModule, ValuesComeBeforeTheirReaders) {
  graph::Module m = mixed();
  call_of(m, "k").inputs[0] = {4};
  EXPECT_EQ(broken(m), "undeclared-value");
}

TEST(MixedModule, ConstantsStandInTheTable) {
  graph::Module m = mixed();
  m.constants.erase("w");
  EXPECT_EQ(broken(m), "unknown-constant");
  m = mixed();
  m.constants.at("w").dtype = DType::I32;
  EXPECT_EQ(broken(m), "type-mismatch");
}

TEST(MixedModule, NothingCallsItself) {
  graph::Module m = mixed();
  graph::Function loop = m.functions.at("ext");
  loop.name = "loop";
  loop.attrs.clear();
  loop.nodes[0] = {
      .kind = graph::NodeKind::Call, .callee = "loop", .inputs = {{0}}, .types = loop.nodes[0].types, .first_result = 1};
  m.functions.emplace("loop", loop);
  EXPECT_EQ(broken(m), "recursive-call");
}

TEST(MixedModule, LoopFunctionsKeepTheirRules) {
  graph::Module m = mixed();
  tir::PrimFunc& k = m.prim_funcs.at("k");
  k.body = tir::store(k.params[0], {tir::Expr(0)}, tir::float_imm(DType::F32, 1));
  EXPECT_EQ(broken(m), "read-only-buffer");
}

}  // namespace
}  // namespace tenon
