/* record.c - records a step: notes each kernel that the thread runs, with copies of its arguments, and
 * what else a replay has to repeat: random draws, gradients of leaves, bytes from the host.
 *
 * Storages are numbered when a kernel first touches them.  One that existed before is kept.  One that began
 * inside is temporary if a kernel writes it first, else the host made it: a constant. */
#include "plan.h"
#include "../core/out.h"
#include "../core/rng.h"
#include "../core/table.h"
#include "../grad/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct recording {
    unsigned id;
    uint64_t since;                                 /* nodes of the step have larger numbers */
    cr_plan *plan;
    int64_t leaf_room, read_room, draw_room, update_room, callback_room, input_room, in_room, visited_room,
        counter_room;
    cr_step *first; int n_first; int64_t first_room;        /* uploads that precede the step */
    cr_table numbers;                               /* of buffers, by the addresses of their storages */
    char name[96];                                  /* of the op that runs */
    int last_update;
    bool failed, lenient;                           /* lenient: what cannot be replayed runs, and `why` is kept */
    bool tries_backward;                            /* cotangents are made up: nothing of the user's may see them */
    char why_op[96], why[400];
    char threads_op[96], threads[400];              /* the same where another thread takes part; under all_lock */
    int n_in; const cr_tensor **in;                 /* retained until the end */
    struct recording *next;
} recording;

static _Thread_local recording *mine;
static recording *all;                              /* under all_lock: storages may end on any thread */
static volatile int all_lock;
static atomic_uint next_id = 1;

static cr_status refuse(const char *op, const char *what, const char *instead) {
    const char *source = cr_source_now();
    mine->failed = true;
    if (mine->lenient && !mine->tries_backward) {
        if (*mine->why) return CR_OK;
        snprintf(mine->why_op, sizeof mine->why_op, "%s", op);
        snprintf(mine->why, sizeof mine->why, "%s while a step is recorded%s%s%s: %s", what,
                 *source ? " (" : "", source, *source ? ")" : "", instead);
        return CR_OK;
    }
    return cr_fail(CR_RUNTIME, op, "%s while a step is recorded%s%s%s: %s", what, *source ? " (" : "", source,
                   *source ? ")" : "", instead);
}

cr_status cr_record_refuse(const char *op, const char *why) {
    recording *r = mine;
    if (!r) return CR_OK;
    r->failed = true;
    if (!r->lenient || r->tries_backward) return cr_fail(CR_RUNTIME, op, "%s", why);
    if (*r->why) return CR_OK;
    snprintf(r->why_op, sizeof r->why_op, "%s", op);
    snprintf(r->why, sizeof r->why, "%s", why);
    return CR_OK;
}

/* list[n] exists afterwards. */
#define GROW(list, n, room) cr_grow(&(list), (n) + 1, room, sizeof *(list))

/* ---- storages and their numbers */
static uint64_t key_of(const cr_storage *s) { return (uintptr_t)s; }

static int known(const recording *r, const cr_storage *s) {
    const uint64_t *number = cr_table_find(&r->numbers, key_of(s));
    return number ? (int)*number : -1;
}

static void forget(recording *r, const cr_storage *s) {
    if (known(r, s) >= 0) r->plan->buffers[cr_table_take(&r->numbers, key_of(s))].storage = NULL;
}

/* ---- other threads.  A recording sees kernels of its own thread only, so it must not use results of others, nor they
 * its. */
#define CR_ELSEWHERE (1u << 31)                   /* storages that began there: this + recordings begun by then */

static unsigned elsewhere(void) { return mine ? 0 : CR_ELSEWHERE + atomic_load(&next_id); }

static void mixes(unsigned id, const char *op) {
    const char *source = cr_source_now();
    cr_word_lock(&all_lock);
    for (recording *r = all; r; r = r->next) {
        if (r->id != id || *r->threads) continue;
        snprintf(r->threads_op, sizeof r->threads_op, "%s", op);
        snprintf(r->threads, sizeof r->threads, "another thread takes part in a step that is recorded%s%s%s: compute "
                 "everything on one thread, or move it out of the step",
                 *source ? " (" : "", source, *source ? ")" : "");
    }
    cr_word_unlock(&all_lock);
}

static void touches(const char *op, const cr_storage *s) {
    if (!mine || mine->id != s->born) mixes(s->born, op);
}

static cr_status one_thread(const recording *r) {
    cr_word_lock(&all_lock);
    const bool mixed = *r->threads;
    cr_word_unlock(&all_lock);
    return mixed ? cr_fail(CR_RUNTIME, r->threads_op, "%s", r->threads) : CR_OK;
}

static void storage_ends(cr_storage *s) {
    cr_word_lock(&all_lock);
    for (recording *r = all; r; r = r->next)
        if (r->id == s->born) forget(r, s);
    cr_word_unlock(&all_lock);
}

static int add_buffer(recording *r, cr_storage *s, cr_buffer_kind kind) {
    cr_plan *p = r->plan;
    if (!GROW(p->buffers, p->n_buffers, &p->buffer_room)) return -1;
    cr_word_lock(&all_lock);
    uint64_t *number = cr_table_add(&r->numbers, key_of(s));
    if (number) *number = (uint64_t)p->n_buffers;
    cr_word_unlock(&all_lock);
    if (!number) return -1;
    p->buffers[p->n_buffers] = (cr_buffer){.kind = kind, .dev = s->dev, .bytes = s->bytes, .storage = s};
    return p->n_buffers++;
}

static bool keeps(cr_buffer_kind kind) { return kind == CR_BUFFER_OUTSIDE || kind == CR_BUFFER_CONSTANT; }

static cr_step *new_step(cr_step **list, int *n, int64_t *room, cr_step_kind kind, size_t bytes) {
    if (!GROW(*list, *n, room)) return NULL;
    cr_step *s = &(*list)[*n];
    *s = (cr_step){.kind = kind, .kernel = -1, .draw = -1, .update = -1, .bytes = (uint32_t)bytes};
    if (bytes && !(s->args = calloc(1, bytes))) return NULL;
    (*n)++;
    return s;
}

