// The type of the job key, for programs that set the key of each rank by
// CommunicatorOptions::job_key.
#pragma once

#include <array>
#include <cstddef>

#include "tutti/export.hpp"

namespace tutti {

/// A secret that only the ranks of a job have, by which they recognise each other. Draw its bytes
/// at random. Every copy is wiped when it is destroyed.
struct TUTTI_EXPORT JobKey {
  std::array<std::byte, 32> bytes{};

  ~JobKey();
};

}  // namespace tutti
