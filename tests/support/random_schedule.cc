// SPDX-License-Identifier: Apache-2.0
// Arguments for each primitive.
#include "support/random_schedule.h"

#include <algorithm>

#include "schedule/primitives/analysis.h"
#include "tir/text.h"

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

/// The one buffer that a block stores, where it is declared in the function and no other block writes it; null otherwise.
tir::Buffer own_buffer(const Program& program, const BlockPlace& place) {
  std::optional<PointBlock> points = point_block(*place.block);
  if (!points || points->outputs.size() != 1) return {};
  const tir::Buffer& buffer = points->outputs[0];
  return program.is_param(buffer) || program.writers(buffer).size() != 1 ? tir::Buffer() : buffer;
}

/// Whether a block may run again for some of its points.
constexpr auto repeatable = [](const BlockPlace& place) {
  return is_complete(*place.block) || (is_reduction(*place.block) && meets_whole(place, tir::IterKind::Reduce));
};

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

StepProposer::Args StepProposer::bind(const Program& program) {
  std::set<ForKind> taken;
  for (const Place& p : program.loops()) taken.insert(loop_of(p).loop_kind);
  std::vector<ForKind> axes;
  for (int k = static_cast<int>(ForKind::BlockX); k < tir::kForKinds; ++k)
    if (auto kind = static_cast<ForKind>(k); !taken.contains(kind) || pick(8) == 0) axes.push_back(kind);
  Args loop = independent(program);
  if (!loop || axes.empty()) return std::nullopt;
  loop->emplace_back(tir::name(any(axes)));
  return loop;
}

StepProposer::Args StepProposer::any_serial(const Program& program) {
  const Place* loop = some_loop(program, serial);
  if (!loop) return std::nullopt;
  return {{program.loop_name(loop_of(*loop))}};
}

StepProposer::Args StepProposer::compute_inline(const Program& program) {
  const BlockPlace* block =
      some_block(program, [&](const BlockPlace& p) { return is_complete(*p.block) && own_buffer(program, p); });
  if (!block) return std::nullopt;
  return {{block->block->name}};
}

StepProposer::Args StepProposer::reverse_compute_inline(const Program& program) {
  const BlockPlace* block = some_block(program, [&](const BlockPlace& p) {
    if (!is_complete(*p.block)) return false;
    return std::any_of(p.block->reads.begin(), p.block->reads.end(), [&](const tir::Region& r) {
      std::vector<const BlockPlace*> writers = program.writers(r.buffer);
      return writers.size() == 1 && is_complete(*writers[0]->block) && program.readers(r.buffer).size() == 1 &&
             !program.is_param(r.buffer);
    });
  });
  if (!block) return std::nullopt;
  return {{block->block->name}};
}

StepProposer::Args StepProposer::compute_at(const Program& program) {
  const BlockPlace* block = some_block(program, [&](const BlockPlace& p) { return repeatable(p) && own_buffer(program, p); });
  if (!block) return std::nullopt;
  std::vector<const BlockPlace*> readers = program.readers(own_buffer(program, *block));
  const Place* loop = some_loop(program, [&](const Place& l) {
    bool around_all =
        std::all_of(readers.begin(), readers.end(), [&](const BlockPlace* r) { return r == block || r->inside(l.stmt); });
    return around_all && !block->inside(l.stmt) && readers.size() > (is_complete(*block->block) ? 0u : 1u);
  });
  if (!loop) return std::nullopt;
  return {{block->block->name, program.loop_name(loop_of(*loop))}};
}

StepProposer::Args StepProposer::reverse_compute_at(const Program& program) {
  struct Pair {
    const BlockPlace* block;
    const Place* loop;
  };
  std::vector<Pair> pairs;
  for (const BlockPlace& block : program.blocks()) {
    if (!repeatable(block)) continue;
    for (const tir::Region& r : block.block->reads)
      for (const BlockPlace* writer : program.writers(r.buffer)) {
        if (writer == &block || !meets_whole(*writer, tir::IterKind::Spatial)) continue;
        for (const Place& loop : program.loops())
          if (writer->inside(loop.stmt) && !block.inside(loop.stmt) && spatial(program, loop)) pairs.push_back({&block, &loop});
      }
  }
  if (pairs.empty()) return std::nullopt;
  Pair chosen = any(pairs);
  return {{chosen.block->block->name, program.loop_name(loop_of(*chosen.loop))}};
}

