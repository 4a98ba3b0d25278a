/* test_dist.c - many processes.  By itself: the tree, and a world of 1.  tests/mpi_ranks.py starts it under mpirun, and
 * compares the lines that begin with "bits". */
#define CR_TEST_EVERY_DEVICE
#include "test.h"
#include "posix.h"


#include "core/tree.h"
#include "folder.h"

static uint64_t hashed(uint64_t h, const void *data, size_t n) {
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_of(uint64_t h, const cr_tensor *x) {
    const size_t n = (size_t)cr_numel(x) * cr_dtype_size(cr_dtype_of(x));
    void *copy = malloc(n + 1);
    OK(cr_read(x, cr_dtype_of(x), copy, n));
    h = hashed(h, copy, n);
    free(copy);
    return h;
}

static cr_world *world;

static bool open_world(void) {
    if (!world) world = cr_world_open(NULL);
    return world != NULL;
}

/* The order of additions as text: "((0+1)+(2+3))". */
static void order(int64_t leaves, int parts, char *out, size_t room) {
    static char sum[256][2048];
    cr_tree all = {.leaves = leaves};
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t merges[CR_TREE_DEPTH];
    for (int part = 0; part < parts; part++) {
        cr_tree own = {.leaves = leaves};
        const int64_t first = cr_tree_first(leaves, part, parts), last = cr_tree_first(leaves, part + 1, parts);
        for (int64_t i = first; i < last; i++) {
            snprintf(sum[i], sizeof sum[i], "%d", (int)i);
            const int n = cr_tree_push(&own, (cr_tree_node){0, i}, i, merges);
            for (int k = 0; k < n; k++) {
                char both[2048];
                snprintf(both, sizeof both, "(%.900s+%.900s)", sum[merges[k]], sum[i]);
                memcpy(sum[i], both, sizeof both);
            }
        }
        const int count = cr_tree_cover(leaves, part, parts, nodes);
        CHECK(count == own.n, "%d leaves, part %d of %d: %d nodes, cover says %d", (int)leaves, part, parts, own.n,
              count);
        for (int i = 0; i < own.n; i++) {
            const int64_t value = own.at[i].value;
            const int n = cr_tree_push(&all, nodes[i], value, merges);
            for (int k = 0; k < n; k++) {
                char both[2048];
                snprintf(both, sizeof both, "(%.900s+%.900s)", sum[merges[k]], sum[value]);
                memcpy(sum[value], both, sizeof both);
            }
        }
    }
    CHECK(all.n == 1, "%d leaves in %d parts leave %d nodes", (int)leaves, parts, all.n);
    snprintf(out, room, "%s", sum[all.at[0].value]);
}

TEST(tree_order_does_not_depend_on_the_cut) {
    char whole[2048], cut[2048];
    for (int64_t leaves = 1; leaves <= 40; leaves++) {
        order(leaves, 1, whole, sizeof whole);
        for (int parts = 2; parts <= leaves; parts++) {
            order(leaves, parts, cut, sizeof cut);
            CHECK(!strcmp(whole, cut), "%d leaves: %s whole, %s in %d parts", (int)leaves, whole, cut, parts);
        }
    }
    order(6, 1, whole, sizeof whole);
    CHECK(!strcmp(whole, "(((0+1)+(2+3))+(4+5))"), "6 leaves: %s", whole);
    order(5, 1, whole, sizeof whole);
    CHECK(!strcmp(whole, "(((0+1)+(2+3))+4)"), "5 leaves: %s", whole);
}

/* ---- collectives: any number of ranks */
TEST(collectives) {
    REQUIRE(open_world(), "%s", cr_error());
    const int r = cr_world_rank(world), n = cr_world_size(world);
    CHECK(cr_world_host(world)[0] && cr_world_engine(world)[0], "no host or engine");
    CHECK(!strstr(cr_world_engine(world), "no beats"), "%s", cr_world_engine(world));
    CHECK(cr_world_local(world) == r, "rank %d of one host is its number %d", r, cr_world_local(world));
    cr_scope_begin();
    OK(cr_barrier(world));
    cr_tensor *x = cr_full(CR_LIST(1013), r + 1, CR_F32, cr_cpu());
    OK(cr_broadcast_from(world, x, n - 1));
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 1013.0 * n, "broadcast: %g", cr_item(cr_sum(x, CR_ALL, false)));
    cr_tensor *all = cr_zeros(CR_LIST(3 * n), CR_I64, cr_cpu()), *mine = cr_full(CR_LIST(3), r, CR_I64, cr_cpu());
    OK(cr_all_gather(world, mine, all));
    for (int i = 0; i < 3 * n; i++) CHECK(((int64_t *)cr_data(all))[i] == i / 3, "gather: entry %d", i);
    const cr_dtype dtypes[] = {CR_F32, CR_F64};
    for (int d = 0; d < 2; d++) {
        cr_tensor *y = cr_arange(0, 10007, 1, dtypes[d], cr_cpu());
        y = cr_mul_scalar(y, r + 1);
        OK(cr_all_reduce(world, y));
        const double sum = cr_item(cr_to(cr_slice(y, 0, 10006, 10007, 1), CR_F64, cr_cpu()));
        CHECK(sum == 10006.0 * n * (n + 1) / 2, "all_reduce: %.17g of %d ranks", sum, n);
        cr_tensor *part = cr_zeros(CR_LIST(5), dtypes[d], cr_cpu()),
                  *whole = cr_arange(0, 5 * n, 1, dtypes[d], cr_cpu());
        OK(cr_reduce_scatter(world, whole, part));
        CHECK(cr_item(cr_sum(part, CR_ALL, false)) == n * (25.0 * r + 10), "reduce_scatter: rank %d has %g", r,
              cr_item(cr_sum(part, CR_ALL, false)));
    }
    cr_scope_end();
}

/* More than a piece of a message, into the result's own memory; x apart from it, in its place in it, and elsewhere in
 * it.  The version counter sees each. */
TEST(collectives_in_place) {
    REQUIRE(open_world(), "%s", cr_error());
    const int r = cr_world_rank(world), n = cr_world_size(world);
    for (int k = 0; k < 6; k++) {
        const int64_t each = k % 2 ? 5000011 : 1013;
        cr_scope_begin();
        cr_tensor *out = cr_zeros(CR_LIST(n + 1, each), CR_F32, cr_cpu()), *all = cr_slice(out, 0, 0, n, 1),
                  *apart = cr_empty(CR_LIST(each), CR_F32, cr_cpu()),
                  *last = cr_slice(out, 0, n, n + 1, 1), *own = cr_slice(out, 0, r, r + 1, 1),
                  *x = k < 2 ? apart : k < 4 ? own : last,
                  *shifted = cr_slice(cr_reshape(out, CR_LIST((n + 1) * each)), 0, r * each + 1, (r + 1) * each + 1, 1),
                  *sum = k < 2 ? apart : k < 4 ? own : shifted,
                  *w = cr_requires_grad_(cr_ones(CR_LIST(n, each), CR_F32, cr_cpu()), true);
        const cr_tensor *loss = cr_sum(cr_mul(cr_detach(all), w), CR_ALL, false);
        CHECK(cr_copy_(x, cr_arange(r, (double)(r + each), 1, CR_F32, cr_cpu())), "%s", cr_error());
        OK(cr_all_gather(world, x, all));
        for (int i = 0; i < n; i++) {
            const float *part = (const float *)cr_data(all) + i * each;
            int64_t j = 0;
            while (j < each && part[j] == (float)(i + j)) j++;
            CHECK(j == each, "case %d: element %d of rank %d is %g", k, (int)j, i, part[j]);
        }
        FAILS(CR_RUNTIME, "was modified in place", cr_backward(loss, CR_NONE, NULL));
        OK(cr_reduce_scatter(world, all, sum));
        const float *y = cr_data(sum);
        int64_t j = 0;
        while (j < each && fabsf(y[j] - (float)n * (float)(r + j)) <= 1e-6F * y[j]) j++;
        CHECK(j == each, "case %d: element %d of the sum is %g", k, (int)j, y[j]);
        cr_tensor *v = cr_requires_grad_(cr_ones(CR_LIST(each), CR_F32, cr_cpu()), true);
        loss = cr_sum(cr_mul(cr_reshape(cr_detach(sum), CR_LIST(each)), v), CR_ALL, false);
        OK(cr_broadcast_from(world, sum, n - 1));
        for (j = 0; j < each && fabsf(y[j] - (float)n * (float)(n - 1 + j)) <= 1e-7F * y[j]; j++) {}
        CHECK(j == each, "case %d: element %d of the broadcast is %g", k, (int)j, y[j]);
        if (n > 1) FAILS(CR_RUNTIME, "was modified in place", cr_backward(loss, CR_NONE, NULL));
        cr_scope_end();
    }
}