static cr_array bytes_array(int buffer, const cr_device *dev, size_t at, size_t bytes) {
    const int64_t shape[] = {(int64_t)bytes};
    cr_array a = cr_array_of((cr_storage *)(intptr_t)(buffer + 1), dev, CR_U8, 1, shape);
    a.offset = (int64_t)at;
    return a;
}

static bool give_operands(cr_step *s, int n, const cr_operand *o) {
    s->operands = malloc((size_t)n * sizeof *o);
    if (s->operands) memcpy(s->operands, o, (size_t)n * sizeof *o);
    s->n_operands = s->operands ? n : 0;
    return s->operands;
}

/* A step that writes these bytes; src NULL: what the buffer holds now. */
static bool note_upload(recording *r, bool first, int buffer, size_t at, const void *src, size_t bytes) {
    cr_plan *p = r->plan;
    cr_buffer *b = &p->buffers[buffer];
    const size_t whole = sizeof(cr_upload_step) + bytes;
    cr_step *s = first ? new_step(&r->first, &r->n_first, &r->first_room, CR_STEP_UPLOAD, whole)
                       : new_step(&p->steps, &p->n_steps, &p->step_room, CR_STEP_UPLOAD, whole);
    if (!s) return false;
    cr_upload_step *u = (void *)s->args;
    *u = (cr_upload_step){.to = bytes_array(buffer, b->dev, at, bytes), .bytes = bytes};
    if (src) memcpy(u->data, src, bytes);
    else if (b->dev->download(b->dev, u->data, b->storage, at, bytes) != CR_OK) return false;
    return give_operands(s, 1, &(cr_operand){.buffer = buffer, .use = CR_WRITES, .at = offsetof(cr_upload_step, to),
                                             .low = (int64_t)at, .high = (int64_t)(at + bytes)});
}

/* The number of a storage that a kernel is about to read or write. */
static int number(void *ctx, cr_storage *s, int use) {
    recording *r = ctx;
    int i = known(r, s);
    if (i < 0) {
        const cr_buffer_kind kind = s->born != r->id    ? CR_BUFFER_OUTSIDE
                                    : use & CR_READS ? CR_BUFFER_CONSTANT
                                                     : CR_BUFFER_TEMPORARY;
        if ((i = add_buffer(r, s, kind)) < 0) return -1;
        if (keeps(kind)) cr_storage_retain(s);
        if (s->born > CR_ELSEWHERE + r->id) mixes(r->id, r->name);
    }
    cr_buffer *b = &r->plan->buffers[i];
    if (!(use & CR_WRITES)) return i;
    b->written = true;
    if (b->kind != CR_BUFFER_CONSTANT) return i;
    /* the host made it and the step changes it: each run starts with the same bytes */
    if (!note_upload(r, true, i, 0, NULL, b->bytes)) return -1;
    b = &r->plan->buffers[i];
    b->kind = CR_BUFFER_TEMPORARY;
    cr_storage_release(s);
    return i;
}

/* ---- kernels */
static bool find_draw(recording *r, cr_step *s) {
    const uint64_t *at = cr_step_seed(s);
    if (!at) return true;
    for (int i = 0; i < r->plan->n_draws; i++) {
        cr_draw *d = &r->plan->draws[i];
        if (d->seed != at[0] || d->counter != at[1]) continue;
        d->used = true;
        s->draw = i;
        return true;
    }
    return false;
}

/* The walks of a step read one list of params, which the plan owns. */
static bool own_params(recording *r, cr_step *s) {
    cr_plan *p = r->plan;
    int64_t n;
    const cr_walk *walks = cr_step_all_walks(s, &n);
    const int count = n ? walks[0].program->n_param : 0;
    if (!count) return true;
    double *own = malloc((size_t)count * sizeof *own);
    if (!own || !GROW(p->updates, p->n_updates, &r->update_room)) {
        free(own);
        return false;
    }
    memcpy(own, walks[0].params, (size_t)count * sizeof *own);
    for (int64_t i = 0; i < n; i++) ((cr_walk *)(uintptr_t)&walks[i])->params = own;
    p->updates[p->n_updates] = (cr_update_params){.n = count, .of = own};
    s->update = r->last_update = p->n_updates++;
    return true;
}

/* The trial of a backward pass must leave what was there before it: the pass itself may never begin. */
static cr_status check_trial(const recording *r) {
    const cr_step *s = &r->plan->steps[r->plan->n_steps - 1];
    for (int i = 0; r->tries_backward && i < s->n_operands; i++) {
        const cr_buffer_kind kind = r->plan->buffers[s->operands[i].buffer].kind;
        if (s->operands[i].use & CR_WRITES && (kind == CR_BUFFER_OUTSIDE || kind == CR_BUFFER_INPUT))
            return refuse(r->name, "a backward pass that has not begun would write a tensor from outside",
                          "compile the step with its backward pass");
    }
    return CR_OK;
}

static cr_status note_kernel(recording *r, int kernel, cr_kernel_run run, const void *args) {
    cr_plan *p = r->plan;
    if (cr_kernel_counts(kernel, args))
        return refuse(r->name, "the number of results depends on values, which are read",
                      "use where() or multiply by the mask, or move it out of the step");
    cr_step *s = new_step(&p->steps, &p->n_steps, &p->step_room, CR_STEP_KERNEL, 0);
    if (!s) return cr_no_memory("record");
    s->run = run;
    if (cr_step_fill(s, kernel, args, number, r) != CR_OK || !own_params(r, s) || !(s->name = cr_joined(r->name, "")))
        return cr_no_memory("record");
    bool **done = cr_kernel_done(kernel, s->args);
    if (done) *done = NULL;
    if (find_draw(r, s)) return check_trial(r);
    return refuse(r->name, "random numbers are drawn with a seed that is set", "seed the generator before the step");
}

