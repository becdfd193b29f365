#include "version.hpp"

namespace tutti::app {

const char* version() { return TUTTI_VERSION; }

}  // namespace tutti::app
