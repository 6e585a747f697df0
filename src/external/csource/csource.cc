// SPDX-License-Identifier: Apache-2.0
// The generator `csource`: its patterns, and the call of the compiler.
#include "external/csource/csource.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/mapped_file.h"
#include "base/temporary_folder.h"
#include "base/write_file.h"
#include "external/csource/source.h"

namespace tenon::external {
namespace {

std::string read_text(const std::string& path) {
  MappedFile file = map_file(path);
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

class CSource : public ExternalCodegen {
 public:
  CSource(std::string compiler, std::string level) : compiler_(std::move(compiler)), level_(std::move(level)) {
    patterns_.push_back({"element-wise", {{c_operators(), writable_in_c, false}}});
  }

  std::string_view name() const override { return "csource"; }
  const std::vector<Pattern>& patterns() const override { return patterns_; }
  bool merges() const override { return true; }

  Result compile(const Region& region) const override {
    if (region.target.has("neon"))
      fail(region, ErrorKind::Unsupported, "the system's compiler makes code for this machine, not for another",
           region.target.text());
    CSourceText text = write_c(region);
    TemporaryFolder folder;
    write_file(folder.file("region.c"), text.source);
    run(region, folder);
    CodeResult result{.object = read_text(folder.file("region.o")), .kernel = std::nullopt};
    for (const RegionConstant& constant : region.constants) result.constants.push_back(constant.name);
    result.shared_scratch_bytes = text.scratch_bytes;
    return result;
  }

 private:
  [[noreturn]] void fail(const Region& region, ErrorKind kind, std::string message, std::string found) const {
    throw CompileError(Diagnostic{.kind = kind,
                                  .code = "external-compiler",
                                  .message = std::move(message),
                                  .input = "--external",
                                  .expected = "a C compiler that takes GCC's options",
                                  .found = std::move(found),
                                  .function = region.symbol,
                                  .hint = "name another with `--external \"csource -cc=PROGRAM\"`"});
  }

  std::vector<std::string> arguments(const Region& region, const TemporaryFolder& folder) const {
    std::vector<std::string> words{
        compiler_,           "-std=gnu11",      "-O" + level_,          "-fPIC",
        "-ffp-contract=off", "-fno-math-errno", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"};
    words.push_back("-fno-tree-loop-distribute-patterns");  // a loop must not become a call of memcpy, which is not linked
    for (const char* feature : {"avx", "avx2", "avx512f"})
      if (region.target.has(feature)) words.push_back(fmt::format("-m{}", feature));
    for (const std::string& word : {std::string("-c"), folder.file("region.c"), std::string("-o"), folder.file("region.o")})
      words.push_back(word);
    return words;
  }

  void run(const Region& region, const TemporaryFolder& folder) const {
    std::vector<std::string> words = arguments(region, folder);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::string messages = folder.file("messages");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t child = 0;
    int failed = ::posix_spawnp(&child, compiler_.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed)
      fail(region, ErrorKind::Missing, fmt::format("the C compiler `{}` can't be started: {}", compiler_, std::strerror(failed)),
           compiler_);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) return;
    fail(region, ErrorKind::Unsupported, fmt::format("the C compiler `{}` refuses the code of `@{}`", compiler_, region.symbol),
         read_text(messages));
  }

  std::string compiler_, level_;
  std::vector<Pattern> patterns_;
};

}  // namespace

std::shared_ptr<const ExternalCodegen> make_csource(Options options) {
  std::string compiler = take_option(options, "cc", "cc"), level = take_option(options, "O", "2");
  refuse_options(options, "csource", "-cc=PROGRAM, -O=LEVEL, -self-test=on|off");
  if (level.size() != 1 || level[0] < '0' || level[0] > '3') refuse_option_value("O", level, "0, 1, 2 or 3");
  if (compiler.empty()) refuse_option_value("cc", compiler, "a program");
  return std::make_shared<CSource>(std::move(compiler), std::move(level));
}

}  // namespace tenon::external
