// SPDX-License-Identifier: Apache-2.0
// Taking steps: arguments by name, new names, the record, replay.
#include "schedule/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/text.h"
#include "passes/tir/passes.h"
#include "schedule/construct.h"
#include "schedule/primitives/place.h"
#include "schedule/primitives/primitives.h"
#include "tir/text.h"

namespace tenon::schedule {

using tir::PrimFunc;

namespace {

Trace open_nests(const Trace& taken) {
  Trace out;
  for (const Step& step : taken) {
    if (step.primitive == "construct") out.clear();
    if (is_nest_step(step)) out.push_back(step);
  }
  return out;
}

/// The arguments of one step as its primitive wants them, and the steps before.
class Arguments {
 public:
  Arguments(const PrimFunc& func, Step& step, const Trace& taken, const IntrinsicLookup& intrinsics)
      : func_(func), step_(step), taken_(taken), intrinsics_(intrinsics) {}

  const Step& step() const { return step_; }
  /// The nest steps that are not constructed yet.
  Trace open_nests() const { return schedule::open_nests(taken_); }

  const std::string& name(size_t i) const { return step_.args[i]; }
  /// The variable of a loop given as `i` or `conv.i`.
  std::string variable(size_t i) const { return name(i).substr(name(i).rfind('.') + 1); }
  int64_t integer(size_t i) const {
    const std::string& text = step_.args[i];
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      fail(fmt::format("`{}` is no number", text), "an integer", text);
    return value;
  }
  /// The value of `key=`; a free name like `base` if it is not given, which the step then records.
  std::string new_name(const std::string& key, std::string_view base) {
    std::string& value = step_.named[key];
    value = schedule::new_name(func_, value, base);
    return value;
  }
  size_t count() const { return step_.args.size(); }
  std::vector<std::string> names(size_t count) const {
    return {step_.args.begin(), step_.args.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  /// The arguments from one on.
  std::vector<int64_t> integers(size_t first) const {
    std::vector<int64_t> out;
    for (size_t i = first; i < count(); ++i) out.push_back(integer(i));
    return out;
  }
  const PrimFunc& function(size_t i) const {
    const PrimFunc* found = intrinsics_ ? intrinsics_(name(i)) : nullptr;
    if (!found) fail(fmt::format("there is no loop function `{}`", name(i)), "a loop function of the same module", name(i));
    return *found;
  }

 private:
  [[noreturn]] void fail(std::string message, std::string expected, std::string found) const {
    fail_step("schedule-arguments", {.message = std::move(message), .expected = std::move(expected), .found = std::move(found)});
  }
  const PrimFunc& func_;
  Step& step_;
  const Trace& taken_;
  const IntrinsicLookup& intrinsics_;
};

using Run = PrimFunc (*)(const PrimFunc& func, Arguments& args);
using RunWhole = Scheduled (*)(const PrimFunc& func, Arguments& args);

struct Primitive {
  std::string_view usage;  // the name, then arguments: `X`, `X…` for one or more, `[X]`, `[key=X]`
  std::variant<Run, RunWhole> run;
};

/// A step that says what `construct` will make of blocks.
Scheduled note_nest(const PrimFunc& func, Arguments& args) {
  decisions_of({&args.step(), 1});
  std::vector<std::string_view> blocks;
  tir::visit(func.body, [&](const tir::Stmt& s) {
    if (const auto* block = tir::as<tir::Block>(s)) blocks.push_back(block->name);
  });
  for (size_t i = 0; i < args.count(); ++i)
    if (std::find(blocks.begin(), blocks.end(), args.name(i)) == blocks.end()) fail_no_block(args.name(i), blocks);
  return {func, {}, {}};
}
Scheduled note_share(const PrimFunc& func, Arguments& args) {
  decisions_of({&args.step(), 1});
  return {func, {}, {}};
}

Scheduled construct_nests(const PrimFunc& func, Arguments& args) {
  Trace steps = args.open_nests();
  steps.push_back(args.step());
  Scheduled out = schedule::construct(func, decisions_of(steps));
  out.func.attrs["scheduled"] = true;
  return out;
}

const std::vector<Primitive>& primitives() {
  static const std::vector<Primitive> list = {
      {"bind LOOP AXIS", [](const PrimFunc& f, Arguments& a) { return step::bind(f, a.name(0), a.name(1)); }},
      {"cache_read BLOCK BUFFER SCOPE [name=NAME]",
       [](const PrimFunc& f, Arguments& a) {
         return step::cache_read(f, a.name(0), a.name(1), a.name(2), a.new_name("name", a.name(1) + "_" + a.name(2)));
       }},
      {"cache_write BLOCK BUFFER SCOPE [name=NAME]",
       [](const PrimFunc& f, Arguments& a) {
         return step::cache_write(f, a.name(0), a.name(1), a.name(2), a.new_name("name", a.name(1) + "_" + a.name(2)));
       }},
      {"compute_at BLOCK LOOP", [](const PrimFunc& f, Arguments& a) { return step::compute_at(f, a.name(0), a.name(1)); }},
      {"compute_inline BLOCK", [](const PrimFunc& f, Arguments& a) { return step::compute_inline(f, a.name(0)); }},
      {"construct [fma=yes]", construct_nests},
      {"contraction BLOCK [epilogue=BLOCK] [lie=along|across] [rows=N] [vectors=N] [lanes=N] [v=STORAGE] [b=STORAGE] [block=N] "
       "[v_tiles=N] [b_tiles=N] [window=BLOCK] [window_lanes=N] [prefetch=yes] [worker=LOOP]",
       note_nest},
      {"decompose_reduction BLOCK LOOP",
       [](const PrimFunc& f, Arguments& a) { return step::decompose_reduction(f, a.name(0), a.name(1)); }},
      {"elementwise BLOCK [lanes=N] [worker=LOOP]", note_nest},
      {"fuse LOOP LOOP [into=NAME]",
       [](const PrimFunc& f, Arguments& a) {
         return step::fuse(f, a.name(0), a.name(1), a.new_name("into", a.variable(0) + "_" + a.variable(1)));
       }},
      {"inline BLOCK…", note_nest},
      {"keep_loops", [](const PrimFunc& f, Arguments&) { return naive({.func = f, .target = {}, .constant_params = {}}); }},
      {"lower_math [fma=yes]",
       [](const PrimFunc& f, Arguments& a) { return Scheduled{tir::lower_math(f, {fma_of(a.step())}), {}, {}}; }},
      {"pad BLOCK MULTIPLE…", [](const PrimFunc& f, Arguments& a) { return step::pad(f, a.name(0), a.integers(1)); }},
      {"parallel LOOP", [](const PrimFunc& f, Arguments& a) { return step::parallel(f, a.name(0)); }},
      {"reorder LOOP LOOP…", [](const PrimFunc& f, Arguments& a) { return step::reorder(f, a.names(a.count())); }},
      {"reverse_compute_at BLOCK LOOP",
       [](const PrimFunc& f, Arguments& a) { return step::reverse_compute_at(f, a.name(0), a.name(1)); }},
      {"reverse_compute_inline BLOCK",
       [](const PrimFunc& f, Arguments& a) { return step::reverse_compute_inline(f, a.name(0)); }},
      {"rfactor BLOCK LOOP [AXIS] [name=NAME]",
       [](const PrimFunc& f, Arguments& a) {
         return step::rfactor(f, a.name(0), a.name(1), a.count() > 2 ? a.integer(2) : 0, a.new_name("name", a.name(0) + "_rf"));
       }},
      {"row_reduction BLOCK [epilogue=BLOCK] [streams=N] [lanes=N] [worker=LOOP]", note_nest},
      {"scalar_reduction BLOCK [epilogue=BLOCK] [worker=LOOP]", note_nest},
      {"set_scope BUFFER SCOPE", [](const PrimFunc& f, Arguments& a) { return step::set_scope(f, a.name(0), a.name(1)); }},
      {"share COUNT [worker=LOOP]", note_share},
      {"spatial_reduction BLOCK [epilogue=BLOCK] [rows=N] [lanes=N] [worker=LOOP]", note_nest},
      {"split LOOP FACTOR [outer=NAME] [inner=NAME]",
       [](const PrimFunc& f, Arguments& a) {
         std::string outer = a.new_name("outer", a.variable(0) + "_o"), inner = a.new_name("inner", a.variable(0) + "_i");
         return step::split(f, a.name(0), a.integer(1), outer, inner);
       }},
      {"tensorize LOOP DESCRIPTION IMPLEMENTATION",
       [](const PrimFunc& f, Arguments& a) { return step::tensorize(f, a.name(0), a.function(1), a.function(2)); }},
      {"tile LOOP LOOP… FACTOR FACTOR…",
       [](const PrimFunc& f, Arguments& a) {
         size_t loops = a.count() / 2;
         return step::tile(f, a.names(loops), a.integers(loops));
       }},
      {"transform_layout BUFFER MAP",
       [](const PrimFunc& f, Arguments& a) { return step::transform_layout(f, a.name(0), a.name(1)); }},
      {"unroll LOOP", [](const PrimFunc& f, Arguments& a) { return step::unroll(f, a.name(0)); }},
      {"vectorize LOOP", [](const PrimFunc& f, Arguments& a) { return step::vectorize(f, a.name(0)); }},
  };
  return list;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t end = 0; end != text.npos; text.remove_prefix(std::min(text.size(), end + 1))) {
    end = text.find(' ');
    out.push_back(text.substr(0, end));
  }
  return out;
}

const Primitive& find_primitive(const Step& step) {
  std::string names;
  for (const Primitive& p : primitives()) {
    std::string_view name = words(p.usage)[0];
    if (name == step.primitive) return p;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  fail_step(
      "schedule-unknown-primitive",
      {.message = fmt::format("there is no step `{}`", step.primitive), .expected = "one of " + names, .found = step.primitive});
}

void check_usage(const Primitive& primitive, const Step& step) {
  size_t least = 0, most = 0, repeated = 0;
  std::vector<std::string_view> keys, parts = words(primitive.usage);
  for (std::string_view part : std::span(parts).subspan(1)) {
    if (size_t equals = part.find('='); equals != part.npos) {
      keys.push_back(part.substr(1, equals - 1));
      continue;
    }
    ++most;
    if (part[0] != '[') ++least;
    if (part.ends_with("…")) ++repeated;
  }
  bool fits =
      step.args.size() >= least && (step.args.size() <= most || repeated > 0) && (repeated < 2 || step.args.size() % 2 == 0);
  for (const auto& [key, value] : step.named) fits &= std::find(keys.begin(), keys.end(), key) != keys.end();
  if (!fits)
    fail_step("schedule-arguments", {.message = fmt::format("`{}` does not take these arguments", parts[0]),
                                     .expected = fmt::format("`{}`", primitive.usage),
                                     .found = fmt::format("`{}`", print(step))});
}

/// The named arguments that are given.
std::map<std::string, std::string, std::less<>> named(std::initializer_list<std::pair<std::string_view, std::string_view>> list) {
  std::map<std::string, std::string, std::less<>> out;
  for (const auto& [key, value] : list)
    if (!value.empty()) out.emplace(key, value);
  return out;
}

}  // namespace

Schedule::Schedule(PrimFunc func, IntrinsicLookup intrinsics) : func_(std::move(func)), intrinsics_(std::move(intrinsics)) {}

void Schedule::apply(Step step) {
  std::string written = print(step);
  try {
    const Primitive& primitive = find_primitive(step);
    check_usage(primitive, step);
    Arguments args(func_, step, trace_, intrinsics_);
    PrimFunc next;
    std::vector<PackedParam> packed;
    if (const Run* run = std::get_if<Run>(&primitive.run)) {
      next = (*run)(func_, args);
      require_kinds_kept(func_, next);
    } else {
      Scheduled whole = std::get<RunWhole>(primitive.run)(func_, args);
      next = std::move(whole.func);
      packed = std::move(whole.packed);
    }
    try {
      tir::verify(next);
    } catch (const CompileError& error) {
      fail_internal(fmt::format("`{}` leaves a broken function: {}\n{}", print(step), error.what(), tir::print(next)));
    }
    func_ = std::move(next);
    packed_.insert(packed_.end(), packed.begin(), packed.end());
    trace_.push_back(std::move(step));
  } catch (const CompileError& error) {
    Diagnostic d = error.diagnostics().front();
    d.function = func_.name;
    d.node = fmt::format("`{}`", written);
    d.span = step.span;
    d.excerpt.clear();
    throw CompileError(std::move(d));
  }
}

std::pair<std::string, std::string> Schedule::split(std::string_view loop, int64_t factor, std::string_view outer,
                                                    std::string_view inner) {
  apply({"split", {std::string(loop), std::to_string(factor)}, named({{"outer", outer}, {"inner", inner}}), {}});
  return {trace_.back().named["outer"], trace_.back().named["inner"]};
}

std::string Schedule::fuse(std::string_view outer, std::string_view inner, std::string_view into) {
  apply({"fuse", {std::string(outer), std::string(inner)}, named({{"into", into}}), {}});
  return trace_.back().named["into"];
}

void Schedule::reorder(const std::vector<std::string>& loops) { apply({"reorder", loops, {}, {}}); }
void Schedule::vectorize(std::string_view loop) { apply({"vectorize", {std::string(loop)}, {}, {}}); }
void Schedule::unroll(std::string_view loop) { apply({"unroll", {std::string(loop)}, {}, {}}); }
void Schedule::parallel(std::string_view loop) { apply({"parallel", {std::string(loop)}, {}, {}}); }
void Schedule::bind(std::string_view loop, std::string_view axis) {
  apply({"bind", {std::string(loop), std::string(axis)}, {}, {}});
}
void Schedule::compute_inline(std::string_view block) { apply({"compute_inline", {std::string(block)}, {}, {}}); }
void Schedule::reverse_compute_inline(std::string_view block) { apply({"reverse_compute_inline", {std::string(block)}, {}, {}}); }
void Schedule::compute_at(std::string_view block, std::string_view loop) {
  apply({"compute_at", {std::string(block), std::string(loop)}, {}, {}});
}
void Schedule::reverse_compute_at(std::string_view block, std::string_view loop) {
  apply({"reverse_compute_at", {std::string(block), std::string(loop)}, {}, {}});
}

std::string Schedule::cache_read(std::string_view block, std::string_view buffer, std::string_view scope, std::string_view name) {
  apply({"cache_read", {std::string(block), std::string(buffer), std::string(scope)}, named({{"name", name}}), {}});
  return trace_.back().named["name"];
}
std::string Schedule::cache_write(std::string_view block, std::string_view buffer, std::string_view scope,
                                  std::string_view name) {
  apply({"cache_write", {std::string(block), std::string(buffer), std::string(scope)}, named({{"name", name}}), {}});
  return trace_.back().named["name"];
}
void Schedule::set_scope(std::string_view buffer, std::string_view scope) {
  apply({"set_scope", {std::string(buffer), std::string(scope)}, {}, {}});
}
void Schedule::decompose_reduction(std::string_view block, std::string_view loop) {
  apply({"decompose_reduction", {std::string(block), std::string(loop)}, {}, {}});
}
std::string Schedule::rfactor(std::string_view block, std::string_view loop, int64_t axis, std::string_view name) {
  apply({"rfactor", {std::string(block), std::string(loop), std::to_string(axis)}, named({{"name", name}}), {}});
  return trace_.back().named["name"];
}

void Schedule::tile(const std::vector<std::string>& loops, const std::vector<int64_t>& factors) {
  Step step{"tile", loops, {}, {}};
  for (int64_t factor : factors) step.args.push_back(std::to_string(factor));
  apply(std::move(step));
}
void Schedule::pad(std::string_view block, const std::vector<int64_t>& multiples) {
  Step step{"pad", {std::string(block)}, {}, {}};
  for (int64_t multiple : multiples) step.args.push_back(std::to_string(multiple));
  apply(std::move(step));
}
void Schedule::transform_layout(std::string_view buffer, std::string_view map) {
  apply({"transform_layout", {std::string(buffer), std::string(map)}, {}, {}});
}
void Schedule::tensorize(std::string_view loop, std::string_view description, std::string_view implementation) {
  apply({"tensorize", {std::string(loop), std::string(description), std::string(implementation)}, {}, {}});
}

void Schedule::construct(const Decisions& decisions) {
  for (Step& step : steps_of(decisions)) apply(std::move(step));
}
void Schedule::keep_loops() { apply(keep_loops_step()); }
void Schedule::lower_math(bool fma) { apply(lower_math_step(fma)); }

Schedule replay(const PrimFunc& func, std::string_view trace_file, std::string_view trace_text,
                const IntrinsicLookup& intrinsics) {
  Schedule schedule(func, intrinsics);
  for (Step& step : parse_trace(trace_file, trace_text)) schedule.apply(std::move(step));
  if (Trace open = open_nests(schedule.trace()); !open.empty())
    throw CompileError(Diagnostic{.code = "schedule-nests-open",
                                  .message = "nothing constructs the nests that this step and its like name",
                                  .node = fmt::format("`{}`", print(open[0])),
                                  .expected = "`construct` as a later step",
                                  .found = "the end of the trace",
                                  .function = func.name,
                                  .span = open[0].span});
  return schedule;
}

Scheduled by_steps(const Schedule& steps) {
  Scheduled out{steps.func(), steps.packed(), print(steps.trace()), steps.trace()};
  out.func.attrs["scheduled"] = true;
  return out;
}

}  // namespace tenon::schedule
