// SPDX-License-Identifier: Apache-2.0
// The public C++ interface: modules and functions as text on the outside, as IR on the inside.
#include "tenon/compiler.h"

#include <fmt/format.h>

#include "api/external.h"
#include "api/own_errors.h"
#include "driver/driver.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "schedule/steps.h"
#include "tir/text.h"

namespace tenon {
namespace {

using api::own_errors;

ConstantLookup lookup_in(const tir::ConstantBytes& constants) {
  return [&constants](std::string_view hash) {
    auto it = constants.find(hash);
    return it == constants.end() ? std::span<const std::byte>() : it->second.bytes;
  };
}

driver::Slot slot_of(PassSlot slot) {
  switch (slot) {
    case PassSlot::AfterFuse: return driver::Slot::AfterFuse;
    case PassSlot::AfterLower: return driver::Slot::AfterLower;
    case PassSlot::BeforePlan: return driver::Slot::BeforePlan;
    case PassSlot::AfterPlan: return driver::Slot::AfterPlan;
  }
  fail_internal("a slot is one of the enumeration");
}

driver::GivenPass on_ir(const ModulePass& pass) {
  auto run = [pass](const graph::Module& module, const driver::Planned* planned) {
    tir::ConstantBytes constants;
    std::string text = graph::print(module, &constants);
    std::string plan = planned ? plan::write_plan_csv(planned->problem, planned->plan) : "";
    std::string result = own_errors(pass.name, [&] { return pass.run({text, plan, lookup_in(constants)}); });
    return result == text ? module : graph::parse(fmt::format("<pass {}>", pass.name), result, op::all_ops(), constants);
  };
  return {pass.name, slot_of(pass.slot), run};
}

schedule::GivenProvider on_ir(const ScheduleProvider& provider) {
  auto answer = [provider](const schedule::Request& request) -> std::optional<schedule::GivenAnswer> {
    tir::ConstantBytes constants;
    std::string text = tir::print(request.func, &constants), target = request.target.text();
    ScheduleAnswer answer =
        own_errors(provider.name, [&] { return provider.schedule({text, target, request.opt_level, lookup_in(constants)}); });
    std::string file = fmt::format("<provider {}>", provider.name);
    if (const auto* steps = std::get_if<ScheduleSteps>(&answer))
      return schedule::GivenAnswer{by_steps(schedule::replay(request.func, file, steps->text)), true};
    if (const auto* function = std::get_if<ScheduledFunction>(&answer))
      return schedule::GivenAnswer{{.func = tir::parse_prim_func(file, function->text, constants)}};
    return std::nullopt;
  };
  return {provider.name, answer};
}

driver::CompileOptions on_ir(const BuildOptions& options) {
  driver::CompileOptions out;
  out.target = options.target;
  out.opt_level = options.opt_level;
  out.workers = options.workers;
  out.link_params = options.link_params;
  out.dump_dir = options.dump_dir;
  out.import.input_shapes.insert(options.input_shapes.begin(), options.input_shapes.end());
  if (!options.cache_dir.empty()) out.cache = driver::open_cache(options.cache_dir);
  if (!options.pools.empty()) out.memory.pools = options.pools;
  out.memory.pins.insert(options.pins.begin(), options.pins.end());
  out.memory.planner = options.planner;
  for (const ModulePass& pass : options.passes) out.extensions.passes.push_back(on_ir(pass));
  for (const ScheduleProvider& provider : options.schedules) out.extensions.schedules.push_back(on_ir(provider));
  out.external.self_test = options.external_self_test;
  for (const ExternalCodegen& generator : options.generators) driver::add_generator(out.external, api::on_ir(generator));
  for (const std::string& text : options.external) driver::add_external(out.external, text);
  return out;
}

template <class Work>
auto public_errors(const Work& work) {
  try {
    return work();
  } catch (const CompileError& error) {
    throw Error(static_cast<int>(error.kind()), error.diagnostics()[0].code, error.what());
  } catch (const std::bad_alloc&) {
    throw Error(static_cast<int>(ErrorKind::Limit), "out-of-memory", "there is not enough memory");
  } catch (const std::exception& error) {
    throw Error(static_cast<int>(ErrorKind::Internal), "internal-error", error.what());
  }
}

}  // namespace

void compile(const std::string& model, const std::string& artifact, const BuildOptions& options) {
  public_errors([&] {
    driver::CompileOptions on = on_ir(options);
    driver::write(driver::build(driver::load_and_run_pipeline(model, on), on), artifact);
  });
}

std::string module_after(const std::string& model, const std::string& pass, const BuildOptions& options) {
  return public_errors([&] {
    driver::CompileOptions on = on_ir(options);
    on.stop_after = pass;
    return graph::print(driver::load_and_run_pipeline(model, on));
  });
}

}  // namespace tenon
