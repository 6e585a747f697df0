// SPDX-License-Identifier: Apache-2.0
// A graph with its parameters as a program. Every storage is a block of the arena; inputs are copied in first and outputs
// out last, since kernels of TVM rely on the alignment of its own allocations.
#include "runtime/tvm_folder.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/diagnostic.h"
#include "base/mapped_file.h"
#include "runtime/tvm_backend.h"
#include "runtime/tvm_graph.h"
#include "runtime/tvm_params.h"

namespace tenon::runtime {
namespace {

constexpr uint64_t kAlignment = 64;

uint64_t align_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string type_text(DType dtype, const Shape& shape) { return fmt::format("{}{}", name(dtype), to_string(shape)); }

/// A program with what its executable needs beside the code.
struct Parts {
  Program program;
  std::vector<PackedStep> packed;  // one per step, without their functions
  std::vector<Array> constants;    // one after the other, each aligned
};

class FolderReader {
 public:
  FolderReader(const std::string& folder, const TvmFolderOptions& options)
      : graph_path_(folder + "/" + kTvmGraph), params_path_(folder + "/" + kTvmParams) {
    MappedFile json = map_file(graph_path_), blob = map_file(params_path_);
    graph_ = tvm::parse_graph({reinterpret_cast<const char*>(json.bytes.data()), json.bytes.size()}, graph_path_);
    params_ = tvm::read_params(blob.bytes, blob.owner, params_path_);
    check_params(options);
    std::filesystem::path named = std::filesystem::path(folder).lexically_normal();
    parts_.program.model = (named.has_filename() ? named : named.parent_path()).filename().string();
    parts_.program.target = "tvm";
  }

  Parts read() {
    lay_out_storage();
    places_.resize(graph_.tensors.size());
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) visit(i);
    for (size_t i = 0; i < graph_.heads.size(); ++i) add_output(i);
    return std::move(parts_);
  }

 private:
  bool is_param(const tvm::GraphNode& node) const { return node.function.empty() && params_.contains(node.name); }

  void check_params(const TvmFolderOptions& options) const {
    std::map<std::string_view, const tvm::GraphTensor*> arguments;
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const tvm::GraphNode& node = graph_.nodes[i];
      if (node.function.empty() && !arguments.try_emplace(node.name, &graph_.tensor({i, 0})).second)
        fail("tvm-graph", fmt::format("`{}` has two arguments named `{}`", graph_path_, node.name), node.name, "one", "two");
    }
    for (const auto& [name, array] : params_) {
      auto argument = arguments.find(name);
      if (argument == arguments.end()) {
        if (options.allow_unknown_params) continue;
        fail("tvm-params-unknown", fmt::format("`{}` has the parameter `{}`, which the graph does not have", params_path_, name),
             name, "an argument of the graph", "none of that name");
      }
      const tvm::GraphTensor& tensor = *argument->second;
      if (array.dtype != tensor.dtype || array.shape != tensor.shape)
        fail("tvm-params-mismatch",
             fmt::format("parameter `{}` of `{}` is {}", name, params_path_, type_text(array.dtype, array.shape)), name,
             type_text(tensor.dtype, tensor.shape), type_text(array.dtype, array.shape));
    }
  }

