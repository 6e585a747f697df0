// SPDX-License-Identifier: Apache-2.0
// Every store must copy elements that lie a fixed distance from their copies. Functions write each element of their outputs and
// read inside their inputs: so an output that gets elements from one input at one distance is a part of it, and where the
// inputs moved by their distances fill the output without overlap, each of its elements can come from one of them only.
#include "link/views.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/dtype.h"
#include "link/accesses.h"

namespace tenon::link {
namespace {

using namespace tir;

/// An input's element with the same bits goes `distance` elements further on in an output.
struct Move {
  std::string input;
  int64_t distance = 0;
  bool operator==(const Move&) const = default;
};

/// Adds the moves of a stored value: a load, or a choice between some.
bool collect(const Expr& value, const Update& update, const Ranges& ranges, std::span<const Buffer> inputs,
             std::vector<Move>& moves) {
  if (const Select* choice = as<Select>(value))
    return collect(choice->a, update, ranges, inputs, moves) && collect(choice->b, update, ranges, inputs, moves);
  const Load* load = as<Load>(value);
  if (!load) return false;
  bool input = std::any_of(inputs.begin(), inputs.end(), [&](const Buffer& b) { return b->name == load->buffer->name; });
  Expr difference = simplify(update.store.index - flat_index(load->buffer, load->indices), ranges);
  const int64_t* distance = as_int(difference);
  if (!input || !distance) return false;
  Move move{load->buffer->name, *distance};
  if (std::find(moves.begin(), moves.end(), move) == moves.end()) moves.push_back(move);
  return true;
}

using MovesOf = std::map<std::string, std::vector<Move>, std::less<>>;  // by output

/// A quick look, since most functions compute something.
bool only_copies(const Stmt& s) {
  if (const Store* n = as<Store>(s)) return as<Load>(n->value) || as<Select>(n->value);
  bool copies = true;
  for_each_child(s, [&](const Stmt& child) { copies = copies && only_copies(child); }, [](const Expr&) {});
  return copies;
}

/// Nothing if the function does anything else, or if a parameter's size is not known.
std::optional<MovesOf> moves_of(const PrimFunc& function) {
  if (!function.body || !only_copies(function.body)) return std::nullopt;
  for (const Buffer& p : function.params)
    if (bytes_of(p) <= 0) return std::nullopt;
  Accesses accesses = accesses_of(function);
  if (!accesses.understood) return std::nullopt;
  MovesOf moves;
  std::span<const Buffer> inputs(function.params.data(), static_cast<size_t>(function.num_inputs));
  for (const Update& u : accesses.updates) {
    if (u.store.buffer.empty()) continue;  // a condition: it decides which of the moves happen
    if (!collect(u.value, u, accesses.ranges, inputs, moves[u.store.buffer])) return std::nullopt;
  }
  return moves;
}

}  // namespace

std::optional<std::vector<Part>> outputs_as_parts(const PrimFunc& function) {
  std::optional<MovesOf> moves = moves_of(function);
  if (!moves) return std::nullopt;
  auto inputs = static_cast<size_t>(function.num_inputs);
  std::vector<Part> parts;
  for (size_t o = inputs; o < function.params.size(); ++o) {
    const Buffer& output = function.params[o];
    const std::vector<Move>& of = (*moves)[output->name];
    if (of.size() != 1) return std::nullopt;
    for (size_t i = 0; i < inputs; ++i) {
      const Buffer& input = function.params[i];
      if (input->name != of[0].input) continue;
      int64_t offset = -of[0].distance * byte_size(output->dtype);
      if (offset < 0 || offset + bytes_of(output) > bytes_of(input)) return std::nullopt;
      parts.push_back({i, offset});
    }
  }
  return parts;
}

std::optional<std::vector<int64_t>> inputs_as_parts(const PrimFunc& function) {
  auto inputs = static_cast<size_t>(function.num_inputs);
  if (function.params.size() != inputs + 1) return std::nullopt;
  std::optional<MovesOf> moves = moves_of(function);
  const Buffer& output = function.params.back();
  if (!moves || moves->size() != 1 || !moves->contains(output->name)) return std::nullopt;
  const std::vector<Move>& of = (*moves)[output->name];
  if (of.size() != inputs) return std::nullopt;
  std::vector<int64_t> offsets;
  std::vector<std::pair<int64_t, int64_t>> filled;
  for (size_t i = 0; i < inputs; ++i) {
    auto move = std::find_if(of.begin(), of.end(), [&](const Move& m) { return m.input == function.params[i]->name; });
    if (move == of.end()) return std::nullopt;
    offsets.push_back(move->distance * byte_size(output->dtype));
    filled.emplace_back(offsets.back(), offsets.back() + bytes_of(function.params[i]));
  }
  std::sort(filled.begin(), filled.end());
  int64_t end = 0;
  for (auto [from, to] : filled) {
    if (from != end) return std::nullopt;
    end = to;
  }
  if (end != bytes_of(output)) return std::nullopt;
  return offsets;
}

}  // namespace tenon::link
