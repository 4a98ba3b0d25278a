/* module.c - kernels: texts, compiled by NVRTC for this GPU or read from the cache folder, loaded, and
 * found again by key.  The library may contain precompiled kernels, which are tried first
 * (cmake/fatbin.cmake).
 *
 * A cached file (core/cache.h) depends on text, options, version of NVRTC and architecture. */
#include "gpu.h"
#include "../../core/cache.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys */

void cr_cuda_key_add(cuda_key *k, const void *part, size_t bytes) {
    if (k->n + bytes > sizeof k->bytes) { k->full = true; return; }
    memcpy(k->bytes + k->n, part, bytes);
    k->n += bytes;
}

static unsigned list_of(const cuda_key *k) {
    uint64_t h = 0xcbf29ce484222325u;               /* FNV-1a of 64 bits */
    for (size_t i = 0; i < k->n; i++) h = (h ^ k->bytes[i]) * 0x100000001b3u;
    return (unsigned)(h ^ h >> 32) % CUDA_KERNEL_LISTS;
}

const cuda_kernel *cr_cuda_kernel_find(const cuda *g, const cuda_key *k) {
    const cuda_kernel *p = g->kernels[list_of(k)];
    while (p && (p->key_bytes != k->n || memcmp(p->key, k->bytes, k->n))) p = p->next;
    return p;
}

/* ---- the compiler */

/* The first error in the compiler's log. */
static void log_of(nvrtc_program p, char *out, size_t room) {
    size_t n = 0;
    char *log = !cr_nvrtc.GetLogSize(p, &n) && n ? malloc(n) : NULL;
    if (log && !cr_nvrtc.GetLog(p, log)) {
        const char *line = strstr(log, "error");
        while (line && line > log && line[-1] != '\n') line--;
        if (!line) line = log;
        snprintf(out, room, "%.*s", (int)strcspn(line, "\n"), line);
    }
    free(log);
}

/* Machine code; PTX where NVRTC has no machine code for the architecture. */
static char *code_of(nvrtc_program p, size_t *bytes) {
    int (*get)(nvrtc_program, char *) = cr_nvrtc.GetCubin;
    if (cr_nvrtc.GetCubinSize(p, bytes)) return NULL;
    if (!*bytes && (get = cr_nvrtc.GetPtx, cr_nvrtc.GetPtxSize(p, bytes))) return NULL;
    char *code = malloc(*bytes);
    if (code && get(p, code)) free(code), code = NULL;
    return code;
}

/* The whole text of a kernel. */
static cr_out text_of(const char *text) {
    cr_out whole = {0};
    cr_out_format(&whole, "%s%s%s", cr_cuda_source_device, cr_cuda_source_arguments, text);
    return whole;
}

static char *compile(cuda *g, const char *op, const char *text, int count, const char *const *options, size_t *bytes) {
    nvrtc_program p = NULL;
    char *code = NULL, why[300] = "no reason given";
    cr_out whole = text_of(text);
    const bool created = !whole.failed && !cr_nvrtc.CreateProgram(&p, whole.text, op, 0, NULL, NULL);
    const bool no_memory = whole.failed;
    cr_out_free(&whole);
    if (no_memory) return cr_no_memory(op), NULL;
    if (!created) return cr_fail(CR_RUNTIME, op, "%s: NVRTC cannot create a program", g->name), NULL;
    if (cr_nvrtc.CompileProgram(p, count, options)) log_of(p, why, sizeof why);
    else code = code_of(p, bytes);
    if (!code) cr_fail(CR_RUNTIME, op, "%s: a kernel does not compile: %s", g->name, why);
    cr_nvrtc.DestroyProgram(&p);
    g->counters.compiled += code != NULL;
    return code;
}

/* ---- modules: one for each text */

/* The precompiled module of a text; NULL: there is none, or this driver does not take it. */
static cuda_module precompiled(const char *text) {
#ifdef CR_CUDA_FATBIN
    cuda_module module = NULL;
    for (const cuda_precompiled *p = cr_cuda_precompiled; p->code; p++) {
        const size_t n = strlen(p->definitions);
        if (!strncmp(text, p->definitions, n) && !strcmp(text + n, p->file))
            return cr_cu.ModuleLoadData(&module, p->code) ? NULL : module;
    }
#else
    (void)text;
#endif
    return NULL;
}

/* From the cache folder, or from NVRTC. */
static cuda_module built(cuda *g, const char *op, const char *text, cr_hash h, int count, const char *const *options) {
    char path[1024];
    size_t bytes = 0;
    const bool kept = cr_cache_path(path, sizeof path, h, ".cubin");
    char *code = kept ? cr_cache_read(path, h, &bytes) : NULL;
    if (!code) {
        if (!(code = compile(g, op, text, count, options, &bytes))) return NULL;
        if (kept) cr_cache_keep(path, h, code, bytes);
    }
    cuda_module module = NULL;
    int error;
    do error = cr_cu.ModuleLoadData(&module, code);
    while (error && cr_cuda_make_room(g, error));
    cr_cuda_check(g, op, "a kernel does not load", error);
    free(code);
    return module;
}