/* A tensor cut at blocks has the same sums, on every instruction set and wherever it lies in memory. */
TEST(block_squares) {
    const int64_t n = 3 * CR_NORM_BLOCK + 12345;
    cr_generator *g = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_randn(CR_LIST(n), CR_F32, cr_cpu(), g);
    double whole[4], parts[4];
    OK(cr_block_squares(x, whole));
    for (int i = 0; i < 4; i++) {
        const int64_t from = i * CR_NORM_BLOCK, to = i == 3 ? n : from + CR_NORM_BLOCK;
        OK(cr_block_squares(cr_clone(cr_slice(x, 0, from, to, 1)), &parts[i]));
        CHECK(parts[i] == whole[i] && fabs(whole[i] / (double)(to - from) - 1) < 0.1, "block %d: %.17g, whole %.17g", i,
              parts[i], whole[i]);
    }
    for (int k = 1; k < 20; k++) {                  /* lengths that 8 does not divide */
        double want = 0, one;
        for (int i = 0; i < k; i++) want += (double)((const float *)cr_data(x))[i] * ((const float *)cr_data(x))[i];
        OK(cr_block_squares(cr_slice(x, 0, 0, k, 1), &one));
        CHECK(fabs(one - want) <= 1e-12 * want, "%d elements: %.17g, not %.17g", k, one, want);
    }
    FAILS(CR_BAD_TYPE, "[block_squares] x must be contiguous float32",
          cr_block_squares(cr_zeros(CR_LIST(2), CR_F64, cr_cpu()), whole));
    FAILS(CR_BAD_VALUE, "the sums", cr_block_squares(x, NULL));
    cr_scope_end();
    cr_generator_free(g);
}

/* Sums under way beside other work, more than one at a time, over a piece of the exchange. */
TEST(sums_beside_other_work) {
    REQUIRE(open_world(), "%s", cr_error());
    const int r = cr_world_rank(world), n = cr_world_size(world);
    cr_scope_begin();
    cr_tensor *x[3];
    cr_work *work[3];
    for (int i = 0; i < 3; i++) {
        x[i] = cr_full(CR_LIST(i == 1 ? 5000011 : i), (r + 1) * (i + 1), CR_F32, cr_cpu());
        REQUIRE(work[i] = cr_all_reduce_start(world, x[i]), "%s", cr_error());
    }
    const double other = cr_item(cr_sum(cr_ones(CR_LIST(1000), CR_F32, cr_cpu()), CR_ALL, false));
    for (int i = 2; i >= 0; i--) OK(cr_work_wait(work[i]));
    const double each = 2.0 * n * (n + 1) / 2;
    CHECK(other == 1000 && cr_item(cr_min(x[1], CR_ALL, false)) == each && cr_item(cr_max(x[1], CR_ALL, false)) == each,
          "%g to %g, not %g", cr_item(cr_min(x[1], CR_ALL, false)), cr_item(cr_max(x[1], CR_ALL, false)), each);
    FAILS(CR_BAD_VALUE, "the work", cr_work_wait(NULL));
    cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), true),
              *y = cr_sum(cr_square(w), CR_ALL, false);
    cr_set_grad_enabled(false);
    OK(cr_all_reduce(world, w));
    cr_set_grad_enabled(true);
    if (n > 1) FAILS(CR_RUNTIME, "was modified in place", cr_backward(y, CR_NONE, NULL));
    cr_scope_end();
}

TEST(bad_collectives) {
    REQUIRE(open_world(), "%s", cr_error());
    cr_scope_begin();
    cr_tensor *x = cr_zeros(CR_LIST(4, 6), CR_F32, cr_cpu()), *i = cr_zeros(CR_LIST(4), CR_I64, cr_cpu());
    FAILS(CR_BAD_TYPE, "[all_reduce] x is int64: only floats can be added", cr_all_reduce(world, i));
    FAILS(CR_BAD_VALUE, "[all_reduce] x is not contiguous", cr_all_reduce(world, cr_transpose(x, 0, 1)));
    FAILS(CR_BAD_INDEX, "[broadcast_from] root -1 is not a rank of 0 ..", cr_broadcast_from(world, x, -1));
    FAILS(CR_BAD_INDEX, "is not a rank of 0 ..", cr_broadcast_from(world, x, cr_world_size(world)));
    cr_tensor *part = cr_zeros(CR_LIST(4), CR_I64, cr_cpu()),
              *whole = cr_zeros(CR_LIST(4 * cr_world_size(world)), CR_I64, cr_cpu());
    FAILS(CR_BAD_TYPE, "[reduce_scatter] x is int64: only floats", cr_reduce_scatter(world, whole, part));
    FAILS(CR_BAD_VALUE, "[all_gather] out has 4 elements: 24 x", cr_all_gather(world, x, cr_zeros(CR_LIST(4), CR_F32,
          cr_cpu())));
    FAILS(CR_BAD_TYPE, "[all_gather] x is float32, but out is int64", cr_all_gather(world, x, i));
    FAILS(CR_BAD_VALUE, "the world", cr_barrier(NULL));
    cr_error_clear();
    cr_scope_end();
}

/* ---- training: a small GPT with dropout; the bits of its weights, losses and norms */
enum { STEPS = 3, CONTEXT = 8 };

typedef struct objects { cr_tokens *tokens; cr_generator *g; cr_gpt *model; cr_loader *loader; cr_optim *opt; } objects;

static const cr_device *trained_on;                 /* NULL: cpu */
static const cr_device *device(void) { return trained_on ? trained_on : cr_cpu(); }
static cr_dtype trained_in = CR_F32;                /* bf16: with f32 masters */
static int width(void) { return (int)cr_dtype_size(trained_in); }
static int kept(void) { return trained_in == CR_F32 ? 2 : 3; }      /* f32 tensors of a parameter in AdamW */

/* muon: for the matrices of the blocks, AdamW for the rest */
static bool make_optimizer(objects *o, bool muon) {
    cr_optim_options oo = cr_optim_defaults(CR_ADAMW);
    oo.lr = 1e-2;
    oo.decay_min_ndim = 2;
    oo.master_weights = true;
    cr_params *all = cr_gpt_params(o->model), *matrices = cr_params_new(), *rest = cr_params_new();
    for (int64_t i = 0; i < cr_params_count(all); i++) {
        cr_tensor *t = cr_params_at(all, i);
        const bool hidden = muon && cr_ndim(t) == 2 && !strncmp(cr_params_name(all, i), "h.", 2);
        OK(cr_params_add(hidden ? matrices : rest, cr_params_name(all, i), t));
    }
    o->opt = cr_optim_new(rest, &oo);
    oo.kind = CR_MUON;
    oo.momentum = 0.9;
    if (o->opt && muon) OK(cr_optim_add(o->opt, matrices, &oo));
    cr_params_free(matrices);
    cr_params_free(rest);
    return o->opt != NULL;
}

