// Tests that the shape of a hierarchy is parsed from its name.
#include "runtime/hierarchy/hierarchy_shape.hpp"

#include <gtest/gtest.h>

namespace tutti::runtime {
namespace {

TEST(HierarchyShape, NameOfEachShape_isParsed_andOtherTextIsRefused) {
  for (const char* text : {"leaders", "leaders=3", "groups", "flat"}) {
    const auto shape = HierarchyShape::parse(text);
    ASSERT_TRUE(shape.ok()) << text;
    EXPECT_EQ(shape->text(), text);
  }
  EXPECT_EQ(HierarchyShape::parse("leaders=1")->text(), "leaders");
  for (const char* text : {"", "leader", "leaders=", "leaders=0", "leaders=-1", "leaders=2x",
                           "leaders=99999999999", "Groups", "flat "}) {
    EXPECT_FALSE(HierarchyShape::parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tutti::runtime
