// The options of a group, which Python gives as names and values in text form.
#pragma once

#include <tutti/tutti.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tutti::torch_backend {

/// The options of a group as texts. The object must outlive the creation of the communicator, which
/// reads these texts.
class Options {
 public:
  Options() = default;
  /// Throws if a name is unknown or a value is out of its range.
  explicit Options(std::map<std::string, std::string> values);

  /// The options for creating a communicator. They point to texts in this object.
  tutti_comm_options_t communicator() const;
  /// Priority of all operations of the group, if one is given.
  std::optional<std::int32_t> priority() const { return priority_; }

 private:
  /// Names and values of all options except the priority.
  std::map<std::string, std::string> values_;
  std::optional<std::int32_t> priority_;
};

}  // namespace tutti::torch_backend