static bool make(objects *o, bool muon) {
    uint32_t ids[1000];
    for (int i = 0; i < 1000; i++) ids[i] = (uint32_t)(i * i + i / 7) % 16;
    const cr_gpt_config c = {
        .vocabulary = 16, .context = CONTEXT, .layers = 2, .heads = 2, .width = 16, .dropout = 0.1};
    cr_loader_options lo = cr_loader_defaults();
    lo.batch = 2;
    lo.context = CONTEXT;
    lo.seed = 3;
    lo.device = device();
    /* rank 0's weights win, so the others start from other ones */
    o->g = cr_generator_new(world ? (uint64_t)(5 + cr_world_rank(world)) : 5);
    o->tokens = cr_tokens_new(ids, 1000, 16);
    o->model = cr_gpt_new(&c, trained_in, device(), o->g);
    o->loader = cr_loader_new(o->tokens, &lo);
    cr_generator_set(o->g, 11, 0);
    return o->model && o->loader && make_optimizer(o, muon);
}

static void drop(objects *o) {
    cr_optim_free(o->opt);
    cr_gpt_free(o->model);
    cr_loader_free(o->loader);
    cr_tokens_free(o->tokens);
    cr_generator_free(o->g);
}

/* Sharded, a rank sends its gradients but for its own shard, and its shard of the weights to all others. */
static void check_bytes(const cr_parallel_stats *s, int64_t M, int64_t bytes, bool shard, bool muon) {
    const int64_t n = cr_world_size(world);
    if (!shard && !muon && n == 2 && M == 6)        /* 2 nodes of a rank for the other's half, and then its own */
        CHECK(s->sent == 2 * bytes / 2 + bytes / 2, "sent %lld of %lld", (long long)s->sent, (long long)bytes);
    if ((n & (n - 1)) || M % n || ((M / n) & (M / n - 1))) return;
    const int64_t own = shard && n > 1 ? s->moments / (4 * kept()) * width() : bytes / n;
    if (!muon && n > 1)
        CHECK(s->sent == bytes + own * (n - 2), "sent %lld of %lld, owns %lld", (long long)s->sent, (long long)bytes,
              (long long)own);
    if (!shard) CHECK(s->received == s->sent, "received %lld", (long long)s->received);
    if (!shard && n > 1) CHECK(s->sent == 2 * (n - 1) * bytes / n, "sent %lld", (long long)s->sent);
}

/* All ranks together hold the moments and masters of one process. */
static void check_moments(const cr_parallel_stats *s, int64_t weights, bool shard, bool muon) {
    if (muon || !shard) return;
    cr_scope_begin();
    cr_tensor *sum = cr_full(CR_LIST(1), (double)s->moments, CR_F64, cr_cpu());
    OK(cr_all_reduce(world, sum));
    const int64_t all = 4 * kept() * weights;
    CHECK(cr_item(sum) == (double)all, "%g bytes of moments, not %lld", cr_item(sum), (long long)all);
    cr_scope_end();
}

static bool by_engine, by_half;                     /* sums in its own order; of bf16 */
static double last_loss;
static int64_t last_sent;

static uint64_t train(int64_t M, int64_t bucket, bool late, bool shard, bool muon) {
    objects o = {0};
    uint64_t h = 0xcbf29ce484222325u, seed = 0, counter = 0;
    if (!make(&o, muon)) { CHECK(false, "%s", cr_error()); drop(&o); return 0; }
    const cr_parallel_options po = {
        .microbatches = M, .bucket_bytes = bucket, .late = late, .shard = shard, .engine = by_engine, .half = by_half};
    cr_parallel *p = cr_parallel_new(world, o.opt, &po);
    CHECK(p, "%s", cr_error());
    for (int step = 0; step < STEPS && p; step++) {
        int64_t mine = 0;
        while (cr_parallel_next(p, o.loader, o.g)) {
            cr_tensor *x, *y;
            cr_scope_begin();
            OK(cr_loader_next(o.loader, &x, &y));
            OK(cr_parallel_backward(p, cr_gpt_loss(o.model, x, y, true)));
            cr_scope_end();
            mine++;
        }
        double loss = 0, norm = 0;
        OK(cr_parallel_step(p, 0.5, &loss, &norm));
        h = hashed(hashed(h, &loss, sizeof loss), &norm, sizeof norm);
        const int64_t n = cr_world_size(world), r = cr_world_rank(world);
        CHECK(mine == M * (r + 1) / n - M * r / n, "rank %d has %d microbatches", (int)r, (int)mine);
        const cr_parallel_stats s = cr_parallel_look(p);
        const int64_t weights = cr_params_numel(cr_gpt_params(o.model)), bytes = width() * weights;
        if (by_engine) CHECK(shard || !s.sent, "the engine was not asked: %lld bytes", (long long)s.sent);
        else if (!bucket && !by_half) check_bytes(&s, M, bytes, shard, muon);
        last_loss = loss;
        last_sent = s.sent;
        check_moments(&s, weights, shard, muon);
    }
    CHECK(cr_loader_cursor(o.loader) == STEPS * M, "the loader is at %d", (int)cr_loader_cursor(o.loader));
    cr_generator_get(o.g, &seed, &counter);
    CHECK(seed == 11 && counter == 0, "the generator is at %d, %d", (int)seed, (int)counter);
    const cr_params *all = cr_gpt_params(o.model);
    for (int64_t i = 0; i < cr_params_count(all); i++)
        h = hash_of(h, cr_params_at(all, i));
    cr_parallel_free(p);
    drop(&o);
    return h;
}

static void same_bits(const char *name, int64_t most) {
    for (int64_t M = 4; M <= most; M += 2) {
        if (M < cr_world_size(world)) continue;
        uint64_t first = 0;
        for (int k = 0; k < 8; k++) {
            OK(cr_set_num_threads(k == 1 ? 2 : 1));
            const int64_t bucket = (int64_t[]){0, 0, 3000, 20004, 0, 12345, 0, 9000}[k];
            const uint64_t h = train(M, bucket, k == 4 || k == 5, k > 5, false);
            if (!k) first = h;
            CHECK(h == first, "M %d, case %d: %016llx, not %016llx", (int)M, k, (unsigned long long)h,
                  (unsigned long long)first);
        }
        printf("bits %s%d %016llx\n", name, (int)M, (unsigned long long)first);
    }
    if (cr_world_size(world) > 4) return;
    const uint64_t whole = train(4, 0, false, false, true), shards = train(4, 3000, false, true, true);
    CHECK(whole == shards, "Muon: %016llx sharded, not %016llx", (unsigned long long)shards, (unsigned long long)whole);
    printf("bits %smuon %016llx\n", name, (unsigned long long)whole);
}

TEST(bits_do_not_depend_on_ranks) {
    REQUIRE(open_world(), "%s", cr_error());
    same_bits("", 8);
    trained_in = CR_BF16;
    same_bits("bf16_", 6);
    trained_in = CR_F32;
}

static void same_everywhere(uint64_t h, const char *what) {
    const int64_t n = cr_world_size(world);
    cr_scope_begin();
    cr_tensor *mine = cr_from(&h, CR_LIST(1), CR_I64, cr_cpu()), *all = cr_zeros(CR_LIST(n), CR_I64, cr_cpu());
    OK(cr_all_gather(world, mine, all));
    for (int i = 0; i < n; i++) CHECK(((uint64_t *)cr_data(all))[i] == h, "%s: rank %d has other weights", what, i);
    cr_scope_end();
}

