/* ranks.c - a run on the processes of mpirun: rank 0 prints, validates and writes; all compute. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "run.h"

bool run_first(const run *r) { return !r->ranks.world || cr_world_rank(r->ranks.world) == 0; }
bool run_alone(const run *r) { return !r->ranks.world || cr_world_size(r->ranks.world) == 1; }

bool run_silent(run *r) {
    r->log.file = cr_os_open_file("/dev/null", "ab");
    return r->log.file || (cli_fail("cannot write to /dev/null"), false);
}

bool run_world(run *r) {
    r->ranks.world = cr_world_open(NULL);
    if (!r->ranks.world) return cli_fail_library(), false;
    if (run_first(r)) return true;
    r->ranks.output = cr_os_hide_output();
    return r->ranks.output >= 0 || (cli_fail("cannot write to /dev/null: %s", cr_os_error()), false);
}

const cr_device *run_device(const run *r) {
    char name[32];
    const char *asked = r->s->device;
    const cr_device *dev = device_named(asked);
    if (!dev || run_alone(r) || strncmp(cr_device_name(dev), "cuda:", 5) != 0) return dev;
    if (asked && strchr(asked, ':')) return dev;    /* this very one */
    snprintf(name, sizeof name, "cuda:%d", cr_world_local(r->ranks.world));
    return cr_device_find(name);
}

/* A wrong option that all ranks see alike is rank 0's to report. */
static int refuse(run *r, const char *why, int ranks) {
    r->ranks.failed_on_all_ranks = true;
    return run_first(r) ? usage_error(r->command, why, ranks, ranks) : CLI_USAGE;
}

int run_share(run *r) {
    const settings *s = r->s;
    const int ranks = cr_world_size(r->ranks.world);
    if (!s->microbatches && ranks > 1)
        return refuse(r, "%d processes were started together: --microbatches says how many batches a step has, at "
                         "least %d", ranks);
    if (!s->microbatches && s->shard)
        return refuse(r, "--shard-optimizer needs --microbatches: the %d processes of a step share the moments",
                      ranks);
    if (!s->microbatches && s->elastic)
        return refuse(r, "--elastic needs --microbatches, which the remaining processes share (%d of %d)",
                      ranks);
    if (!s->microbatches && (strcmp(s->exchange, "fixed") != 0 || strcmp(s->gradients, "f32") != 0))
        return refuse(r, "--exchange and --gradients need --microbatches: the %d processes of a step add their "
                         "gradients", ranks);
    if (!s->microbatches) return CLI_OK;
    if (s->microbatches < ranks)
        return refuse(r, "a step has fewer --microbatches than there are processes, %d: give at least %d", ranks);
    if (s->accumulate > 1 || s->fuse_step || r->weights.half_dtype == CR_F16)
        return refuse(r, "--microbatches replaces --accumulate and cannot be combined with --fuse-step or --dtype "
                         "f16 (%d of %d processes)", ranks);
    return CLI_OK;
}

/* ---- what must be the same on all ranks */
static int64_t hash_of(const char *text) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (int64_t)h;
}

/* The ranks whose entry i of n differs from rank 0's: "1, 3"; "": none. */
static void differing(const run *r, const int64_t *all, int n, int i, char *out, size_t room) {
    size_t used = 0;
    out[0] = 0;
    for (int k = 1; k < cr_world_size(r->ranks.world) && used + 16 < room; k++)
        if (all[k * n + i] != all[i])
            used += (size_t)snprintf(out + used, room - used, "%s%d", used ? ", " : "", k);
}

static bool compare(run *r, const int64_t *all, int n) {
    char ranks[256];
    for (int i = 0; i < n; i++) {
        differing(r, all, n, i, ranks, sizeof ranks);
        if (!*ranks) continue;
        r->ranks.failed_on_all_ranks = true;
        if (!run_first(r)) return false;
        if (i < n - 1) cli_fail("rank 0 and rank %s were given another --%s", ranks, r->command->options[i].name);
        else cli_fail("rank 0 and rank %s read another text or another tokenizer", ranks);
        return false;
    }
    return true;
}

