// SPDX-License-Identifier: Apache-2.0
// From external functions to code, with every check of what a generator gives.
#include "driver/externals.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/parallel.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "driver/attributes.h"
#include "driver/flops.h"
#include "external/csource/csource.h"
#include "external/onednn/onednn.h"
#include "passes/graph/partition.h"

namespace tenon::driver {
namespace {

using external::Region;
using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

using Generator = std::shared_ptr<const external::ExternalCodegen>;

struct BuiltIn {
  std::string_view name;
  Generator (*make)(external::Options options);
};
constexpr BuiltIn kBuiltIn[] = {{"csource", external::make_csource}, {"onednn", external::make_onednn}};

std::string built_in_names() {
  std::string names;
  for (const BuiltIn& entry : kBuiltIn) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

bool is_built_in(std::string_view name) {
  return std::any_of(std::begin(kBuiltIn), std::end(kBuiltIn), [&](const BuiltIn& entry) { return entry.name == name; });
}

[[noreturn]] void fail_generator(const std::string& name, const std::string& function) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Missing,
                                .code = "component-missing",
                                .message = fmt::format("external code generator `{}` is not part of this build", name),
                                .input = "--external",
                                .expected = "one of " + built_in_names() + ", or none",
                                .found = name,
                                .function = function});
}

Generator make_generator(const std::string& name, external::Options options, const std::string& function) {
  for (const BuiltIn& entry : kBuiltIn)
    if (entry.name == name) return entry.make(std::move(options));
  fail_generator(name, function);
}

/// The generator that a function names: one of the build's, or else a built-in one as it is without options.
Generator generator_of(const Function& function, const CompileOptions& options) {
  const std::string& name = std::get<std::string>(function.attrs.at("external"));
  for (const Generator& generator : options.external.generators)
    if (generator->name() == name) return generator;
  return make_generator(name, {}, function.name);
}

Region region_of(const Module& module, const Function& function, const Target& target) {
  Region region{function, lower::symbol_of(function), {}, target};
  if (region.symbol != function.name)
    throw CompileError(Diagnostic{.code = "external-symbol",
                                  .message = fmt::format("`@{}` has the symbol `{}`", function.name, region.symbol),
                                  .expected = "external functions that are called by their symbols, as after `lower`",
                                  .found = region.symbol,
                                  .function = function.name});
  std::set<std::string_view> seen;
  for (const Node& node : function.nodes)
    if (node.kind == NodeKind::Constant && seen.insert(node.callee).second)
      region.constants.push_back({node.callee, module.constants.at(node.callee)});
  return region;
}

/// One external function with what its generator gave.
struct Job {
  const Function* function;
  Generator generator;
  Region region;
  external::Result result;

  const std::vector<std::string>& constants() const {
    return std::visit([](const auto& r) -> const std::vector<std::string>& { return r.constants; }, result);
  }
};

[[noreturn]] void refuse(const Job& job, std::string code, std::string message, std::string expected, std::string found) {
  throw CompileError(Diagnostic{.code = std::move(code),
                                .message = fmt::format("external code generator `{}`, function `@{}`: {}", job.generator->name(),
                                                       job.region.symbol, message),
                                .input = std::string(job.generator->name()),
                                .expected = std::move(expected),
                                .found = std::move(found),
                                .function = job.function->name,
                                .hint = "the generator is wrong; --external none compiles without it"});
}

std::vector<Job> compile_jobs(const Module& module, const CompileOptions& options) {
  Target target = target_of(module);
  std::vector<Job> jobs;
  for (const auto& [name, function] : module.functions)
    if (lower::is_external(function)) {
      Region region = region_of(module, function, target);
      jobs.push_back({&function, generator_of(function, options), std::move(region), {}});
    }
  if (options.external.off && !jobs.empty())
    throw CompileError(Diagnostic{.kind = ErrorKind::Mismatch,
                                  .code = "stage-mismatch",
                                  .message = fmt::format("the module was partitioned for `{}`", jobs[0].generator->name()),
                                  .input = "--external",
                                  .expected = "none",
                                  .found = std::string(jobs[0].generator->name()),
                                  .function = jobs[0].function->name,
                                  .hint = "leave the option out, or start from a stage before `partition`"});
  parallel_for(jobs.size(), options.workers, [&](size_t i) { jobs[i].result = jobs[i].generator->compile(jobs[i].region); });
  return jobs;
}

/// Every name that code defines has one owner, and every external function's symbol has one.
class Symbols {
 public:
  explicit Symbols(const Module& module) {
    for (const auto& [name, function] : module.prim_funcs) owner_.emplace(name, fmt::format("loop function `@{}`", name));
  }