/* Half the bytes, nearly the loss, and the same weights on all ranks. */
static void half_travels(const char *where) {
    const int64_t n = cr_world_size(world);
    for (int k = 0; k < (trained_on ? 1 : 3); k++) {
        const int64_t M = k == 1 ? 2 * n + 1 : n;
        const uint64_t fixed = train(M, 3000, false, false, false);
        const int64_t sent = last_sent;
        const double loss = last_loss;
        by_half = true;
        const uint64_t own = train(M, 3000, false, k == 2, false);
        by_half = false;
        CHECK(fabs(last_loss - loss) < 1e-2, "%s, M %d: a loss of %.9g, not %.9g", where, (int)M, last_loss, loss);
        if (k < 2) CHECK(2 * last_sent == sent, "%s: %lld bytes, not half of %lld", where, (long long)last_sent,
                         (long long)sent);
        CHECK((own == fixed) == (n == 1), "%s, case %d: %s bits of f32", where, k, n == 1 ? "not the" : "the");
        same_everywhere(own, where);
    }
}

TEST(half_of_the_bytes) {
    REQUIRE(open_world(), "%s", cr_error());
    half_travels("cpu");
}

/* Sums of two are those of the tree; of more they are near. */
static void engine_adds(const char *where) {
    const int64_t n = cr_world_size(world);
    uint64_t fixed[2] = {0}, own[2] = {0};
    double loss = 0;
    for (int k = 0; k < (trained_on ? 1 : 2); k++) {    /* kernels of simulated GPUs are slow */
        const int64_t M = k ? 2 * n + 1 : n;
        fixed[k] = train(M, 3000, false, false, false);
        loss = last_loss;
        by_engine = true;
        own[k] = train(M, 3000, k == 1, k == 1, false);
        by_engine = false;
        CHECK(fabs(last_loss - loss) < 1e-4, "%s, M %d: a loss of %.9g, not %.9g", where, (int)M, last_loss, loss);
    }
    if (n < 3) CHECK(own[0] == fixed[0], "%s: %016llx, not %016llx", where, (unsigned long long)own[0],
                     (unsigned long long)fixed[0]);
    for (int k = 0; k < 2; k++) same_everywhere(own[k], where);
}

TEST(engine_adds) {
    REQUIRE(open_world(), "%s", cr_error());
    engine_adds("cpu");
}

/* ---- the same on GPUs: simulated ones, and a simulated NCCL where there is more than one rank */
static const cr_device *own_gpu(void) {
    char name[32];
    snprintf(name, sizeof name, "cuda:%d", cr_world_local(world));
    const cr_device *gpu = cr_device_find(name);
    cr_error_clear();
    return gpu;
}

TEST(gpus_collect_the_bits_of_the_cpu) {
    REQUIRE(open_world(), "%s", cr_error());
    const cr_device *gpu = own_gpu();
    if (!gpu) SKIP("no GPU behind CUDA");
    const int r = cr_world_rank(world), n = cr_world_size(world);
    for (int k = 0; k < 6; k++) {
        const int64_t size = (int64_t[]){1, 3, 1013, 65536, (1 << 22) / n + 1, 7}[k] * n;    /* one beyond a piece */
        const cr_dtype dt = (cr_dtype[]){CR_F32, CR_F64, CR_BF16}[k % 3];
        cr_scope_begin();
        cr_generator *g = cr_generator_new((uint64_t)(100 * k + r));
        cr_tensor *x[2], *out[2], *all[2], *part[2];
        x[0] = cr_mul_scalar(cr_randn(CR_LIST(size), dt, cr_cpu(), g), pow(10, r));
        for (int d = 0; d < 2; d++) {               /* cpu, then the GPU */
            const cr_device *dev = d ? gpu : cr_cpu();
            if (d) x[1] = cr_to(cr_clone(x[0]), dt, gpu);
            out[d] = cr_zeros(CR_LIST(size / n), dt, dev);
            all[d] = cr_zeros(CR_LIST(size), dt, dev);
            part[d] = cr_clone(cr_slice(x[d], 0, 0, size / n, 1));
        }
        for (int d = 0; d < 2; d++) {
            OK(cr_reduce_scatter(world, x[d], out[d]));
            OK(cr_all_gather(world, part[d], all[d]));
            OK(cr_broadcast_from(world, part[d], n - 1));
        }
        cr_work *both[2] = {cr_all_reduce_start(world, x[0]), NULL};    /* under way together */
        both[1] = cr_all_reduce_start(world, x[1]);
        OK(cr_work_wait(both[1]));
        OK(cr_work_wait(both[0]));
        const struct { const char *name; cr_tensor **of; } results[] = {
            {"all_reduce", x}, {"reduce_scatter", out}, {"all_gather", all}, {"broadcast", part}};
        for (int i = 0; i < 4; i++) {
            const uint64_t cpu = hash_of(1, results[i].of[0]), other = hash_of(1, results[i].of[1]);
            CHECK(cpu == other, "%s of %d x %s: %016llx on %s, %016llx on cpu", results[i].name, (int)size,
                  cr_dtype_name(dt), (unsigned long long)other, cr_device_name(gpu), (unsigned long long)cpu);
        }
        cr_generator_free(g);
        cr_scope_end();
        test_ran_on(gpu);
    }
}

TEST(gpus_train_with_the_bits_of_one) {
    REQUIRE(open_world(), "%s", cr_error());
    trained_on = own_gpu();
    if (!trained_on) SKIP("no GPU behind CUDA");
    uint64_t first = 0;
    for (int k = 0; k < 5; k++) {                   /* from 3 on sharded */
        const uint64_t h = train(4, (int64_t[]){0, 3000, 12345, 0, 9000}[k], k == 2, k > 2, false);
        if (!k) first = h;
        CHECK(h == first, "case %d: %016llx, not %016llx", k, (unsigned long long)h, (unsigned long long)first);
        test_ran_on(trained_on);
    }
    printf("bits gpu %016llx\n", (unsigned long long)first);
    trained_in = CR_BF16;
    const uint64_t half = train(4, 0, false, false, false), parts = train(4, 3000, false, true, false);
    CHECK(half == parts, "bf16: %016llx sharded, not %016llx", (unsigned long long)parts, (unsigned long long)half);
    printf("bits bf16_gpu %016llx\n", (unsigned long long)half);
    trained_in = CR_F32;
    const bool muon = cr_world_size(world) == 2;
    const uint64_t whole = muon ? train(4, 0, false, false, true) : 0;
    const uint64_t shards = muon ? train(4, 0, false, true, true) : 0;
    CHECK(whole == shards, "Muon: %016llx sharded, not %016llx", (unsigned long long)shards, (unsigned long long)whole);
    engine_adds("GPU");
    half_travels("GPU");
    trained_on = NULL;
}

TEST(bad_gpus) {
    REQUIRE(open_world(), "%s", cr_error());
    objects o = {0};
    trained_on = own_gpu();
    if (!trained_on) SKIP("no GPU behind CUDA");
    REQUIRE(make(&o, false), "%s", cr_error());
    if (cr_world_size(world) > 1)
        FAILS(CR_RUNTIME, "[parallel_new] option elastic needs Open MPI 5 or later",
              cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8, .elastic = true}));
    drop(&o);
    trained_on = NULL;
    if (cr_world_size(world) == 1 || !cr_device_at(3)) return;
    char other[32];
    snprintf(other, sizeof other, "cuda:%d", cr_world_local(world) ? 0 : 1);
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(3), CR_F32, cr_device_find(other));
    FAILS(CR_BAD_VALUE, "works together with others on cuda:", cr_all_reduce(world, x));
    cr_scope_end();
}

