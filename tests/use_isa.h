/* use_isa.h - for tests that run under each instruction set of the cpu. */
#ifndef CR_TEST_USE_ISA_H
#define CR_TEST_USE_ISA_H

#include "dev/cpu/cpu.h"

/* cr_cpu_use_isa.  The thread sanitizer makes kernels slow, and all sets start threads by the same code: under it there
 * is only the widest. */
static inline bool test_use_isa(int isa) {
#ifdef __SANITIZE_THREAD__
    static int widest = -1;
    if (widest < 0) widest = cr_cpu_isa();
    if (isa >= 0 && isa != widest) return false;
#endif
    return cr_cpu_use_isa(isa);
}

#endif
