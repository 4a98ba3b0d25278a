/* files.c - safetensors and token files: written (with fsync and rename, as always), opened, and read;
 * the files were just written, so they come from the system's cache and not from the disk. use: files
 * [--quick] [--json] FOLDER        makes and removes two files there */
#include <chainrule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os.h"

static bool json, quick;
static const char *comma = "";

static void failed(const char *what) { fprintf(stderr, "files: %s: %s\n", what, cr_error()); exit(1); }

/* The least time of several runs; bytes 0: no rate. */
static void row(const char *name, double seconds, double bytes) {
    const double rate = bytes > 0 ? bytes * 1e-9 / seconds : 0;
    if (json) printf("%s{\"name\":\"%s\",\"ms\":%.4f,\"rate\":%.4g}", comma, name, seconds * 1e3, rate);
    else printf("%-44s %10.3f ms %8.2f GB/s\n", name, seconds * 1e3, rate);
    comma = ",";
}

static double least(double (*run)(const char *path), const char *path) {
    double best = 1e300;
    for (int i = 0; i < (quick ? 2 : 5); i++) {
        const double seconds = run(path);
        if (seconds < best) best = seconds;
    }
    return best;
}

/* ---- safetensors: layers of a model, f32 */
enum { SIDE = 1024 };
static cr_params *weights;
static double weight_bytes;

static void make_weights(void) {
    weights = cr_params_new();
    cr_scope_begin();
    for (int i = 0; i < (quick ? 4 : 64); i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d.weight", i);
        if (cr_params_add(weights, name, cr_rand(CR_LIST(SIDE, SIDE), CR_F32, cr_cpu(), cr_default_generator())))
            failed("weights");
        weight_bytes += 4.0 * SIDE * SIDE;
    }
    cr_scope_end();
}

static double save(const char *path) {
    const double start = cr_os_seconds();
    if (cr_save(path, weights, NULL)) failed("cr_save");
    return cr_os_seconds() - start;
}

static double opened(const char *path) {
    const double start = cr_os_seconds();
    cr_params *p = cr_load(path, cr_cpu());
    const double end = cr_os_seconds();
    if (!p) failed("cr_load");
    cr_params_free(p);
    return end - start;
}

/* Into tensors that are there, as a model's. */
static double copied(const char *path) {
    const double start = cr_os_seconds();
    cr_params *p = cr_load(path, cr_cpu());
    if (!p || cr_params_copy(weights, p)) failed("cr_params_copy");
    const double end = cr_os_seconds();
    cr_params_free(p);
    return end - start;
}

/* ---- tokens */
enum { BATCH = 32, CONTEXT = 1024 };
static cr_tokens *tokens;
static int64_t batches;

static double tokens_save(const char *path) {
    const double start = cr_os_seconds();
    if (cr_tokens_save(tokens, path)) failed("cr_tokens_save");
    return cr_os_seconds() - start;
}

static double tokens_open(const char *path) {
    const double start = cr_os_seconds();
    cr_tokens *t = cr_tokens_open(path);
    const double end = cr_os_seconds();
    if (!t) failed("cr_tokens_open");
    cr_tokens_free(t);
    return end - start;
}

/* An epoch of shuffled windows as tensors. */
static double epoch(const char *path) {
    const double start = cr_os_seconds();
    cr_tokens *t = cr_tokens_open(path);
    cr_loader_options o = cr_loader_defaults();
    o.batch = BATCH;
    o.context = CONTEXT;
    cr_loader *l = t ? cr_loader_new(t, &o) : NULL;
    if (!l) failed("cr_loader_new");
    batches = cr_loader_batches(l);
    for (int64_t i = 0; i < batches; i++) {
        cr_tensor *x, *y;
        if (cr_loader_next(l, &x, &y)) failed("cr_loader_next");
        cr_release(x);
        cr_release(y);
    }
    cr_loader_free(l);
    cr_tokens_free(t);
    return cr_os_seconds() - start;
}

static void make_tokens(int64_t n) {
    uint32_t *ids = malloc(sizeof *ids * (size_t)n);
    for (int64_t i = 0; ids && i < n; i++) ids[i] = (uint32_t)(i * 7919 % 50257);
    tokens = ids ? cr_tokens_new(ids, n, 50257) : NULL;
    free(ids);
    if (!tokens) failed("tokens");
}

int main(int argc, char **argv) {
    const char *folder = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = true;
        else if (!strcmp(argv[i], "--quick")) quick = true;
        else folder = argv[i];
    }
    char tensors[4096], text[4096];
    if (!folder || snprintf(tensors, sizeof tensors, "%s/bench.safetensors", folder) >= (int)sizeof tensors ||
        snprintf(text, sizeof text, "%s/bench.tok", folder) >= (int)sizeof text)
        return fprintf(stderr, "use: files [--quick] [--json] FOLDER\n"), 2;
    const int64_t n = quick ? 1 << 20 : 1 << 26;
    make_weights();
    make_tokens(n);
    if (json) printf("{\"megabytes\":%.0f,\"tokens\":%lld,\"rows\":[", weight_bytes * 1e-6, (long long)n);
    row("safetensors, save", least(save, tensors), weight_bytes);
    row("safetensors, open (mapped)", least(opened, tensors), 0);
    row("safetensors, open and copy into a model", least(copied, tensors), weight_bytes);
    row("tokens of 2 bytes, save", least(tokens_save, text), 2.0 * (double)n);
    row("tokens of 2 bytes, open (mapped)", least(tokens_open, text), 0);
    const double seconds = least(epoch, text);
    row("tokens of 2 bytes, an epoch of batches", seconds, 2.0 * (double)(batches * BATCH * CONTEXT));
    if (json) printf("]}\n");
    remove(tensors);
    remove(text);
    cr_params_free(weights);
    cr_tokens_free(tokens);
    return 0;
}
