// SPDX-License-Identifier: Apache-2.0
// Laws of lowering: the loop function that the pass `lower` makes is the one that `lower_to_prim_func` gives, up to its name
// (spec.md 8.2.4), and a schedule changes no result and makes no race (appendix B, P4). Over every operator on every dtype that
// it takes, and over random groups around each operator.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/compare.h"
#include "base/target.h"
#include "lower/lower.h"
#include "op/all_ops.h"
#include "op/ops.h"
#include "schedule/schedule.h"
#include "support/long_run.h"
#include "support/op_cases.h"
#include "support/trace_replay.h"
#include "tir/interpret.h"

namespace tenon {
namespace {

using graph::Builder;
using graph::Function;
using graph::Module;
using graph::ValueId;
using test::OpCase;

constexpr size_t kGroups = 200;

/// A primitive function with the arrays that it is fed.
struct Group {
  Module module;
  std::vector<Array> inputs;
  const Function& function() const { return module.functions.at("group"); }
};

/// Builds a group around one use of an operator.
class GroupBuilder {
 public:
  GroupBuilder(const OpCase& use, uint64_t seed) : use_(use), random_(seed), builder_(group_.module, "group") {}

  /// `more` nodes follow the operator.
  Group build(int more) {
    std::vector<ValueId> operands;
    for (const test::OpOperand& operand : use_.operands) {
      Array data = test::draw(operand, random_);
      operands.push_back(operand.constant ? builder_.constant(data) : builder_.param("", operand.type));
      if (!operand.constant) group_.inputs.push_back(std::move(data));
    }
    values_ = builder_.call(*use_.op, operands, use_.attrs);
    for (int i = 0; i < more; ++i) add();
    Function f = builder_.finish(results());
    f.attrs["primitive"] = true;
    group_.module.functions.emplace("group", std::move(f));
    return std::move(group_);
  }

 private:
  size_t pick(size_t count) { return random_() % count; }

  /// A node on a value so far, alone, with another value of its type, or with a constant that several may read.
  void add() {
    ValueId x = values_[pick(values_.size())];
    const TensorType type = builder_.type(x);
    if (type.dtype == DType::Bool) {
      values_.push_back(pick(2) ? builder_.call1(op::logical_not, {x}) : builder_.call1(op::logical_and, {x, like(type)}));
      return;
    }
    switch (pick(4)) {
      case 0: values_.push_back(builder_.call1(op::maximum, {x, like(type)})); return;
      case 1: values_.push_back(builder_.call1(op::minimum, {like(type), x})); return;
      case 2: values_.push_back(builder_.call1(op::subtract, {x, shared_constant(type)})); return;
      default: values_.push_back(builder_.call1(op::add, {shared_constant(type), x})); return;
    }
  }

  ValueId like(const TensorType& type) {
    std::vector<ValueId> same;
    for (ValueId v : values_)
      if (builder_.type(v) == type) same.push_back(v);
    return same[pick(same.size())];
  }

  /// One array for each type, so that nodes share it.
  ValueId shared_constant(const TensorType& type) {
    test::OpOperand operand{type, {.low = 1, .step = 1, .count = 2}, true};
    std::mt19937_64 same(7);
    return builder_.constant(test::draw(operand, same), "shared");
  }

  std::vector<ValueId> results() {
    std::vector<ValueId> results = {values_.back()};
    if (pick(2)) results.push_back(values_[pick(values_.size())]);
    return results;
  }

