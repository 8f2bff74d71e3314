# The driver entry points, the stand-alone libcuda.so.1 and the example host program.
tw_add_test(emulator_driver_test
  LABELS emulator
  SOURCES
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_context_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_dependent_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_graph_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_hostile_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_launch_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_memory_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_module_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_occupancy_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_symbols_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_tensor_map_test.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/driver_threads_test.cpp
  DEPENDS tw_emulator)

tw_add_script_test(emulator_driver_lists
  LABELS emulator
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/emulator/driver/generate.py
    ${CudaHeaders_CUDA_DIR} --check)

tw_add_script_test(emulator_libcuda_exports
  LABELS emulator
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/emulator/driver_exports_test.py
    $<TARGET_FILE:tw_libcuda>)

# A plain Driver API program: it opens libcuda.so.1 by name, as it would on a machine with a GPU.
add_executable(emulated_driver ${PROJECT_SOURCE_DIR}/examples/emulated_driver.cpp)
target_link_libraries(emulated_driver PRIVATE tw_options CudaHeaders::CudaHeaders ${CMAKE_DL_LIBS})
tw_add_script_test(emulator_example_emulated_driver
  LABELS emulator
  COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/emulator/libcuda
    TILEWRIGHT_EMULATED_DEVICES=a100 $<TARGET_FILE:emulated_driver>)
tw_add_script_test(emulator_example_bad_environment
  LABELS emulator
  COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/emulator/libcuda
    TILEWRIGHT_EMULATED_DEVICES=h900 $<TARGET_FILE:emulated_driver>)
set_tests_properties(emulator_example_bad_environment PROPERTIES WILL_FAIL TRUE)