  void add(const Job& job) {
    const std::string& symbol = job.region.symbol;
    if (std::holds_alternative<external::LoopResult>(job.result)) define(job, symbol);
    const auto* code = std::get_if<external::CodeResult>(&job.result);
    if (!code) return;
    if (code->kernel) return define(job, symbol);
    std::optional<codegen::ObjectSymbols> symbols = codegen::object_symbols(code->object);
    if (!symbols)
      refuse(job, "external-object", fmt::format("the {} bytes it gave are no object file", code->object.size()),
             "a relocatable ELF object", fmt::format("{} bytes", code->object.size()));
    for (const std::string& name : symbols->defined) define(job, name);
    for (const std::string& name : symbols->undefined)
      if (!codegen::links(name)) wanted_.emplace_back(&job, name);
  }

  void check_all(const std::vector<Job>& jobs) const {
    for (const Job& job : jobs)
      if (!owner_.contains(job.region.symbol))
        refuse(job, "missing-symbol", fmt::format("nothing defines the symbol `{}`", job.region.symbol),
               "code that defines the function's symbol", "none");
    for (const auto& [job, name] : wanted_)
      if (!owner_.contains(name))
        refuse(*job, "missing-symbol", fmt::format("its object calls `{}`, which nothing defines", name),
               "calls of what the objects of the build and libm define", name);
  }

 private:
  void define(const Job& job, const std::string& name) {
    auto [known, inserted] = owner_.emplace(name, fmt::format("the code for `@{}`", job.region.symbol));
    if (!inserted)
      refuse(job, "duplicate-symbol", fmt::format("its code defines `{}`, as does {}", name, known->second),
             "symbols that nothing else defines", name);
  }

  std::map<std::string, std::string, std::less<>> owner_;  // by symbol, in words
  std::vector<std::pair<const Job*, std::string>> wanted_;
};

void check_constants(const Job& job) {
  for (const std::string& name : job.constants()) {
    auto same = [&](const external::RegionConstant& constant) { return constant.name == name; };
    if (std::any_of(job.region.constants.begin(), job.region.constants.end(), same)) continue;
    std::string all;
    for (const external::RegionConstant& constant : job.region.constants) all += (all.empty() ? "" : ", ") + constant.name;
    refuse(job, "external-constant", fmt::format("it asks for the constant `{}`, which the region does not read", name),
           all.empty() ? "no constants" : all, name);
  }
}

Function with_passed_constants(Module& module, const Function& from, const std::map<std::string_view, const Job*>& jobs) {
  graph::Rewriter rewriter(module, from);
  for (const Node& old : from.nodes) {
    auto job = old.kind == NodeKind::CallLowered ? jobs.find(old.callee) : jobs.end();
    if (job == jobs.end() || job->second->constants().empty()) {
      rewriter.keep(old);
      continue;
    }
    Node node = old;
    node.inputs = rewriter(std::span<const ValueId>(old.inputs));
    for (const std::string& name : job->second->constants()) node.inputs.push_back(rewriter.builder().constant_ref(name));
    std::vector<ValueId> results = rewriter.builder().append(std::move(node));
    for (uint32_t k = 0; k < results.size(); ++k) rewriter.replace(old.result(k), results[k]);
  }
  return rewriter.finish();
}

/// Floating-point operations of a region, as our own code for it would count them.
double flops_of(const Module& module, Function function) {
  function.attrs = {{"primitive", true}};
  lower::Lowered lowered = lower::lower_primitive(module, function);
  return lowered.func ? count_flops(*lowered.func) : 0;
}

/// What the code of a region takes and gives: a loop function whose body is elsewhere.
tir::PrimFunc declaration(const Module& module, const Job& job) {
  tir::PrimFunc function;
  function.name = job.region.symbol;
  auto add = [&](const TensorType& type) {
    function.params.emplace_back(
        tir::BufferData{.name = fmt::format("p{}", function.params.size()), .dtype = type.dtype, .shape = type.shape});
  };
  for (const graph::Param& param : job.function->params) add(param.type);
  for (const std::string& name : job.constants()) add(type_of(module.constants.at(name)));
  function.num_inputs = static_cast<int64_t>(function.params.size());
  for (ValueId v : job.function->results) add(job.function->type(v));
  function.attrs = {{"flops", flops_of(module, *job.function)}, {"scheduled", true}};
  return function;
}

