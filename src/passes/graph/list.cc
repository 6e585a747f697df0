// SPDX-License-Identifier: Apache-2.0
// The list of the passes over graph functions.
#include "passes/graph/passes.h"

namespace tenon::pass {

std::span<const Pass* const> graph_passes() {
  static constexpr const Pass* kPasses[] = {&eliminate_common_subexpressions,
                                            &eliminate_dead,
                                            &fold_batch_norm,
                                            &fold_constants,
                                            &fuse,
                                            &infer,
                                            &measure_workspace,
                                            &simplify};
  return kPasses;
}

}  // namespace tenon::pass
