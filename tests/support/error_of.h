// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "base/function_ref.h"

namespace tenon {

/// The first diagnostic of the CompileError that `f` has to throw.
inline Diagnostic error_of(function_ref<void()> f) {
  try {
    f();
  } catch (const CompileError& error) {
    return error.diagnostics().front();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace tenon
