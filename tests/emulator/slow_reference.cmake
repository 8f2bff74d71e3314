# Every instruction the decoder accepts against an independent, slow implementation.
set(slow_reference ${CMAKE_CURRENT_SOURCE_DIR}/slow_reference)
tw_add_test(emulator_slow_reference_test
  LABELS emulator
  TIMEOUT 900
  SOURCES
    ${slow_reference}/address_test.cpp
    ${slow_reference}/approximate.cpp
    ${slow_reference}/assembly.cpp
    ${slow_reference}/atomic.cpp
    ${slow_reference}/atomic_test.cpp
    ${slow_reference}/behaviour_test.cpp
    ${slow_reference}/bulk_test.cpp
    ${slow_reference}/compare.cpp
    ${slow_reference}/control_test.cpp
    ${slow_reference}/convert.cpp
    ${slow_reference}/copy_support.cpp
    ${slow_reference}/coverage_test.cpp
    ${slow_reference}/exact.cpp
    ${slow_reference}/float.cpp
    ${slow_reference}/integer.cpp
    ${slow_reference}/load_store_test.cpp
    ${slow_reference}/matrix.cpp
    ${slow_reference}/matrix_test.cpp
    ${slow_reference}/mbarrier_test.cpp
    ${slow_reference}/scalar_test.cpp
    ${slow_reference}/tensor_reference.cpp
    ${slow_reference}/tuples.cpp
    ${slow_reference}/values.cpp
    ${slow_reference}/warp_test.cpp
    ${slow_reference}/wgmma_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/machine_support.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx_form_text.cpp
  DEPENDS tw_emulator_machine)
target_compile_definitions(emulator_slow_reference_test
  PRIVATE TW_EMULATOR_TESTS="${PROJECT_SOURCE_DIR}/tests/emulator")

tw_add_test(emulator_slow_reference_fuzz_test
  LABELS emulator fuzz
  SOURCES
    ${slow_reference}/approximate.cpp
    ${slow_reference}/assembly.cpp
    ${slow_reference}/compare.cpp
    ${slow_reference}/convert.cpp
    ${slow_reference}/exact.cpp
    ${slow_reference}/float.cpp
    ${slow_reference}/fuzz_test.cpp
    ${slow_reference}/integer.cpp
    ${slow_reference}/program.cpp
    ${slow_reference}/tuples.cpp
    ${slow_reference}/values.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/machine_support.cpp
  DEPENDS tw_emulator_machine)
