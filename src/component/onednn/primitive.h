// SPDX-License-Identifier: Apache-2.0
// One primitive of oneDNN with its memory, ready to be run again and again.
#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace tenon::onednn {

class Kernel {
 public:
  /// Makes the primitive and brings constant weights into the layout that it wants, once. `args` are null but for constants.
  /// Throws std::exception.
  Kernel(std::string_view description, std::span<const void* const> args, int threads);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  void run(void* const* args);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of oneDNN.
const char* version();

}  // namespace tenon::onednn
