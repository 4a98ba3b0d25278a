/* kernels.c - from the arguments of a kernel to a step: a copy of them, and where the arrays are in it.  What differs
 * from kernel to kernel is in dev/kernels.def. */
#include "plan.h"
#include "../core/out.h"

#include <stdlib.h>
#include <string.h>

/* ---- the multiplications and additions of products, two for each pair of factors */
static double product_flops(const cr_array *c, const cr_array *a) {
    return a->ndim ? 2.0 * (double)c->numel * (double)a->shape[a->ndim - 1] : 0;      /* 0: of no call */
}

/* Pairs of a query t < T and a key s < S with s <= t + d. */
static double pairs_up_to(int64_t T, int64_t S, int64_t d) {
    const int64_t none = cr_imin(cr_imax(-1 - d, 0), T), some = cr_imin(cr_imax(S - 1 - d, 0), T);
    /* queries from `some` on see all keys, those from `none` on t + d + 1 keys */
    return (double)(T - some) * (double)S + (double)(some - none) * ((double)(none + some + 1) / 2 + (double)d);
}

/* each: of a query, a key that it sees and a channel */
static double attention_flops(const cr_array *q, const cr_array *k, int64_t first, int64_t last, double each) {
    const int64_t T = q->shape[2], S = k->shape[2];
    const double pairs = last < first ? 0 : pairs_up_to(T, S, last) - pairs_up_to(T, S, first - 1);
    return each * pairs * (double)(q->shape[0] * q->shape[1] * q->shape[3]);
}

/* ---- each kernel's arguments: the size of the struct, and its members */
enum { MOST_MEMBERS = 16 };                         /* of one struct */
typedef enum member_kind { ARRAY, LIST, WALKS, BYTES, SEED, DONE, COUNT, ROWS, ELEMENTS, FLOPS } member_kind;
typedef struct member {
    member_kind kind;
    uint8_t use;                                    /* of an array: CR_READS, CR_WRITES, or both */
    bool whole;                                     /* an array of which each row reads all */
    int8_t without;                                 /* the number of a walk's input that is no array; -1: none */
    void *at;
    int64_t n;                                      /* arrays of LIST, walks of WALKS, bytes, neighbours of ELEMENTS */
    double flops;
} member;

#define KERNEL(name, cpu, ref, cuda, webgpu, ...)                                                                    \
    __attribute__((cold)) static int members_of_##name(void *args, member *to) {                                     \
        cr_##name##_args *a = args;                                                                                  \
        const member of[] = {__VA_ARGS__};                                                                           \
        _Static_assert(sizeof of <= MOST_MEMBERS * sizeof *of, "MOST_MEMBERS");                                      \
        memcpy(to, of, sizeof of);                                                                                   \
        return (int)(sizeof of / sizeof *of);                                                                        \
    }
#define OUT(x)                 {.kind = ARRAY, .at = &a->x, .use = CR_WRITES},
#define IN(x)                  {.kind = ARRAY, .at = &a->x, .use = CR_READS},
#define INOUT(x)               {.kind = ARRAY, .at = &a->x, .use = CR_READS | CR_WRITES},
#define OUT_OR_IN(x, written)  {.kind = ARRAY, .at = &a->x, .use = (written) ? CR_WRITES : CR_READS},
#define OUT_ADD(x, adds)       {.kind = ARRAY, .at = &a->x, .use = (adds) ? CR_READS | CR_WRITES : CR_WRITES},
#define IN_WHOLE(x)            {.kind = ARRAY, .at = &a->x, .use = CR_READS, .whole = true},
#define LIST(x, count)         {.kind = LIST, .at = &a->x, .n = count},
#define WALKS(x, count, input) {.kind = WALKS, .at = &a->x, .n = count, .without = (int8_t)(input)},
#define BYTES(type, x, bytes)  {.kind = BYTES, .at = &a->x, .n = (int64_t)(bytes)},
#define STEPS(x)               BYTES(const int64_t *, x.at, sizeof *a->x.at * (size_t)(a->x.T + 1))
#define SEED(seed, counter)    {.kind = SEED, .at = &a->seed},
#define DONE(x)                {.kind = DONE, .at = &a->x},
#define COUNT(x)               {.kind = COUNT},
#define VALUE(...)
#define ROWS(x)                {.kind = ROWS, .at = &a->x},
#define ELEMENTS(x, together)  {.kind = ELEMENTS, .at = &a->x, .n = together},
#define FLOPS(number)          {.kind = FLOPS, .flops = number},
#include "../dev/kernels.def"

static const struct { const char *name; size_t bytes; int (*members)(void *args, member *to); } kernels[] = {
#define KERNEL(name, ...) [CR_KERNEL_##name] = {#name, sizeof(cr_##name##_args), members_of_##name},
#include "../dev/kernels.def"
};

