// SPDX-License-Identifier: Apache-2.0
// The text form of loop functions, and the token reader that every `.tenon` parser shares.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tir/stmt.h"

namespace tenon::tir {

/// Bytes of constants that are too long for the text (over 64 bytes), by the content hash printed in it.
using ConstantBytes = std::map<std::string, Array, std::less<>>;

std::string print(const Expr& e);
std::string print(const Stmt& s, int indent = 0);
/// `primfunc @name(a: f32[4,4], …) -> (c: f32[4,4]) {attrs} { … }`. Long constants are added to `constants` if given.
std::string print(const PrimFunc& function, ConstantBytes* constants = nullptr);

/// `{axis = 1, mode = "linear", pads = [0,0]}`
std::string print_attrs(const Attrs& attrs);
/// The bytes of a constant: `bytes "0000803f"` in hex up to 64 bytes, else `hash "…"`, its array added to `constants`.
std::string print_constant(const Array& data, ConstantBytes* constants);

/// Reads one function and verifies it; the cursor stands at `primfunc`. Throws one CompileError with every error found; the
/// cursor then stands behind the function if its braces match. Long constants are looked up by hash in `constants`.
PrimFunc parse_prim_func(TextCursor& cursor, const ConstantBytes& constants);
/// One function in a text of its own.
PrimFunc parse_prim_func(std::string_view file, std::string_view text, const ConstantBytes& constants = {});
Attrs parse_attrs(TextCursor& cursor);
/// Reads what print_constant printed for an array of this dtype and shape.
Array parse_constant(TextCursor& cursor, DType dtype, std::span<const Expr> extents, const ConstantBytes& constants);
DType parse_dtype(TextCursor& cursor);
/// An expression whose variables are declared by `vars`; it reads no buffer.
Expr parse_expr(TextCursor& cursor, const VarMap& vars);
/// `[n,3,(2 * h)]`: i64 expressions over symbols. With `declare`, an unknown name becomes a symbol.
std::vector<Expr> parse_shape(TextCursor& cursor, VarMap& symbols, bool declare);

/// Throws CompileError listing every broken rule: undeclared or redeclared names, wrong ranks and dtypes, a store to an
/// input or a constant, vectorized or unrolled loops without constant extents, a block variable bound twice, reads or
/// writes outside a block's declared regions' buffers, nesting that no text may have.
void verify(const PrimFunc& function);
/// As above; `place` says where a statement stands, or the function for a null one.
void verify(const PrimFunc& function, function_ref<void(const Stmt&, Diagnostic&)> place);

/// Expressions and statements nest at most this deep, so that no text can exhaust the stack of a recursive reader.
inline constexpr int kMaxNesting = 1000;

}  // namespace tenon::tir
