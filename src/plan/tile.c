/* tile.c - groups of kernels that run tile by tile: each tile of their common rows passes through all of them while it
 * is in the cache, and a buffer that only the group uses exists as a tile.
 *
 * The kernels are the same as elsewhere, called on parts of their arrays.  Kernels qualify whose rows do not depend on
 * each other, so the bits do not depend on the tiles. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "../core/pool.h"

enum {
    LEAST = 1 << 14,                                /* elements: smaller steps stay in the cache anyway */
    TILE_BYTES = 128 << 10,                         /* of all that a tile touches: half of a small second-level cache */
    TILE_LEAST = 4096,                              /* elements of a tile, if its bytes allow */
    UNIT_MOST = 1 << 16,                            /* elements of a row */
    CHUNKS = 64                                     /* of a group, for the threads */
};

/* ---- how a kernel goes over its rows: element t of `numel` belongs to unit t / unit; operand k advances by step[k]
 * elements with each unit, 0: all units read the same */
typedef struct rows {
    int64_t numel, unit;
    int64_t step[CR_MAX_OUTPUTS + CR_MAX_INPUTS];
    bool dense[CR_MAX_OUTPUTS + CR_MAX_INPUTS];     /* the unit's elements lie within its step */
    int64_t each[CR_MAX_OUTPUTS + CR_MAX_INPUTS];   /* elements t for each index of an array's first axis; 0: its shape
                                                     * is that of the whole in each tile */
} rows;

static bool walk_rows(const cr_step *s, rows *r) {
    const cr_elementwise_args *a = cr_step_walks(s);
    const cr_walk *w = a->walks;
    if (a->count != 1 || w->ndim < 1 || w->numel < 1) return false;
    r->numel = w->numel;
    r->unit = w->numel / w->shape[0];
    for (int k = 0; k < s->n_operands; k++) {
        const cr_arg *arg = cr_step_arg(s, &s->operands[k]);
        int64_t reach = 0;
        bool forwards = arg->strides[0] >= 0;
        for (int d = 1; d < w->ndim; d++) {
            forwards &= arg->strides[d] >= 0;
            reach += (w->shape[d] - 1) * arg->strides[d];
        }
        r->step[k] = arg->strides[0];
        r->dense[k] = forwards && reach < arg->strides[0];
    }
    return true;
}

/* Arrays whose first axis counts the units. */
static bool array_rows(const cr_step *s, int64_t M, int64_t unit, rows *r) {
    r->numel = M * unit;
    r->unit = unit;
    for (int k = 0; k < s->n_operands; k++) {
        const cr_array *a = cr_step_array(s, &s->operands[k]);
        const bool all = a->ndim && a->shape[0] == M && !s->operands[k].whole;
        int64_t reach = 0;
        r->each[k] = all ? unit : 0;
        r->step[k] = all ? a->strides[0] : 0;
        r->dense[k] = all && a->strides[0] > 0;
        for (int d = 1; d < a->ndim; d++) {
            r->dense[k] &= a->strides[d] >= 0 || a->shape[d] == 1;
            reach += (a->shape[d] - 1) * a->strides[d];
        }
        r->dense[k] &= reach < a->strides[0];
    }
    return M > 1 && unit > 0;
}

static void flatten(cr_array *a) {
    a->ndim = 1;
    a->shape[0] = a->numel;
    a->strides[0] = 1;
}

/* The arguments of contiguous copies and of random numbers become one axis. */
static bool flat_rows(const cr_step *s, int64_t unit, rows *r) {
    for (int k = 0; k < s->n_operands; k++)
        if (!cr_step_array(s, &s->operands[k])->contiguous) return false;
    for (int k = 0; k < s->n_operands; k++) {
        flatten(cr_step_array(s, &s->operands[k]));
        r->step[k] = unit;
        r->dense[k] = true;
        r->each[k] = 1;
    }
    r->numel = cr_step_array(s, &s->operands[0])->numel;
    r->unit = unit;
    return r->numel > 0;
}

