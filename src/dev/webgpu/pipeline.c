/* pipeline.c - compiled kernels, cached by key for the life of the process.  Layouts are explicit:
 * a layout derived from the shader would drop bindings that the shader does not read. */
#include "wgsl.gen.h"
#include "wgsl.h"
#include "../../core/config.h"
#include "../../core/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cr_gpu_key_add(gpu_key *k, const void *part, size_t bytes) {
    if (k->n + bytes > sizeof k->bytes) { k->full = true; return; }
    memcpy(k->bytes + k->n, part, bytes);
    k->n += bytes;
}

/* FNV-1a */
static unsigned list_of(const gpu_key *k) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < k->n; i++) h = (h ^ k->bytes[i]) * 0x100000001b3u;
    return (unsigned)(h ^ h >> 32) % GPU_PIPELINE_LISTS;
}

gpu_pipeline *cr_gpu_pipeline_find(const gpu *g, const gpu_key *k) {
    gpu_pipeline *p = g->pipelines[list_of(k)];
    while (p && (p->key_bytes != k->n || p->subgroups != g->subgroups || memcmp(p->key, k->bytes, k->n))) p = p->next;
    return p;
}

static void release_pipeline(gpu_pipeline *p) {
    if (p->handle) cr_wg.ComputePipelineRelease(p->handle);
    if (p->layout) cr_wg.BindGroupLayoutRelease(p->layout);
    free(p);
}

void cr_gpu_pipelines_forget(gpu *g) {
    for (int i = 0; i < GPU_PIPELINE_LISTS; i++)
        for (gpu_pipeline *p; (p = g->pipelines[i]); release_pipeline(p)) g->pipelines[i] = p->next;
}

static WGPUBindGroupLayout make_layout(gpu *g, int buffers, uint32_t written) {
    WGPUBindGroupLayoutEntry e[32] = {{.binding = 0,
                                       .visibility = WGPUShaderStage_Compute,
                                       .buffer = {.type = WGPUBufferBindingType_Uniform, .hasDynamicOffset = true}}};
    for (int i = 0; i < buffers; i++)
        e[i + 1] = (WGPUBindGroupLayoutEntry){.binding = (uint32_t)i + 1,
                                              .visibility = WGPUShaderStage_Compute,
                                              .buffer = {.type = written >> i & 1
                                                                     ? WGPUBufferBindingType_Storage
                                                                     : WGPUBufferBindingType_ReadOnlyStorage}};
    return cr_wg.DeviceCreateBindGroupLayout(
        g->device, &(WGPUBindGroupLayoutDescriptor){.entryCount = (size_t)buffers + 1, .entries = e});
}

/* Without run-time checks where the library allows that: all texts are this library's, their indices lie
 * within their arrays and their loops end. */
static WGPUShaderModule make_module(gpu *g, const char *text) {
    const WGPUShaderSourceWGSL source = {.chain = {.sType = WGPUSType_ShaderSourceWGSL}, .code = {text, WGPU_STRLEN}};
    const WGPUShaderModuleDescriptor d = {.nextInChain = (WGPUChainedStruct *)(uintptr_t)&source.chain};
    return cr_wg.DeviceCreateShaderModuleTrusted
               ? cr_wg.DeviceCreateShaderModuleTrusted(g->device, &d, WGPUShaderRuntimeChecks_None)
               : cr_wg.DeviceCreateShaderModule(g->device, &d);
}

