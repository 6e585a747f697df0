// SPDX-License-Identifier: Apache-2.0
// Law: on integer-valued data every operator gives the same bits in the graph interpreter, in generated code at -O0 and at
// -O3, and in the constant folder, for every dtype it takes, every rank from 0 to 5 and the extents 0, 1, 7 and 65.
//
// A sample of the cases runs by default, all of them with TENON_LONG=1. Operators whose results are no whole numbers agree
// to within a number of ulp that is listed here. sweep_gaps.txt lists the ranks and extents that an operator cannot have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "driver/driver.h"
#include "graph/interpret.h"
#include "op/all_ops.h"
#include "runtime/session.h"
#include "support/op_cases.h"
#include "support/paths.h"

namespace tenon {
namespace {

using test::OpCase;

constexpr size_t kBatch = 64;              // cases compiled together
constexpr size_t kSampleForEachDType = 5;  // cases of an operator when not all run
constexpr int kReported = 4;               // differences printed for one operator

bool exhaustive() {
  const char* value = std::getenv("TENON_LONG");
  return value && std::string_view(value) == "1";
}

/// How many elements an operator with `axes` sums up for one result.
double summed(const OpCase& use) {
  auto axes = use.attrs.find("axes");
  if (axes == use.attrs.end()) return 1;
  Shape shape = use.operands[0].type.static_shape();
  double count = 1;
  for (int64_t axis : std::get<std::vector<int64_t>>(axes->second))
    count *= static_cast<double>(shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)]);
  return count;
}

/// What an operator's results may differ by, in units of the dtype's last place at max(|expected|, 1). Sums of n rounded terms
/// that are taken in two orders differ by about sqrt(n) units of rounding, half of these units, for each sum (Higham and Mary, "A
/// New Approach to Probabilistic Rounding Error Analysis", 2019); that is more than the table's for long sums.
double ulps(const OpCase& use) {
  static const std::map<std::string_view, double> table = {
      {"celu", 4},       {"cos", 1},     {"cosh", 1},        {"elu", 4}, {"erf", 4},  {"exp", 2},  {"gelu", 4},
      {"layer_norm", 4}, {"log", 2},     {"log_softmax", 4}, {"lrn", 4}, {"mish", 4}, {"selu", 4}, {"sigmoid", 4},
      {"sin", 1},        {"softmax", 4}, {"softplus", 4},    {"tan", 1}, {"tanh", 4},
  };
  double sums = use.op->name == "layer_norm" ? 2 : 1;  // a mean, and then a variance
  auto found = table.find(use.op->name);
  return found == table.end() ? 0 : std::max(found->second, sums * std::sqrt(summed(use)) / 2);
}

double element(const Array& array, int64_t i) {
  switch (array.dtype) {
    case DType::F16: return half_to_float(array.read<uint16_t>(i));
    case DType::F32: return array.read<float>(i);
    default: return array.read<double>(i);
  }
}

double epsilon(DType dtype) { return std::ldexp(1.0, dtype == DType::F16 ? -10 : dtype == DType::F32 ? -23 : -52); }

/// The first element that differs, in words; empty if none does. Any NaN equals any other.
std::string difference(const Array& found, const Array& expected, double limit) {
  if (found.dtype != expected.dtype || found.shape != expected.shape) return "another type";
  if (found == expected) return {};
  int64_t size = byte_size(found.dtype);
  for (int64_t i = 0; i < expected.elements(); ++i) {
    if (std::equal(&found.bytes[i * size], &found.bytes[i * size] + size, &expected.bytes[i * size])) continue;
    std::string at = "element " + std::to_string(i);
    if (!is_float(found.dtype)) return at;
    double f = element(found, i), e = element(expected, i);
    if (std::isnan(f) && std::isnan(e)) continue;
    double error = std::abs(f - e) / (epsilon(found.dtype) * std::max(std::abs(e), 1.0));
    if (!(error <= limit))
      return at + " is " + std::to_string(f) + ", not " + std::to_string(e) + ": " + std::to_string(error) + " ulp";
  }
  return {};
}

