// SPDX-License-Identifier: Apache-2.0
// Arrays that go into a run and come out of it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/npz.h"
#include "driver/driver.h"
#include "runtime/session.h"

namespace tenon::cli {

/// `-i in.npz`, `--fill random:SEED`, `--constant NAME`.
struct InputOptions {
  std::string npz, fill;
  std::vector<std::string> constants;

  void add_to(CLI::App& command);
};

/// The arrays of the options, read once.
class Inputs {
 public:
  explicit Inputs(const InputOptions& options);

  /// Fixes the dynamic dimensions of a model file by the arrays given, and takes the values of constant inputs.
  void fix(const std::string& path, onnx::ImportOptions& import) const;
  /// Sets the inputs of a session.
  void set(runtime::Session& session) const;
  /// One array per input; those that were not given are random.
  std::vector<Array> list(std::span<const runtime::TensorSpec> specs) const;

 private:
  Arrays arrays_;
  std::vector<std::string> constants_;
  std::optional<uint64_t> seed_;
};

/// The outputs by name.
Arrays outputs_of(const runtime::Session& session);

/// As `tenon run` prints it: nine or seventeen digits, integers as they are, 16-bit floats as their bits.
std::string element_text(const Array& array, int64_t index);
/// `y: f32[2,3] xxh3=0123456789abcdef 1 2 3 4 5 6`: up to eight elements.
std::string summary(const std::string& name, const Array& array);

}  // namespace tenon::cli
