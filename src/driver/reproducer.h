// SPDX-License-Identifier: Apache-2.0
// What is left behind when the compiler itself fails: the module before the failure, and the command that fails again.
#pragma once

#include <new>
#include <string>

#include "driver/driver.h"

namespace tenon::driver {

/// A pass failed by a mistake of ours, or of the program that gave it.
class PassFailure : public InternalError {
 public:
  PassFailure(std::string pass, std::string before, bool given, const std::string& why);
  const std::string& pass() const { return pass_; }
  /// The pass before it.
  const std::string& before() const { return before_; }
  /// Whether it is an extension of the build.
  bool given() const { return given_; }

 private:
  std::string pass_, before_;
  bool given_;
};

/// A mistake of ours whose text names a file and how to see the mistake again with it.
class Reproduced : public InternalError {
 public:
  using InternalError::InternalError;
};

/// Writes `module.tenon`, `constants.bin` and `command.txt` into `reproducer` in the folder of dumps, or else into a new folder
/// of the system's temporary one, and throws Reproduced. `arguments` are what follows the file in `tenon compile`; without any,
/// only the program whose build failed has what failed.
[[noreturn]] void leave_reproducer(const graph::Module& module, const std::string& arguments, const CompileOptions& options,
                                   const std::string& why);

/// Runs `work`. An exception that is neither a finding about the user's input nor a lack of memory goes to `mistake`, as text;
/// it throws another.
template <class Work, class Mistake>
auto guarded(const Work& work, const Mistake& mistake) {
  try {
    return work();
  } catch (const CompileError&) {
    throw;
  } catch (const Reproduced&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    mistake(error.what());
    throw;
  }
}

}  // namespace tenon::driver