/* ---- a model of 64 weights of two blocks each: bytes of an exchange and of memory, to the byte */
enum { BLOCK = 1 << 16, WEIGHTS = 64, SIDE = 128 };

typedef struct footprint { int64_t sent, moments, all; } footprint;

static footprint footprint_of(cr_dtype dt, bool shard) {
    cr_params *params = cr_params_new();
    cr_tensor *w[WEIGHTS];
    const int64_t n = cr_world_size(world), each = (int64_t)cr_dtype_size(dt);
    for (int i = 0; i < WEIGHTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = cr_requires_grad_(cr_full(CR_LIST(2 * BLOCK / SIDE, SIDE), 0.5, dt, cr_cpu()), true);
        OK(cr_params_add(params, name, w[i]));
    }
    cr_optim_options oo = cr_optim_defaults(CR_ADAMW);
    oo.master_weights = true;
    cr_optim *opt = cr_optim_new(params, &oo);
    cr_parallel *p = cr_parallel_new(world, opt, &(cr_parallel_options){.microbatches = n, .shard = shard,
                                                                        .bucket_bytes = 4 * each * BLOCK});
    CHECK(p, "%s", cr_error());
    for (int step = 0; step < 2 && p; step++) {
        while (cr_parallel_next(p, NULL, NULL)) {
            cr_scope_begin();
            const cr_tensor *loss = cr_mean(cr_square(w[0]), CR_ALL, false);
            for (int i = 1; i < WEIGHTS; i++) loss = cr_add(loss, cr_mean(cr_square(w[i]), CR_ALL, false));
            OK(cr_parallel_backward(p, loss));
            cr_scope_end();
        }
        OK(cr_parallel_step(p, 1, NULL, NULL));
    }
    const cr_parallel_stats s = p ? cr_parallel_look(p) : (cr_parallel_stats){0};
    cr_parallel_free(p);
    cr_optim_free(opt);
    cr_params_free(params);
    for (int i = 0; i < WEIGHTS; i++) cr_release(w[i]);
    return (footprint){s.sent, s.moments, each * WEIGHTS * 2 * BLOCK + s.gradients + s.moments};
}

static void check_footprint(cr_dtype dt, int tensors, double share) {
    const int64_t n = cr_world_size(world), weights = WEIGHTS * 2 * BLOCK, bytes = (int64_t)cr_dtype_size(dt) * weights;
    const footprint whole = footprint_of(dt, false), shards = footprint_of(dt, true);
    CHECK(whole.moments == tensors * 4 * weights, "%lld bytes of moments", (long long)whole.moments);
    if (n & (n - 1)) return;
    CHECK(whole.sent == 2 * (n - 1) * bytes / n && shards.sent == whole.sent, "sent %lld, sharded %lld",
          (long long)whole.sent, (long long)shards.sent);
    CHECK(shards.moments == tensors * 4 * weights / n, "sharded %lld bytes of moments", (long long)shards.moments);
    if (n == 4)
        CHECK((double)shards.all <= share * (double)whole.all, "%lld bytes sharded of %lld", (long long)shards.all,
              (long long)whole.all);
}

TEST(bytes_and_memory_of_a_rank) {
    REQUIRE(open_world(), "%s", cr_error());
    check_footprint(CR_F32, 2, 0.63);
    check_footprint(CR_BF16, 3, 0.45);
}

/* ---- new weights under the next forward pass.  tests/mpi_ranks.py runs this with an engine that takes FAILS_SLOW
 * milliseconds for each gather (mpi_fails.c). */
TEST(weights_arrive_under_the_next_forward_pass) {
    enum { LAYERS = 8, FIRST = 3, BUCKETS = LAYERS + FIRST - 1, ROUNDS = 4 };
    REQUIRE(open_world(), "%s", cr_error());
    const int64_t n = cr_world_size(world);
    const char *slow = getenv("FAILS_SLOW");
    if (n == 1 || !slow) SKIP("no slow engine");
    const double each = 1e-3 * atof(slow);
    cr_params *params = cr_params_new();
    cr_tensor *w[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = cr_requires_grad_(cr_full(CR_LIST((i ? 1 : FIRST) * n * SIDE, BLOCK / SIDE), 1, CR_F32, cr_cpu()), true);
        OK(cr_params_add(params, name, w[i]));
    }
    const cr_optim_options oo = {.kind = CR_SGD, .lr = 0.5};
    cr_optim *opt = cr_optim_new(params, &oo);
    const cr_parallel_options po = {.microbatches = n, .bucket_bytes = 4 * n * BLOCK, .shard = true};
    cr_parallel *p = cr_parallel_new(world, opt, &po);
    REQUIRE(p, "%s", cr_error());
    for (int round = 0; round < ROUNDS; round++) {
        const double expected = pow(0.5, round);    /* of all weights: their gradient is the weight itself */
        while (cr_parallel_next(p, NULL, NULL)) {
            cr_scope_begin();
            const cr_tensor *loss = cr_scalar(0);
            for (int i = 0; i < LAYERS; i++) {      /* gradients come from the last layer to the first */
                const cr_tensor *square = cr_square(w[i]);
                const int64_t left = cr_parallel_look(p).pending;
                CHECK(left <= LAYERS - 1 - i, "round %d: %d buckets pending after layer %d", round, (int)left, i);
                if (round > 1 && !i)
                    CHECK(left >= LAYERS / 2, "round %d: the first layer waited for all but %d buckets", round,
                          (int)left);
                loss = cr_add(loss, cr_mul_scalar(cr_sum(square, CR_ALL, false), 0.5));
            }
            const double all = 0.5 * BUCKETS * (double)n * BLOCK * expected * expected;
            CHECK(fabs(cr_item(loss) - all) <= 1e-5 * all, "round %d: loss %g, not %g", round, cr_item(loss), all);
            OK(cr_parallel_backward(p, loss));
            cr_scope_end();
        }
        const double exposed = cr_parallel_look(p).exposed;
        if (round > 1) CHECK(exposed > 0.5 * LAYERS * each, "readers waited for %g s of %g", exposed, LAYERS * each);
        OK(cr_parallel_step(p, INFINITY, NULL, NULL));
        const int64_t left = cr_parallel_look(p).pending;
        if (round) CHECK(left >= BUCKETS - 1, "round %d: %d buckets pending behind the step", round, (int)left);
    }
    const double end = cr_item(cr_max(cr_detach(w[LAYERS - 1]), CR_ALL, false));
    CHECK(fabs(end - pow(0.5, ROUNDS)) < 1e-6, "a weight of %g in the end", end);
    cr_parallel_free(p);
    cr_optim_free(opt);
    cr_params_free(params);
    for (int i = 0; i < LAYERS; i++) cr_release(w[i]);
}

/* ---- moments in parts: what ranks have written is what an unsharded optimizer has, whoever reads it */
typedef struct big { cr_params *params; cr_optim *opt; cr_parallel *parallel; } big;