StepProposer::Args StepProposer::cache_read(const Program& program) {
  const BlockPlace* block = some_block(program, [](const BlockPlace& p) { return !p.block->reads.empty(); });
  if (!block) return std::nullopt;
  const tir::Buffer& buffer = any(block->block->reads).buffer;
  if (writes(*block->block, buffer)) return std::nullopt;
  return {{block->block->name, buffer->name, some_scope()}};
}

StepProposer::Args StepProposer::cache_write(const Program& program) {
  const BlockPlace* block = some_block(program, repeatable);
  if (!block) return std::nullopt;
  return {{block->block->name, any(block->block->writes).buffer->name, some_scope()}};
}

StepProposer::Args StepProposer::set_scope(const Program& program) {
  std::vector<std::string> names;
  visit(program.func().body, [&](const tir::Stmt& s) {
    if (const auto* a = as<tir::Allocate>(s)) names.push_back(a->buffer->name);
  });
  if (names.empty()) return std::nullopt;
  return {{any(names), some_scope()}};
}

StepProposer::Args StepProposer::decompose_reduction(const Program& program) {
  const BlockPlace* block = some_block(program, [](const BlockPlace& p) { return is_reduction(*p.block); });
  if (!block) return std::nullopt;
  std::set<std::string> reduce = bound_loops(*block->block, tir::IterKind::Reduce);
  std::vector<std::string> loops;
  for (const For* l : block->loops()) {
    loops.push_back(program.loop_name(*l));
    if (reduce.contains(std::string(var_name(l->var)))) break;
  }
  if (loops.empty()) return std::nullopt;
  return {{block->block->name, any(loops)}};
}

/// Whether a block has loops and is the only one in them.
bool alone_in_loops(const Program& program, const BlockPlace& block) {
  auto outermost = std::find_if(block.around.begin(), block.around.end(), [](const Stmt& s) { return as<For>(s); });
  return outermost != block.around.end() && program.blocks_in(*outermost).size() == 1;
}

StepProposer::Args StepProposer::rfactor(const Program& program) {
  const BlockPlace* block = some_block(
      program, [&](const BlockPlace& p) { return is_reduction(*p.block) && combiner(*p.block) && alone_in_loops(program, p); });
  if (!block) return std::nullopt;
  std::set<std::string> reduce = bound_loops(*block->block, tir::IterKind::Reduce);
  std::vector<std::string> loops;
  for (const For* l : block->loops())
    if (reduce.contains(std::string(var_name(l->var)))) loops.push_back(program.loop_name(*l));
  if (loops.empty()) return std::nullopt;
  return {{block->block->name, any(loops), std::to_string(pick(2))}};
}

StepProposer::Args StepProposer::transform_layout(const Program& program) {
  std::vector<tir::Buffer> buffers;
  visit(program.func().body, [&](const Stmt& s) {
    if (const auto* a = as<tir::Allocate>(s); a && a->buffer.rank() > 0 && a->buffer.rank() < 5) buffers.push_back(a->buffer);
  });
  if (buffers.empty()) return std::nullopt;
  const tir::Buffer& buffer = any(buffers);
  std::vector<std::string> axes, results;
  for (size_t axis = 0; axis < buffer.rank(); ++axis) axes.push_back("i" + std::to_string(axis));
  results = axes;
  std::shuffle(results.begin(), results.end(), random_);
  if (pick(2)) {  // tiles along one axis, as a last index of their own
    std::string factor = std::to_string(2 + pick(3));
    size_t tiled = random_() % results.size();
    std::string whole = results[tiled];
    results[tiled] = "floordiv(" + whole + ", " + factor + ")";
    results.push_back("floormod(" + whole + ", " + factor + ")");
  }
  auto listed = [](const std::vector<std::string>& list) {
    std::string out;
    for (const std::string& item : list) out += (out.empty() ? "" : ", ") + item;
    return out;
  };
  return {{buffer->name, listed(axes) + " -> " + listed(results)}};
}

StepProposer::Args StepProposer::pad(const Program& program) {
  const BlockPlace* block = some_block(program, [&](const BlockPlace& p) {
    std::vector<const For*> loops = p.loops();
    bool alone = alone_in_loops(program, p);
    bool plain =
        loops.size() == p.block->iters.size() &&
        std::all_of(p.block->iters.begin(), p.block->iters.end(), [](const tir::IterVar& i) { return as<tir::Var>(i.binding); });
    return repeatable(p) && alone && plain && p.guards().empty();
  });
  if (!block) return std::nullopt;
  std::vector<std::string> args{block->block->name};
  for (const tir::IterVar& iter : block->block->iters) {
    bool plain_everywhere = true;  // an index of its own, where it is used
    for (const tir::Region& r : block->block->reads)
      for (const Expr& e : r.min)
        tir::visit_exprs(e, [&](const Expr& x) { plain_everywhere &= !structural_equal(x, iter.var) || x.same_as(e); });
    args.push_back(std::to_string(plain_everywhere ? 2 + pick(4) : 1));
  }
  return {args};
}