static cr_status watch_kernel(int kernel, cr_kernel_run run, const void *args) {
    recording *r = mine;
    cr_modes.recording = 0;
    const int before = r->plan->n_steps;
    cr_status status = r->failed ? CR_OK : note_kernel(r, kernel, run, args);
    if (status == CR_OK) status = run(args);
    bool **done = cr_kernel_done(kernel, args);
    if (done && *done && !**done && r->plan->n_steps > before) cr_step_free(&r->plan->steps[--r->plan->n_steps]);
    if (status != CR_OK) r->failed = true;
    cr_modes.recording = r->id;
    return status;
}

/* ---- what else happens below the ops */
static cr_status watch_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    recording *r = mine;
    cr_modes.recording = 0;
    int i = known(r, dst);
    bool ok;
    cr_status noted = CR_OK;
    if (i >= 0 || dst->born != r->id) {             /* else a constant, if it is read first */
        i = number(r, dst, CR_WRITES);
        ok = i >= 0 && note_upload(r, false, i, at, src, bytes);
        noted = ok ? check_trial(r) : cr_no_memory("record");
    }
    cr_status status = noted == CR_OK ? d->upload(d, dst, at, src, bytes) : noted;
    cr_modes.recording = r->id;
    return status;
}

/* Values that the host made may be read: plain numbers. */
static cr_status watch_download(const char *op, const cr_storage *src) {
    const int i = known(mine, src);
    if (i >= 0 ? mine->plan->buffers[i].kind == CR_BUFFER_CONSTANT : src->born == mine->id) return CR_OK;
    return refuse(op, "the value of a tensor is read", "return the tensor, and read it after the step");
}

static bool note_transfer(recording *r, cr_storage *to, size_t to_at, cr_storage *from, size_t at, size_t bytes) {
    cr_plan *p = r->plan;
    const int source = number(r, from, CR_READS), target = number(r, to, CR_WRITES);
    if (source < 0 || target < 0) return false;
    cr_step *s = new_step(&p->steps, &p->n_steps, &p->step_room, CR_STEP_TRANSFER, sizeof(cr_transfer));
    if (!s || !(s->name = cr_joined(r->name, ""))) return false;
    *(cr_transfer *)(void *)s->args = (cr_transfer){.to = bytes_array(target, to->dev, to_at, bytes),
                                                    .from = bytes_array(source, from->dev, at, bytes),
                                                    .bytes = bytes};
    const cr_operand o[] = {{.buffer = source, .use = CR_READS, .at = offsetof(cr_transfer, from), .low = (int64_t)at,
                             .high = (int64_t)(at + bytes)},
                            {.buffer = target, .use = CR_WRITES, .at = offsetof(cr_transfer, to), .low = (int64_t)to_at,
                             .high = (int64_t)(to_at + bytes)}};
    return give_operands(s, 2, o);
}

static cr_status watch_transfer(cr_storage *to, size_t to_at, cr_storage *from, size_t at, size_t bytes) {
    recording *r = mine;
    cr_modes.recording = 0;
    const bool noted = note_transfer(r, to, to_at, from, at, bytes);
    const cr_status status = noted ? cr_move_bytes(to, to_at, from, at, bytes) : cr_no_memory("record");
    cr_modes.recording = r->id;
    return status;
}

static void watch_drew(cr_generator *g, uint64_t seed, uint64_t counter, uint64_t blocks) {
    recording *r = mine;
    if (!blocks) return;
    if (!GROW(r->plan->draws, r->plan->n_draws, &r->draw_room)) { r->failed = true; return; }
    r->plan->draws[r->plan->n_draws++] = (cr_draw){.g = cr_generator_retain(g), .seed = seed, .counter = counter,
                                                   .blocks = blocks};
}

static void watch_seeded(cr_generator *g) {
    recording *r = mine;
    if (!GROW(r->plan->draws, r->plan->n_draws, &r->draw_room)) { r->failed = true; return; }
    r->plan->draws[r->plan->n_draws++] = (cr_draw){.g = cr_generator_retain(g), .used = true, .sets = true};
}

static void watch_named(const char *kind, const char *name) {
    snprintf(mine->name, sizeof mine->name, "%s%s", strcmp(kind, "backward") ? "" : "backward of ", name);
}

static int input_of(const recording *r, const cr_tensor *t) {
    for (int i = 0; i < r->n_in; i++)
        if (r->in[i] == t) return i;
    return -1;
}

static void note_read(recording *r, cr_tensor *t, bool graded, bool by_op) {
    cr_plan *p = r->plan;
    int k = p->n_reads;
    while (k > 0 && p->reads[k - 1].tensor != t) k--;
    if (k > 0) p->reads[k - 1].graded |= graded, p->reads[k - 1].by_op |= by_op;
    else if (!GROW(p->reads, p->n_reads, &r->read_room)) r->failed = true;
    else p->reads[p->n_reads++] = (cr_leaf_read){.tensor = cr_retain(t), .graded = graded, .by_op = by_op};
}

/* Notes leaves from outside that ops read, but not inputs and what shares their memory. */
static void watch_reads(int n, const cr_tensor *const *in) {
    recording *r = mine;
    for (int i = 0; i < n; i++) {
        cr_tensor *t = (cr_tensor *)(uintptr_t)in[i];
        if (t == CR_NONE || !t->storage || t->storage->born == r->id || !cr_is_leaf(t)) continue;
        const int k = known(r, t->storage);
        if (k >= 0 && r->plan->buffers[k].kind == CR_BUFFER_INPUT) continue;
        note_read(r, t, cr_grad_enabled() && cr_dtype_is_float(t->dtype), true);
    }
}

