// SPDX-License-Identifier: Apache-2.0
// MiniMalloc's CSV with our further columns.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/diagnostic.h"
#include "tenon/plan.h"

namespace tenon::plan {
namespace {

constexpr std::string_view kColumns[] = {"id",   "lower",  "upper", "size", "alignment", "gaps",  "offset", "hint",
                                         "kind", "device", "pools", "pin",  "share",     "alias", "pool"};
constexpr std::string_view kKinds[] = {"intermediate", "input", "output", "constant", "workspace"};

struct Cell {
  std::string text;
  uint32_t line = 0, column = 0;
};

/// Cells of one line, split at commas; a cell in double quotes may hold them, and `""` for a quote.
std::vector<Cell> split_line(std::string_view text, uint32_t line) {
  std::vector<Cell> cells(1, Cell{"", line, 1});
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"')
      cells.back().text += text[++i];
    else if (c == '"' && (quoted || cells.back().text.empty()))
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.push_back({"", line, static_cast<uint32_t>(i + 2)});
    else
      cells.back().text += c;
  }
  return cells;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> parts = split(text, ' ');
  std::erase(parts, "");
  return parts;
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == text.npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

class Table {
 public:
  Table(const std::string& file, std::string_view text) : file_(std::make_shared<const std::string>(file)) {
    uint32_t line = 0;
    if (constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF"; text.starts_with(kByteOrderMark))
      text.remove_prefix(kByteOrderMark.size());  // of spreadsheets
    for (std::string_view row : split(text, '\n')) {
      ++line;
      if (row.ends_with('\r')) row.remove_suffix(1);
      if (row.empty()) continue;
      std::vector<Cell> cells = split_line(row, line);
      if (columns_.empty())
        read_header(cells);
      else
        add_row(std::move(cells));
    }
    if (columns_.empty()) fail(Cell{"", 1, 1}, "csv-header", "there is no header line", "id,lower,upper,size");
  }

  [[noreturn]] void fail(const Cell& at, std::string code, const std::string& message, std::string expected) const {
    throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                  .code = std::move(code),
                                  .message = fmt::format("line {}: {}", at.line, message),
                                  .input = *file_,
                                  .expected = std::move(expected),
                                  .found = at.text,
                                  .span = {file_, at.line, at.column, static_cast<uint32_t>(std::max<size_t>(1, at.text.size()))},
                                  .hint = "correct the file; docs/memory-planning.md lists the columns"});
  }

  void require(std::string_view column) const {
    if (!has(column)) fail(header_, "csv-header", fmt::format("the column `{}` is missing", column), std::string(column));
  }
  bool has(std::string_view column) const { return columns_.contains(column); }
  size_t rows() const { return rows_.size(); }

  const Cell& cell(size_t row, std::string_view column) const { return rows_[row][columns_.find(column)->second]; }
  /// An empty text where there is no such column.
  const std::string& text(size_t row, std::string_view column) const {
    static const std::string kEmpty;
    return has(column) ? cell(row, column).text : kEmpty;
  }

  int64_t integer(size_t row, std::string_view column) const {
    return integer(cell(row, column), cell(row, column).text, column);
  }
  std::optional<int64_t> optional_integer(size_t row, std::string_view column) const {
    if (text(row, column).empty()) return std::nullopt;
    return integer(row, column);
  }
  int64_t integer(const Cell& at, std::string_view text, std::string_view what) const {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      fail(at, "csv-field", fmt::format("`{}` is `{}`", what, at.text), "a 64-bit integer");
    return value;
  }

  /// What `end` says is the last point, not the one behind it.
  int64_t end_addend() const { return inclusive_end_ ? 1 : 0; }

 private:
  void read_header(const std::vector<Cell>& cells) {
    static const std::map<std::string_view, std::string_view> kNames = {
        {"buffer", "id"}, {"buffer_id", "id"}, {"begin", "lower"}, {"start", "lower"}, {"end", "upper"}};
    header_ = cells.front();
    for (const Cell& cell : cells) {
      auto renamed = kNames.find(cell.text);
      std::string name(renamed == kNames.end() ? cell.text : renamed->second);
      inclusive_end_ |= cell.text == "end";
      if (std::find(std::begin(kColumns), std::end(kColumns), name) == std::end(kColumns))
        fail(cell, "csv-header", fmt::format("there is no column `{}`", cell.text), fmt::format("{}", fmt::join(kColumns, ", ")));
      if (!columns_.emplace(name, columns_.size()).second)
        fail(cell, "csv-header", fmt::format("the column `{}` is there twice", name), "each column once");
    }
  }

