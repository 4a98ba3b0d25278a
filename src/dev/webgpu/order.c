/* order.c - rows of x (M, R) in order, single elements of them, places in a sorted row, runs of equal rows.
 *
 * Elements become unsigned keys (cr_wgsl_key).  Short rows are ranked: an invocation counts what comes before its element.  Others are merged, which is
 * stable, leaves nothing to timing, and takes keys of any width: an entry is a position with its key; a workgroup sorts 1024 of them in its own memory;
 * then runs are merged in pairs, an invocation eight entries of the result, whose beginning in both it finds itself (merge path: Odeh and others 2012).
 * Of each run only the first K are kept: for the first few of a long row there is next to nothing to merge.
 *
 * A single element of a row is selected: a workgroup counts the digits of its keys, from the highest byte down, among those that agree so far. */
#include "wgsl.h"

enum {
    RANKED = 64,                                    /* elements of a row that is ranked */
    MINE = 4, TILE = MINE * GPU_GROUP,              /* entries of an invocation, and of a workgroup, in its memory: 16 KiB, which WebGPU promises */
    MERGED = 8,                                     /* entries of one invocation that merges */
    SELECTED = 1 << 18,                             /* elements of a row in which one is selected: a single workgroup reads it five times and more */
    MOST_BYTES = 1 << 26                            /* of entries, of several rows: as many of them go together */
};
typedef enum order_task { RANK, SORT_TILE, MERGE, TAKE, SELECT } order_task;
enum { X, INDEX, Y };                               /* bindings of RANK; of TAKE with ENTRIES behind */

typedef struct kernel {
    int family;
    order_task task;
    cr_dtype dtype;
    int descending, one, values;                    /* one: element k of each row (kth); values: y is wanted */
} kernel;

typedef struct ordering {
    const char *op;
    gpu *g;
    kernel how;
    const cr_array *x;
    const cr_array *y, *index;
    int64_t first, M, R, K, kth;                    /* M rows from the first on */
} ordering;

/* ---- text.  p[0]: 0, M, R, K   p[1]: offsets of x, index, y; kth   p[2]: elements of a run, entries kept of it, runs, entries kept of a merged one */
static int words_of(cr_dtype dt) { return cr_wgsl_wide(dt) ? 3 : 2; }

/* key(at) of element number at, in whose order rows are wanted */
static void add_key(wgsl *w, const kernel *h) {
    const cr_dtype dt = h->dtype;
    cr_wgsl_add(w, "fn key(at: u32) -> vec2<u32> { let x = %s; ", cr_wgsl_load(X, dt, "(p[1].x + at)").s);
    cr_wgsl_add(w, "return %s%s; }\n", h->descending ? "~" : "", cr_wgsl_key(dt, "x").s);
}

/* Which element of the order a row's kth means, where so many of its elements are numbers. */
static void add_chosen(wgsl *w) {
    cr_wgsl_add(w, "fn chosen(numbers: u32) -> u32 {\n    if p[1].w == %uu { return select((p[0].z - 1u) / 2u, numbers, numbers < p[0].z); }\n"
             "    if p[1].w == %uu { return select(0u, (numbers - 1u) / 2u, numbers > 0u); }\n    return p[1].w;\n}\n", (unsigned)CR_KTH_MEDIAN, (unsigned)CR_KTH_NANMEDIAN);
}

/* Result o is element r of row m. */
static void add_result(wgsl *w, const kernel *h) {
    const cr_dtype dt = cr_moved_as(h->dtype);
    cr_wgsl_add(w, "set%d(2u * (p[1].y + o), r); set%d(2u * (p[1].y + o) + 1u, 0u);\n", INDEX, INDEX);
    if (!h->values) return;
    cr_wgsl_add(w, "let source = p[1].x + m * p[0].z + r; let to = p[1].z + o; let v = %s;\n", cr_wgsl_load(X, dt, "source").s);
    cr_wgsl_store(w, Y, dt, "to", "v");
}

