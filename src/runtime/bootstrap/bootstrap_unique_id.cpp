#include "tutti/bootstrap.hpp"

#include "runtime/bootstrap/unique_id.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti {

Result<UniqueId> UniqueId::create(const std::string& host) {
  return runtime::guarded([&]() -> Result<UniqueId> {
    const auto made = runtime::make_unique_id(host);
    if (!made) return made.status();
    return UniqueId{*made};
  });
}

Result<UniqueId> UniqueId::parse(std::string_view printed) {
  return runtime::guarded([&]() -> Result<UniqueId> {
    const auto parsed = runtime::parse_unique_id(printed);
    if (!parsed) return parsed.status();
    return UniqueId{*parsed};
  });
}

void UniqueId::discard() const {
  runtime::logged([this] { runtime::discard_unique_id(text); });
}

}  // namespace tutti
