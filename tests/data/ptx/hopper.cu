// Source of hopper.ptx: ordinary CUDA for the tests of the PTX front end.
#include <cuda.h>
#include <cstdint>
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    hopper(const __grid_constant__ CUtensorMap map, float* out, int n) {
  extern __shared__ __align__(1024) unsigned char smem[];
  uint32_t base = (uint32_t)__cvta_generic_to_shared(smem), bar = base + 65536;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(1));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    uint32_t pred = 0;
    asm volatile("{ .reg .pred P1; .reg .b32 R; elect.sync R|P1, %1; @P1 mov.u32 %0, 1; }"
                 : "+r"(pred)
                 : "r"(0xffffffffu));
    if (pred) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(16384));
      for (int s = 0; s < 2; ++s)
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast:"
            ":cluster.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(base),
            "l"(&map), "r"(bar), "r"(0), "r"(64 * s), "h"((uint16_t)3), "l"(0x14F0000000000000ull)
            : "memory");
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    asm volatile(
        "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 "
        "bra DONE;\nbra LAB_WAIT;\nDONE:\n}" ::"r"(bar),
        "r"(0)
        : "memory");
    float d[8] = {};
    uint64_t desc = ((base & 0x3ffff) >> 4) | (1ull << 62);
    asm volatile("wgmma.fence.sync.aligned;");
    for (int k = 0; k < 4; ++k)
      asm volatile(
          "{ .reg .pred p; setp.ne.b32 p, %10, 0;\n "
          "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, "
          "p, 1, 1, 0, 0; }"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
            "+f"(d[7])
          : "l"(desc + 2 * k), "l"(desc + 512), "r"(k));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(bar + 8), "r"(1));
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote));
    uint32_t r[4] = {__float_as_uint(d[0]), 1, 2, 3};
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(base + 32768),
        "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(base));
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[0]), "r"(r[1]));
    asm volatile("fence.proxy.async.shared::cta; bar.sync 1, 256;" ::: "memory");
    if (threadIdx.x == 0) {
      asm volatile(
          "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
          "r"(base + 32768), "r"(0), "r"(n));
      asm volatile(
          "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 512;" ::"l"(out),
          "r"(base));
      asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    for (int k = 0; k < 8; ++k) out[threadIdx.x * 8 + k] = d[k];
  }
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
}