/* By which handles does the step write?  Those may have version counters of their own, as x.data has. */
static void note_write(recording *r, const cr_tensor *t) {
    cr_plan *p = r->plan;
    const int k = t->storage && t->storage->born != r->id ? known(r, t->storage) : -1;
    if (k < 0) return;
    for (int i = 0; i < r->n_in; i++) {
        if (p->inputs[i].buffer != k || r->in[i]->counter != t->counter) continue;
        p->inputs[i].counts = true;
        return;
    }
    if (!t->counter) { p->buffers[k].counts = true; return; }
    for (int i = 0; i < p->n_counters; i++)
        if (p->counters[i] == t->counter) return;
    if (!GROW(p->counters, p->n_counters, &r->counter_room)) { r->failed = true; return; }
    p->counters[p->n_counters++] = cr_counter_retain(t->counter);
}

static void watch_writes(int n, cr_tensor *const *out) {
    for (int i = 0; i < n; i++) note_write(mine, out[i]);
}

static bool add_input(recording *r, const cr_tensor *t);

/* The gradient of t before the step: an input that each run looks up.  -1: none. */
static int slot_of(recording *r, const cr_tensor *t) {
    const cr_tensor *g = cr_grad_now(t);
    if (g == CR_NONE) return -1;
    const int at = input_of(r, g);
    if (at >= 0) return at;
    if (!add_input(r, g)) r->failed = true;
    return r->failed ? -1 : r->plan->n_inputs - 1;
}

/* What the step does first with the gradient of t decides where a run takes it from. */
static cr_leaf *leaf_of(recording *r, cr_tensor *t, bool sets) {
    cr_plan *p = r->plan;
    for (int i = 0; i < p->n_leaves; i++)
        if (p->leaves[i].tensor == t) return &p->leaves[i];
    if (!GROW(p->leaves, p->n_leaves, &r->leaf_room)) { r->failed = true; return NULL; }
    p->leaves[p->n_leaves] = (cr_leaf){.tensor = cr_retain(t), .input = input_of(r, t), .sets = sets,
                                       .slot = sets ? -1 : slot_of(r, t), .buffer = -1};
    return &p->leaves[p->n_leaves++];
}

/* Not that of a tensor which began in the step. */
static void watch_reads_grad(cr_tensor *t) {
    if (cr_is_leaf(t) && t->storage->born != mine->id) leaf_of(mine, t, false);
}

/* A walk reaches what was there before the step: its hooks are none, or else the recording is refused by calls_back.
 * The results of a differentiable plan are those of one function, and the walk from there runs the hooks of leaves. */
static cr_status watch_visits(cr_node *n) {
    recording *r = mine;
    cr_plan *p = r->plan;
    if (n->seq >= r->since || (r->tries_backward && !n->op)) return CR_OK;
    for (int i = 0; i < r->n_in; i++) {
        if (r->in[i]->node != n) continue;
        p->inputs[i].walked |= !r->tries_backward;
        return CR_OK;
    }
    for (int i = 0; i < p->n_visited; i++)
        if (p->visited[i] == n) return CR_OK;
    if (!GROW(p->visited, p->n_visited, &r->visited_room)) return cr_no_memory("record");
    p->visited[p->n_visited++] = cr_node_retain(n);
    return CR_OK;
}

static cr_status watch_recomputes(const char *op) {
    if (!mine->tries_backward) return CR_OK;
    return refuse(op, "the user's code would run for a backward pass that has not begun",
                  "compile the step with its backward pass");
}

cr_status cr_record_recomputes(const char *op) { return mine ? watch_recomputes(op) : CR_OK; }

static cr_status changes_grad(cr_tensor *t, bool sets) {
    if (mine->tries_backward)
        return refuse("record", "a gradient is set or added to behind the results", "call the function itself");
    leaf_of(mine, t, sets);
    return CR_OK;
}

static cr_status watch_collects(cr_tensor *t) { return changes_grad(t, false); }
static cr_status watch_sets_grad(cr_tensor *t) { return changes_grad(t, true); }

static cr_status watch_calls_back(const char *what) {
    char text[96];
    snprintf(text, sizeof text, "%s would run", what);
    return refuse("record", text, "a replay runs kernels only: remove the hook, or compute its work in the step");
}

__attribute__((constructor)) static void own_table(void) {
    cr_watch_table = (cr_watch){
        .kernel = watch_kernel, .upload = watch_upload, .download = watch_download, .transfer = watch_transfer,
        .drew = watch_drew, .seeded = watch_seeded, .named = watch_named, .reads = watch_reads,
        .writes = watch_writes,
        .visits = watch_visits, .recomputes = watch_recomputes, .reads_grad = watch_reads_grad,
        .collects = watch_collects, .sets_grad = watch_sets_grad,
        .calls_back = watch_calls_back, .ends = storage_ends, .elsewhere = elsewhere, .touches = touches,
    };
}

/* ---- forks: the child has no thread but one, whose recording another may just have been changing */
static void in_child(void) {
    for (recording *r = all; r; r = r->next)
        if (r != mine) atomic_fetch_sub(&cr_slow_path, 1);
    all = mine;
    if (mine) {
        mine->next = NULL;
        mine->failed = true;
        snprintf(mine->why_op, sizeof mine->why_op, "record");
        snprintf(mine->why, sizeof mine->why, "the process forks while a step is recorded");
    }
}
__attribute__((constructor)) static void watch_forks(void) { cr_os_at_fork_child(in_child); }

/* ---- begin */
static void stop(recording *r) {
    cr_modes.recording = 0;
    atomic_fetch_sub(&cr_slow_path, 1);
    cr_word_lock(&all_lock);
    recording **at = &all;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    cr_word_unlock(&all_lock);
    mine = NULL;
}

static void discard(recording *r) {
    for (int i = 0; i < r->n_first; i++) cr_step_free(&r->first[i]);
    free(r->first);
    for (int i = 0; i < r->n_in; i++) cr_drop(r->in[i]);
    free(r->in);
    cr_table_free(&r->numbers);
    if (r->plan) cr_plan_free(r->plan);
    free(r);
}

