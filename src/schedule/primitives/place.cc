// SPDX-License-Identifier: Apache-2.0
// Finding and replacing parts of a function's body.
#include "schedule/primitives/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tir/text.h"

namespace tenon::schedule {

using namespace tir;

void fail_step(std::string code, Refusal refusal) {
  throw CompileError(Diagnostic{.code = std::move(code),
                                .message = std::move(refusal.message),
                                .expected = std::move(refusal.expected),
                                .found = std::move(refusal.found),
                                .hint = std::move(refusal.hint)});
}

std::string_view var_name(const Expr& variable) { return as<Var>(variable)->name; }

int64_t extent_of(const For& loop) { return int_value(loop.extent); }

bool runs_on_workers(ForKind kind) { return kind == ForKind::Parallel || is_block_axis(kind); }

namespace {

bool lists(const std::vector<Region>& regions, const Buffer& buffer) {
  return std::any_of(regions.begin(), regions.end(), [&](const Region& r) { return r.buffer->name == buffer->name; });
}

void split_condition(const Expr& condition, std::vector<Expr>& out) {
  const Binary* b = as<Binary>(condition);
  if (b && b->op == BinaryOp::And) {
    split_condition(b->a, out);
    split_condition(b->b, out);
  } else {
    out.push_back(condition);
  }
}

}  // namespace

bool writes(const Block& block, const Buffer& buffer) { return lists(block.writes, buffer); }
bool reads(const Block& block, const Buffer& buffer) { return lists(block.reads, buffer); }

bool Place::inside(const Stmt& s) const {
  return std::any_of(around.begin(), around.end(), [&](const Stmt& a) { return a.same_as(s); });
}

std::vector<const For*> Place::loops(const Stmt& within) const {
  std::vector<const For*> out;
  bool seen = !within;
  for (const Stmt& s : around) {
    seen |= s.same_as(within);
    if (const For* loop = as<For>(s); loop && seen) out.push_back(loop);
  }
  return out;
}

std::vector<Expr> Place::guards(const Stmt& within) const {
  std::vector<Expr> out;
  bool seen = !within;
  for (const Stmt& s : around) {
    seen |= s.same_as(within);
    if (const If* branch = as<If>(s); branch && seen) split_condition(branch->condition, out);
  }
  return out;
}

VarMap BlockPlace::bindings() const {
  VarMap out;
  for (const IterVar& iter : block->iters) out[std::string(var_name(iter.var))] = iter.binding;
  return out;
}

Program::Program(const PrimFunc& func) : func_(func) {
  std::vector<Stmt> around;
  index(func.body, around);
}

void Program::index(const Stmt& s, std::vector<Stmt>& around) {
  orders_[s.get()] = orders_.size();
  if (const Block* b = as<Block>(s)) {
    blocks_.push_back({{s, around}, b});
    return;
  }
  if (as<Store>(s) || as<Let>(s))
    fail_step("schedule-outside-block", {.message = fmt::format("`{}` computes outside blocks", func_.name),
                                         .expected = "loops, branches without `else` and declarations around blocks",
                                         .found = print(s),
                                         .hint = "apply the steps before the pass `schedule`"});
  if (as<Allocate>(s) || as<AllocateConst>(s)) declarations_.push_back({s, around});
  if (const For* loop = as<For>(s)) {
    const int64_t *min = as_int(loop->min), *extent = as_int(loop->extent);
    if (!min || *min != 0 || !extent || *extent < 1)
      fail_step("schedule-bounds", {.message = fmt::format("loop `{}` is not over [0, a positive number)", var_name(loop->var)),
                                    .expected = "loops that start at 0 and have a positive number as extent",
                                    .found = fmt::format("{} extent {}", print(loop->min), print(loop->extent)),
                                    .hint = "fix the shapes with --input-shapes"});
    Range& range = ranges_[std::string(var_name(loop->var))];
    range = {0, std::max(range.high, *extent - 1)};  // several nests may use one name
    loops_.push_back({s, around});
  }
  if (const If* branch = as<If>(s); branch && branch->else_case)
    fail_step("schedule-outside-block", {.message = fmt::format("`{}` branches two ways around blocks", func_.name),
                                         .expected = "loops, branches without `else` and declarations around blocks",
                                         .found = print(branch->condition)});
  around.push_back(s);
  for_each_child(s, [&](const Stmt& child) { index(child, around); }, [](const Expr&) {});
  around.pop_back();
}

void fail_no_block(std::string_view name, std::span<const std::string_view> blocks) {
  std::string names;
  for (std::string_view block : blocks) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", block);
  fail_step("schedule-no-block",
            {.message = fmt::format("there is no block `{}`", name), .expected = "one of " + names, .found = std::string(name)});
}

const BlockPlace& Program::block(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const BlockPlace& b : blocks_) {
    if (b.block->name == name) return b;
    names.emplace_back(b.block->name);
  }
  fail_no_block(name, names);
}

