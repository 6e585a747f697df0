// SPDX-License-Identifier: Apache-2.0
// Packing of constants. A packing is a loop function, but compiling one for each weight costs more than all other work on it:
// nests that only move elements are read as tables of offsets and run as copies. The interpreter runs any other.
#include "driver/pack.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/parallel.h"
#include "base/reuse.h"
#include "tir/affine.h"
#include "tir/interpret.h"

namespace tenon::driver {
namespace {

using namespace tir;

/// A loop of a copy: what each of its iterations adds to the offsets of the element read and of the one written.
struct CopyLoop {
  std::string variable;
  std::vector<int64_t> from, to;
};

/// `to[sum of loops' to] = from[sum of loops' from]` over all iterations of all loops.
struct Copy {
  std::vector<CopyLoop> loops;  // outermost first; at least two
  int64_t from = 0, to = 0;     // of the first elements
};

/// Reads a nest of loops and Lets around one store of a load, at indices to which each loop adds its own part.
class CopyReader {
 public:
  std::optional<Copy> read(const PrimFunc& function) {
    if (function.params.size() != 2 || function.params[0]->dtype != function.params[1]->dtype) return std::nullopt;
    const Store* store = innermost(function.body);
    const Load* load = store ? as<Load>(store->value) : nullptr;
    if (!load || load->indices.size() != 1 || store->indices.size() != 1 || load->buffer->name != function.params[0]->name ||
        store->buffer->name != function.params[1]->name)
      return std::nullopt;
    bool separable =
        add_offsets(load->indices[0], copy_.from, &CopyLoop::from) && add_offsets(store->indices[0], copy_.to, &CopyLoop::to);
    while (copy_.loops.size() < 2) copy_.loops.insert(copy_.loops.begin(), CopyLoop{{}, {0}, {0}});
    return separable ? std::optional(std::move(copy_)) : std::nullopt;
  }

 private:
  const Store* innermost(const Stmt& s) {
    if (const For* loop = as<For>(s)) {
      const int64_t *min = as_int(loop->min), *extent = as_int(loop->extent);
      if (!min || *min != 0 || !extent || *extent < 0) return nullptr;
      auto count = static_cast<size_t>(*extent);
      copy_.loops.push_back({as<Var>(loop->var)->name, std::vector<int64_t>(count), std::vector<int64_t>(count)});
      return innermost(loop->body);
    }
    if (const Seq* list = as<Seq>(s)) {
      for (const Stmt& part : list->stmts) {
        if (part.same_as(list->stmts.back())) return innermost(part);
        const Let* let = as<Let>(part);
        if (!let) return nullptr;
        lets_[as<Var>(let->var)->name] = substitute(let->value, lets_);
      }
    }
    return as<Store>(s);
  }

  /// Splits an index into a constant and what each loop adds to it.
  bool add_offsets(const Expr& index, int64_t& base, std::vector<int64_t> CopyLoop::* offsets) {
    Affine sum = affine(substitute(index, lets_));
    base = sum.constant;
    for (const Affine::Term& term : sum.terms) {
      CopyLoop* loop = only_loop(term.expr);
      if (!loop) return false;
      std::vector<int64_t>& table = loop->*offsets;
      bool plain = as<Var>(term.expr) != nullptr;
      for (size_t i = 0; i < table.size(); ++i) {
        auto value = static_cast<int64_t>(i);
        if (!plain) {
          Expr known = simplify(substitute(term.expr, {{loop->variable, Expr(value)}}), {});
          if (!as_int(known)) return false;
          value = *as_int(known);
        }
        table[i] += term.coefficient * value;
      }
    }
    return true;
  }

  /// The loop whose variable is the only one in an expression.
  CopyLoop* only_loop(const Expr& e) {
    CopyLoop* found = nullptr;
    bool other = false;
    visit_exprs(e, [&](const Expr& x) {
      other |= as<Load>(x) != nullptr;
      const Var* v = as<Var>(x);
      if (!v) return;
      auto it = std::find_if(copy_.loops.begin(), copy_.loops.end(), [&](const CopyLoop& l) { return l.variable == v->name; });
      other |= it == copy_.loops.end() || (found && found != &*it);
      if (it != copy_.loops.end()) found = &*it;
    });
    return other ? nullptr : found;
  }