static bool rows_of(const cr_step *s, rows *r) {
    if (s->kind != CR_STEP_KERNEL) return false;
    if (s->kernel == CR_KERNEL_elementwise) return walk_rows(s, r);
    int64_t together;
    const cr_array *x = cr_step_tiles(s, &together);
    if (!x || !x->ndim || !x->numel) return false;
    const int64_t M = x->shape[0], unit = x->numel / M;
    if (together) return flat_rows(s, together, r) || (together == 1 && array_rows(s, M, unit, r));
    return (x->ndim == 2 || x->shape[2] == 1) && array_rows(s, M, unit, r);
}

/* ---- which steps go together */
typedef struct member { int step; rows rows; } member;
typedef struct candidate { int n; member of[CR_GROUP_MOST]; int64_t unit; } candidate;

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static int64_t size_of(const cr_step *s, int k) {
    const cr_operand *o = &s->operands[k];
    return (int64_t)cr_dtype_size(o->walk ? cr_step_arg(s, o)->dtype : cr_step_array(s, o)->dtype);
}

static int64_t start_of(const cr_step *s, int k) {
    const cr_operand *o = &s->operands[k];
    return size_of(s, k) * (o->walk ? cr_step_arg(s, o)->offset : cr_step_array(s, o)->offset);
}

/* Do two operands of one buffer touch the same bytes for the same elements of the common space? */
static bool in_step(const cr_step *a, const rows *x, int i, const cr_step *b, const rows *y, int k) {
    if (!x->dense[i] || !y->dense[k] || start_of(a, i) != start_of(b, k)) return false;
    return x->step[i] * size_of(a, i) * y->unit == y->step[k] * size_of(b, k) * x->unit;
}

/* May step s join: do all buffers that it shares with the group go in step where one of both writes?  shared: is there
 * such a buffer, or one that both read? */
static bool joins(const cr_plan *p, const candidate *c, const cr_step *s, const rows *r, bool *shared) {
    for (int m = 0; m < c->n; m++) {
        const cr_step *t = &p->steps[c->of[m].step];
        for (int i = 0; i < t->n_operands; i++)
            for (int k = 0; k < s->n_operands; k++) {
                const cr_operand *x = &t->operands[i], *y = &s->operands[k];
                if (x->buffer != y->buffer || x->low >= y->high || y->low >= x->high) continue;
                *shared |= c->of[m].rows.step[i] != 0;
                if ((x->use | y->use) & CR_WRITES && !in_step(t, &c->of[m].rows, i, s, r, k)) return false;
            }
    }
    return true;
}

/* A step whose own operands overlap out of step, such as x = x shifted, stays alone. */
static bool in_step_with_itself(const cr_step *s, const rows *r) {
    for (int i = 0; i < s->n_operands; i++)
        for (int k = 0; k < i; k++) {
            const cr_operand *x = &s->operands[i], *y = &s->operands[k];
            if (x->buffer == y->buffer && x->low < y->high && y->low < x->high && (x->use | y->use) & CR_WRITES &&
                !in_step(s, r, i, s, r, k))
                return false;
        }
    return true;
}

static const cr_device *device_of(const cr_plan *p, const cr_step *s) {
    for (int k = 0; k < s->n_operands; k++)
        if (s->operands[k].use & CR_WRITES) return p->buffers[s->operands[k].buffer].dev;
    return NULL;
}

static bool qualifies(const cr_plan *p, const cr_step *s, rows *r) {
    const cr_device *dev = device_of(p, s);
    return dev && dev->host && rows_of(s, r) && r->numel >= LEAST && r->unit <= UNIT_MOST && in_step_with_itself(s, r);
}