static void add_bindings(wgsl *w, const kernel *h) {
    cr_wgsl_binding(w, X, false, false);
    cr_wgsl_binding(w, INDEX, true, false);
    if (h->values) cr_wgsl_binding(w, Y, true, cr_wgsl_lanes(h->dtype) > 1);
}

static void write_rank(wgsl *w, const kernel *h) {
    add_bindings(w, h);
    add_key(w, h);
    if (h->one) add_chosen(w);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "let m = i / p[0].z; let r = i %% p[0].z;\nif m >= p[0].y { return; }\nlet mine = key(i); var rank = 0u; var numbers = 0u;\n"
             "for (var k = 0u; k < p[0].z; k++) {\nlet other = key(m * p[0].z + k); let later = less_u64(mine, other);\n"
             "if !later && (k < r || less_u64(other, mine)) { rank++; }\n");
    if (h->one && cr_dtype_is_float(h->dtype)) cr_wgsl_add(w, "if other.x != 0xffffffffu { numbers++; }\n");
    else cr_wgsl_add(w, "numbers++;\n");
    cr_wgsl_add(w, "}\n%s", h->one ? "if rank != chosen(numbers) { return; }\nlet o = m;\n" : "if rank >= p[0].w { return; }\nlet o = m * p[0].w + rank;\n");
    add_result(w, h);
    cr_wgsl_add(w, "}\n");
}

/* An entry: position, key.  entry(i) reads one from binding b, or put_entry(i, e) writes it; before(a, b) is strict. */
static void add_entries(wgsl *w, int b, bool written, cr_dtype dt) {
    const int words = words_of(dt);
    cr_wgsl_add(w, written ? "fn put_entry%d(i: u32, e: vec%d<u32>) { " : "fn entry%d(i: u32) -> vec%d<u32> { return vec%d<u32>(", b, words, words);
    for (int k = 0; k < words; k++) cr_wgsl_add(w, written ? "set%d(%du * i + %du, e.%c); " : "words%d(%du * i + %du), ", b, words, k, "xyz"[k]);
    cr_wgsl_add(w, written ? "}\n" : "); }\n");
}

static void add_before(wgsl *w, cr_dtype dt) {
    if (words_of(dt) == 3) cr_wgsl_add(w, "fn before(a: vec3<u32>, b: vec3<u32>) -> bool { return less_u64(a.yz, b.yz); }\n");
    else cr_wgsl_add(w, "fn before(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y; }\n");
}

/* split(...): how many of run a (from there on, length la) are among the first d of a and b merged; of equal ones those of a come first. */
static void add_split(wgsl *w, const char *entry) {
    cr_wgsl_add(w, "fn split(a: u32, la: u32, b: u32, lb: u32, d: u32) -> u32 {\n    var low = select(0u, d - lb, d > lb); var high = min(d, la);\n"
             "    while low < high {\n        let middle = (low + high) / 2u;\n"
             "        if before(%s(b + d - 1u - middle), %s(a + middle)) { high = middle; } else { low = middle + 1u; }\n    }\n    return low;\n}\n", entry, entry);
}

/* Run q of a row of R elements lies from element q kept on; rows, min(R, runs kept) entries, lie one after another, for only the last run may have fewer.
 * A workgroup sorts TILE elements of one row; what is missing at its end comes last. */
