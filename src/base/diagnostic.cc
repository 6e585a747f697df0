// SPDX-License-Identifier: Apache-2.0
// Rendering of diagnostics.
#include "base/diagnostic.h"

#include <fmt/format.h>

#include <utility>

namespace tenon {
namespace {

void render_one(std::string& out, const Diagnostic& d, std::string_view severity) {
  if (d.span.file && d.span.line > 0) out += fmt::format("{}:{}:{}: ", *d.span.file, d.span.line, d.span.column);
  out += fmt::format("{}: ", severity);
  if (!d.node.empty()) out += fmt::format("{}: ", d.node);
  out += d.message;
  if (!d.expected.empty()) out += fmt::format(", expected {}", d.expected);
  if (!d.code.empty()) out += fmt::format("  [{}]", d.code);
  out += '\n';
  if (!d.excerpt.empty()) {
    std::string number = std::to_string(d.span.line);
    out += fmt::format("  {} | {}\n", number, d.excerpt);
    size_t column = d.span.column > 0 ? d.span.column - 1 : 0;
    out += fmt::format("  {} | {}^{}\n", std::string(number.size(), ' '), std::string(column, ' '),
                       std::string(d.span.length > 1 ? d.span.length - 1 : 0, '~'));
  }
}

}  // namespace

std::string render(const Diagnostic& d) {
  std::string out;
  render_one(out, d, "error");
  for (const Diagnostic& note : d.notes) render_one(out, note, "note");
  if (!d.hint.empty()) out += fmt::format("  hint: {}\n", d.hint);
  if (!d.function.empty()) out += fmt::format("  in function @{}\n", d.function);
  return out;
}

CompileError::CompileError(Diagnostic diagnostic) : CompileError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

CompileError::CompileError(std::vector<Diagnostic> diagnostics) : diagnostics_(std::move(diagnostics)) {
  check(!diagnostics_.empty(), "a CompileError holds at least one diagnostic");
  for (const Diagnostic& d : diagnostics_) text_ += render(d);
  if (!text_.empty()) text_.pop_back();
}

void ErrorList::add(Diagnostic diagnostic) {
  constexpr size_t kMost = 100;
  diagnostics_.push_back(std::move(diagnostic));
  if (diagnostics_.size() >= kMost) throw_any();
}

void ErrorList::add(const CompileError& error) {
  for (const Diagnostic& d : error.diagnostics()) add(d);
}

void ErrorList::throw_any() {
  if (!diagnostics_.empty()) throw CompileError(std::exchange(diagnostics_, {}));
}

void fail_internal(const std::string& what, const char* file, int line) {
  throw InternalError(fmt::format("internal error: {} ({}:{})", what, file, line));
}

}  // namespace tenon