  void add_row(std::vector<Cell> cells) {
    if (cells.size() != columns_.size())
      fail(Cell{fmt::format("{} fields", cells.size()), cells.front().line, 1}, "csv-row",
           fmt::format("{} fields in a table of {} columns", cells.size(), columns_.size()),
           fmt::format("{} fields", columns_.size()));
    rows_.push_back(std::move(cells));
  }

  std::shared_ptr<const std::string> file_;
  Cell header_;
  std::map<std::string, size_t, std::less<>> columns_;
  std::vector<std::vector<Cell>> rows_;
  bool inclusive_end_ = false;
};

using Index = std::unordered_map<std::string, uint32_t>;

uint32_t look_up(const Table& table, const Cell& at, const Index& index, std::string_view name, std::string_view what) {
  auto it = index.find(std::string(name));
  if (it == index.end())
    table.fail(at, "csv-field", fmt::format("there is no {} `{}`", what, name), fmt::format("a {} of the problem", what));
  return it->second;
}

/// `name` or `name@number`.
std::pair<std::string_view, std::optional<int64_t>> name_at(const Table& table, const Cell& at) {
  size_t sign = at.text.rfind('@');
  if (sign == at.text.npos) return {at.text, std::nullopt};
  std::string_view text = at.text;
  return {text.substr(0, sign), table.integer(at, text.substr(sign + 1), "offset")};
}

Gap parse_gap(const Table& table, const Cell& at, std::string_view text) {
  std::vector<std::string_view> parts = split(text, '@'), points = split(parts[0], '-');
  std::vector<std::string_view> window = parts.size() == 2 ? split(parts[1], ':') : std::vector<std::string_view>{"0", "0"};
  if (parts.size() > 2 || points.size() != 2 || window.size() != 2)
    table.fail(at, "csv-field", fmt::format("the gap `{}` cannot be read", text), "`4-6` or `4-6@0:16`");
  return {table.integer(at, points[0], "gaps"), table.integer(at, points[1], "gaps") + table.end_addend(),
          table.integer(at, window[0], "gaps"), table.integer(at, window[1], "gaps")};
}

class ProblemReader {
 public:
  ProblemReader(const std::string& file, std::string_view text, std::vector<Pool> pools) : table_(file, text) {
    problem_.pools = std::move(pools);
    for (uint32_t i = 0; i < problem_.pools.size(); ++i) pools_.emplace(problem_.pools[i].name, i);
  }

  LivenessProblem run() {
    for (const char* column : {"id", "lower", "upper", "size"}) table_.require(column);
    for (size_t row = 0; row < table_.rows(); ++row) {
      buffers_.emplace(table_.cell(row, "id").text, static_cast<uint32_t>(row));
      problem_.buffers.push_back(read(row));
    }
    for (size_t row = 0; row < table_.rows(); ++row) read_references(row);
    validate(problem_);
    return std::move(problem_);
  }

 private:
  Buffer read(size_t row) const {
    Buffer buffer{.id = table_.cell(row, "id").text};
    buffer.begin = table_.integer(row, "lower");
    buffer.end = table_.integer(row, "upper") + table_.end_addend();
    buffer.size = table_.integer(row, "size");
    buffer.alignment = table_.optional_integer(row, "alignment").value_or(1);
    buffer.hint = table_.optional_integer(row, "hint");
    buffer.device = table_.text(row, "device");
    if (auto offset = table_.optional_integer(row, "offset")) buffer.pin = Pin{0, *offset};
    for (std::string_view gap : words(table_.text(row, "gaps")))
      buffer.gaps.push_back(parse_gap(table_, table_.cell(row, "gaps"), gap));
    if (!table_.text(row, "kind").empty()) buffer.kind = read_kind(table_.cell(row, "kind"));
    return buffer;
  }

  BufferKind read_kind(const Cell& cell) const {
    auto it = std::find(std::begin(kKinds), std::end(kKinds), cell.text);
    if (it == std::end(kKinds))
      table_.fail(cell, "csv-field", fmt::format("`kind` is `{}`", cell.text), fmt::format("{}", fmt::join(kKinds, ", ")));
    return static_cast<BufferKind>(it - std::begin(kKinds));
  }

