// The version of the program `tutti`.
#pragma once

namespace tutti::app {

/// The version of `tutti` as text, such as "0.1.0".
const char* version();

}  // namespace tutti::app
