// What HTML and SVG that we write have in common.
#pragma once

#include <string>

namespace tutti::app {

/// Text with what HTML and SVG would take as their own replaced.
std::string escape(const std::string& text);

}  // namespace tutti::app
