// SPDX-License-Identifier: Apache-2.0
// External code generators: what a tool that compiles parts of a graph itself says it takes, is handed, and gives back.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/target.h"
#include "external/pattern.h"
#include "graph/graph.h"
#include "tir/stmt.h"

namespace tenon::external {

/// One constant of a region.
struct RegionConstant {
  std::string name;  // its entry in the module's constant table
  Array data;
};

/// What a generator compiles: one function of the graph. Its parameters are the region's inputs, its results the outputs; all
/// types are static.
struct Region {
  const graph::Function& function;
  std::string symbol;                     // what the code has to be called; never changed
  std::vector<RegionConstant> constants;  // each that the function reads, in the order of first use
  Target target;
};

/// A kernel that a component of the run time makes: a shared library `libtenon_<component>.so` (tenon/component.h), which
/// reads the description.
struct ComponentKernel {
  std::string component;
  std::string description;
};

// The three kinds of results. `constants` names those of the region's constants that the symbol wants passed, in order: it
// takes the inputs, these, then the outputs.

/// Code: a relocatable object whose global symbols include the region's, a function of the kind `tenon_kernel`
/// (tenon/kernel.h), or a kernel of a component in place of the object.
struct CodeResult {
  std::string object;
  std::optional<ComponentKernel> kernel;
  std::vector<std::string> constants;
  int64_t shared_scratch_bytes = 0, worker_scratch_bytes = 0;
};
/// An unscheduled loop function, whose parameters are inputs, constants, outputs: scheduled, planned and compiled as our own.
struct LoopResult {
  tir::PrimFunc func;
  std::vector<std::string> constants;
};
/// Nothing to do: an object given for another region of the build defines the symbol too.
struct NothingResult {
  std::vector<std::string> constants;
};
using Result = std::variant<CodeResult, LoopResult, NothingResult>;

/// Immutable; used from several threads.
class ExternalCodegen {
 public:
  virtual ~ExternalCodegen() = default;
  /// What functions name in their attribute `external`.
  virtual std::string_view name() const = 0;
  /// What it takes, in the order of preference.
  virtual const std::vector<Pattern>& patterns() const = 0;
  /// Whether matches that read each other become one region, as long as no cycle arises.
  virtual bool merges() const = 0;
  /// Throws CompileError naming the symbol when it cannot.
  virtual Result compile(const Region& region) const = 0;
};

/// `-key=value` words behind a generator's name.
using Options = std::map<std::string, std::string, std::less<>>;
/// Takes an option out; `otherwise` when it is not given.
std::string take_option(Options& options, std::string_view key, std::string otherwise);
/// Throws CompileError (usage, `external-option`) naming the first option left and those that the generator knows.
void refuse_options(const Options& left, std::string_view generator, std::string_view known);
/// Throws the same for a value that the option does not take.
[[noreturn]] void refuse_option_value(std::string_view key, std::string_view found, std::string_view expected);

}  // namespace tenon::external
