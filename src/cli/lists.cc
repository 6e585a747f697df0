// SPDX-License-Identifier: Apache-2.0
// `tenon ops`, `tenon passes`, `tenon targets`: what this build can do.
#include <fmt/format.h>

#include <set>

#include "cli/cli.h"
#include "cli/output.h"
#include "driver/driver.h"
#include "op/all_ops.h"
#include "passes/graph/passes.h"

namespace tenon::cli {
namespace {

std::string_view fusion_name(graph::Fusion fusion) {
  switch (fusion) {
    case graph::Fusion::ElementWise: return "element-wise";
    case graph::Fusion::Broadcast: return "broadcast";
    case graph::Fusion::Injective: return "injective";
    case graph::Fusion::Reduction: return "reduction";
    case graph::Fusion::OutputFusable: return "output-fusable";
    case graph::Fusion::Opaque: return "opaque";
  }
  return "";
}

int list_ops(bool json) {
  Json ops = Json::array(), onnx = Json::array();
  std::string text = "operators of Tenon\n";
  for (const graph::OpDef* op : op::all_ops().all()) {
    Json dtypes = Json::array();
    std::string joined;
    for (DType dtype : kAllDTypes)
      if (graph::contains(op->dtypes, dtype)) {
        dtypes.push_back(name(dtype));
        joined += fmt::format("{}{}", joined.empty() ? "" : " ", name(dtype));
      }
    ops.push_back({{"name", op->name},
                   {"doc", op->doc},
                   {"fusion", fusion_name(op->fusion)},
                   {"dtypes", dtypes},
                   {"dtype_note", op->dtype_note}});
    text += fmt::format("  {:<24} {:<14} {}\n{:27}{}\n", op->name, fusion_name(op->fusion), joined, "", op->doc);
  }
  text += "operators of ONNX, each with the first opset of a rule\n";
  for (const op::OnnxRule& rule : op::all_onnx_rules()) {
    onnx.push_back({{"op", rule.op_type}, {"since", rule.since}});
    text += fmt::format("  {} {}\n", rule.op_type, rule.since);
  }
  json ? print_json(Json{{"ops", ops}, {"onnx", onnx}}) : print(text);
  return 0;
}

int list_passes(bool json) {
  Json passes = Json::array();
  std::string text = "in the order of a compile:\n";
  std::set<std::string_view> seen;
  for (const driver::PipelineStep& step : driver::pipeline()) {
    seen.insert(step.name);
    passes.push_back({{"name", step.name}, {"summary", step.summary}, {"min_opt_level", step.min_opt_level}, {"default", true}});
    text += fmt::format("  {:<34} -O{}+  {}\n", step.name, step.min_opt_level, step.summary);
  }
  for (const pass::Pass* pass : pass::graph_passes()) {
    if (seen.contains(pass->name)) continue;
    passes.push_back({{"name", pass->name}, {"summary", pass->summary}, {"min_opt_level", nullptr}, {"default", false}});
    text += fmt::format("  {:<34} only `tenon opt`  {}\n", pass->name, pass->summary);
  }
  json ? print_json(passes) : print(text);
  return 0;
}

int list_targets(bool json) {
  Json kinds = Json::array();
  for (const char* kind : {"llvm", "c", "opencl", "cuda"})
    kinds.push_back({{"kind", kind}, {"available", std::string_view(kind) == "llvm"}});
  std::string text =
      fmt::format("this machine: {}\nback ends: llvm (c, opencl and cuda are not part of this build)\nprocessors for -mcpu:\n",
                  host_target().text());
  for (const std::string& cpu : known_cpus()) text += fmt::format("  {}\n", cpu);
  json ? print_json(Json{{"host", host_target().text()}, {"kinds", kinds}, {"cpus", known_cpus()}}) : print(text);
  return 0;
}

}  // namespace

void add_lists(CLI::App& app, Action& action) {
  struct List {
    const char *name, *help;
    int (*print)(bool json);
  };
  static constexpr List kLists[] = {{"ops", "List the operators", list_ops},
                                    {"passes", "List the passes in the order of a compile", list_passes},
                                    {"targets", "List the targets", list_targets}};
  for (const List& list : kLists) {
    auto json = std::make_shared<bool>(false);
    CLI::App* sub = app.add_subcommand(list.name, list.help);
    sub->add_flag("--json", *json, "Print one JSON value");
    sub->callback([&action, &list, json] { action = [&list, json] { return list.print(*json); }; });
  }
}

}  // namespace tenon::cli
