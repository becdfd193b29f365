// Log messages from Tutti to the operator, by spdlog on the standard error stream.
#pragma once

#include <string_view>

namespace tutti::observe {

/// Logs an error that no caller receives as a status.
void complain(std::string_view sentence);

/// Logs that the job runs, but not as well as it could.
void warn(std::string_view sentence);

/// Logs a state that is not an error but that the operator may want to change.
void inform(std::string_view sentence);

}  // namespace tutti::observe
