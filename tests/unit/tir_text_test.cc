// SPDX-License-Identifier: Apache-2.0
// The text of loop functions: every construct reads back, and every mistake is found where it stands.
#include "tir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/round_trip.h"

namespace tenon::tir {

using testing::compile_error;
using testing::round_trip;

namespace {

Buffer buffer(std::string name, DType dtype, std::vector<Expr> shape, Scope scope = Scope::Global,
              std::vector<Expr> strides = {}) {
  return Buffer(BufferData{std::move(name), dtype, std::move(shape), std::move(strides), scope});
}

/// A function with one output `y: f32[4]` and this body.
PrimFunc with_body(const Stmt& body) {
  PrimFunc f;
  f.name = "f";
  f.params = {buffer("y", DType::F32, {4})};
  f.body = body;
  return f;
}

Stmt store_y(const Expr& value) { return store(buffer("y", DType::F32, {4}), {0}, value); }

/// `text` as the only statements of a function with an input x and an output y.
PrimFunc parse_body(const std::string& statements) {
  std::string text = "primfunc @f(x: f32[4], k: i32[4]) -> (y: f32[4]) {\n" + statements + "\n}\n";
  return parse_prim_func("f.tenon", text);
}

std::string errors_of(const std::string& statements) {
  return compile_error([&] { verify(parse_body(statements)); });
}

}  // namespace

TEST(TirText, PrintsAMatrixProductAsDocumented) {
  Expr n = var("n"), i = var("i"), j = var("j"), k = var("k"), vi = var("vi"), vj = var("vj"), vk = var("vk");
  Buffer a = buffer("a", DType::F32, {n, 8}), b = buffer("b", DType::F32, {8, 4}), c = buffer("c", DType::F32, {n, 4});
  Stmt update = store(c, {vi, vj}, load(c, {vi, vj}) + load(a, {vi, vk}) * load(b, {vk, vj}));
  Stmt work = block("product", {{vi, n, IterKind::Spatial, i}, {vj, 4, IterKind::Spatial, j}, {vk, 8, IterKind::Reduce, k}},
                    {{a, {vi, vk}, {1, 1}}, {b, {vk, vj}, {1, 1}}}, {{c, {vi, vj}, {1, 1}}},
                    store(c, {vi, vj}, imm(DType::F32, 0)), update);
  PrimFunc f;
  f.name = "matmul";
  f.params = {a, b, c};
  f.num_inputs = 2;
  f.attrs = {{"scheduled", true}, {"target", std::string("c")}};
  f.body = for_loop(i, 0, n, ForKind::Parallel, for_loop(j, 0, 4, ForKind::Vectorized, for_loop(k, 0, 8, ForKind::Serial, work)));
  EXPECT_EQ(print(f), R"(primfunc @matmul(a: f32[n,8], b: f32[8,4]) -> (c: f32[n,4]) {scheduled = true, target = "c"} {
  for i = 0 extent n parallel {
    for j = 0 extent 4 vectorized {
      for k = 0 extent 8 {
        block product {
          iter vi: spatial n = i
          iter vj: spatial 4 = j
          iter vk: reduce 8 = k
          reads a[vi : 1, vk : 1]
          reads b[vk : 1, vj : 1]
          writes c[vi : 1, vj : 1]
          init {
            c[vi, vj] = 0.0:f32
          }
          body {
            c[vi, vj] = (c[vi, vj] + (a[vi, vk] * b[vk, vj]))
          }
        }
      }
    }
  }
}
)");
  round_trip(f);
  verify(f);
}

