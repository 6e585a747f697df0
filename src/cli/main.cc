// SPDX-License-Identifier: Apache-2.0
// The `tenon` program.
#include "cli/cli.h"

int main(int argc, char** argv) { return tenon::cli::run(argc, argv); }