const char *cr_kernel_name(int kernel) { return kernels[kernel].name; }

/* Into of[MOST_MEMBERS]; returns how many. */
static int members_of(int kernel, const void *args, member *of) {
    return kernels[kernel].members((void *)(uintptr_t)args, of);
}

/* kernel < 0: the step is no kernel, and has no members. */
static bool find_member(int kernel, const void *args, member_kind kind, member *found) {
    member of[MOST_MEMBERS];
    for (int n = kernel < 0 ? 0 : members_of(kernel, args, of); n--;)
        if (of[n].kind == kind) return *found = of[n], true;
    return false;
}

double cr_step_flops(const cr_step *s) {
    member m;
    return s->kind == CR_STEP_KERNEL && find_member(s->kernel, s->args, FLOPS, &m) ? m.flops : 0;
}

uint64_t *cr_step_seed(const cr_step *s) {
    member m;
    return find_member(s->kernel, s->args, SEED, &m) ? m.at : NULL;
}

const cr_walk *cr_step_all_walks(const cr_step *s, int64_t *n) {
    member m = {.n = 0};
    const bool found = find_member(s->kernel, s->args, WALKS, &m);
    *n = m.n;
    return found ? *(const cr_walk *const *)m.at : NULL;
}

const cr_array *cr_step_tiles(const cr_step *s, int64_t *together) {
    member m = {.n = 0};
    const bool found = find_member(s->kernel, s->args, ELEMENTS, &m) || find_member(s->kernel, s->args, ROWS, &m);
    *together = m.n;
    return found ? m.at : NULL;
}

bool **cr_kernel_done(int kernel, const void *args) {
    member m;
    return find_member(kernel, args, DONE, &m) ? m.at : NULL;
}

bool cr_kernel_counts(int kernel, const void *args) {
    member m;
    return find_member(kernel, args, COUNT, &m);
}

/* ---- the copy of the arguments: the struct, then what each member points to */
static size_t line(size_t bytes) { return (bytes + 15) / 16 * 16; }

static size_t bytes_behind(const member *m) {
    switch (m->kind) {
        case LIST: return (sizeof(cr_array *) + sizeof(cr_array)) * (size_t)m->n;
        case WALKS: return sizeof(cr_walk) * (size_t)m->n;
        case BYTES: return (size_t)m->n;
        default: return 0;
    }
}

/* *to becomes a pointer to `bytes` at `from`, copied into the block at *at. */
static void move_in(cr_step *s, const void **to, const void *from, size_t bytes, char **at) {
    memcpy(*at, from, bytes);
    *to = *at;
    s->inside[s->n_inside++] = (uint32_t)((char *)(void *)to - s->args);
    *at += bytes;
}

/* A list of n pointers to arrays: first the pointers, then the arrays. */
static void move_list(cr_step *s, const void **list, int64_t n, char **at) {
    const cr_array *const *from = *list;
    const cr_array **to = (const cr_array **)(void *)*at;
    move_in(s, list, from, (size_t)n * sizeof *from, at);
    for (int64_t i = 0; i < n; i++) move_in(s, (const void **)(void *)&to[i], from[i], sizeof **from, at);
}

static void take_in(cr_step *s, const void *args) {
    member of[MOST_MEMBERS];
    memcpy(s->args, args, kernels[s->kernel].bytes);
    const int n = members_of(s->kernel, s->args, of);
    char *end = s->args + line(kernels[s->kernel].bytes);
    for (int i = 0; i < n; i++) {
        const size_t bytes = bytes_behind(&of[i]);
        char *at = end;
        end += line(bytes);
        if (of[i].kind == LIST) move_list(s, of[i].at, of[i].n, &at);
        else if (bytes) move_in(s, of[i].at, *(const void **)of[i].at, bytes, &at);
    }
}

/* ---- operands */
void cr_reach(int ndim, const int64_t *shape, const int64_t *strides, int64_t offset, cr_dtype dt, cr_operand *o) {
    int64_t low = offset, high = offset + 1;
    for (int i = 0; i < ndim; i++) {
        const int64_t end = (shape[i] - 1) * strides[i];
        if (shape[i] == 0) { high = low; break; }
        if (end < 0) low += end;
        else high += end;
    }
    o->low = low * (int64_t)cr_dtype_size(dt);
    o->high = high * (int64_t)cr_dtype_size(dt);
}

typedef struct lister {
    cr_step *s;
    int64_t room;
    cr_number_buffer number; void *ctx;
} lister;

/* The array's storage becomes the number of its buffer, from 1: the storage itself may end before the plan runs. */
static bool append(lister *l, cr_storage **storage, cr_operand o) {
    cr_step *s = l->s;
    if (!cr_grow(&s->operands, s->n_operands + 1, &l->room, sizeof *s->operands)) return false;
    o.buffer = l->number(l->ctx, *storage, o.use);
    *storage = (cr_storage *)(intptr_t)(o.buffer + 1);
    s->operands[s->n_operands++] = o;
    return o.buffer >= 0;
}

