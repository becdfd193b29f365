// The options of a group, which Python gives as names and values in text form.
#pragma once

#include <tutti/tutti.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tutti::torch_backend {

/// The text of each option; it outlives the communicator's creation, which reads it.
class Options {
 public:
  Options() = default;
  /// Throws if a name is unknown or a value is no number of its range.
  explicit Options(std::map<std::string, std::string> values);

  /// Options of a communicator; their texts belong to this object.
  tutti_comm_options_t communicator() const;
  /// Priority of all operations of the group, if one is given.
  std::optional<std::int32_t> priority() const { return priority_; }

 private:
  std::map<std::string, std::string> values_;  ///< all but the priority
  std::optional<std::int32_t> priority_;
};

}  // namespace tutti::torch_backend
