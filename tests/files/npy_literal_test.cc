// The dictionary is read in every form that Python may write it in, and in no other.

#include "mp/files/npy_literal.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mp/base/status.h"

namespace mp::files {
namespace {

std::string Refusal(absl::string_view text) {
  const auto literal = ParseNpyLiteral(text);
  EXPECT_FALSE(literal.ok()) << text;
  EXPECT_EQ(KindOf(literal.status()), ErrorKind::kInvalidArgument) << literal.status();
  return std::string(literal.status().message());
}

TEST(ParseNpyLiteral, EveryForm) {
  for (const char* text : {
           "{'descr':'<i2','fortran_order':True,'shape':(2,3)}",
           " {'shape' : ( 2 , 3, ) , 'fortran_order' : True , 'descr' : '<i2' , }  \n",
           "{\"shape\":\t(2L, 3L),\n\"descr\": \"<i2\", \"fortran_order\": True}\r\n",
       }) {
    const auto literal = ParseNpyLiteral(text);
    ASSERT_TRUE(literal.ok()) << literal.status();
    EXPECT_EQ(literal->descr, "<i2");
    EXPECT_TRUE(literal->fortran_order);
    EXPECT_EQ(literal->shape, (std::vector<int64_t>{2, 3}));
  }
}

TEST(ParseNpyLiteral, EveryShape) {
  const auto shape = [](absl::string_view text) {
    return ParseNpyLiteral(
               absl::StrCat("{'descr': '', 'fortran_order': False, 'shape': ", text, "}"))
        ->shape;
  };
  EXPECT_EQ(shape("()"), (std::vector<int64_t>{}));
  EXPECT_EQ(shape("(5,)"), (std::vector<int64_t>{5}));
  EXPECT_EQ(shape("(0,1,10)"), (std::vector<int64_t>{0, 1, 10}));
  EXPECT_EQ(shape("(9223372036854775807,)"), (std::vector<int64_t>{INT64_MAX}));
}

TEST(ParseNpyLiteral, Refuses) {
  const std::string rest = "'fortran_order': False, 'shape': (6,)}";
  EXPECT_EQ(Refusal("{" + rest), "the header has no 'descr'");
  EXPECT_EQ(Refusal("{'descr': '<f4', 'shape': (6,)}"), "the header has no 'fortran_order'");
  EXPECT_EQ(Refusal("{'descr': '<f4', 'fortran_order': False}"), "the header has no 'shape'");
  EXPECT_EQ(Refusal("{'descr': '<f4', 'descr': '<f4', " + rest), "the header has 'descr' twice");
  EXPECT_EQ(Refusal("{'descr': '<f4', 'extra': 1, " + rest),
            "the header has the unknown key 'extra'");
  EXPECT_EQ(Refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (6)}"),
            "'shape' is (6), which is no tuple");
  for (const char* shape : {"(,)", "(6,,)", "(6 1)", "(-6,)", "(+6,)", "(06,)", "(6.0,)", "(0x6,)",
                            "[6]", "6", "(6,", "(", "", "(6,) x", "(six,)", "((6,))"}) {
    Refusal(absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, "}"));
  }
  for (const char* order : {"0", "false", "None", "'False'", ""}) {
    Refusal(absl::StrCat("{'descr': '<f4', 'fortran_order': ", order, ", 'shape': (6,)}"));
  }
  for (const char* header : {"", " ", "{", "}", "{}", "{,}", "[]", "{'descr'}", "{descr: '<f4'}",
                             "{'descr': '<f4}", "{'descr': '\\x3cf4', "}) {
    Refusal(header);
  }
  Refusal("{'descr': '<f4', " + rest + "}");
  Refusal("{'descr': '<f4', " + rest + std::string(1, '\0'));
}

}  // namespace
}  // namespace mp::files