/* The steps behind `first` that can run right behind it, tile by tile. */
static void collect_steps(const cr_plan *p, int first, candidate *c) {
    const int end = first < p->split ? p->split : p->n_steps;
    int skipped[CR_AHEAD], n_skipped = 0;
    for (int i = first + 1; i < end && c->n < CR_GROUP_MOST && n_skipped < CR_AHEAD; i++) {
        const cr_step *s = &p->steps[i];
        member m = {.step = i};
        bool shared = false;
        const int64_t unit = qualifies(p, s, &m.rows) ? c->unit / gcd(c->unit, m.rows.unit) * m.rows.unit : 0;
        if (unit && unit <= UNIT_MOST && m.rows.numel == c->of[0].rows.numel &&
            device_of(p, s) == device_of(p, &p->steps[first]) && joins(p, c, s, &m.rows, &shared) && shared &&
            cr_may_pass(p, s, skipped, n_skipped)) {
            c->of[c->n++] = m;
            c->unit = unit;
        } else {
            skipped[n_skipped++] = i;
        }
    }
}

/* ---- the group */
/* What a tile changes in the arguments: an operand, or the counter of random numbers. */
struct cr_tile_ref {
    uint32_t at; bool walk; uint8_t size;
    int inner;                                      /* which inner buffer; -1: none */
    int64_t unit, step;
    int64_t each;                                   /* see rows */
};

/* parts: members use offsets of the buffer that are apart, as cat does; then it is no tile */
typedef struct uses {
    int total, inside;
    bool written_first, seen, parts;
    int64_t start, step, unit, size;
} uses;

static void count_uses(const cr_plan *p, const candidate *c, uses *u) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++) u[p->steps[i].operands[k].buffer].total++;
    for (int m = 0; m < c->n; m++) {
        const cr_step *s = &p->steps[c->of[m].step];
        for (int k = 0; k < s->n_operands; k++) {
            uses *b = &u[s->operands[k].buffer];
            b->inside++;
            if (!b->seen) b->written_first = s->operands[k].use == CR_WRITES;
            b->parts |= b->seen && b->start != start_of(s, k);
            b->seen = true;
            b->start = start_of(s, k);
            b->step = c->of[m].rows.step[k], b->unit = c->of[m].rows.unit, b->size = size_of(s, k);
        }
    }
}

static bool is_inner(const cr_plan *p, int buffer, const uses *u) {
    const cr_buffer *b = &p->buffers[buffer];
    return b->kind == CR_BUFFER_TEMPORARY && b->dev->host && u[buffer].inside == u[buffer].total &&
           u[buffer].written_first && !u[buffer].parts && u[buffer].step > 0;
}

static int64_t bytes_for(const uses *u, int64_t elements) { return elements / u->unit * u->step * u->size; }

/* Elements of a tile: whole units, so that what it touches stays in the cache. */
static int64_t tile_of(const cr_plan *p, const candidate *c, const uses *u) {
    int64_t bytes = 0;                              /* of one common unit */
    for (int b = 0; b < p->n_buffers; b++)
        if (u[b].inside) bytes += bytes_for(&u[b], c->unit);
    int64_t units = TILE_BYTES / (bytes ? bytes : 1);
    const int64_t least = (TILE_LEAST + c->unit - 1) / c->unit;
    if (units < least) units = least;
    const int64_t chunks = c->of[0].rows.numel / (units * c->unit);
    if (chunks < 8 && units > least) units = least;
    return (units > 1 ? units : 1) * c->unit;
}

static uint32_t args_line(uint32_t bytes) { return (bytes + 63) / 64 * 64; }

static int inner_number(const cr_group *g, int buffer) {
    for (int i = 0; i < g->n_inner; i++)
        if (g->inner[i].buffer == buffer) return i;
    return -1;
}