  [[noreturn]] static void fail(std::string code, std::string message, const std::string& node, std::string expected,
                                std::string found) {
    throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                  .code = std::move(code),
                                  .message = std::move(message),
                                  .node = node,
                                  .expected = std::move(expected),
                                  .found = std::move(found),
                                  .hint = "take `graph.json`, `params.bin` and `lib.so` from one build"});
  }

  /// Gives each storage that is written its place in the arena, in the order of their numbers.
  void lay_out_storage() {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_param(graph_.nodes[i]) || graph_.nodes[i].function == tvm::kNop) continue;
      for (uint32_t row = graph_.rows[i]; row < graph_.rows[i + 1]; ++row) {
        uint64_t& bytes = storage_[graph_.tensors[row].storage];
        bytes = std::max<uint64_t>(bytes, graph_.tensors[row].bytes());
      }
    }
    uint64_t arena = 0, outputs = 0,
             limit = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    auto add = [&](uint64_t& sum, uint64_t bytes) {
      if (!__builtin_add_overflow(sum, align_up(bytes), &sum) && sum <= limit) return;
      throw CompileError(
          Diagnostic{.kind = ErrorKind::Limit,
                     .code = "memory-too-large",
                     .message = fmt::format("the tensors of `{}` take more memory than the machine has", graph_path_),
                     .input = graph_path_,
                     .expected = fmt::format("at most {} bytes", limit)});
    };
    for (auto& [id, bytes] : storage_) {
      uint64_t offset = arena;
      add(arena, bytes);
      bytes = offset;
    }
    for (tvm::Entry head : graph_.heads) add(outputs, graph_.tensor(head).bytes());
    parts_.program.arenas = {{.name = "arena", .bytes = arena}};
  }

  Argument arena_place(const tvm::GraphTensor& tensor) const { return {Place::Arena, 0, storage_.at(tensor.storage)}; }

  Argument& place(tvm::Entry entry) { return places_[graph_.rows[entry.node] + entry.index]; }

  void visit(uint32_t index) {
    const tvm::GraphNode& node = graph_.nodes[index];
    if (node.function.empty())
      visit_argument(index);
    else if (node.function == tvm::kNop)
      place({index, 0}) = place(node.inputs[0]);
    else
      visit_call(index);
  }

  void visit_argument(uint32_t index) {
    const tvm::GraphNode& node = graph_.nodes[index];
    const tvm::GraphTensor& tensor = graph_.tensor({index, 0});
    Program& program = parts_.program;
    if (auto param = params_.find(node.name); param != params_.end()) {
      place({index, 0}) = {Place::Constant, 0, program.constants_bytes};
      program.constants_bytes += align_up(param->second.bytes.size());
      parts_.constants.push_back(param->second);
      return;
    }
    place({index, 0}) = arena_place(tensor);
    add_copy({Place::Input, static_cast<uint32_t>(program.inputs.size())}, place({index, 0}), tensor.bytes(),
             "copy of input " + node.name);
    program.inputs.push_back({node.name, tensor.dtype, tensor.shape});
  }

  void visit_call(uint32_t index) {
    const tvm::GraphNode& node = graph_.nodes[index];
    for (uint32_t k = 0; k < node.outputs; ++k) place({index, k}) = arena_place(graph_.tensor({index, k}));
    if (node.function == tvm::kCopy)
      return add_copy(place(node.inputs[0]), place({index, 0}), graph_.tensor({index, 0}).bytes(), node.name);
    Program& program = parts_.program;
    auto [kernel, inserted] = kernels_.try_emplace(node.function, static_cast<uint32_t>(program.kernels.size()));
    if (inserted) program.kernels.push_back(node.function);
    Step& step = program.steps.emplace_back(Step{.kernel = kernel->second, .label = node.name});
    PackedStep& packed = parts_.packed.emplace_back();
    packed.name = node.function;
    uint64_t touched = 0;
    auto add = [&](tvm::Entry entry) {
      const tvm::GraphTensor& tensor = graph_.tensor(entry);
      step.args.push_back(place(entry));
      packed.parameters.push_back({tensor.dtype, node.flatten ? Shape{element_count(tensor.shape)} : tensor.shape});
      if (place(entry).place == Place::Arena) touched += tensor.bytes();
    };
    for (tvm::Entry input : node.inputs) add(input);
    for (uint32_t k = 0; k < node.outputs; ++k) add({index, k});
    program.arena_lower_bound = program.arenas[0].lower_bound = std::max(program.arena_lower_bound, touched);
  }

  void add_output(size_t index) {
    const tvm::GraphTensor& tensor = graph_.tensor(graph_.heads[index]);
    TensorSpec& output = parts_.program.outputs.emplace_back(TensorSpec{fmt::format("out{}", index), tensor.dtype, tensor.shape});
    add_copy(place(graph_.heads[index]), {Place::Output, static_cast<uint32_t>(index)}, tensor.bytes(),
             "copy to output " + output.name);
  }

  void add_copy(Argument from, Argument to, uint64_t bytes, std::string label) {
    if (from == to) return;
    parts_.program.steps.push_back({.kernel = Step::kCopy, .args = {from, to}, .copy_bytes = bytes, .label = std::move(label)});
    parts_.packed.emplace_back();
  }

  std::string graph_path_, params_path_;
  tvm::Graph graph_;
  tvm::Params params_;
  Parts parts_;
  std::map<uint32_t, uint64_t> storage_;  // bytes, then offset in the arena, by number
  std::vector<Argument> places_;          // of each tensor of the graph
  std::map<std::string, uint32_t, std::less<>> kernels_;
};