static big train_big(cr_dtype dt, bool shard) {     /* 3.1 blocks: ranks cut it; and a small one */
    cr_optim_options oo = cr_optim_defaults(CR_ADAMW);
    oo.master_weights = true;
    cr_generator *g = cr_generator_new(7);
    big b = {.params = cr_params_new()};
    const int64_t sizes[] = {1601, 3};
    cr_tensor *w[2];
    for (int i = 0; i < 2; i++) {
        w[i] = cr_requires_grad_(cr_randn(CR_LIST(sizes[i], SIDE), dt, cr_cpu(), g), true);
        OK(cr_params_add(b.params, i ? "small" : "large", w[i]));
        cr_release(w[i]);
    }
    b.opt = cr_optim_new(b.params, &oo);
    const cr_parallel_options po = {.microbatches = cr_world_size(world), .shard = shard};
    b.parallel = cr_parallel_new(world, b.opt, &po);
    for (int step = 0; step < 3 && b.parallel; step++) {
        while (cr_parallel_next(b.parallel, NULL, NULL)) {
            cr_scope_begin();
            OK(cr_parallel_backward(b.parallel, cr_add(cr_mean(cr_exp(w[0]), CR_ALL, false),
                                                       cr_mean(cr_square(w[1]), CR_ALL, false))));
            cr_scope_end();
        }
        OK(cr_parallel_step(b.parallel, 1, NULL, NULL));
    }
    cr_generator_free(g);
    return b;
}

static void drop_big(big *b) {
    cr_parallel_free(b->parallel);
    cr_optim_free(b->opt);
    cr_params_free(b->params);
}

static void check_loaded(const char *dir, cr_dtype dt, const cr_params *expected, const char *what) {
    big b = train_big(dt, false);
    cr_parallel_free(b.parallel);
    b.parallel = NULL;
    cr_training t = {.params = b.params, .optim = b.opt};
    OK(cr_training_load(dir, &t));
    cr_params *state = cr_optim_state(b.opt);
    CHECK(state && cr_params_count(state) == cr_params_count(expected) && t.step == 3, "%s: other entries", what);
    for (int64_t i = 0; state && i < cr_params_count(expected); i++) {
        const cr_tensor *x = cr_params_at(expected, i), *y = cr_params_get(state, cr_params_name(expected, i));
        CHECK(y && cr_numel(x) == cr_numel(y) && !memcmp(cr_data(x), cr_data(y), (size_t)cr_numel(x) * 4),
              "%s: other bits in %s", what, cr_params_name(expected, i));
    }
    cr_params_free(state);
    drop_big(&b);
}

static void save_in_parts(cr_dtype dt) {
    big whole = train_big(dt, false), parts = train_big(dt, true);
    REQUIRE(parts.parallel, "%s", cr_error());
    char dir[600] = "";
    snprintf(dir, sizeof dir, "%s", folder_path("parts"));
    cr_scope_begin();
    cr_tensor *name = cr_from(dir, CR_LIST((int64_t)sizeof dir), CR_U8, cr_cpu());
    OK(cr_broadcast_from(world, name, 0));
    memcpy(dir, cr_data(name), sizeof dir);
    cr_scope_end();
    cr_params *expected = cr_optim_state(whole.opt);
    const cr_training t = {.params = parts.params, .optim = parts.opt, .step = 3, .parallel = parts.parallel};
    OK(cr_training_save(dir, &t));
    check_loaded(dir, dt, expected, "parts");
    OK(cr_barrier(world));
    if (!cr_world_rank(world)) OK(cr_training_merge(dir));
    OK(cr_barrier(world));
    check_loaded(dir, dt, expected, "merged");
    OK(cr_barrier(world));
    OK(cr_training_save(dir, &t));                  /* over the merged ones */
    check_loaded(dir, dt, expected, "again");
    OK(cr_barrier(world));
    if (!cr_world_rank(world)) CHECK(cr_os_remove_folder(dir), "%s: %s", dir, cr_os_error());
    CHECK(cr_params_count(expected) == (dt == CR_F32 ? 4 : 6), "%d entries", (int)cr_params_count(expected));
    cr_params_free(expected);
    drop_big(&whole);
    drop_big(&parts);
}

TEST(moments_in_parts) {
    REQUIRE(open_world(), "%s", cr_error());
    save_in_parts(CR_F32);
    save_in_parts(CR_BF16);
}

/* ---- gradients on time: a GPT with a small vocabulary, and blocks under checkpoints */
enum { DEEP = 20 };
typedef struct chain { cr_tensor *weight[DEEP][2]; } chain;
typedef struct chain_link { const chain *all; int i; } chain_link;

static cr_tensor *one_link(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    const chain_link *b = ctx;
    cr_scope_begin();
    const cr_tensor *h = cr_tanh(cr_matmul(in[0], b->all->weight[b->i][0]));
    cr_tensor *y = cr_tanh(cr_matmul(h, b->all->weight[b->i][1]));
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

static void check_early(const cr_parallel *p, int64_t bytes, double share, const char *what) {
    const cr_parallel_stats s = cr_parallel_look(p);
    if (cr_world_size(world) > 1)
        CHECK((double)s.early >= share * (double)bytes, "%s: %lld of %lld bytes before 95 %% of the pass", what,
              (long long)s.early, (long long)bytes);
}

TEST(gradients_on_time_under_checkpoints) {
    REQUIRE(open_world(), "%s", cr_error());
    chain c;
    chain_link of[DEEP];
    cr_params *params = cr_params_new();
    cr_generator *g = cr_generator_new(5);
    for (int i = 0; i < 2 * DEEP; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        c.weight[i / 2][i % 2] = cr_requires_grad_(cr_randn(CR_LIST(16, 16), CR_F32, cr_cpu(), g), true);
        OK(cr_params_add(params, name, c.weight[i / 2][i % 2]));
    }
    const cr_optim_options oo = cr_optim_defaults(CR_SGD);
    cr_optim *opt = cr_optim_new(params, &oo);
    const int64_t M = cr_world_size(world);
    cr_parallel *p = cr_parallel_new(world, opt, &(cr_parallel_options){.microbatches = M, .bucket_bytes = 1024});
    REQUIRE(p, "%s", cr_error());
    for (int step = 0; step < 2; step++) {
        while (cr_parallel_next(p, NULL, NULL)) {
            cr_scope_begin();
            const cr_tensor *x = cr_ones(CR_LIST(3, 16), CR_F32, cr_cpu());
            for (int i = 0; i < DEEP; i++) {
                of[i] = (chain_link){&c, i};
                x = cr_checkpoint(one_link, &of[i], 1, &x);
            }
            OK(cr_parallel_backward(p, cr_mean(x, CR_ALL, false)));
            cr_scope_end();
        }
        OK(cr_parallel_step(p, 1, NULL, NULL));
    }
    check_early(p, 4 * cr_params_numel(params), 0.9, "checkpoints");
    cr_parallel_free(p);
    cr_optim_free(opt);
    cr_params_free(params);
    for (int i = 0; i < 2 * DEEP; i++) cr_release(c.weight[i / 2][i % 2]);
    cr_generator_free(g);
}

/* The head is the token embedding, whose gradient comes last.  In GPT-2 124M it is 31 % of the weights, as here with a
 * vocabulary of 1,850. */
static void gpt_on_time(int64_t vocabulary, double share) {
    objects o = {0};
    const cr_gpt_config c = {.vocabulary = vocabulary, .context = CONTEXT, .layers = DEEP, .heads = 2, .width = 16};
    REQUIRE(make(&o, false), "%s", cr_error());
    cr_gpt *deep = cr_gpt_new(&c, CR_F32, cr_cpu(), o.g);
    const cr_optim_options oo = cr_optim_defaults(CR_SGD);
    cr_optim *opt = cr_optim_new(cr_gpt_params(deep), &oo);
    const int64_t M = cr_world_size(world);
    cr_parallel *p = cr_parallel_new(world, opt, &(cr_parallel_options){.microbatches = M, .bucket_bytes = 4096});
    REQUIRE(p, "%s", cr_error());
    for (int step = 0; step < 2; step++) {
        while (cr_parallel_next(p, o.loader, o.g)) {
            cr_tensor *x, *y;
            cr_scope_begin();
            OK(cr_loader_next(o.loader, &x, &y));
            OK(cr_parallel_backward(p, cr_gpt_loss(deep, x, y, true)));
            cr_scope_end();
        }
        OK(cr_parallel_step(p, 1, NULL, NULL));
    }
    check_early(p, 4 * cr_params_numel(cr_gpt_params(deep)), share, "GPT");
    cr_parallel_free(p);
    cr_optim_free(opt);
    cr_gpt_free(deep);
    drop(&o);
}

TEST(gradients_of_a_gpt_on_time) {
    REQUIRE(open_world(), "%s", cr_error());
    gpt_on_time(16, 0.9);
    gpt_on_time(1850, 0.65);
}

TEST(same_as_accumulation_by_hand) {
    REQUIRE(open_world(), "%s", cr_error());
    if (cr_world_size(world) > 1) SKIP("a world of 1 is compared");
    double loss = 0, norm = 0;
    cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), true);
    cr_tensor *unused = cr_requires_grad_(cr_ones(CR_LIST(2), CR_F32, cr_cpu()), true);
    cr_params *params = cr_params_new();
    OK(cr_params_add(params, "w", w));
    OK(cr_params_add(params, "unused", unused));
    cr_optim_options oo = cr_optim_defaults(CR_SGD);
    oo.lr = 1;
    oo.weight_decay = 0.5;
    cr_optim *opt = cr_optim_new(params, &oo);
    cr_parallel *p = cr_parallel_new(world, opt, &(cr_parallel_options){.microbatches = 3});
    REQUIRE(p, "%s", cr_error());
    FAILS(CR_RUNTIME, "[parallel_step] the step has microbatches left", cr_parallel_step(p, INFINITY, NULL, NULL));
    FAILS(CR_RUNTIME, "[parallel_backward] no microbatch is open", cr_parallel_backward(p, w));
    cr_scope_begin();
    for (int j = 1; cr_parallel_next(p, NULL, NULL); j++) {
        if (j == 2)
            FAILS(CR_RUNTIME, "[parallel_next] cr_parallel_backward was not called", cr_parallel_next(p, NULL, NULL));
        OK(cr_parallel_backward(p, cr_mul_scalar(cr_sum(w, CR_ALL, false), j)));
    }
    OK(cr_parallel_step(p, INFINITY, &loss, &norm));
    /* the mean of 3 j and of j: 6 and 2; w = 1 - (2 + 0.5) */
    CHECK(fabs(loss - 6) < 1e-6 && fabs(norm - 2 * sqrt(3)) < 1e-6, "loss %.9g, norm %.9g", loss, norm);
    CHECK(fabs(cr_item(cr_sum(w, CR_ALL, false)) + 4.5) < 1e-6, "%g", cr_item(cr_sum(w, CR_ALL, false)));
    CHECK(cr_item(cr_sum(unused, CR_ALL, false)) == 2, "a parameter without a gradient was changed");
    CHECK(cr_is_none(cr_grad(w)), "a gradient was left");
    cr_scope_end();
    cr_parallel_free(p);
    cr_optim_free(opt);
    cr_params_free(params);
    cr_release(w);
    cr_release(unused);
}