StepProposer::Args StepProposer::tensorize(const Program& program) {
  const Place* loop = some_loop(program, [&](const Place& l) {
    std::vector<const BlockPlace*> blocks = program.blocks_in(l.stmt);
    if (blocks.size() != 1 || as<tir::Block>(loop_of(l).body) != blocks[0]->block) return false;
    std::optional<PointBlock> points = point_block(*blocks[0]->block);
    return points && points->outputs.size() == 1 && points->init.empty() && as<tir::Load>(points->values[0]) != nullptr;
  });
  if (!loop) return std::nullopt;
  DType dtype = point_block(*program.blocks_in(loop->stmt)[0]->block)->outputs[0]->dtype;
  std::string name = "copy_" + std::string(tenon::name(dtype)) + "_" + std::to_string(extent_of(loop_of(*loop)));
  return {{program.loop_name(loop_of(*loop)), name, name + "_in_order"}};
}

StepProposer::Args StepProposer::tile(const Program& program) {
  const Place* outer = some_loop(program, [](const Place& p) {
    const For* inner = as<For>(loop_of(p).body);
    return serial(p) && inner && inner->loop_kind == ForKind::Serial && extent_of(loop_of(p)) > 1 && extent_of(*inner) > 1;
  });
  if (!outer) return std::nullopt;
  const For& inner = *as<For>(loop_of(*outer).body);
  auto factor = [&](const For& l) { return std::to_string(1 + pick(static_cast<int>(extent_of(l)))); };
  return {{program.loop_name(loop_of(*outer)), program.loop_name(inner), factor(loop_of(*outer)), factor(inner)}};
}

std::optional<Step> StepProposer::propose(const tir::PrimFunc& function) {
  struct Choice {
    const char* primitive;
    Args (StepProposer::*args)(const Program&);
  };
  static constexpr Choice kChoices[] = {
      {"bind", &StepProposer::bind},
      {"cache_read", &StepProposer::cache_read},
      {"cache_write", &StepProposer::cache_write},
      {"compute_at", &StepProposer::compute_at},
      {"compute_inline", &StepProposer::compute_inline},
      {"decompose_reduction", &StepProposer::decompose_reduction},
      {"fuse", &StepProposer::fuse},
      {"pad", &StepProposer::pad},
      {"parallel", &StepProposer::independent},
      {"reorder", &StepProposer::reorder},
      {"reverse_compute_at", &StepProposer::reverse_compute_at},
      {"reverse_compute_inline", &StepProposer::reverse_compute_inline},
      {"rfactor", &StepProposer::rfactor},
      {"set_scope", &StepProposer::set_scope},
      {"split", &StepProposer::split},
      {"tensorize", &StepProposer::tensorize},
      {"tile", &StepProposer::tile},
      {"transform_layout", &StepProposer::transform_layout},
      {"unroll", &StepProposer::any_serial},
      {"vectorize", &StepProposer::independent},
  };
  const Choice& choice = kChoices[pick(static_cast<int>(std::size(kChoices)))];
  Args args = (this->*choice.args)(Program(function));
  if (!args) return std::nullopt;
  return Step{choice.primitive, *args, {}, {}};
}

const tir::PrimFunc* copy_intrinsic(std::string_view name) {
  static std::map<std::string, tir::PrimFunc, std::less<>> known;
  if (auto it = known.find(name); it != known.end()) return &it->second;
  bool in_order = name.ends_with("_in_order");
  std::string_view described = in_order ? name.substr(0, name.size() - 9) : name;
  size_t last = described.rfind('_');
  std::string type = std::string(described.substr(5, last - 5)) + "[" + std::string(described.substr(last + 1)) + "]";
  std::string extent(described.substr(last + 1));
  std::string text = "primfunc @" + std::string(name) + "(x: " + type + ") -> (y: " + type + ") {\n  for i = 0 extent " + extent;
  text += in_order ? " unrolled {\n    y[i] = x[i]\n  }\n}\n"
                   : " {\n    block y {\n      iter vi: spatial " + extent +
                         " = i\n      reads x[vi : 1]\n      writes y[vi : 1]\n      body {\n        y[vi] = x[vi]\n      }\n    "
                         "}\n  }\n}\n";
  return &known.emplace(name, tir::parse_prim_func("copy", text)).first->second;
}

}  // namespace tenon::test
