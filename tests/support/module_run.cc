// SPDX-License-Identifier: Apache-2.0
// Building and running modules.
#include "support/module_run.h"

#include <gtest/gtest.h>

#include "graph/interpret.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "runtime/session.h"
#include "support/onnx_tensor.h"

namespace tenon::test {
namespace {

using graph::Module;

/// Parameters become constants of the same values, so that folding meets them.
Module with_constants(Module module, const std::vector<Array>& inputs) {
  graph::Function& main = module.functions.at("main");
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name = "input_" + std::to_string(i);
    module.constants[name] = inputs[i];
    graph::Node node{.kind = graph::NodeKind::Constant, .callee = name, .types = {main.params[i].type}};
    node.first_result = static_cast<uint32_t>(i);
    main.nodes.insert(main.nodes.begin() + static_cast<std::ptrdiff_t>(i), std::move(node));
  }
  main.params.clear();
  return module;
}

void expect_arrays(const std::vector<Array>& got, const std::vector<Array>& want, double off, const std::string& how) {
  ASSERT_EQ(got.size(), want.size()) << how;
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(difference(got[i], want[i], off, off), "") << how << ", result " << i;
}

std::vector<Array> build_and_run(Module module, int level, bool link, const std::vector<Array>& inputs) {
  module.attrs["opt_level"] = int64_t{level};
  module.attrs["link_params"] = link;
  driver::CompileOptions options{.verify_each = true};
  return run_once(driver::load(driver::build(driver::run_pipeline(std::move(module), options), options)), inputs);
}

}  // namespace

std::vector<Array> run_once(std::shared_ptr<const runtime::Executable> executable, const std::vector<Array>& inputs) {
  runtime::Session session(std::move(executable));
  for (size_t i = 0; i < inputs.size(); ++i) session.set_input(session.program().inputs[i].name, inputs[i]);
  session.run();
  std::vector<Array> outputs;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) outputs.push_back(session.output(i));
  return outputs;
}

void expect_results(const std::string& text, const std::vector<Array>& inputs, const std::vector<Array>& want, double off) {
  Module module = graph::parse("test", text, op::all_ops());
  expect_arrays(graph::interpret(module, "main", inputs), want, off, "interpreted");
  for (int level : {0, 1, 3})
    for (bool link : {false, true}) {
      std::string how = "-O" + std::to_string(level) + (link ? " linked" : "");
      expect_arrays(build_and_run(module, level, link, inputs), want, off, how);
      if (!inputs.empty())
        expect_arrays(build_and_run(with_constants(module, inputs), level, link, {}), want, off, how + ", constants");
    }
}

}  // namespace tenon::test
