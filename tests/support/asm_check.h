// SPDX-License-Identifier: Apache-2.0
// Looks at assembly text: innermost loops, and what they do with the stack.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::test {

/// One loop that contains no other, from its label to the jump back.
struct InnermostLoop {
  std::string label;
  std::vector<std::string> instructions;
  int count(std::string_view mnemonic_prefix) const;
  /// Instructions that move or use a vector register together with an address relative to the stack pointer.
  int vector_spills() const;
};

/// The innermost loops of x86-64 assembly in LLVM's AT&T form, in the order of their labels.
std::vector<InnermostLoop> innermost_loops(std::string_view assembly);

}  // namespace tenon::test
