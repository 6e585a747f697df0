// SPDX-License-Identifier: Apache-2.0
// Statements are drawn one after the other; views say which elements may be read and written where the next one stands.
#include "support/random_allocations.h"

#include <algorithm>
#include <random>

namespace tenon::test {
namespace {

using namespace tir;

/// Part of a buffer at fixed first indices: `rows` times `size` elements, or `size`.
struct View {
  Buffer buffer;
  std::vector<Expr> prefix;
  int64_t rows = 0, size = 0;
  bool scalar = false;  // no index follows the prefix
  bool filled = false, writable = true;
};

struct LoopVar {
  Expr var;
  int64_t extent;
};

class Generator {
 public:
  Generator(uint64_t seed, int64_t workers_extent) : random_(seed), rows_(workers_extent) {}

  PrimFunc run(std::string name) {
    PrimFunc f{.name = std::move(name), .params = {}, .num_inputs = 2, .attrs = {}, .body = {}};
    f.params = {param("a", DType::F32, {kFlat}), param("b", DType::I32, {rows_, kRow}), param("c", DType::F32, {kFlat}),
                param("d", DType::I32, {rows_, kRow})};
    for (size_t i = 0; i < 4; ++i) {
      View view{.buffer = f.params[i], .size = i % 2 ? kRow : kFlat, .filled = i < 2, .writable = i >= 2};
      if (i % 2) view.rows = rows_;
      views_.push_back(std::move(view));
    }
    std::vector<Stmt> list;
    bool early = chance(60);  // results are there from the start, so that every block may go into them
    if (early) fill_results(list);
    statements(list, 4 + pick(6), 0);
    if (!early) fill_results(list);
    f.body = scoped(std::move(list));
    return f;
  }

 private:
  static constexpr int64_t kFlat = 6, kRow = 5;

  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  bool chance(int percent) { return pick(100) < percent; }
  std::string fresh(const char* base) { return std::string(base) + "_" + std::to_string(next_name_++); }
  static Buffer param(std::string name, DType dtype, std::vector<Expr> shape) {
    return Buffer({.name = std::move(name), .dtype = dtype, .shape = std::move(shape)});
  }

  void fill_results(std::vector<Stmt>& list) {
    list.push_back(fill(2));
    list.push_back(fill(3));
  }

  void statements(std::vector<Stmt>& list, int64_t count, int depth) {
    for (int64_t i = 0; i < count; ++i) statement(list, depth);
  }

  void statement(std::vector<Stmt>& list, int depth) {
    int64_t what = pick(100);
    if (what < 28) return declare(list);
    if (what < 64 || depth == 3) return write_something(list);
    if (what < 70) return let(list);
    if (what < 78) return branch(list, depth);
    if (what < 82) return list.push_back(body(depth, true));
    if (what < 90) return serial_loop(list, depth);
    return independent_loop(list, depth);
  }

  /// Statements in a scope of their own, which what they declare does not leave.
  Stmt body(int depth, bool always_scoped = false) {
    size_t views = views_.size(), values = values_.size();
    std::vector<Stmt> list;
    if (chance(60)) declare(list);
    statements(list, list.empty() && chance(15) ? 1 : 2 + pick(3), depth + 1);
    views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(views), views_.end());
    values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(values), values_.end());
    return list.size() == 1 && !always_scoped ? list[0] : scoped(std::move(list));
  }

  // Declarations.

  void declare(std::vector<Stmt>& list) {
    static constexpr DType kDTypes[] = {DType::F32, DType::F32, DType::I32, DType::F64, DType::I64, DType::I8};
    BufferData data{.name = fresh("t"), .dtype = kDTypes[pick(std::size(kDTypes))], .shape = {}, .strides = {}};
    View view;
    int64_t kind = pick(100);
    data.scope = kind < 50 ? Scope::Global : kind < 90 || in_lanes_ ? Scope::Local : Scope::Reg;
    if (data.scope == Scope::Global)  // shared by all iterations
      for (const LoopVar& loop : independent_) {
        data.shape.emplace_back(loop.extent);
        view.prefix.push_back(loop.var);
      }
    static constexpr int64_t kSizes[] = {1, 3, 6, 8, 12, 17, 24, 40};
    view.size = data.scope == Scope::Reg ? 1 + pick(2) : kSizes[pick(std::size(kSizes))];
    int64_t form = data.scope == Scope::Reg ? 100 : pick(100);
    if (form < 6) {
      view.size = 0;
    } else if (form < 12) {
      view.scalar = true;
      view.size = 1;
    } else if (form < 40) {
      view.rows = rows_;
      data.shape.emplace_back(rows_);
      view.size = 1 + view.size / 3;
    }
    if (!view.scalar) data.shape.emplace_back(view.size);
    view.buffer = Buffer(std::move(data));
    list.push_back(allocate(view.buffer));
    views_.push_back(std::move(view));
    if (chance(70)) list.push_back(fill(views_.size() - 1));
  }

