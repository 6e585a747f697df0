// SPDX-License-Identifier: Apache-2.0
// What an extension throws.
#pragma once

#include <fmt/format.h>

#include "base/diagnostic.h"
#include "tenon/compiler.h"

namespace tenon::api {

/// Runs code of an extension. What it throws to refuse a model is an error of the build like any other.
template <class Work>
auto own_errors(const std::string& extension, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw CompileError(Diagnostic{.kind = static_cast<ErrorKind>(error.kind()),
                                  .code = error.code(),
                                  .message = error.what(),
                                  .input = extension,
                                  .notes = {{.message = fmt::format("`{}`, an extension of this build, refused", extension)}}});
  }
}

}  // namespace tenon::api
