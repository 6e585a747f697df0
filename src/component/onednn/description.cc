// SPDX-License-Identifier: Apache-2.0
// Reading descriptions.
#include "component/onednn/description.h"

#include <sstream>
#include <stdexcept>

namespace tenon::onednn {
namespace {

[[noreturn]] void refuse(const std::string& line) { throw std::invalid_argument("the description holds `" + line + "`"); }

template <class T>
std::vector<T> numbers(std::istringstream& words, const std::string& line) {
  std::vector<T> list;
  for (T number; words >> number;) list.push_back(number);
  if (!words.eof()) refuse(line);
  return list;
}

class Parser {
 public:
  explicit Parser(size_t arg_count) : arg_count_(arg_count) {}

  Description run(std::string_view text) {
    std::istringstream lines{std::string(text)};
    std::getline(lines, out_.kind);
    for (std::string line; std::getline(lines, line);) read(line);
    if (out_.src.dims.empty() || out_.dst.dims.empty()) refuse(out_.kind);
    return std::move(out_);
  }

 private:
  uint32_t argument(int64_t index, const std::string& line) const {
    if (index < 0 || static_cast<uint64_t>(index) >= arg_count_) refuse(line);
    return static_cast<uint32_t>(index);
  }

  Tensor tensor(std::istringstream& words, const std::string& line) const {
    std::vector<int64_t> list = numbers<int64_t>(words, line);
    if (list.size() < 2) refuse(line);
    return {argument(list[0], line), {list.begin() + 1, list.end()}};
  }

  int64_t one(std::istringstream& words, const std::string& line) const {
    std::vector<int64_t> list = numbers<int64_t>(words, line);
    if (list.size() != 1) refuse(line);
    return list[0];
  }

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "kernel") {
      out_.kernel = numbers<int64_t>(words, line);
    } else if (word == "strides") {
      out_.strides = numbers<int64_t>(words, line);
    } else if (word == "dilations") {
      out_.dilations = numbers<int64_t>(words, line);
    } else if (word == "pads") {
      out_.pads = numbers<int64_t>(words, line);
    } else if (word == "groups") {
      out_.groups = one(words, line);
    } else if (word == "src") {
      out_.src = tensor(words, line);
    } else if (word == "weights") {
      out_.weights = tensor(words, line);
    } else if (word == "dst") {
      out_.dst = tensor(words, line);
    } else if (word == "bias") {
      out_.bias = argument(one(words, line), line);
    } else if (word == "post") {
      PostOp op;
      words >> op.name;
      if (op.name == "add")
        op.tensor = tensor(words, line);
      else
        op.numbers = numbers<double>(words, line);
      out_.post.push_back(std::move(op));
    } else {
      refuse(line);
    }
  }

  size_t arg_count_;
  Description out_;
};

}  // namespace

Description parse(std::string_view text, size_t arg_count) { return Parser(arg_count).run(text); }

}  // namespace tenon::onednn
