// SPDX-License-Identifier: Apache-2.0
// Proposes schedule steps that have a fair chance to be legal.
#pragma once

#include <optional>
#include <random>

#include "schedule/primitives/place.h"
#include "schedule/primitives/trace.h"

namespace tenon::test {

class StepProposer {
 public:
  explicit StepProposer(uint64_t seed) : random_(seed) {}
  /// A step for the function as it stands; its primitive is drawn first, then arguments among those that could fit. Nothing where
  /// the function has no place for the primitive drawn.
  std::optional<schedule::Step> propose(const tir::PrimFunc& function);

 private:
  using Args = std::optional<std::vector<std::string>>;
  int pick(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }
  template <class T>
  const T& any(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }
  /// A loop that passes a test.
  const schedule::Place* some_loop(const schedule::Program& program, function_ref<bool(const schedule::Place&)> fits);
  const schedule::BlockPlace* some_block(const schedule::Program& program, function_ref<bool(const schedule::BlockPlace&)> fits);

  Args split(const schedule::Program& program);
  Args fuse(const schedule::Program& program);
  Args reorder(const schedule::Program& program);
  Args independent(const schedule::Program& program);
  Args bind(const schedule::Program& program);
  Args any_serial(const schedule::Program& program);
  Args compute_inline(const schedule::Program& program);
  Args reverse_compute_inline(const schedule::Program& program);
  Args compute_at(const schedule::Program& program);
  Args reverse_compute_at(const schedule::Program& program);
  Args cache_read(const schedule::Program& program);
  Args cache_write(const schedule::Program& program);
  Args set_scope(const schedule::Program& program);
  Args decompose_reduction(const schedule::Program& program);
  Args rfactor(const schedule::Program& program);
  Args transform_layout(const schedule::Program& program);
  Args pad(const schedule::Program& program);
  Args tensorize(const schedule::Program& program);
  Args tile(const schedule::Program& program);
  std::string some_scope() { return pick(2) ? "local" : "global"; }

  std::mt19937_64 random_;
};

/// The functions that the proposer's `tensorize` steps name: `copy_f32_4` describes and `copy_f32_4_in_order` implements the copy
/// of four elements.
const tir::PrimFunc* copy_intrinsic(std::string_view name);

}  // namespace tenon::test
