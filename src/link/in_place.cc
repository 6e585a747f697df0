// SPDX-License-Identifier: Apache-2.0
// A same-index check: the loops around the only store of an output give every element one turn, and the input's element is
// read in that turn.
#include "link/in_place.h"

#include <algorithm>
#include <limits>

#include "base/dtype.h"
#include "tir/affine.h"

namespace tenon::link {
namespace {

using namespace tir;

/// An element of a parameter; the index is flat and over loop variables only.
struct Access {
  std::string buffer;
  Expr index;
};

/// A store, or a condition (`store.buffer` empty), and the parameter elements that it reads, through lets too.
struct Update {
  Access store;
  std::vector<Access> loads;
  std::vector<std::string> loops;  // around it, but for those whose variable has one value there
};

Expr flat_index(const Buffer& buffer, const std::vector<Expr>& indices) {
  Expr flat(0), stride(1);
  for (size_t axis = indices.size(); axis-- > 0;) {
    flat = indices[axis] * (buffer->strides.empty() ? stride : buffer->strides[axis]) + flat;
    stride = stride * buffer->shape[axis];
  }
  return flat;
}

/// Of a buffer without gaps; -1 if unknown.
int64_t bytes_of(const Buffer& buffer) {
  if (!buffer->strides.empty()) return -1;
  int64_t bytes = byte_size(buffer->dtype);
  for (const Expr& extent : buffer->shape) {
    const int64_t* n = as_int(extent);
    if (!n) return -1;
    bytes *= *n;
  }
  return bytes;
}

/// A loop over min(size, total - part * size): part * size plus its variable takes each value in [0, total) once.
struct Chunk {
  Affine::Term part;  // its coefficient is the size
  int64_t total = 0;
};

/// Collects the updates of a function.
class Walk {
 public:
  explicit Walk(const PrimFunc& function) : function_(function) { run(function.body); }

  std::vector<Update> updates;
  Ranges ranges;                                     // of the loop variables
  std::map<std::string, Chunk, std::less<>> chunks;  // by the loop variable
  bool understood = true;                            // every loop has a known range

 private:
  void run(const Stmt& s) {
    if (const Seq* n = as<Seq>(s)) {
      VarMap outer = values_;
      for (const Stmt& child : n->stmts) run(child);
      values_ = std::move(outer);
    } else if (const For* n = as<For>(s)) {
      run_loop(*n);
    } else if (const Block* n = as<Block>(s)) {
      run_block(*n);
    } else if (const Let* n = as<Let>(s)) {
      values_[as<Var>(n->var)->name] = substitute(n->value, values_);
    } else if (const If* n = as<If>(s)) {
      run_branches(*n);
    } else if (const Store* n = as<Store>(s)) {
      Expr index = substitute(flat_index(n->buffer, n->indices), values_);
      add({n->buffer->name, index}, {index, substitute(n->value, values_)});
    }
  }

  void run_loop(const For& loop) {
    const std::string& name = as<Var>(loop.var)->name;
    Expr count = substitute(loop.extent, values_);
    std::optional<Range> extent = range_of(count, ranges);
    const int64_t* min = as_int(loop.min);
    if (extent && extent->high < 1) return;
    if (!extent || !min || *min != 0) {
      understood = false;
      return;
    }
    Range range{0, extent->high - 1};
    auto [known, inserted] = ranges.try_emplace(name, range);
    if (!inserted && known->second.high != range.high) understood = false;  // one name, two loops
    if (std::optional<Chunk> chunk = chunk_of(count)) chunks.insert_or_assign(name, std::move(*chunk));
    if (extent->high > 1) loops_.push_back(name);
    run(loop.body);
    if (extent->high > 1) loops_.pop_back();
  }

  static std::optional<Chunk> chunk_of(const Expr& count) {
    const Binary* least = as<Binary>(count);
    const int64_t* size = least && least->op == BinaryOp::Min ? as_int(least->a) : nullptr;
    if (!size) return std::nullopt;
    Affine rest = affine(least->b);
    if (rest.terms.size() != 1 || rest.terms[0].coefficient != -*size) return std::nullopt;
    return Chunk{{rest.terms[0].expr, *size}, rest.constant};
  }

  void run_block(const Block& block) {
    VarMap outer = values_;
    for (const IterVar& iter : block.iters) values_[as<Var>(iter.var)->name] = substitute(iter.binding, values_);
    if (block.init) run(block.init);
    run(block.body);
    values_ = std::move(outer);
  }

  void run_branches(const If& branches) {
    Expr condition = substitute(branches.condition, values_);
    add({}, {condition});
    const Binary* equal = as<Binary>(condition);
    const Var* fixed = equal && equal->op == BinaryOp::Eq && as_int(equal->b) ? as<Var>(equal->a) : nullptr;
    std::vector<std::string> outer = loops_;
    if (fixed) std::erase(loops_, fixed->name);
    run(branches.then_case);
    loops_ = std::move(outer);
    if (branches.else_case) run(branches.else_case);
  }

  void add(Access store, const std::vector<Expr>& reads) {
    Update update{std::move(store), {}, loops_};
    for (const Expr& e : reads)
      visit_exprs(e, [&](const Expr& x) {
        const Load* l = as<Load>(x);
        if (l && is_param(l->buffer)) update.loads.push_back({l->buffer->name, flat_index(l->buffer, l->indices)});
      });
    updates.push_back(std::move(update));
  }

