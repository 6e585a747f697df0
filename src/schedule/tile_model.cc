// SPDX-License-Identifier: Apache-2.0
// Enumerates register tiles and counts the cycles of each.
#include "schedule/tile_model.h"

#include <algorithm>
#include <limits>

namespace tenon::schedule {
namespace {

// Per cycle, on every core of the last ten years that has these vectors: two fused multiply-adds, two vector loads.
constexpr double kFmas = 2, kLoads = 2;
constexpr double kFmaLatency = 4;
constexpr double kSplitLoad = 1.5;        // an unaligned load crosses a cache line every other time
constexpr double kSecondCacheBytes = 16;  // per cycle, sustained, while the loop computes
constexpr double kTileOverhead = 24;      // cycles to enter and leave one tile, spread over kTypicalDepth steps
constexpr double kTypicalDepth = 256;
constexpr int64_t kMostRows = 14;  // each is a stream of its own

double cycles_per_step(int64_t rows, int64_t vectors, const TileShape& shape) {
  double fma = static_cast<double>(rows * vectors) / kFmas;
  double loads = (static_cast<double>(rows) + static_cast<double>(vectors) * (shape.unaligned ? kSplitLoad : 1)) / kLoads;
  double stream = static_cast<double>(rows * shape.element_bytes) / kSecondCacheBytes;
  return std::max({fma, loads, stream, kFmaLatency}) + kTileOverhead / kTypicalDepth;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

RegisterTile choose_register_tile(const TileShape& shape, const Machine& machine) {
  constexpr double kWorthOfWhole = 1.04;
  constexpr double kMost = std::numeric_limits<double>::infinity();
  int64_t m = shape.m, n = shape.n;
  int64_t lanes = std::max<int64_t>(1, std::min<int64_t>(machine.vector_bytes / shape.element_bytes, n));
  RegisterTile best{1, 1, lanes, kMost}, whole{1, 1, lanes, kMost};
  for (int64_t vectors = 1; vectors <= 6 && vectors * lanes <= n; ++vectors) {
    for (int64_t rows = 1; rows <= std::min<int64_t>(m, machine.vector_registers); ++rows) {
      // One operand is held whole while the other passes through one register; three quarters of the registers is what the
      // allocator keeps free of spills in practice.
      int64_t registers = rows * vectors + std::min(rows, vectors) + 1;
      if (registers > machine.vector_registers || rows * vectors > machine.vector_registers * 3 / 4 || rows > kMostRows) break;
      double tiles = static_cast<double>(ceil_div(m, rows) * ceil_div(n, vectors * lanes));
      RegisterTile tile{rows, vectors, lanes, tiles * cycles_per_step(rows, vectors, shape)};
      auto improve = [&](RegisterTile& on) {
        bool better =
            tile.cycles < on.cycles * 0.999 || (tile.cycles < on.cycles * 1.001 && rows * vectors > on.rows * on.vectors);
        if (better) on = {rows, vectors, lanes, std::min(on.cycles, tile.cycles)};
      };
      improve(best);
      if (m % rows == 0 && n % (vectors * lanes) == 0) improve(whole);
    }
  }
  return shape.whole && whole.cycles <= best.cycles * kWorthOfWhole ? whole : best;
}

}  // namespace tenon::schedule
