// SPDX-License-Identifier: Apache-2.0
// External code in a build: who compiles what, and whether what came back can be trusted.
#pragma once

#include "driver/driver.h"
#include "link/link.h"

namespace tenon::driver {

/// The step `partition`: regions for the options' generators, in order, or none where external code is off.
graph::Module partition_module(graph::Module module, const CompileOptions& options);

/// Whether the build holds generators that do not come with Tenon, so that no command repeats it.
bool has_own_generators(const CompileOptions& options);

/// What the generators gave for the external functions of a scheduled module.
struct Externals {
  graph::Module module;              // calls pass the constants that the symbols want; loop functions given are scheduled
  std::vector<std::string> objects;  // relocatable
  std::map<std::string, external::ComponentKernel, std::less<>> kernels;  // by symbol
  link::GivenScratch scratch;                                             // of objects
  std::map<std::string, size_t, std::less<>> regions;                     // by generator, how many it compiled
};

/// Compiles each external function once. Throws CompileError: a generator that is not there (`component-missing`), a symbol that
/// is defined twice or not at all (`duplicate-symbol`, `missing-symbol`), constants or parameters that are not the region's
/// (`external-constant`, `external-signature`), bytes that are no object (`external-object`).
Externals compile_externals(const graph::Module& scheduled, const CompileOptions& options);

}  // namespace tenon::driver
