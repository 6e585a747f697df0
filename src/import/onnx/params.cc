// SPDX-License-Identifier: Apache-2.0
// Input types from the model and the options.
#include "import/onnx/params.h"

#include <fmt/format.h>

#include <set>
#include <unordered_set>

#include "import/onnx/tensor.h"

namespace tenon::onnx {
namespace {

std::string declared(const ValueInfo& info) {
  if (!info.shape) return "any rank";
  std::string out = "[";
  for (const ValueInfo::Dim& d : *info.shape) {
    if (out.size() > 1) out += ',';
    out += d.value ? std::to_string(*d.value) : d.symbol.empty() ? "?" : std::string(d.symbol);
  }
  return out + ']';
}

class Resolver {
 public:
  Resolver(const Source& source, const Graph& graph, const ImportOptions& options) : source_(source), options_(options) {
    std::unordered_set<std::string_view> constants;
    for (const Tensor& t : graph.initializers) constants.insert(t.name);
    for (const ValueInfo& v : graph.inputs)
      if (!constants.contains(v.name)) infos_.push_back(&v);
  }

  InputTypes resolve() {
    check_names();
    for (const ValueInfo* info : infos_) bind(*info);
    InputTypes out;
    for (const ValueInfo* info : infos_) out.inputs.push_back(resolve(*info));
    for (const InputTypes::Input& input : out.inputs)
      if (!input.type.is_static())
        out.shape_hint +=
            fmt::format("{} --input-shapes \"{}:{}\"", out.shape_hint.empty() ? "give numbers for the dimensions:" : "",
                        input.info->name, to_string(std::span(input.type.shape)));
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view input, std::string message, std::string expected, std::string found) const {
    Diagnostic d = source_.error("onnx-input", message, std::move(expected), std::move(found));
    d.input = input;
    throw CompileError(d);
  }

  void check_names() const {
    std::set<std::string_view> known;
    for (const ValueInfo* info : infos_) known.insert(info->name);
    std::string list;
    for (const ValueInfo* info : infos_) list += fmt::format("{}`{}`", list.empty() ? "" : ", ", info->name);
    auto check_name = [&](const std::string& name) {
      if (!known.contains(name)) fail(name, fmt::format("the model has no input `{}`", name), list, name);
    };
    for (const auto& [name, shape] : options_.input_shapes) check_name(name);
    for (const auto& [name, value] : options_.constant_inputs) check_name(name);
  }

  const Array* value(const ValueInfo& info) const {
    auto it = options_.constant_inputs.find(info.name);
    return it == options_.constant_inputs.end() ? nullptr : &it->second;
  }

  /// The shape that the options give, if any.
  const Shape* given(const ValueInfo& info) const {
    if (const Array* v = value(info)) return &v->shape;
    auto it = options_.input_shapes.find(info.name);
    return it == options_.input_shapes.end() ? nullptr : &it->second;
  }

  /// Checks a given shape against the declared one and notes what it says of symbols.
  void bind(const ValueInfo& info) {
    const Shape* shape = given(info);
    if (!shape) return;
    auto misfit = [&](std::string expected) {
      fail(info.name, fmt::format("input `{}` is declared as {} but given as {}", info.name, declared(info), to_string(*shape)),
           std::move(expected), to_string(*shape));
    };
    for (int64_t extent : *shape)
      if (extent < 0) misfit("extents of 0 or more");
    element_count(*shape);
    if (!info.shape) return;
    if (info.shape->size() != shape->size()) misfit(fmt::format("rank {}", info.shape->size()));
    for (size_t i = 0; i < shape->size(); ++i) {
      const ValueInfo::Dim& dim = (*info.shape)[i];
      const int64_t extent = (*shape)[i];
      if (dim.value && *dim.value != extent) misfit(fmt::format("{} at axis {}", *dim.value, i));
      if (dim.value || dim.symbol.empty()) continue;
      auto [it, fresh] = symbols_.emplace(dim.symbol, extent);
      if (!fresh && it->second != extent) misfit(fmt::format("{} at axis {}, as `{}` is elsewhere", it->second, i, dim.symbol));
    }
  }

  InputTypes::Input resolve(const ValueInfo& info) {
    if (info.kind != ValueInfo::Kind::Tensor || info.type == ElemType::Undefined)
      fail(info.name, fmt::format("input `{}` has no type", info.name), "an element type and a shape", "none");
    const DType dtype = *dtype_of(info.type);
    const Array* constant = value(info);
    if (constant && constant->dtype != dtype)
      fail(info.name, fmt::format("input `{}` is given as {}", info.name, tenon::name(constant->dtype)),
           std::string(tenon::name(dtype)), std::string(tenon::name(constant->dtype)));
    if (const Shape* shape = given(info)) return {&info, TensorType::of(dtype, *shape), constant};
    if (!info.shape) {
      Diagnostic d = source_.error("onnx-input", fmt::format("the rank of input `{}` is unknown", info.name), "a shape", "none",
                                   fmt::format("give it: --input-shapes \"{}:[1,3,224,224]\"", info.name));
      d.kind = ErrorKind::Unsupported;
      d.input = info.name;
      throw CompileError(d);
    }
    TensorType type(dtype, {});
    for (size_t i = 0; i < info.shape->size(); ++i)
      type.shape.push_back(resolve((*info.shape)[i], fmt::format("{}_{}", info.name, i)));
    return {&info, std::move(type), nullptr};
  }

  Dim resolve(const ValueInfo::Dim& dim, const std::string& place) {
    if (dim.value) return *dim.value;
    auto it = symbols_.find(dim.symbol);
    if (!dim.symbol.empty() && it != symbols_.end()) return it->second;
    return tir::var(variable(dim.symbol.empty() ? place : std::string(dim.symbol)));
  }

  /// A name that the text form can write; one for each symbol.
  std::string variable(const std::string& symbol) {
    auto [it, fresh] = variables_.emplace(symbol, symbol);
    if (!fresh) return it->second;
    std::string& name = it->second;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "d");
    const std::string base = name;
    for (int i = 1; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    return name;
  }

  const Source& source_;
  const ImportOptions& options_;
  std::vector<const ValueInfo*> infos_;
  std::map<std::string_view, int64_t> symbols_;
  std::map<std::string, std::string> variables_;
  std::set<std::string> taken_;
};

}  // namespace

InputTypes input_types(const Source& source, const Graph& graph, const ImportOptions& options) {
  return Resolver(source, graph, options).resolve();
}

}  // namespace tenon::onnx
