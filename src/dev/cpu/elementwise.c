/* elementwise.c - runs programs over any strided shape, cut into chunks for the threads and into
 * blocks that stay in L1.
 *
 * Operands that lie in memory as a block needs them are used in place; others are gathered and
 * converted into scratch, and results are scattered back.  f32 programs of ops.def run as one compiled
 * loop, those of plans too once the system's C compiler has made it; others run instruction by instruction. */
#include "blocks.h"
#include "isa.h"
#include "../../core/pool.h"

#include <string.h>

/* elements, but for FEW */
enum { BLOCK = 2048, BYTES = 4096, SMALL = 1024, LONG_ROW = 256, MOST_REPEATED = 4096, LONG_COPY = 1024, FEW = 64 };
enum { LOCAL_SCRATCH = 32 << 10, L1_SCRATCH = 32 << 10 };      /* bytes */

/* ---- the plan of a program: the slot of each value.  Values are numbered as in program.h; results of
 * instructions share slots when their lifetimes do not overlap. */
typedef struct plan {
    const cr_program *p;
    cr_loop loop;                                   /* the whole program; NULL: it runs by instructions */
    uint32_t held;                                  /* inputs of which the loop reads one value */
    int values, slots;
    int16_t *slot, few[FEW];
    size_t taken;                                   /* bytes of slot, if `few` was too small */
} plan;

static int first_result(const cr_program *p) { return p->n_in + p->n_param + p->n_const; }

/* last[v]: the last instruction that reads the result of instruction v; n_instr for results of the program */
static void find_last_uses(const cr_program *p, int16_t *last) {
    int base = first_result(p);
    for (int k = 0; k < p->n_instr; k++) {
        const cr_instr *s = &p->instr[k];
        last[k] = (int16_t)k;
        if (s->a >= base) last[s->a - base] = (int16_t)k;
        if (s->b >= base) last[s->b - base] = (int16_t)k;
        if (s->c >= base) last[s->c - base] = (int16_t)k;
    }
    for (int k = 0; k < p->n_out; k++)
        if (p->out[k] >= base) last[p->out[k] - base] = (int16_t)p->n_instr;
}

/* A slot is free after the instruction that reads it last: a result never overwrites its own operands. */
static void share_slots(plan *pl, const int16_t *last, int16_t *owner) {
    const cr_program *p = pl->p;
    int base = first_result(p), slots = base;
    for (int k = 0; k < p->n_instr; k++) {
        int s = base;
        while (s < slots && last[owner[s - base]] >= k) s++;
        if (s == slots) slots++;
        owner[s - base] = (int16_t)k;
        pl->slot[base + k] = (int16_t)s;
    }
    pl->slots = slots;
}

/* One value for a whole row: of broadcasts, where rows are long or all of the walk reads one element. */
uint32_t cr_cpu_held(const cr_walk *w) {
    const int last = w->ndim - 1;
    uint32_t held = 0;
    for (int k = 0; k < w->n_in && last >= 0; k++) {
        bool one = true;
        for (int d = 0; d < last; d++) one &= w->in[k].strides[d] == 0 || w->shape[d] == 1;
        held |= (uint32_t)(w->in[k].strides[last] == 0 && (one || w->shape[last] >= LONG_ROW)) << k;
    }
    return held;
}

static void find_loop(plan *pl, const cr_walk *w) {
    const cr_program *p = w->program;
    const struct cr_blocks *k = cr_cpu_vec()->blocks;
    if (w->compute != CR_F32) return;
    if (p->fused >= 0) {
        if (p->fused < k->n_fused && p->n_param <= FEW) pl->loop = k->fused[p->fused];
    } else if (p->chain) {
        const cr_made_loop *made = &p->chain->loop;
        const cr_loop run = atomic_load_explicit(&made->run, memory_order_acquire);
        if (!run || made->isa != cr_cpu_isa() || made->held & ~cr_cpu_held(w)) return;
        pl->loop = run;
        pl->held = made->held;
    }
}

