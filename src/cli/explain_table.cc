// SPDX-License-Identifier: Apache-2.0
// The table of error codes. tests/cli checks that it holds each code that occurs in the source, and no other.
#include "cli/explain_table.h"

#include <algorithm>
#include <iterator>

#include "op/all_ops.h"

namespace tenon::cli {
namespace {

constexpr Explanation kExplanations[] = {
    {"argument-count", "a function of the loop IR's text has too many or too few arguments", "the error says how many it takes"},
    {"artifact-damaged", "the artifact is cut off, was changed, or is no artifact",
     "compile the model again, or copy the file again"},
    {"artifact-version", "the artifact was written by another version of Tenon", "compile the model with this version"},
    {"attribute-kind", "an attribute of an operator has a value of another kind than the operator declares",
     "look the operator up with `tenon ops` and correct the value"},
    {"bad-name", "a name holds characters that the text form cannot, or is listed under another",
     "use letters, digits, `_` and `.`"},
    {"bad-token", "the text holds characters that begin nothing", "correct the text where the error points"},
    {"buffer-mismatch", "a buffer is used with another declaration, or outside of a block's regions",
     "use the declaration in scope"},
    {"check-failed", "an output differs from the reference by more than the tolerance",
     "run `tenon verify` to find the first pass that changes a result, or loosen --rtol and --atol"},
    {"command-missing", "this build does not have the command", "`tenon --help` lists what there is"},
    {"component-missing", "a back end, format or external library is not part of this build",
     "`tenon targets` lists the back ends"},
    {"constant-bytes", "the bytes of a constant do not fit its type", "write two hex digits for each byte"},
    {"constants-file", "`constants.bin` is cut off, was changed, or lacks a constant of the text beside it",
     "dump the module again; keep the two files together"},
    {"cpu-feature", "the code uses CPU instructions that this machine lacks", "compile for this machine, or with another -mcpu"},
    {"dtype-mismatch", "an expression or a store mixes data types", "cast one side"},
    {"duplicate-name", "a name is given twice", "rename one"},
    {"dynamic-allocation", "a loop function allocates a buffer whose size is not a number", "fix the shapes with --input-shapes"},
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
    {"interpret-bounds", "a loop function reads or writes outside of a buffer", "correct the index that the error shows"},
    {"interpret-callee", "the interpreter finds no definition of a called function", "add it to the module"},
    {"interpret-dynamic", "the interpreter needs a shape that is not known", "fix it with --input-shapes"},
    {"interpret-input", "an array given to the interpreter does not fit its parameter", "give an array of the parameter's type"},
    {"link-file", "the linker cannot write its temporary file", "check the temporary folder and its free space"},
    {"loop-extent", "a vectorized or unrolled loop has an extent that is not a number", "make it serial, or its extent a number"},
    {"lower-dynamic", "a function has a shape that is not known when compiling, so there is no kernel for it",
     "fix it with --input-shapes"},
    {"lower-external", "a function of an external code generator was to be lowered", "leave it to its code generator"},
    {"lower-missing-constant", "a function reads a constant that the module lacks", "add the constant"},
    {"lower-nested-call", "a primitive function calls another function", "inline the call, or drop `primitive`"},
    {"lower-not-primitive", "a function that is no fused group was to be lowered to one kernel", "run the pass `fuse` first"},
    {"memory-too-large", "the plan would need more memory than can be addressed", "check the shapes given"},
    {"missing-attribute", "a required attribute of an operator is not there", "add it; `tenon ops` describes the operator"},
    {"missing-body", "a loop function has no body", "give it one"},
    {"nesting-too-deep", "an expression or loop nest is nested too deeply to be read", "name parts of it with `let`"},
    {"nothing-to-reduce", "the command given to `tenon reduce` succeeds on the whole module",
     "give a command that fails on it: the module's file is its last argument, or stands where the command says {}"},
    {"no-main", "the module has no function `main`", "name the entry `main`"},
    {"no-schedule-trace", "schedules leave no trace in this build",
     "use `tenon lower --explain` to see why a schedule was chosen"},
    {"not-lowered", "a node of `main` did not become a loop function", "fix the dynamic shapes with --input-shapes"},
    {"not-scheduled", "a loop function has no schedule though its module says that scheduling is done",
     "set the module's `stage` to an earlier pass, or mark the function `scheduled = true`"},
    {"npz-damaged", "an .npz file is cut off or was changed", "save it again with numpy.savez"},
    {"npz-dtype", "an array has a NumPy dtype that Tenon does not read", "convert it with .astype before saving"},
    {"npz-too-large", "an .npz file would exceed 4 GiB", "write fewer outputs"},
    {"number-range", "a number does not fit its type", "use a number in range"},
    {"onnx-attribute", "an attribute of an ONNX node is wrong for its operator", "check the model with onnx.checker"},
    {"onnx-dtype", "the model uses a data type that Tenon does not have", "convert the model to one that `tenon ops` lists"},
    {"onnx-external", "weights stored outside of the model file cannot be read",
     "keep them beside the model under the name that the model says"},
    {"onnx-graph", "the model's graph is broken", "check the model with onnx.checker"},
    {"onnx-input", "a shape given for an input does not fit the model", "`tenon inspect` shows which dimensions are open"},
    {"onnx-model", "the file is no complete ONNX model", "export or copy it again"},
    {"onnx-node", "a node of the model breaks the rules of its operator", "check the model with onnx.checker"},
    {"onnx-not-constant", "an operand that decides shapes is not known when compiling",
     "give its value with --constant NAME and -i"},
    {"onnx-opset", "the model imports an opset that Tenon does not know", "convert it with onnx.version_converter"},
    {"onnx-tensor", "a weight of the model is damaged", "export or copy the model again"},
    {"onnx-unsupported", "the model uses something that this build cannot do",
     "`tenon inspect` lists everything that is not supported"},
    {"onnx-wire", "the file is damaged, or no ONNX model", "export or copy it again"},
    {"operand-count", "an operator has too many or too few operands", "`tenon ops` describes the operator"},
    {"operand-dtype", "an operator does not take this data type", "`tenon ops` lists the data types of each operator"},
    {"out-of-memory", "the system has not enough memory", "free memory, or use a smaller batch"},
    {"output-unknown", "the reference holds an array that is no output of the model", "`tenon inspect` shows the names"},
    {"parameter-scope", "a parameter of a loop function is not global memory", "declare it global"},
    {"rank-mismatch", "a buffer is indexed with too many or too few indices", "give one index for each axis"},
    {"read-only-buffer", "a loop function stores to an input or a constant", "store to an output or an allocated buffer"},
    {"recursive-call", "a function calls itself, directly or through others", "unfold the recursion"},
    {"reg-not-promotable", "a buffer of scope `reg` cannot live in registers",
     "make its indices constants, or its scope `local`"},
    {"reserved-name", "a name is a word of the text form", "rename it"},
    {"result-count", "a node or function has too many or too few results", "the error says how many are expected"},
    {"same-dtype", "operands of one operator have different data types", "cast one of them"},
    {"signature-mismatch", "a call does not fit the function it calls", "correct the operands or the types"},
    {"stage-mismatch", "a dumped module went through passes for another target or level",
     "leave the option out, or start from an earlier stage"},
    {"symbolic-constant", "a constant has an extent that is not a number", "give it numbers"},
    {"target-text", "the target is unknown or cannot be read", "`tenon targets` lists kinds and processors"},
    {"tensor-alignment", "memory given for a tensor is not aligned to its elements", "align it to the size of an element"},
    {"tensor-index", "the model has no input or output of this index", "ask for their number first"},
    {"tensor-size", "memory given for a tensor has another size", "give as many bytes as the tensor's description says"},
    {"tensor-too-large", "a tensor has more than 2^62 elements", "check the shapes given"},
    {"thread-count", "a session was asked for no or too many threads", "ask for 1 to 1024"},
    {"thread-start", "the system does not start another thread", "ask for fewer threads"},
    {"type-mismatch", "a value's type is not the one that follows from its operands",
     "correct the type, or run the pass `infer`"},
    {"undeclared-name", "a variable or buffer is used before it is declared", "declare it, or correct its name"},
    {"undeclared-region", "a block touches a buffer that its regions do not list", "add the buffer to `reads` or `writes`"},
    {"undeclared-value", "a value is used before it is defined", "nodes stand in the order of their values"},
    {"unexpected-token", "the text goes on in a way that it cannot", "correct the text where the error points"},
    {"unknown-attribute", "an operator has no attribute of this name", "`tenon ops` describes the operator"},
    {"unknown-callee", "a call names no function of the module", "add the function, or correct the name"},
    {"unknown-code", "there is no such error code", "`tenon explain` lists them all"},
    {"unknown-constant", "a node names no constant of the module", "add the constant, or correct the name"},
    {"unknown-function", "the model has no such function at this stage", "leave --function out to see all"},
    {"unknown-kernel", "`main` calls a loop function that the module lacks", "add the function, or start from an earlier stage"},
    {"unknown-node", "the model has no node of this name", "`tenon opt MODEL` prints the nodes with their names"},
    {"unknown-op", "there is no operator of this name", "`tenon ops` lists them"},
    {"unknown-pass", "there is no such pass", "`tenon passes` lists them"},
    {"unknown-stage", "a module says that it is at a stage that does not exist", "`tenon passes` lists the stages"},
    {"usage", "the command line is wrong", "`tenon COMMAND --help` lists the flags"},
    {"value-order", "the values of a function are not numbered in order", "number them from the parameters on, without a gap"},
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