TEST(TirText, EveryStatementReadsBack) {
  Buffer x = buffer("x", DType::F32, {4}), y = buffer("y", DType::F32, {4});
  Buffer scratch = buffer("scratch", DType::F32, {2, 8}, Scope::Local, {8, 1}),
         lanes = buffer("lanes", DType::F32, {8}, Scope::Reg);
  Buffer small = buffer("small", DType::I16, {3}), large = buffer("large", DType::F64, {2, 20}),
         scalar = buffer("scalar", DType::Bool, {});
  Expr i = var("i"), t = var("t", DType::F32);
  MutableArray big(DType::F64, {2, 20});
  for (int k = 0; k < 40; ++k) big.as<double>()[k] = k * 0.5;
  Stmt first = store(y, {i}, t);
  PrimFunc f;
  f.name = "all";
  f.params = {x, y};
  f.num_inputs = 1;
  f.body = scoped({allocate(scratch), allocate(lanes), allocate(scalar),
                   allocate_const(small, array_of<int16_t>(DType::I16, {3}, {-1, 0, 7})),
                   allocate_const(large, std::move(big).freeze()), store(scalar, {}, bool_imm(true)),
                   for_loop(i, 1, 3, ForKind::Unrolled,
                            scoped({let(t, load(x, {i})), first, if_then(lt(load(x, {i}), t), first, scoped({})),
                                    if_then(load(scalar, {}), first)}))});
  round_trip(f);
  verify(f);
}

TEST(TirText, ASequenceKeepsItsShape) {
  Stmt s = store_y(imm(DType::F32, 1));
  Expr i = var("i");
  std::vector<Stmt> bodies = {s,
                              scoped({}),
                              scoped({s}),
                              scoped({s, s}),
                              scoped({scoped({})}),
                              scoped({scoped({s})}),
                              scoped({scoped({s, s})}),
                              scoped({s, scoped({s, scoped({})})}),
                              scoped({scoped({scoped({s})})})};
  for (const Stmt& body : bodies) {
    round_trip(with_body(body));
    round_trip(with_body(for_loop(i, 0, 2, ForKind::Serial, body)));
    round_trip(with_body(if_then(lt(load(buffer("y", DType::F32, {4}), {0}), imm(DType::F32, 3)), body, body)));
    round_trip(with_body(block("b", {}, {}, {{buffer("y", DType::F32, {4}), {0}, {4}}}, body, body)));
  }
}

TEST(TirText, EveryExpressionReadsBack) {
  Buffer y = buffer("y", DType::F32, {4});
  Expr i = var("i"), n = var("n");
  std::vector<Expr> exprs;
  for (int op = 0; op <= static_cast<int>(BinaryOp::Shr); ++op) {
    auto kind = static_cast<BinaryOp>(op);
    bool logic = kind == BinaryOp::And || kind == BinaryOp::Or;
    exprs.push_back(logic ? binary(kind, lt(i, n), eq(i, n)) : binary(kind, i, n));
  }
  Expr value = load(y, {i});
  for (int op = 0; op < static_cast<int>(Intrinsic::Reinterpret); ++op) {
    auto kind = static_cast<Intrinsic>(op);
    Expr arg = kind == Intrinsic::Not ? lt(i, n) : kind == Intrinsic::BitNot ? i : value;
    exprs.push_back(call(kind, std::vector<Expr>(static_cast<size_t>(arity(kind)), arg)));
  }
  exprs.push_back(reinterpret(DType::I32, value));
  exprs.push_back(select(lt(i, n), i, int_imm(DType::I64, -1)));
  for (DType dtype : kAllDTypes) {
    if (dtype != DType::I64) exprs.push_back(cast(dtype, i));
    exprs.push_back(lowest(dtype));
    exprs.push_back(highest(dtype));
    exprs.push_back(imm(dtype, 1));
  }
  for (double v : {0.1, -0.0, 1e-30, 3e38, static_cast<double>(NAN)}) exprs.push_back(float_imm(DType::F32, v));
  exprs.push_back(float_imm(DType::F64, 5e-324));
  std::vector<Stmt> stmts;
  for (size_t k = 0; k < exprs.size(); ++k) stmts.push_back(let(var("v" + std::to_string(k), exprs[k]->dtype), exprs[k]));
  PrimFunc f;
  f.name = "f";
  f.params = {buffer("z", DType::F32, {n}), y};
  f.num_inputs = 1;
  f.body = for_loop(i, 0, n, ForKind::Serial, scoped(stmts));
  round_trip(f);
  verify(f);
}

