// Which files make up a kernel, and that the embedded ones are complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "generator/generator.h"
#include "generator/include_closure.h"
#include "templates/embedded.h"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Files = std::map<std::string, std::string, std::less<>>;

TemplateLookup lookup_in(const Files& files) {
  return [&files](std::string_view path) -> std::optional<std::string_view> {
    const auto found = files.find(path);
    if (found == files.end()) return std::nullopt;
    return found->second;
  };
}

std::vector<std::string> paths(const Files& files, const char* root) {
  const auto closure = include_closure(root, lookup_in(files));
  EXPECT_TRUE(closure.ok()) << closure.error().message;
  std::vector<std::string> result;
  for (const auto& [path, text] : *closure) {
    EXPECT_EQ(text, files.at(path));
    result.push_back(path);
  }
  return result;
}

TEST(IncludeClosure, IsTransitiveSortedAndBounded) {
  const Files files = {{"a/root.cuh", "#pragma once\n#include \"b/x.cuh\"\n  #  include \"c.h\"\n"},
                       {"b/x.cuh", "#include \"c.h\"\r\n#include \"a/root.cuh\"\n"},
                       {"c.h", "// #include \"gone.h\"\nint includes;\n"},
                       {"other.cuh", "#include \"c.h\"\n"}};
  EXPECT_THAT(paths(files, "a/root.cuh"), ElementsAre("a/root.cuh", "b/x.cuh", "c.h"));
  EXPECT_THAT(paths(files, "c.h"), ElementsAre("c.h"));
}

TEST(IncludeClosure, NamesWhatIsMissing) {
  const Files files = {{"root.cuh", "#include \"gone.h\""}};
  const auto closure = include_closure("root.cuh", lookup_in(files));
  ASSERT_FALSE(closure.ok());
  EXPECT_EQ(closure.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(closure.error().message, HasSubstr("'gone.h', included by root.cuh"));
}

std::optional<std::string_view> embedded(std::string_view path) {
  for (const EmbeddedFile& file : embedded_templates()) {
    if (file.path == path) return file.text();
  }
  return std::nullopt;
}

TEST(EmbeddedTemplates, HoldEveryKernelWhole) {
  const auto problem = Problem::parse("qk64 v64");
  ASSERT_TRUE(problem.ok());
  const KernelSource source =
      emit(*problem, candidates(*problem, *arch_from_target("sm_80")).at(0));
  const auto closure = include_closure(source.template_path, embedded);
  ASSERT_TRUE(closure.ok()) << closure.error().message;
  EXPECT_TRUE(closure->contains("attention/config/forward_sm80.h"));
  EXPECT_TRUE(closure->contains("ptx/mma.cuh"));
  for (const auto& [path, text] : *closure) {
    EXPECT_NE(text.find("#pragma once"), std::string_view::npos) << path;
    EXPECT_TRUE(text.ends_with('\n')) << path;
  }
}

TEST(EmbeddedTemplates, AreSortedAndIncludeNothingOfTheToolkit) {
  const auto files = embedded_templates();
  EXPECT_TRUE(std::is_sorted(files.begin(), files.end(),
                             [](const auto& a, const auto& b) { return a.path < b.path; }));
  for (const EmbeddedFile& file : files) {
    EXPECT_EQ(file.text().find("#include <"), std::string_view::npos) << file.path;
  }
}

}  // namespace
}  // namespace tilewright
