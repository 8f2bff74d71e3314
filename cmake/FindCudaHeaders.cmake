# Finds cuda.h and nvrtc.h, the only parts of CUDA needed to build. Looks in CUDA_HEADERS_ROOT, the
# folder that tools/setup.sh fills from the PyPI wheels, then in an installed toolkit.
# Defines the target CudaHeaders::CudaHeaders.
find_path(CudaHeaders_CUDA_DIR cuda.h
  HINTS ${CUDA_HEADERS_ROOT} ENV CUDA_HOME ENV CUDA_PATH
  PATHS ${PROJECT_SOURCE_DIR}/build/cuda /usr/local/cuda
  PATH_SUFFIXES include)
find_path(CudaHeaders_NVRTC_DIR nvrtc.h
  HINTS ${CUDA_HEADERS_ROOT} ENV CUDA_HOME ENV CUDA_PATH
  PATHS ${PROJECT_SOURCE_DIR}/build/cuda /usr/local/cuda
  PATH_SUFFIXES include)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaHeaders
  REQUIRED_VARS CudaHeaders_CUDA_DIR CudaHeaders_NVRTC_DIR
  REASON_FAILURE_MESSAGE "run tools/setup.sh, or set CUDA_HEADERS_ROOT")

if(CudaHeaders_FOUND AND NOT TARGET CudaHeaders::CudaHeaders)
  add_library(CudaHeaders::CudaHeaders INTERFACE IMPORTED)
  target_include_directories(CudaHeaders::CudaHeaders SYSTEM INTERFACE
    ${CudaHeaders_CUDA_DIR} ${CudaHeaders_NVRTC_DIR})
endif()