  const OpCase& use_;
  std::mt19937_64 random_;
  Group group_;
  Builder builder_;
  std::vector<ValueId> values_;
};

/// The module with a `main` that calls the group on its own parameters.
Module with_main(const Group& group) {
  Module module = group.module;
  Builder b(module, "main");
  graph::Node call{.kind = graph::NodeKind::Call, .callee = "group"};
  for (const graph::Param& p : group.function().params) call.inputs.push_back(b.param("", p.type));
  for (ValueId v : group.function().results) call.types.push_back(group.function().type(v));
  std::vector<ValueId> results = b.append(std::move(call));
  module.functions.emplace("main", b.finish(results));
  return module;
}

bool word(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

tir::PrimFunc expect_one_function(const Group& group, const std::string& what) {
  tir::PrimFunc alone = lower::lower_to_prim_func(group.module, group.function());
  Module lowered = lower::lower_module(with_main(group));
  EXPECT_EQ(lowered.prim_funcs.size(), 1u) << what;
  tir::PrimFunc inside = lowered.prim_funcs.begin()->second;
  EXPECT_LE(inside.name.size(), 98u) << what;
  EXPECT_TRUE(word(inside.name)) << inside.name;
  inside.name = alone.name;
  EXPECT_TRUE(tir::structural_equal(alone, inside)) << what;
  return alone;
}

/// Sums may be taken in another order; results of elementary functions are approximations.
Tolerance tolerance(DType dtype) {
  switch (dtype) {
    case DType::F16:
    case DType::BF16: return {2e-2, 2e-2};
    case DType::F32: return {1e-4, 1e-4};
    case DType::F64: return {1e-9, 1e-9};
    default: return {0, 0};
  }
}

/// Every built-in schedule is a trace that replays to it.
void expect_schedules_are_traces(const tir::PrimFunc& function, const std::string& what) {
  static const Target targets[] = {parse_target("llvm -mcpu=haswell"), parse_target("llvm -mcpu=skylake-avx512")};
  for (const Target& target : targets)
    for (bool constant : {false, true})
      test::expect_trace_replays(
          {.func = function, .target = target, .constant_params = std::vector<bool>(function.params.size(), constant)}, what);
}

void expect_schedules_keep_it(const tir::PrimFunc& function, const std::vector<Array>& inputs, const std::string& what) {
  static const Target target = parse_target("llvm -mcpu=haswell");
  std::vector<Array> want = tir::interpret(function, inputs);
  for (int level : {0, 3}) {
    tir::PrimFunc scheduled = schedule::schedule({.func = function,
                                                  .target = target,
                                                  .constant_params = std::vector<bool>(function.params.size()),
                                                  .opt_level = level})
                                  .func;
    std::vector<Array> same = inputs;
    for (size_t i = 0; i < same.size(); ++i) {
      same[i].shape.clear();
      for (const tir::Expr& extent : scheduled.params[i]->shape) same[i].shape.push_back(tir::int_value(extent));
    }
    std::vector<Array> got = tir::interpret_independent(scheduled, same);
    for (size_t k = 0; k < want.size(); ++k) {
      got[k].shape = want[k].shape;
      EXPECT_EQ(compare(got[k], want[k], tolerance(want[k].dtype)).count, 0) << what << " at -O" << level;
    }
  }
}

/// An operator on one dtype with small cases of it.
struct Use {
  const graph::OpDef* op;
  DType dtype;
  std::vector<OpCase> cases;
};

const std::vector<Use>& all_uses() {
  static const std::vector<Use> uses = [] {
    std::vector<Use> out;
    for (const graph::OpDef* op : op::all_ops().all()) {
      std::map<DType, std::vector<OpCase>> cases;
      test::each_case(*op, [&](const OpCase& use) {
        int64_t elements = 0;
        for (const test::OpOperand& operand : use.operands) elements += operand.type.elements();
        if (elements <= 2000) cases[test::swept_dtype(use)].push_back(use);
      });
      for (auto& [dtype, list] : cases) out.push_back({op, dtype, std::move(list)});
    }
    return out;
  }();
  return uses;
}

TEST(LoweringLaw, HoldsForEveryOperatorOnEveryDtype) {
  std::set<const graph::OpDef*> covered;
  std::mt19937_64 random(1);
  for (const Use& use : all_uses()) {
    std::vector<OpCase> cases = use.cases;
    std::shuffle(cases.begin(), cases.end(), random);
    if (!test::long_run()) cases.resize(std::min<size_t>(cases.size(), 3));
    for (const OpCase& one : cases)
      expect_schedules_are_traces(expect_one_function(GroupBuilder(one, random()).build(0), to_string(one)), to_string(one));
    covered.insert(use.op);
    if (HasFailure()) return;
  }
  for (const graph::OpDef* op : op::all_ops().all())
    EXPECT_TRUE(covered.contains(op)) << op->name << " has no case that the law was shown for";
}

/// What the groups so far had.
struct Coverage {
  std::set<const graph::OpDef*> ops;
  std::set<DType> dtypes;
  int several_results = 0, shared_constants = 0, six_nodes = 0, constants = 0;

  void add(const Group& group, const OpCase& use) {
    const Function& f = group.function();
    ops.insert(use.op);
    dtypes.insert(test::swept_dtype(use));
    several_results += f.results.size() > 1;
    std::map<std::string, int> reads;
    int nodes = 0;
    for (const graph::Node& node : f.nodes) {
      nodes += node.kind == graph::NodeKind::Op;
      if (node.kind == graph::NodeKind::Constant) ++reads[node.callee];
    }
    constants += !reads.empty();
    shared_constants += std::any_of(reads.begin(), reads.end(), [](const auto& entry) { return entry.second > 1; });
    six_nodes += nodes >= 6;
  }
};

TEST(LoweringLaw, HoldsForRandomGroupsAndTheirSchedulesKeepTheResult) {
  const std::vector<Use>& uses = all_uses();
  std::mt19937_64 random(2);
  Coverage coverage;
  size_t count = test::long_run() ? 10 * kGroups : kGroups;
  // Every operator once, each on a dtype at random, then anything.
  std::map<const graph::OpDef*, std::vector<size_t>> by_op;
  for (size_t i = 0; i < uses.size(); ++i) by_op[uses[i].op].push_back(i);
  std::vector<size_t> order;
  for (const graph::OpDef* op : op::all_ops().all()) order.push_back(by_op[op].at(random() % by_op[op].size()));
  while (order.size() < count) order.push_back(random() % uses.size());
  for (size_t i = 0; i < count && !HasFailure(); ++i) {
    const std::vector<OpCase>& cases = uses[order[i]].cases;
    const OpCase& use = cases[random() % cases.size()];
    int more = static_cast<int>(random() % 10);
    Group group = GroupBuilder(use, random()).build(more);
    coverage.add(group, use);
    std::string what = to_string(use) + " and " + std::to_string(more) + " more";
    tir::PrimFunc function = expect_one_function(group, what);
    expect_schedules_keep_it(function, group.inputs, what);
    expect_schedules_are_traces(function, what);
  }
  EXPECT_EQ(coverage.ops.size(), op::all_ops().all().size()) << "every operator";
  EXPECT_EQ(coverage.dtypes.size(), std::size(test::kSweptDTypes)) << "every dtype";
  EXPECT_GE(coverage.several_results, 20);
  EXPECT_GE(coverage.constants, 20);
  EXPECT_GE(coverage.shared_constants, 20);
  EXPECT_GE(coverage.six_nodes, 20);
}

}  // namespace
}  // namespace tenon