static void write_tile(wgsl *w, const kernel *h) {
    const cr_dtype dt = h->dtype;
    const int words = words_of(dt);
    cr_wgsl_binding(w, X, false, false);
    cr_wgsl_binding(w, 1, true, false);
    add_key(w, h);
    add_entries(w, 1, true, dt);
    add_before(w, dt);
    cr_wgsl_add(w, "var<workgroup> tile: array<vec%d<u32>, %d>;\nfn entry(i: u32) -> vec%d<u32> { return tile[i]; }\n", words, TILE, words);
    add_split(w, "entry");
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "let m = group / p[2].z; let t = group %% p[2].z; let first = %du * lane;\nif m >= p[0].y { return; }\nvar e: array<vec%d<u32>, %d>;\n", MINE, words, MINE);
    cr_wgsl_add(w, "for (var k = 0u; k < %du; k++) {\n    let r = t * %du + first + k;\n    if r < p[0].z { let x = key(m * p[0].z + r); e[k] = vec%d<u32>(r, x%s); } else { e[k] = vec%d<u32>(0xffffffffu); }\n",
             MINE, TILE, words, words == 3 ? "" : ".x", words);
    cr_wgsl_add(w, "}\nfor (var k = 0u; k < %du; k++) { for (var j = k & 1u; j < %du; j += 2u) { if before(e[j + 1u], e[j]) { let x = e[j]; e[j] = e[j + 1u]; e[j + 1u] = x; } } }\n", MINE, MINE - 1);
    cr_wgsl_add(w, "for (var half = %du; half < %du; half *= 2u) {\n    for (var k = 0u; k < %du; k++) { tile[first + k] = e[k]; }\n    workgroupBarrier();\n", MINE, TILE, MINE);
    cr_wgsl_add(w, "    let a = first / (2u * half) * (2u * half); let b = a + half; var i = a + split(a, half, b, half, first - a); var j = first - i + b;\n");
    cr_wgsl_add(w, "    for (var k = 0u; k < %du; k++) { if j >= b + half || (i < b && !before(tile[j], tile[i])) { e[k] = tile[i]; i++; } else { e[k] = tile[j]; j++; } }\n    workgroupBarrier();\n}\n", MINE);
    cr_wgsl_add(w, "for (var k = 0u; k < %du; k++) { if first + k < min(p[2].y, p[0].z - t * %du) { put_entry1(m * min(p[0].z, p[2].z * p[2].y) + t * p[2].y + first + k, e[k]); } }\n}\n", MINE, TILE);
}

/* Runs 2q and 2q + 1 of a row become run q. */
static void write_merge(wgsl *w, const kernel *h) {
    const cr_dtype dt = h->dtype;
    cr_wgsl_binding(w, 0, false, false);
    cr_wgsl_binding(w, 1, true, false);
    add_entries(w, 0, false, dt);
    add_entries(w, 1, true, dt);
    add_before(w, dt);
    add_split(w, "entry0");
    cr_wgsl_add(w, "fn size(run: u32) -> u32 { let start = run * p[2].x; return min(min(p[2].x, p[0].z - min(start, p[0].z)), p[2].y); }\n");
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "let parts = (p[2].w + %du) / %du; let runs = (p[2].z + 1u) / 2u;\nlet d = i %% parts * %du; let q = i / parts %% runs; let m = i / parts / runs;\nif m >= p[0].y { return; }\n",
             MERGED - 1, MERGED, MERGED);
    cr_wgsl_add(w, "let la = size(2u * q); let lb = size(2u * q + 1u); let end = min(min(d + %du, la + lb), p[2].w);\nif d >= end { return; }\n", MERGED);
    cr_wgsl_add(w, "let a = m * min(p[0].z, p[2].z * p[2].y) + 2u * q * p[2].y; let b = a + p[2].y; let to = m * min(p[0].z, runs * p[2].w) + q * p[2].w;\nlet taken = split(a, la, b, lb, d); var j = a + taken; var k = b + d - taken;\n");
    cr_wgsl_add(w, "for (var o = d; o < end; o++) {\n    if k >= b + lb || (j < a + la && !before(entry0(k), entry0(j))) { put_entry1(to + o, entry0(j)); j++; } else { put_entry1(to + o, entry0(k)); k++; }\n}\n}\n");
}

