// SPDX-License-Identifier: Apache-2.0
// Inputs, outputs, and how they compare and print.
#include "cli/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/compare.h"
#include "base/hash.h"
#include "cli/options.h"

namespace tenon::cli {
namespace {

constexpr int64_t kShownElements = 8;

uint64_t parse_fill(const std::string& fill) {
  constexpr std::string_view kPrefix = "random:";
  uint64_t seed = 0;
  const char* end = fill.data() + fill.size();
  if (fill.starts_with(kPrefix) && fill.size() > kPrefix.size()) {
    auto [stop, error] = std::from_chars(fill.data() + kPrefix.size(), end, seed);
    if (error == std::errc() && stop == end) return seed;
  }
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "usage",
                                .message = fmt::format("--fill cannot be `{}`", fill),
                                .input = "--fill",
                                .expected = "random:SEED, such as random:1"});
}

bool is_number(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos; }

}  // namespace

void InputOptions::add_to(CLI::App& command) {
  command.add_option("-i,--inputs", npz, "Inputs by name, a .npz file");
  command.add_option("--fill", fill, "Values for the other inputs: random:SEED");
  add_repeated(command, "--constant", constants, "Take this input's value from -i when compiling (shapes, axes); repeatable");
}

Inputs::Inputs(const InputOptions& options) : constants_(options.constants) {
  if (!options.npz.empty()) arrays_ = read_npz(options.npz);
  if (!options.fill.empty()) seed_ = parse_fill(options.fill);
  for (const std::string& name : constants_)
    if (!arrays_.contains(name))
      throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                    .code = "usage",
                                    .message = fmt::format("--constant names `{}`, which is not among the arrays given", name),
                                    .input = name,
                                    .expected = "an array of the file given with -i"});
}

void Inputs::fix(const std::string& path, onnx::ImportOptions& import) const {
  for (const std::string& name : constants_) import.constant_inputs[name] = arrays_.find(name)->second;
  if (path.ends_with(".tenon") || arrays_.empty() || driver::is_compiled(path)) return;
  for (const onnx::ModelInfo::Value& input : onnx::inspect_file(path).inputs) {
    auto array = arrays_.find(input.name);
    bool fixed = std::all_of(input.shape.begin(), input.shape.end(), is_number);
    if (array != arrays_.end() && !fixed) import.input_shapes.try_emplace(input.name, array->second.shape);
  }
}

void Inputs::set(runtime::Session& session) const {
  for (const auto& [name, array] : arrays_)
    if (std::find(constants_.begin(), constants_.end(), name) == constants_.end()) session.set_input(name, array);
  if (seed_) runtime::fill_random(session, *seed_);
}

std::vector<Array> Inputs::list(std::span<const runtime::TensorSpec> specs) const {
  std::vector<Array> list;
  for (size_t i = 0; i < specs.size(); ++i) {
    auto array = arrays_.find(specs[i].name);
    list.push_back(array != arrays_.end() ? array->second : runtime::random_input(specs[i], i, seed_.value_or(1)));
  }
  return list;
}

Arrays outputs_of(const runtime::Session& session) {
  Arrays outputs;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) outputs[session.program().outputs[i].name] = session.output(i);
  return outputs;
}

std::string element_text(const Array& array, int64_t index) {
  if (array.dtype == DType::F64) return fmt::format("{:.17g}", element(array, index));
  if (array.dtype == DType::F16 || array.dtype == DType::BF16) return fmt::format("0x{:04x}", array.read<uint16_t>(index));
  if (array.dtype == DType::F32) return fmt::format("{:.9g}", element(array, index));
  if (array.dtype == DType::U64) return std::to_string(array.read<uint64_t>(index));
  if (array.dtype == DType::I64) return std::to_string(array.read<int64_t>(index));
  return fmt::format("{:.0f}", element(array, index));
}

std::string summary(const std::string& name, const Array& array) {
  std::string_view bytes(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  std::string out = fmt::format("{}: {}{} xxh3={:016x}", name, tenon::name(array.dtype), to_string(array.shape), hash64(bytes));
  int64_t count = array.elements();
  for (int64_t i = 0; i < std::min(count, kShownElements); ++i) out += " " + element_text(array, i);
  return out + (count > kShownElements ? " ...\n" : "\n");
}

}  // namespace tenon::cli
