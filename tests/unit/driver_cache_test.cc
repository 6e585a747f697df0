// SPDX-License-Identifier: Apache-2.0
// Builds through a cache: the same bytes as without, and nothing made twice. And functions one at a time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "driver/driver.h"
#include "driver/jit.h"
#include "graph/text.h"
#include "op/ops.h"
#include "tir/interpret.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using driver::CompileOptions;
using graph::Builder;
using graph::Module;
using graph::ValueId;
using lower::KernelCache;
using lower::Stage;

struct BuildFolder {
  BuildFolder() : path(fs::path(testing::TempDir()) / ("tenon_cache_" + std::to_string(getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~BuildFolder() { fs::remove_all(path); }
  std::string cache() const { return path / "cache"; }
  std::vector<fs::path> cached() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(cache())) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  fs::path path;
};

std::string read(const std::string& path) {
  MappedFile file = map_file(path);
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

Array numbers(Shape shape, float first) {
  MutableArray out(DType::F32, std::move(shape));
  for (size_t i = 0; i < out.size_bytes / 4; ++i) out.as<float>()[i] = first + 0.25f * static_cast<float>(i % 37);
  return std::move(out).freeze();
}

/// Three convolutions of one input, the last with a stride, each followed by relu: three kernels, whose weights are packed.
Module three_convolutions(int64_t stride) {
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", {DType::F32, {1, 8, 12, 12}});
  std::vector<ValueId> results;
  for (int64_t i = 0; i < 3; ++i) {
    int64_t kernel = 1 + i, step = i == 2 ? stride : 1;
    ValueId w = b.constant(numbers({32, 8, kernel, kernel}, static_cast<float>(i) - 1), "w");
    graph::Attrs attrs{{"dilations", std::vector<int64_t>{1, 1}},
                       {"groups", int64_t{1}},
                       {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                       {"strides", std::vector<int64_t>{step, step}}};
    results.push_back(b.call1(op::relu, {b.call1(op::conv, {x, w}, attrs)}));
  }
  m.functions.emplace("main", b.finish(results, {"a", "b", "c"}));
  return m;
}

/// The artifact's bytes.
std::string build(const BuildFolder& folder, const Module& module, const CompileOptions& options) {
  std::string text = folder.path / "model.tenon", artifact = folder.path / "model.so";
  graph::write_module(text, module);
  driver::write(driver::build(driver::run_pipeline(driver::load_module(text, options), options), options), artifact);
  return read(artifact);
}

/// As another process would, with a cache object of its own over the folder.
std::string build_anew(const BuildFolder& folder, const Module& module, KernelCache::Statistics* code = nullptr,
                       int workers = 1) {
  CompileOptions options{.workers = workers, .cache = driver::open_cache(folder.cache())};
  std::string bytes = build(folder, module, options);
  if (code) *code = options.cache->statistics(Stage::Code);
  return bytes;
}

TEST(CachedBuild, NoCacheAColdOneAWarmOneAndAnyNumberOfWorkersGiveOneArtifact) {
  BuildFolder folder;
  Module m = three_convolutions(2);
  std::string plain = build(folder, m, {});
  CompileOptions shared{.cache = std::make_shared<KernelCache>()};
  EXPECT_EQ(build(folder, m, shared), plain);
  EXPECT_EQ(build(folder, m, shared), plain);
  EXPECT_EQ(shared.cache->statistics(Stage::Code).misses, 3);
  EXPECT_EQ(shared.cache->statistics(Stage::Code).hits, 3);
  EXPECT_EQ(shared.cache->statistics(Stage::Lowering).hits, 3);
  for (int workers : {1, 2, 4}) {
    fs::remove_all(folder.cache());
    KernelCache::Statistics code;
    EXPECT_EQ(build_anew(folder, m, &code, workers), plain) << workers << " workers, cold";
    EXPECT_EQ(code.misses, 3);
    EXPECT_EQ(build_anew(folder, m, &code, workers), plain) << workers << " workers, warm";
    EXPECT_EQ(code.hits, 3);
    EXPECT_EQ(code.misses, 0);
  }
}

TEST(CachedBuild, AnotherStrideMissesItsKernelAlone) {
  BuildFolder folder;
  build_anew(folder, three_convolutions(1));
  KernelCache::Statistics code;
  std::string changed = build_anew(folder, three_convolutions(2), &code);
  EXPECT_EQ(code.misses, 1);
  EXPECT_EQ(code.hits, 2);
  EXPECT_EQ(changed, build(folder, three_convolutions(2), {}));
}

TEST(CachedBuild, WeightsAreNotPartOfAKernel) {
  BuildFolder folder;
  build_anew(folder, three_convolutions(1));
  Module other = three_convolutions(1);
  for (auto& [name, array] : other.constants) array = numbers(array.shape, 5);
  KernelCache::Statistics code;
  EXPECT_EQ(build_anew(folder, other, &code), build(folder, other, {}));
  EXPECT_EQ(code.hits, 3);
}

TEST(CachedBuild, ATargetOrALevelOfItsOwnHasKernelsOfItsOwn) {
  BuildFolder folder;
  Module m = three_convolutions(1);
  auto misses = [&](std::string target, int level) {
    CompileOptions options{.target = std::move(target), .opt_level = level, .cache = driver::open_cache(folder.cache())};
    build(folder, m, options);
    return options.cache->statistics(Stage::Code).misses;
  };
  EXPECT_EQ(misses("llvm -mcpu=haswell", 3), 3);
  EXPECT_EQ(misses("llvm -mcpu=haswell", 3), 0);
  EXPECT_EQ(misses("llvm -mcpu=znver4", 3), 3);
  EXPECT_GT(misses("llvm -mcpu=haswell", 0), 0);
}

TEST(CachedBuild, DamagedFilesGiveTheSameArtifactAndAreWrittenAgain) {
  BuildFolder folder;
  Module m = three_convolutions(1);
  std::string plain = build_anew(folder, m);
  std::map<fs::path, std::string> good;
  for (const fs::path& file : folder.cached()) good[file] = read(file);
  ASSERT_EQ(good.size(), 3u) << "one for each kernel";
  for (size_t round = 0; round < 12; ++round) {  // a byte in each twelfth of every file
    for (const auto& [file, bytes] : good) {
      std::string bad = bytes;
      size_t at = bad.size() * round / 12 + (bad.size() / 12) * (hash64(file.string()) % 100) / 100;
      bad[at] = static_cast<char>(bad[at] ^ (1 << round % 8));
      write(file, bad);
    }
    KernelCache::Statistics code;
    EXPECT_EQ(build_anew(folder, m, &code), plain) << "round " << round;
    EXPECT_EQ(code.misses, 3);
    for (const auto& [file, bytes] : good) EXPECT_EQ(read(file), bytes) << file;
  }
  for (const auto& [file, bytes] : good) write(file, bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(build_anew(folder, m), plain);
  for (const auto& [file, bytes] : good) write(file, good.begin()->second);
  EXPECT_EQ(build_anew(folder, m), plain);
  for (const auto& [file, bytes] : good) write(file, "somebody else's");
  EXPECT_EQ(build_anew(folder, m), plain);
  KernelCache::Statistics code;
  EXPECT_EQ(build_anew(folder, m, &code), plain);
  EXPECT_EQ(code.hits, 3);
}

TEST(CachedBuild, AFolderThatCannotBeWrittenToOnlyKeepsNothing) {
  BuildFolder folder;
  Module m = three_convolutions(1);
  CompileOptions options{.cache = driver::open_cache(folder.cache())};
  fs::remove_all(folder.cache());
  EXPECT_EQ(build(folder, m, options), build(folder, m, {}));
}

TEST(CachedBuild, AnObserverSeesTheKeysBeingLoweredWithOrWithoutACache) {
  struct Log : lower::Observer {
    void begin(Stage stage, const std::string& key) override {
      if (stage == Stage::Lowering) lowered.push_back(key);
    }
    void end(Stage, const std::string&) override {}
    std::vector<std::string> lowered;
  } log;
  BuildFolder folder;
  CompileOptions options{.observer = &log};
  std::string plain = build(folder, three_convolutions(1), options);
  ASSERT_EQ(log.lowered.size(), 3u);
  for (const std::string& key : log.lowered) EXPECT_NE(key.find("conv %0 %1"), std::string::npos) << key;
  options.cache = std::make_shared<KernelCache>();
  build(folder, three_convolutions(1), options);
  EXPECT_EQ(log.lowered.size(), 6u);
  EXPECT_EQ(build(folder, three_convolutions(1), options), plain);
  EXPECT_EQ(log.lowered.size(), 6u) << "found, not lowered";
}

graph::Function product(Module& m, const std::string& name) {
  Builder b(m, name);
  ValueId x = b.param("x", {DType::F32, {3, 4}}), w = b.param("w", {DType::F32, {4, 5}});
  ValueId c = b.constant(numbers({5}, 2), name + "_bias");
  graph::Function f = b.finish({b.call1(op::relu, {b.call1(op::add, {b.call1(op::matmul, {x, w}), c})})});
  f.attrs["primitive"] = true;
  return f;
}

TEST(Jit, OneCacheGivesOneCallableForEqualFunctions) {
  Module m;
  graph::Function f = product(m, "f"), g = product(m, "g");
  KernelCache cache;
  auto first = jit(cache, m, f);
  EXPECT_EQ(jit(cache, m, f), first);
  EXPECT_EQ(jit(cache, m, g), first) << "equal up to renaming";
  EXPECT_NE(jit(cache, m, f, host_target(), 0), first) << "another level";
  KernelCache other;
  EXPECT_NE(jit(other, m, f), first);
  EXPECT_EQ(cache.statistics(Stage::Callable).hits, 2);
  EXPECT_EQ(cache.statistics(Stage::Callable).misses, 2);
  EXPECT_EQ(cache.statistics(Stage::Lowering).misses, 1) << "lowering depends on no level";
}

TEST(Jit, ACallGivesWhatTheInterpreterGivesAndOutlivesTheCache) {
  Module m;
  graph::Function f = product(m, "f");
  std::shared_ptr<const Callable> callable;
  {
    KernelCache cache;
    callable = jit(cache, m, f);
  }
  std::vector<Array> inputs{numbers({3, 4}, -2), numbers({4, 5}, -1)};  // quarters: products and sums are exact
  std::vector<Array> want = tir::interpret(lower::lower_to_prim_func(m, f), inputs);
  EXPECT_EQ((*callable)(inputs), want);
  std::vector<std::byte> odd(1 + inputs[0].bytes.size());
  std::copy(inputs[0].bytes.begin(), inputs[0].bytes.end(), odd.begin() + 1);
  inputs[0].bytes = std::span(odd).subspan(1);
  EXPECT_EQ((*callable)(inputs), want) << "elements at odd addresses";
}

std::string code_of(function_ref<void()> f, std::string* text = nullptr) {
  try {
    f();
  } catch (const CompileError& error) {
    if (text) *text = error.what();
    return error.diagnostics()[0].code;
  }
  return "nothing was thrown";
}

TEST(Jit, WhatDoesNotFitIsNamed) {
  Module m;
  KernelCache cache;
  auto callable = jit(cache, m, product(m, "f"));
  std::string text;
  std::vector<Array> one{numbers({3, 4}, 0)}, wrong{numbers({3, 4}, 0), numbers({5, 4}, 0)};
  EXPECT_EQ(code_of([&] { (*callable)(one); }, &text), "callable-input");
  EXPECT_NE(text.find("2 arrays"), std::string::npos) << text;
  EXPECT_EQ(code_of([&] { (*callable)(wrong); }, &text), "callable-input");
  EXPECT_NE(text.find("argument 1 is f32[5,4]"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[4,5]"), std::string::npos) << text;
}

TEST(Jit, WhatCannotRunHereOrIsNotPrimitiveIsRefusedAndLeavesNothing) {
  Module m;
  graph::Function f = product(m, "f"), plain = f;
  plain.attrs.clear();
  KernelCache cache;
  EXPECT_EQ(code_of([&] { jit(cache, m, plain); }), "lower-not-primitive");
  EXPECT_EQ(code_of([&] { jit(cache, m, f, parse_target("c")); }), "component-missing");
  Target other = host_target();
  other.features.push_back("no-such-feature");
  EXPECT_EQ(code_of([&] { jit(cache, m, f, other); }), "cpu-feature");
  EXPECT_TRUE(cache.entries().empty());
}

}  // namespace
}  // namespace tenon