TEST(bad_parallel) {
    REQUIRE(open_world(), "%s", cr_error());
    objects o = {0};
    REQUIRE(make(&o, false), "%s", cr_error());
    FAILS(CR_BAD_VALUE, "[parallel_new] a step of 0 microbatches cannot feed",
          cr_parallel_new(world, o.opt, &(cr_parallel_options){0}));
    FAILS(CR_BAD_VALUE, "the options", cr_parallel_new(world, o.opt, NULL));
    FAILS(CR_BAD_VALUE, "bucket_bytes -1",
          cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8, .bucket_bytes = -1}));
    cr_parallel *tiny = cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8, .bucket_bytes = 1});
    CHECK(tiny, "buckets of a byte: %s", cr_error());       /* an element for each rank */
    cr_parallel_free(tiny);
    FAILS(CR_BAD_VALUE, "option engine cannot be combined with option half",
          cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8, .engine = true, .half = true}));
    if (cr_world_size(world) > 1) {
        const int64_t M = cr_world_rank(world) == 1 ? 16 : 8;
        FAILS(CR_BAD_VALUE, "rank 1 and rank 0 differ in the number of microbatches",
              cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = M}));
        const bool other = cr_world_rank(world) == 1;
        FAILS(CR_BAD_VALUE, "rank 1 and rank 0 differ in the options shard, engine",
              cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8, .shard = other}));
        FAILS(CR_BAD_VALUE, "rank 1 and rank 0 differ in the options shard, engine",
              cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8, .half = other}));
        FAILS(CR_BAD_VALUE, "rank 1 and rank 0 differ in the bucket size",
              cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8, .bucket_bytes = other}));
        cr_params *one = cr_params_new();
        cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(other ? 3 : 4), CR_F32, cr_cpu()), true);
        OK(cr_params_add(one, "x", x));
        const cr_optim_options plain = cr_optim_defaults(CR_SGD);
        cr_optim *of_one = cr_optim_new(one, &plain);
        FAILS(CR_BAD_VALUE, "rank 1 and rank 0 differ in the model (names, shapes and dtypes of its parameters)",
              cr_parallel_new(world, of_one, &(cr_parallel_options){.microbatches = 8}));
        cr_optim_free(of_one);
        cr_params_free(one);
        cr_release(x);
        one = cr_params_new();
        x = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), true);
        OK(cr_params_add(one, "x", x));
        cr_optim_options oo = cr_optim_defaults(CR_ADAMW);
        oo.weight_decay = other ? 0.1 : 0.2;
        of_one = cr_optim_new(one, &oo);
        FAILS(CR_BAD_VALUE, "rank 1 and rank 0 differ in the optimizer",
              cr_parallel_new(world, of_one, &(cr_parallel_options){.microbatches = 8}));
        cr_optim_free(of_one);
        cr_params_free(one);
        cr_release(x);
        OK(cr_optim_set_lr(o.opt, cr_world_rank(world) ? 1 : 2));
        FAILS(CR_BAD_VALUE, "0 differ in the optimizer",
              cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = 8}));
    }
    drop(&o);
    cr_params *params = cr_params_new();
    const cr_dtype dtypes[] = {CR_BF16, CR_F32, CR_F64};
    static const char *const names[] = {"b", "w", "a"}, *const expected[] = {
        "option engine cannot be combined with option half or bfloat16 parameters",
        "[parallel_new] 'w' is float32, but 'b' bfloat16: all parameters must have one dtype",
        "[parallel_new] 'a' is float64 on cpu: contiguous float32 or bfloat16 on cpu or cuda is supported"};
    cr_tensor *w[3];
    const cr_optim_options oo = cr_optim_defaults(CR_SGD);
    cr_optim *opt = NULL;
    for (int i = 0; i < 3; i++) {
        const cr_parallel_options po = {.microbatches = 8, .engine = !i};
        w[i] = cr_requires_grad_(cr_ones(CR_LIST(3), dtypes[i], cr_cpu()), true);
        if (i == 2) cr_params_free(params), params = cr_params_new();
        OK(cr_params_add(params, names[i], w[i]));
        cr_optim_free(opt);
        opt = cr_optim_new(params, &oo);
        FAILS(i ? CR_BAD_TYPE : CR_BAD_VALUE, expected[i], cr_parallel_new(world, opt, &po));
    }
    cr_optim_free(opt);
    cr_params_free(params);
    for (int i = 0; i < 3; i++) cr_release(w[i]);
}

