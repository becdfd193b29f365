# The correctness matrix. acceptance/multicast/correctness runs all of it, this test a small part.
add_executable(matrix_program matrix_program.cpp)
target_link_libraries(matrix_program PRIVATE tutti_all)
add_test(NAME process.matrix_on_three_ranks
  COMMAND tutti run -n 3 -- $<TARGET_FILE:matrix_program> sweep 3)
add_test(NAME process.communicators_together
  COMMAND tutti run -n 3 -- $<TARGET_FILE:matrix_program> together 8)
set_tests_properties(process.matrix_on_three_ranks process.communicators_together PROPERTIES
  LABELS process TIMEOUT 120)