bool run_agreed(run *r) {
    char text[4096];
    const int n = r->command->n + 1;
    if (run_alone(r)) return true;
    int64_t *mine = calloc((size_t)n, sizeof *mine);
    if (!mine) return cli_fail("no memory for %d options", n), false;
    for (int i = 0; i < n - 1; i++) {
        if (!r->command->options[i].kept) continue; /* --threads and paths may differ */
        option_text(&r->command->options[i], text, sizeof text);
        mine[i] = hash_of(text);
    }
    mine[n - 1] = (int64_t)r->data.hash;
    cr_scope_begin();
    cr_tensor *x = cr_from(mine, CR_LIST(n), CR_I64, cr_cpu()),
              *all = cr_empty(CR_LIST(n * cr_world_size(r->ranks.world)), CR_I64, cr_cpu());
    const bool good = cr_all_gather(r->ranks.world, x, all) == CR_OK ? compare(r, cr_data(all), n)
                                                               : (cli_fail_library(), false);
    cr_scope_end();
    free(mine);
    return good;
}

/* ---- steps */
bool run_parallel(run *r) {
    if (!r->s->microbatches) return true;
    r->ranks.parallel = cr_parallel_new(r->ranks.world, r->update.optim, &(cr_parallel_options){
        .microbatches = r->s->microbatches, .shard = r->s->shard, .engine = !strcmp(r->s->exchange, "engine"),
        .half = !strcmp(r->s->gradients, "bf16"), .elastic = r->s->elastic});
    return r->ranks.parallel || (cli_fail_library(), false);
}

bool run_barrier(const run *r) {
    return run_alone(r) || cr_barrier(r->ranks.world) == CR_OK || (cli_fail_library(), false);
}

bool run_takes(const run *r, int64_t i) {
    return run_alone(r) || i % cr_world_size(r->ranks.world) == cr_world_rank(r->ranks.world);
}