/* The layout of t, with its buffer. */
static bool describe_result(recording *r, const cr_tensor *t, int use, cr_result *to) {
    *to = (cr_result){.buffer = -1, .absent = true};
    if (t == CR_NONE) return true;
    const int i = number(r, t->storage, use);
    *to = (cr_result){.buffer = i, .array = t->array};
    to->array.storage = NULL;
    return i >= 0;
}

/* Memory that the step used before by another name keeps its slot: a run must give the same. */
static bool add_input(recording *r, const cr_tensor *t) {
    cr_plan *p = r->plan;
    cr_storage *const s = t->storage;
    if (!GROW(p->inputs, p->n_inputs, &r->input_room) || !GROW(r->in, r->n_in, &r->in_room)) return false;
    int k = known(r, s);
    const bool used = k >= 0 && p->buffers[k].kind != CR_BUFFER_INPUT;
    if (k < 0) k = add_buffer(r, s, CR_BUFFER_INPUT);
    if (k < 0) return false;
    if (used && keeps(p->buffers[k].kind)) cr_storage_release(s);
    p->buffers[k].kind = CR_BUFFER_INPUT;
    r->in[r->n_in++] = cr_retain(t);
    p->inputs[p->n_inputs] = (cr_result){.buffer = k, .array = t->array, .in_graph = cr_in_graph(t),
                                         .first = input_of(r, t)};
    p->inputs[p->n_inputs++].array.storage = used ? cr_storage_retain(s) : NULL;
    return true;
}

static cr_status add_inputs(recording *r, int n, const cr_tensor *const *inputs) {
    for (int i = 0; i < n; i++)
        if (!add_input(r, inputs[i])) return cr_no_memory("record");
    r->plan->n_given = n;
    return CR_OK;
}

void cr_record_captures(int n, const cr_tensor *const *tensors) {
    recording *r = mine;
    for (int k = 0; r && k < n; k++) {
        note_read(r, (cr_tensor *)(uintptr_t)tensors[k], true, false);
        for (int i = 0; i < r->n_in; i++) {
            cr_result *input = &r->plan->inputs[i];
            if (tensors[k]->storage != r->in[i]->storage || input->array.storage) continue;
            input->array.storage = cr_storage_retain(tensors[k]->storage);
        }
    }
}

bool cr_recording(void) { return mine != NULL; }
void cr_record_lenient(void) { if (mine) mine->lenient = true; }

cr_status cr_record_begin(int n, const cr_tensor *const *inputs) {
    if (mine)
        return cr_fail(CR_RUNTIME, "record_begin", "this thread already records a step: end or cancel it first");
    if (n < 0 || (n && !inputs)) return cr_fail_null("record_begin", "the inputs");
    for (int i = 0; i < n; i++) {
        if (cr_missing("record_begin", "an input", inputs[i])) return cr_error_status();
        if (inputs[i] == CR_NONE) return cr_fail(CR_BAD_VALUE, "record_begin", "input %d is CR_NONE", i);
    }
    recording *r = calloc(1, sizeof *r);
    if (!r || !(r->plan = calloc(1, sizeof *r->plan))) {
        free(r);
        return cr_no_memory("record");
    }
    atomic_init(&r->plan->refs, 1);
    r->id = atomic_fetch_add(&next_id, 1);
    r->last_update = -1;
    r->plan->no_grad = !cr_grad_enabled();
    r->plan->how = cr_product_how();
    r->since = cr_graph_mark();
    cr_autocast_clear();                            /* a weight's cast from before would be a constant of the plan */
    snprintf(r->name, sizeof r->name, "record");
    if (add_inputs(r, n, inputs) != CR_OK) { discard(r); return cr_error_status(); }
    cr_word_lock(&all_lock);
    r->next = all;
    all = r;
    cr_word_unlock(&all_lock);
    mine = r;
    atomic_fetch_add(&cr_slow_path, 1);
    cr_modes.recording = r->id;
    return CR_OK;
}

void cr_record_cancel(void) {
    recording *r = mine;
    if (!r) return;
    stop(r);
    discard(r);
}

cr_status cr_record_replay(cr_replay before, void *ctx, void (*done)(void *ctx)) {
    recording *r = mine;
    cr_status status = !r        ? cr_fail(CR_RUNTIME, "record_replay", "this thread records nothing")
                       : !before ? cr_fail_null("record_replay", "the function")
                                 : CR_OK;
    if (status == CR_OK && !GROW(r->plan->callbacks, r->plan->n_callbacks, &r->callback_room))
        status = cr_no_memory("record");
    if (status != CR_OK) {
        if (done) done(ctx);
        return status;
    }
    r->plan->callbacks[r->plan->n_callbacks++] = (cr_callback){before, ctx, done};
    return CR_OK;
}

/* The step of the host w, whose tensors these are. */
static bool note_host(recording *r, const cr_host_work *w, const cr_tensor *const *tensors) {
    cr_plan *p = r->plan;
    cr_step *s = new_step(&p->steps, &p->n_steps, &p->step_room, CR_STEP_HOST, cr_host_bytes(w->n, w->n_out));
    const int n = w->n + w->n_out, at = p->n_steps - 1;
    cr_operand *o = malloc(sizeof *o * (size_t)(n + 1));
    bool ok = s && o && (s->name = cr_joined("numbers", ""));
    if (s) s->operands = o;
    else free(o);
    cr_host_work *noted = s ? (void *)s->args : NULL;
    for (int i = 0; i < n && ok; i++) {
        const cr_array *a = &tensors[i]->array;
        const int use = i < w->n ? CR_READS : CR_WRITES, buffer = number(r, a->storage, use);
        const int64_t size = (int64_t)cr_dtype_size(a->dtype);
        noted->arrays[i] = *a;
        noted->arrays[i].storage = (cr_storage *)(intptr_t)(buffer + 1);
        o[i] = (cr_operand){.buffer = buffer, .use = (uint8_t)use, .low = a->offset * size,
                            .high = (a->offset + 1) * size, .at = (uint32_t)((char *)&noted->arrays[i] - s->args)};
        ok = buffer >= 0;
        s = &p->steps[at];
        s->n_operands = i + 1;
    }
    if (ok) *noted = *w;                            /* from here on the step calls done */
    return ok;
}

