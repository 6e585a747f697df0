// SPDX-License-Identifier: Apache-2.0
// What a loop function stores where, and which elements of its parameters it reads for that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tir/affine.h"
#include "tir/stmt.h"

namespace tenon::link {

/// An element of a parameter; the index is flat and over loop variables only.
struct Access {
  std::string buffer;
  tir::Expr index;
};

/// A store, or a condition (`store.buffer` empty), and the parameter elements that it reads, through lets too.
struct Update {
  Access store;
  tir::Expr value;  // over loop variables only; null for a condition
  std::vector<Access> loads;
  std::vector<std::string> loops;  // around it, but for those whose variable has one value there
};

/// A loop over min(size, total - part * size): part * size plus its variable takes each value in [0, total) once.
struct Chunk {
  tir::Affine::Term part;  // its coefficient is the size
  int64_t total = 0;
};

struct Accesses {
  std::vector<Update> updates;
  tir::Ranges ranges;                                // of the loop variables
  std::map<std::string, Chunk, std::less<>> chunks;  // by the loop variable
  bool understood = true;                            // every loop has a known range
};

Accesses accesses_of(const tir::PrimFunc& function);

/// The place in memory of an element, in elements.
tir::Expr flat_index(const tir::Buffer& buffer, const std::vector<tir::Expr>& indices);
/// Of a buffer without gaps; -1 if unknown.
int64_t bytes_of(const tir::Buffer& buffer);

}  // namespace tenon::link