static cr_status make_plan(plan *pl, const cr_walk *w) {
    const cr_program *p = w->program;
    *pl = (plan){.p = p};
    find_loop(pl, w);
    pl->values = first_result(p) + p->n_instr;
    if (pl->loop) {
        pl->values = p->n_in;
        pl->slots = p->n_in + p->n_out;
        return CR_OK;
    }
    size_t need = (size_t)(pl->values + 2 * p->n_instr) * sizeof(int16_t);
    pl->slot = pl->few;
    if (need > sizeof pl->few && !(pl->slot = cr_cpu_take(pl->taken = need))) return CR_NO_MEMORY;
    for (int v = 0; v < first_result(p); v++) pl->slot[v] = (int16_t)v;
    int16_t *last = pl->slot + pl->values;
    find_last_uses(p, last);
    share_slots(pl, last, last + p->n_instr);
    return CR_OK;
}

static void free_plan(plan *pl) { if (pl->taken) cr_cpu_give(pl->slot, pl->taken); }

/* ---- one range of one walk, on one thread */
typedef enum lie {                                  /* how an operand lies with respect to the walk */
    SCATTERED,                                      /* any other way */
    LINEAR,                                         /* in the order of the walk */
    REPEATED,                                       /* one row, repeated along the other axes: held in scratch,
                                                     * followed by a copy of its beginning */
    CONSTANT                                        /* one element: scratch holds a block of copies */
} lie;

typedef struct range {
    const cr_walk *w;
    const plan *pl;
    const struct cr_blocks *k;
    cr_lane lane;
    size_t size;                                    /* bytes of a lane */
    int64_t lanes;                                  /* of a vector; blocks are padded to whole vectors */
    int64_t block;                                  /* room of a slot, in lanes */
    lie in[CR_MAX_INPUTS], out[CR_MAX_OUTPUTS];
    bool straight, by_rows, direct[CR_MAX_OUTPUTS]; /* see is_straight, goes_by_rows, is_direct */
    int64_t at[CR_MAX_DIMS];                        /* coordinates of the first element of the block */
    char *scratch, *held[CR_MAX_INPUTS];            /* held: copies of REPEATED and CONSTANT inputs */
    void **value;                                   /* addresses of the values of this block */
    bool *by_zero;                                  /* set if an integer is divided by 0 */
} range;

static void *slot_at(const range *r, int slot) { return r->scratch + (size_t)slot * (size_t)r->block * r->size; }

static lie lie_of(const cr_walk *w, const cr_arg *a) {
    const int last = w->ndim - 1;
    bool linear = true, constant = true, repeated = w->shape[last] <= MOST_REPEATED;
    int64_t step = 1;
    for (int d = last; d >= 0; step *= w->shape[d--]) {
        if (w->shape[d] == 1) continue;
        linear &= a->strides[d] == step;
        constant &= a->strides[d] == 0;
        repeated &= a->strides[d] == (d == last);
    }
    return constant ? CONSTANT : linear ? LINEAR : repeated ? REPEATED : SCATTERED;
}

/* Advances by n elements. */
static void advance(range *r, int64_t n) {
    int d = r->w->ndim - 1;
    for (r->at[d] += n; d > 0 && r->at[d] >= r->w->shape[d]; d--) {
        r->at[d - 1] += r->at[d] / r->w->shape[d];
        r->at[d] %= r->w->shape[d];
    }
}

/* The address of the first element if all n elements of the block lie in one row, else NULL. */
static char *in_row(const range *r, const cr_arg *a, int64_t n) {
    const int last = r->w->ndim - 1;
    int64_t offset = 0;
    if (r->at[last] + n > r->w->shape[last]) return NULL;
    for (int d = 0; d <= last; d++) offset += r->at[d] * a->strides[d];
    return (char *)a->data + offset * (int64_t)cr_dtype_size(a->dtype);
}

/* The address of the n elements of the block if they are contiguous lanes, else NULL. */
static void *in_place(const range *r, const cr_arg *a, lie lies, int64_t first, int64_t n) {
    if (n % r->lanes || a->dtype != r->w->compute) return NULL;
    if (lies == LINEAR) return (char *)a->data + (size_t)first * r->size;
    return a->strides[r->w->ndim - 1] == 1 ? in_row(r, a, n) : NULL;
}

