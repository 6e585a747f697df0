// SPDX-License-Identifier: Apache-2.0
// Reads stages from loop nests and decides which are inlined, stored, or attached as epilogues.
#include "schedule/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "schedule/primitives/place.h"

namespace tenon::schedule {
namespace {

using namespace tir;

bool same_vars(const std::vector<Expr>& indices, const std::vector<Iter>& iters) {
  if (indices.size() != iters.size()) return false;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (iters[i].extent == 1) {
      const int64_t* k = as_int(indices[i]);
      if (k && *k == 0) continue;
    }
    const Var* v = as<Var>(indices[i]);
    if (!v || v->name != iters[i].name) return false;
  }
  return true;
}

/// The stores of a block's body with its Lets substituted.
bool read_stores(const Stmt& body, std::vector<const Store*>& stores, std::vector<Expr>& values) {
  VarMap lets;
  std::vector<Stmt> list;
  if (const Seq* s = as<Seq>(body))
    list = s->stmts;
  else
    list = {body};
  for (const Stmt& s : list) {
    if (const Let* l = as<Let>(s)) {
      lets[as<Var>(l->var)->name] = substitute(l->value, lets);
    } else if (const Store* store = as<Store>(s)) {
      stores.push_back(store);
      values.push_back(substitute(store->value, lets));
    } else {
      return false;
    }
  }
  return !stores.empty();
}

Expr replace_own_loads(const Expr& e, const Stage& stage) {
  if (!contains(e, ExprKind::Load)) return e;
  if (const Load* l = as<Load>(e))
    for (size_t k = 0; k < stage.outputs.size(); ++k)
      if (l->buffer->name == stage.outputs[k]->name && same_vars(l->indices, stage.spatial))
        return var(stage.carried[k], stage.outputs[k]->dtype);
  return map_children(e, [&](const Expr& child) { return replace_own_loads(child, stage); });
}

bool reads_buffer(const Expr& e, const std::vector<Buffer>& buffers) {
  bool found = false;
  visit_loads(e, [&](const Load& l) {
    for (const Buffer& b : buffers) found |= l.buffer->name == b->name;
  });
  return found;
}

/// A name for a block's variable: its own, but for one that a block before has used over another range.
std::string iter_name(const std::string& own, const Range& range, StageGraph& graph) {
  auto used = graph.ranges.find(own);
  if (used == graph.ranges.end() || (used->second.low == range.low && used->second.high == range.high)) return own;
  NameSupply names(*graph.func);
  for (const std::string& other : graph.renamed) names.reserve(other);
  return graph.renamed.emplace_back(names.fresh(own));
}

bool read_block(const Block& block, const std::vector<const For*>& loops, Stage& stage, StageGraph& graph) {
  stage.name = block.name;
  VarMap renamed;
  for (const IterVar& iter : block.iters) {
    const int64_t* extent = as_int(iter.extent);
    if (!extent) return false;
    const Var* bound = as<Var>(iter.binding);
    bool whole_loop = bound && std::any_of(loops.begin(), loops.end(), [&](const For* loop) {
                        return as<Var>(loop->var)->name == bound->name && int_value(loop->extent) == *extent;
                      });
    bool unit = as_int(iter.binding) && *extent == 1;
    if (!whole_loop && !unit) return false;
    const std::string& own = as<Var>(iter.var)->name;
    Iter it{iter_name(own, {0, *extent - 1}, graph), *extent};
    if (it.name != own) renamed[own] = it.var();
    graph.ranges[it.name] = {0, *extent - 1};
    (iter.kind == IterKind::Reduce ? stage.reduce : stage.spatial).push_back(it);
  }
  std::vector<const Store*> stores;
  Stmt body = renamed.empty() ? block.body : substitute(block.body, renamed);
  Stmt init = block.init && !renamed.empty() ? substitute(block.init, renamed) : block.init;
  if (!read_stores(body, stores, stage.values)) return false;
  for (const Store* s : stores) {
    if (!same_vars(s->indices, stage.spatial)) return false;
    stage.outputs.push_back(s->buffer);
  }
  if (!init)
    return stage.reduce.empty() &&
           !std::any_of(stage.values.begin(), stage.values.end(), [&](const Expr& v) { return reads_buffer(v, stage.outputs); });
  std::vector<const Store*> inits;
  if (!read_stores(init, inits, stage.init) || inits.size() != stores.size()) return false;
  for (size_t k = 0; k < inits.size(); ++k) {
    if (inits[k]->buffer->name != stores[k]->buffer->name || !same_vars(inits[k]->indices, stage.spatial)) return false;
    stage.carried.push_back(stage.outputs[k]->name + "__so_far");
  }
  for (Expr& v : stage.values) v = replace_own_loads(v, stage);
  return std::none_of(stage.values.begin(), stage.values.end(), [&](const Expr& v) { return reads_buffer(v, stage.outputs); });
}

bool read_nest(Stmt s, StageGraph& graph) {
  std::vector<const For*> loops;
  for (;;) {
    if (const For* loop = as<For>(s)) {
      const int64_t* min = as_int(loop->min);
      if (!min || *min != 0 || !as_int(loop->extent) || loop->loop_kind != ForKind::Serial) return false;
      loops.push_back(loop);
      s = loop->body;
      continue;
    }
    const Block* block = as<Block>(s);
    if (!block) return false;
    Stage stage;
    if (!read_block(*block, loops, stage, graph)) return false;
    graph.stages.push_back(std::move(stage));
    return true;
  }
}

/// How a stage's loads of one other stage look.
struct Use {
  int64_t distinct = 0;  // different index tuples
  bool guarded = false;  // some stand in one side of a Select
  bool identity = true;  // every one at the reader's own spatial indices
};

void find_uses(const Expr& e, bool guarded, const Buffer& of, const Stage& reader, std::vector<Expr>& seen, Use& use) {
  if (!contains(e, ExprKind::Load)) return;
  if (const Load* l = as<Load>(e); l && l->buffer->name == of->name) {
    use.guarded |= guarded;
    use.identity &= same_vars(l->indices, reader.spatial);
    if (std::none_of(seen.begin(), seen.end(), [&](const Expr& s) { return structural_equal(s, e); })) {
      seen.push_back(e);
      ++use.distinct;
    }
  }
  const Select* s = as<Select>(e);
  for_each_child(e, [&](const Expr& child) {
    bool inside = guarded || (s && !child.same_as(s->condition));
    find_uses(child, inside, of, reader, seen, use);
  });
}

Use uses_of(const Stage& producer, const Stage& reader) {
  Use use;
  std::vector<Expr> seen;
  for (const Buffer& out : producer.outputs) {
    for (const Expr& v : reader.values) find_uses(v, false, out, reader, seen, use);
    for (const Expr& v : reader.init) find_uses(v, false, out, reader, seen, use);
  }
  return use;
}

/// Operations of an expression that are not index arithmetic; an intrinsic or a division counts as ten.
int64_t cost_of(const Expr& e) {
  int64_t cost = 0;
  visit_exprs(e, [&](const Expr& x) {
    if (const Binary* b = as<Binary>(x)) {
      bool division =
          b->op == BinaryOp::Div || b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod || b->op == BinaryOp::TruncMod;
      cost += division ? 10 : x->dtype == DType::I64 ? 0 : 1;
    } else if (as<Call>(x)) {
      cost += 10;
    } else if (as<Select>(x)) {
      cost += 4;
    } else if (as<Load>(x)) {
      cost += 1;
    }
  });
  return cost;
}

constexpr int64_t kCheap = 4;  // recomputing this costs no more than storing and loading it

Expr replace_loads(const Expr& e, const NameMap<Expr>& values) {
  if (values.empty() || !contains(e, ExprKind::Load)) return e;
  const Load* l = as<Load>(e);
  auto it = l ? values.find(l->buffer->name) : values.end();
  if (it != values.end()) return it->second;
  return map_children(e, [&](const Expr& child) { return replace_loads(child, values); });
}

/// A stage of one constant becomes that constant wherever it is read.
void inline_constants(StageGraph& graph) {
  NameMap<Expr> values;
  std::erase_if(graph.stages, [&](Stage& s) {
    for (auto* list : {&s.values, &s.init})
      for (Expr& v : *list) v = replace_loads(v, values);
    if (!s.spatial.empty() || s.is_reduction() || s.outputs.size() != 1 || graph.is_kept(s.outputs[0])) return false;
    if (!as<IntImm>(s.values[0]) && !as<FloatImm>(s.values[0])) return false;
    values[s.outputs[0]->name] = s.values[0];
    return true;
  });
}

}  // namespace

