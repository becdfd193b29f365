// The version of this program.
#pragma once

namespace tutti::app {

/// "0.1.0".
const char* version();

}  // namespace tutti::app