TEST(TirText, NamesThatLookLikeKeywordsReadBack) {
  std::vector<Stmt> stmts;
  for (const char* word :
       {"for", "let", "if", "alloc", "block", "body", "iter", "else", "select", "min", "exp", "extent", "parallel", "hash"}) {
    Buffer b = buffer(word, DType::I64, {2});
    stmts.push_back(allocate(b));
    stmts.push_back(store(b, {0}, load(b, {1})));
    stmts.push_back(let(var(std::string(word) + ".v"), load(b, {0})));
  }
  PrimFunc f = with_body(scoped(stmts));
  round_trip(f);
  verify(f);
}

TEST(TirText, FreshNamesAvoidWordsOfTheGrammar) {
  NameSupply names;
  for (const char* word : {"cast", "f32", "inf", "true", "reg"}) EXPECT_TRUE(is_printable_name(names.fresh(word))) << word;
  EXPECT_EQ(names.fresh("cast"), "cast_2");
}

TEST(TirText, AttributesReadBack) {
  Attrs attrs = {{"a", true},
                 {"b", std::numeric_limits<int64_t>::min()},
                 {"c", -2.5e-9},
                 {"d", std::string("x\n\"\xff")},
                 {"e", std::vector<int64_t>{1, -2}},
                 {"f", std::vector<int64_t>{}},
                 {"g", -std::numeric_limits<double>::infinity()},
                 {"h", 3.0},
                 {"i", int64_t{3}}};
  std::string text = print_attrs(attrs);
  TextCursor cursor("t", text);
  EXPECT_EQ(parse_attrs(cursor), attrs);
  EXPECT_EQ(
      text,
      R"({a = true, b = -9223372036854775808, c = -2.5e-09, d = "x\n\"\xff", e = [1,-2], f = [], g = -inf, h = 3.0, i = 3})");
}

TEST(TirText, OneHashServesConstantsOfSeveralTypes) {
  PrimFunc f = with_body(scoped({allocate_const(buffer("a", DType::F32, {32}), MutableArray(DType::F32, {32}).freeze()),
                                 allocate_const(buffer("b", DType::I8, {2, 64}), MutableArray(DType::I8, {2, 64}).freeze())}));
  round_trip(f);
}

TEST(TirText, EveryErrorOfAFunctionIsReported) {
  EXPECT_EQ(errors_of("  y[0] = z[0]\n"
                      "  for i = 0 extnt 4 {\n"
                      "    y[i] = q\n"
                      "  }\n"
                      "  alloc t: f33[4]\n"
                      "  t[0] = 1.0:f32\n"
                      "  y[1] = (x[0] + k[0])\n"
                      "  y[1, 2] = 1.0:f32"),
            "f.tenon:2:10: error: `z` is not declared here, expected the name of a buffer in scope  [undeclared-name]\n"
            "  2 |   y[0] = z[0]\n"
            "    |          ^\n"
            "  in function @f\n"
            "f.tenon:3:13: error: unexpected `extnt`, expected `extent`  [unexpected-token]\n"
            "  3 |   for i = 0 extnt 4 {\n"
            "    |             ^~~~~\n"
            "  in function @f\n"
            "f.tenon:6:12: error: unexpected `f33`, expected a dtype such as `f32`  [unexpected-token]\n"
            "  6 |   alloc t: f33[4]\n"
            "    |            ^~~\n"
            "  in function @f\n"
            "f.tenon:8:16: error: the sides of `+` are f32 and i32, expected one dtype  [dtype-mismatch]\n"
            "  8 |   y[1] = (x[0] + k[0])\n"
            "    |                ^\n"
            "  in function @f\n"
            "f.tenon:9:3: error: `y` has 2 indices, expected one for each of its 1 axes  [rank-mismatch]\n"
            "  9 |   y[1, 2] = 1.0:f32\n"
            "    |   ^\n"
            "  in function @f\n");
}