static void write_take(wgsl *w, const kernel *h) {
    const cr_dtype dt = h->dtype;
    const int entries = Y + h->values;
    add_bindings(w, h);
    cr_wgsl_binding(w, entries, false, false);
    add_entries(w, entries, false, dt);
    if (h->one) add_chosen(w);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "let o = i; let m = %s;\nif m >= p[0].y { return; }\n", h->one ? "i" : "i / p[0].w");
    if (h->one) {                                   /* NaN are last */
        cr_wgsl_add(w, "var low = 0u; var high = p[0].w;\n");
        if (cr_dtype_is_float(dt)) cr_wgsl_add(w, "while low < high { let middle = (low + high) / 2u; if entry%d(m * p[0].w + middle).y == 0xffffffffu { high = middle; } else { low = middle + 1u; } }\n", entries);
        cr_wgsl_add(w, "let at = m * p[0].w + chosen(high);\n");
    } else {
        cr_wgsl_add(w, "let at = i;\n");
    }
    cr_wgsl_add(w, "let r = entry%d(at).x;\n", entries);
    add_result(w, h);
    cr_wgsl_add(w, "}\n");
}

/* The digits of the key are known one after another; then which of those with that key it is, for equal ones are in the order of their positions. */
static void write_select(wgsl *w, const kernel *h) {
    const bool nan = cr_dtype_is_float(h->dtype);
    add_bindings(w, h);
    add_key(w, h);
    add_chosen(w);
    cr_wgsl_add(w, "var<workgroup> bins: array<atomic<u32>, 256>;\nvar<workgroup> digit: u32;\nvar<workgroup> left: u32;\n");
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "let m = group; let R = p[0].z; let row = m * R;\nif m >= p[0].y { return; }\nvar numbers = R;\n");
    if (nan) cr_wgsl_add(w, "var n = 0u;\nfor (var r = lane; r < R; r += 256u) { if key(row + r).x != 0xffffffffu { n++; } }\n"
                         "if lane == 0u { atomicStore(&bins[0], 0u); }\nworkgroupBarrier();\natomicAdd(&bins[0], n);\nworkgroupBarrier();\nnumbers = atomicLoad(&bins[0]);\nworkgroupBarrier();\n");
    cr_wgsl_add(w, "var rank = chosen(numbers); var known = vec2<u32>(); var mask = vec2<u32>();\nfor (var d = %du; d > 0u; d--) {\n"
             "    let shift = 8u * ((d - 1u) & 3u); let half = select(vec2<u32>(1u, 0u), vec2<u32>(0u, 1u), d > 4u);\n    atomicStore(&bins[lane], 0u);\n    workgroupBarrier();\n"
             "    for (var r = lane; r < R; r += 256u) { let k = key(row + r); if all((k & mask) == known) { atomicAdd(&bins[(select(k.x, k.y, d > 4u) >> shift) & 255u], 1u); } }\n"
             "    workgroupBarrier();\n    if lane == 0u { var b = 0u; var rest = rank; for (; b < 255u; b++) { let n = atomicLoad(&bins[b]); if rest < n { break; } rest -= n; } digit = b; left = rest; }\n"
             "    workgroupBarrier();\n    known |= half * (digit << shift); mask |= half * (255u << shift); rank = left;\n    workgroupBarrier();\n}\n", cr_wgsl_wide(h->dtype) ? 8 : 4);
    cr_wgsl_add(w, "let each = (R + 255u) / 256u; let first = min(lane * each, R); let end = min(first + each, R); var mine = 0u;\n"
             "for (var r = first; r < end; r++) { if all(key(row + r) == known) { mine++; } }\natomicStore(&bins[lane], mine);\nworkgroupBarrier();\n"
             "var before = 0u;\nfor (var l = 0u; l < lane; l++) { before += atomicLoad(&bins[l]); }\nif rank < before || rank - before >= mine { return; }\nrank -= before;\n"
             "var r = first;\nfor (; r < end; r++) { if all(key(row + r) == known) { if rank == 0u { break; } rank--; } }\nlet o = m;\n");
    add_result(w, h);
    cr_wgsl_add(w, "}\n");
}

