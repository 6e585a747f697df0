// SPDX-License-Identifier: Apache-2.0
/// Compiling models, with passes, schedules and code generators of the program's own: the C++ interface of libtenon. What is
/// compiled runs through `tenon/runtime.h`.
///
/// Modules and functions travel as `.tenon` text, the form that every command prints and reads (docs/graph-ir.md, docs/tir.md).
/// Constants of more than 64 bytes stand in it by hash; a text that is returned may name the same hashes and may give new bytes
/// in hex of any length. A build holds the extensions that its options name and nothing else: there is no registry, and two
/// builds of one process, even at the same time, do not see each other's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/plan.h"

namespace tenon {

/// What every function here throws. An extension may throw one too, to refuse a model.
class Error : public std::runtime_error {
 public:
  /// `kind` is an exit code of the command (docs/cli.md), `code` a code of `tenon explain`.
  Error(int kind, std::string code, const std::string& message)
      : std::runtime_error(message), kind_(kind), code_(std::move(code)) {}
  int kind() const { return kind_; }
  const std::string& code() const { return code_; }

 private:
  int kind_;
  std::string code_;
};

/// The bytes of a constant that a text gives by hash; empty if there is none of that hash.
using ConstantLookup = std::function<std::span<const std::byte>(std::string_view hash)>;

/// Where a pass runs.
enum class PassSlot {
  AfterFuse,   // `main` calls primitive functions of graph operators
  AfterLower,  // `main` calls loop functions that have no schedule yet
  BeforePlan,  // loop functions are as they will be compiled
  AfterPlan,   // the same, and every buffer has its place
};

struct PassInput {
  std::string_view module;
  std::string_view plan;  // after-plan: the memory plan as CSV (docs/memory-planning.md); else empty
  ConstantLookup constant;
};

/// Module in, module out. The result is parsed and verified: `main` takes and gives what it did, the module's attributes stay,
/// and what holds at the slot still holds (docs/extending.md). After planning, every buffer keeps its size and lifetime.
struct ModulePass {
  std::string name;  // letters, digits, `_`, `.` and `-`; no name of a pass of Tenon
  PassSlot slot = PassSlot::AfterFuse;
  std::function<std::string(const PassInput& input)> run;
};

struct ScheduleRequest {
  std::string_view function;  // one `primfunc`, as `tenon lower --to tir` prints it
  std::string_view target;    // `llvm -mcpu=haswell`
  int opt_level = 3;
  ConstantLookup constant;
};

/// The provider has nothing to say about the function.
struct Declined {};
/// Schedule steps to take on the function (docs/schedule-primitives.md). Each is proven to keep the meaning.
struct ScheduleSteps {
  std::string text;
};
/// The function with other loops: the same parameters in the same order, of the same types up to shape. It is run beside the
/// one that was given, both in the interpreter on small integers, and refused if a result differs.
struct ScheduledFunction {
  std::string text;
};
using ScheduleAnswer = std::variant<Declined, ScheduleSteps, ScheduledFunction>;

/// Asked before Tenon's own schedules, in the order given, at every level but 0. With several workers it may be called by
/// several threads at once.
struct ScheduleProvider {
  std::string name;
  std::function<ScheduleAnswer(const ScheduleRequest& request)> schedule;
};

// External code: parts of a graph for a code generator of the program's own.

struct ExternalTensor {
  std::string dtype;  // `f32`
  std::vector<int64_t> shape;
};

/// An operator that may take a place in a pattern.
struct ExternalNode {
  struct Operand {
    ExternalTensor type;
    bool constant = false;
    bool chain = false;  // the result of the operator before it in the pattern
  };
  std::string op;          // `conv`, as `tenon ops` lists them
  std::string attributes;  // `{groups = 1, strides = [2,2]}`
  std::vector<Operand> operands;
  std::vector<ExternalTensor> results;
};

/// One place of a pattern: any of these operators, if `accepts` holds.
struct ExternalPlace {
  std::vector<std::string> ops;
  std::function<bool(const ExternalNode& node)> accepts = {};  // none: any
  bool optional = false;
};

/// A chain: each operator reads the result of the one before, which nothing else does.
struct ExternalPattern {
  std::string name;
  std::vector<ExternalPlace> chain;  // the first is not optional
};

/// What a generator compiles: one function of the graph, all of whose types are static.
struct ExternalRegion {
  struct Constant {
    std::string name;  // as in the text
    ExternalTensor type;
    std::span<const std::byte> bytes;  // row-major, of any alignment
  };
  std::string_view function;  // its constants and one `fn`, as `--dump-passes` prints them
  std::string_view symbol;    // what the code has to be called
  std::string_view target;    // `llvm -mcpu=haswell`
  std::vector<ExternalTensor> inputs, outputs;
  std::vector<Constant> constants;  // each that the function reads, in the order of first use
};

// What a generator may give. `constants` names those of the region's that the code wants passed, in order: it takes the inputs,
// these, then the outputs.

/// A relocatable ELF object whose global symbols include the region's, a `tenon_kernel` (tenon/kernel.h). It may call libm.
/// Shared scratch is one block, `workspaces[0]`.
struct ExternalObject {
  std::string bytes;
  std::vector<std::string> constants = {};
  int64_t shared_scratch_bytes = 0, worker_scratch_bytes = 0;
};
/// A kernel that the shared library `libtenon_<component>.so` makes at run time (tenon/component.h) from the description.
struct ExternalComponent {
  std::string component, description;
  std::vector<std::string> constants = {};
};
/// A `primfunc` without a schedule, whose parameters are inputs, constants, outputs: scheduled and compiled as Tenon's own.
struct ExternalLoops {
  std::string text;
  std::vector<std::string> constants = {};
};
/// The object given for another region of the build defines the symbol too.
struct ExternalNothing {
  std::vector<std::string> constants = {};
};
using ExternalAnswer = std::variant<ExternalObject, ExternalComponent, ExternalLoops, ExternalNothing>;

/// Compiles what its patterns take. What it gives is checked, and run once on random numbers beside Tenon's own code
/// (docs/external-code.md). With several workers it may be called by several threads at once.
struct ExternalCodegen {
  std::string name;                       // letters, digits and `_`; of no other generator
  std::vector<ExternalPattern> patterns;  // the first that fits at a node is taken
  bool merges = false;                    // matches that read each other become one region
  std::function<ExternalAnswer(const ExternalRegion& region)> compile;
};

struct BuildOptions {
  std::string target;                                        // empty: the module's own if it has one, else this machine
  std::optional<int> opt_level;                              // none: the module's own if it has one, else 3
  int workers = 1;                                           // threads of the compiler; they change no byte
  bool link_params = false;                                  // constants stay inside kernels
  std::map<std::string, std::vector<int64_t>> input_shapes;  // by input; shapes that the model leaves open
  std::string cache_dir;                                     // machine code of kernels is kept here; empty: nowhere
  std::string dump_dir;                                      // the module after each pass is written here; empty: none
  std::vector<ModulePass> passes;
  std::vector<ScheduleProvider> schedules;
  std::vector<ExternalCodegen> generators;  // they choose before those of `external`
  std::vector<std::string> external;        // as the flag --external of the command: `onednn -ops=conv`, …, or `none`
  bool external_self_test = true;           // external code is compared with Tenon's own before it is used
  std::vector<plan::Pool> pools;            // memory to plan in, the preferred one first; none: one pool without a limit
  std::vector<std::pair<std::string, std::string>> pins;  // a node of the model, and `POOL` or `POOL@OFFSET` for its result
  std::shared_ptr<const plan::MemoryPlanner> planner;     // null: Tenon's own. Its plans pass Tenon's checker, or the build fails
};

/// Compiles a `.onnx` or `.tenon` file to an artifact.
void compile(const std::string& model, const std::string& artifact, const BuildOptions& options = {});

/// The module after a pass, Tenon's or one of the options', as text; `import` is the module as it was read.
std::string module_after(const std::string& model, const std::string& pass, const BuildOptions& options = {});

}  // namespace tenon
