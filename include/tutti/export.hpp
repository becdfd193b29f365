// TUTTI_EXPORT marks the C++ classes and functions that libtutti.so exports; all other C++ symbols
// are hidden.
#pragma once

#if defined(__GNUC__)
#define TUTTI_EXPORT __attribute__((visibility("default")))
#else
#define TUTTI_EXPORT
#endif
