// SPDX-License-Identifier: Apache-2.0
// Objects linked in process into a shared library, and the same objects loaded into memory.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "codegen/backend.h"
#include "tenon/kernel.h"
#include "tir/text.h"

namespace tenon {
namespace {

using namespace tir;

/// y[i] = sin(x[i]) + number, which needs libm.
codegen::Object compile(const std::string& name, const std::string& number) {
  PrimFunc f = parse_prim_func("case", "primfunc @" + name + R"((x: f32[4]) -> (y: f32[4]) {
    for i = 0 extent 4 { y[i] = (sin(x[i]) + )" +
                                           number + ") } }");
  const PrimFunc* functions[] = {&f};
  return codegen::compile_object(functions, host_target());
}

void expect_runs(void* address, float number) {
  float x[4] = {0, 1, 2, -3}, y[4] = {};
  void* args[] = {x, y};
  tenon_kernel_context context{};
  context.parallel_for = [](tenon_kernel_context*, int64_t extent, tenon_range_body body, void* closure) {
    body(closure, 0, extent, 0);
  };
  reinterpret_cast<tenon_kernel>(address)(args, &context);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y[i], std::sin(x[i]) + number);
}

class LoadedFile {
 public:
  explicit LoadedFile(const std::string& bytes) : path_(testing::TempDir() + "codegen_link_" + std::to_string(getpid()) + ".so") {
    std::ofstream(path_, std::ios::binary) << bytes;
    handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~LoadedFile() {
    if (handle_) dlclose(handle_);
    ::unlink(path_.c_str());
  }
  void* symbol(const char* name) const { return dlsym(handle_, name); }

 private:
  std::string path_;
  void* handle_;
};

TEST(Link, SharedLibraryRunsAndNamesLibm) {
  std::string objects[] = {compile("first", "1.0:f32").bytes, compile("second", "2.0:f32").bytes};
  std::string library = codegen::link_shared(objects);
  EXPECT_NE(library.find("libm.so.6"), std::string::npos);
  LoadedFile file(library);
  ASSERT_NE(file.symbol("first"), nullptr);
  ASSERT_NE(file.symbol("second"), nullptr);
  expect_runs(file.symbol("first"), 1);
  expect_runs(file.symbol("second"), 2);
  EXPECT_EQ(library, codegen::link_shared(objects));
}

TEST(Link, MemoryHoldsSeveralObjects) {
  std::string objects[] = {compile("first", "1.0:f32").bytes, compile("second", "2.0:f32").bytes};
  auto code = codegen::load_in_memory(objects);
  expect_runs(code->address("first"), 1);
  expect_runs(code->address("second"), 2);
  EXPECT_THROW(code->address("third"), InternalError);
}

TEST(Link, RenamedObjectsRunTogether) {
  PrimFunc f = parse_prim_func("case", R"(primfunc @kernel(x: f32[4]) -> (y: f32[4]) {
    for i = 0 extent 4 parallel { y[i] = (sin(x[i]) + 1.0:f32) } })");
  PrimFunc g = parse_prim_func("case", R"(primfunc @kernel(x: f32[4]) -> (y: f32[4]) {
    for i = 0 extent 4 parallel { y[i] = (sin(x[i]) + 2.0:f32) } })");
  std::vector<std::string> objects;
  for (const PrimFunc* function : {&f, &g}) {
    std::string name = function == &f ? "first" : "second";
    objects.push_back(codegen::rename_symbols(codegen::compile_object({&function, 1}, host_target()).bytes, "kernel", name));
  }
  auto code = codegen::load_in_memory(objects);
  LoadedFile file(codegen::link_shared(objects));
  EXPECT_EQ(file.symbol("kernel"), nullptr);
  for (void* first : {code->address("first"), file.symbol("first")}) expect_runs(first, 1);
  for (void* second : {code->address("second"), file.symbol("second")}) expect_runs(second, 2);
}

TEST(Link, ThreadsCompileAndLinkAtOnce) {
  std::vector<std::string> libraries(4);
  std::vector<std::thread> threads;
  for (std::string& library : libraries)
    threads.emplace_back([&library] {
      std::string object = compile("f", "0.5:f32").bytes;
      library = codegen::link_shared({&object, 1});
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& library : libraries) EXPECT_EQ(library, libraries[0]);
}

TEST(Link, VersionNamesLlvm) { EXPECT_TRUE(codegen::llvm_version().starts_with("19.")); }

}  // namespace
}  // namespace tenon
