// SPDX-License-Identifier: Apache-2.0
// What a pass over modules is: a name and a pure function.
#pragma once

#include <string_view>

#include "graph/op_def.h"

namespace tenon::pass {

/// What a pass may look at beside the module. No state is kept between runs.
struct PassOptions {
  int opt_level = 3;
  /// Fusion: at most this many nodes in one group (spec.md 7.1).
  int64_t fuse_max_nodes = 256;
  /// Constants stay inside fused functions as `allocate_const`.
  bool link_params = false;
  /// Constant folding does not make one constant larger than this.
  int64_t fold_max_bytes = int64_t{64} << 20;
  /// Threads for work on large constants; they change no result.
  int workers = 1;
};

/// Module in, module out: whoever needs the old one passes a copy. Idempotent unless its file says otherwise. The name uses
/// dashes.
struct Pass {
  std::string_view name;
  std::string_view summary;
  graph::Module (*run)(graph::Module module, const PassOptions& options);
};

}  // namespace tenon::pass