/// What keeps a folder's code and constants in memory.
struct Loaded {
  void* library = nullptr;
  MutableArray constants;

  explicit Loaded(uint64_t bytes) : constants(DType::U8, {static_cast<int64_t>(bytes)}) {}
  ~Loaded() {
    if (library) ::dlclose(library);
  }
};

[[noreturn]] void fail_library(const std::string& path, const std::string& what, const std::string& function, std::string hint) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                .code = "tvm-library",
                                .message = fmt::format("`{}` cannot be used: {}", path, what),
                                .node = function,
                                .input = path,
                                .expected = function.empty() ? "a shared library for this machine" : "a function of that name",
                                .hint = std::move(hint)});
}

void open_library(Loaded& loaded, const std::string& path) {
  map_file(path);  // tells a missing file from one that the loader refuses
  // Kernels call libm; it must be found whoever opened us.
  ::dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  // With a slash in the name the loader searches no other folder.
  loaded.library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded.library) fail_library(path, ::dlerror(), "", "compile the model for this machine");
  tvm::connect(loaded.library);
}

void find_functions(std::vector<PackedStep>& steps, const Loaded& loaded, const std::string& path) {
  for (PackedStep& step : steps) {
    if (step.name.empty()) continue;
    step.function = reinterpret_cast<tvm::PackedFunction>(tvm::own_symbol(loaded.library, step.name.c_str()));
    if (step.function) continue;
    bool imports = tvm::own_symbol(loaded.library, "__tvm_dev_mblob") != nullptr;
    fail_library(path, fmt::format("it has no function `{}`", step.name), step.name,
                 imports ? "the library imports modules for other devices, which Tenon does not load"
                         : "take `graph.json` and `lib.so` from one build");
  }
}

}  // namespace

Program read_tvm_program(const std::string& folder, const TvmFolderOptions& options) {
  return FolderReader(folder, options).read().program;
}

std::shared_ptr<const Executable> load_tvm_folder(const std::string& folder, const TvmFolderOptions& options) {
  Parts parts = FolderReader(folder, options).read();
  auto loaded = std::make_shared<Loaded>(parts.program.constants_bytes);
  std::string library = folder + "/" + kTvmLibrary;
  open_library(*loaded, library);
  find_functions(parts.packed, *loaded, library);
  std::byte* next = loaded->constants.data();
  for (const Array& constant : parts.constants) {
    if (!constant.bytes.empty()) std::memcpy(next, constant.bytes.data(), constant.bytes.size());
    next += align_up(constant.bytes.size());
  }
  auto executable = std::make_shared<Executable>();
  executable->constants = loaded->constants.data();
  executable->program = std::move(parts.program);
  executable->packed = std::move(parts.packed);
  executable->owner = std::move(loaded);
  return executable;
}

}  // namespace tenon::runtime
