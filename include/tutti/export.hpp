// The mark of what libtutti.so exports to C++ programs; all other symbols are hidden.
#pragma once

#if defined(__GNUC__)
#define TUTTI_EXPORT __attribute__((visibility("default")))
#else
#define TUTTI_EXPORT
#endif
