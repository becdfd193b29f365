// The source of the program whose precompiled header all tests reuse.