static void fill_lanes(const range *r, void *block, double v, int64_t n) {
    unsigned char bytes[8];
    cr_store_f64(bytes, r->w->compute, v);          /* infinity means "no bound": integers saturate */
    cr_block_load(r->lane, block, r->w->compute, bytes, 0, n);
}

/* Converts n elements of an input to lanes: from address `from` at this stride, or if that is NULL
 * from element `first` on. */
static void convert_input(const range *r, const cr_arg *a, void *to, const char *from, int64_t stride, int64_t first,
                          int64_t n) {
    const cr_block_layout at = {r->w->ndim, r->w->shape, a->strides};
    if (from) cr_block_load(r->lane, to, a->dtype, from, stride, n);
    else cr_block_gather(r->lane, to, a->dtype, a->data, &at, first, n);
}

/* Lanes of scratch that an input needs beyond its slot. */
static int64_t held_lanes(const range *r, int k) {
    return r->in[k] == REPEATED ? r->w->shape[r->w->ndim - 1] + r->block : 0;
}

/* Prepares scalars and held inputs, once for all blocks of up to n elements. */
static void fill_constants(range *r, int64_t n) {
    const cr_walk *w = r->w;
    const cr_program *p = r->pl->p;
    char *rows = slot_at(r, r->pl->slots);
    for (int k = 0; k < w->n_in; k++) {
        r->held[k] = r->in[k] == REPEATED ? rows : r->in[k] == CONSTANT ? slot_at(r, k) : NULL;
        /* an axis of one element has any stride */
        if (r->in[k] == CONSTANT) convert_input(r, &w->in[k], r->held[k], w->in[k].data, 0, 0, n);
        else if (r->held[k]) convert_input(r, &w->in[k], r->held[k], NULL, 0, 0, held_lanes(r, k));
        rows += (size_t)held_lanes(r, k) * r->size;
    }
    if (r->pl->loop) return;
    for (int v = w->n_in; v < first_result(p); v++) {
        int k = v - w->n_in;
        r->value[v] = slot_at(r, v);
        fill_lanes(r, r->value[v], k < p->n_param ? w->params[k] : p->consts[k - p->n_param], n);
    }
}

static void *load_input(const range *r, int k, int64_t first, int64_t n, int64_t padded, bool copy) {
    const cr_arg *a = &r->w->in[k];
    if (r->held[k]) return r->in[k] == CONSTANT ? r->held[k] : r->held[k] + (size_t)r->at[r->w->ndim - 1] * r->size;
    if (r->pl->held >> k & 1) {                     /* of this row */
        void *value = in_row(r, a, 1);
        if (a->dtype == r->w->compute) return value;
        convert_input(r, a, slot_at(r, k), value, 0, 0, 1);
        return slot_at(r, k);
    }
    void *there = copy || r->lane == CR_LANE_BOOL ? NULL : in_place(r, a, r->in[k], first, n), *block = slot_at(r, k);
    if (there) return there;
    convert_input(r, a, block, in_row(r, a, n), a->strides[r->w->ndim - 1], first, n);
    memset((char *)block + (size_t)n * r->size, 0, (size_t)(padded - n) * r->size);
    return block;
}

static void store_output(const range *r, const cr_arg *a, void *block, int64_t first, int64_t n) {
    cr_block_layout at = {r->w->ndim, r->w->shape, a->strides};
    /* the lanes are unsigned */
    if (r->lane == CR_LANE_I64 && r->w->compute == CR_U64 && cr_dtype_is_float(a->dtype)) {
        for (int64_t i = 0; i < n; i++)
            cr_convert((char *)a->data + cr_block_offset(&at, first + i) * (int64_t)cr_dtype_size(a->dtype), a->dtype,
                       (uint64_t *)block + i, CR_U64);
        return;
    }
    cr_block_scatter(r->lane, block, a->dtype, a->data, &at, first, n);
}