/* The references of all members, and the operands of the group as a step. */
static cr_status list_refs(cr_group *g, const candidate *c, cr_step *whole) {
    uint32_t at = 0;
    int n = 0, room = 0;
    for (int m = 0; m < g->n; m++) room += g->steps[m].n_operands;
    g->refs = malloc(sizeof *g->refs * (size_t)(room + 1));
    whole->operands = malloc(sizeof *whole->operands * (size_t)(room + 1));
    if (!g->refs || !whole->operands) return cr_no_memory("plan");
    for (int m = 0; m < g->n; m++) {
        const cr_step *s = &g->steps[m];
        const rows *r = &c->of[m].rows;
        for (int k = 0; k < s->n_operands; k++) {
            const cr_operand *o = &s->operands[k];
            const int inner = inner_number(g, o->buffer);
            g->refs[n++] = (struct cr_tile_ref){.at = at + o->at, .walk = o->walk, .size = (uint8_t)size_of(s, k),
                                                .inner = inner, .unit = r->unit, .step = r->step[k],
                                                .each = r->each[k]};
            if (inner < 0) whole->operands[whole->n_operands++] = *o;
        }
        at += args_line(s->bytes);
    }
    g->n_refs = n;
    g->args = at;
    return CR_OK;
}

static cr_status make_group(cr_plan *p, const candidate *c, cr_step *whole) {
    cr_group *g = calloc(1, sizeof *g);
    uses *u = calloc((size_t)p->n_buffers + 1, sizeof *u);
    *whole = (cr_step){.kind = CR_STEP_GROUP, .kernel = -1, .draw = -1, .update = -1, .group = g};
    if (!g || !u || !(g->steps = calloc((size_t)c->n, sizeof *g->steps)) ||
        !(g->inner = calloc((size_t)p->n_buffers + 1, sizeof *g->inner))) {
        free(u);
        return cr_no_memory("plan");
    }
    count_uses(p, c, u);
    g->numel = c->of[0].rows.numel;
    g->tile = tile_of(p, c, u);
    g->dev = device_of(p, &p->steps[c->of[0].step]);
    for (int b = 0; b < p->n_buffers; b++)
        if (is_inner(p, b, u))
            g->inner[g->n_inner++] = (struct cr_inner){b, args_line((uint32_t)bytes_for(&u[b], g->tile)) + 64};
    free(u);
    for (int m = 0; m < c->n; m++) {
        g->steps[m] = p->steps[c->of[m].step];      /* moved */
        g->units[m] = c->of[m].rows.unit;
    }
    g->n = c->n;
    return list_refs(g, c, whole);
}

static cr_status replace(cr_plan *p, const candidate *c) {
    cr_step whole;
    cr_status status = make_group(p, c, &whole);
    if (status != CR_OK && !(whole.group && whole.group->n)) { cr_step_free(&whole); return status; }
    for (int m = c->n - 1; m > 0; m--) {            /* the members are the group's now, also after a failure */
        const int i = c->of[m].step;
        memmove(&p->steps[i], &p->steps[i + 1], sizeof *p->steps * (size_t)(--p->n_steps - i));
        if (i < p->split) p->split--;
    }
    p->steps[c->of[0].step] = whole;
    return status;
}

/* ---- updates of many parameters: large walks of one kernel become kernels of their own, so that each can follow what
 * makes its gradient */
static bool is_large(const cr_walk *w) { return w->numel >= LEAST; }

static int64_t large_walks(const cr_step *s) {
    int64_t n = 0;
    if (s->kind != CR_STEP_KERNEL || s->kernel != CR_KERNEL_elementwise || cr_step_walks(s)->count < 2) return 0;
    for (int64_t i = 0; i < cr_step_walks(s)->count; i++) n += is_large(&cr_step_walks(s)->walks[i]);
    return n;
}

static cr_status walks_into(const cr_step *s, int64_t count, const cr_walk *walks, cr_step *to) {
    *to = (cr_step){.kind = CR_STEP_KERNEL, .run = s->run};
    cr_status status =
        cr_step_fill(to, CR_KERNEL_elementwise, &(cr_elementwise_args){walks, count}, cr_same_number, NULL);
    to->update = s->update;
    if (status == CR_OK && s->name && !(to->name = cr_joined(s->name, ""))) status = cr_no_memory("plan");
    return status;
}

