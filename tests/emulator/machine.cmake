tw_add_test(emulator_machine_test
  LABELS emulator
  SOURCES
    machine_async_test.cpp
    machine_control_test.cpp
    machine_fault_test.cpp
    machine_bulk_test.cpp
    machine_cluster_test.cpp
    machine_forms_test.cpp
    machine_mbarrier_test.cpp
    machine_memory_test.cpp
    machine_overlap_test.cpp
    machine_registers_test.cpp
    machine_support.cpp
    machine_tensormap_test.cpp
    machine_wgmma_test.cpp
    machine_determinism_test.cpp
    ptx_form_text.cpp
  DEPENDS tw_emulator_machine)

tw_add_test(emulator_observed_test
  LABELS emulator
  SOURCES
    machine_support.cpp
    observed_async_programs.cpp
    observed_control_programs.cpp
    observed_memory_programs.cpp
    observed_programs_test.cpp
    observed_proxy_programs.cpp
    observed_race_programs.cpp
    observed_wgmma_programs.cpp
  DEPENDS tw_emulator_machine)
