# The PTX front end: syntax, forms, errors, control flow, liveness, and mutated texts.
tw_add_test(emulator_ptx_test
  LABELS emulator unit
  SOURCES
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_control_flow_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_errors_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_form_text.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_forms_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_function_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_liveness_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_module_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_operand_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_real_test.cpp
  DEPENDS tw_emulator_ptx)
target_compile_definitions(emulator_ptx_test
  PRIVATE TW_PTX_DATA="${PROJECT_SOURCE_DIR}/tests/data/ptx")

tw_add_test(emulator_ptx_fuzz_test
  LABELS emulator fuzz
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/ptx_fuzz_test.cpp
  DEPENDS tw_emulator_ptx)
target_compile_definitions(emulator_ptx_fuzz_test
  PRIVATE TW_PTX_DATA="${PROJECT_SOURCE_DIR}/tests/data/ptx")