  bool is_param(const Buffer& buffer) const {
    return std::any_of(function_.params.begin(), function_.params.end(),
                       [&](const Buffer& p) { return p->name == buffer->name; });
  }

  const PrimFunc& function_;
  VarMap values_;  // of lets and block variables, over loop variables
  std::vector<std::string> loops_;
};

/// floormod(floordiv(variable, divisor), extent), times a coefficient.
struct Digit {
  std::string variable;
  int64_t divisor = 1, extent = 1, coefficient = 0;
};

std::optional<Digit> digit_of(const Affine::Term& term, const Ranges& ranges) {
  Digit digit{.variable = {}, .coefficient = term.coefficient};
  Expr e = term.expr;
  int64_t modulus = std::numeric_limits<int64_t>::max();
  for (BinaryOp op : {BinaryOp::FloorMod, BinaryOp::FloorDiv}) {
    const Binary* b = as<Binary>(e);
    if (!b || b->op != op) continue;
    const int64_t* k = as_int(b->b);
    if (!k || *k < 1) return std::nullopt;
    (op == BinaryOp::FloorMod ? modulus : digit.divisor) = *k;
    e = b->a;
  }
  const Var* v = as<Var>(e);
  auto range = v ? ranges.find(v->name) : ranges.end();
  if (range == ranges.end()) return std::nullopt;
  digit.variable = v->name;
  digit.extent = std::min(modulus, range->second.high / digit.divisor + 1);
  return digit;
}

/// A chunk's number and the place inside it become one digit, the place in the whole.
void join_chunks(std::vector<Digit>& digits, const Walk& walk) {
  for (Digit& place : digits) {
    auto chunk = walk.chunks.find(place.variable);
    if (chunk == walk.chunks.end() || place.divisor != 1 || place.extent != chunk->second.part.coefficient) continue;
    std::optional<Digit> part = digit_of(chunk->second.part, walk.ranges);
    for (Digit& d : digits) {
      bool same = part && d.variable == part->variable && d.divisor == part->divisor && d.extent == part->extent;
      if (!same || d.coefficient != place.coefficient * place.extent) continue;
      place.extent = chunk->second.total;
      d.extent = 1;
      break;
    }
  }
}

/// Whether different values of the variables give different indices: the digits tell each variable's value, and each digit's
/// coefficient is larger than all that the smaller ones add up to.
bool one_turn_each(const Expr& index, const std::vector<std::string>& variables, const Walk& walk) {
  const Ranges& ranges = walk.ranges;
  std::vector<Digit> digits;
  for (const Affine::Term& term : affine(simplify(index, ranges)).terms) {
    std::optional<Digit> digit = digit_of(term, ranges);
    if (!digit) return false;
    digits.push_back(*digit);
  }
  for (const std::string& variable : variables) {
    std::vector<Digit> own;
    for (const Digit& d : digits)
      if (d.variable == variable) own.push_back(d);
    std::sort(own.begin(), own.end(), [](const Digit& a, const Digit& b) { return a.divisor < b.divisor; });
    int64_t told = 1;  // the value modulo this is told
    for (const Digit& d : own) {
      if (d.divisor != told) return false;
      told *= d.extent;
    }
    if (told <= ranges.at(variable).high) return false;
  }
  join_chunks(digits, walk);
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return std::abs(a.coefficient) < std::abs(b.coefficient); });
  int64_t reach = 0;
  for (const Digit& d : digits) {
    if (d.extent == 1) continue;
    if (std::abs(d.coefficient) <= reach) return false;
    reach += std::abs(d.coefficient) * (d.extent - 1);
  }
  return true;
}

bool same_index(const Expr& a, const Expr& b, const Ranges& ranges) {
  const Expr difference = simplify(a - b, ranges);
  const int64_t* zero = as_int(difference);
  return zero && *zero == 0;
}

bool safe(const Walk& walk, const Buffer& input, const Buffer& output) {
  const Update* store = nullptr;
  for (const Update& u : walk.updates) {
    if (u.store.buffer != output->name) continue;
    if (store) return false;
    store = &u;
  }
  if (!store || !one_turn_each(store->store.index, store->loops, walk)) return false;
  for (const Update& u : walk.updates)
    for (const Access& load : u.loads) {
      if (load.buffer == output->name) return false;
      if (load.buffer == input->name && (&u != store || !same_index(load.index, store->store.index, walk.ranges))) return false;
    }
  return true;
}

}  // namespace

std::vector<InPlace> in_place_pairs(const PrimFunc& function) {
  Walk walk(function);
  std::vector<InPlace> pairs;
  if (!walk.understood) return pairs;
  auto inputs = static_cast<size_t>(function.num_inputs);
  for (size_t i = 0; i < inputs; ++i)
    for (size_t o = inputs; o < function.params.size(); ++o) {
      int64_t bytes = bytes_of(function.params[i]);
      bool same_elements = byte_size(function.params[i]->dtype) == byte_size(function.params[o]->dtype);
      if (bytes > 0 && same_elements && bytes == bytes_of(function.params[o]) &&
          safe(walk, function.params[i], function.params[o]))
        pairs.push_back({i, o - inputs});
    }
  return pairs;
}

}  // namespace tenon::link
