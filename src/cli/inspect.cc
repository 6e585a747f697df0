// SPDX-License-Identifier: Apache-2.0
// `tenon inspect MODEL_OR_ARTIFACT`
#include <fmt/format.h>

#include <cstring>

#include "cli/cli.h"
#include "cli/memory_json.h"
#include "cli/options.h"
#include "cli/output.h"

namespace tenon::cli {
namespace {

struct InspectCommand {
  ModelOptions model;
  bool memory = false;
};

Json tensors(const std::vector<runtime::TensorSpec>& specs) {
  Json list = Json::array();
  for (const runtime::TensorSpec& spec : specs)
    list.push_back({{"name", spec.name}, {"dtype", name(spec.dtype)}, {"shape", spec.shape}});
  return list;
}

/// A dimension as a number where it is one.
Json dimension(const std::string& text) {
  bool number = !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
  return number ? Json(std::stoll(text)) : Json(text);
}

Json tensors(const std::vector<onnx::ModelInfo::Value>& values) {
  Json list = Json::array();
  for (const onnx::ModelInfo::Value& value : values) {
    Json shape = Json::array();
    for (const std::string& extent : value.shape) shape.push_back(dimension(extent));
    list.push_back({{"name", value.name}, {"dtype", value.dtype}, {"shape", shape}});
  }
  return list;
}

Json full_memory(const runtime::Program& program) {
  Json json = memory_json(program);
  json["planner"] = program.planner;
  if (program.plan_time_limit_ms > 0) json["time_limit_ms"] = program.plan_time_limit_ms;
  json["pools"] = Json::array();
  for (const runtime::Arena& arena : program.arenas)
    json["pools"].push_back({{"name", arena.name}, {"bytes", arena.bytes}, {"lower_bound_bytes", arena.lower_bound}});
  json["kernels"] = kernel_memory_json(program);
  return json;
}

Json inspect_compiled(const ModelOptions& model) {
  runtime::Program program = driver::is_folder(model.path)
                                 ? runtime::read_tvm_program(model.path, {.allow_unknown_params = model.allow_unknown_params})
                                 : runtime::read_artifact_program(model.path);
  Json ops = Json::object();
  for (const runtime::Step& step : program.steps) {
    std::string kernel = step.kernel == runtime::Step::kCopy ? "copy" : program.kernels[step.kernel];
    ops[kernel] = ops.value(kernel, 0) + 1;
  }
  Json components = Json::object();
  for (const runtime::ComponentKernel& kernel : program.component_kernels)
    components[kernel.component] = components.value(kernel.component, 0) + 1;
  return {{"kind", "artifact"},
          {"model", program.model},
          {"target", program.target},
          {"features", program.features},
          {"opt_level", program.opt_level},
          {"inputs", tensors(program.inputs)},
          {"outputs", tensors(program.outputs)},
          {"opsets", Json::object()},
          {"nodes", program.steps.size()},
          {"ops", ops},
          {"components", components},
          {"unsupported", Json::array()},
          {"memory", full_memory(program)}};
}

Json inspect_text(const std::string& path) {
  graph::Module module = driver::read_text(path);
  Json inputs = Json::array(), outputs = Json::array();
  Json ops = Json::object();
  size_t nodes = 0;
  auto tensor = [](const std::string& name, const TensorType& type) {
    Json shape = Json::array();
    for (const Dim& dim : type.shape) shape.push_back(dimension(to_string(dim)));
    return Json{{"name", name}, {"dtype", tenon::name(type.dtype)}, {"shape", shape}};
  };
  if (auto main = module.functions.find("main"); main != module.functions.end()) {
    const graph::Function& function = main->second;
    for (const graph::Param& param : function.params) inputs.push_back(tensor(param.name, param.type));
    for (size_t i = 0; i < function.results.size(); ++i)
      outputs.push_back(tensor(function.result_names.empty() ? fmt::format("out{}", i) : function.result_names[i],
                               function.type(function.results[i])));
    for (const graph::Node& node : function.nodes) {
      if (node.kind == graph::NodeKind::Constant) continue;
      std::string op = node.kind == graph::NodeKind::Op ? std::string(node.op->name) : node.callee;
      ops[op] = ops.value(op, 0) + 1;
      ++nodes;
    }
  }
  return {{"kind", "tenon"},
          {"inputs", inputs},
          {"outputs", outputs},
          {"opsets", Json::object()},
          {"nodes", nodes},
          {"ops", ops},
          {"functions", module.functions.size()},
          {"primfuncs", module.prim_funcs.size()},
          {"unsupported", Json::array()},
          {"memory", nullptr}};
}

Json inspect_onnx(const std::string& path) {
  onnx::ModelInfo info = onnx::inspect_file(path);
  Json unsupported = Json::array();
  for (const onnx::Unsupported& u : info.unsupported)
    unsupported.push_back({{"node", u.node}, {"op", u.op}, {"opset", u.opset}, {"reason", u.reason}});
  return {{"kind", "onnx"},
          {"inputs", tensors(info.inputs)},
          {"outputs", tensors(info.outputs)},
          {"opsets", info.opsets},
          {"nodes", info.nodes},
          {"ops", info.ops},
          {"unsupported", unsupported},
          {"metadata", info.metadata},
          {"memory", nullptr}};
}

std::string type_text(const Json& tensor) {
  std::string shape;
  for (const Json& extent : tensor["shape"])
    shape += (shape.empty() ? "" : ",") + (extent.is_string() ? extent.get<std::string>() : extent.dump());
  return fmt::format("{}[{}]", tensor["dtype"].get<std::string>(), shape);
}

std::string readable_memory(const Json& memory) {
  std::string out;
  for (const auto& [key, value] : memory.items())
    if (!value.is_array()) out += fmt::format("memory  {} {}\n", key, value.dump());
  auto number = [](const Json& row, const char* key) { return row[key].get<uint64_t>(); };
  for (const Json& pool : memory["pools"])
    out += fmt::format("pool    {} {} bytes, lower bound {}\n", pool["name"].get<std::string>(), number(pool, "bytes"),
                       number(pool, "lower_bound_bytes"));
  for (const Json& kernel : memory["kernels"])
    out += fmt::format("kernel  {} in and out {}, constants {}, workspace {} and {} for each worker\n",
                       kernel["name"].get<std::string>(), number(kernel, "io_bytes"), number(kernel, "constant_bytes"),
                       number(kernel, "workspace_bytes"), number(kernel, "worker_bytes"));
  return out;
}

std::string readable(const Json& json) {
  std::string out = fmt::format("{}: {} nodes\n", json["kind"].get<std::string>(), json["nodes"].get<int64_t>());
  for (const char* key : {"inputs", "outputs"})
    for (const Json& tensor : json[key])
      out += fmt::format("{:<8}{} {}\n", std::string(key, std::strlen(key) - 1), tensor["name"].get<std::string>(),
                         type_text(tensor));
  for (const auto& [domain, version] : json["opsets"].items())
    out += fmt::format("opset   {} {}\n", domain.empty() ? "ai.onnx" : domain, version.get<int64_t>());
  for (const auto& [op, count] : json["ops"].items()) out += fmt::format("op      {} {}\n", op, count.get<int64_t>());
  for (const Json& u : json["unsupported"])
    out += fmt::format("unsupported {} `{}`: {}\n", u["op"].get<std::string>(), u["node"].get<std::string>(),
                       u["reason"].get<std::string>());
  if (json.contains("components"))
    for (const auto& [name, kernels] : json["components"].items())
      out += fmt::format("needs   {} for {} kernels\n", name, kernels.dump());
  if (!json["memory"].is_null()) out += readable_memory(json["memory"]);
  return out;
}

int inspect(const InspectCommand& command) {
  const std::string& path = command.model.path;
  bool compiled = driver::is_compiled(path);
  Json json = compiled ? inspect_compiled(command.model) : path.ends_with(".tenon") ? inspect_text(path) : inspect_onnx(path);
  if (command.memory && !compiled) {
    driver::CompileOptions options = command.model.compile_options();
    graph::Module module = driver::load_and_run_pipeline(path, options);
    json["memory"] = full_memory(driver::build(module, options).program);
  }
  command.model.json ? print_json(json) : print(readable(json));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App* sub = app.add_subcommand("inspect", "Show inputs, outputs, operators and what is not supported");
  command->model.add_to(*sub, "MODEL_OR_ARTIFACT");
  sub->add_flag("--memory", command->memory, "Compile a model to show its memory too");
  sub->callback([&action, command] { action = [command] { return inspect(*command); }; });
}

}  // namespace tenon::cli
