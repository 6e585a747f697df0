// SPDX-License-Identifier: Apache-2.0
// What a user is told when the input is wrong, and what we are told when the compiler is.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// A place in a text file; line and column count from 1, 0 means unknown.
struct Span {
  std::shared_ptr<const std::string> file;
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t length = 1;
};

/// Why the work stopped. The value is the process's exit code (design.md 8).
enum class ErrorKind : int {
  CheckFailed = 1,
  Usage = 2,
  Malformed = 3,    // a file or an array that is damaged or does not match
  Unsupported = 4,  // well-formed, but outside what this build can do
  Missing = 5,      // a component that is not built in or not installed
  FileSystem = 6,
  Limit = 7,
  Device = 8,
  Mismatch = 9,  // version, target or CPU feature
  Internal = 70,
};

/// One finding. Empty fields are unknown. `message` is lower case without a full stop and gives what was seen;
/// `expected` and `found` hold the two values; `hint` is a next step that is likely right.
struct Diagnostic {
  ErrorKind kind = ErrorKind::Malformed;
  std::string code;  // `<operator-or-stage>-C<n>` or a dashed word
  std::string message;
  std::string node;   // the node's name in the model, or its operator
  std::string input;  // operand, file or option
  std::string expected;
  std::string found;
  std::string function;
  std::string excerpt;  // the source line the span points into
  Span span;
  std::string hint;
  std::vector<Diagnostic> notes;
};

/// `file:line:col: error: message  [code]`, the excerpt with a caret, notes, hint and function, one per line.
std::string render(const Diagnostic& diagnostic);

/// The user's model, text or options are wrong. Holds at least one diagnostic.
class CompileError : public std::exception {
 public:
  explicit CompileError(Diagnostic diagnostic);
  explicit CompileError(std::vector<Diagnostic> diagnostics);
  const char* what() const noexcept override { return text_.c_str(); }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  /// Of the first diagnostic.
  ErrorKind kind() const { return diagnostics_.front().kind; }

 private:
  std::vector<Diagnostic> diagnostics_;
  std::string text_;
};

/// The findings of one stage, collected and thrown together at its end.
class ErrorList {
 public:
  /// Throws what is there once 100 are.
  void add(Diagnostic diagnostic);
  void add(const CompileError& error);
  bool empty() const { return diagnostics_.empty(); }
  /// Throws one CompileError with every finding, if there is any.
  void throw_any();

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Tenon is wrong: a broken invariant, with the place that noticed.
class InternalError : public std::exception {
 public:
  explicit InternalError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// Throws InternalError naming the caller's file and line.
[[noreturn]] void fail_internal(const std::string& what, const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// A broken invariant of ours, never a user's mistake.
inline void check(bool condition, const char* what, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!condition) fail_internal(what, file, line);
}

}  // namespace tenon
