/* gpus.c - chainrule train --gpus N: a process for each of N GPUs of this machine.  They find each other as those of
 * torchrun do; the process that started them waits, passes signals on, and names the first that failed. */
#include <math.h>
#include <stdlib.h>

#include "../core/os.h"
#include "run.h"

static const double grace = 20;                     /* seconds for the others to end after one has failed */

static void set_number(const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    cr_os_set_variable(name, text);
}

/* What torchrun would say to this rank; the ranks meet at MASTER_PORT + 1. */
static void become_rank(const command *c, settings *s, int64_t rank, int port) {
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", s->gpus);
    set_number("MASTER_PORT", port - 1);
    cr_os_set_variable("MASTER_ADDR", "localhost");
    option *device = option_find(c, "device");
    if (!device->given) s->device = "cuda";
    device->given = true;                           /* also where a resumed run was on another one */
}

static int rank_of(const int64_t *process, int64_t n, int64_t id) {
    for (int64_t r = 0; r < n; r++) if (process[r] == id) return (int)r;
    return -1;
}

static void end_all(const int64_t *process, int64_t n, bool at_once) {
    for (int64_t r = 0; r < n; r++) if (process[r]) cr_os_end(process[r], at_once);
}

static int say_failure(int rank, int64_t gpus, int64_t id, int code) {
    if (code < 0) return cli_fail("rank %d of --gpus %lld (process %lld) was killed by signal %d", rank,
                                  (long long)gpus, (long long)id, -code);
    (void)cli_fail("rank %d of --gpus %lld (process %lld) failed, with exit code %d", rank, (long long)gpus,
                   (long long)id, code);
    return code;
}

/* The exit code of the first process that failed, else of all. */
static int wait_for(int64_t *process, int64_t n) {
    int result = CLI_OK;
    bool passed = false;
    double limit = INFINITY;
    for (int64_t left = n; left;) {
        int code = 0;
        const int64_t id = cr_os_reap(&code, 0.2);
        const int rank = id ? rank_of(process, n, id) : -1;
        if (cr_os_interrupted() && !passed) end_all(process, n, false), passed = true;
        if (cr_os_seconds() > limit) end_all(process, n, true), limit = INFINITY;
        if (rank < 0) continue;
        process[rank] = 0;
        left--;
        if (code == CLI_OK || result != CLI_OK) continue;
        result = code == CLI_STOPPED ? code : say_failure(rank, n, id, code);
        if (code != CLI_STOPPED) limit = cr_os_seconds() + grace;
    }
    return result;
}

bool run_gpus(const command *c, settings *s, int *code) {
    int port = 0;
    const int listener = cr_os_listen(&port);       /* a free port */
    int64_t *process = calloc((size_t)s->gpus, sizeof *process), started = 0, id = 0;
    cr_os_close_socket(listener);
    if (!process || listener < 0) {
        *code = cli_fail("no memory for %lld processes, or no port: %s", (long long)s->gpus, cr_os_error());
        free(process);
        return false;
    }
    for (; started < s->gpus; started++) {
        process[started] = id = cr_os_fork();
        if (id <= 0) break;
    }
    if (!id) {
        become_rank(c, s, started, port);
        free(process);
        return true;
    }
    cr_os_catch_interrupt();
    if (id < 0) {
        *code = cli_fail("cannot start process %lld of %lld: %s", (long long)started, (long long)s->gpus,
                         cr_os_error());
        end_all(process, started, true);
    } else *code = wait_for(process, started);
    free(process);
    return false;
}
