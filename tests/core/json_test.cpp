#include "core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tilewright {
namespace {

TEST(Json, PrintsMembersInOrder) {
  Json json;
  json.set("zeta", 1).set("alpha", "a\"b\n").set("list", Json::array().push(true).push(nullptr));
  json.set("zeta", 0.1);
  EXPECT_EQ(json.dump(), R"({"zeta":0.1,"alpha":"a\"b\n","list":[true,null]})");
  EXPECT_EQ(Json::object({{"a", Json::array()}}).dump(true), "{\n  \"a\": []\n}");
}

TEST(Json, PrintsWhatJsonLacks) {
  EXPECT_EQ(Json(INFINITY).dump(), "null");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_TRUE(Json::parse(Json("\xff\xfe").dump()).ok());
  EXPECT_EQ(Json(~uint64_t{0}).dump(), "1.8446744073709552e+19");
}

TEST(Json, ReadsBackWhatItPrints) {
  const Json json = Json::object({{"bool", false},
                                  {"int", INT64_MIN},
                                  {"list", Json::array().push(1).push(2.5).push("x")},
                                  {"nested", Json::object({{"k", nullptr}})},
                                  {"real", 1e-300},
                                  {"text", "q \u00e9 \\ /"}});
  for (const bool indent : {false, true}) {
    const Result<Json> again = Json::parse(json.dump(indent));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, json);
  }
}

TEST(Json, FindsMembers) {
  const Result<Json> json = Json::parse(R"({"a": {"b": 3, "c": "text"}})");
  ASSERT_TRUE(json.ok());
  const Json* a = json->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(*a->find("b")->as_int(), 3);
  EXPECT_EQ(a->find("b")->as_double(), 3.0);
  EXPECT_EQ(*a->find("c")->as_string(), "text");
  EXPECT_EQ(a->find("d"), nullptr);
  EXPECT_EQ(a->find("b")->find("x"), nullptr);
  EXPECT_EQ(a->find("c")->as_int(), nullptr);
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{'a': 1}", "1 2", "nan", "\"\\x\""}) {
    EXPECT_FALSE(Json::parse(text).ok()) << text;
  }
  EXPECT_THAT(Json::parse(std::string(100000, '[')).error().message, testing::HasSubstr("deep"));
  EXPECT_TRUE(Json::parse('"' + std::string(1000, '[') + '"').ok());
}

}  // namespace
}  // namespace tilewright
