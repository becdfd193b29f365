# Tests with processes that go on after one of them is killed. tests/process/CMakeLists.txt includes this file.
tutti_test(survivors_test SOURCES survivors_test.cpp LABELS process TIMEOUT 120)
