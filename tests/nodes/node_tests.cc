// SPDX-License-Identifier: Apache-2.0
// Runs ONNX's backend node tests: each is a small model with inputs and the outputs that ONNX expects. A case passes when
// generated code at -O0 and at -O3 and the interpreter give them.
//
//   tenon_node_tests DATA_FOLDER LISTS_FOLDER [--only TEXT] [--list]
//
// Inputs are fed at run time, but for those that constant_inputs.txt names (`test: input input`). skip.txt names the tests
// that do not pass, each with its reason (`test: reason`). The program fails when a test that is not listed does not pass,
// when a listed one does, and on any wrong answer, listed or not, unless the reason starts with `random` (a generator of
// random numbers) or `data` (the test contradicts itself).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "driver/driver.h"
#include "graph/interpret.h"
#include "import/onnx/import.h"
#include "runtime/session.h"
#include "support/onnx_tensor.h"

namespace {

namespace fs = std::filesystem;
using namespace tenon;

enum class Outcome { Passed, Refused, Failed };

struct Result {
  Outcome outcome = Outcome::Passed;
  std::string reason;
};

/// `name: text` lines; `#` starts a comment line.
std::map<std::string, std::string> read_list(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path.string()));
  std::map<std::string, std::string> out;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos || colon + 2 == line.size())
      throw std::runtime_error(fmt::format("{}: expected `test: text`, found `{}`", path.string(), line));
    if (!out.emplace(line.substr(0, colon), line.substr(colon + 2)).second)
      throw std::runtime_error(fmt::format("{}: `{}` is listed twice", path.string(), line.substr(0, colon)));
  }
  return out;
}

struct Case {
  fs::path folder;
  std::string constant_inputs;  // names, separated by spaces

  bool is_constant(const std::string& input) const {
    return (' ' + constant_inputs + ' ').find(' ' + input + ' ') != std::string::npos;
  }
};

/// The arrays of `input_0.pb`, … or `output_0.pb`, …. The data holds bf16 as the u16 of equal bits.
std::vector<Array> read_arrays(const fs::path& folder, const char* kind, const std::vector<onnx::ModelInfo::Value>& values) {
  std::vector<Array> out;
  for (size_t i = 0; i < values.size(); ++i) {
    out.push_back(test::read_tensor_file((folder / fmt::format("{}_{}.pb", kind, i)).string()));
    if (values[i].dtype == "bf16" && out.back().dtype == DType::U16) out.back().dtype = DType::BF16;
  }
  return out;
}

/// The results of generated code, loaded in memory.
std::vector<Array> compiled(const graph::Module& module, const std::vector<Array>& inputs, int opt_level) {
  driver::CompileOptions options;
  options.opt_level = opt_level;
  runtime::Session session(driver::load(driver::build(driver::run_pipeline(module, options), options)));
  for (size_t i = 0; i < inputs.size(); ++i) session.set_input(session.program().inputs[i].name, inputs[i]);
  session.run();
  std::vector<Array> out;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) out.push_back(session.output(i));
  return out;
}

Result compare(const std::vector<Array>& found, const std::vector<Array>& expected, std::string_view how) {
  if (found.size() != expected.size())
    return {Outcome::Failed, fmt::format("{} outputs instead of {}", found.size(), expected.size())};
  for (size_t i = 0; i < found.size(); ++i)
    if (auto text = test::difference(found[i], expected[i]); !text.empty())
      return {Outcome::Failed, fmt::format("{}: output {}: {}", how, i, text)};
  return {};
}

Result run(const Case& test) {
  const std::string model = (test.folder / "model.onnx").string();
  const fs::path data = test.folder / "test_data_set_0";
  const onnx::ModelInfo info = onnx::inspect_file(model);
  for (const auto& input : info.inputs)
    if (!dtype_from_name(input.dtype)) onnx::import_file(model);  // says why it cannot be fed
  const std::vector<Array> arrays = read_arrays(data, "input", info.inputs);
  onnx::ImportOptions options;
  std::vector<Array> inputs;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string& name = info.inputs[i].name;
    if (test.is_constant(name)) {
      options.constant_inputs[name] = arrays[i];
    } else {
      options.input_shapes[name] = arrays[i].shape;
      inputs.push_back(arrays[i]);
    }
  }
  const graph::Module module = onnx::import_file(model, options);
  const std::vector<Array> expected = read_arrays(data, "output", info.outputs);
  for (int level : {0, 3})
    if (Result r = compare(compiled(module, inputs, level), expected, fmt::format("-O{}", level)); r.outcome != Outcome::Passed)
      return r;
  return compare(graph::interpret(module, "main", inputs), expected, "interpreted");
}

Result run_guarded(const Case& test) {
  try {
    return run(test);
  } catch (const CompileError& e) {
    return {e.kind() == ErrorKind::Unsupported ? Outcome::Refused : Outcome::Failed, e.what()};
  } catch (const std::exception& e) {
    return {Outcome::Failed, e.what()};
  }
}

/// What is wrong about a result, given the reason it is listed with (empty: not listed); empty if nothing is.
std::string complaint(const Result& result, const std::string& listed) {
  if (result.outcome == Outcome::Passed) return listed.empty() ? "" : "passes, but is listed in skip.txt";
  if (result.outcome == Outcome::Refused) return listed.empty() ? "refused: " + result.reason : "";
  return listed.starts_with("random") || listed.starts_with("data") ? "" : "wrong: " + result.reason;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  auto flag = [&](const char* name) { return std::erase(args, name) > 0; };
  const bool list = flag("--list");
  std::string only;
  if (auto it = std::find(args.begin(), args.end(), "--only"); it != args.end() && it + 1 != args.end()) {
    only = it[1];
    args.erase(it, it + 2);
  }
  if (args.size() != 2) {
    fmt::print(stderr, "usage: tenon_node_tests DATA_FOLDER LISTS_FOLDER [--only TEXT] [--list]\n");
    return 2;
  }
  const auto skip = read_list(fs::path(args[1]) / "skip.txt"),
             constant_inputs = read_list(fs::path(args[1]) / "constant_inputs.txt");
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(args[0])) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  int counts[3] = {}, complaints = 0;
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    if (name.find(only) == std::string::npos) continue;
    auto find = [&](const auto& map) { return map.contains(name) ? map.at(name) : std::string(); };
    const Result result = run_guarded({folder, find(constant_inputs)});
    ++counts[static_cast<int>(result.outcome)];
    if (list) fmt::print("{}\t{}\t{}\n", "PRF"[static_cast<int>(result.outcome)], name, result.reason);
    if (auto text = complaint(result, find(skip)); !text.empty()) {
      ++complaints;
      if (!list) fmt::print("{}: {}\n", name, text);
    }
  }
  fmt::print("{} passed, {} refused, {} failed\n", counts[0], counts[1], counts[2]);
  return complaints == 0 ? 0 : 1;
}
