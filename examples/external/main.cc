// SPDX-License-Identifier: Apache-2.0
// Compiles a model with a code generator of this program's own for b * sigmoid(a), everything else by Tenon.
//
//   own_external MODEL ARTIFACT code    gives objects, from C that it writes and the system's compiler compiles
//   own_external MODEL ARTIFACT loops   gives loop functions, which Tenon schedules and compiles
//   own_external MODEL ARTIFACT wrong   gives objects that forget the product, and is refused
//
// Build: see the Makefile beside this file, which says where tenon/kernel.h is.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "tenon/compiler.h"

namespace fs = std::filesystem;

namespace {

/// Operands of one type, so that the code is one loop over all elements.
bool same_types(const tenon::ExternalNode& node) {
  return std::all_of(node.operands.begin(), node.operands.end(), [&](const tenon::ExternalNode::Operand& operand) {
    return operand.type.dtype == "f32" && operand.type.shape == node.results[0].shape;
  });
}

/// The region takes a and b, or one value that is both, in the order in which its operators read them.
std::string c_source(const tenon::ExternalRegion& region, bool wrong) {
  int64_t elements = 1;
  for (int64_t extent : region.outputs[0].shape) elements *= extent;
  std::ostringstream c;
  c << "#include <math.h>\n#include \"tenon/kernel.h\"\n"
    << "void " << region.symbol << "(void* const* args, tenon_kernel_context* context) {\n"
    << "  const float *a = args[0], *b = args[" << region.inputs.size() - 1 << "];\n"
    << "  float* out = args[" << region.inputs.size() << "];\n"
    << "  (void)context;\n"
    << "  for (int64_t i = 0; i < " << elements << "; ++i)\n"
    << "    out[i] = " << (wrong ? "1" : "b[i]") << " / (1 + expf(-a[i]));\n"
    << "}\n";
  return c.str();
}

tenon::ExternalAnswer as_object(const tenon::ExternalRegion& region, bool wrong) {
  std::string folder = (fs::temp_directory_path() / "own_external_XXXXXX").string();
  if (!mkdtemp(folder.data())) throw tenon::Error(6, "own-folder", "there is no place for temporary files");
  std::ofstream(folder + "/region.c") << c_source(region, wrong);
  std::string command =
      "cc -std=c11 -O2 -fPIC -fno-stack-protector -I" TENON_INCLUDE " -c " + folder + "/region.c -o " + folder + "/region.o";
  bool compiled = std::system(command.c_str()) == 0;
  std::ostringstream object;
  object << std::ifstream(folder + "/region.o", std::ios::binary).rdbuf();
  fs::remove_all(folder);
  if (!compiled) throw tenon::Error(5, "own-compiler", "the C compiler `cc` is missing or refuses " + std::string(region.symbol));
  return tenon::ExternalObject{object.str()};
}

tenon::ExternalAnswer as_loops(const tenon::ExternalRegion& region) {
  std::string type = "f32[", indices = "[", element = "[", loops, iterators, ends;
  for (size_t k = 0; k < region.outputs[0].shape.size(); ++k) {
    std::string axis = std::to_string(k), extent = std::to_string(region.outputs[0].shape[k]), comma = k ? ", " : "";
    type += (k ? "," : "") + extent;
    indices += comma + "v" + axis;
    element += comma + "v" + axis + " : 1";
    loops += "for i" + axis + " = 0 extent " + extent + " {\n";
    iterators += "iter v" + axis + ": spatial " + extent + " = i" + axis + "\n";
    ends += "}\n";
  }
  for (std::string* text : {&type, &indices, &element}) *text += "]";
  std::string a = "a", b = region.inputs.size() == 2 ? "b" : "a";
  std::string params = a + ": " + type + (a == b ? "" : ", " + b + ": " + type);
  std::string reads = "reads " + a + element + "\n" + (a == b ? "" : "reads " + b + element + "\n");
  std::string value = b + indices + " / (1.0:f32 + exp((0.0:f32 - " + a + indices + ")))";
  return tenon::ExternalLoops{"primfunc @" + std::string(region.symbol) + "(" + params + ") -> (out: " + type + ") {\n" + loops +
                              "block gate {\n" + iterators + reads + "writes out" + element + "\nbody {\nout" + indices + " = (" +
                              value + ")\n}\n}\n" + ends + "}\n"};
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode = argc == 4 ? argv[3] : "";
  if (mode != "code" && mode != "loops" && mode != "wrong") {
    std::cerr << "usage: " << argv[0] << " MODEL ARTIFACT code|loops|wrong\n";
    return 2;
  }
  tenon::ExternalCodegen gate;
  gate.name = "own";
  gate.patterns = {{"gate", {{{"sigmoid"}, same_types}, {{"multiply"}, same_types}}}};
  gate.compile = [&](const tenon::ExternalRegion& region) {
    return mode == "loops" ? as_loops(region) : as_object(region, mode == "wrong");
  };
  tenon::BuildOptions options;
  options.generators.push_back(gate);
  try {
    tenon::compile(argv[1], argv[2], options);
    std::cout << tenon::module_after(argv[1], "partition", options);
  } catch (const tenon::Error& error) {
    std::cerr << error.what() << '\n';
    return error.kind();
  }
  return 0;
}