  void let(std::vector<Stmt>& list) {
    std::optional<Expr> value = element({});
    if (!value) return;
    Expr variable = var(fresh("v"), (*value)->dtype);
    list.push_back(tir::let(variable, *value));
    values_.push_back(variable);
  }

  // Nests that write.

  void write_something(std::vector<Stmt>& list) {
    std::vector<size_t> all, results;
    for (size_t i = 0; i < views_.size(); ++i) {
      if (!views_[i].writable || hidden(views_[i])) continue;
      all.push_back(i);
      if (i == 2 || i == 3) results.push_back(i);
    }
    if (all.empty()) return declare(list);
    const std::vector<size_t>& from = !results.empty() && chance(40) ? results : all;
    list.push_back(fill(from[static_cast<size_t>(pick(static_cast<int64_t>(from.size())))]));
  }

  /// Registers are no memory that others can see, nor do lanes index them.
  bool hidden(const View& view) const { return view.buffer->scope == Scope::Reg && hide_registers_ > 0; }

  /// Writes all elements of a view.
  Stmt fill(size_t index) {
    bool more = views_[index].filled;
    Stmt s = fill_rows(views_[index], more);
    views_[index].filled = true;
    return s;
  }

  Stmt fill_rows(const View& view, bool more) {
    if (view.buffer->scope == Scope::Reg) {
      std::vector<Stmt> stores;
      for (int64_t i = 0; i < view.size; ++i) stores.push_back(store_to(view, {Expr(i)}, more && i == 0));
      return seq(std::move(stores));
    }
    if (view.rows == 0) return fill_row(view, {}, more);
    return nest("r", view.rows, true, [&](const Expr& row) { return fill_row(view, {row}, more); });
  }

  Stmt fill_row(const View& view, const std::vector<Expr>& row, bool more) {
    auto at = [&](const Expr& i) {
      std::vector<Expr> indices = row;
      indices.push_back(i);
      return store_to(view, std::move(indices), more);
    };
    if (view.scalar) return store_to(view, row, more);
    if (view.size % 4 == 0 && view.size > 0 && chance(50))
      return nest("i", view.size / 4, false,
                  [&](const Expr& i) { return nest("l", 4, false, [&](const Expr& l) { return at((i * Expr(4)) + l); }); });
    bool reversed = chance(30);
    return nest("i", view.size, row.empty(), [&](const Expr& i) { return at(reversed ? Expr(view.size - 1) - i : i); });
  }

  /// A loop whose body `inner` makes of the variable. Its iterations are independent.
  template <class Inner>
  Stmt nest(const char* name, int64_t extent, bool outermost, const Inner& inner) {
    int64_t how = pick(100);
    ForKind kind = ForKind::Serial;
    if (how < 20 && outermost)
      kind = how < 15 || extent != rows_ ? ForKind::Parallel : free_axis(ForKind::BlockX);
    else if (how < 45)
      kind = ForKind::Vectorized;
    else if (how < 55 && extent <= 4)
      kind = ForKind::Unrolled;
    bool hides = kind != ForKind::Serial && kind != ForKind::Unrolled;
    hide_registers_ += hides;
    Expr v = var(fresh(name));
    vars_.push_back({v, extent});
    Stmt made = inner(v);
    vars_.pop_back();
    hide_registers_ -= hides;
    return for_loop(v, 0, extent, kind, made);
  }

  /// The axis of the grid unless a loop over it stands around. All loops over one have one extent.
  ForKind free_axis(ForKind kind) const {
    return std::find(axes_.begin(), axes_.end(), kind) == axes_.end() ? kind : ForKind::Parallel;
  }

  Stmt store_to(const View& view, std::vector<Expr> indices, bool more) {
    std::vector<Expr> all = view.prefix;
    all.insert(all.end(), indices.begin(), indices.end());
    DType dtype = view.buffer->dtype;
    Expr first = more && chance(80) ? load(view.buffer, all) : operand(dtype, view.buffer), second = operand(dtype, view.buffer);
    if (chance(8)) {
      Expr known = var(fresh("v"), dtype);
      return scoped({tir::let(known, first), store(view.buffer, all, clamped(known + second))});
    }
    return store(view.buffer, all, clamped(chance(70) ? first + second : first - second));
  }

  static Expr clamped(const Expr& value) { return min(max(value, imm(value->dtype, -64)), imm(value->dtype, 64)); }

  // What they read.

  /// Of a buffer other than the one that is written, or a number.
  Expr operand(DType dtype, const Buffer& written) {
    std::optional<Expr> value = chance(90) ? element(written) : std::nullopt;
    if (!value) return imm(dtype, static_cast<double>(pick(7) - 3));
    return (*value)->dtype == dtype ? *value : cast(dtype, *value);
  }

