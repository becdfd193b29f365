// TUTTI_EXPORT marks the symbols that libtutti.so exports to C++ programs; all others are hidden.
#pragma once

#if defined(__GNUC__)
#define TUTTI_EXPORT __attribute__((visibility("default")))
#else
#define TUTTI_EXPORT
#endif
