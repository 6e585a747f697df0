// SPDX-License-Identifier: Apache-2.0
// External code generators of the public interface: regions as text and bytes on the outside, as IR on the inside.
#include "api/external.h"

#include <type_traits>

#include "api/own_errors.h"
#include "graph/text.h"
#include "op/all_ops.h"

namespace tenon::api {
namespace {

ExternalTensor outside(const TensorType& type) { return {std::string(name(type.dtype)), type.static_shape()}; }

std::vector<ExternalTensor> outside(std::span<const TensorType> types) {
  std::vector<ExternalTensor> out;
  for (const TensorType& type : types) out.push_back(outside(type));
  return out;
}

ExternalNode outside(const external::Candidate& candidate) {
  const graph::Node& node = candidate.node;
  ExternalNode out{std::string(node.op->name), tir::print_attrs(node.attrs), {}, outside(node.types)};
  for (size_t i = 0; i < node.inputs.size(); ++i)
    out.operands.push_back({outside(candidate.type(i)), candidate.constant(i), node.inputs[i] == candidate.chain});
  return out;
}

class Generator : public external::ExternalCodegen {
 public:
  explicit Generator(const tenon::ExternalCodegen& given) : given_(given) {
    for (const ExternalPattern& pattern : given.patterns) patterns_.push_back(inside(pattern));
  }

  std::string_view name() const override { return given_.name; }
  const std::vector<external::Pattern>& patterns() const override { return patterns_; }
  bool merges() const override { return given_.merges; }

  external::Result compile(const external::Region& region) const override {
    graph::Module alone;
    alone.functions.emplace(region.function.name, region.function);
    ExternalRegion request{.symbol = region.symbol};
    for (const graph::Param& param : region.function.params) request.inputs.push_back(outside(param.type));
    for (graph::ValueId v : region.function.results) request.outputs.push_back(outside(region.function.type(v)));
    for (const external::RegionConstant& constant : region.constants) {
      alone.constants.emplace(constant.name, constant.data);
      request.constants.push_back(
          {constant.name, {std::string(tenon::name(constant.data.dtype)), constant.data.shape}, constant.data.bytes});
    }
    tir::ConstantBytes constants;
    std::string function = graph::print(alone, &constants), target = region.target.text();
    request.function = function;
    request.target = target;
    ExternalAnswer given = own_code(fmt::format("@{}", request.symbol), [&] { return given_.compile(request); });
    return std::visit([&](auto& kind) { return inside(kind, constants); }, given);
  }

 private:
  /// An exception that refuses nothing is a mistake of the program; it says whose.
  template <class Work>
  std::invoke_result_t<Work> own_code(std::string_view subject, const Work& work) const {
    try {
      return own_errors(given_.name, work);
    } catch (const CompileError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw InternalError(fmt::format("external code generator `{}` failed on `{}`: {}", given_.name, subject, error.what()));
    }
  }

  [[noreturn]] void refuse(const ExternalPattern& pattern, const std::string& expected, const std::string& found) const {
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "external-pattern",
                                  .message = fmt::format("pattern `{}` of external code generator `{}` can match nothing: {}",
                                                         pattern.name, given_.name, found),
                                  .input = given_.name,
                                  .expected = expected,
                                  .found = found});
  }

  external::Pattern inside(const ExternalPattern& pattern) const {
    if (pattern.chain.empty() || pattern.chain[0].optional)
      refuse(pattern, "a chain that begins with an operator that is not optional",
             pattern.chain.empty() ? "it is empty" : "its first operator is optional");
    external::Pattern out{pattern.name, {}};
    for (const ExternalPlace& place : pattern.chain) {
      external::PatternOp& op = out.chain.emplace_back(external::PatternOp{{}, {}, place.optional});
      for (const std::string& name : place.ops) {
        op.ops.push_back(op::all_ops().find(name));
        if (!op.ops.back()) refuse(pattern, "operators that `tenon ops` lists", fmt::format("`{}` is no operator", name));
      }
      if (place.accepts)
        op.accepts = [this, accepts = place.accepts](const external::Candidate& candidate) {
          return own_code(candidate.node.op->name, [&] { return accepts(outside(candidate)); });
        };
    }
    return out;
  }

  external::Result inside(ExternalObject& object, const tir::ConstantBytes&) const {
    return external::CodeResult{.object = std::move(object.bytes),
                                .kernel = std::nullopt,
                                .constants = std::move(object.constants),
                                .shared_scratch_bytes = object.shared_scratch_bytes,
                                .worker_scratch_bytes = object.worker_scratch_bytes};
  }
  external::Result inside(ExternalComponent& kernel, const tir::ConstantBytes&) const {
    return external::CodeResult{.object = {},
                                .kernel = external::ComponentKernel{std::move(kernel.component), std::move(kernel.description)},
                                .constants = std::move(kernel.constants)};
  }
  external::Result inside(ExternalLoops& loops, const tir::ConstantBytes& constants) const {
    return external::LoopResult{tir::parse_prim_func(fmt::format("<external {}>", given_.name), loops.text, constants),
                                std::move(loops.constants)};
  }
  external::Result inside(ExternalNothing& nothing, const tir::ConstantBytes&) const {
    return external::NothingResult{std::move(nothing.constants)};
  }

  tenon::ExternalCodegen given_;
  std::vector<external::Pattern> patterns_;
};

}  // namespace

std::shared_ptr<const external::ExternalCodegen> on_ir(const ExternalCodegen& generator) {
  return std::make_shared<Generator>(generator);
}

}  // namespace tenon::api
