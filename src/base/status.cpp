#include "tutti/status.hpp"

namespace tutti {

const char* to_string(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::unsupported:
      return "unsupported";
    case Code::resource_exhausted:
      return "resource_exhausted";
    case Code::timeout:
      return "timeout";
    case Code::peer_failed:
      return "peer_failed";
    case Code::aborted:
      return "aborted";
    case Code::system:
      return "system";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(tutti::to_string(code_)) + ": " + message_;
}

}  // namespace tutti
