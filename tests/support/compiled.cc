// SPDX-License-Identifier: Apache-2.0
// Compiling, loading and calling one loop function.
#include "support/compiled.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "codegen/backend.h"
#include "tenon/kernel.h"

namespace tenon::test {
namespace {

constexpr size_t kFence = 256;
constexpr uint8_t kFill = 0xcd;

/// Bytes with a fence on either side, and an address that is no more aligned than an element.
class Fenced {
 public:
  Fenced(size_t bytes, size_t element) : bytes_(bytes), begin_(kFence + element), storage_(bytes + 2 * kFence + element, kFill) {}
  uint8_t* data() { return storage_.data() + begin_; }
  bool intact() const {
    auto filled = [](uint8_t b) { return b == kFill; };
    return std::all_of(storage_.begin(), storage_.begin() + static_cast<std::ptrdiff_t>(begin_), filled) &&
           std::all_of(storage_.begin() + static_cast<std::ptrdiff_t>(begin_ + bytes_), storage_.end(), filled);
  }

 private:
  size_t bytes_, begin_;
  std::vector<uint8_t> storage_;
};

void run_ranges(tenon_kernel_context* context, int64_t extent, tenon_range_body body, void* closure) {
  int64_t workers = *static_cast<int64_t*>(context->pool);
  for (int64_t worker = 0; worker < workers; ++worker)
    body(closure, extent * worker / workers, extent * (worker + 1) / workers, worker);
}

Shape constant_shape(const tir::Buffer& buffer) {
  Shape shape;
  for (const tir::Expr& extent : buffer->shape) shape.push_back(tir::int_value(extent));
  return shape;
}

}  // namespace

std::vector<Array> run_compiled(const tir::PrimFunc& function, std::span<const Array> inputs, const Target& target,
                                int64_t workers) {
  const tir::PrimFunc* functions[] = {&function};
  codegen::Object object = codegen::compile_object(functions, target);
  auto code = codegen::load_in_memory({&object.bytes, 1});
  auto* kernel = reinterpret_cast<tenon_kernel>(code->address(function.name));

  std::vector<Fenced> arrays;
  std::vector<void*> args;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const tir::Buffer& param = function.params[i];
    size_t element = static_cast<size_t>(byte_size(param->dtype));
    arrays.emplace_back(static_cast<size_t>(element_count(constant_shape(param))) * element, element);
    if (i < inputs.size()) {
      EXPECT_EQ(inputs[i].dtype, param->dtype);
      if (!inputs[i].bytes.empty()) std::memcpy(arrays.back().data(), inputs[i].bytes.data(), inputs[i].bytes.size());
    }
  }
  for (Fenced& array : arrays) args.push_back(array.data());
  tir::Scratch scratch = tir::scratch_of(function);
  EXPECT_EQ(scratch.worker_bytes % 64, 0);
  Fenced shared(static_cast<size_t>(scratch.shared_bytes), 64), own(static_cast<size_t>(scratch.worker_bytes * workers), 64);
  std::vector<uint8_t*> workspaces;
  for (const tir::ScratchBlock& block : scratch.shared) {
    EXPECT_EQ(block.bytes % 64, 0);
    workspaces.push_back(shared.data() + block.offset);
  }
  tenon_kernel_context context{run_ranges, workspaces.data(), own.data(), scratch.worker_bytes, &workers};
  kernel(args.data(), &context);

  EXPECT_TRUE(shared.intact() && own.intact()) << "a write beside the scratch of " << function.name;
  std::vector<Array> outputs;
  for (size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_TRUE(arrays[i].intact()) << "a write beside " << function.params[i]->name;
    Shape shape = constant_shape(function.params[i]);
    size_t bytes = static_cast<size_t>(element_count(shape) * byte_size(function.params[i]->dtype));
    std::span<const std::byte> result(reinterpret_cast<const std::byte*>(arrays[i].data()), bytes);
    if (i < inputs.size())
      EXPECT_TRUE(std::ranges::equal(result, inputs[i].bytes)) << "input " << function.params[i]->name;
    else
      outputs.push_back(make_array(function.params[i]->dtype, shape, result));
  }
  return outputs;
}

}  // namespace tenon::test
