// SPDX-License-Identifier: Apache-2.0
// Primitives: layouts are oneDNN's choice, and what differs from ours is reordered on the way in and out.
#include "component/onednn/primitive.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "component/onednn/description.h"

// The OpenMP that oneDNN brings; the number of threads is that of the calling thread's own.
extern "C" void omp_set_num_threads(int count);

namespace tenon::onednn {
namespace {

using dnnl::memory;
using Dims = memory::dims;

constexpr auto kF32 = memory::data_type::f32;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// Row-major.
memory::desc plain(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= std::max<int64_t>(dims[i], 1)) strides[i] = stride;
  return {dims, kF32, strides};
}

memory::desc any(const Dims& dims) { return {dims, kF32, memory::format_tag::any}; }

/// A convolution's result may lie in a layout in which only a sum onto what is there is fast.
bool adds_in_place(const Description& d) { return d.kind == "conv"; }

void append(dnnl::post_ops& ops, const PostOp& op, bool in_place) {
  using dnnl::algorithm;
  auto number = [&](size_t i) { return i < op.numbers.size() ? static_cast<float>(op.numbers[i]) : 0.0f; };
  if (op.name == "add" && in_place)
    ops.append_sum();
  else if (op.name == "add")
    ops.append_binary(algorithm::binary_add, plain(op.tensor.dims));
  else if (op.name == "relu" || op.name == "leaky_relu")
    ops.append_eltwise(algorithm::eltwise_relu, number(0), 0);
  else if (op.name == "clip")
    ops.append_eltwise(algorithm::eltwise_clip, number(0), number(1));
  else if (op.name == "sigmoid")
    ops.append_eltwise(algorithm::eltwise_logistic, 0, 0);
  else if (op.name == "tanh")
    ops.append_eltwise(algorithm::eltwise_tanh, 0, 0);
  else if (op.name == "hard_swish")
    ops.append_eltwise(algorithm::eltwise_hardswish, 1.0f / 6, 0.5f);
  else
    throw std::invalid_argument("there is no post-op `" + op.name + "`");
}

dnnl::primitive_attr attributes(const Description& d) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // so that sessions share nothing
  dnnl::post_ops ops;
  for (const PostOp& op : d.post) append(ops, op, adds_in_place(d));
  attr.set_post_ops(ops);
  return attr;
}

Dims front(const Dims& pads) { return {pads.begin(), pads.begin() + static_cast<int64_t>(pads.size() / 2)}; }
Dims back(const Dims& pads) { return {pads.begin() + static_cast<int64_t>(pads.size() / 2), pads.end()}; }

/// oneDNN counts the points between taps.
Dims gaps(Dims dilations) {
  for (int64_t& dilation : dilations) --dilation;
  return dilations;
}

/// Weights with groups as an axis of their own, where there are any.
Dims grouped(const Description& d) {
  Dims dims = d.weights.dims;
  if (d.groups == 1) return dims;
  if (dims.empty() || d.groups < 1) throw std::invalid_argument("the description has no groups");
  dims[0] /= d.groups;
  dims.insert(dims.begin(), d.groups);
  return dims;
}

/// Axes of extent 1 in front of a vector, up to a rank.
Dims row(int64_t extent, size_t rank) {
  Dims dims(rank, 1);
  dims.back() = extent;
  return dims;
}

}  // namespace

const char* version() {
  static const std::string text = std::to_string(dnnl_version()->major) + '.' + std::to_string(dnnl_version()->minor) + '.' +
                                  std::to_string(dnnl_version()->patch);
  return text.c_str();
}

struct Kernel::State {
  /// An argument of the primitive: the session's memory, or its own in another layout, filled from or copied to that.
  struct Port {
    uint32_t argument;
    memory outside;
    dnnl::reorder copy;
    memory copy_from, copy_to;
  };

  State(const Description& d, std::span<const void* const> args, int count) : threads(count), stream(engine()) {
    if (d.kind == "conv")
      make_conv(d, args);
    else if (d.kind == "matmul")
      make_matmul(d, args);
    else
      make_pool(d);
    for (size_t i = 0; i < d.post.size(); ++i)
      if (d.post[i].name == "add" && !adds_in_place(d))
        bind(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1, d.post[i].tensor.argument,
             memory(plain(d.post[i].tensor.dims), engine(), nullptr));
    for (auto& [number, bound] : memories) arguments.push_back({number, bound.get()});
  }

  void make_conv(const Description& d, std::span<const void* const> args) {
    memory::desc bias = d.bias < 0 ? memory::desc() : plain({d.weights.dims.at(0)});
    dnnl::convolution_forward::primitive_desc pd(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, any(d.src.dims), any(grouped(d)), bias,
        any(d.dst.dims), d.strides, gaps(d.dilations), front(d.pads), back(d.pads), attributes(d));
    primitive = dnnl::convolution_forward(pd);
    input(DNNL_ARG_SRC, d.src, pd.src_desc());
    weights(d, plain(grouped(d)), pd.weights_desc(), args);
    if (d.bias >= 0) bind(DNNL_ARG_BIAS, static_cast<uint32_t>(d.bias), memory(bias, engine(), nullptr));
    finish(pd.dst_desc(), d, pd.scratchpad_desc());
  }

