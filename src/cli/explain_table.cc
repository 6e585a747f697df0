// SPDX-License-Identifier: Apache-2.0
// The table of error codes. tests/cli checks that it holds each code that occurs in the source, and no other.
#include "cli/explain_table.h"

#include <algorithm>
#include <iterator>

#include "op/all_ops.h"

namespace tenon::cli {
namespace {

constexpr Explanation kExplanations[] = {
    {"artifact-damaged", "the artifact is cut off, was changed, or is no artifact",
     "compile the model again, or copy the file again"},
    {"artifact-version", "the artifact was written by another version of Tenon", "compile the model with this version"},
    {"attribute-kind", "an attribute of an operator has a value of another kind than the operator declares",
     "look the operator up with `tenon ops` and correct the value"},
    {"check-failed", "an output differs from the reference by more than the tolerance",
     "run `tenon verify` to find the first pass that changes a result, or loosen --rtol and --atol"},
    {"command-missing", "this build does not have the command", "`tenon --help` lists what there is"},
    {"component-missing", "a back end, format or external library is not part of this build",
     "`tenon targets` lists the back ends"},
    {"cpu-feature", "the code uses CPU instructions that this machine lacks", "compile for this machine, or with another -mcpu"},
    {"dynamic-shape", "a shape is not known when compiling",
     "give it with --input-shapes \"NAME:[1,3,224,224]\" or give the input with -i"},
    {"evaluate-bounds", "the meaning of an operator reads outside of its operand",
     "report it with the model: an index is not checked"},
    {"file-open", "a file cannot be read", "check the path and its permissions"},
    {"file-write", "a file or folder cannot be written", "check the folder, its permissions and the free space"},
    {"input-dtype", "an input array has another data type than the model's input",
     "convert the array; `tenon inspect` shows the types"},
    {"input-missing", "an input has no value", "give it with -i, or fill it with --fill random:1"},
    {"input-shape", "an input array has another shape than the compiled model's input",
     "compile for that shape with --input-shapes, or give an array of the shape that `tenon inspect` shows"},
    {"input-unknown", "the model has no input of this name", "`tenon inspect` shows the names"},
    {"internal-error", "Tenon itself is wrong", "run again with --dump-passes DIR and report it with that folder"},
    {"memory-too-large", "the plan would need more memory than can be addressed", "check the shapes given"},
    {"missing-attribute", "a required attribute of an operator is not there", "add it; `tenon ops` describes the operator"},
    {"no-main", "the module has no function `main`", "name the entry `main`"},
    {"no-schedule-trace", "schedules leave no trace in this build",
     "use `tenon lower --explain` to see why a schedule was chosen"},
    {"not-lowered", "a node of `main` did not become a loop function", "fix the dynamic shapes with --input-shapes"},
    {"not-scheduled", "a loop function has no schedule though its module says that scheduling is done",
     "set the module's `stage` to an earlier pass, or mark the function `scheduled = true`"},
    {"npz-damaged", "an .npz file is cut off or was changed", "save it again with numpy.savez"},
    {"npz-dtype", "an array has a NumPy dtype that Tenon does not read", "convert it with .astype before saving"},
    {"npz-too-large", "an .npz file would exceed 4 GiB", "write fewer outputs"},
    {"operand-count", "an operator has too many or too few operands", "`tenon ops` describes the operator"},
    {"out-of-memory", "the system has not enough memory", "free memory, or use a smaller batch"},
    {"output-unknown", "the reference holds an array that is no output of the model", "`tenon inspect` shows the names"},
    {"stage-mismatch", "a dumped module went through passes for another target or level",
     "leave the option out, or start from an earlier stage"},
    {"tensor-alignment", "memory given for a tensor is not aligned to its elements", "align it to the size of an element"},
    {"tensor-index", "the model has no input or output of this index", "ask for their number first"},
    {"tensor-size", "memory given for a tensor has another size", "give as many bytes as the tensor's description says"},
    {"tensor-too-large", "a tensor has more than 2^62 elements", "check the shapes given"},
    {"thread-count", "a session was asked for no or too many threads", "ask for 1 to 1024"},
    {"thread-start", "the system does not start another thread", "ask for fewer threads"},
    {"type-mismatch", "a value's type is not the one that follows from its operands",
     "correct the type, or run the pass `infer`"},
    {"unknown-attribute", "an operator has no attribute of this name", "`tenon ops` describes the operator"},
    {"unknown-code", "there is no such error code", "`tenon explain` lists them all"},
    {"unknown-function", "the model has no such function at this stage", "leave --function out to see all"},
    {"unknown-kernel", "`main` calls a loop function that the module lacks", "add the function, or start from an earlier stage"},
    {"unknown-node", "the model has no node of this name", "`tenon opt MODEL` prints the nodes with their names"},
    {"unknown-pass", "there is no such pass", "`tenon passes` lists them"},
    {"unknown-stage", "a module says that it is at a stage that does not exist", "`tenon passes` lists the stages"},
    {"usage", "the command line is wrong", "`tenon COMMAND --help` lists the flags"},
};

/// `conv-C2` is constraint C2 of the operator `conv`.
bool is_operator_constraint(std::string_view code) {
  size_t dash = code.rfind("-C");
  return dash != std::string_view::npos && dash + 2 < code.size() &&
         code.find_first_not_of("0123456789", dash + 2) == std::string_view::npos && op::all_ops().find(code.substr(0, dash));
}

}  // namespace

std::span<const Explanation> all_explanations() { return kExplanations; }

std::optional<Explanation> find_explanation(std::string_view code) {
  auto it =
      std::find_if(std::begin(kExplanations), std::end(kExplanations), [&](const Explanation& e) { return e.code == code; });
  if (it != std::end(kExplanations)) return *it;
  if (!is_operator_constraint(code)) return std::nullopt;
  return Explanation{code, "an operand or attribute breaks a constraint of the operator in front of the dash",
                     "the error says what was expected; `tenon ops` describes the operator"};
}

}  // namespace tenon::cli