TEST(TirText, AnErrorInsideABlockDoesNotHideTheNext) {
  std::string text = errors_of(
      "  block b {\n"
      "    iter v: spatal 4 = 0\n"
      "    writes y[v]\n"
      "    body {\n"
      "      y[v] = missing\n"
      "      y[v] = true\n"
      "    }\n"
      "  }");
  EXPECT_NE(text.find("unexpected `spatal`, expected `spatial` or `reduce`"), std::string::npos) << text;
  EXPECT_NE(text.find("unexpected `]`, expected `:`"), std::string::npos) << text;
  EXPECT_NE(text.find("`missing` is not declared here"), std::string::npos) << text;
  EXPECT_NE(text.find("the value is bool, expected f32"), std::string::npos) << text;
}

TEST(TirText, NestingIsBoundedSoThatNoTextExhaustsTheStack) {
  auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), '{') + std::string(static_cast<size_t>(levels), '}');
  };
  PrimFunc deepest = parse_body(nested(kMaxNesting - 1));
  verify(deepest);
  round_trip(deepest);
  EXPECT_NE(errors_of(nested(kMaxNesting)).find("[nesting-too-deep]"), std::string::npos);
  EXPECT_NE(errors_of(nested(100000)).find("[nesting-too-deep]"), std::string::npos);
  EXPECT_NE(errors_of("y[0] = " + std::string(100000, '(')).find("[nesting-too-deep]"), std::string::npos);
  std::string calls = "y[0] = ";
  for (int i = 0; i < 100000; ++i) calls += "exp(";
  EXPECT_NE(errors_of(calls).find("[nesting-too-deep]"), std::string::npos);
  Expr e = load(buffer("y", DType::F32, {4}), {0});
  for (int i = 0; i < kMaxNesting; ++i) e = call(Intrinsic::Exp, {e});
  EXPECT_NE(compile_error([&] { verify(with_body(store_y(e))); }).find("[nesting-too-deep]"), std::string::npos);
}