/* Handles are not NULL even after an error; the scope reports it, and all handles are released. */
static cr_status compile(gpu *g, const char *op, gpu_pipeline *p, uint32_t written, const char *text) {
    cr_gpu_scope_begin(g);
    WGPUShaderModule module = make_module(g, text);
    cr_status status = cr_gpu_scope_end(g, op, "a kernel does not compile");
    cr_gpu_scope_begin(g);
    WGPUPipelineLayout layout = NULL;
    if (status == CR_OK) {
        p->layout = make_layout(g, p->buffers, written);
        layout = cr_wg.DeviceCreatePipelineLayout(
            g->device, &(WGPUPipelineLayoutDescriptor){.bindGroupLayoutCount = 1, .bindGroupLayouts = &p->layout});
        p->handle = cr_wg.DeviceCreateComputePipeline(g->device, &(WGPUComputePipelineDescriptor){
            .layout = layout, .compute = {.module = module, .entryPoint = {"main", WGPU_STRLEN}}});
    }
    cr_status failed = cr_gpu_scope_end(g, op, "no pipeline");
    if (layout) cr_wg.PipelineLayoutRelease(layout);
    if (module) cr_wg.ShaderModuleRelease(module);
    return status == CR_OK ? failed : status;
}

/* Appends the error, and the source with line numbers, to the file CHAINRULE_LOG. */
static void log_source(const char *text) {
    const char *path = cr_config("LOG");
    FILE *f = path ? cr_os_open_file(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s\n", cr_error());
    for (int line = 1; *text; line++) {
        const int n = (int)strcspn(text, "\n");
        fprintf(f, "%4d  %.*s\n", line, n, text);
        text += n + (text[n] == '\n');
    }
    fclose(f);
}

gpu_pipeline *cr_gpu_pipeline_make(gpu *g, const char *op, const gpu_key *k, int buffers, uint32_t written,
                                   const char *text) {
    if (buffers > (int)g->limits.maxStorageBuffersPerShaderStage)
        return cr_fail(CR_BAD_VALUE, op, "%s binds at most %u buffers in one kernel: this takes %d", g->name,
                       g->limits.maxStorageBuffersPerShaderStage, buffers),
               NULL;
    if (k->full) return cr_fail(CR_BAD_VALUE, op, "the program has too many instructions for %s", g->name), NULL;
    gpu_pipeline *p = text ? calloc(1, sizeof *p + k->n) : NULL;
    if (!p) return cr_no_memory(op), NULL;
    p->buffers = buffers;
    p->subgroups = g->subgroups;
    p->key_bytes = k->n;
    memcpy(p->key, k->bytes, k->n);
    if (compile(g, op, p, written, text) != CR_OK) {
        log_source(text);
        release_pipeline(p);
        return NULL;
    }
    g->counters.pipelines++;
    p->next = g->pipelines[list_of(k)];
    g->pipelines[list_of(k)] = p;
    return p;
}

/* ---- the GPU's own conversions of f16.  WebGPU does not define how they round and what happens to
 * denormals, so they are used only where all results equal those of library.wgsl. */
enum { FINDINGS = 3 };

static void write_check(wgsl *w, const void *how) {
    (void)how;
    cr_wgsl_words(w, "wrong", true, true);
    cr_wgsl_file(w, cr_wgsl_halves);
    cr_wgsl_end(w, GPU_GROUP);
}

/* Runs a kernel that writes its findings to words that are 0 before. */
static cr_status measure(gpu *g, const char *op, int id, void (*write)(wgsl *, const void *), int64_t invocations,
                         uint32_t words[FINDINGS]) {
    const int may_fail = g->may_fail;
    const uint32_t zero = 0;
    const size_t bytes = FINDINGS * sizeof *words;
    gpu_buffer *found = cr_gpu_buffer_take(g, op, bytes);
    if (!found) return cr_error_status();
    g->may_fail = 0;                                /* the faults of other kernels are not read here */
    memset(words, 0, bytes);
    cr_status status = found->batch == g->batch ? cr_gpu_submit(g, op) : CR_OK;
    cr_wg.QueueWriteBuffer(g->queue, found->handle, 0, words, bytes);
    if (status == CR_OK) status = cr_gpu_run(g, &(gpu_call){
        .op = op, .write = write, .how = &id, .how_bytes = sizeof id, .buffers = 1, .buffer = {found},
        .parameters = &zero, .parameters_bytes = sizeof zero, .groups = gpu_groups(invocations)});
    if (status == CR_OK) status = cr_gpu_read(g, op, words, found, bytes);
    g->may_fail = may_fail;
    cr_gpu_buffer_give(g, found);
    return status;
}

static cr_status check_halves(gpu *g, const char *op) {
    uint32_t wrong[FINDINGS];
    g->halves = GPU_HALVES_LIBRARY;
    const cr_status status = measure(g, op, 'h', write_check, 1 << 16, wrong);
    g->halves = status != CR_OK ? GPU_HALVES_UNKNOWN : wrong[0] ? GPU_HALVES_LIBRARY : GPU_HALVES_NATIVE;
    return status;
}

/* ---- the size of subgroups */
#ifdef __EMSCRIPTEN__                               /* the call that opens a GPU cannot wait */
cr_status cr_gpu_measure_subgroups(gpu *g, const char *op) {
    g->subgroups = cr_web_subgroups();
    return (void)op, CR_OK;
}
#else
static void write_sizes(wgsl *w, const void *how) {
    (void)how;
    cr_wgsl_const(w, "MEASURE", 1);
    cr_wgsl_words(w, "found", true, true);
    cr_wgsl_file(w, cr_wgsl_subgroups);
    cr_wgsl_end(w, GPU_GROUP);
}

cr_status cr_gpu_measure_subgroups(gpu *g, const char *op) {
    uint32_t found[FINDINGS];
    const cr_status status = measure(g, op, 'g', write_sizes, 16 * GPU_GROUP, found);
    const bool one_size = found[0] + found[1] == GPU_GROUP && !found[2];
    if (status == CR_OK && one_size && found[0] >= 4) g->subgroups = (int)found[0];
    return status;
}
#endif

gpu_pipeline *cr_gpu_pipeline_from(gpu *g, const char *op, const gpu_key *k, wgsl *w) {
#ifdef __EMSCRIPTEN__                               /* the check would wait, in calls that cannot */
    if (g->halves == GPU_HALVES_UNKNOWN) g->halves = GPU_HALVES_LIBRARY;
#endif
    const cr_status status = !w->out.failed && g->halves == GPU_HALVES_UNKNOWN && cr_wgsl_uses_halves(w)
                                 ? check_halves(g, op)
                                 : CR_OK;
    char *text = cr_wgsl_complete(w, g->halves == GPU_HALVES_NATIVE);
    gpu_pipeline *p = status == CR_OK ? cr_gpu_pipeline_make(g, op, k, w->arrays, w->written, text) : NULL;
    cr_wgsl_free(w);
    free(text);
    return p;
}

bool cr_gpu_bind_window(const gpu *g, gpu_call *c, gpu_buffer *b, gpu_span s, cr_dtype dt, uint32_t *offset) {
    const int i = c->buffers;
    if (!cr_gpu_window(g, b, s, dt, &c->at[i])) return false;
    c->buffer[c->buffers++] = b;
    c->windows |= 1u << i;
    *offset = (uint32_t)(s.first - (int64_t)(c->at[i] / cr_dtype_size(dt)));
    return true;
}

cr_status cr_gpu_run(gpu *g, const gpu_call *c) {
    gpu_key k;
    k.n = 0, k.full = false;
    cr_gpu_key_add(&k, c->how, c->how_bytes);
    const gpu_pipeline *p = cr_gpu_pipeline_find(g, &k);
    if (!p) {
        wgsl w = {.subgroups = g->subgroups};
        c->write(&w, c->how);
        p = cr_gpu_pipeline_from(g, c->op, &k, &w);
    }
    if (!p) return cr_error_status();
    for (int i = 0; i < c->buffers; i++)
        if (!(c->windows >> i & 1) && c->buffer[i]->bytes > g->window)
            return cr_gpu_fail_window(g, c->op, c->buffer[i]->bytes);
    return cr_gpu_dispatch(g, c->op, p, c->buffer, c->at, c->parameters, c->parameters_bytes, c->groups,
                           c->work);
}
