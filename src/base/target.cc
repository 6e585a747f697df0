// SPDX-License-Identifier: Apache-2.0
// The table of processors, the target text, and the features of the machine we run on.
#include "base/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/diagnostic.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tenon {
namespace {

/// `a` brings every feature of `implies` with it.
struct Implication {
  std::string_view feature;
  std::string_view implies;
};
// The features that code generation can make use of by itself, each with what it directly builds on.
constexpr Implication kFeatures[] = {
    {"sse3", ""},
    {"ssse3", "sse3"},
    {"sse4.1", "ssse3"},
    {"sse4.2", "sse4.1"},
    {"sse4a", "sse3"},
    {"crc32", ""},
    {"cx16", ""},
    {"popcnt", ""},
    {"sahf", ""},
    {"bmi", ""},
    {"bmi2", ""},
    {"lzcnt", ""},
    {"movbe", ""},
    {"avx", "sse4.2"},
    {"avx2", "avx"},
    {"f16c", "avx"},
    {"fma", "avx"},
    {"gfni", ""},
    {"avxvnni", "avx2"},
    {"avx512f", "avx2 f16c fma"},
    {"avx512cd", "avx512f"},
    {"avx512dq", "avx512f"},
    {"avx512bw", "avx512f"},
    {"avx512vl", "avx512f"},
    {"avx512ifma", "avx512f"},
    {"avx512vnni", "avx512f"},
    {"avx512vpopcntdq", "avx512f"},
    {"avx512bf16", "avx512bw"},
    {"avx512bitalg", "avx512bw"},
    {"avx512vbmi", "avx512bw"},
    {"avx512vbmi2", "avx512bw"},
    {"avx512fp16", "avx512bw avx512dq avx512vl"},
    {"neon", ""},
};

#define V2 "crc32 cx16 popcnt sahf sse4.2"
#define V3 V2 " avx2 bmi bmi2 f16c fma lzcnt movbe"
#define V4 V3 " avx512bw avx512cd avx512dq avx512vl"
#define ICELAKE V4 " avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq gfni"
struct Processor {
  std::string_view name;
  std::string_view features;
  int64_t l1_kib, l2_kib, l3_kib;
};
constexpr Processor kProcessors[] = {
    {"x86-64", "", 32, 256, 8192},
    {"x86-64-v2", V2, 32, 256, 8192},
    {"x86-64-v3", V3, 32, 512, 8192},
    {"x86-64-v4", V4, 32, 1024, 16384},
    {"haswell", V3, 32, 256, 8192},
    {"broadwell", V3, 32, 256, 8192},
    {"skylake", V3, 32, 256, 8192},
    {"skylake-avx512", V4, 32, 1024, 16384},
    {"cascadelake", V4 " avx512vnni", 32, 1024, 16384},
    {"icelake-server", ICELAKE, 48, 1280, 24576},
    {"sapphirerapids", ICELAKE " avx512bf16 avx512fp16 avxvnni", 48, 2048, 32768},
    {"znver1", V3 " sse4a", 32, 512, 8192},
    {"znver2", V3 " sse4a", 32, 512, 16384},
    {"znver3", V3 " sse4a", 32, 512, 32768},
    {"znver4", ICELAKE " avx512bf16 sse4a", 32, 1024, 32768},
    {"neoverse-n1", "neon", 64, 1024, 32768},
};
#undef V2
#undef V3
#undef V4
#undef ICELAKE

using FeatureSet = std::set<std::string, std::less<>>;

template <class F>
void for_each_word(std::string_view words, char separator, F f) {
  while (!words.empty()) {
    size_t end = std::min(words.find(separator), words.size());
    if (end > 0) f(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

const Implication* find_feature(std::string_view name) {
  const auto* it = std::ranges::find(kFeatures, name, &Implication::feature);
  return it == std::end(kFeatures) ? nullptr : it;
}

const Processor* find_processor(std::string_view name) {
  const auto* it = std::ranges::find(kProcessors, name, &Processor::name);
  return it == std::end(kProcessors) ? nullptr : it;
}

void add_feature(FeatureSet& set, std::string_view name) {
  set.emplace(name);
  for_each_word(find_feature(name)->implies, ' ', [&](std::string_view implied) { add_feature(set, implied); });
}

void remove_feature(FeatureSet& set, std::string_view name) {
  set.erase(std::string(name));
  for (const Implication& row : kFeatures)
    for_each_word(row.implies, ' ', [&](std::string_view implied) {
      if (implied == name && set.contains(row.feature)) remove_feature(set, row.feature);
    });
}

FeatureSet features_of(const Processor& processor) {
  FeatureSet set;
  for_each_word(processor.features, ' ', [&](std::string_view name) { add_feature(set, name); });
  return set;
}

[[noreturn]] void fail_usage(std::string message, std::string expected, std::string found) {
  throw CompileError({.kind = ErrorKind::Usage,
                      .code = "target-text",
                      .message = std::move(message),
                      .expected = std::move(expected),
                      .found = std::move(found)});
}

Target make_target(const Processor& processor, const FeatureSet& features) {
  Target target;
  target.cpu = processor.name;
  target.features.assign(features.begin(), features.end());
  Machine& machine = target.machine;
  bool wide = target.has("avx512vl") && target.has("avx512bw") && target.has("avx512dq");
  machine.vector_bytes = wide ? 64 : target.has("avx2") ? 32 : 16;
  machine.vector_registers = wide || target.has("neon") ? 32 : 16;
  machine.fma = target.has("fma") || target.has("neon");
  machine.l1_bytes = processor.l1_kib << 10;
  machine.l2_bytes = processor.l2_kib << 10;
  machine.l3_bytes = processor.l3_kib << 10;
  return target;
}

std::vector<std::string> known_features() {
  std::vector<std::string> names;
  for (const Implication& row : kFeatures) names.emplace_back(row.feature);
  return names;
}

void change_features(FeatureSet& features, std::string_view changes) {
  for_each_word(changes, ',', [&](std::string_view change) {
    std::string_view name = change.substr(1);
    bool sign = change[0] == '+' || change[0] == '-';
    if (!sign || !find_feature(name))
      fail_usage("unknown feature in `-mattr`", fmt::format("`+` or `-` and one of {}", fmt::join(known_features(), ", ")),
                 std::string(change));
    if (change[0] == '+')
      add_feature(features, name);
    else
      remove_feature(features, name);
  });
}

#if defined(__x86_64__)
struct CpuId {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  CpuId(unsigned leaf, unsigned subleaf) { __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx); }
};

bool bit(unsigned word, int index) { return (word >> index & 1) != 0; }

/// The register states that the operating system saves.
uint64_t enabled_states() {
  if (!bit(CpuId(1, 0).ecx, 27)) return 0;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

FeatureSet detected_features() {
  FeatureSet set;
  auto add = [&](std::string_view name, bool present) {
    if (present) set.emplace(name);
  };
  CpuId one(1, 0), seven(7, 0), seven_one(7, 1), extended(0x80000001, 0);
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6;
  bool ymm = (enabled_states() & kYmm) == kYmm, zmm = (enabled_states() & kZmm) == kZmm;
  add("sse3", bit(one.ecx, 0));
  add("ssse3", bit(one.ecx, 9));
  add("sse4.1", bit(one.ecx, 19));
  add("sse4.2", bit(one.ecx, 20));
  add("crc32", bit(one.ecx, 20));
  add("cx16", bit(one.ecx, 13));
  add("movbe", bit(one.ecx, 22));
  add("popcnt", bit(one.ecx, 23));
  add("sahf", bit(extended.ecx, 0));
  add("lzcnt", bit(extended.ecx, 5));
  add("sse4a", bit(extended.ecx, 6));
  add("bmi", bit(seven.ebx, 3));
  add("bmi2", bit(seven.ebx, 8));
  add("gfni", bit(seven.ecx, 8));
  add("avx", ymm && bit(one.ecx, 28));
  add("f16c", ymm && bit(one.ecx, 29));
  add("fma", ymm && bit(one.ecx, 12));
  add("avx2", ymm && bit(seven.ebx, 5));
  add("avxvnni", ymm && bit(seven_one.eax, 4));
  add("avx512f", zmm && bit(seven.ebx, 16));
  add("avx512dq", zmm && bit(seven.ebx, 17));
  add("avx512ifma", zmm && bit(seven.ebx, 21));
  add("avx512cd", zmm && bit(seven.ebx, 28));
  add("avx512bw", zmm && bit(seven.ebx, 30));
  add("avx512vl", zmm && bit(seven.ebx, 31));
  add("avx512vbmi", zmm && bit(seven.ecx, 1));
  add("avx512vbmi2", zmm && bit(seven.ecx, 6));
  add("avx512vnni", zmm && bit(seven.ecx, 11));
  add("avx512bitalg", zmm && bit(seven.ecx, 12));
  add("avx512vpopcntdq", zmm && bit(seven.ecx, 14));
  add("avx512fp16", zmm && bit(seven.edx, 23));
  add("avx512bf16", zmm && bit(seven_one.eax, 5));
  return set;
}

std::string_view intel_name(unsigned model, const FeatureSet& features) {
  switch (model) {
    case 0x3c:
    case 0x3f:
    case 0x45:
    case 0x46: return "haswell";
    case 0x3d:
    case 0x47:
    case 0x4f:
    case 0x56: return "broadwell";
    case 0x4e:
    case 0x5e:
    case 0x8e:
    case 0x9e:
    case 0xa5:
    case 0xa6: return "skylake";
    case 0x55: return features.contains("avx512vnni") ? "cascadelake" : "skylake-avx512";
    case 0x6a:
    case 0x6c: return "icelake-server";
    case 0x8f:
    case 0xcf: return "sapphirerapids";
    default: return {};
  }
}

std::string_view amd_name(unsigned family, unsigned model) {
  if (family == 0x17) return model < 0x30 ? "znver1" : "znver2";
  if (family != 0x19) return {};
  bool fourth = (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0x7f) || (model >= 0xa0 && model <= 0xaf);
  return fourth ? "znver4" : "znver3";
}

/// The processor's name by family and model, or nothing if the table lacks it.
std::string_view detected_name(const FeatureSet& features) {
  CpuId vendor(0, 0), one(1, 0);
  unsigned family = one.eax >> 8 & 0xf, model = one.eax >> 4 & 0xf;
  if (family == 6 || family == 15) model |= one.eax >> 12 & 0xf0;
  if (family == 15) family += one.eax >> 20 & 0xff;
  if (vendor.ebx == signature_INTEL_ebx && family == 6) return intel_name(model, features);
  if (vendor.ebx == signature_AMD_ebx) return amd_name(family, model);
  return {};
}
constexpr std::string_view kGenericNames[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"};
#elif defined(__aarch64__)
FeatureSet detected_features() { return {"neon"}; }
std::string_view detected_name(const FeatureSet&) { return {}; }
constexpr std::string_view kGenericNames[] = {"neoverse-n1"};
#else
#error "this host processor is not described"
#endif

/// The host's entry: by name, or the best generic one whose features are all there.
const Processor& host_processor(const FeatureSet& features) {
  if (const Processor* named = find_processor(detected_name(features))) return *named;
  for (std::string_view name : kGenericNames) {
    const Processor& processor = *find_processor(name);
    if (std::ranges::includes(features, features_of(processor))) return processor;
  }
  return *find_processor(std::end(kGenericNames)[-1]);
}

}  // namespace

bool Target::has(std::string_view feature) const { return std::ranges::binary_search(features, feature); }

std::vector<std::string> feature_changes(const Target& target) {
  std::vector<std::string> changes;
  const Processor* processor = find_processor(target.cpu);
  if (!processor) return changes;
  FeatureSet base = features_of(*processor);
  for (const std::string& name : target.features)
    if (!base.contains(name)) changes.push_back("+" + name);
  for (const std::string& name : base)
    if (!target.has(name)) changes.push_back("-" + name);
  return changes;
}

std::string Target::text() const {
  if (cpu.empty()) return kind;
  std::string out = fmt::format("{} -mcpu={}", kind, cpu);
  std::vector<std::string> changes = feature_changes(*this);
  if (!changes.empty()) out += fmt::format(" -mattr={}", fmt::join(changes, ","));
  return out;
}

Target parse_target(std::string_view text) {
  std::string_view kind, cpu, changes;
  for_each_word(text, ' ', [&](std::string_view word) {
    if (kind.empty())
      kind = word;
    else if (kind == "llvm" && word.starts_with("-mcpu="))
      cpu = word.substr(6);
    else if (kind == "llvm" && word.starts_with("-mattr="))
      changes = word.substr(7);
    else
      fail_usage("unknown option in a target", kind == "llvm" ? "`-mcpu=` or `-mattr=`" : "no option", std::string(word));
  });
  if (kind == "c" || kind == "opencl" || kind == "cuda")
    return Target{.kind = std::string(kind), .cpu = {}, .features = {}, .machine = {}};
  if (kind != "llvm") fail_usage("unknown kind of target", "`llvm`, `c`, `opencl` or `cuda`", std::string(kind));
  if (cpu.empty() || cpu == "native") {
    Target host = host_target();
    FeatureSet features(host.features.begin(), host.features.end());
    change_features(features, changes);
    return make_target(*find_processor(host.cpu), features);
  }
  const Processor* processor = find_processor(cpu);
  if (!processor) fail_usage("unknown processor", fmt::format("one of {}", fmt::join(known_cpus(), ", ")), std::string(cpu));
  FeatureSet features = features_of(*processor);
  change_features(features, changes);
  return make_target(*processor, features);
}

Target host_target() {
  FeatureSet detected = detected_features();
  const Processor& processor = host_processor(detected);
  FeatureSet features = features_of(processor);
  for (const std::string& name : features_of(processor))
    if (!detected.contains(name)) remove_feature(features, name);
  return make_target(processor, features);
}

std::vector<std::string> known_cpus() {
  std::vector<std::string> names;
  for (const Processor& processor : kProcessors) names.emplace_back(processor.name);
  return names;
}

std::vector<std::string> host_features() {
  FeatureSet features = detected_features();
  return {features.begin(), features.end()};
}

}  // namespace tenon