/* The first output with the same value as output k. */
static int first_same(const cr_program *p, int k) {
    int first = 0;
    while (p->out[first] != p->out[k]) first++;
    return first;
}

static void run_loop(const range *r, int64_t first, int64_t n, int64_t padded) {
    const cr_walk *w = r->w;
    float *out[CR_MAX_OUTPUTS], params[FEW];
    const float *in[CR_MAX_INPUTS];
    for (int k = 0; k < r->pl->p->n_param; k++) params[k] = (float)w->params[k];
    for (int k = 0; k < w->n_in; k++) in[k] = load_input(r, k, first, n, padded, false);
    for (int k = 0; k < w->n_out; k++) {
        float *there = in_place(r, &w->out[k], r->out[k], first, n);
        out[k] = there ? there : slot_at(r, w->n_in + k);
    }
    r->pl->loop(out, in, params, padded);
    for (int k = 0; k < w->n_out; k++) {
        int computed = first_same(r->pl->p, k);     /* the kernel stores a value once that is output twice */
        if (computed < k || out[k] == slot_at(r, w->n_in + k)) store_output(r, &w->out[k], out[computed], first, n);
    }
}

static void run_instruction(const range *r, int op, void *y, const void *a, const void *b, const void *c, int64_t n) {
    if (op >= CR_OP_COUNT) r->k->fused[op - CR_OP_COUNT](&(float *){y}, (const float *const[]){a, b, c}, NULL, n);
    else if (r->lane == CR_LANE_F32) r->k->f32[op](y, a, b, c, n);
    else if (r->lane == CR_LANE_F64) r->k->f64[op](y, a, b, c, n);
    else {
        if (cr_opcode_divides(op) && r->lane != CR_LANE_BOOL)
            *r->by_zero |= cr_cpu_vec()->reduce->nonzero(b, n, r->size, false) < n;
        cr_cpu_vec()->integers->of[r->w->compute][op](y, a, b, c, n);
    }
}

/* May the instruction that computes output k write it directly?  Not if a later one reads an input that lies there. */
static bool is_direct(const range *r, int k) {
    const cr_walk *w = r->w;
    const cr_program *p = r->pl->p;
    int last = p->out[k] - first_result(p);         /* the instruction */
    if (last < 0 || first_same(p, k) < k) return false;
    for (int j = 0; j < w->n_in; j++) {
        if (w->in[j].data != w->out[k].data) continue;
        for (int o = 0; o < p->n_out; o++) if (p->out[o] == j) return false;
        for (int i = last + 1; i < p->n_instr; i++)
            if (p->instr[i].a == j || p->instr[i].b == j || p->instr[i].c == j) return false;
    }
    return true;
}

/* For bool, x != 0 is x: needs no instruction, if x is an input and the result is not an output. */
static bool is_itself(const range *r, int k) {
    const cr_program *p = r->w->program;
    const cr_instr *s = &p->instr[k];
    const int number = s->b - p->n_in - p->n_param;
    if (r->lane != CR_LANE_BOOL || s->op != CR_OP_NE || s->a >= p->n_in || number < 0 || number >= p->n_const ||
        p->consts[number] != 0)
        return false;
    for (int o = 0; o < p->n_out; o++) if (p->out[o] == first_result(p) + k) return false;
    return true;
}

/* Prefetches part k of n of the next block of every input, so that memory stays busy during the
 * instructions of this block. */
static void fetch_next(const range *r, int64_t length, int k, int n) {
    int64_t bytes = length * (int64_t)r->size, from = bytes * k / n & -64, to = bytes * (k + 1) / n & -64;
    for (int j = 0; j < r->w->n_in; j++) {
        if (r->held[j]) continue;
        for (int64_t i = from; i < to; i += 64) __builtin_prefetch((const char *)r->value[j] + bytes + i);
    }
}

