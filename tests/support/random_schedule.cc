// SPDX-License-Identifier: Apache-2.0
// Arguments for each primitive.
#include "support/random_schedule.h"

#include <algorithm>

#include "schedule/primitives/analysis.h"

namespace tenon::test {

using namespace schedule;
using tir::as;
using tir::For;
using tir::ForKind;

namespace {

const For& loop_of(const Place& place) { return *as<For>(place.stmt); }
constexpr auto serial = [](const Place& place) { return loop_of(place).loop_kind == ForKind::Serial; };
constexpr auto has_loop_inside = [](const Place& place) { return as<For>(loop_of(place).body) != nullptr; };

/// Whether each block inside binds a spatial variable to the loop and no reduce variable.
bool spatial(const Program& program, const Place& place) {
  std::string name(var_name(loop_of(place).var));
  std::vector<const BlockPlace*> blocks = program.blocks_in(place.stmt);
  return std::all_of(blocks.begin(), blocks.end(), [&](const BlockPlace* b) {
    return bound_loops(*b->block, tir::IterKind::Spatial).contains(name) &&
           !bound_loops(*b->block, tir::IterKind::Reduce).contains(name);
  });
}

}  // namespace

const Place* StepProposer::some_loop(const Program& program, function_ref<bool(const Place&)> fits) {
  std::vector<const Place*> list;
  for (const Place& p : program.loops())
    if (fits(p)) list.push_back(&p);
  return list.empty() ? nullptr : any(list);
}

const BlockPlace* StepProposer::some_block(const Program& program, function_ref<bool(const BlockPlace&)> fits) {
  std::vector<const BlockPlace*> list;
  for (const BlockPlace& p : program.blocks())
    if (fits(p)) list.push_back(&p);
  return list.empty() ? nullptr : any(list);
}

StepProposer::Args StepProposer::split(const Program& program) {
  const Place* loop = some_loop(program, [](const Place& p) { return serial(p) && extent_of(loop_of(p)) > 2; });
  if (!loop) return std::nullopt;
  int64_t extent = extent_of(loop_of(*loop));
  return {{program.loop_name(loop_of(*loop)), std::to_string(2 + pick(static_cast<int>(extent) - 2))}};
}

StepProposer::Args StepProposer::fuse(const Program& program) {
  const Place* outer = some_loop(program, [](const Place& p) {
    return serial(p) && has_loop_inside(p) && as<For>(loop_of(p).body)->loop_kind == ForKind::Serial;
  });
  if (!outer) return std::nullopt;
  return {{program.loop_name(loop_of(*outer)), program.loop_name(*as<For>(loop_of(*outer).body))}};
}

StepProposer::Args StepProposer::reorder(const Program& program) {
  const Place* outer = some_loop(program, has_loop_inside);
  if (!outer) return std::nullopt;
  std::vector<std::string> names;
  for (const For* l = &loop_of(*outer); l; l = as<For>(l->body))
    if (names.size() < 2 || pick(2)) names.push_back(program.loop_name(*l));
  std::shuffle(names.begin(), names.end(), random_);
  return {names};
}

StepProposer::Args StepProposer::independent(const Program& program) {
  const Place* loop = some_loop(program, [&](const Place& p) { return serial(p) && (pick(8) == 0 || spatial(program, p)); });
  if (!loop) return std::nullopt;
  return {{program.loop_name(loop_of(*loop))}};
}

StepProposer::Args StepProposer::any_serial(const Program& program) {
  const Place* loop = some_loop(program, serial);
  if (!loop) return std::nullopt;
  return {{program.loop_name(loop_of(*loop))}};
}

std::optional<Step> StepProposer::propose(const tir::PrimFunc& function) {
  struct Choice {
    const char* primitive;
    Args (StepProposer::*args)(const Program&);
  };
  static constexpr Choice kChoices[] = {
      {"split", &StepProposer::split},           {"fuse", &StepProposer::fuse},         {"reorder", &StepProposer::reorder},
      {"vectorize", &StepProposer::independent}, {"unroll", &StepProposer::any_serial}, {"parallel", &StepProposer::independent},
  };
  const Choice& choice = kChoices[pick(static_cast<int>(std::size(kChoices)))];
  Args args = (this->*choice.args)(Program(function));
  if (!args) return std::nullopt;
  return Step{choice.primitive, *args, {}, {}};
}

}  // namespace tenon::test