void check_signature(const Job& job, const tir::PrimFunc& want, const tir::PrimFunc& found) {
  auto text = [](const tir::PrimFunc& function) {
    std::string out = fmt::format("{}scheduled, {} inputs of (", function.scheduled() ? "" : "un", function.num_inputs);
    for (const tir::Buffer& buffer : function.params)
      out += fmt::format("{}{}", out.back() == '(' ? "" : ", ", to_string(TensorType(buffer->dtype, buffer->shape)));
    return out + ")";
  };
  tir::PrimFunc unscheduled = want;
  unscheduled.attrs.clear();
  if (text(found) != text(unscheduled))
    refuse(job, "external-signature", "the loop function it gave does not take and give what the region does", text(unscheduled),
           text(found));
}

void take_code(Externals& out, const Job& job, const external::CodeResult& code) {
  if (code.kernel)
    out.kernels.emplace(job.region.symbol, *code.kernel);
  else
    out.objects.push_back(code.object);
  out.scratch[job.region.symbol] = tir::opaque_scratch(code.shared_scratch_bytes, code.worker_scratch_bytes);
}

}  // namespace

Module partition_module(Module module, const CompileOptions& options) {
  if (options.external.off) return pass::inline_external(std::move(module));
  for (const Generator& generator : options.external.generators) {
    auto units = [&](const Function& function) { return external::find_matches(function, generator->patterns()); };
    module = pass::partition(std::move(module), {std::string(generator->name()), generator->merges(), units});
  }
  return module;
}

Externals compile_externals(const Module& scheduled, const CompileOptions& options) {
  std::vector<Job> jobs = compile_jobs(scheduled, options);
  if (jobs.empty()) return {.module = scheduled};
  Symbols symbols(scheduled);
  std::map<std::string_view, const Job*> by_symbol;
  for (const Job& job : jobs) {
    symbols.add(job);
    check_constants(job);
    by_symbol.emplace(job.region.symbol, &job);
  }
  symbols.check_all(jobs);

  Externals out{.module = scheduled};
  for (auto& [name, function] : out.module.functions)
    if (!by_symbol.contains(name)) function = with_passed_constants(out.module, function, by_symbol);
  for (Job& job : jobs) {
    ++out.regions[std::string(job.generator->name())];
    tir::PrimFunc function = declaration(scheduled, job);
    if (const auto* code = std::get_if<external::CodeResult>(&job.result)) take_code(out, job, *code);
    if (auto* loops = std::get_if<external::LoopResult>(&job.result)) {
      check_signature(job, function, loops->func);
      function = std::move(loops->func);
      function.name = job.region.symbol;
    }
    out.module.functions.erase(job.region.symbol);
    out.module.prim_funcs.emplace(job.region.symbol, std::move(function));
  }
  out.module = order_module(schedule_module(std::move(out.module), options), options);
  return out;
}

bool has_own_generators(const CompileOptions& options) {
  auto own = [](const Generator& generator) { return !is_built_in(generator->name()); };
  return std::any_of(options.external.generators.begin(), options.external.generators.end(), own);
}

void add_generator(ExternalOptions& options, Generator generator) {
  constexpr std::string_view kWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  std::string name(generator->name());
  bool taken = is_built_in(name) || name == "none";
  for (const Generator& other : options.generators) taken |= other->name() == name;
  if (taken || name.empty() || name.find_first_not_of(kWord) != name.npos)
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "external-name",
                                  .message = fmt::format("an external code generator cannot be called {}", quote(name)),
                                  .input = name,
                                  .expected = "letters, digits and `_`, and no name of another generator",
                                  .found = quote(name)});
  options.generators.push_back(std::move(generator));
}

void add_external(ExternalOptions& options, const std::string& text) {
  auto usage = [&](std::string message) {
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "external-option",
                                  .message = std::move(message),
                                  .input = "--external",
                                  .expected = "none, or a name and words of the form -key=value",
                                  .found = text});
  };
  std::vector<std::string> words;
  for (size_t begin = text.find_first_not_of(' '); begin != text.npos; begin = text.find_first_not_of(' ', begin)) {
    size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  if (words.empty()) return usage("--external names nothing");
  external::Options given;
  for (size_t i = 1; i < words.size(); ++i) {
    size_t equals = words[i].find('=');
    if (words[i][0] != '-' || equals == std::string::npos) return usage(fmt::format("`{}` is no option", words[i]));
    given[words[i].substr(1, equals - 1)] = words[i].substr(equals + 1);
  }
  if (words[0] == "none") {
    external::refuse_options(given, "none", "no options");
    options.off = true;
    return;
  }
  std::string test = external::take_option(given, "self-test", "on");
  if (test != "on" && test != "off") external::refuse_option_value("self-test", test, "on or off");
  options.self_test = options.self_test && test == "on";
  options.generators.push_back(make_generator(words[0], std::move(given), ""));
}

}  // namespace tenon::driver