static void run_interpreted(const range *r, int64_t first, int64_t n, int64_t padded) {
    const cr_walk *w = r->w;
    const cr_program *p = r->pl->p;
    int base = first_result(p);
    bool copy = false;                              /* an input that is also an output must not be overwritten by
                                                     * another output first */
    for (int k = 0; k < w->n_out; k++) copy |= w->n_out > 1 && p->out[k] < w->n_in;
    void **value = r->value, *target[CR_MAX_OUTPUTS];
    for (int k = 0; k < w->n_in; k++) value[k] = load_input(r, k, first, n, padded, copy);
    for (int k = 0; k < w->n_out; k++) target[k] = r->direct[k] ? in_place(r, &w->out[k], r->out[k], first, n) : NULL;
    for (int k = 0; k < p->n_instr; k++) {
        const cr_instr *s = &p->instr[k];
        if (is_itself(r, k)) { value[base + k] = value[s->a]; continue; }
        void *y = slot_at(r, r->pl->slot[base + k]);
        for (int o = 0; o < w->n_out; o++) if (target[o] && p->out[o] == base + k) y = target[o];
        run_instruction(r, s->op, y, value[s->a], s->b < 0 ? NULL : value[s->b], s->c < 0 ? NULL : value[s->c], padded);
        value[base + k] = y;
        if (p->n_instr > 1) fetch_next(r, padded, k, p->n_instr);
    }
    for (int k = 0; k < w->n_out; k++) if (!target[k]) store_output(r, &w->out[k], value[p->out[k]], first, n);
}

/* Do all operands lie in memory as the kernel needs them, and does the program need no slots?  Then a
 * run may have any length. */
static bool is_straight(const range *r) {
    const cr_walk *w = r->w;
    const cr_program *p = w->program;
    if (!r->pl->loop && (p->n_instr != 1 || w->n_out != 1 || p->n_param || p->n_const || p->out[0] < p->n_in))
        return false;
    for (int k = 0; k < w->n_in; k++) {
        if (r->in[k] == CONSTANT && r->pl->held >> k & 1) continue;
        if (r->in[k] != LINEAR || w->in[k].dtype != w->compute) return false;
    }
    for (int k = 0; k < w->n_out; k++) if (r->out[k] != LINEAR || w->out[k].dtype != w->compute) return false;
    return r->lane != CR_LANE_BOOL;
}

/* Are blocks cut at the ends of rows?  If rows are long and an operand is contiguous only within each. */
static bool goes_by_rows(const range *r) {
    const cr_walk *w = r->w;
    const int last = w->ndim - 1;
    bool rows = false;
    for (int k = 0; k < w->n_in; k++)
        rows |= r->in[k] == SCATTERED && (w->in[k].strides[last] == 1 || r->pl->held >> k & 1);
    for (int k = 0; k < w->n_out; k++) rows |= r->out[k] == SCATTERED && w->out[k].strides[last] == 1;
    return rows && w->shape[last] >= LONG_ROW;
}

static int64_t block_length(const range *r, int64_t left) {
    const int last = r->w->ndim - 1;
    int64_t n = r->straight || left < r->block ? left : r->block;
    if (r->by_rows && n > r->w->shape[last] - r->at[last]) n = r->w->shape[last] - r->at[last];
    /* a partial vector passes through scratch */
    return (r->straight || r->by_rows) && n > r->lanes ? n / r->lanes * r->lanes : n;
}

static void run_blocks(range *r, int64_t first, int64_t n) {
    fill_constants(r, n < r->block ? (n + r->lanes - 1) / r->lanes * r->lanes : r->block);
    r->straight = is_straight(r);
    r->by_rows = goes_by_rows(r);
    if (!r->pl->loop) for (int k = 0; k < r->w->n_out; k++) r->direct[k] = is_direct(r, k);
    advance(r, first);
    for (int64_t length; n > 0; n -= length, first += length, advance(r, length)) {
        length = block_length(r, n);
        int64_t padded = (length + r->lanes - 1) / r->lanes * r->lanes;
        if (r->pl->loop) run_loop(r, first, length, padded);
        else run_interpreted(r, first, length, padded);
    }
}

