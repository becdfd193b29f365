#include "runtime/hierarchy/hierarchy_shape.hpp"

#include "base/error.hpp"
#include "base/number.hpp"
#include "runtime/communicator/option_lookup.hpp"

namespace tutti::runtime {

Result<HierarchyShape> HierarchyShape::parse(std::string_view text) {
  constexpr std::string_view kLeaders = "leaders=";
  if (text == "flat") return HierarchyShape{.flat = true};
  if (text == "groups") return HierarchyShape{.groups = true};
  if (text == "leaders") return HierarchyShape{};
  if (text.starts_with(kLeaders)) {
    text.remove_prefix(kLeaders.size());
    const auto leaders = whole_number<std::uint32_t>(text);
    if (leaders.value_or(0) > 0) return HierarchyShape{.leaders_per_host = *leaders};
  }
  return failure(Code::invalid_argument,
                 "the hierarchy must be 'leaders', 'leaders=N', 'groups' or 'flat'");
}

std::string HierarchyShape::text() const {
  if (flat) return "flat";
  if (groups) return "groups";
  return leaders_per_host == 1 ? "leaders" : fmt::format("leaders={}", leaders_per_host);
}

Result<HierarchyShape> HierarchyShape::wanted(const CommunicatorOptions& options) {
  std::string source;
  const std::string text =
      asked_for(options.hierarchy, "the option hierarchy", "TUTTI_HIERARCHY", source);
  if (text.empty()) return HierarchyShape{};
  auto shape = parse(text);
  if (shape) return shape;
  return failure(shape.status().code(), "{} is \"{}\": {}", source, text, shape.status().message());
}

}  // namespace tutti::runtime