static void write(wgsl *w, const void *how) {
    static void (*const by_task[])(wgsl *, const kernel *) = {write_rank, write_tile, write_merge, write_take, write_select};
    const kernel *h = how;
    by_task[h->task](w, h);
}

/* ---- runs */
typedef struct level { int64_t run, kept, runs, merged; } level;       /* p[2] */

/* The rows that are ordered now, of x, which has R elements in each, or of a result. */
static bool show(const ordering *s, gpu_call *c, const cr_array *t, int64_t each, int word) {
    const int64_t first = t->offset + s->first * each;
    return cr_gpu_show(s->g, c, gpu_buffer_of(t), (gpu_span){first, first + s->M * each}, t->dtype, &c->q.words[word]);
}

/* The bindings of a task, and where in them the rows begin; false: they are too many for a window. */
static bool bind(const ordering *s, order_task task, gpu_buffer *from, gpu_buffer *to, gpu_call *c) {
    const int64_t found = s->how.one ? 1 : s->K;
    if (task == MERGE) c->buffer[c->buffers++] = from;
    else if (!show(s, c, s->x, s->R, 4)) return false;
    if (to) c->buffer[c->buffers++] = to;
    else if (!show(s, c, s->index, found, 5)) return false;
    if (!to && s->y) {
        c->written |= 1u << Y;
        if (!show(s, c, s->y, found, 6)) return false;
    }
    if (task == TAKE) c->buffer[c->buffers++] = from;
    return true;
}

static cr_status run(const ordering *s, order_task task, gpu_buffer *from, gpu_buffer *to, level l, int64_t invocations) {
    kernel h = s->how;
    h.task = task;
    gpu_call call = {
        .op = s->op, .write = write, .how = &h, .how_bytes = sizeof h, .written = 1u << 1,
        .q = {.n = 12, .words = {0, (uint32_t)s->M, (uint32_t)s->R, (uint32_t)s->K, 0, 0, 0, (uint32_t)s->kth, (uint32_t)l.run, (uint32_t)l.kept, (uint32_t)l.runs, (uint32_t)l.merged}},
        .invocations = (uint64_t)invocations};
    return bind(s, task, from, to, &call) ? cr_gpu_run(s->g, &call) : cr_gpu_fail_window(s->g, s->op, gpu_buffer_of(s->x)->bytes);
}