static cr_status run_range(const cr_walk *w, const plan *pl, int64_t first, int64_t n) {
    bool by_zero = false;
    range r = {.w = w, .pl = pl, .k = cr_cpu_vec()->blocks, .lane = cr_own_lane(w->compute), .by_zero = &by_zero};
    r.size = cr_lane_size(r.lane);
    r.lanes = r.lane == CR_LANE_F32 ? r.k->lanes : 1;
    r.block = L1_SCRATCH / (int64_t)(r.size * (size_t)pl->slots) / 64 * 64;
    const int64_t most = r.size < BYTES / BLOCK ? BYTES / (int64_t)r.size : BLOCK;
    r.block = pl->loop || r.block > most ? most : r.block < 64 ? 64 : r.block;
    if (n < r.block) r.block = (n + r.lanes - 1) / r.lanes * r.lanes;
    for (int k = 0; k < w->n_in; k++) r.in[k] = lie_of(w, &w->in[k]);
    for (int k = 0; k < w->n_out; k++) r.out[k] = lie_of(w, &w->out[k]);
    _Alignas(64) char local[LOCAL_SCRATCH];
    void *few[FEW];
    int64_t room = pl->slots * r.block;
    for (int k = 0; k < w->n_in; k++) room += held_lanes(&r, k);
    size_t bytes = (size_t)room * r.size, pointers = pl->values > FEW ? (size_t)pl->values * sizeof(void *) : 0;
    r.scratch = bytes <= sizeof local ? local : cr_cpu_try_take(bytes);
    r.value = pointers ? cr_cpu_try_take(pointers) : few;
    bool ok = r.scratch && r.value;
    if (ok) run_blocks(&r, first, n);
    if (r.scratch != local) cr_cpu_give(r.scratch, bytes);
    if (r.value != few) cr_cpu_give(r.value, pointers);
    return !ok ? CR_NO_MEMORY : by_zero ? CR_BAD_VALUE : CR_OK;
}

/* ---- all walks of a call as one job */
typedef struct job {
    const cr_walk *walks;
    int64_t count, *start;                          /* start[i]: first chunk of walk i; start[count]: all of them */
    plan *plan;
    atomic_int failed;                              /* a cr_status */
} job;

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    int64_t low = 0, high = j->count;               /* start[low] <= chunk < start[high] */
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (j->start[middle] <= chunk) low = middle;
        else high = middle;
    }
    const cr_walk *w = &j->walks[low];
    int64_t most = cr_chunk(w->numel), first = (chunk - j->start[low]) * most, left = w->numel - first;
    cr_status bad = run_range(w, j->plan, first, cr_imin(left, most));
    if (bad != CR_OK) atomic_store(&j->failed, bad);
}

/* Walks of one program and dtype. */
static cr_status run_alike(const cr_walk *walks, int64_t count, int64_t numel) {
    plan pl;
    int64_t few[FEW + 1], *start = few;
    size_t bytes = count > FEW ? (size_t)(count + 1) * sizeof *start : 0;
    if (make_plan(&pl, walks) != CR_OK) return CR_NO_MEMORY;
    if (bytes && !(start = cr_cpu_take(bytes))) { free_plan(&pl); return CR_NO_MEMORY; }
    job j = {.walks = walks, .count = count, .start = start, .plan = &pl};
    start[0] = 0;
    for (int64_t i = 0; i < count; i++)
        start[i + 1] = start[i] + (walks[i].numel ? cr_pieces(walks[i].numel, cr_chunk(walks[i].numel)) : 0);
    if (numel <= SMALL || start[count] == 1) for (int64_t i = 0; i < start[count]; i++) run_chunk(&j, i, 0);
    else cr_pool_run(start[count], run_chunk, &j);
    if (bytes) cr_cpu_give(start, bytes);
    free_plan(&pl);
    if (j.failed == CR_BAD_VALUE) return cr_fail(CR_BAD_VALUE, walks->program->name, "an integer divided by zero");
    return j.failed ? cr_fail(CR_NO_MEMORY, walks->program->name, "out of memory for the values of one block") : CR_OK;
}