  void read_references(size_t row) {
    Buffer& buffer = problem_.buffers[row];
    for (std::string_view name : words(table_.text(row, "pools")))
      buffer.pools.push_back(look_up(table_, table_.cell(row, "pools"), pools_, name, "pool"));
    for (std::string_view name : words(table_.text(row, "share")))
      buffer.may_share_with.push_back(look_up(table_, table_.cell(row, "share"), buffers_, name, "buffer"));
    if (!table_.text(row, "pin").empty()) {
      auto [pool, offset] = name_at(table_, table_.cell(row, "pin"));
      buffer.pin = Pin{look_up(table_, table_.cell(row, "pin"), pools_, pool, "pool"), offset};
    }
    if (!table_.text(row, "alias").empty()) {
      auto [base, offset] = name_at(table_, table_.cell(row, "alias"));
      buffer.alias = Alias{look_up(table_, table_.cell(row, "alias"), buffers_, base, "buffer"), offset.value_or(0)};
    }
  }

  Table table_;
  LivenessProblem problem_;
  Index pools_, buffers_;
};

/// A column of the written form; it is left out if every buffer's text is empty.
struct Column {
  std::string name;
  std::function<std::string(const Buffer&)> text;
};

std::string gaps_text(const Buffer& buffer) {
  std::string text;
  for (const Gap& gap : buffer.gaps) {
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", gap.begin, gap.end);
    if (gap.low < gap.high) text += fmt::format("@{}:{}", gap.low, gap.high);
  }
  return text;
}

template <class Named>
std::string names_text(const std::vector<uint32_t>& indices, const Named& name) {
  std::string text;
  for (uint32_t i : indices) text += (text.empty() ? "" : " ") + name(i);
  return text;
}

std::vector<Column> columns_of(const LivenessProblem& problem) {
  auto pool = [&](uint32_t i) { return problem.pools[i].name; };
  auto id = [&](uint32_t i) { return problem.buffers[i].id; };
  return {{"id", [](const Buffer& b) { return quoted(b.id); }},
          {"lower", [](const Buffer& b) { return std::to_string(b.begin); }},
          {"upper", [](const Buffer& b) { return std::to_string(b.end); }},
          {"size", [](const Buffer& b) { return std::to_string(b.size); }},
          {"alignment", [](const Buffer& b) { return b.alignment == 1 ? "" : std::to_string(b.alignment); }},
          {"gaps", gaps_text},
          {"hint", [](const Buffer& b) { return b.hint ? std::to_string(*b.hint) : ""; }},
          {"kind",
           [](const Buffer& b) {
             return b.kind == BufferKind::Intermediate ? "" : std::string(kKinds[static_cast<size_t>(b.kind)]);
           }},
          {"device", [](const Buffer& b) { return quoted(b.device); }},
          {"pools", [pool](const Buffer& b) { return quoted(names_text(b.pools, pool)); }},
          {"pin",
           [pool](const Buffer& b) {
             if (!b.pin) return std::string();
             return quoted(pool(b.pin->pool) + (b.pin->offset ? fmt::format("@{}", *b.pin->offset) : ""));
           }},
          {"share", [id](const Buffer& b) { return quoted(names_text(b.may_share_with, id)); }},
          {"alias",
           [id](const Buffer& b) { return b.alias ? quoted(fmt::format("{}@{}", id(b.alias->buffer), b.alias->offset)) : ""; }}};
}

std::string write_table(const LivenessProblem& problem, std::vector<Column> columns) {
  std::vector<Column> used;
  for (Column& column : columns)
    if (used.size() < 4 ||
        std::any_of(problem.buffers.begin(), problem.buffers.end(), [&](const Buffer& b) { return !column.text(b).empty(); }))
      used.push_back(std::move(column));
  std::string out;
  for (const Column& column : used) out += (out.empty() ? "" : ",") + column.name;
  out += '\n';
  for (const Buffer& buffer : problem.buffers) {
    for (size_t i = 0; i < used.size(); ++i) {
      std::string text = used[i].text(buffer);
      if (used[i].name == "alignment" && text.empty()) text = "1";  // MiniMalloc reads no empty number
      out += (i ? "," : "") + text;
    }
    out += '\n';
  }
  return out;
}

class PlanReader {
 public:
  PlanReader(const LivenessProblem& problem, const std::string& file, std::string_view text)
      : problem_(problem), table_(file, text), places_(problem.buffers.size()), seen_(problem.buffers.size()) {
    for (uint32_t i = 0; i < problem.buffers.size(); ++i) buffers_.emplace(problem.buffers[i].id, i);
    for (uint32_t i = 0; i < problem.pools.size(); ++i) pools_.emplace(problem.pools[i].name, i);
  }