  void make_matmul(const Description& d, std::span<const void* const> args) {
    bool constant = args[d.weights.argument] != nullptr;
    memory::desc bias = d.bias < 0 ? memory::desc() : plain(row(d.dst.dims.back(), d.dst.dims.size()));
    dnnl::matmul::primitive_desc pd(engine(), plain(d.src.dims), constant ? any(d.weights.dims) : plain(d.weights.dims), bias,
                                    plain(d.dst.dims), attributes(d));
    primitive = dnnl::matmul(pd);
    input(DNNL_ARG_SRC, d.src, pd.src_desc());
    weights(d, plain(d.weights.dims), pd.weights_desc(), args);
    if (d.bias >= 0) bind(DNNL_ARG_BIAS, static_cast<uint32_t>(d.bias), memory(bias, engine(), nullptr));
    finish(pd.dst_desc(), d, pd.scratchpad_desc());
  }

  void make_pool(const Description& d) {
    using dnnl::algorithm;
    algorithm kind;
    if (d.kind == "max_pool")
      kind = algorithm::pooling_max;
    else if (d.kind == "avg_pool_include")
      kind = algorithm::pooling_avg_include_padding;
    else if (d.kind == "avg_pool_exclude")
      kind = algorithm::pooling_avg_exclude_padding;
    else
      throw std::invalid_argument("there is no kernel `" + d.kind + "`");
    dnnl::pooling_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference, kind, plain(d.src.dims),
                                             plain(d.dst.dims), d.strides, d.kernel, gaps(d.dilations), front(d.pads),
                                             back(d.pads), attributes(d));
    primitive = dnnl::pooling_forward(pd);
    input(DNNL_ARG_SRC, d.src, pd.src_desc());
    finish(pd.dst_desc(), d, pd.scratchpad_desc());
  }

  /// The primitive reads or writes an argument as it lies.
  void bind(int number, uint32_t argument, const memory& bound) {
    memories.emplace_back(number, bound);
    direct.emplace_back(argument, bound);
  }

  void input(int number, const Tensor& tensor, const memory::desc& wanted) {
    memory outside(plain(tensor.dims), engine(), nullptr);
    if (wanted == outside.get_desc()) return bind(number, tensor.argument, outside);
    memory own(wanted, engine());
    before.push_back({tensor.argument, outside, dnnl::reorder(outside, own), outside, own});
    memories.emplace_back(number, own);
  }

  void weights(const Description& d, const memory::desc& given, const memory::desc& wanted, std::span<const void* const> args) {
    const void* constant = args[d.weights.argument];
    if (!constant) return input(DNNL_ARG_WEIGHTS, {d.weights.argument, given.get_dims()}, wanted);
    if (wanted == given) return bind(DNNL_ARG_WEIGHTS, d.weights.argument, memory(given, engine(), nullptr));
    memory from(given, engine(), const_cast<void*>(constant)), own(wanted, engine());
    dnnl::reorder(from, own).execute(stream, from, own);
    stream.wait();
    memories.emplace_back(DNNL_ARG_WEIGHTS, own);
  }

  void finish(const memory::desc& made, const Description& d, const memory::desc& scratchpad) {
    memory outside(plain(d.dst.dims), engine(), nullptr);
    bool as_it_lies = made == outside.get_desc();
    memory own = as_it_lies ? outside : memory(made, engine());
    for (const PostOp& op : d.post) {
      if (op.name != "add" || !adds_in_place(d)) continue;
      memory added(plain(op.tensor.dims), engine(), nullptr);
      before.push_back({op.tensor.argument, added, dnnl::reorder(added, own), added, own});
    }
    if (as_it_lies) {
      bind(DNNL_ARG_DST, d.dst.argument, outside);
    } else {
      after.push_back({d.dst.argument, outside, dnnl::reorder(own, outside), own, outside});
      memories.emplace_back(DNNL_ARG_DST, own);
    }
    if (scratchpad.get_size() > 0) memories.emplace_back(DNNL_ARG_SCRATCHPAD, memory(scratchpad, engine()));
  }

  void run(void* const* args) {
    omp_set_num_threads(threads);
    for (auto& [argument, bound] : direct) bound.set_data_handle(args[argument]);
    for (Port& port : before) {
      port.outside.set_data_handle(args[port.argument]);
      port.copy.execute(stream, port.copy_from, port.copy_to);
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data()),
        "oneDNN could not run its primitive");
    for (Port& port : after) {
      port.outside.set_data_handle(args[port.argument]);
      port.copy.execute(stream, port.copy_from, port.copy_to);
    }
    stream.wait();
  }

  const int threads;
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::vector<std::pair<int, memory>> memories;  // by oneDNN's number of the argument
  std::vector<dnnl_exec_arg_t> arguments;        // the same
  std::vector<std::pair<uint32_t, memory>> direct;
  std::vector<Port> before, after;
};

Kernel::Kernel(std::string_view description, std::span<const void* const> args, int threads) {
  omp_set_num_threads(threads);
  state_ = std::make_unique<State>(parse(description, args.size()), args, threads);
}
Kernel::~Kernel() = default;

void Kernel::run(void* const* args) { state_->run(args); }

}  // namespace tenon::onednn