static cr_status check_walk(const cr_walk *w) {
    const cr_program *p = w->program;
    for (int k = 0; k < p->n_instr; k++) {
        int op = p->instr[k].op;
        bool known = op >= CR_OP_COUNT    ? w->compute == CR_F32 && op - CR_OP_COUNT < cr_cpu_vec()->blocks->n_fused
                   : w->compute == CR_F32 ? cr_cpu_vec()->blocks->f32[op] != NULL
                   : w->compute == CR_F64 ? cr_cpu_vec()->blocks->f64[op] != NULL
                   : cr_cpu_vec()->integers->of[w->compute][op] != NULL;
        if (!known) return cr_fail(CR_BAD_TYPE, p->name, "is not defined for %s", cr_dtype_name(w->compute));
    }
    return CR_OK;
}

/* ---- few contiguous f32 elements: one call of the compiled loop.  Storages of this device end at
 * whole cache lines, so the last vector of the loop may run past their end. */
enum { TINY = 4096, COPIES = 256, NUMBERS = 3 };    /* elements; where copies of one number, or of so many, are read */

static bool is_one_instruction(const cr_program *p) {
    return p->n_instr == 1 && p->n_param + p->n_const == 0 && p->n_out == 1 && p->out[0] == p->n_in &&
           p->instr[0].op < CR_OP_COUNT && cr_cpu_vec()->blocks->f32[p->instr[0].op];
}

static void run_tiny_loop(const plan *pl, float *const *y, const float *const *x, const double *params, int64_t n) {
    const cr_program *p = pl->p;
    if (pl->loop) {
        float numbers[FEW];
        for (int i = 0; i < p->n_param; i++) numbers[i] = (float)params[i];
        pl->loop(y, x, numbers, n);
    } else {
        const cr_instr *s = &p->instr[0];
        cr_cpu_vec()->blocks->f32[s->op](y[0], x[s->a], s->b < 0 ? NULL : x[s->b], s->c < 0 ? NULL : x[s->c], n);
    }
}

/* May `padded` elements be read from a, or written if only padding follows its n elements? */
static bool room_behind(const cr_arg *a, int64_t n, int64_t padded, bool write) {
    if (a->strides[0] != 1 || a->dtype != CR_F32) return false;
    if (padded == n) return true;
    if (!a->storage) return false;
    const size_t end = (size_t)(a->offset + (write ? n : padded)) * sizeof(float), bytes = a->storage->bytes;
    return cr_cpu_owns(a->storage) && (write ? end == bytes && a->offset % 16 == 0 : end <= (bytes + 63) / 64 * 64);
}

static bool run_tiny(const cr_walk *w) {
    const cr_program *p = w->program;
    const int64_t n = w->numel, lanes = cr_cpu_vec()->blocks->lanes, padded = (n + lanes - 1) / lanes * lanes;
    plan pl;
    if (!n || n > TINY || w->ndim != 1 || w->compute != CR_F32) return false;
    pl.p = p, pl.loop = NULL, pl.held = 0;
    find_loop(&pl, w);
    if (!pl.loop && !is_one_instruction(p)) return false;
    _Alignas(64) float copies[NUMBERS][COPIES], held[CR_MAX_INPUTS];
    float *y[CR_MAX_OUTPUTS];
    const float *x[CR_MAX_INPUTS];
    for (int i = 0; i < w->n_out; i++) {
        if (!room_behind(&w->out[i], n, padded, true) || first_same(p, i) < i) return false;
        y[i] = w->out[i].data;
    }
    for (int i = 0, numbers = 0; i < w->n_in; i++) {
        const cr_arg *a = &w->in[i];
        x[i] = a->data;
        if (pl.held >> i & 1) {
            held[i] = (float)cr_load_f64(a->data, a->dtype);
            x[i] = &held[i];
        } else if (!room_behind(a, n, padded, false)) {
            if ((a->strides[0] && n > 1) || padded > COPIES || numbers == NUMBERS) return false;
            const float v = (float)cr_load_f64(a->data, a->dtype);
            float *to = copies[numbers++];
            for (int64_t e = 0; e < padded; e++) to[e] = v;
            x[i] = to;
        }
    }
    run_tiny_loop(&pl, y, x, w->params, padded);
    return true;
}