  Copy copy_;
  VarMap lets_;
};

/// Whether all offsets of a copy lie in arrays of these many elements.
bool fits(const Copy& copy, int64_t from_elements, int64_t to_elements) {
  int64_t from_low = copy.from, from_high = copy.from, to_low = copy.to, to_high = copy.to;
  for (const CopyLoop& loop : copy.loops) {
    if (loop.from.empty()) return true;  // runs nothing
    auto [from_least, from_most] = std::minmax_element(loop.from.begin(), loop.from.end());
    auto [to_least, to_most] = std::minmax_element(loop.to.begin(), loop.to.end());
    from_low += *from_least, from_high += *from_most, to_low += *to_least, to_high += *to_most;
  }
  return from_low >= 0 && from_high < from_elements && to_low >= 0 && to_high < to_elements;
}

/// Makes one loop of all but the first and the last, so that the two innermost ones are long.
void join_loops(Copy& copy) {
  constexpr size_t kLongest = size_t{1} << 16;
  while (copy.loops.size() > 3) {
    const CopyLoop &inner = copy.loops.end()[-2], &outer = copy.loops.end()[-3];
    if (outer.from.size() * inner.from.size() > kLongest) return;
    CopyLoop joined;
    for (size_t i = 0; i < outer.from.size(); ++i)
      for (size_t j = 0; j < inner.from.size(); ++j) {
        joined.from.push_back(outer.from[i] + inner.from[j]);
        joined.to.push_back(outer.to[i] + inner.to[j]);
      }
    copy.loops.end()[-3] = std::move(joined);
    copy.loops.erase(copy.loops.end() - 2);
  }
}

/// Whether a copy writes each of so many elements: some order of its loops counts through them.
bool writes_all(const Copy& copy, int64_t elements) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // of each loop: stride, extent
  for (const CopyLoop& loop : copy.loops) {
    auto extent = static_cast<int64_t>(loop.to.size());
    if (extent == 1 && loop.to[0] == 0) continue;
    if (extent < 2 || loop.to[0] != 0) return false;
    for (size_t i = 1; i < loop.to.size(); ++i)
      if (loop.to[i] - loop.to[i - 1] != loop.to[1]) return false;
    steps.emplace_back(loop.to[1], extent);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reached = 1;
  for (auto [stride, extent] : steps) {
    if (stride != reached) return false;
    reached *= extent;
  }
  return copy.to == 0 && reached == elements;
}

/// Runs the two innermost loops in blocks of the outer one, so that what a cache line holds is used while it is there: a packing
/// mostly turns rows into columns. Bytes may alias anything, so the compiler has to be told what stays as it is meanwhile.
template <class T>
void run_pair(const CopyLoop& outer, const CopyLoop& inner, const T* from, T* to) {
  constexpr size_t kBlock = 16;
  const int64_t *outer_from = outer.from.data(), *outer_to = outer.to.data();
  for (size_t begin = 0; begin < outer.from.size(); begin += kBlock) {
    size_t end = std::min(outer.from.size(), begin + kBlock);
    for (size_t j = 0; j < inner.from.size(); ++j) {
      const T* source = from + inner.from[j];
      T* target = to + inner.to[j];
      for (size_t i = begin; i < end; ++i) target[outer_to[i]] = source[outer_from[i]];
    }
  }
}

/// Runs two or more loops.
template <class T>
void run(std::span<const CopyLoop> loops, const T* from, T* to) {
  if (loops.size() == 2) return run_pair(loops[0], loops[1], from, to);
  for (size_t i = 0; i < loops[0].from.size(); ++i) run(loops.subspan(1), from + loops[0].from[i], to + loops[0].to[i]);
}

/// The mapped bytes of a constant may be unaligned: an element type without alignment.
template <size_t Bytes>
struct Element {
  std::byte bytes[Bytes];
};

template <size_t Bytes>
void run_as(const Copy& copy, const std::byte* from, std::byte* to) {
  using T = Element<Bytes>;
  run<T>(copy.loops, reinterpret_cast<const T*>(from) + copy.from, reinterpret_cast<T*>(to) + copy.to);
}

/// `used`: an array whose memory may be had for the result.
Array pack(const PrimFunc& function, Array input, Array used) {
  auto shape = [](const Buffer& buffer) {
    Shape out;
    for (const Expr& extent : buffer->shape) out.push_back(*as_int(extent));
    return out;
  };
  input.shape = shape(function.params[0]);  // the buffers of a scheduled function are flat
  std::optional<Copy> copy = CopyReader().read(function);
  Shape result_shape = shape(function.params[1]);
  int64_t elements = element_count(result_shape);
  if (!copy || !fits(*copy, input.elements(), elements)) return interpret(function, {&input, 1})[0];
  if (!writes_all(*copy, elements)) used = {};
  MutableArray result = reuse(std::move(used), function.params[1]->dtype, std::move(result_shape));
  join_loops(*copy);
  switch (byte_size(input.dtype)) {
    case 1: run_as<1>(*copy, input.bytes.data(), result.data()); break;
    case 2: run_as<2>(*copy, input.bytes.data(), result.data()); break;
    case 4: run_as<4>(*copy, input.bytes.data(), result.data()); break;
    default: run_as<8>(*copy, input.bytes.data(), result.data()); break;
  }
  return std::move(result).freeze();
}

/// Inputs that are packed and that nothing else reads. The system clears what it hands out, and takes about as long for it as a
/// packing does for its copy.
class Spares {
 public:
  /// The smallest of these many bytes or more, or none.
  Array take(size_t bytes) {
    std::lock_guard lock(mutex_);
    auto found = arrays_.lower_bound(bytes);
    return found == arrays_.end() ? Array() : std::move(arrays_.extract(found).mapped());
  }
  /// Lets go of `array` under the lock too, so that whoever sees that nothing else refers to it knows that it is not being read.
  void give(Array array) {
    std::lock_guard lock(mutex_);
    Array last = std::move(array);
    if (last.owner.use_count() == 1) arrays_.emplace(last.bytes.size(), std::move(last));
  }

 private:
  std::mutex mutex_;
  std::multimap<size_t, Array> arrays_;  // by size
};

}  // namespace

std::vector<Array> run_packs(std::vector<PackJob> jobs, int workers) {
  std::vector<Array> results(jobs.size());
  std::vector<size_t> order(jobs.size());  // large ones first, so that their memory does for all that follow
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](size_t i) { return jobs[i].input.bytes.size(); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return std::pair(size(b), a) < std::pair(size(a), b); });
  Spares spares;
  parallel_for(jobs.size(), workers, [&](size_t k) {
    PackJob& job = jobs[order[k]];
    results[order[k]] = pack(*job.function, job.input, spares.take(job.input.bytes.size()));
    spares.give(std::move(job.input));
  });
  return results;
}

}  // namespace tenon::driver
