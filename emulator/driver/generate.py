#!/usr/bin/env python3
"""Writes the lists that tie the emulated driver to cuda.h: symbols.def (what is implemented, with
the CUDA version that introduced each name), unsupported.def (every other name), the per-thread
default stream's variants, and the error names. Usage: generate.py CUDA_INCLUDE_DIR [--check]."""

import pathlib
import re
import sys

# Implemented entry points by exported name; the _ptsz and _ptds variants follow by themselves.
IMPLEMENTED = """
cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString cuGetProcAddress cuGetProcAddress_v2
cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetAttribute cuDeviceTotalMem_v2
cuDeviceGetUuid cuDeviceGetUuid_v2 cuDeviceComputeCapability cuDeviceGetProperties
cuDeviceGetPCIBusId cuDeviceGetByPCIBusId cuDeviceGetLuid cuDeviceCanAccessPeer
cuDeviceGetP2PAttribute cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceSetMemPool
cuDeviceGetExecAffinitySupport
cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxGetState
cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy_v2 cuCtxPushCurrent_v2
cuCtxPopCurrent_v2 cuCtxSetCurrent cuCtxGetCurrent cuCtxGetDevice cuCtxGetDevice_v2
cuCtxSynchronize cuCtxSynchronize_v2 cuCtxGetLimit cuCtxSetLimit cuCtxGetApiVersion cuCtxGetFlags
cuCtxSetFlags cuCtxGetId cuCtxGetCacheConfig cuCtxSetCacheConfig cuCtxGetSharedMemConfig
cuCtxSetSharedMemConfig cuCtxGetStreamPriorityRange cuCtxResetPersistingL2Cache
cuCtxEnablePeerAccess cuCtxDisablePeerAccess
cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleUnload
cuModuleGetFunction cuModuleGetGlobal_v2 cuModuleGetLoadingMode cuModuleGetFunctionCount
cuModuleEnumerateFunctions
cuLibraryLoadData cuLibraryLoadFromFile cuLibraryUnload cuLibraryGetKernel cuLibraryGetModule
cuLibraryGetGlobal cuLibraryGetManaged cuLibraryGetKernelCount cuLibraryEnumerateKernels
cuKernelGetFunction cuKernelGetLibrary cuKernelGetName cuKernelGetAttribute cuKernelSetAttribute
cuKernelSetCacheConfig cuKernelGetParamInfo
cuFuncGetAttribute cuFuncSetAttribute cuFuncSetCacheConfig cuFuncSetSharedMemConfig
cuFuncGetModule cuFuncGetName cuFuncGetParamInfo cuFuncIsLoaded cuFuncLoad
cuMemAlloc_v2 cuMemFree_v2 cuMemAllocPitch_v2 cuMemAllocManaged cuMemAllocHost_v2 cuMemFreeHost
cuMemHostAlloc cuMemHostRegister_v2 cuMemHostUnregister cuMemHostGetDevicePointer_v2
cuMemHostGetFlags cuMemGetInfo_v2 cuMemGetAddressRange_v2 cuPointerGetAttribute
cuPointerGetAttributes cuPointerSetAttribute cuMemAdvise cuMemAdvise_v2 cuMemPrefetchAsync
cuMemPrefetchAsync_v2
cuMemcpy cuMemcpyAsync cuMemcpyPeer cuMemcpyPeerAsync cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2
cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoDAsync_v2 cuMemcpy2D_v2
cuMemcpy2DUnaligned_v2 cuMemcpy2DAsync_v2 cuMemcpy3D_v2 cuMemcpy3DAsync_v2
cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD32_v2 cuMemsetD2D8_v2 cuMemsetD2D16_v2 cuMemsetD2D32_v2
cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuMemsetD2D8Async cuMemsetD2D16Async
cuMemsetD2D32Async
cuMemAllocAsync cuMemFreeAsync cuMemAllocFromPoolAsync cuMemPoolCreate cuMemPoolDestroy
cuMemPoolGetAttribute cuMemPoolSetAttribute cuMemPoolTrimTo cuMemPoolSetAccess cuMemPoolGetAccess
cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery
cuStreamWaitEvent cuStreamGetPriority cuStreamGetFlags cuStreamGetId cuStreamGetCtx
cuStreamGetDevice cuStreamAddCallback cuStreamAttachMemAsync cuStreamGetAttribute
cuStreamSetAttribute cuStreamCopyAttributes cuStreamBeginCapture_v2 cuStreamEndCapture
cuStreamIsCapturing cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3
cuThreadExchangeStreamCaptureMode cuLaunchHostFunc
cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventRecordWithFlags cuEventQuery
cuEventSynchronize cuEventElapsedTime cuEventElapsedTime_v2
cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel
cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxPotentialClusterSize
cuOccupancyMaxActiveClusters
cuGraphCreate cuGraphDestroy cuGraphClone cuGraphInstantiateWithFlags cuGraphInstantiateWithParams
cuGraphLaunch cuGraphUpload cuGraphExecDestroy cuGraphExecGetFlags cuGraphGetNodes
cuGraphGetRootNodes cuGraphNodeGetType cuGraphDestroyNode cuGraphAddKernelNode_v2
cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddHostNode cuGraphAddEmptyNode
cuGraphAddDependencies cuGraphAddDependencies_v2 cuGraphNodeGetDependencies
cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetParams_v2 cuGraphExecKernelNodeSetParams_v2
cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphExecMemcpyNodeSetParams
cuGraphMemsetNodeGetParams cuGraphMemsetNodeSetParams cuGraphExecMemsetNodeSetParams
cuTensorMapEncodeTiled cuTensorMapReplaceAddress
""".split()