  std::optional<Expr> element(const Buffer& but) {
    if (!values_.empty() && chance(15)) return values_[static_cast<size_t>(pick(static_cast<int64_t>(values_.size())))];
    std::vector<const View*> readable;
    for (const View& view : views_)
      if (view.filled && view.size > 0 && !hidden(view) && !(but && view.buffer->name == but->name)) readable.push_back(&view);
    if (readable.empty()) return std::nullopt;
    // What was declared last is read most, so that there are chains.
    auto from = static_cast<int64_t>(chance(60) ? readable.size() - std::min<size_t>(readable.size(), 3) : 0);
    const View& view = *readable[static_cast<size_t>(from + pick(static_cast<int64_t>(readable.size()) - from))];
    std::vector<Expr> indices = view.prefix;
    bool constant = view.buffer->scope == Scope::Reg;
    if (view.rows > 0) indices.push_back(index(view.rows, constant));
    if (!view.scalar) indices.push_back(index(view.size, constant));
    return load(view.buffer, std::move(indices));
  }

  Expr index(int64_t size, bool constant) {
    if (constant || vars_.empty() || chance(15)) return pick(size);
    const LoopVar& loop = chance(70) ? vars_.back() : vars_[static_cast<size_t>(pick(static_cast<int64_t>(vars_.size())))];
    if (loop.extent <= size && chance(60)) return chance(50) ? loop.var : Expr(size - 1) - loop.var;
    return floormod(loop.var + Expr(pick(5)), size);
  }

  // Branches and loops around statements.

  Expr condition() {
    if (!vars_.empty() && chance(60)) {
      const LoopVar& loop = vars_[static_cast<size_t>(pick(static_cast<int64_t>(vars_.size())))];
      return lt(loop.var, pick(loop.extent + 2));
    }
    std::optional<Expr> value = chance(80) ? element({}) : std::nullopt;
    return value ? lt(*value, imm((*value)->dtype, static_cast<double>(pick(5) - 2))) : bool_imm(chance(70));
  }

  std::vector<bool> filled() const {
    std::vector<bool> now;
    for (const View& view : views_) now.push_back(view.filled);
    return now;
  }
  void set_filled(const std::vector<bool>& to) {
    for (size_t i = 0; i < to.size(); ++i) views_[i].filled = to[i];
  }

  void branch(std::vector<Stmt>& list, int depth) {
    Expr chosen = condition();
    std::vector<bool> before = filled();
    Stmt then_case = body(depth), else_case;
    std::vector<bool> then_filled = filled();
    set_filled(before);
    if (chance(50)) {
      else_case = body(depth);
      for (size_t i = 0; i < views_.size(); ++i) views_[i].filled = views_[i].filled && then_filled[i];
    }
    list.push_back(if_then(chosen, then_case, else_case));
  }

  void serial_loop(std::vector<Stmt>& list, int depth) {
    bool unrolled = chance(30);
    int64_t extent = chance(8) ? 0 : 1 + pick(3);
    std::vector<bool> before = filled();
    Expr v = var(fresh("k"));
    vars_.push_back({v, std::max<int64_t>(extent, 1)});
    Stmt inside = body(depth);
    vars_.pop_back();
    if (extent == 0) set_filled(before);
    list.push_back(for_loop(v, 0, extent, unrolled ? ForKind::Unrolled : ForKind::Serial, inside));
  }

  /// Of what is declared outside, an iteration gets a row to write, or it is only read.
  void independent_loop(std::vector<Stmt>& list, int depth) {
    static constexpr ForKind kKinds[] = {ForKind::Parallel, ForKind::Parallel,   ForKind::Parallel, ForKind::BlockX,
                                         ForKind::ThreadX,  ForKind::Vectorized, ForKind::BlockY};
    ForKind kind = free_axis(kKinds[pick(std::size(kKinds))]);
    Expr v = var(fresh("p"));
    std::vector<View> outside = views_;
    for (View& view : views_) {
      if (view.writable && view.rows == rows_ && chance(60)) {
        view.prefix.push_back(v);
        view.rows = 0;
      } else {
        view.writable = false;
      }
    }
    vars_.push_back({v, rows_});
    independent_.push_back({v, rows_});
    axes_.push_back(kind);
    for (View& view : views_)
      if (view.buffer->scope == Scope::Reg) view.filled = view.writable = false;
    bool lanes_before = std::exchange(in_lanes_, in_lanes_ || kind == ForKind::Vectorized);
    Stmt inside = body(depth);
    in_lanes_ = lanes_before;
    axes_.pop_back();
    independent_.pop_back();
    vars_.pop_back();
    for (size_t i = 0; i < outside.size(); ++i)
      if (views_[i].writable) outside[i].filled = outside[i].filled || views_[i].filled;
    views_ = std::move(outside);
    list.push_back(for_loop(v, 0, rows_, kind, inside));
  }

  std::mt19937_64 random_;
  int64_t rows_;
  std::vector<View> views_;    // of the parameters first
  std::vector<Expr> values_;   // variables of `let` in scope
  std::vector<LoopVar> vars_;  // of the loops around
  std::vector<LoopVar> independent_;
  std::vector<ForKind> axes_;  // their kinds
  int hide_registers_ = 0;
  bool in_lanes_ = false;
  int64_t next_name_ = 0;
};

}  // namespace

PrimFunc random_allocations(uint64_t seed, int64_t workers_extent, std::string name) {
  return Generator(seed, workers_extent).run(std::move(name));
}

}  // namespace tenon::test
