// SPDX-License-Identifier: Apache-2.0
// Taking steps: arguments by name, new names, the record, replay.
#include "schedule/primitives/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "schedule/primitives/primitives.h"
#include "tir/text.h"

namespace tenon::schedule {

using tir::PrimFunc;

namespace {

/// The arguments of one step as its primitive wants them.
class Arguments {
 public:
  Arguments(const PrimFunc& func, Step& step) : func_(func), step_(step) {}

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
  const std::vector<std::string>& all() const { return step_.args; }

 private:
  [[noreturn]] void fail(std::string message, std::string expected, std::string found) const {
    fail_step("schedule-arguments", {.message = std::move(message), .expected = std::move(expected), .found = std::move(found)});
  }
  const PrimFunc& func_;
  Step& step_;
};

using Run = PrimFunc (*)(const PrimFunc& func, Arguments& args);

struct Primitive {
  std::string_view name;
  std::string_view usage;
  size_t min_args, max_args;
  std::vector<std::string_view> keys;
  Run run;
};

constexpr size_t kAny = 64;

const std::vector<Primitive>& primitives() {
  static const std::vector<Primitive> list = {
      {"cache_read",
       "cache_read BLOCK BUFFER SCOPE [name=NAME]",
       3,
       3,
       {"name"},
       [](const PrimFunc& f, Arguments& a) {
         return step::cache_read(f, a.name(0), a.name(1), a.name(2), a.new_name("name", a.name(1) + "_" + a.name(2)));
       }},
      {"cache_write",
       "cache_write BLOCK BUFFER SCOPE [name=NAME]",
       3,
       3,
       {"name"},
       [](const PrimFunc& f, Arguments& a) {
         return step::cache_write(f, a.name(0), a.name(1), a.name(2), a.new_name("name", a.name(1) + "_" + a.name(2)));
       }},
      {"compute_at",
       "compute_at BLOCK LOOP",
       2,
       2,
       {},
       [](const PrimFunc& f, Arguments& a) { return step::compute_at(f, a.name(0), a.name(1)); }},
      {"compute_inline",
       "compute_inline BLOCK",
       1,
       1,
       {},
       [](const PrimFunc& f, Arguments& a) { return step::compute_inline(f, a.name(0)); }},
      {"decompose_reduction",
       "decompose_reduction BLOCK LOOP",
       2,
       2,
       {},
       [](const PrimFunc& f, Arguments& a) { return step::decompose_reduction(f, a.name(0), a.name(1)); }},
      {"fuse",
       "fuse LOOP LOOP [into=NAME]",
       2,
       2,
       {"into"},
       [](const PrimFunc& f, Arguments& a) {
         return step::fuse(f, a.name(0), a.name(1), a.new_name("into", a.variable(0) + "_" + a.variable(1)));
       }},
      {"parallel", "parallel LOOP", 1, 1, {}, [](const PrimFunc& f, Arguments& a) { return step::parallel(f, a.name(0)); }},
      {"reorder", "reorder LOOP LOOP…", 2, kAny, {}, [](const PrimFunc& f, Arguments& a) { return step::reorder(f, a.all()); }},
      {"reverse_compute_at",
       "reverse_compute_at BLOCK LOOP",
       2,
       2,
       {},
       [](const PrimFunc& f, Arguments& a) { return step::reverse_compute_at(f, a.name(0), a.name(1)); }},
      {"reverse_compute_inline",
       "reverse_compute_inline BLOCK",
       1,
       1,
       {},
       [](const PrimFunc& f, Arguments& a) { return step::reverse_compute_inline(f, a.name(0)); }},
      {"set_scope",
       "set_scope BUFFER SCOPE",
       2,
       2,
       {},
       [](const PrimFunc& f, Arguments& a) { return step::set_scope(f, a.name(0), a.name(1)); }},
      {"split",
       "split LOOP FACTOR [outer=NAME] [inner=NAME]",
       2,
       2,
       {"outer", "inner"},
       [](const PrimFunc& f, Arguments& a) {
         std::string outer = a.new_name("outer", a.variable(0) + "_o"), inner = a.new_name("inner", a.variable(0) + "_i");
         return step::split(f, a.name(0), a.integer(1), outer, inner);
       }},
      {"unroll", "unroll LOOP", 1, 1, {}, [](const PrimFunc& f, Arguments& a) { return step::unroll(f, a.name(0)); }},
      {"vectorize", "vectorize LOOP", 1, 1, {}, [](const PrimFunc& f, Arguments& a) { return step::vectorize(f, a.name(0)); }},
  };
  return list;
}

const Primitive& find_primitive(const Step& step) {
  std::string names;
  for (const Primitive& p : primitives()) {
    if (p.name == step.primitive) return p;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", p.name);
  }
  fail_step("schedule-unknown-primitive", {.message = fmt::format("there is no primitive `{}`", step.primitive),
                                           .expected = "one of " + names,
                                           .found = step.primitive});
}

void check_usage(const Primitive& primitive, const Step& step) {
  bool known = std::all_of(step.named.begin(), step.named.end(), [&](const auto& entry) {
    return std::find(primitive.keys.begin(), primitive.keys.end(), entry.first) != primitive.keys.end();
  });
  if (known && step.args.size() >= primitive.min_args && step.args.size() <= primitive.max_args) return;
  fail_step("schedule-arguments", {.message = fmt::format("`{}` does not take these arguments", primitive.name),
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
    Arguments args(func_, step);
    PrimFunc next = primitive.run(func_, args);
    require_kinds_kept(func_, next);
    try {
      tir::verify(next);
    } catch (const CompileError& error) {
      fail_internal(fmt::format("`{}` leaves a broken function: {}\n{}", print(step), error.what(), tir::print(next)));
    }
    func_ = std::move(next);
    trace_.push_back(std::move(step));
  } catch (const CompileError& error) {
    Diagnostic d = error.diagnostics().front();
    d.function = func_.name;
    d.node = fmt::format("`{}`", written);
    d.span = step.span;
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

PrimFunc replay(const PrimFunc& func, std::string_view trace_file, std::string_view trace_text,
                const IntrinsicLookup& intrinsics) {
  Schedule schedule(func, intrinsics);
  for (Step& step : parse_trace(trace_file, trace_text)) schedule.apply(std::move(step));
  return schedule.func();
}

}  // namespace tenon::schedule
