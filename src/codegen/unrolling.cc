// SPDX-License-Identifier: Apache-2.0
// Counts the stores of unrolled loops from the inside out.
#include "codegen/unrolling.h"

#include <algorithm>

namespace tenon::codegen {
namespace {

struct Limited {
  tir::Stmt stmt;
  int64_t stores = 0;  // that code is generated for, at most a little over kMostUnrolled for each loop
};

Limited limit(const tir::Stmt& s) {
  Limited out{s, tir::as<tir::Store>(s) ? 1 : 0};
  auto child = [&](const tir::Stmt& inner) {
    Limited limited = limit(inner);
    out.stores += limited.stores;
    return limited.stmt;
  };
  out.stmt = tir::map_children(s, child, [](const tir::Expr& e) { return e; });
  const auto* loop = tir::as<tir::For>(out.stmt);
  const int64_t* extent = loop && loop->loop_kind == tir::ForKind::Unrolled ? tir::as_int(loop->extent) : nullptr;
  if (!extent || *extent <= 1) return out;
  if (*extent > kMostUnrolled / std::max<int64_t>(out.stores, 1))
    out.stmt = tir::for_loop(loop->var, loop->min, loop->extent, tir::ForKind::Serial, loop->body);
  else
    out.stores *= *extent;
  return out;
}

}  // namespace

tir::Stmt limit_unrolling(const tir::Stmt& body) { return limit(body).stmt; }

}  // namespace tenon::codegen
