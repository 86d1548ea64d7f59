// Shows where JSON begins to be nested too deeply, and that what stands in a string is no nesting.
#include "mp/model/text/json_nesting.h"

#include <gtest/gtest.h>

#include <string>

namespace mp::model {
namespace {

std::string Nested(int depth, const std::string& open, const std::string& close) {
  std::string json;
  for (int i = 0; i < depth; ++i) json += open;
  json += "1";
  for (int i = 0; i < depth; ++i) json += close;
  return json;
}

TEST(JsonNesting, HasALimit) {
  EXPECT_FALSE(NestsTooDeeply(Nested(kDeepestJson, "[", "]")));
  EXPECT_TRUE(NestsTooDeeply(Nested(kDeepestJson + 1, "[", "]")));
  EXPECT_FALSE(NestsTooDeeply(Nested(kDeepestJson / 2, "{\"a\": [", "]}")));
  EXPECT_TRUE(NestsTooDeeply(Nested(kDeepestJson / 2 + 1, "{\"a\": [", "]}")));
}

TEST(JsonNesting, SideBySideIsNone) {
  std::string json = "[0";
  for (int i = 0; i < 1000; ++i) json += ", [], {\"a\": [1]}";
  EXPECT_FALSE(NestsTooDeeply(json + "]"));
}

TEST(JsonNesting, StringsAreNone) {
  const std::string open(1000, '[');
  EXPECT_FALSE(NestsTooDeeply("{\"" + open + "\": \"" + open + "\"}"));
  EXPECT_FALSE(NestsTooDeeply(R"(["a\"[[", "\\"])" + std::string()));
  EXPECT_FALSE(NestsTooDeeply("[\"\\\"" + open + "\"]"));
  EXPECT_TRUE(NestsTooDeeply("[\"\\\\\", " + Nested(kDeepestJson, "[", "]") + "]"));
}

}  // namespace
}  // namespace mp::model