const Place& Program::loop(std::string_view name) const {
  std::vector<const Place*> found;
  for (const Place& l : loops_)
    if (var_name(as<For>(l.stmt)->var) == name) found.push_back(&l);
  if (found.size() == 1) return *found[0];
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
    for (const BlockPlace& b : blocks_) {
      if (b.block->name != name.substr(0, dot)) continue;
      for (const Place& l : loops_)
        if (b.inside(l.stmt) && var_name(as<For>(l.stmt)->var) == name.substr(dot + 1)) return l;
    }
  fail_step("schedule-no-loop", {.message = found.empty() ? fmt::format("there is no loop `{}`", name)
                                                          : fmt::format("{} loops are called `{}`", found.size(), name),
                                 .expected = "the name of a loop's variable, or BLOCK.VARIABLE",
                                 .found = std::string(name),
                                 .hint = "print the function to see its loops"});
}

std::string Program::loop_name(const For& loop) const {
  std::string variable(var_name(loop.var));
  auto same = [&](const Place& l) { return var_name(as<For>(l.stmt)->var) == variable; };
  if (std::count_if(loops_.begin(), loops_.end(), same) == 1) return variable;
  for (const BlockPlace& b : blocks_)
    for (const For* l : b.loops())
      if (l == &loop) return b.block->name + '.' + variable;
  return variable;
}

Buffer Program::buffer(std::string_view name) const {
  for (const Buffer& p : func_.params)
    if (p->name == name) return p;
  for (const Place& d : declarations_) {
    const Allocate* a = as<Allocate>(d.stmt);
    const Buffer& buffer = a ? a->buffer : as<AllocateConst>(d.stmt)->buffer;
    if (buffer->name == name) return buffer;
  }
  fail_step("schedule-no-buffer", {.message = fmt::format("there is no buffer `{}`", name),
                                   .expected = "a parameter or a buffer declared outside blocks",
                                   .found = std::string(name)});
}

bool Program::is_param(const Buffer& buffer) const {
  return std::any_of(func_.params.begin(), func_.params.end(), [&](const Buffer& p) { return p->name == buffer->name; });
}

const Place& Program::declaration(const Buffer& buffer) const {
  for (const Place& d : declarations_) {
    const Allocate* a = as<Allocate>(d.stmt);
    if ((a ? a->buffer : as<AllocateConst>(d.stmt)->buffer)->name == buffer->name) return d;
  }
  fail_internal("buffer `" + buffer->name + "` has no declaration");
}

std::vector<const BlockPlace*> Program::writers(const Buffer& buffer) const {
  std::vector<const BlockPlace*> out;
  for (const BlockPlace& b : blocks_)
    if (schedule::writes(*b.block, buffer)) out.push_back(&b);
  return out;
}

std::vector<const BlockPlace*> Program::readers(const Buffer& buffer) const {
  std::vector<const BlockPlace*> out;
  for (const BlockPlace& b : blocks_)
    if (schedule::reads(*b.block, buffer)) out.push_back(&b);
  return out;
}

std::vector<const BlockPlace*> Program::blocks_in(const Stmt& s) const {
  std::vector<const BlockPlace*> out;
  for (const BlockPlace& b : blocks_)
    if (b.stmt.same_as(s) || b.inside(s)) out.push_back(&b);
  return out;
}

