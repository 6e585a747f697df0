// SPDX-License-Identifier: Apache-2.0
// Graph JSON.
#include "runtime/tvm_graph.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "runtime/tvm_abi.h"

namespace tenon::runtime::tvm {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxElements = int64_t{1} << 56;

/// The text of an element type: as the compiler writes it, `uint1` for bool.
std::string type_text(DType dtype) {
  DataType type = to_data_type(dtype);
  const char* kind = type.code == 0 ? "int" : type.code == 1 ? "uint" : type.code == 2 ? "float" : "bfloat";
  return fmt::format("{}{}", kind, type.bits);
}

std::optional<DType> type_of(std::string_view text) {
  if (text == "bool") return DType::Bool;
  for (DType dtype : kAllDTypes)
    if (type_text(dtype) == text) return dtype;
  // Without a number of bits, 32 are meant.
  if (text == "int" || text == "uint" || text == "float") return type_of(std::string(text) + "32");
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Graph read(std::string_view text) {
    Json json = parse(text);
    if (!json.is_object()) fail("the file", "an object", kind_of(json));
    check_keys(json, {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs", "metadata"}, "the graph");
    for (const Json& node : array_of(json, "nodes")) read_node(node);
    check_rows(json);
    for (const Json& head : array_of(json, "heads")) graph_.heads.push_back(read_entry(head, graph_.nodes.size()));
    read_tensors(member(json, "attrs"));
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) check_special(i);
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(std::string what, std::string expected, std::string found) const {
    throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                  .code = "tvm-graph",
                                  .message = fmt::format("`{}` is no valid graph: {} is {}", path_, what, found),
                                  .node = node_,
                                  .input = path_,
                                  .expected = std::move(expected),
                                  .found = std::move(found),
                                  .hint = "write the graph again with the compiler that made it"});
  }

  [[noreturn]] void unsupported(std::string what, std::string expected, std::string found) const {
    throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                  .code = "tvm-unsupported",
                                  .message = fmt::format("{} in `{}` is {}", what, path_, found),
                                  .node = node_,
                                  .input = path_,
                                  .expected = std::move(expected),
                                  .found = std::move(found)});
  }

  Json parse(std::string_view text) const {
    try {
      return Json::parse(text);
    } catch (const Json::exception& error) {
      fail("the text", "JSON", error.what());
    }
  }

  static std::string kind_of(const Json& json) {
    return json.is_string()   ? fmt::format("the text `{}`", json.get<std::string>())
           : json.is_number() ? json.dump()
                              : json.type_name();
  }

  void check_keys(const Json& object, std::initializer_list<std::string_view> known, const std::string& where) const {
    for (const auto& [key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail("a key of " + where, fmt::format("{}", fmt::join(known, ", ")), fmt::format("`{}`", key));
  }

  const Json& member(const Json& object, const char* key) const {
    auto it = object.find(key);
    if (it == object.end()) fail(fmt::format("`{}`", key), "present", "missing");
    return *it;
  }

  const Json& array_of(const Json& object, const char* key) const {
    const Json& list = member(object, key);
    if (!list.is_array()) fail(fmt::format("`{}`", key), "an array", kind_of(list));
    return list;
  }

  std::string text_of(const Json& object, const char* key) const {
    const Json& text = member(object, key);
    if (!text.is_string()) fail(fmt::format("`{}`", key), "a text", kind_of(text));
    return text.get<std::string>();
  }

  /// A whole number below `limit`.
  uint32_t number(const Json& json, uint64_t limit, std::string_view what) const {
    if (!json.is_number_unsigned() || json.get<uint64_t>() >= limit)
      fail(std::string(what), fmt::format("a whole number below {}", limit), kind_of(json));
    return static_cast<uint32_t>(json.get<uint64_t>());
  }

  /// `[node, index]` or `[node, index, version]`; the node is one of the first `nodes`.
  Entry read_entry(const Json& json, uint64_t nodes) const {
    if (!json.is_array() || json.size() < 2 || json.size() > 3) fail("a reference", "[node, index, version]", json.dump());
    Entry entry;
    entry.node = number(json[0], nodes, "the node of a reference");
    entry.index = number(json[1], graph_.nodes[entry.node].outputs, "the index of a reference");
    return entry;
  }

  uint32_t count_attribute(const Json& attributes, const char* key, uint64_t limit) const {
    std::string text = text_of(attributes, key);
    uint32_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value >= limit)
      fail(fmt::format("`{}`", key), fmt::format("a text of a whole number below {}", limit), fmt::format("`{}`", text));
    return value;
  }

  void read_node(const Json& json) {
    node_.clear();
    if (!json.is_object()) fail("a node", "an object", kind_of(json));
    GraphNode node;
    node_ = node.name = text_of(json, "name");
    check_keys(json, {"op", "name", "inputs", "attrs", "attr", "control_deps"}, "a node");
    std::string op = text_of(json, "op");
    for (const Json& input : array_of(json, "inputs")) node.inputs.push_back(read_entry(input, graph_.nodes.size()));
    if (op == "tvm_op")
      read_call(member(json, json.contains("attrs") ? "attrs" : "attr"), node);
    else if (op != "null")
      fail("`op`", "`null` or `tvm_op`", fmt::format("`{}`", op));
    else if (!node.inputs.empty())
      fail("the number of inputs of a `null` node", "0", std::to_string(node.inputs.size()));
    graph_.nodes.push_back(std::move(node));
  }

  void read_call(const Json& attributes, GraphNode& node) const {
    if (!attributes.is_object()) fail("`attrs`", "an object", kind_of(attributes));
    for (const auto& [key, value] : attributes.items())
      if (!value.is_string()) fail(fmt::format("`{}`", key), "a text", kind_of(value));
    node.function = text_of(attributes, "func_name");
    if (node.function.empty()) fail("`func_name`", "a name", "empty");
    node.flatten = count_attribute(attributes, "flatten_data", 2) == 1;
    // A node's results are counted again by its row and by the list of tensors.
    node.outputs = count_attribute(attributes, "num_outputs", 1 << 20);
    if (node.outputs == 0) fail("`num_outputs`", "1 or more", "0");
    if (uint32_t inputs = count_attribute(attributes, "num_inputs", UINT32_MAX); inputs != node.inputs.size())
      fail("`num_inputs`", fmt::format("{}, the length of `inputs`", node.inputs.size()), std::to_string(inputs));
  }

  void check_rows(const Json& json) {
    node_.clear();
    uint64_t row = 0, next = 0;
    const Json &rows = array_of(json, "node_row_ptr"), &arguments = array_of(json, "arg_nodes");
    if (rows.size() != graph_.nodes.size() + 1)
      fail("the length of `node_row_ptr`", std::to_string(graph_.nodes.size() + 1), std::to_string(rows.size()));
    for (uint32_t i = 0; i < rows.size(); ++i) {
      if (number(rows[i], UINT32_MAX, "an element of `node_row_ptr`") != row)
        fail("an element of `node_row_ptr`", std::to_string(row), rows[i].dump());
      graph_.rows.push_back(static_cast<uint32_t>(row));
      if (i == graph_.nodes.size()) break;
      row += graph_.nodes[i].outputs;
      if (!graph_.nodes[i].function.empty()) continue;
      if (next == arguments.size() || number(arguments[next++], UINT32_MAX, "an element of `arg_nodes`") != i)
        fail("`arg_nodes`", "the indices of the `null` nodes, ascending", arguments.dump());
    }
    if (next != arguments.size()) fail("`arg_nodes`", "the indices of the `null` nodes, ascending", arguments.dump());
  }

  /// The list of the attribute `[tag, list]`, one element for each tensor.
  const Json& list_of(const Json& attributes, const char* key, std::string_view tag) const {
    const Json& pair = array_of(attributes, key);
    if (pair.size() != 2 || pair[0] != tag || !pair[1].is_array())
      fail(fmt::format("`{}`", key), fmt::format("[\"{}\", list]", tag), "something else");
    if (pair[1].size() != graph_.rows.back())
      fail(fmt::format("the length of `{}`", key), fmt::format("{}, the number of tensors", graph_.rows.back()),
           std::to_string(pair[1].size()));
    return pair[1];
  }

  void read_tensors(const Json& attributes) {
    if (!attributes.is_object()) fail("`attrs`", "an object", kind_of(attributes));
    const Json &shapes = list_of(attributes, "shape", "list_shape"), &types = list_of(attributes, "dltype", "list_str"),
               &storage = list_of(attributes, "storage_id", "list_int");
    for (size_t i = 0; i < graph_.rows.back(); ++i) {
      GraphTensor& tensor = graph_.tensors.emplace_back();
      tensor.shape = read_shape(shapes[i]);
      if (!types[i].is_string()) fail("an element of `dltype`", "a text", kind_of(types[i]));
      std::optional<DType> dtype = type_of(types[i].get<std::string>());
      if (!dtype) unsupported("an element type", "bool, or an integer or float of 8 to 64 bits", kind_of(types[i]));
      tensor.dtype = *dtype;
      tensor.storage = number(storage[i], INT32_MAX, "an element of `storage_id`");
    }
    for (const auto& [key, value] : attributes.items()) read_other(attributes, key);
  }

  void read_other(const Json& attributes, const std::string& key) const {
    if (key == "shape" || key == "dltype" || key == "storage_id") return;
    if (key == "device_index") {
      for (const Json& device : list_of(attributes, "device_index", "list_int"))
        if (device != kCpu) unsupported("a device type", "1, the host", device.dump());
    } else if (key == "storage_scope") {
      for (const Json& scope : list_of(attributes, "storage_scope", "list_str"))
        if (scope != "" && scope != "global") unsupported("a storage scope", "`global`", scope.dump());
    } else {
      const Json& pair = array_of(attributes, key.c_str());
      if (pair.empty() || (pair[0] != "list_int" && pair[0] != "size_t"))
        fail(fmt::format("the unknown attribute `{}`", key), "list_int or size_t", pair.empty() ? "empty" : pair[0].dump());
    }
  }

  Shape read_shape(const Json& json) const {
    if (!json.is_array()) fail("an element of `shape`", "an array", kind_of(json));
    Shape shape;
    int64_t elements = 1;
    for (const Json& extent : json) {
      if (!extent.is_number_unsigned() || extent.get<uint64_t>() > static_cast<uint64_t>(kMaxElements))
        fail("an extent", fmt::format("0 to {}", kMaxElements), kind_of(extent));
      shape.push_back(extent.get<int64_t>());
      if (__builtin_mul_overflow(elements, std::max<int64_t>(shape.back(), 1), &elements) || elements > kMaxElements)
        fail("a shape", fmt::format("at most {} elements", kMaxElements), json.dump());
    }
    return shape;
  }

  /// `__nop` and `__copy` have one operand and one result of as many bytes; a `__nop` moves nothing.
  void check_special(uint32_t index) {
    const GraphNode& node = graph_.nodes[index];
    if (node.function != kNop && node.function != kCopy) return;
    node_ = node.name;
    if (node.inputs.size() != 1 || node.outputs != 1)
      fail(fmt::format("`{}`", node.function), "one operand and one result",
           fmt::format("a node of {} operands and {} results", node.inputs.size(), node.outputs));
    const GraphTensor &from = graph_.tensor(node.inputs[0]), &to = graph_.tensor({index, 0});
    if (from.bytes() != to.bytes())
      fail(fmt::format("the result of `{}`", node.function), fmt::format("{} bytes, as its operand", from.bytes()),
           fmt::format("{} bytes", to.bytes()));
    if (node.function == kNop && from.storage != to.storage)
      fail("the storage of a `__nop`", fmt::format("{}, its operand's", from.storage), std::to_string(to.storage));
  }

  const std::string& path_;
  std::string node_;  // that is read
  Graph graph_;
};