std::vector<Array> compiled(const graph::Module& module, const std::vector<Array>& inputs, int level) {
  driver::CompileOptions options;
  options.opt_level = level;
  runtime::Session session(driver::load(driver::build(driver::run_pipeline(module, options), options)));
  for (size_t i = 0; i < inputs.size(); ++i) session.set_input("x" + std::to_string(i), inputs[i]);
  session.run();
  std::vector<Array> out;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) out.push_back(session.output(i));
  return out;
}

/// Several cases as one module, each with inputs and outputs of its own.
struct Batch {
  graph::Module module;
  std::vector<Array> fed;
  struct Use {
    const OpCase* what;
    std::vector<Array> operands;
    std::vector<TensorType> results;
    size_t first_output;
  };
  std::vector<Use> uses;
};

Batch make_batch(std::span<const OpCase> cases, std::mt19937_64& random) {
  Batch batch;
  graph::Builder b(batch.module, "main");
  std::vector<graph::ValueId> params, outputs;
  std::vector<std::string> names;
  for (const OpCase& use : cases) {
    Batch::Use made{&use, {}, {}, 0};
    for (const test::OpOperand& operand : use.operands) {
      made.operands.push_back(test::draw(operand, random));
      if (operand.constant) continue;
      params.push_back(b.param("x" + std::to_string(params.size()), operand.type));
      batch.fed.push_back(made.operands.back());
    }
    batch.uses.push_back(std::move(made));
  }
  auto next = params.begin();
  for (Batch::Use& use : batch.uses) {
    std::vector<graph::ValueId> operands;
    for (size_t k = 0; k < use.operands.size(); ++k)
      operands.push_back(use.what->operands[k].constant ? b.constant(use.operands[k]) : *next++);
    use.first_output = outputs.size();
    for (graph::ValueId result : b.call(*use.what->op, operands, use.what->attrs)) {
      use.results.push_back(b.type(result));
      names.push_back("y" + std::to_string(outputs.size()));
      outputs.push_back(result);
    }
  }
  batch.module.functions.emplace("main", b.finish(outputs, names));
  return batch;
}

class OperatorSweep : public testing::TestWithParam<const graph::OpDef*> {
 protected:
  void check(std::span<const OpCase> cases, std::mt19937_64 random) {
    Batch batch = make_batch(cases, random);
    try {
      compare(batch);
    } catch (const std::exception& error) {
      if (cases.size() == 1) return report(cases[0], error.what());
      for (const OpCase& use : cases) check({&use, 1}, random);
    }
  }

  void report(const OpCase& use, const std::string& what) {
    if (reported_++ < kReported) ADD_FAILURE() << to_string(use) << ": " << what;
    if (reported_ == kReported) ADD_FAILURE() << "and more";
  }

 private:
  void compare(const Batch& batch) {
    std::vector<Array> expected = graph::interpret(batch.module, "main", batch.fed);
    for (int level : {0, 3}) expect_same(batch, compiled(batch.module, batch.fed, level), expected, "-O" + std::to_string(level));
    std::vector<Array> folded = expected;
    for (const Batch::Use& use : batch.uses)
      if (auto values = graph::fold_node(*use.what->op, use.operands, use.results, use.what->attrs, int64_t{1} << 20))
        std::ranges::copy(*values, folded.begin() + static_cast<ptrdiff_t>(use.first_output));
    expect_same(batch, folded, expected, "folded");
  }

  void expect_same(const Batch& batch, const std::vector<Array>& found, const std::vector<Array>& expected,
                   const std::string& how) {
    ASSERT_EQ(found.size(), expected.size());
    for (const Batch::Use& use : batch.uses)
      for (size_t k = use.first_output; k < use.first_output + use.results.size(); ++k)
        if (std::string text = difference(found[k], expected[k], ulps(*use.what)); !text.empty())
          report(*use.what, how + ": " + text);
  }

