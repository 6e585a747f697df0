// SPDX-License-Identifier: Apache-2.0
// External code generators of the public interface.
#pragma once

#include <memory>

#include "external/external.h"
#include "tenon/compiler.h"

namespace tenon::api {

/// A program's generator, text on its side, as the compiler uses it. Throws CompileError (usage, `external-pattern`) for a
/// pattern that names an operator which is none, or that can match nothing.
std::shared_ptr<const external::ExternalCodegen> on_ir(const ExternalCodegen& generator);

}  // namespace tenon::api