int64_t Stage::points() const {
  int64_t n = 1;
  for (const Iter& i : spatial) n *= i.extent;
  return n;
}

int64_t Stage::reduce_points() const {
  int64_t n = 1;
  for (const Iter& i : reduce) n *= i.extent;
  return n;
}

const Stage* StageGraph::producer(const Buffer& buffer, size_t* output) const {
  for (const Stage& s : stages)
    for (size_t k = 0; k < s.outputs.size(); ++k)
      if (s.outputs[k]->name == buffer->name) {
        if (output) *output = k;
        return &s;
      }
  return nullptr;
}

bool StageGraph::is_param(const Buffer& buffer) const {
  return std::any_of(func->params.begin(), func->params.end(), [&](const Buffer& p) { return p->name == buffer->name; });
}

bool StageGraph::is_kept(const Buffer& buffer) const {
  auto placed = [&](const tir::BufferPlace& p) { return p.buffer == buffer->name; };
  return is_param(buffer) || std::any_of(places.begin(), places.end(), placed);
}

int64_t StageGraph::reads_of(const Buffer& buffer) const {
  int64_t reads = 0;
  for (const Stage& s : stages)
    for (const auto* list : {&s.values, &s.init})
      for (const Expr& e : *list) visit_loads(e, [&](const Load& l) { reads += l.buffer->name == buffer->name; });
  return reads;
}

