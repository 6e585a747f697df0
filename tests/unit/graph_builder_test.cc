// SPDX-License-Identifier: Apache-2.0
// The names of constants, and what a builder promises about the values it has built.
#include <gtest/gtest.h>

#include "op/ops.h"

namespace tenon::graph {
namespace {

Array number(int64_t value) { return array_of<int64_t>(DType::I64, {1}, {value}); }

// By the definition: a table that has never been asked looks at the entries one after the other.
TEST(ConstantTable, RemembersNoOtherNamesThanItWouldFind) {
  Module m;
  m.constants = {{"c", number(0)}, {"c_1", number(1)}, {"c_2", number(1)}, {"c_4", number(9)}, {"d_e", number(3)}};
  Module fresh = m;
  ConstantTable table(m);
  for (int64_t value : {5, 1, 0, 9, 9, 6, 5, 7, 8, 6})
    for (const char* hint : {"c", "d.e", "", "f"}) {
      std::string expected = add_constant(fresh, number(value), hint);
      EXPECT_EQ(table.add(number(value), hint)->first, expected) << hint << ' ' << value;
    }
  EXPECT_EQ(m.constants, fresh.constants);
  EXPECT_EQ(m.constants.at("c_3"), number(5));  // the first free number
  EXPECT_EQ(m.constants.at("d_e"), number(3));
  EXPECT_EQ(m.constants.at("d_e_1"), number(5));
}

TEST(ConstantTable, TellsApartWhatBeginsAlike) {
  Module m;
  ConstantTable table(m);
  std::vector<int64_t> values(2000);
  for (int64_t last : {1, 2, 3, 2, 1}) {
    values.back() = last;
    table.add(array_of<int64_t>(DType::I64, {2000}, values), "w");
    table.add(array_of<int64_t>(DType::I64, {2, 1000}, values), "w");
  }
  EXPECT_EQ(m.constants.size(), 6u);
}

TEST(Builder, TypesStayWhereTheyAre) {
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", TensorType::of(DType::F32, std::vector<int64_t>{2}));
  ValueId first = b.call1(op::relu, {x});
  const TensorType &of_param = b.type(x), &of_node = b.type(first);
  for (int i = 0; i < 1000; ++i) b.call1(op::relu, {first});
  EXPECT_EQ(&of_param, &b.type(x));
  EXPECT_EQ(&of_node, &b.type(first));
  EXPECT_EQ(b.definition(x), nullptr);
  EXPECT_EQ(b.definition(first)->op, &op::relu);
}

}  // namespace
}  // namespace tenon::graph