std::vector<Buffer> shared_written(const Program& program, const Stmt& s) {
  std::set<std::string> own;
  visit(s, [&](const Stmt& part) {
    if (const Allocate* a = as<Allocate>(part)) own.insert(a->buffer->name);
  });
  std::vector<Buffer> out;
  for (const BlockPlace* b : program.blocks_in(s))
    for (const Region& r : b->block->writes)
      if (own.insert(r.buffer->name).second) out.push_back(r.buffer);
  return out;
}

namespace {

/// One statement for a list of what is left; null for an empty one.
Stmt joined(std::vector<Stmt> list) {
  if (list.empty()) return {};
  return list.size() == 1 && !as<Allocate>(list[0]) ? list[0] : scoped(std::move(list));
}

/// Null where nothing is left.
Stmt splice_in(const Stmt& s, const Stmt& old, const std::vector<Stmt>& with) {
  if (s.same_as(old)) return joined(with);
  if (const Seq* list = as<Seq>(s)) {
    std::vector<Stmt> out;
    bool changed = false;
    for (const Stmt& child : list->stmts) {
      if (child.same_as(old)) {
        out.insert(out.end(), with.begin(), with.end());
        changed = true;
        continue;
      }
      Stmt mapped = splice_in(child, old, with);
      changed |= !mapped.same_as(child);
      if (mapped) out.push_back(std::move(mapped));
    }
    return changed ? joined(std::move(out)) : s;
  }
  if (const For* loop = as<For>(s)) {
    Stmt body = splice_in(loop->body, old, with);
    if (body.same_as(loop->body)) return s;
    return body ? for_loop(loop->var, loop->min, loop->extent, loop->loop_kind, body) : body;
  }
  if (const If* branch = as<If>(s)) {
    Stmt body = splice_in(branch->then_case, old, with);
    if (body.same_as(branch->then_case)) return s;
    return body ? if_then(branch->condition, body) : body;
  }
  return s;
}

}  // namespace

Stmt splice(const Stmt& root, const Stmt& old, const std::vector<Stmt>& with) {
  Stmt out = splice_in(root, old, with);
  return out ? out : scoped({});
}

Stmt replace(const Stmt& root, const Stmt& old, const Stmt& with) {
  return splice(root, old, with ? std::vector<Stmt>{with} : std::vector<Stmt>{});
}

Stmt nest(const std::vector<Axis>& axes, Stmt body) {
  for (size_t i = axes.size(); i-- > 0;) body = for_loop(axes[i].var, Expr(0), Expr(axes[i].extent), ForKind::Serial, body);
  return body;
}

Expr conjunction(const std::vector<Expr>& conditions) {
  Expr out;
  for (const Expr& c : conditions) out = out ? logical_and(out, c) : c;
  return out;
}

Stmt guard(const Expr& condition, const Stmt& s) {
  if (const For* loop = as<For>(s))
    return for_loop(loop->var, loop->min, loop->extent, loop->loop_kind, guard(condition, loop->body));
  if (const Seq* list = as<Seq>(s)) {
    std::vector<Stmt> out;
    for (const Stmt& child : list->stmts) out.push_back(guard(condition, child));
    return scoped(std::move(out));
  }
  if (const If* branch = as<If>(s)) return if_then(logical_and(branch->condition, condition), branch->then_case);
  return as<Block>(s) ? if_then(condition, s) : s;
}

PrimFunc with_body(const PrimFunc& func, Stmt body) {
  PrimFunc out = func;
  out.body = std::move(body);
  return out;
}

std::string new_name(const PrimFunc& func, std::string_view wanted, std::string_view base) {
  NameSupply names(func);
  if (wanted.empty()) return names.fresh(base);
  if (!is_printable_name(wanted) || names.fresh(wanted) != wanted)
    fail_step("schedule-name", {.message = fmt::format("`{}` cannot be a new name", wanted),
                                .expected = "a word of letters, digits and `_` that the function does not use",
                                .found = std::string(wanted)});
  return std::string(wanted);
}

}  // namespace tenon::schedule