  MemoryPlan run() {
    table_.require("id");
    table_.require("offset");
    if (problem_.pools.size() > 1) table_.require("pool");
    for (size_t row = 0; row < table_.rows(); ++row) read(row);
    for (uint32_t i = 0; i < seen_.size(); ++i)
      if (!seen_[i]) fault("plan-missing", problem_.buffers[i].id, "`{}` has no line in the plan", "one line", "none");
    faults_.throw_any();
    MemoryPlan plan = plan_from_places(problem_, places_, "");
    for (uint32_t i = 0; i < places_.size(); ++i)
      if (problem_.buffers[i].alias) plan.assignment[i].offset = places_[i].offset - plan.slot_of(i).offset;
    return plan;
  }

 private:
  void fault(std::string code, const std::string& id, fmt::format_string<const std::string&> message, std::string expected,
             std::string found) {
    faults_.add(Diagnostic{.kind = ErrorKind::CheckFailed,
                           .code = std::move(code),
                           .message = fmt::format(message, id),
                           .input = id,
                           .expected = std::move(expected),
                           .found = std::move(found)});
  }

  void read(size_t row) {
    const std::string& id = table_.cell(row, "id").text;
    auto it = buffers_.find(id);
    if (it == buffers_.end())
      return fault("plan-missing", id, "`{}` is in the plan, but not in the problem", "a buffer of the problem", id);
    uint32_t index = it->second;
    if (seen_[index]) return fault("plan-missing", id, "`{}` has two lines in the plan", "one line", "two");
    seen_[index] = true;
    places_[index].offset = table_.integer(row, "offset");
    if (table_.has("pool"))
      places_[index].pool = look_up(table_, table_.cell(row, "pool"), pools_, table_.cell(row, "pool").text, "pool");
    compare(row, "size", problem_.buffers[index].size, 0);
    compare(row, "lower", problem_.buffers[index].begin, 0);
    compare(row, "upper", problem_.buffers[index].end, table_.end_addend());
  }

  void compare(size_t row, std::string_view column, int64_t expected, int64_t addend) {
    if (!table_.has(column)) return;
    int64_t found = table_.integer(row, column) + addend;
    if (found == expected) return;
    fault("plan-size", table_.cell(row, "id").text, "`{}` is not as in the problem", fmt::format("{} {}", column, expected),
          fmt::format("{} {}", column, found));
  }

  const LivenessProblem& problem_;
  Table table_;
  Index buffers_, pools_;
  std::vector<Place> places_;
  std::vector<bool> seen_;
  ErrorList faults_;
};

}  // namespace

LivenessProblem read_problem_csv(const std::string& file, std::string_view text, std::vector<Pool> pools) {
  return ProblemReader(file, text, std::move(pools)).run();
}

std::string write_problem_csv(const LivenessProblem& problem) {
  std::vector<Column> columns = columns_of(problem);
  bool one_pool = problem.pools.size() == 1;
  for (Column& column : columns)
    if (column.name == "pin" && one_pool)
      column = {"offset", [](const Buffer& b) { return b.pin && b.pin->offset ? std::to_string(*b.pin->offset) : ""; }};
  return write_table(problem, std::move(columns));
}

MemoryPlan read_plan_csv(const LivenessProblem& problem, const std::string& file, std::string_view text) {
  return PlanReader(problem, file, text).run();
}

std::string write_plan_csv(const LivenessProblem& problem, const MemoryPlan& plan) {
  std::vector<Column> columns = columns_of(problem);
  auto index = [&](const Buffer& b) { return static_cast<uint32_t>(&b - problem.buffers.data()); };
  if (problem.pools.size() > 1)
    columns.push_back({"pool", [&](const Buffer& b) { return quoted(problem.pools[plan.pool_of(index(b))].name); }});
  columns.push_back({"offset", [&](const Buffer& b) { return std::to_string(plan.offset_of(index(b))); }});
  return write_table(problem, std::move(columns));
}

}  // namespace tenon::plan