  int reported_ = 0;
};

std::vector<OpCase> cases_of(const graph::OpDef& op) {
  std::vector<OpCase> cases;
  test::each_case(op, [&](const OpCase& use) { cases.push_back(use); });
  return cases;
}

/// A few cases of each dtype, chosen by the operator's name alone.
std::vector<OpCase> sample(std::vector<OpCase> cases, std::mt19937_64& random) {
  std::ranges::shuffle(cases, random);
  std::map<DType, size_t> taken;
  std::erase_if(cases, [&](const OpCase& use) { return taken[test::swept_dtype(use)]++ >= kSampleForEachDType; });
  return cases;
}

TEST_P(OperatorSweep, InterpreterEqualsGeneratedCode) {
  const graph::OpDef& op = *GetParam();
  std::seed_seq seed(op.name.begin(), op.name.end());
  std::mt19937_64 random(seed);
  std::vector<OpCase> cases = cases_of(op);
  if (!exhaustive()) cases = sample(std::move(cases), random);
  RecordProperty("cases", std::to_string(cases.size()));
  for (size_t begin = 0; begin < cases.size(); begin += kBatch)
    check(std::span(cases).subspan(begin, std::min(kBatch, cases.size() - begin)), random);
}

INSTANTIATE_TEST_SUITE_P(Op, OperatorSweep, testing::ValuesIn(op::all_ops().all().begin(), op::all_ops().all().end()),
                         [](const auto& info) { return std::string(info.param->name); });

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(", ", at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return parts;
}

/// Each gap of each operator in sweep_gaps.txt, as `operator: gap`.
std::set<std::string> listed_gaps() {
  std::ifstream file(tests_dir() + "/property/sweep_gaps.txt");
  std::set<std::string> listed;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    size_t gaps = line.find(": "), reason = line.find(": ", gaps + 1);
    EXPECT_NE(reason, line.npos) << line;
    for (const std::string& op : split_list(line.substr(0, gaps)))
      for (const std::string& gap : split_list(line.substr(gaps + 2, reason - gaps - 2))) listed.insert(op + ": " + gap);
  }
  return listed;
}

/// What one set has and another lacks.
std::vector<std::string> missing(const std::set<std::string>& from, const std::set<std::string>& all) {
  std::vector<std::string> out;
  std::ranges::set_difference(all, from, std::back_inserter(out));
  return out;
}

TEST(OperatorSweepCoverage, EveryOperatorDTypeRankAndExtentButTheListedGaps) {
  std::set<std::string> gaps;
  for (const graph::OpDef* op : op::all_ops().all()) {
    std::string name(op->name);
    std::set<DType> dtypes;
    std::set<int64_t> ranks, extents;
    test::each_case(*op, [&](const OpCase& use) {
      const TensorType& data = use.operands[0].type;
      dtypes.insert(data.dtype);
      ranks.insert(data.rank());
      for (int64_t extent : data.static_shape()) extents.insert(extent);
    });
    for (DType dtype : test::kSweptDTypes)
      if (graph::contains(op->dtypes, dtype) && !dtypes.contains(dtype))
        gaps.insert(name + ": " + std::string(tenon::name(dtype)));
    for (int64_t rank = 0; rank < test::kSweptRanks; ++rank)
      if (!ranks.contains(rank)) gaps.insert(name + ": rank " + std::to_string(rank));
    for (int64_t extent : test::kSweptExtents)
      if (!extents.contains(extent)) gaps.insert(name + ": extent " + std::to_string(extent));
  }
  EXPECT_EQ(missing(listed_gaps(), gaps), std::vector<std::string>{}) << "these gaps are not listed";
  EXPECT_EQ(missing(gaps, listed_gaps()), std::vector<std::string>{}) << "these listed gaps are none";
}

}  // namespace
}  // namespace tenon
