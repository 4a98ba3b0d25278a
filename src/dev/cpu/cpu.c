/* cpu.c - the device `cpu`: what the processor can do, and the table of kernels. */
#include "attention.h"
#include "conv.h"
#include "isa.h"
#include "linear_packed.h"
#include "product.h"
#include "windows.h"
#include "winograd.h"
#include "../../core/config.h"

#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- the instruction set */
#define TABLE(where, table) CR_IF_##where(&(table) +) 0             /* NULL where kernels.def leaves its kernels out */
#define KERNELS(n) \
    {n, &cr_blocks_v##n, &cr_casts_v##n, &cr_reducers_v##n, &cr_rows_v##n, &cr_randoms_v##n, &cr_orders_v##n, \
        &cr_integers_v##n, &cr_conversions_v##n, \
     &cr_products_v##n, &cr_attentions_v##n, TABLE(N, cr_windows_v##n), TABLE(N, cr_convs_v##n), \
     TABLE(N, cr_winograds_v##n), TABLE(L, cr_packeds_v##n), TABLE(N, cr_factors_v##n)}

#if defined(__x86_64__)
static const struct cr_isa_kernels built[] = {KERNELS(4), KERNELS(3), KERNELS(2)};

/* CPUID's leaves 1 (ecx) and 7 (ebx, ecx; eax of its second part), without vectors that the system does not save
 * (XCR0).  Zig's __builtin_cpu_supports answers no to everything. */
static struct { unsigned basic, wide, more, pairs; } features;

__attribute__((constructor)) static void ask_processor(void) {
    unsigned a = 0, b = 0, c = 0, d = 0, saved = 0;
    if (!__get_cpuid(1, &a, &b, &features.basic, &d)) return;
    if (features.basic & bit_OSXSAVE) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    if ((saved & 0x06) != 0x06) {
        features.basic &= ~(unsigned)bit_AVX;
        return;
    }
    if (!__get_cpuid_count(7, 0, &a, &features.wide, &features.more, &d)) return;
    if ((saved & 0xe6) != 0xe6) features.wide &= ~(unsigned)bit_AVX512F;
    else if (a >= 1) __cpuid_count(7, 1, features.pairs, b, c, d);
}

static bool all_in(unsigned flags, unsigned needed) { return (flags & needed) == needed; }

static bool processor_has(int isa) {
    const bool v2 = all_in(features.basic, bit_SSSE3 | bit_SSE4_2 | bit_POPCNT);
    const bool v3 = v2 && all_in(features.basic, bit_AVX | bit_FMA | bit_F16C) &&
                    all_in(features.wide, bit_AVX2 | bit_BMI | bit_BMI2);
    const bool v4 = v3 && all_in(features.wide, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ |
                                                    (unsigned)bit_AVX512VL);
    return isa == 4 ? v4 : isa == 3 ? v3 : v2;
}
#else
static const struct cr_isa_kernels built[] = {KERNELS(0)};
static bool processor_has(int isa) { return isa == 0; }
#endif
enum { BUILT = sizeof built / sizeof *built };

const struct cr_isa_kernels *cr_cpu_vec_for(int isa) {
    for (int i = 0; i < BUILT; i++)
        if (built[i].isa == isa && processor_has(isa)) return &built[i];
    return NULL;
}

/* CHAINRULE_ISA: 2, 3 or 4 from "v2", "v3", "v4"; 4 when it is not set, 0 when it says something else. */
static int isa_in(const char *s) {
    if (!s) return 4;
    return s[0] == 'v' && s[1] >= '2' && s[1] <= '4' && !s[2] ? s[1] - '0' : 0;
}

static int isa_wanted(void) { return isa_in(cr_config("ISA")); }

static const struct cr_isa_kernels *choose(void) {
    int most = isa_wanted();
    for (int i = 0; i < BUILT; i++)
        if ((built[i].isa <= most || !most) && processor_has(built[i].isa)) return &built[i];
    return NULL;
}

static _Atomic(const struct cr_isa_kernels *) chosen;
static atomic_bool fixed_by_test;                   /* cr_cpu_use_isa chose */

/* Threads that call this for the first time at once all choose the same table. */
const struct cr_isa_kernels *cr_cpu_vec(void) {
    const struct cr_isa_kernels *k = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!k) atomic_store_explicit(&chosen, k = choose(), memory_order_release);
    return k;
}

static cr_status check_isa(const char *text) {
    if (!isa_in(text)) return cr_fail(CR_BAD_VALUE, "switch_set", "CHAINRULE_ISA is v2, v3 or v4, not '%.60s'", text);
    if (atomic_load(&chosen))
        return cr_fail(CR_RUNTIME, "switch_set", "CHAINRULE_ISA is set too late: the cpu device is already in use");
    return CR_OK;
}
__attribute__((constructor)) static void own_switch(void) { cr_switch_owner("ISA", check_isa, NULL); }

bool cr_cpu_use_isa(int isa) {
    const struct cr_isa_kernels *k = isa < 0 ? choose() : cr_cpu_vec_for(isa);
    if (!k) return false;
    atomic_store(&chosen, k);
    atomic_store(&fixed_by_test, isa >= 0);
    return true;
}

int cr_cpu_isa(void) {
    const struct cr_isa_kernels *k = cr_cpu_vec();
    return k ? k->isa : -1;
}

#if defined(__x86_64__)
/* Beyond v4, unless a level was chosen. */
static bool may_use_more(void) { return cr_cpu_isa() == 4 && !cr_config("ISA") && !atomic_load(&fixed_by_test); }
bool cr_cpu_bf16(void)  { return may_use_more() && features.pairs & bit_AVX512BF16; }
bool cr_cpu_bytes(void) { return may_use_more() && all_in(features.more, bit_AVX512VNNI | bit_AVX512VBMI); }
#else
bool cr_cpu_bf16(void)  { return false; }
bool cr_cpu_bytes(void) { return false; }
#endif

static const char *info(const cr_device *d) {
    (void)d;
    static _Thread_local char line[240];
    int isa = cr_cpu_isa(), threads = cr_num_threads();
    const char *ignored = !isa_wanted()                                       ? " (CHAINRULE_ISA is not v2, v3 or v4)"
                          : isa > 0 && cr_config("ISA") && isa < isa_wanted() ? " (CHAINRULE_ISA asks for more)"
                                                                              : "";
    char name[32] = "plain C";
    if (isa) snprintf(name, sizeof name, "x86-64-v%d%s", isa, cr_cpu_bf16() ? " with bf16" : "");
    snprintf(line, sizeof line, "%s%s, %d thread%s, %s", name, ignored, threads, threads == 1 ? "" : "s",
             cr_cpu_engine_info());
    return line;
}

/* ---- the device */
/* In pieces, between which it may be interrupted. */
static cr_status copy_bytes(char *to, const char *from, size_t bytes) {
    const size_t piece = (size_t)64 << 20;
    for (; bytes > piece; to += piece, from += piece, bytes -= piece) {
        memcpy(to, from, piece);
        cr_status stop = cr_check_interrupt("copy");
        if (stop != CR_OK) return stop;
    }
    if (bytes) memcpy(to, from, bytes);
    return CR_OK;
}

static cr_status upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    (void)d;
    return copy_bytes((char *)dst->data + at, src, bytes);
}

static cr_status download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes) {
    (void)d;
    return copy_bytes(dst, (const char *)src->data + at, bytes);
}

/* kernels have finished when they return */
static cr_status synchronize(const cr_device *d) { (void)d; return CR_OK; }

#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##cpu(CR_WATCHED(cr_cpu_, name))
#include "../kernels.def"
static const cr_kernels kernels = {
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##cpu(CR_ENTRY(name))
#include "../kernels.def"
    .update_keeps_bits = cr_cpu_update_keeps_bits,
    .can_fuse = true,
};

const cr_device cr_device_cpu = {
    .name = "cpu",
    .type = "cpu",
    .kernels = &kernels,
    .allocate = cr_cpu_allocate,
    .upload = upload,
    .download = download,
    .synchronize = synchronize,
    .info = info,
    .memory = cr_cpu_memory,
    .reset_peak = cr_cpu_reset_peak,
    .empty_cache = cr_cpu_empty_cache,
    .host = true,
};