/* ---- transposed operands: contiguous along another axis than the last.  Reading them by blocks would
 * fetch a line per element, so they are first copied in tiles. */
static bool is_transposed(const cr_walk *w, const cr_arg *a) {
    const int last = w->ndim - 1;
    bool consecutive = false, broadcast = false;
    for (int d = 0; d < last; d++) consecutive |= a->strides[d] == 1;
    for (int d = 0; d <= last; d++) broadcast |= a->strides[d] == 0;
    return consecutive && !broadcast && a->strides[last] != 1 && w->numel > LONG_COPY;
}

static void pack_transposed(cr_walk *w, void **packed) {
    int64_t dense[CR_MAX_DIMS], step = 1;
    for (int d = w->ndim - 1; d >= 0; step *= w->shape[d--]) dense[d] = step;
    for (int k = 0; k < w->n_in; k++) {
        cr_arg *a = &w->in[k];
        packed[k] = is_transposed(w, a) ? cr_cpu_try_take((size_t)w->numel * cr_dtype_size(a->dtype)) : NULL;
        if (!packed[k]) continue;
        cr_cpu_pack(packed[k], dense, a->data, a->strides, a->dtype, w->ndim, w->shape);
        a->data = packed[k];
        memcpy(a->strides, dense, sizeof dense);
    }
}

static cr_status run_packed(const cr_walk *w) {
    cr_walk copy = *w;
    void *packed[CR_MAX_INPUTS];
    pack_transposed(&copy, packed);
    cr_status status = run_alike(&copy, 1, w->numel);
    for (int k = 0; k < w->n_in; k++)
        if (packed[k]) cr_cpu_give(packed[k], (size_t)w->numel * cr_dtype_size(w->in[k].dtype));
    return status;
}

static bool has_transposed(const cr_walk *w) {
    for (int k = 0; k < w->n_in; k++) if (is_transposed(w, &w->in[k])) return true;
    return false;
}

/* How many walks from w[0] on have its program and dtype. */
static int64_t count_alike(const cr_walk *w, int64_t count) {
    int64_t n = 1;
    while (n < count && w[n].program == w->program && w[n].compute == w->compute) n++;
    return n;
}

cr_status cr_cpu_elementwise(const cr_elementwise_args *args) {
    for (int64_t i = 0, n; i < args->count; i += n) {
        int64_t numel = 0;
        n = count_alike(&args->walks[i], args->count - i);
        for (int64_t k = 0; k < n; k++) numel += args->walks[i + k].numel;
        for (; n && numel <= TINY && run_tiny(&args->walks[i]); i++) n--;
        if (!n || !numel) continue;
        const cr_walk *w = &args->walks[i];
        cr_status status = check_walk(w);
        if (status == CR_OK) status = n == 1 && has_transposed(w) ? run_packed(w) : run_alike(w, n, numel);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

/* ---- neighbours of floats */
typedef struct next_job { char *y; const char *a, *b; cr_dtype dtype; int64_t n, infinity; } next_job;

static void next_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const next_job *j = ctx;
    const int64_t each = cr_chunk(j->n), first = chunk * each, at = first * (int64_t)cr_dtype_size(j->dtype);
    cr_cpu_vec()->integers->next[j->dtype](j->y + at, j->a + at, j->b + at, j->infinity, cr_imin(each, j->n - first));
}

cr_status cr_cpu_nextafter(const cr_nextafter_args *args) {
    const cr_array *y = &args->y;
    next_job j = {cr_array_data(y), cr_array_data(&args->a), cr_array_data(&args->b), y->dtype,
                  y->numel,         args->infinity};
    if (j.n) cr_pool_run(cr_pieces(j.n, cr_chunk(j.n)), next_chunk, &j);
    return CR_OK;
}