static int64_t pieces(int64_t n, int64_t each) { return (n + each - 1) / each; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The entries of x in runs of `run` elements, merged until there is one; spare: as large. */
static cr_status merge(const ordering *s, gpu_buffer *entries, gpu_buffer *spare) {
    level l = {TILE, least(TILE, s->K), pieces(s->R, TILE), 0};
    cr_status status = run(s, SORT_TILE, NULL, entries, l, s->M * l.runs * GPU_GROUP);
    while (status == CR_OK && l.runs > 1) {
        l.merged = least(2 * l.run, s->K);
        const int64_t runs = pieces(l.runs, 2);
        status = run(s, MERGE, entries, spare, l, s->M * runs * pieces(l.merged, MERGED));
        l = (level){2 * l.run, l.merged, runs, 0};
        gpu_buffer *swap = entries;
        entries = spare;
        spare = swap;
    }
    return status == CR_OK ? run(s, TAKE, entries, NULL, l, s->how.one ? s->M : s->M * s->K) : status;
}

/* Rows that go together: as many as fit into windows and, sorted, into buffers of their own of MOST_BYTES. */
static cr_status run_order(ordering *s) {
    const bool ranked = s->R <= RANKED, selected = !ranked && s->how.one && s->R <= SELECTED, alone = ranked || selected;
    const int64_t tiles = pieces(s->R, TILE), all = s->M, row = 4 * least(s->R, tiles * least(TILE, s->K)) * words_of(s->how.dtype), bytes = least(MOST_BYTES, (int64_t)s->g->window);
    const int64_t most = least(all, alone ? all : row < bytes ? bytes / row : 1);
    gpu_buffer *entries = NULL, *spare = NULL;
    if (!alone && !(entries = spare = cr_gpu_buffer_take(s->g, s->op, (size_t)(most * row)))) return cr_error_status();
    if (!alone && tiles > 1) spare = cr_gpu_buffer_take(s->g, s->op, (size_t)(most * row));
    cr_status status = alone || spare ? CR_OK : cr_error_status();
    for (; s->first < all && status == CR_OK; s->first += s->M) {
        gpu_call unused = {0};
        s->M = least(most, all - s->first);
        while (s->M > 1 && !bind(s, RANK, NULL, NULL, &unused)) s->M /= 2, unused = (gpu_call){0};
        status = ranked ? run(s, RANK, NULL, NULL, (level){0}, s->M * s->R) : selected ? run(s, SELECT, NULL, NULL, (level){0}, s->M * GPU_GROUP) : merge(s, entries, spare);
    }
    if (spare && spare != entries) cr_gpu_buffer_give(s->g, spare);
    if (entries) cr_gpu_buffer_give(s->g, entries);
    return status;
}

static cr_status enter(ordering *s) {
    if (cr_gpu_lacks(s->op, s->x)) return cr_error_status();
    s->g = cr_gpu_enter(s->op, s->x->dev);
    return s->g ? cr_gpu_leave(s->g, run_order(s)) : cr_error_status();
}

cr_status cr_gpu_sort(const cr_sort_args *args) {
    const cr_array *y = cr_present(&args->y), *index = &args->index, *x = &args->x;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], K = args->index.shape[1];
    const bool descending = args->descending;
    ordering s = {.op = "sort", .how = {'o', 0, x->dtype, descending, false, y != NULL}, .x = x, .y = y, .index = index, .M = M, .R = R, .K = K};
    return enter(&s);
}

cr_status cr_gpu_kth(const cr_kth_args *args) {
    const cr_array *y = &args->y, *index = &args->index, *x = &args->x;
    const int64_t M = args->x.shape[0], R = args->x.shape[1], k = args->k;
    ordering s = {.op = "kthvalue", .how = {'o', 0, x->dtype, false, true, true}, .x = x, .y = y, .index = index, .M = M, .R = R, .K = k < 0 ? R : k + 1, .kth = k};
    return enter(&s);
}

/* ---- places in a sorted row: an invocation each */
typedef struct search_how { int family; cr_dtype dtype; int right; } search_how;

/* p[0]: 0, results, R, K   p[1]: offsets of y, x, v; elements from one row of x to the next */
static void write_search(wgsl *w, const void *how) {
    const search_how *h = how;
    const cr_dtype dt = h->dtype;
    cr_wgsl_binding(w, 0, true, false);
    cr_wgsl_binding(w, 1, false, false);
    cr_wgsl_binding(w, 2, false, false);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "if i >= p[0].y { return; }\nlet v = %s;\nlet wanted = %s;\n", cr_wgsl_load(2, dt, "(p[1].z + i)").s, cr_wgsl_key(dt, "v").s);
    cr_wgsl_add(w, "let row = p[1].y + i / p[0].w * p[1].w; var low = 0u; var high = p[0].z;\nwhile low < high {\nlet middle = (low + high) / 2u; let x = %s; let key = %s;\n",
             cr_wgsl_load(1, dt, "(row + middle)").s, cr_wgsl_key(dt, "x").s);
    cr_wgsl_add(w, "if %s { low = middle + 1u; } else { high = middle; }\n}\n", h->right ? "!less_u64(wanted, key)" : "less_u64(key, wanted)");
    cr_wgsl_add(w, "set0(2u * (p[1].x + i), low); set0(2u * (p[1].x + i) + 1u, 0u);\n}\n");
}