static bool list_array(lister *l, cr_array *a, int use, bool whole) {
    if (!a->storage) return true;
    cr_operand o = {.use = (uint8_t)use, .whole = whole, .at = (uint32_t)((char *)(void *)a - l->s->args)};
    cr_reach(a->ndim, a->shape, a->strides, a->offset, a->dtype, &o);
    return append(l, &a->storage, o);
}

static bool list_arg(lister *l, const cr_walk *w, cr_arg *a, int use) {
    cr_operand o = {.use = (uint8_t)use, .walk = true, .at = (uint32_t)((char *)(void *)a - l->s->args)};
    cr_reach(w->ndim, w->shape, a->strides, a->offset, a->dtype, &o);
    return append(l, &a->storage, o);
}

static bool list_walk(lister *l, cr_walk *w, int without) {
    bool ok = true;
    for (int i = 0; i < w->n_in && ok; i++)
        if (i != without) ok = list_arg(l, w, &w->in[i], CR_READS);
    for (int i = 0; i < w->n_out && ok; i++) ok = list_arg(l, w, &w->out[i], CR_WRITES);
    return ok;
}

static bool list_member(lister *l, const member *m) {
    bool ok = true;
    if (m->kind == ARRAY) return list_array(l, m->at, m->use, m->whole);
    if (m->kind == LIST)
        for (int64_t i = 0; i < m->n && ok; i++) ok = list_array(l, (*(cr_array **const *)m->at)[i], CR_READS, false);
    if (m->kind == WALKS)
        for (int64_t i = 0; i < m->n && ok; i++) ok = list_walk(l, *(cr_walk *const *)m->at + i, m->without);
    return ok;
}

/* Arrays that are read first: one of the host that an update overwrites must be known as such before. */
static bool list_all(lister *l) {
    member of[MOST_MEMBERS];
    const int n = members_of(l->s->kernel, l->s->args, of);
    bool ok = true;
    for (int read = 1; read >= 0; read--)
        for (int i = 0; i < n && ok; i++)
            if ((of[i].kind == ARRAY && of[i].use & CR_READS) == read) ok = list_member(l, &of[i]);
    return ok;
}

static cr_program *program_of(const cr_walk *w) { return (cr_program *)(uintptr_t)w->program; }

/* The step holds the programs of its walks. */
static void hold_programs(cr_step *s, bool hold) {
    int64_t n;
    const cr_walk *walks = cr_step_all_walks(s, &n);
    for (int64_t i = 0; i < n; i++) {
        cr_program *p = program_of(&walks[i]);
        if (!hold) cr_program_free(p);
        else cr_program_retain(p);
    }
}

cr_status cr_step_fill(cr_step *s, int kernel, const void *args, cr_number_buffer number, void *ctx) {
    member of[MOST_MEMBERS];
    size_t bytes = line(kernels[kernel].bytes), pointers = 1;
    for (int i = members_of(kernel, args, of); i--; bytes += line(bytes_behind(&of[i])))
        pointers += (of[i].kind == LIST ? (size_t)of[i].n : 0) + (bytes_behind(&of[i]) > 0);
    s->kernel = kernel;
    s->bytes = (uint32_t)bytes;
    s->draw = s->update = -1;
    s->args = calloc(1, bytes);
    s->inside = malloc(sizeof *s->inside * pointers);
    if (bytes > UINT32_MAX || !s->args || !s->inside) return cr_no_memory("plan");
    take_in(s, args);
    hold_programs(s, true);
    lister l = {.s = s, .number = number, .ctx = ctx};
    return list_all(&l) ? CR_OK : cr_no_memory("plan");
}

int cr_same_number(void *ctx, cr_storage *s, int use) { (void)ctx; (void)use; return (int)(intptr_t)s - 1; }

cr_status cr_step_relist(cr_step *s) {
    lister l = {.s = s, .number = cr_same_number};
    free(s->operands);
    s->operands = NULL;
    s->n_operands = 0;
    return list_all(&l) ? CR_OK : cr_no_memory("plan");
}

char *cr_joined(const char *a, const char *b) {
    char *text = malloc(strlen(a) + strlen(b) + 1);
    return text ? strcat(strcpy(text, a), b) : NULL;
}

static void end_host(const cr_host_work *w) { if (w->done) w->done(w->ctx); }

void cr_step_free(cr_step *s) {
    if (s->args && s->kind == CR_STEP_HOST) end_host((const void *)s->args);
    if (s->args && s->kernel >= 0) hold_programs(s, false);
    if (s->group) cr_group_free(s->group);
    free(s->args);
    free(s->inside);
    free(s->operands);
    free(s->name);
}