/* A recording that has failed has no more steps, but keeps what done frees until it ends: the step goes on. */
static bool keep_context(recording *r, const cr_host_work *w) {
    cr_plan *p = r->plan;
    if (!GROW(p->callbacks, p->n_callbacks, &r->callback_room)) return false;
    p->callbacks[p->n_callbacks++] = (cr_callback){NULL, w->ctx, w->done};
    return true;
}

/* noted: the recording calls done. */
static cr_status host_step(cr_host_work *w, const cr_tensor *const *tensors, bool *noted) {
    recording *r = mine;
    const int n = w->n + w->n_out;
    for (int i = 0; i < n; i++) {
        if (cr_missing("record_host", "a tensor", tensors[i])) return cr_error_status();
        if (tensors[i] == CR_NONE || tensors[i]->numel != 1)
            return cr_fail(CR_BAD_VALUE, "record_host", "tensor %d has not one element", i);
        w->arrays[i] = tensors[i]->array;
    }
    if (r) cr_modes.recording = 0;
    if (r) *noted = r->failed ? keep_context(r, w) : note_host(r, w, tensors);
    cr_status status = !r || *noted ? CR_OK : cr_no_memory("record");
    if (status == CR_OK) status = cr_host_run(NULL, w);
    for (int i = w->n; i < n; i++) {
        cr_count_write(tensors[i]);
        if (r) note_write(r, tensors[i]);
    }
    if (!r) return status;
    cr_modes.recording = r->id;
    r->failed |= status != CR_OK;
    return status;
}

cr_status cr_record_host(int n, const cr_tensor *const *in, int n_out, cr_tensor *const *out, cr_host_step f,
                         void *ctx, void (*done)(void *ctx)) {
    static const char op[] = "record_host";
    bool noted = false;
    cr_status status = CR_OK;
    if (!f) status = cr_fail_null(op, "the function");
    else if (n < 0 || n_out < 0) status = cr_fail(CR_BAD_VALUE, op, "fewer than no tensors");
    else if ((n && !in) || (n_out && !out)) status = cr_fail_null(op, "the tensors");
    const cr_tensor **tensors = status == CR_OK ? malloc(sizeof *tensors * (size_t)(n + n_out + 1)) : NULL;
    cr_host_work *w = status == CR_OK ? malloc(cr_host_bytes(n, n_out)) : NULL;
    if (status == CR_OK && (!tensors || !w)) status = cr_no_memory("record");
    if (status == CR_OK) {
        *w = (cr_host_work){.n = n, .n_out = n_out, .f = f, .ctx = ctx, .done = done};
        for (int i = 0; i < n; i++) tensors[i] = in[i];
        for (int i = 0; i < n_out; i++) tensors[n + i] = out[i];
        status = host_step(w, tensors, &noted);
    }
    free(tensors);
    free(w);
    if (!noted && done) done(ctx);
    return status;
}

int cr_record_params(void) {
    recording *r = mine;
    if (!r || r->last_update < 0) return -1;
    r->plan->updates[r->last_update].live = true;
    return r->last_update;
}

/* ---- end: outputs, and the backward pass where they are in a graph */

static cr_result *results(int n) { return calloc((size_t)n + 1, sizeof(cr_result)); }

/* The tensors that the backward pass of the step gives gradients: inputs in a graph, then leaves from outside. */
static cr_status find_leaves(recording *r, int n_in, const cr_tensor *const *in, int n_out,
                             const cr_tensor *const *outputs) {
    cr_plan *p = r->plan;
    cr_node **stops = malloc(sizeof *stops * (size_t)(n_in + 1)), **roots = malloc(sizeof *roots * (size_t)(n_out + 1));
    int n_stops = 0, n_roots = 0;
    cr_status status = stops && roots ? CR_OK : cr_no_memory("record");
    for (int i = 0; i < n_in && status == CR_OK; i++)
        if (p->inputs[i].in_graph) stops[n_stops++] = in[i]->node;
    for (int i = 0; i < n_out && status == CR_OK; i++)
        if (outputs[i] != CR_NONE && cr_in_graph(outputs[i])) roots[n_roots++] = outputs[i]->node;
    bool whole = false;
    if (status == CR_OK && n_roots)
        status = cr_graph_leaves(n_roots, roots, n_stops, stops, &p->n_captured, &p->captured, &whole);
    for (int i = 0; i < n_out && status == CR_OK; i++)
        p->outputs[i].in_graph = whole && outputs[i] != CR_NONE && cr_in_graph(outputs[i]);
    free(stops);
    free(roots);
    return status;
}

/* The step's results in a graph, with cotangents that each run is given. */
typedef struct cotangents { int n; const cr_tensor **of, **given; } cotangents;

static cr_status make_cotangents(recording *r, int n, const cr_tensor *const *outputs, cotangents *c) {
    cr_plan *p = r->plan;
    c->of = calloc((size_t)n + 1, sizeof *c->of);
    c->given = calloc((size_t)n + 1, sizeof *c->given);
    p->cotangents = results(n);
    if (!c->of || !c->given || !p->cotangents) return cr_no_memory("record");
    for (int i = 0; i < n; i++, p->n_cotangents++) {
        p->cotangents[i] = (cr_result){.buffer = -1, .absent = true};
        if (!p->outputs[i].in_graph) continue;
        cr_modes.recording = 0;
        cr_tensor *g = cr_ones_like(outputs[i]);
        cr_modes.recording = r->id;
        if (!g) return cr_error_status();
        const int k = add_buffer(r, g->storage, CR_BUFFER_INPUT);
        if (k < 0) return cr_no_memory("record");
        p->cotangents[i] = (cr_result){.buffer = k, .array = g->array};
        p->cotangents[i].array.storage = NULL;
        c->of[c->n] = outputs[i];
        c->given[c->n++] = g;
    }
    return CR_OK;
}