TEST(TirText, TruncatedTextIsAnErrorAtEveryByte) {
  Expr i = var("i"), vi = var("vi");
  Buffer y = buffer("y", DType::F32, {4}), w = buffer("w", DType::F32, {2});
  PrimFunc f = with_body(scoped({allocate_const(w, array_of<float>(DType::F32, {2}, {1, 2})),
                                 for_loop(i, 0, 4, ForKind::Serial,
                                          block("b", {{vi, 4, IterKind::Spatial, i}}, {{w, {0}, {1}}}, {{y, {vi}, {1}}}, {},
                                                if_then(lt(vi, 3), store(y, {vi}, load(w, {0})))))}));
  f.attrs = {{"target", std::string("c")}};
  std::string text = print(f);
  for (size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_THROW(parse_prim_func("t", std::string_view(text).substr(0, size)), CompileError) << size;
}

TEST(TirVerify, FindsEveryBrokenRule) {
  auto code = [](const std::string& statements, const std::string& want) {
    std::string text = errors_of(statements);
    EXPECT_NE(text.find("[" + want + "]"), std::string::npos) << statements << "\n" << text;
  };
  code("x[0] = 1.0:f32", "read-only-buffer");
  code("allocate_const c: f32[1] = bytes \"00000000\"\nc[0] = 1.0:f32", "read-only-buffer");
  code("for i = 0 extent cast<i64>(k[0]) vectorized {\n}", "loop-extent");
  code("for i = 0 extent cast<i64>(k[0]) unrolled {\n}", "loop-extent");
  code("for i = 0 extent 2 {\nfor i = 0 extent 2 {\n}\n}", "duplicate-name");
  code("{\nalloc t: f32[2]\n}\nlet t: f32 = x[0]", "duplicate-name");
  code("alloc x: f32[2]", "duplicate-name");
  code("block b {\niter v: spatial 4 = 0\niter v: spatial 4 = 0\nbody {\n}\n}", "duplicate-name");
  code("block b {\nbody {\n}\n}\nblock b {\nbody {\n}\n}", "duplicate-name");
  code("block b {\nbody {\ny[0] = 1.0:f32\n}\n}", "undeclared-region");
  code("block b {\nreads y[0 : 1]\nbody {\ny[0] = 1.0:f32\n}\n}", "undeclared-region");
  code("block b {\nwrites y[0 : 1]\nbody {\ny[0] = x[0]\n}\n}", "undeclared-region");
  code("block b {\niter v: spatial 4 = v\nbody {\n}\n}", "undeclared-name");
  code("prefetch z[0]", "undeclared-name");
  code("prefetch x[0, 1]", "rank-mismatch");
  code("prefetch x[1.0:f32]", "dtype-mismatch");
  code("{\nlet t: f32 = x[0]\ny[0] = t\n}\ny[1] = t", "undeclared-name");
  code("alloc t: f32[-1]", "tensor-too-large");
  code("y[0] = select(true, 1.0:f32, 1:i32)", "dtype-mismatch");
  code("let t: bool = (true + false)", "dtype-mismatch");
  code("let t: f32 = (x[0] << x[1])", "dtype-mismatch");
  code("let t: i32 = exp(k[0])", "dtype-mismatch");
  code("let t: f32 = exp(x[0], x[1])", "argument-count");
  code("let t: f64 = reinterpret<f64>(x[0])", "dtype-mismatch");
  code("let t: u8 = 300:u8", "number-range");
  code("let inf: f32 = x[0]", "reserved-name");
  code("allocate_const c: f32[2] = bytes \"00\"", "constant-bytes");
  code("allocate_const c: f32[1] = bytes \"0000zz00\"", "constant-bytes");
  code("allocate_const c: bool[1] = bytes \"02\"", "constant-bytes");
  code("allocate_const c: f64[2305843009213693952] = bytes \"\"", "constant-bytes");
  code("allocate_const c: f32[4611686018427387904,4] = bytes \"\"", "tensor-too-large");
  code("allocate_const c: f32[100] = hash \"00\"", "unknown-constant");
}

TEST(TirVerify, ABlockMayUseWhatItDeclaresAndReadWhatItWrites) {
  EXPECT_NO_THROW(verify(parse_body(
      "block b {\nreads x[0 : 1]\nwrites y[0 : 4]\nbody {\nalloc t: f32[1] local\nt[0] = x[0]\ny[0] = (y[1] + t[0])\n}\n}")));
}

TEST(TirVerify, AVariablesNameMayReturnWhereItIsNotInScope) {
  EXPECT_NO_THROW(verify(parse_body("for i = 0 extent 2 {\nlet t: f32 = x[i]\n}\nfor i = 0 extent 2 {\nlet t: f32 = x[i]\n}")));
}

TEST(TirVerify, FindsWhatNoTextCanSay) {
  Buffer y = buffer("y", DType::F32, {4});
  EXPECT_NE(compile_error([&] {
              verify(with_body(store(buffer("y", DType::F32, {5}), {0}, imm(DType::F32, 1))));
            }).find("[buffer-mismatch]"),
            std::string::npos);
  EXPECT_NE(compile_error([&] { verify(with_body(store_y(load(y, {var("a b")})))); }).find("[undeclared-name]"),
            std::string::npos);
  EXPECT_NE(compile_error([&] { verify(with_body(allocate(buffer("a b", DType::F32, {})))); }).find("[reserved-name]"),
            std::string::npos);
  EXPECT_NE(compile_error([&] { verify(with_body({})); }).find("[missing-body]"), std::string::npos);
}

}  // namespace tenon::tir