std::optional<StageGraph> read_stages(const PrimFunc& func) {
  StageGraph graph;
  graph.func = &func;
  graph.places = tir::buffer_places(func);
  for (const Buffer& p : func.params)
    for (const Expr& extent : p->shape)
      if (!as_int(extent)) return std::nullopt;
  std::vector<Stmt> list;
  if (const Seq* s = as<Seq>(func.body))
    list = s->stmts;
  else
    list = {func.body};
  for (const Stmt& s : list) {
    if (as<Allocate>(s)) continue;
    if (const AllocateConst* c = as<AllocateConst>(s)) {
      graph.constants.emplace_back(c->buffer, c->data);
      continue;
    }
    if (!read_nest(s, graph)) return std::nullopt;
  }
  inline_constants(graph);
  return graph;
}

namespace {

/// Who reads whose results.
class Readers {
 public:
  explicit Readers(const StageGraph& graph) : graph_(graph), of_(graph.stages.size()), cost_(graph.stages.size()) {
    NameMap<size_t> by_buffer;
    for (size_t i = 0; i < of_.size(); ++i)
      for (const Buffer& b : graph.stages[i].outputs) by_buffer[b->name] = i;
    for (size_t i = 0; i < of_.size(); ++i) {
      std::vector<size_t> read;
      auto note = [&](const Expr& e) {
        visit_loads(e, [&](const Load& l) {
          auto it = by_buffer.find(l.buffer->name);
          if (it == by_buffer.end() || std::find(read.begin(), read.end(), it->second) != read.end()) return;
          read.push_back(it->second);
        });
        cost_[i] += cost_of(e);
      };
      for (const Expr& e : graph.stages[i].values) note(e);
      for (const Expr& e : graph.stages[i].init) note(e);
      for (size_t p : read) of_[p].push_back(i);
    }
  }

  /// Computing it where it is read takes no result away.
  bool can_inline(const Stage& s) const { return !s.is_reduction() && !is_kept(s) && s.outputs.size() == 1; }

