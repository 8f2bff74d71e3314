# How targets are made here: one library per folder, one test program per subject.

add_library(tw_options INTERFACE)
target_compile_features(tw_options INTERFACE cxx_std_20)
target_include_directories(tw_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  # Configs and parameters are shared with device code, whose includes are paths from templates/.
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/templates>)
target_compile_options(tw_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Werror=unused-result
  -ffp-contract=off  # every product and every sum is rounded, on every machine
  -fno-trapping-math -fno-math-errno  # nobody asks for floating-point exceptions, or for errno after a function of <cmath>
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=  # reports name files from the root of the tree
  $<$<BOOL:${TW_WERROR}>:-Werror>)

# tw_add_library(core SOURCES a.cpp … [DEPENDS tw_x …] [PRIVATE_DEPENDS …])
# Makes the static library tw_<name>.
function(tw_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(tw_${name} STATIC ${arg_SOURCES})
  target_link_libraries(tw_${name} PUBLIC tw_options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
endfunction()

# What takes time when a test runs is in the libraries; what takes time in a test itself is to compile it.
# At -O1 GCC 12 takes the addition of strings for copies beyond their end (its PR 105651).
set(TW_TEST_OPTIONS $<$<CONFIG:Release>:-O1>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>)

# tw_add_test(name LABELS unit [smoke …] SOURCES a_test.cpp … DEPENDS tw_x … [TIMEOUT seconds])
# A GoogleTest program <name> whose cases are discovered when ctest runs, never at build time.
function(tw_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES;DEPENDS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE tw_options ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${TW_TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM tw_test_headers)
  include(GoogleTest)
  # One joined label, "kernels-fuzz": the discovery script flattens lists, and ctest matches labels
  # as regular expressions, so that -L kernels and -L fuzz both find it.
  string(REPLACE ";" "-" labels "${arg_LABELS}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# tw_add_script_test(name LABELS lint COMMAND …): a script run as one test.
function(tw_add_script_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;COMMAND" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
