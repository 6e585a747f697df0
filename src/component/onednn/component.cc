// SPDX-License-Identifier: Apache-2.0
// The component `onednn`: primitives of oneDNN 3 from the descriptions of external/onednn/onednn.cc.
#include <cstring>
#include <exception>
#include <memory>

#include "component/onednn/primitive.h"
#include "tenon/component.h"

namespace {

using tenon::onednn::Kernel;

void tell(const char* text, char* error, uint64_t error_bytes) {
  if (error_bytes == 0) return;
  std::strncpy(error, text, error_bytes - 1);
  error[error_bytes - 1] = '\0';
}

void* create(const char* description, const void* const* args, int32_t arg_count, int32_t threads, char* error,
             uint64_t error_bytes) {
  try {
    return new Kernel(description, {args, static_cast<size_t>(arg_count)}, threads);
  } catch (const std::exception& failure) {
    tell(failure.what(), error, error_bytes);
    return nullptr;
  }
}

int32_t run(void* kernel, void* const* args, char* error, uint64_t error_bytes) {
  try {
    static_cast<Kernel*>(kernel)->run(args);
    return 0;
  } catch (const std::exception& failure) {
    tell(failure.what(), error, error_bytes);
    return 1;
  }
}

void destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const tenon_component* tenon_component_open() {
  static const tenon_component component{TENON_COMPONENT_ABI, tenon::onednn::version(), create, run, destroy};
  return &component;
}