  /// The stages that are computed where they are read because that costs nothing.
  std::set<std::string> worth_inlining() const {
    // Backwards: how often each stage would be evaluated if inlined, and whether that is worth it.
    std::set<std::string> inlined;
    std::vector<int64_t> evaluations(of_.size());
    for (size_t i = of_.size(); i-- > 0;) {
      const Stage& s = graph_.stages[i];
      evaluations[i] = s.points() * s.reduce_points();
      if (!can_inline(s)) continue;
      int64_t times = 0;
      bool guarded = false;
      for (size_t r : of_[i]) {
        Use use = uses_of(s, graph_.stages[r]);
        times += use.distinct * evaluations[r];
        guarded |= use.guarded;
      }
      bool moves_only = cost_[i] <= 1;
      bool cheap = moves_only || (cost_[i] <= kCheap && times <= 8 * s.points());
      if ((times <= s.points() && !guarded) || cheap) {
        inlined.insert(s.name);
        evaluations[i] = times;
      }
    }
    return inlined;
  }

  /// The one stored stage that reads a reduction, at its own indices, and can run where the reduction stands: it can have the
  /// values in registers.
  std::optional<size_t> only_consumer(size_t reduction, const std::set<std::string>& inlined) const {
    const Stage& s = graph_.stages[reduction];
    if (!s.is_reduction() || is_kept(s)) return std::nullopt;
    // Follow inlined readers to the stored stages that consume the values.
    std::vector<size_t> work = {reduction};
    std::unordered_set<size_t> stored, visited;
    bool identity = true;
    while (!work.empty()) {
      size_t at = work.back();
      work.pop_back();
      for (size_t r : of_[at]) {
        Use use = uses_of(graph_.stages[at], graph_.stages[r]);
        identity &= use.identity && !use.guarded && graph_.stages[r].points() == s.points();
        if (!inlined.contains(graph_.stages[r].name))
          stored.insert(r);
        else if (visited.insert(r).second)
          work.push_back(r);
      }
    }
    if (!identity || stored.size() != 1 || graph_.stages[*stored.begin()].is_reduction()) return std::nullopt;
    size_t consumer = *stored.begin();
    // Nothing that it reads may be computed between the two.
    for (size_t j = reduction + 1; j < consumer; ++j)
      if (!inlined.contains(graph_.stages[j].name)) return std::nullopt;
    return consumer;
  }

 private:
  bool is_kept(const Stage& s) const {
    return std::any_of(s.outputs.begin(), s.outputs.end(), [&](const Buffer& b) { return graph_.is_kept(b); });
  }

  const StageGraph& graph_;
  std::vector<std::vector<size_t>> of_;
  std::vector<int64_t> cost_;
};

using Accept = function_ref<bool(const Stage& reduction, const Stage& consumer)>;

/// With an epilogue wherever one is possible and accepted.
Decomposition with_inlined(const StageGraph& graph, const Readers& readers, std::set<std::string> inlined, Accept accept) {
  Decomposition out{std::move(inlined), {}};
  size_t n = graph.stages.size();
  std::vector<size_t> owner(n, n);
  for (size_t i = 0; i < n; ++i) {
    std::optional<size_t> consumer = readers.only_consumer(i, out.inlined);
    bool taken = consumer && std::any_of(owner.begin(), owner.end(), [&](size_t o) { return o == *consumer; });
    if (consumer && !taken && accept(graph.stages[i], graph.stages[*consumer])) owner[i] = *consumer;
  }
  for (size_t i = 0; i < n; ++i) {
    const Stage& s = graph.stages[i];
    if (out.inlined.contains(s.name)) continue;
    if (s.is_reduction())
      out.roots.push_back({&s, owner[i] < n ? &graph.stages[owner[i]] : nullptr});
    else if (std::none_of(owner.begin(), owner.end(), [&](size_t o) { return o == i; }))
      out.roots.push_back({nullptr, &s});
  }
  return out;
}

[[noreturn]] void fail_stages(const StageGraph& graph, std::string message, const std::string& found) {
  std::string names;
  for (const Stage& s : graph.stages) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", s.name);
  fail_step("schedule-nest-stages",
            {.message = std::move(message), .expected = fmt::format("stages of the function: {}", names), .found = found});
}

}  // namespace