# Versions that cudaTypedefs.h does not carry under the exported name.
VERSIONS = {"cuGetProcAddress_v2": 12000, "cuCtxCreate_v2": 3020}


def read_header(folder, name):
    text = (folder / name).read_text(encoding="utf-8", errors="replace")
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def header_versions(folder):
    """{base name: ascending versions}, from the PFN_ typedefs."""
    found = {}
    pattern = r"PFN_(cu\w+?)_v(\d+)(?:_pt[sd][zs])?\)"
    for base, version in re.findall(pattern, read_header(folder, "cudaTypedefs.h")):
        found.setdefault(base, set()).add(int(version))
    return {base: sorted(versions) for base, versions in found.items()}


def version_of(name, versions, variant):
    if name in VERSIONS:
        return VERSIONS[name]
    base, _, number = re.fullmatch(r"(\w+?)(_v(\d+))?", name).groups()
    # 7000 marks the arrival of the per-thread variants, not a new version of the function.
    values = versions.get(base, [0])
    own = [v for v in values if not (v == 7000 and len(values) > 1 and values[0] < 7000)
           or base.startswith("cuDevicePrimary")]
    return max(own[min(int(number or 1) - 1, len(own) - 1)], 7000 if variant else 0)


def declarations(header):
    """{exported name: parameter list}; __CUDA_API_ macros applied as for per-thread streams."""
    renamed = {}
    for left, right in re.findall(r"#\s*define\s+(cu\w+)\s+([\w()]+)", header):
        macro = re.fullmatch(r"__CUDA_API_PT(DS|SZ)\((\w+)\)", right)
        renamed[left] = macro.group(2) + "_pt" + macro.group(1).lower() if macro else right
    main, internal = header.split("#if defined(__CUDA_API_VERSION_INTERNAL)\n    #undef", 1)
    found = {}
    pattern = r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*?)\)\s*;"
    for name, parameters in re.findall(pattern, main):
        found.setdefault(renamed.get(name, name), parameters)
    for name, parameters in re.findall(pattern, internal):
        found.setdefault(name, parameters)
    for name in [n for n in found if re.search(r"_pt[ds][sz]$", n)]:
        found.setdefault(re.sub(r"_pt[ds][sz]$", "", name), found[name])
    return found


def variant_of(name, declared):
    return next((name + end for end in ("_ptsz", "_ptds") if name + end in declared), None)


def wrapper(name, variant, parameters):
    """One forwarding function: a null stream means the thread's own."""
    pieces = [" ".join(p.split()) for p in re.sub(r"//.*", "", parameters).split(",")]
    arguments = []
    for piece in pieces:
        argument = re.search(r"(\w+)(\[\])?$", piece).group(1)
        if piece.startswith(("CUstream ", "const CUlaunchConfig ")):
            argument = f"per_thread({argument})"
        arguments.append(argument)
    return (f"CUresult {variant}({', '.join(pieces)}) {{\n"
            f"  return driver::{name}({', '.join(arguments)});\n}}\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    here = pathlib.Path(__file__).resolve().parent
    header = read_header(folder, "cuda.h")
    declared = declarations(header)
    versions = header_versions(folder)
    missing = [name for name in IMPLEMENTED if name not in declared]
    if missing:
        sys.exit(f"not in cuda.h: {missing}")

    rows, wrappers, claimed = [], [], set()
    for name in IMPLEMENTED:
        variant = variant_of(name, declared)
        claimed.update({name, variant})
        rows.append(f"TW_SYMBOL({name}, {version_of(name, versions, False)})\n")
        if variant:
            rows.append(f"TW_SYMBOL({variant}, {version_of(name, versions, True)})\n")
            wrappers.append(wrapper(name, variant, declared[variant]))
    others = sorted(name for name in declared if name not in claimed)
    errors = re.findall(r"^\s*(CUDA_(?:SUCCESS|ERROR_\w+))\s*=\s*\d+", header, flags=re.M)
    note = "// Written by emulator/driver/generate.py from cuda.h; do not edit.\n"
    outputs = {
        "symbols.def": note + "".join(sorted(rows)),
        "unsupported.def": note + "".join(f"TW_UNSUPPORTED({name})\n" for name in others),
        "per_thread_stream.inc": note + "// clang-format off\n" + "\n".join(wrappers),
        "error_names.def": note + "".join(f"TW_ERROR({name})\n" for name in errors),
    }
    stale = False
    for name, text in outputs.items():
        path = here / name
        if "--check" in sys.argv:
            stale |= not path.exists() or path.read_text() != text
        else:
            path.write_text(text)
    sys.exit("the lists are stale: run emulator/driver/generate.py" if stale else 0)


main()