static cr_status record_gradients(recording *r, int n_in, const cr_tensor *const *in, const cotangents *c) {
    cr_plan *p = r->plan;
    int n = 0, n_ends = 0;
    const cr_tensor **of = malloc(sizeof *of * (size_t)(n_in + p->n_captured + 1));
    cr_tensor **grads = calloc((size_t)(n_in + p->n_captured) + 1, sizeof *grads);
    p->gradients = results(n_in + p->n_captured);
    cr_status status = of && grads && p->gradients ? CR_OK : cr_no_memory("record");
    for (int i = 0; i < n_in && status == CR_OK; i++)
        if (cr_takes_gradient(p, i)) of[n++] = in[i];
    n_ends = n;
    for (int i = 0; i < p->n_captured && status == CR_OK; i++) of[n++] = p->captured[i];
    /* the graph stays: the caller may walk it from the results of this very run */
    if (status == CR_OK && n)
        status = cr_gradients_between(c->n, c->of, c->given, n, of, n_ends, grads,
                                      &(cr_backward_options){.retain_graph = true});
    p->n_gradients = n_in + p->n_captured;
    for (int i = 0, k = 0; i < p->n_gradients && status == CR_OK; i++) {
        const bool absent = i < n_in && !cr_takes_gradient(p, i);
        if (!describe_result(r, absent ? CR_NONE : grads[k++], CR_READS, &p->gradients[i]))
            status = cr_no_memory("record");
    }
    free(of);
    free(grads);
    return status;
}

/* The backward pass of the results that are in a graph follows the step. */
static cr_status record_backward(recording *r, int n_in, const cr_tensor *const *in, int n,
                                 const cr_tensor *const *outputs) {
    cr_plan *p = r->plan;
    bool any = false;
    cr_status status = find_leaves(r, n_in, in, n, outputs);
    p->split = p->n_steps;
    for (int i = 0; i < n; i++) any |= p->outputs[i].in_graph;
    if (status != CR_OK || !any) return status;
    cotangents c = {0};
    cr_scope_begin();
    status = make_cotangents(r, n, outputs, &c);
    r->tries_backward = true;
    if (status == CR_OK) status = record_gradients(r, n_in, in, &c);
    r->tries_backward = false;
    cr_scope_end();
    free(c.of);
    free(c.given);
    return status;
}

static cr_status place_outputs(recording *r, int n, const cr_tensor *const *outputs) {
    cr_plan *p = r->plan;
    if (!(p->outputs = results(n))) return cr_no_memory("record");
    for (int i = 0; i < n; i++, p->n_outputs++)
        if (!describe_result(r, outputs[i], CR_READS, &p->outputs[i])) return cr_no_memory("record");
    return CR_OK;
}

/* Where the gradients of leaves are in the end. */
static cr_status place_leaves(recording *r) {
    cr_plan *p = r->plan;
    for (int i = 0; i < p->n_leaves; i++) {
        cr_result at;
        cr_leaf *leaf = &p->leaves[i];
        const cr_tensor *g = cr_grad_now(leaf->tensor);
        if (!describe_result(r, g, CR_READS, &at)) return cr_no_memory("record");
        leaf->buffer = at.buffer;
        leaf->keeps = !leaf->sets && g == (leaf->slot < 0 ? CR_NONE : r->in[leaf->slot]);
        p->leaves[i].grad = at.array;
    }
    return CR_OK;
}

static void becomes_output(cr_plan *p, int buffer) {
    if (buffer >= 0 && p->buffers[buffer].kind == CR_BUFFER_TEMPORARY) p->buffers[buffer].kind = CR_BUFFER_OUTPUT;
}

static bool lies_in(const cr_operand *o, const cr_array *a) {
    cr_operand whole;
    cr_reach(a->ndim, a->shape, a->strides, a->offset, a->dtype, &whole);
    return whole.low <= o->low && o->high <= whole.high;
}

/* Where the step uses a storage outside of the inputs that share it, as with a row and the whole of a matrix, they
 * keep it. */
static void keep_shared(recording *r, const cr_operand *o) {
    cr_plan *p = r->plan;
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].buffer == o->buffer && lies_in(o, &p->inputs[i].array)) return;
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].buffer == o->buffer && !p->inputs[i].array.storage)
            p->inputs[i].array.storage = cr_storage_retain(r->in[i]->storage);
}

/* The same for a result that is a part of an input. */
static void keep_result(recording *r, const cr_result *result) {
    const cr_array *a = &result->array;
    cr_operand o = {.buffer = result->buffer};
    if (result->buffer < 0 || r->plan->buffers[result->buffer].kind != CR_BUFFER_INPUT) return;
    cr_reach(a->ndim, a->shape, a->strides, a->offset, a->dtype, &o);
    keep_shared(r, &o);
}

/* Those of handles that the step itself has made and dropped are of no use. */
static void end_counters(cr_plan *p) {
    int n = 0;
    for (int i = 0; i < p->n_counters; i++)
        if (atomic_load(&p->counters[i]->refs) > 1) p->counters[n++] = p->counters[i];
        else cr_counter_release(p->counters[i]);
    p->n_counters = n;
}

/* What leaves the step is new in each run.  Everything else that began in it must have ended. */
static void mark_outputs(recording *r) {
    cr_plan *p = r->plan;
    for (int i = 0; i < p->n_outputs; i++) becomes_output(p, p->outputs[i].buffer);
    for (int i = 0; i < p->n_gradients; i++) becomes_output(p, p->gradients[i].buffer);
    for (int i = 0; i < p->n_leaves; i++) becomes_output(p, p->leaves[i].buffer);
    for (int i = 0; i < p->n_buffers; i++) {
        cr_buffer *b = &p->buffers[i];
        /* with a graph that its results keep, what it saved cannot be told from what leaked */
        if (b->kind == CR_BUFFER_TEMPORARY && b->storage && !p->n_cotangents) p->escaped++;
        if (!keeps(b->kind)) b->storage = NULL;
    }
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++) {
            const cr_operand *o = &p->steps[i].operands[k];
            if (o->low < o->high) keep_shared(r, o);
        }
    for (int i = 0; i < p->n_outputs; i++) keep_result(r, &p->outputs[i]);
    for (int i = 0; i < p->n_leaves; i++)
        keep_result(r, &(cr_result){.buffer = p->leaves[i].buffer, .array = p->leaves[i].grad});
    for (int i = 0; i < p->n_reads; i++) p->reads[i].in_graph = cr_in_graph(p->reads[i].tensor);
    for (int i = 0; i < p->n_leaves; i++) {
        if (p->leaves[i].input < 0) continue;
        cr_drop(p->leaves[i].tensor);
        p->leaves[i].tensor = NULL;
    }
}