Decomposition decompose(const StageGraph& graph) {
  Readers readers(graph);
  return with_inlined(graph, readers, readers.worth_inlining(), [](const Stage&, const Stage&) { return true; });
}

Decomposition decompose(const StageGraph& graph, const Decisions& decisions) {
  Readers readers(graph);
  for (const std::string& name : decisions.inlined) {
    auto stage = std::find_if(graph.stages.begin(), graph.stages.end(), [&](const Stage& s) { return s.name == name; });
    if (stage == graph.stages.end() || !readers.can_inline(*stage))
      fail_stages(graph, fmt::format("`{}` cannot be computed where it is read", name), name);
  }
  auto nest_of = [&](const Stage& reduction) {
    return std::find_if(decisions.nests.begin(), decisions.nests.end(), [&](const Nest& n) { return n.stage == reduction.name; });
  };
  Decomposition out = with_inlined(graph, readers, {decisions.inlined.begin(), decisions.inlined.end()},
                                   [&](const Stage& reduction, const Stage& consumer) {
                                     auto nest = nest_of(reduction);
                                     return nest != decisions.nests.end() && nest->epilogue == consumer.name;
                                   });
  std::set<std::string_view> seen;
  for (const Nest& nest : decisions.nests) {
    if (!seen.insert(nest.stage).second) fail_stages(graph, fmt::format("two nests compute `{}`", nest.stage), nest.stage);
    bool found = std::any_of(out.roots.begin(), out.roots.end(), [&](const Root& r) {
      return r.name() == nest.stage && (nest.epilogue.empty() ? !r.reduction || !r.epilogue : r.output().name == nest.epilogue);
    });
    if (!found && nest.epilogue.empty()) fail_stages(graph, fmt::format("there is no stored stage `{}`", nest.stage), nest.stage);
    if (!found)
      fail_stages(graph, fmt::format("`{}` cannot take what `{}` sums up from registers", nest.epilogue, nest.stage),
                  nest.epilogue);
  }
  return out;
}

size_t shared_axes(const StageGraph& graph) {
  if (graph.stages.empty()) return 0;
  size_t shared = graph.stages[0].spatial.size();
  for (const Stage& s : graph.stages) {
    for (const Buffer& b : s.outputs)
      if (!graph.is_param(b) && graph.is_kept(b)) return 0;
    size_t same = 0;
    while (same < std::min(shared, s.spatial.size()) && s.spatial[same].extent == graph.stages[0].spatial[same].extent) ++same;
    shared = same;
    auto limit = [&](const Expr& e) {
      visit_loads(e, [&](const Load& l) {
        if (!graph.producer(l.buffer)) return;
        size_t k = 0;
        while (k < std::min(shared, l.indices.size()) &&
               structural_equal(simplify(l.indices[k], graph.ranges), simplify(s.spatial[k].var(), graph.ranges)))
          ++k;
        shared = k;
      });
    };
    for (const Expr& v : s.values) limit(v);
    for (const Expr& v : s.init) limit(v);
  }
  return shared;
}

std::vector<Iter> unify_axes(StageGraph& graph, size_t count, NameSupply& names) {
  std::vector<Iter> shared;
  if (count == 0) return shared;
  for (size_t k = 0; k < count; ++k) {
    shared.push_back({names.fresh("outer"), graph.stages[0].spatial[k].extent});
    graph.ranges[shared[k].name] = {0, shared[k].extent - 1};
  }
  for (Stage& s : graph.stages) {
    VarMap rename;
    for (size_t k = 0; k < count; ++k) {
      rename[s.spatial[k].name] = shared[k].var();
      s.spatial[k] = shared[k];
    }
    for (auto* list : {&s.values, &s.init})
      for (Expr& v : *list) v = substitute(v, rename);
  }
  return shared;
}

}  // namespace tenon::schedule
