/* fill_cache.c - compiles texts of kernels by the true NVRTC into CHAINRULE_CACHE, with the driver that
 * launches nothing (null.c), for the architecture that CUDASIM_CC names.  The texts are those that
 * CUDASIM_KEEP of the simulated NVRTC wrote while tests ran.
 *
 * use: fill_cache FOLDER k n        those whose number in the folder, sorted by name, is k modulo n */
#include <chainrule.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/cuda/gpu.h"

static int is_text(const struct dirent *e) {
    const char *dot = strrchr(e->d_name, '.');
    return dot && !strcmp(dot, ".cu");
}

/* The text after device.cuh and arguments.h, which the library adds itself; NULL: it does not begin with them. */
static char *text_of(const char *folder, const char *name) {
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    const long bytes = ftell(f);
    rewind(f);
    char *whole = calloc(1, (size_t)bytes + 1), *text = NULL;
    const size_t device = strlen(cr_cuda_source_device), before = device + strlen(cr_cuda_source_arguments);
    if (whole && fread(whole, 1, (size_t)bytes, f) == (size_t)bytes && (size_t)bytes > before &&
        !memcmp(whole, cr_cuda_source_device, device) &&
        !memcmp(whole + device, cr_cuda_source_arguments, before - device))
        text = strdup(whole + before);
    free(whole);
    fclose(f);
    return text;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "use: fill_cache FOLDER k n\n"), 2;
    const int mine = atoi(argv[2]), parts = atoi(argv[3]);
    struct dirent **files = NULL;
    const int count = scandir(argv[1], &files, is_text, alphasort);
    cuda *g = (cuda *)(uintptr_t)cr_cuda(0);
    if (count < 0 || !g || parts < 1) return fprintf(stderr, "fill_cache: %s\n", g ? argv[1] : cr_error()), 1;
    int passed = 0, failed = 0;
    for (int i = 0; i < count; i++) {
        if (i % parts != mine) continue;
        char *text = text_of(argv[1], files[i]->d_name);
        cuda_key key = {.n = 0};
        cr_cuda_key_add(&key, files[i]->d_name, strlen(files[i]->d_name));
        cuda *entered = text ? cr_cuda_enter("fill_cache", &g->dev) : NULL;
        const bool made = entered && cr_cuda_kernel_make(g, "fill_cache", &key, "any", text, !strstr(text, " walk("));
        if (entered) cr_cuda_leave(g, made ? CR_OK : CR_RUNTIME);
        passed += made, failed += !made;
        if (!made) printf("%s for sm_%d%d: %s\n", files[i]->d_name, g->major, g->minor, text ? cr_error() : "not read");
        cr_error_clear();
        free(text);
    }
    printf("compiled %lld of %d texts for sm_%d%d\nresult: %d passed, %d failed, 0 skipped\n",
           (long long)g->counters.compiled, passed + failed, g->major, g->minor, passed, failed);
    return failed || !passed;
}
