// The only source of an object library that exists for its precompiled header, which all test
// programs reuse.
