/* config.c - every run-time switch: read from the environment as CHAINRULE_<name>, or set in the
 * process by cr_switch_set. */
#include "config.h"
#include <stdatomic.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct value { struct value *before; char text[]; } value;
static _Atomic(value *) kept;                       /* every value that was ever set: another thread may be reading
                                                     * it */

static struct {
    const char *name, *doc;
    cr_switch_check check;
    void (*changed)(void);
    _Atomic(value *) set;
} switches[] = {
    {.name = "CHAINRULE_DEVICE", .doc = "the default device: auto, cpu, ref, gpu, cuda:0, webgpu:0..."},
    {.name = "CHAINRULE_NUM_THREADS", .doc = "number of threads, at least 1; default: the processors of this process"},
    {.name = "CHAINRULE_ISA",
     .doc = "instruction set of the cpu device, at most what the processor has: v2, v3 or v4 (x86-64 levels)"},
    {.name = "CHAINRULE_ONEDNN", .doc = "path of libdnnl.so.3, or off: uses built-in matrix products only"},
    {.name = "CHAINRULE_LAPACK",
     .doc = "path of a LAPACK library, or off: eigenvalues and SVD of more than 64 columns by built-in code"},
    {.name = "CHAINRULE_WGPU", .doc = "path of libwgpu_native.so, or off: disables WebGPU"},
    {.name = "CHAINRULE_CUDA", .doc = "path of libcuda.so.1, or off: disables CUDA"},
    {.name = "CHAINRULE_NVRTC",
     .doc = "path of libnvrtc.so.13, or off: disables CUDA (kernels cannot be compiled without NVRTC)"},
    {.name = "CHAINRULE_CUBLASLT",
     .doc = "path of libcublasLt.so.13, or off: uses the built-in matrix product on CUDA"},
    {.name = "CHAINRULE_CUSOLVER",
     .doc = "path of libcusolver.so.12, or off: factors of large matrices on CUDA are computed on the host"},
    {.name = "CHAINRULE_CUDA_HOPPER",
     .doc = "off: attention on compute capability 9.0 does not use TMA and wgmma"},
    {.name = "CHAINRULE_NCCL", .doc = "path of libnccl.so.2, or off: disables multi-GPU communication"},
    {.name = "CHAINRULE_CACHE",
     .doc = "folder for compiled CUDA kernels and fused loops, or off; default: ~/.cache/chainrule"},
    {.name = "CHAINRULE_CC", .doc = "C compiler for the fused loops of plans, or off; default: cc"},
    {.name = "CHAINRULE_PCRE2",
     .doc = "path of libpcre2-8.so.0, which runs the regular expressions of tokenizers"},
    {.name = "CHAINRULE_MPI",
     .doc = "path of an MPI library, or off: disables communication between processes of mpirun"},
    {.name = "CHAINRULE_PATIENCE",
     .doc = "seconds after which a silent process of mpirun counts as lost and the others stop (8); off: never"},
    {.name = "CHAINRULE_GPU_MEMORY",
     .doc = "memory limit of one GPU in MiB, tensors and cache; default: all of it, 4096 for a software GPU"},
    {.name = "CHAINRULE_GPU_POOL",
     .doc = "off: each tensor on CUDA is an allocation of its own and of its exact size, so that a memory checker sees "
            "accesses out of bounds; read when the GPU is opened"},
    {.name = "CHAINRULE_CHECK",
     .doc = "1: using or releasing a handle that was released is an error; default: 1 in debug builds, else 0"},
    {.name = "CHAINRULE_PLAN", .doc = "optimization passes to skip in plans, of " CR_PLAN_PASSES "; none: skip all"},
    {.name = "CHAINRULE_LOG", .doc = "file to which the source of a GPU kernel is appended if it does not compile"},
};
enum { SWITCHES = sizeof switches / sizeof *switches, PREFIX = sizeof "CHAINRULE_" - 1 };

static int find_switch(const char *name) {
    if (!strncmp(name, "CHAINRULE_", PREFIX)) name += PREFIX;
    for (int i = 0; i < SWITCHES; i++)
        if (!strcmp(switches[i].name + PREFIX, name)) return i;
    return -1;
}

static const char *in_force(int i) {
    value *v = atomic_load(&switches[i].set);
    const char *text = v ? v->text : getenv(switches[i].name);
    return text && *text ? text : NULL;
}

bool cr_switch_at(int i, const char **name, const char **doc, const char **text) {
    if (i < 0 || i >= SWITCHES) return false;
    if (name) *name = switches[i].name;
    if (doc) *doc = switches[i].doc;
    if (text) *text = in_force(i);
    return true;
}

const char *cr_config(const char *name) {
    int i = find_switch(name);
    CR_ASSERT(i >= 0 && "a switch that is not in the table");
    return i < 0 ? NULL : in_force(i);
}

void cr_switch_owner(const char *name, cr_switch_check check, void (*changed)(void)) {
    int i = find_switch(name);
    switches[i].check = check;
    switches[i].changed = changed;
}

static cr_status no_such(const char *name) {
    char known[300] = "";
    for (int i = 0; i < SWITCHES; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", switches[i].name + PREFIX);
    }
    return cr_fail(CR_BAD_VALUE, "switch_set", "no switch '%.40s'; there are: %s", name, known);
}

cr_status cr_switch_set(const char *name, const char *text) {
    if (!name) return cr_fail_null("switch_set", "the name");
    const int i = find_switch(name);
    if (i < 0) return no_such(name);
    cr_status bad = switches[i].check ? switches[i].check(text) : CR_OK;
    if (bad != CR_OK) return bad;
    value *v = text ? malloc(sizeof *v + strlen(text) + 1) : NULL;
    if (text && !v) return cr_no_memory("switch_set");
    if (v) {
        strcpy(v->text, text);
        v->before = atomic_load(&kept);
        while (!atomic_compare_exchange_weak(&kept, &v->before, v)) {}
    }
    atomic_store(&switches[i].set, v);
    if (switches[i].changed) switches[i].changed();
    return CR_OK;
}