/* Architectures of Tegra, whose machine code other GPUs do not run. */
static bool is_embedded(int architecture) {
    static const int embedded[] = {53, 62, 72, 87, 101, 110};
    bool is = false;
    for (size_t i = 0; i < sizeof embedded / sizeof *embedded; i++) is |= embedded[i] == architecture;
    return is;
}

/* The newest architecture that NVRTC supports and this GPU runs: its own, unless NVRTC is older than the GPU. */
static int architecture_of(const cuda *g) {
    enum { MOST = 100 };
    const int own = 10 * g->major + g->minor;
    int known[MOST], count = 0, best = 0;
    if (cr_nvrtc.CountArchitectures(&count) || count > MOST || cr_nvrtc.Architectures(known)) return own;
    for (int i = 0; i < count; i++)
        if (known[i] <= own && known[i] > best && (known[i] == own || !is_embedded(known[i]))) best = known[i];
    return best ? best : own;
}

/* Machine code of one architecture runs on later ones of the same major version; for others the driver gets PTX.
 * sm_90a, which has the instructions of hopper.cu, runs on compute capability 9.0 only. */
static cuda_module load_module(cuda *g, const char *op, const char *text, bool fuses) {
    char architecture[40], version[40];
    const int newest = architecture_of(g);
    const bool hopper = newest == 90 && g->major == 9 && g->minor == 0;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d%s",
             newest / 10 == g->major ? "sm" : "compute", newest, hopper ? "a" : "");
    snprintf(version, sizeof version, "nvrtc %d.%d", cr_nvrtc.major, cr_nvrtc.minor);
    const char *const options[] = {architecture, "--std=c++17", fuses ? "--fmad=true" : "--fmad=false"};
    enum { OPTIONS = sizeof options / sizeof *options };
    cr_hash h = cr_hash_of(cr_hash_start, version, strlen(version) + 1);
    for (int i = 0; i < OPTIONS; i++) h = cr_hash_of(h, options[i], strlen(options[i]) + 1);
    const char *const parts[] = {cr_cuda_source_device, cr_cuda_source_arguments, text};
    for (int i = 0; i < 3; i++) h = cr_hash_of(h, parts[i], strlen(parts[i]));
    for (const cuda_loaded *m = g->modules; m; m = m->next) if (m->hash == h) return m->module;
    cuda_loaded *m = malloc(sizeof *m);
    if (!m) return cr_no_memory(op), NULL;
    cuda_module module = precompiled(text);
    if (!module && !(module = built(g, op, text, h, OPTIONS, options))) return free(m), NULL;
    *m = (cuda_loaded){h, module, g->modules};
    g->modules = m;
    g->counters.modules++;
    return module;
}

const cuda_kernel *cr_cuda_kernel_make(cuda *g, const char *op, const cuda_key *k, const char *name, const char *text,
                                       bool fuses) {
    if (k->full)
        return cr_fail(CR_BAD_VALUE, op, "%s: the program has too many instructions for a kernel", g->name), NULL;
    if (!text) return cr_no_memory(op), NULL;
    cuda_module module = load_module(g, op, text, fuses);
    cuda_function function = NULL;
    if (!module || cr_cuda_check(g, op, name, cr_cu.ModuleGetFunction(&function, module, name)) != CR_OK) return NULL;
    cuda_kernel *p = malloc(sizeof *p + k->n);
    if (!p) return cr_no_memory(op), NULL;
    *p = (cuda_kernel){function, name, g->kernels[list_of(k)], k->n};
    memcpy(p->key, k->bytes, k->n);
    return g->kernels[list_of(k)] = p;
}

const cuda_kernel *cr_cuda_kernel_of(cuda *g, const char *op, const char *file, const char *name, const char *format,
                                     ...) {
    char definitions[512];
    cuda_key k;
    k.n = 0, k.full = false;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(definitions, sizeof definitions, format, args);
    va_end(args);
    CR_ASSERT(n >= 0 && n < (int)sizeof definitions);
    cr_cuda_key_add(&k, &file, sizeof file);
    cr_cuda_key_add(&k, name, strlen(name) + 1);
    cr_cuda_key_add(&k, definitions, (size_t)n);
    const cuda_kernel *found = cr_cuda_kernel_find(g, &k);
    if (found) return found;
    cr_out t = {0};
    cr_out_format(&t, "%s%s", definitions, file);
    const cuda_kernel *made = cr_cuda_kernel_make(g, op, &k, name, t.failed ? NULL : t.text, true);
    cr_out_free(&t);
    return made;
}
