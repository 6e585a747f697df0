// SPDX-License-Identifier: Apache-2.0
// A same-index check: the loops around the only store of an output give every element one turn, and the input's element is
// read in that turn.
#include "link/in_place.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/dtype.h"
#include "link/accesses.h"

namespace tenon::link {
namespace {

using namespace tir;

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
void join_chunks(std::vector<Digit>& digits, const Accesses& accesses) {
  for (Digit& place : digits) {
    auto chunk = accesses.chunks.find(place.variable);
    if (chunk == accesses.chunks.end() || place.divisor != 1 || place.extent != chunk->second.part.coefficient) continue;
    std::optional<Digit> part = digit_of(chunk->second.part, accesses.ranges);
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
bool one_turn_each(const Expr& index, const std::vector<std::string>& variables, const Accesses& accesses) {
  const Ranges& ranges = accesses.ranges;
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
  join_chunks(digits, accesses);
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

bool safe(const Accesses& accesses, const Buffer& input, const Buffer& output) {
  const Update* store = nullptr;
  for (const Update& u : accesses.updates) {
    if (u.store.buffer != output->name) continue;
    if (store) return false;
    store = &u;
  }
  if (!store || !one_turn_each(store->store.index, store->loops, accesses)) return false;
  for (const Update& u : accesses.updates)
    for (const Access& load : u.loads) {
      if (load.buffer == output->name) return false;
      if (load.buffer == input->name && (&u != store || !same_index(load.index, store->store.index, accesses.ranges)))
        return false;
    }
  return true;
}

}  // namespace

std::vector<InPlace> in_place_pairs(const PrimFunc& function) {
  std::vector<InPlace> pairs;
  auto inputs = static_cast<size_t>(function.num_inputs);
  for (size_t i = 0; i < inputs; ++i)
    for (size_t o = inputs; o < function.params.size(); ++o) {
      int64_t bytes = bytes_of(function.params[i]);
      bool same_elements = byte_size(function.params[i]->dtype) == byte_size(function.params[o]->dtype);
      if (bytes > 0 && same_elements && bytes == bytes_of(function.params[o])) pairs.push_back({i, o - inputs});
    }
  if (pairs.empty()) return pairs;
  Accesses accesses = accesses_of(function);
  std::erase_if(pairs, [&](const InPlace& pair) {
    return !accesses.understood || !safe(accesses, function.params[pair.input], function.params[inputs + pair.output]);
  });
  return pairs;
}

}  // namespace tenon::link
