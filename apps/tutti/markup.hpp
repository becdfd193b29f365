// Escapes text for HTML and SVG.
#pragma once

#include <string>

namespace tutti::app {

/// Replaces the characters that have a meaning in HTML and SVG by entities.
std::string escape(const std::string& text);

}  // namespace tutti::app