Json entry_json(Entry entry) { return {entry.node, entry.index, 0}; }

Json node_json(const GraphNode& node) {
  Json inputs = Json::array();
  for (Entry input : node.inputs) inputs.push_back(entry_json(input));
  Json json{{"op", node.function.empty() ? "null" : "tvm_op"}, {"name", node.name}, {"inputs", inputs}};
  if (!node.function.empty())
    json["attrs"] = {{"func_name", node.function},
                     {"num_inputs", std::to_string(node.inputs.size())},
                     {"num_outputs", std::to_string(node.outputs)},
                     {"flatten_data", node.flatten ? "1" : "0"}};
  return json;
}

}  // namespace

std::string print(const Graph& graph) {
  Json nodes = Json::array(), arguments = Json::array(), heads = Json::array();
  Json shapes = Json::array(), types = Json::array(), storage = Json::array(), devices = Json::array();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    nodes.push_back(node_json(graph.nodes[i]));
    if (graph.nodes[i].function.empty()) arguments.push_back(i);
  }
  for (Entry head : graph.heads) heads.push_back(entry_json(head));
  for (const GraphTensor& tensor : graph.tensors) {
    shapes.push_back(tensor.shape);
    types.push_back(type_text(tensor.dtype));
    storage.push_back(tensor.storage);
    devices.push_back(static_cast<int>(kCpu));
  }
  auto list = [](const char* tag, Json values) { return Json::array({tag, std::move(values)}); };
  Json json{{"nodes", nodes},
            {"arg_nodes", arguments},
            {"heads", heads},
            {"node_row_ptr", graph.rows},
            {"attrs",
             {{"shape", list("list_shape", shapes)},
              {"dltype", list("list_str", types)},
              {"storage_id", list("list_int", storage)},
              {"device_index", list("list_int", devices)}}}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Graph parse_graph(std::string_view text, const std::string& path) { return Reader(path).read(text); }

}  // namespace tenon::runtime::tvm
