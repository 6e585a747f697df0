// SPDX-License-Identifier: Apache-2.0
// Finding innermost loops in assembly text: a jump back to a label with no other jump back in between.
#include "support/asm_check.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace tenon::test {
namespace {

std::string_view trimmed(std::string_view line) {
  size_t comment = line.find('#');
  line = line.substr(0, comment);
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  return line;
}

}  // namespace

int InnermostLoop::count(std::string_view mnemonic_prefix) const {
  return static_cast<int>(
      std::ranges::count_if(instructions, [&](const std::string& i) { return i.starts_with(mnemonic_prefix); }));
}

int InnermostLoop::vector_spills() const {
  return static_cast<int>(std::ranges::count_if(instructions, [](const std::string& i) {
    bool stack = i.find("(%rsp") != std::string::npos;  // rbp is an ordinary register: kernels keep no frame pointer
    bool vector =
        i.find("%xmm") != std::string::npos || i.find("%ymm") != std::string::npos || i.find("%zmm") != std::string::npos;
    return stack && vector;
  }));
}

std::vector<InnermostLoop> innermost_loops(std::string_view assembly) {
  std::vector<std::string> lines;
  std::map<std::string, size_t, std::less<>> labels;
  while (!assembly.empty()) {
    size_t end = std::min(assembly.find('\n'), assembly.size());
    std::string_view line = trimmed(assembly.substr(0, end));
    assembly.remove_prefix(std::min(end + 1, assembly.size()));
    if (line.ends_with(':'))
      labels[std::string(line.substr(0, line.size() - 1))] = lines.size();
    else if (!line.empty() && line.front() != '.')
      lines.emplace_back(line);
  }
  std::vector<InnermostLoop> loops;
  size_t last_back_jump = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].front() != 'j') continue;
    size_t target = lines[i].find_last_of(" \t");
    auto label = target == std::string::npos ? labels.end() : labels.find(std::string_view(lines[i]).substr(target + 1));
    if (label == labels.end() || label->second > i) continue;
    if (loops.empty() || label->second >= last_back_jump)
      loops.push_back(
          {label->first,
           {lines.begin() + static_cast<std::ptrdiff_t>(label->second), lines.begin() + static_cast<std::ptrdiff_t>(i) + 1}});
    last_back_jump = i;
  }
  return loops;
}

}  // namespace tenon::test
