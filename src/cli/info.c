/* info.c - chainrule info: what this library is and what it found on this machine. */
#include "cli.h"
#include "../dev/registry.h"

#include <string.h>

/* oneDNN is opened by the first product that suits it: here, so that the line of its device says
 * whether it was found. */
static void open_libraries(void) {
    cr_scope_begin();
    cr_tensor *x = cr_zeros(CR_LIST(512, 512), CR_F32, cr_cpu());
    cr_matmul(x, x);
    cr_scope_end();
}

int cli_info(int argc, char **argv) {
    const command c = {"info", "", "Version, devices, threads and run-time switches.", NULL, 0, NULL, NULL,
                       "info\ninfo | grep cuda\n"};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    open_libraries();
    printf("chainrule %s\n\ndevices\n", cr_version());
    const cr_device *dev;
    for (int i = 0; (dev = cr_device_at(i)); i++)
        printf("  %-8s %s%s\n", cr_device_name(dev), cr_device_info(dev),
               dev == cr_default_device() ? "  (default)" : "");
    static const char *const kinds[] = {"cuda", "webgpu"};
    for (int i = 0; i < 2; i++) {
        const char *problem = cr_gpu_problem(kinds[i]);
        if (*problem) printf("  %-8s none: %s\n", kinds[i], problem);
    }
    cr_world *world = cr_world_open(NULL);
    if (!world) printf("\nprocesses none: %s\n", cr_error());
    else if (cr_world_size(world) == 1) printf("\nprocesses 1: not started by mpirun\n");
    else printf("\nprocesses %d, by %s; this is rank %d on %s\n", cr_world_size(world), cr_world_engine(world),
                cr_world_rank(world), cr_world_host(world));
    cr_error_clear();
    cr_world_close(world);
    printf("\nthreads   %d\n\nswitches (environment variables)\n", cr_num_threads());
    const char *name, *doc, *value;
    for (int i = 0; cr_switch_at(i, &name, &doc, &value); i++) {
        printf("  %-24s %s\n", name, doc);
        if (value) printf("  %-24s   now: %s\n", "", value);
    }
    return cr_error() ? cli_fail_library() : CLI_OK;
}
