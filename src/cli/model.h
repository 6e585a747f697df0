// SPDX-License-Identifier: Apache-2.0
// A model or artifact made ready to run, as run, bench, profile and verify need it.
#pragma once

#include "cli/arrays.h"
#include "cli/options.h"

namespace tenon::cli {

struct ReadyModel {
  std::unique_ptr<runtime::Session> session;
  double compile_ms = 0;  // 0 for an artifact
  double load_ms = 0;     // opening an artifact, and making the session
};

/// Compiles or loads, makes a session and sets its inputs.
ReadyModel make_ready(const ModelOptions& model, const Inputs& inputs, bool debug_memory = false);

/// `--stop-after` makes no sense where something is to run.
void refuse_stop_after(const ModelOptions& model);

}  // namespace tenon::cli
