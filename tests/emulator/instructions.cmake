# The pure instruction semantics against slow references.
tw_add_test(emulator_instructions_test
  LABELS emulator smoke
  SOURCES
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_float_test.cpp
  DEPENDS tw_emulator_instructions)
# The float tests change the host's rounding mode and compare the results.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/instructions_float_test.cpp PROPERTIES
  COMPILE_OPTIONS -frounding-math)