/* The large walks of the step one by one, then the rest in one.  to: room for them; *n: how many. */
static cr_status split_step(const cr_step *s, cr_step *to, int *n) {
    const cr_elementwise_args *a = cr_step_walks(s);
    cr_walk *rest = malloc(sizeof *rest * (size_t)a->count);
    cr_status status = rest ? CR_OK : cr_no_memory("plan");
    int64_t left = 0;
    *n = 0;
    for (int64_t i = 0; i < a->count && status == CR_OK; i++) {
        if (is_large(&a->walks[i])) status = walks_into(s, 1, &a->walks[i], &to[(*n)++]);
        else rest[left++] = a->walks[i];
    }
    if (status == CR_OK && left) status = walks_into(s, left, rest, &to[(*n)++]);
    free(rest);
    return status;
}

static cr_status split_walks(cr_plan *p) {
    int64_t room = p->n_steps + 1;
    for (int i = 0; i < p->n_steps; i++) room += large_walks(&p->steps[i]);
    cr_step *steps = malloc(sizeof *steps * (size_t)room);
    if (!steps) return cr_no_memory("plan");
    cr_status status = CR_OK;
    int n = 0, split = p->split;
    for (int i = 0; i < p->n_steps; i++) {
        int made = 1;
        if (i == p->split) split = n;
        if (status != CR_OK || !large_walks(&p->steps[i])) steps[n] = p->steps[i];
        else if ((status = split_step(&p->steps[i], steps + n, &made)) == CR_OK) cr_step_free(&p->steps[i]);
        else {                                      /* the step stays as it was */
            while (made) cr_step_free(&steps[n + --made]);
            made = 1;
            steps[n] = p->steps[i];
        }
        n += made;
    }
    p->split = p->split == p->n_steps ? n : split;
    p->n_steps = n;
    free(p->steps);
    p->steps = steps;
    p->step_room = room;
    return status;
}

cr_status cr_pass_tile(cr_plan *p) {
    cr_status status = split_walks(p);
    for (int i = 0; i < p->n_steps && status == CR_OK; i++) {
        candidate c = {.n = 1, .of[0].step = i};
        if (!qualifies(p, &p->steps[i], &c.of[0].rows)) continue;
        c.unit = c.of[0].rows.unit;
        collect_steps(p, i, &c);
        if (c.n > 1) status = replace(p, &c);
    }
    return status;
}

void cr_group_free(cr_group *g) {
    for (int i = 0; i < g->n; i++) cr_step_free(&g->steps[i]);
    free(g->steps), free(g->inner), free(g->refs);
    free(g);
}

/* ---- a run */
typedef struct job {
    const cr_group *g;
    const char *args;
    int64_t per_chunk;
    atomic_int failed; _Atomic int64_t tile;        /* a cr_status, and the tile that failed */
} job;

/* The arguments of all members, and storages for the inner buffers, of one thread. */
typedef struct own { char *args; cr_storage *inner; cr_storage *memory; } own;

static bool take_own(const cr_group *g, const char *args, own *o) {
    size_t bytes = g->args + sizeof(cr_storage) * (size_t)(g->n_inner + 1) + 64;
    for (int i = 0; i < g->n_inner; i++) bytes += (size_t)g->inner[i].bytes;
    if (!(o->memory = g->dev->allocate(g->dev, bytes))) return false;
    o->args = o->memory->data;
    memcpy(o->args, args, g->args);
    char *at = o->args + g->args;
    for (int i = 0; i < g->n_inner; i++) at += g->inner[i].bytes;
    o->inner = (cr_storage *)(void *)at;
    at = o->args + g->args;
    for (int i = 0; i < g->n_inner; at += g->inner[i++].bytes) {
        o->inner[i] = (cr_storage){.data = at, .bytes = (size_t)g->inner[i].bytes, .dev = g->dev};
        atomic_init(&o->inner[i].refs, 1);
    }
    uint32_t from = 0;
    for (int m = 0; m < g->n; from += args_line(g->steps[m++].bytes))
        for (int i = 0; i < g->steps[m].n_inside; i++) {
            char **pointer = (char **)(void *)(o->args + from + g->steps[m].inside[i]);
            *pointer = o->args + (*pointer - args);
        }
    return true;
}