/* The caller has what the recording returned, and may write there: a constant among it becomes a copy. */
static cr_status copy_constant(cr_plan *p, int buffer) {
    cr_buffer *b = buffer < 0 ? NULL : &p->buffers[buffer];
    if (!b || b->kind != CR_BUFFER_CONSTANT) return CR_OK;
    cr_storage *own = b->dev->allocate(b->dev, b->bytes);
    if (!own) return cr_error_status();
    const cr_status status = cr_move_bytes(own, 0, b->storage, 0, b->bytes);
    cr_storage_release(b->storage);
    b->storage = own;
    return status;
}

static cr_status copy_constants(cr_plan *p) {
    cr_status status = CR_OK;
    for (int i = 0; i < p->n_outputs && status == CR_OK; i++) status = copy_constant(p, p->outputs[i].buffer);
    for (int i = 0; i < p->n_gradients && status == CR_OK; i++) status = copy_constant(p, p->gradients[i].buffer);
    for (int i = 0; i < p->n_leaves && status == CR_OK; i++) status = copy_constant(p, p->leaves[i].buffer);
    return status;
}

/* Does only the plan hold the generator: did the step make it? */
static bool is_ours(const cr_plan *p, const cr_generator *g) {
    int ours = 0;
    for (int k = 0; k < p->n_draws; k++) ours += p->draws[k].g == g;
    return cr_generator_refs(g) <= ours;
}

static cr_status check_draws(const recording *r) {
    for (int i = 0; i < r->plan->n_draws; i++) {
        const cr_draw *d = &r->plan->draws[i];
        if (!d->used)
            return refuse("record", "random numbers are drawn on the host", "draw them before the step, as an input");
        if (d->sets && !is_ours(r->plan, d->g))
            return refuse("record", "a generator is given a seed or a state", "seed it before the step");
    }
    return CR_OK;
}

/* A generator that the step made and freed gives the same numbers in each run. */
static void fix_draws(cr_plan *p) {
    for (int i = 0; i < p->n_draws; i++) {
        cr_generator *g = p->draws[i].g;
        if (!g || !is_ours(p, g)) continue;
        for (int k = i; k < p->n_draws; k++) {
            if (p->draws[k].g != g) continue;
            p->draws[k].g = NULL;
            cr_generator_free(g);
        }
    }
}

/* Uploads of constants that the step changes come first. */
static cr_status put_first(recording *r) {
    cr_plan *p = r->plan;
    if (!r->n_first) return CR_OK;
    if (!cr_grow(&p->steps, r->n_first + p->n_steps, &p->step_room, sizeof *p->steps)) return cr_no_memory("record");
    memmove(p->steps + r->n_first, p->steps, sizeof *p->steps * (size_t)p->n_steps);
    memcpy(p->steps, r->first, sizeof *p->steps * (size_t)r->n_first);
    p->n_steps += r->n_first;
    p->split += r->n_first;
    r->n_first = 0;
    return CR_OK;
}

/* In a run, a backward pass inside the step would go on through the graph that the input of that run comes from. */
static cr_status check_inner_backward(const recording *r) {
    for (int i = 0; i < r->n_in; i++)
        if (r->plan->inputs[i].walked && !cr_is_leaf(r->in[i]))
            return refuse("record", "backward() runs with an input that is the result of an op", "detach the input");
    return CR_OK;
}

static cr_status finish_recording(recording *r, int n, const cr_tensor *const *outputs) {
    if (*r->why) return cr_fail(CR_RUNTIME, r->why_op, "%s", r->why);
    if (r->failed) return cr_error() ? cr_error_status() : cr_no_memory("record");
    for (int i = 0; i < n; i++)
        if (cr_missing("record_end", "an output", outputs[i])) return cr_error_status();
    cr_status status = place_outputs(r, n, outputs);
    if (status == CR_OK) status = check_inner_backward(r);
    if (status == CR_OK) status = record_backward(r, r->n_in, r->in, n, outputs);
    if (status == CR_OK) status = place_leaves(r);
    if (status == CR_OK) status = check_draws(r);
    if (status == CR_OK && *r->why) return cr_fail(CR_RUNTIME, r->why_op, "%s", r->why);
    if (status == CR_OK) status = one_thread(r);
    if (status == CR_OK) status = put_first(r);
    if (status == CR_OK && r->failed) status = cr_no_memory("record");
    return status;
}

cr_plan *cr_record_end(int n, const cr_tensor *const *outputs) {
    recording *r = mine;
    if (!r) return cr_fail(CR_RUNTIME, "record_end", "this thread records nothing"), NULL;
    cr_autocast_clear();                            /* nor do casts of the step live on */
    cr_status status = n < 0 || (n && !outputs) ? cr_fail_null("record_end", "the outputs")
                                                : finish_recording(r, n, outputs);
    cr_plan *p = r->plan;
    stop(r);
    if (status == CR_OK) {
        mark_outputs(r);
        end_counters(p);
        fix_draws(p);
        status = copy_constants(p);
        if (status == CR_OK) status = cr_plan_prepare(p);
        r->plan = NULL;
        if (status != CR_OK) cr_plan_free(p);
    }
    discard(r);
    return status == CR_OK ? p : NULL;
}