/* Of results first .. end - 1; without a shared row those of whole rows. */
static cr_status run_search(gpu *g, const search_how *how, const cr_array *y, const cr_array *x, const cr_array *v, int64_t R, int64_t K, int64_t first, int64_t end, bool shared) {
    const int64_t row = shared ? 0 : first / K * R, rows = shared ? 1 : (end - first) / K, unit = shared ? 1 : K, n = (end - first) / unit;
    gpu_call c = {.op = "searchsorted", .write = write_search, .how = how, .how_bytes = sizeof *how, .written = 1, .invocations = (uint64_t)(end - first),
                  .q = {.n = 8, .words = {0, (uint32_t)(end - first), (uint32_t)R, (uint32_t)K, 0, 0, 0, shared ? 0 : (uint32_t)R}}};
    if (cr_gpu_show(g, &c, gpu_buffer_of(y), (gpu_span){y->offset + first, y->offset + end}, CR_I64, &c.q.words[4]) &&
        cr_gpu_show(g, &c, gpu_buffer_of(x), (gpu_span){x->offset + row, x->offset + row + rows * R}, how->dtype, &c.q.words[5]) &&
        cr_gpu_show(g, &c, gpu_buffer_of(v), (gpu_span){v->offset + first, v->offset + end}, how->dtype, &c.q.words[6])) return cr_gpu_run(g, &c);
    if (n == 1) return cr_gpu_fail_window(g, c.op, gpu_buffer_of(x)->bytes);
    const int64_t middle = first + n / 2 * unit;
    cr_status status = run_search(g, how, y, x, v, R, K, first, middle, shared);
    return status == CR_OK ? run_search(g, how, y, x, v, R, K, middle, end, shared) : status;
}

cr_status cr_gpu_search(const cr_search_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *v = &args->v;
    const int64_t M = args->v.shape[0], R = args->x.shape[args->x.ndim - 1], K = args->v.shape[1];
    const bool shared = args->x.ndim == 1, right = args->right;
    const search_how how = {'b', x->dtype, right};
    if (cr_gpu_lacks("searchsorted", x)) return cr_error_status();
    if (!M || !K) return CR_OK;
    gpu *g = cr_gpu_enter("searchsorted", y->dev);
    return g ? cr_gpu_leave(g, run_search(g, &how, y, x, v, R, K, 0, M * K, shared)) : cr_error_status();
}

/* ---- runs of equal rows: where one begins, how many have begun so far, and from that the rest */
typedef struct runs_how { int family; cr_dtype dtype; int numbers, wanted, ordered; } runs_how;         /* numbers: the second kernel; run is wanted, in an order */

/* p[0]: 0, R C, C, offset of x */
static void write_begins(wgsl *w, cr_dtype dt) {
    cr_wgsl_binding(w, 0, true, true);
    cr_wgsl_binding(w, 1, false, false);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "if i >= p[0].y { return; }\nlet before = max(i, p[0].z) - p[0].z;\nlet x = %s;\n", cr_wgsl_load(1, dt, "(p[0].w + i)").s);
    cr_wgsl_add(w, "let y = %s;\nif i < p[0].z || any(%s", cr_wgsl_load(1, dt, "(p[0].w + before)").s, cr_wgsl_key(dt, "x").s);
    cr_wgsl_add(w, " != %s)%s { set0(2u * (i / p[0].z), 1u); }\n}\n", cr_wgsl_key(dt, "y").s, cr_dtype_is_float(dt) ? " || is_nan(x)" : "");
}

