// The header's JSON is read in the one form that the format has; every other value, at every
// place, is refused by what it is and where it stands.

#include "mp/files/safetensors_header.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mp/base/status.h"

namespace mp::files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string Refusal(absl::string_view json) {
  const auto header = ParseRawHeader(json);
  EXPECT_FALSE(header.ok()) << json;
  EXPECT_EQ(KindOf(header.status()), ErrorKind::kInvalidArgument) << header.status();
  return std::string(header.status().message());
}

std::string RefusalOf(absl::string_view tensor) {
  return Refusal(absl::StrCat("{\"w\":", tensor, "}"));
}

TEST(ParseRawHeader, ReadsTheForm) {
  const auto header = ParseRawHeader(
      R"({"__metadata__": {"a": "1", "b": ""},
          "x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
          "": {"data_offsets": [24, 25], "shape": [], "dtype": "U8"}}   )");
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_THAT(header->metadata, ElementsAre(Pair("a", "1"), Pair("b", "")));
  ASSERT_EQ(header->tensors.size(), 2);
  EXPECT_EQ(header->tensors[0].name, "x");
  EXPECT_EQ(header->tensors[0].dtype, "F32");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(header->tensors[0].offsets, ElementsAre(0, 24));
  EXPECT_EQ(header->tensors[1].name, "");
  EXPECT_THAT(header->tensors[1].shape, ElementsAre());
}

TEST(ParseRawHeader, IgnoresOtherKeysOfATensor) {
  const auto header = ParseRawHeader(
      R"({"w":{"x":{"dtype":[1,{"y":null}]},"dtype":"I8","y":[[true,1.5,-1,"s"]],"shape":[1],)"
      R"("data_offsets":[0,1],"z":2}})");
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors[0].dtype, "I8");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(1));
}

TEST(ParseRawHeader, RefusesIncompleteTensors) {
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[2]})"),
              HasSubstr(R"(tensor "w" has no data_offsets)"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","data_offsets":[0,8]})"), HasSubstr("has no shape"));
  EXPECT_THAT(RefusalOf(R"({"shape":[2],"data_offsets":[0,8]})"), HasSubstr("has no dtype"));
}

TEST(ParseRawHeader, RefusesOtherValues) {
  EXPECT_THAT(RefusalOf(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})"),
              HasSubstr(R"(has the number 7 as the dtype of tensor "w")"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
              HasSubstr("has the number -2 as the shape"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
              HasSubstr("the number 2.0 as the shape"));
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"),
              HasSubstr("beyond 2^63 - 1"));
  for (const char* value : {"null", "1", "-1", "1e3", "\"F32\"", "[]", "true"}) RefusalOf(value);
  for (const char* dtype : {"null", "[\"F32\"]", "{}", "true", "1.5"}) {
    RefusalOf(absl::StrCat(R"({"shape":[2],"data_offsets":[0,8],"dtype":)", dtype, "}"));
  }
  for (const char* shape : {"2", "null", "\"2\"", "{}", "[[2]]", "[{}]", "[\"2\"]", "[null]"}) {
    RefusalOf(absl::StrCat(R"({"dtype":"F32","data_offsets":[0,8],"shape":)", shape, "}"));
    RefusalOf(absl::StrCat(R"({"dtype":"F32","shape":[2],"data_offsets":)", shape, "}"));
  }
}

TEST(ParseRawHeader, RefusesRepetition) {
  EXPECT_THAT(RefusalOf(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
              HasSubstr(R"(the key "dtype" twice)"));
  const std::string w = R"("w":{"dtype":"I8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(Refusal(absl::StrCat("{", w, ",", w, "}")), HasSubstr(R"(the name "w" twice)"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":"1","a":"2"}})"),
              HasSubstr(R"(the metadata "a" twice)"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("twice"));
}

TEST(ParseRawHeader, RefusesOtherMetadata) {
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":1}})"),
              HasSubstr(R"(has the number 1 as the metadata "a")"));
  EXPECT_THAT(Refusal(R"({"__metadata__":"a"})"), HasSubstr("a string"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":{}}})"), HasSubstr("an object"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":[]}})"), HasSubstr("an array"));
  EXPECT_THAT(Refusal(R"({"__metadata__":[]})"), HasSubstr("an array"));
}

TEST(ParseRawHeader, RefusesWhatIsNoJson) {
  for (const char* json : {"", "{", "}", "{}{}", "{},", "{\"a\"}", "{'a':1}", "{\"a\":}",
                           "{\"\xff\":{}}", "{\"a\n\":{}}", "{\"\\ud800\":{}}", "NaN"}) {
    EXPECT_THAT(Refusal(json), HasSubstr("not valid JSON at byte")) << json;
  }
  for (const char* json : {"[]", "1", "\"a\"", "null"}) {
    EXPECT_THAT(Refusal(json), HasSubstr("as the whole of it"));
  }
}

TEST(ParseRawHeader, RefusesDepthWithoutAStack) {
  EXPECT_THAT(RefusalOf(absl::StrCat(R"({"x":)", std::string(100000, '['))),
              HasSubstr("nested too deeply"));
  std::string objects = "{\"x\":";
  for (int i = 0; i < 20000; ++i) objects += "{\"y\":";
  EXPECT_THAT(RefusalOf(objects), HasSubstr("nested too deeply"));
  EXPECT_THAT(Refusal(std::string(100000, '[')), HasSubstr("an array as the whole of it"));
}

TEST(ParseRawHeader, NamesInMessagesArePrintable) {
  EXPECT_THAT(Refusal(R"({"a\n\u0000\u001b[2J":{}})"), HasSubstr(R"(a\n\x00\x1b[2J)"));
}

}  // namespace
}  // namespace mp::files