/* Parameters without a gradient in some steps, or in none, keep their bits and count their own steps, sharded too; a
 * graph that was recorded before a step does not go back through the weights after it. */
static uint64_t train_partly(bool shard) {
    static const char *const names[] = {"always", "not in step 1", "never"};
    uint64_t h = 0xcbf29ce484222325u;
    const int64_t n = cr_world_size(world);
    cr_params *set = cr_params_new();
    cr_tensor *w[3];
    for (int i = 0; i < 3; i++) {
        const int64_t n_i = (i ? 0 : 2 * CR_NORM_BLOCK) + 5 + i;    /* the first has three blocks of the norm */
        w[i] = cr_requires_grad_(cr_full(CR_LIST(n_i), 1 + i, CR_F32, cr_cpu()), true);
        OK(cr_params_add(set, names[i], w[i]));
    }
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.weight_decay = 0.1;
    cr_optim *opt = cr_optim_new(set, &o);
    cr_parallel *p = cr_parallel_new(world, opt, &(cr_parallel_options){.microbatches = n, .shard = shard});
    for (int step = 0; step < 3 && p; step++) {
        uint64_t before[3];
        for (int i = 0; i < 3; i++) before[i] = hash_of(0, w[i]);
        cr_scope_begin();
        const cr_tensor *old[] = {cr_sum(cr_square(w[0]), CR_ALL, false), cr_sum(cr_square(w[1]), CR_ALL, false)};
        while (cr_parallel_next(p, NULL, NULL)) {
            const cr_tensor *loss = cr_sum(cr_square(w[0]), CR_ALL, false);
            if (step != 1) loss = cr_add(loss, cr_sum(cr_exp(w[1]), CR_ALL, false));
            OK(cr_parallel_backward(p, loss));
        }
        double norm = 0;
        OK(cr_parallel_step(p, INFINITY, NULL, &norm));
        h = hashed(h, &norm, sizeof norm);
        for (int i = 0; i < 3; i++) {
            const bool changed = hash_of(0, w[i]) != before[i], wanted = i == 0 || (i == 1 && step != 1);
            CHECK(changed == wanted, "step %d: '%s' has %s bits%s", step, names[i], changed ? "other" : "the same",
                  shard ? ", sharded" : "");
            h = hash_of(h, w[i]);
        }
        for (int i = 0; i < 2; i++)
            if (i == 0 || step != 1) FAILS(CR_RUNTIME, "was modified in place", cr_backward(old[i], CR_NONE, NULL));
            else OK(cr_backward(old[i], CR_NONE, NULL));
        OK(cr_set_grad(w[1], CR_NONE));
        cr_scope_end();
    }
    cr_parallel_free(p);
    cr_optim_free(opt);
    cr_params_free(set);
    for (int i = 0; i < 3; i++) cr_release(w[i]);
    return h;
}

TEST(parameters_without_gradients) {
    REQUIRE(open_world(), "%s", cr_error());
    CHECK(train_partly(false) == train_partly(true), "other bits sharded");
}

/* Under tests/mpi_fails.c: after a step whose new weights do not come from the other rank, reading them fails. */
TEST(weights_that_never_arrive) {
    REQUIRE(open_world(), "%s", cr_error());
    if (cr_world_size(world) == 1 || !getenv("FAILS_AT")) SKIP("no failing engine");
    cr_params *set = cr_params_new();
    cr_tensor *w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = cr_requires_grad_(cr_ones(CR_LIST(9), CR_F32, cr_cpu()), true);
        OK(cr_params_add(set, (const char *const[]){"a", "b", "c", "d"}[i], w[i]));
    }
    cr_optim *opt = cr_optim_new(set, &(cr_optim_options){.kind = CR_SGD, .lr = 0.5});
    const cr_parallel_options po = {.microbatches = cr_world_size(world), .bucket_bytes = 4 * 18, .shard = true};
    cr_parallel *p = cr_parallel_new(world, opt, &po);
    const char *end = p ? "went on" : "did not begin";
    for (int step = 1; step < 9 && p && !strcmp(end, "went on"); step++) {
        cr_scope_begin();
        while (cr_parallel_next(p, NULL, NULL)) {
            const cr_tensor *loss = cr_scalar(0);
            for (int i = 0; i < 4; i++) loss = cr_add(loss, cr_mul_scalar(cr_sum(cr_square(w[i]), CR_ALL, false), 0.5));
            if (cr_parallel_backward(p, loss) != CR_OK) break;
        }
        if (cr_error() || cr_parallel_step(p, INFINITY, NULL, NULL) != CR_OK) end = "failed in a step";
        for (int i = 0; i < 4 && !strcmp(end, "went on"); i++) {
            const double sum = cr_item(cr_sum(w[i], CR_ALL, false));
            if (cr_error()) end = "was refused";
            else if (sum != 9 * pow(0.5, step)) end = "read old weights";
        }
        cr_scope_end();
    }
    printf("rank %d %s: %s\n", cr_world_rank(world), end, cr_error() ? cr_error() : "no error");
    fflush(stdout);
    cr_world_abort(world, 1);
}

/* A loss that is not finite on one rank changes no weight anywhere, and all ranks know whose it was. */
TEST(nan_on_one_rank) {
    REQUIRE(open_world(), "%s", cr_error());
    const int n = cr_world_size(world), last = n - 1;
    for (int shard = 0; shard < 2; shard++) {
        objects o = {0};
        REQUIRE(make(&o, false), "%s", cr_error());
        cr_parallel *p = cr_parallel_new(world, o.opt, &(cr_parallel_options){.microbatches = n, .shard = shard});
        REQUIRE(p, "%s", cr_error());
        const cr_tensor *w = cr_params_at(cr_gpt_params(o.model), 0);
        uint64_t before = 0;
        for (int step = 0; step < 2; step++) {
            double loss = 0;
            if (step) before = hash_of(0, w);
            while (cr_parallel_next(p, o.loader, o.g)) {
                cr_tensor *x, *y;
                cr_scope_begin();
                OK(cr_loader_next(o.loader, &x, &y));
                const bool bad = step && cr_world_rank(world) == last;
                OK(cr_parallel_backward(p, cr_mul_scalar(cr_gpt_loss(o.model, x, y, true), bad ? NAN : 1)));
                cr_scope_end();
            }
            OK(cr_parallel_step(p, 1, &loss, NULL));
            const int bad = cr_parallel_look(p).bad;
            CHECK(step ? isnan(loss) && bad == last : isfinite(loss) && bad == -1, "step %d: loss %g, rank %d", step,
                  loss, bad);
        }
        CHECK(hash_of(0, w) == before, "the weights changed, shard %d", shard);
        cr_parallel_free(p);
        drop(&o);
    }
}

TEST(fork_after_opening) {
    POSIX_ONLY("no fork");
    REQUIRE(open_world(), "%s", cr_error());
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        alarm(60);                                  /* a child that waits for the thread of its parent */
        const bool fails = cr_barrier(world) == CR_RUNTIME;
        const bool says = fails && strstr(cr_error(), "[barrier] the world was opened by process");
        cr_world_close(world);
        _exit(says ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status),
          "the child's barrier did not fail: %d", status);
    OK(cr_barrier(world));
}

/* the last one: MPI cannot be opened twice */
TEST(world_closes) {
    REQUIRE(open_world(), "%s", cr_error());
    cr_world_close(world);
    world = cr_world_open(&(cr_world_options){.alone = true});
    REQUIRE(world, "%s", cr_error());
    CHECK(cr_world_size(world) == 1 && cr_world_rank(world) == 0, "not alone");
    CHECK(!strcmp(cr_world_engine(world), "none"), "engine %s", cr_world_engine(world));
    cr_world_close(world);
    world = NULL;
}