/* The operand covers elements [t, t + n) of the common space. */
static void set_pointer(const struct cr_tile_ref *ref, const own *o, const char *args, int64_t t, int64_t n) {
    char *at = o->args + ref->at;
    const int64_t moved = t / ref->unit * ref->step;
    if (ref->walk) {
        cr_arg *a = (void *)at;
        const cr_arg *whole = (const void *)(args + ref->at);
        if (ref->inner >= 0) {
            a->storage = &o->inner[ref->inner];
            a->offset = 0;
            a->data = a->storage->data;
        } else {
            a->offset = whole->offset + moved;
            a->data = (char *)whole->data + moved * ref->size;
        }
        return;
    }
    cr_array *a = (void *)at;
    const cr_array *whole = (const void *)(args + ref->at);
    if (ref->inner >= 0) a->storage = &o->inner[ref->inner];
    a->offset = ref->inner >= 0 ? 0 : whole->offset + moved;
    if (!ref->each) return;
    a->shape[0] = n / ref->each;
    a->numel = whole->numel / whole->shape[0] * a->shape[0];
}

/* What belongs to no operand: the shape of a walk, and the counter of random numbers. */
static void place_step(const cr_step *s, char *args, const char *whole, int64_t unit, int64_t t, int64_t n) {
    if (s->kernel == CR_KERNEL_elementwise) {
        cr_walk *w = (cr_walk *)(uintptr_t)((cr_elementwise_args *)(void *)args)->walks;
        w->shape[0] = n / unit;
        w->numel = n;
    } else if (s->draw >= 0) {
        const ptrdiff_t at = (char *)(cr_step_seed(s) + 1) - s->args;
        *(uint64_t *)(void *)(args + at) = *(const uint64_t *)(const void *)(whole + at) + (uint64_t)(t / unit);
    }
}

static cr_status run_tile(const cr_group *g, const own *o, const char *args, int64_t tile) {
    const int64_t t = tile * g->tile, n = cr_imin(g->tile, g->numel - t);
    for (int i = 0; i < g->n_refs; i++) set_pointer(&g->refs[i], o, args, t, n);
    uint32_t at = 0;
    cr_status status = CR_OK;
    for (int m = 0; m < g->n && status == CR_OK; at += args_line(g->steps[m++].bytes)) {
        place_step(&g->steps[m], o->args + at, args + at, g->units[m], t, n);
        status = g->steps[m].run(o->args + at);
    }
    return status;
}

static void chunk(void *ctx, int64_t number, int worker) {
    (void)worker;
    job *j = ctx;
    const cr_group *g = j->g;
    own o;
    if (!take_own(g, j->args, &o)) { atomic_store(&j->failed, CR_NO_MEMORY); return; }
    const int64_t tiles = cr_pieces(g->numel, g->tile), end = cr_imin(tiles, (number + 1) * j->per_chunk);
    for (int64_t i = number * j->per_chunk; i < end && cr_goes_on(i, 8); i++) {
        const cr_status status = run_tile(g, &o, j->args, i);
        if (status == CR_OK) continue;
        atomic_store(&j->tile, i);
        atomic_store(&j->failed, (int)status);
        break;
    }
    cr_storage_release(o.memory);
}

cr_status cr_group_run(const cr_group *g, char *args) {
    const int64_t tiles = cr_pieces(g->numel, g->tile);
    job j = {.g = g, .args = args, .per_chunk = cr_pieces(tiles, CHUNKS), .tile = -1};
    cr_pool_run(cr_pieces(tiles, j.per_chunk), chunk, &j);
    const cr_status status = (cr_status)atomic_load(&j.failed);
    if (status == CR_OK || cr_error()) return status;
    /* messages belong to a thread: the tile that failed fails again on this one */
    own o;
    if (j.tile >= 0 && take_own(g, args, &o)) {
        run_tile(g, &o, args, j.tile);
        cr_storage_release(o.memory);
    }
    return cr_error() ? status : cr_fail(status, "plan", "a kernel of a group failed without a message");
}
