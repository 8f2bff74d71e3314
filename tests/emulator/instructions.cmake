# The pure instruction semantics against slow references.
tw_add_test(emulator_instructions_test
  LABELS emulator
  SOURCES
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_compare_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_convert_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_float16_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_float_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_integer_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_ldmatrix_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_mma_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/instructions_wgmma_test.cpp
  DEPENDS tw_emulator_instructions)
# The float tests change the host's rounding mode and compare the results.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/instructions_float_test.cpp PROPERTIES
  COMPILE_OPTIONS -frounding-math)