/* p[0]: 0, R, offsets of starts, count   p[1]: of run, order */
static void write_numbers(wgsl *w, const runs_how *h) {
    enum { BEGUN, STARTS, COUNT, RUN, ORDER };
    for (int b = 0; b < RUN + h->wanted + h->ordered; b++) cr_wgsl_binding(w, b, b >= STARTS && b <= RUN, false);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "if i >= p[0].y { return; }\nlet n = words%d(2u * i);\n", BEGUN);
    cr_wgsl_add(w, "if i == 0u || words%d(2u * max(i, 1u) - 2u) != n { let at = 2u * (p[0].z + n - 1u); set%d(at, i); set%d(at + 1u, 0u); }\n", BEGUN, STARTS, STARTS);
    cr_wgsl_add(w, "if i + 1u == p[0].y { set%d(2u * p[0].w, n); set%d(2u * p[0].w + 1u, 0u); }\n", COUNT, COUNT);
    if (h->wanted) {
        cr_wgsl_add(w, "let row = p[1].x + %s;\n", h->ordered ? cr_expr_of("words%d(2u * (p[1].y + i))", ORDER).s : "i");
        cr_wgsl_add(w, "set%d(2u * row, n - 1u); set%d(2u * row + 1u, 0u);\n", RUN, RUN);
    }
    cr_wgsl_add(w, "}\n");
}

static void write_runs(wgsl *w, const void *how) {
    const runs_how *h = how;
    if (h->numbers) write_numbers(w, h);
    else write_begins(w, h->dtype);
}

static cr_status run_runs(gpu_call *c, const runs_how *how, const cr_device *d) {
    gpu *g = cr_gpu_enter("runs", d);
    c->op = "runs", c->write = write_runs, c->how = how, c->how_bytes = sizeof *how;
    return g ? cr_gpu_leave(g, cr_gpu_run(g, c)) : cr_error_status();
}

static cr_status find_runs(const cr_array *run, const cr_array *starts, const cr_array *count, const cr_array *x, const cr_array *order, int64_t R, int64_t C, const cr_array *begins, const cr_array *begun) {
    gpu_call c = {.buffers = 2, .buffer = {gpu_buffer_of(begins), gpu_buffer_of(x)}, .written = 1, .invocations = (uint64_t)(R * C),
                  .q = {.n = 4, .words = {0, (uint32_t)(R * C), (uint32_t)C, (uint32_t)x->offset}}};
    cr_status status = cr_gpu_fill(&(cr_fill_args){*begins, &(int64_t){0}});
    if (status == CR_OK) status = run_runs(&c, &(runs_how){'u', x->dtype, false, false, false}, x->dev);
    if (status == CR_OK) status = cr_gpu_scan(&(cr_scan_args){.y = *begun, .x = *begins, .kind = CR_SCAN_SUM});
    if (status != CR_OK) return status;
    c = (gpu_call){.buffers = 3 + (run != NULL) + (run && order), .written = 14, .invocations = (uint64_t)R,
                   .buffer = {gpu_buffer_of(begun), gpu_buffer_of(starts), gpu_buffer_of(count), run ? gpu_buffer_of(run) : NULL, order ? gpu_buffer_of(order) : NULL},
                   .q = {.n = 8, .words = {0, (uint32_t)R, (uint32_t)starts->offset, (uint32_t)count->offset, run ? (uint32_t)run->offset : 0, order ? (uint32_t)order->offset : 0}}};
    return run_runs(&c, &(runs_how){'u', 0, true, run != NULL, run && order}, x->dev);
}

cr_status cr_gpu_runs(const cr_runs_args *args) {
    const cr_array *run = cr_present(&args->run), *starts = &args->starts, *count = &args->count, *x = &args->x,
        *order = cr_present(&args->order);
    const int64_t R = args->x.shape[0], C = args->x.shape[1];
    if (cr_gpu_lacks("runs", x)) return cr_error_status();
    const cr_array begins = cr_gpu_array(x->dev, CR_I64, CR_LIST(1, R, 1)), begun = cr_gpu_array(x->dev, CR_I64, CR_LIST(1, R, 1));
    const bool ready = begins.storage && begun.storage;
    cr_status status = ready ? find_runs(run, starts, count, x, order, R, C, &begins, &begun) : cr_error_status();
    cr_gpu_array_give(&begun);
    cr_gpu_array_give(&begins);
    return status;
}