cr_status run_sums(const run *r, int64_t n, double *each) {
    if (run_alone(r)) return CR_OK;
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *x = cr_from(each, CR_LIST(n), CR_F64, cr_cpu());    /* 0 where another process has it: exact sums */
    cr_status status = x ? cr_all_reduce(r->ranks.world, x) : cr_error_status();
    if (status == CR_OK) status = cr_read(x, CR_F64, each, (size_t)n * sizeof *each);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

void run_clock(run *r) {
    const double now = cr_os_seconds() - r->at.began;
    double first = run_first(r) ? now : 0;
    if (r->s->minutes > 0 && run_sums(r, 1, &first) != CR_OK) return;
    r->at.elapsed = r->s->minutes > 0 ? first : now;
}

/* Was any rank interrupted? */
static cr_status ask(run *r, cr_work **asking, cr_tensor **any) {
    float here = cr_os_interrupted();
    *any = cr_from(&here, CR_LIST(1), CR_F32, cr_cpu());
    *asking = *any ? cr_all_reduce_start(r->ranks.world, *any) : NULL;
    return *asking ? CR_OK : cr_error_status();
}

static cr_status hear(run *r, cr_work *asking, const cr_tensor *any) {
    const cr_status status = cr_work_wait(asking);
    r->ranks.asked = status == CR_OK;
    r->ranks.stop = r->ranks.asked && cr_item(any) > 0;
    return status;
}

/* A step asks before its exchange is over: a later question would wait behind the gather of new weights. */
bool run_interrupted(run *r) {
    cr_work *asking;
    cr_tensor *any;
    if (run_alone(r)) return cr_os_interrupted();
    cr_scope_begin();
    if (!r->ranks.asked && ask(r, &asking, &any) == CR_OK) (void)hear(r, asking, any);
    cr_scope_end();
    return r->ranks.stop;                                 /* an error stays pending: the next step reports it */
}

static cr_status microbatch(run *r) {
    cr_scope_begin();
    cr_status status = cr_autocast_begin(r->dev, r->weights.half_dtype, true);
    cr_tensor *loss = status == CR_OK ? r->task->batch(r) : NULL;
    if (status == CR_OK) status = cr_autocast_end();
    if (status == CR_OK) status = cr_parallel_backward(r->ranks.parallel, loss);
    cr_scope_end();
    return status;
}

cr_status run_microbatches(run *r, double *loss, double *norm) {
    const double before = r->at.seen;
    cr_status status = cr_error_status();
    while (status == CR_OK && cr_parallel_next(r->ranks.parallel, r->data.loader, r->generator)) status = microbatch(r);
    if (status == CR_OK) status = cr_error_status();
    cr_work *asking = NULL;
    cr_tensor *any = NULL;
    cr_scope_begin();
    if (status == CR_OK && !run_alone(r)) status = ask(r, &asking, &any);
    const double clip = r->s->clip > 0 ? r->s->clip : INFINITY;
    if (status == CR_OK) status = cr_parallel_step(r->ranks.parallel, clip, loss, norm);
    if (asking && hear(r, asking, any) != CR_OK) status = cr_error_status();
    cr_scope_end();
    if (!(r->s->clip > 0)) *norm = NAN;
    if (status != CR_OK) return status;
    r->at.batches += r->s->microbatches;
    r->at.seen = before + (double)(r->s->microbatches * r->s->batch * r->s->context);
    return status;
}

bool run_recover(run *r) {
    char why[512];
    bool reload = false;
    const bool was_first = run_first(r);
    if (!r->ranks.parallel || !r->s->elastic) return cli_fail_library(), false;
    snprintf(why, sizeof why, "%s", cr_error() ? cr_error() : "");
    if (cr_parallel_recover(r->ranks.parallel, &reload)) return cli_fail_library(), false;
    r->ranks.asked = false;                               /* the last question may have failed on some processes only */
    if (reload && !run_restore(r)) return false;
    if (run_first(r) && (!was_first || reload) && !run_take_over(r, !was_first)) return false;
    series *val = &r->log.val;                      /* not all may have ended this step's validation */
    if (val->n && val->at[val->n - 1].step == r->at.step) val->n--;
    if (!run_first(r)) return true;
    const char *text = strstr(why, "] ");
    fprintf(stderr, "chainrule: %s; %d %s on from step %lld%s\n", text ? text + 2 : why, cr_world_size(r->ranks.world),
            run_alone(r) ? "process goes" : "processes go", (long long)r->at.step,
            reload ? ", of the last checkpoint: two neighbours were lost" : "");
    runlog_write(&r->log, "{\"event\":\"loss\",\"step\":%lld,\"ranks\":%d}", (long long)r->at.step,
                 cr_world_size(r->ranks.world));
    return true;
}

bool run_share_log(run *r) {
    series *val = &r->log.val;
    if (run_alone(r)) return true;
    cr_scope_begin();
    cr_tensor *step = cr_from(&(int64_t){val->n ? val->at[val->n - 1].step : -1}, CR_LIST(1), CR_I64, cr_cpu());
    const bool shared = step && cr_broadcast_from(r->ranks.world, step, 0) == CR_OK;
    if (shared && !run_first(r) && *(const int64_t *)cr_data(step) == r->at.step) series_add(val, r->at.step, NAN);
    cr_scope_end();
    return shared || (cli_fail_library(), false);
}

void run_leave(run *r, int code) {
    const bool failed = code != CLI_OK && code != CLI_STOPPED && !r->ranks.failed_on_all_ranks;
    if (!r->ranks.world) return;
    if (!failed) {                                  /* else an exchange may wait for a rank that is gone */
        cr_parallel_free(r->ranks.parallel);
        r->ranks.parallel = NULL;
    }
    if (failed && !run_first(r)) cr_os_sleep(0.3);  /* rank 0's message, if it has one, comes first */
    if (failed) cr_world_abort(r->ranks.world, code);
    else cr_world_close(r->ranks.world);
    r->ranks.world = NULL;
}
