// SPDX-License-Identifier: Apache-2.0
// The C interface over Executable and Session: no exception leaves it.
#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "base/diagnostic.h"
#include "base/hash.h"
#include "runtime/session.h"
#include "runtime/tvm_folder.h"
#include "tenon/runtime.h"

using tenon::CompileError;
using tenon::Diagnostic;
using tenon::ErrorKind;

struct tenon_executable {
  std::shared_ptr<const tenon::runtime::Executable> executable;
};

struct tenon_session {
  tenon::runtime::Session session;
};

namespace {

using tenon::runtime::TensorSpec;

static_assert(static_cast<int>(tenon::DType::F64) == TENON_F64 && static_cast<int>(tenon::DType::F32) == TENON_F32 &&
              static_cast<int>(tenon::DType::I64) == TENON_I64 && static_cast<int>(tenon::DType::Bool) == TENON_BOOL);

std::string& last_error() {
  thread_local std::string text;
  return text;
}

template <class F>
tenon_status guarded(F&& f) noexcept {
  try {
    f();
    return TENON_OK;
  } catch (const CompileError& error) {
    last_error() = error.what();
    return static_cast<tenon_status>(error.kind());
  } catch (const std::bad_alloc&) {
    last_error() = "out of memory";
    return TENON_LIMIT;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return TENON_INTERNAL;
  }
}

tenon_tensor_info info(const TensorSpec& spec) {
  return {spec.name.c_str(), static_cast<tenon_dtype>(spec.dtype), static_cast<int32_t>(spec.shape.size()), spec.shape.data(),
          spec.bytes()};
}

/// The tensor at `index`, whose memory the caller says has `bytes`.
const TensorSpec& checked(const std::vector<TensorSpec>& specs, const char* what, size_t index, const void* data, size_t bytes,
                          bool exact) {
  if (index >= specs.size())
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "tensor-index",
                                  .message = fmt::format("the model has no {} {}", what, index),
                                  .expected = fmt::format("an index below {}", specs.size()),
                                  .found = std::to_string(index)});
  const TensorSpec& spec = specs[index];
  if (!data || bytes < spec.bytes() || (exact && bytes != spec.bytes()))
    throw CompileError(
        Diagnostic{.kind = ErrorKind::Malformed,
                   .code = "tensor-size",
                   .message = fmt::format("the memory given for {} `{}` holds {} bytes", what, spec.name, data ? bytes : 0),
                   .input = spec.name,
                   .expected = fmt::format("{} bytes", spec.bytes()),
                   .found = data ? fmt::format("{} bytes", bytes) : "a null pointer"});
  if (!exact && reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(tenon::byte_size(spec.dtype)) != 0)
    throw CompileError(
        Diagnostic{.kind = ErrorKind::Malformed,
                   .code = "tensor-alignment",
                   .message = fmt::format("the memory given for {} `{}` is not aligned to its elements", what, spec.name),
                   .input = spec.name,
                   .expected = fmt::format("a multiple of {}", tenon::byte_size(spec.dtype))});
  return spec;
}

}  // namespace

extern "C" {

tenon_status tenon_load(const char* path, tenon_executable** executable) {
  return guarded([&] {
    std::error_code none;
    bool folder = std::filesystem::is_directory(path, none);
    *executable = new tenon_executable{folder ? tenon::runtime::load_tvm_folder(path) : tenon::runtime::load_artifact(path)};
  });
}

void tenon_release(tenon_executable* executable) { delete executable; }

size_t tenon_input_count(const tenon_executable* executable) { return executable->executable->program.inputs.size(); }
size_t tenon_output_count(const tenon_executable* executable) { return executable->executable->program.outputs.size(); }
tenon_tensor_info tenon_input(const tenon_executable* executable, size_t index) {
  return info(executable->executable->program.inputs[index]);
}
tenon_tensor_info tenon_output(const tenon_executable* executable, size_t index) {
  return info(executable->executable->program.outputs[index]);
}

tenon_status tenon_session_create(const tenon_executable* executable, int threads, tenon_session** session) {
  return guarded([&] { *session = new tenon_session{{executable->executable, {.threads = threads}}}; });
}

void tenon_session_free(tenon_session* session) { delete session; }

tenon_status tenon_set_input(tenon_session* session, size_t index, const void* data, size_t bytes) {
  return guarded([&] {
    const TensorSpec& spec = checked(session->session.program().inputs, "input", index, data, bytes, true);
    session->session.set_input(spec.name, {spec.dtype, spec.shape, {static_cast<const std::byte*>(data), bytes}, nullptr});
  });
}

tenon_status tenon_bind_input(tenon_session* session, size_t index, const void* data, size_t bytes) {
  return guarded([&] {
    checked(session->session.program().inputs, "input", index, data, bytes, false);
    session->session.bind_input(index, data);
  });
}

tenon_status tenon_bind_output(tenon_session* session, size_t index, void* data, size_t bytes) {
  return guarded([&] {
    checked(session->session.program().outputs, "output", index, data, bytes, false);
    session->session.bind_output(index, data);
  });
}

tenon_status tenon_fill_random(tenon_session* session, uint64_t seed) {
  return guarded([&] { tenon::runtime::fill_random(session->session, seed); });
}

tenon_status tenon_run(tenon_session* session) {
  return guarded([&] { session->session.run(); });
}

const void* tenon_output_data(const tenon_session* session, size_t index) { return session->session.output_data(index); }

const char* tenon_last_error(void) { return last_error().c_str(); }

const char* tenon_dtype_name(tenon_dtype dtype) { return tenon::name(static_cast<tenon::DType>(dtype)).data(); }

uint64_t tenon_hash(const void* data, size_t bytes) { return tenon::hash64({static_cast<const char*>(data), bytes}); }

}  // extern "C"
