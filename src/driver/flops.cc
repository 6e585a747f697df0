// SPDX-License-Identifier: Apache-2.0
// Counts operations per loop body, times the extents around it.
#include "driver/flops.h"

namespace tenon::driver {
namespace {

double operations(const tir::Expr& value) {
  double count = 0;
  tir::visit_exprs(value, [&](const tir::Expr& e) {
    if (!is_float(e->dtype)) return;
    if (e->kind == tir::ExprKind::Binary)
      count += 1;
    else if (const auto* call = tir::as<tir::Call>(e))
      count += call->op == tir::Intrinsic::Fma ? 2 : 1;
  });
  return count;
}

/// `times` is how often the statement runs. Depth is that of the loops.
double count(const tir::Stmt& s, double times) {
  if (const auto* store = tir::as<tir::Store>(s)) return times * operations(store->value);
  if (const auto* let = tir::as<tir::Let>(s)) return times * operations(let->value);
  if (const auto* loop = tir::as<tir::For>(s)) {
    const int64_t* extent = tir::as_int(loop->extent);
    return count(loop->body, extent ? times * static_cast<double>(*extent) : 0);
  }
  double sum = 0;
  if (const auto* block = tir::as<tir::Block>(s)) return count(block->body, times);
  tir::for_each_child(s, [&](const tir::Stmt& child) { sum += count(child, times); }, [](const tir::Expr&) {});
  return sum;
}

}  // namespace

double count_flops(const tir::PrimFunc& function) { return count(function.body, 1); }

}  // namespace tenon::driver
