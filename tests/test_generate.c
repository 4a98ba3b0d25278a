/* test_generate.c - text from language models: batches against each prompt alone, beams against every
 * text there is, speculation against plain decoding and against the exact distribution, caches of other
 * dtypes and in files; sampling against its formulas; chat templates; what is refused.
 * tests/python/test_generation.py compares with transformers. */
#include "test.h"

#include <math.h>

#include "../src/models/lm.h"
#include "folder.h"
#include "lm_models.h"

enum { MOST = 64, ROWS = 4 };
typedef struct texts { uint32_t ids[ROWS][MOST]; int64_t n[ROWS]; } texts;

static bool collect(int64_t row, uint32_t id, void *ctx) {
    texts *t = ctx;
    t->ids[row][t->n[row]++] = id;
    return t->n[row] < MOST;
}

static const char *const kinds[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3", "llama"};

enum { DYNAMIC = 5 };                               /* a llama whose angles depend on the length of the text */
static const char dynamic[] = "{\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4.0,"
                              " \"original_max_position_embeddings\": 8}, ";

/* A model of a kind; other calls give other weights. */
static cr_lm *model(int kind) {
    char config[900], *at = config;
    const char *dir = folder_path("model");
    cr_params *p = kind ? llama_weights(kind == 3, kind == 4, kind == 3) : gpt_weights();
    if (kind == DYNAMIC) at += sizeof dynamic - 2;
    if (kind) snprintf(at, 700, llama_config, kinds[kind], kind == 3 ? "true" : "false");
    if (kind == DYNAMIC) memcpy(config, dynamic, sizeof dynamic - 1);
    OK(cr_save_folder(dir, p, kind ? config : gpt_config, 0));
    cr_params_free(p);
    cr_lm *m = cr_lm_load(dir, cr_cpu());
    if (!m) printf("%s\n", cr_error());
    return m;
}

static const cr_sampling greedy = {.top_p = 1}, plain = {.temperature = 1, .top_p = 1};

static void alone(const cr_lm *m, const uint32_t *ids, int64_t n, cr_generate_options o, uint64_t seed, texts *out) {
    memset(out, 0, sizeof *out);
    cr_generator *g = cr_generator_new(seed);
    OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = ids, .n = n, .generator = g}, &o, collect, out));
    cr_generator_free(g);
}

static bool equal(const uint32_t *a, int64_t n, const uint32_t *b, int64_t k) {
    return n == k && !memcmp(a, b, (size_t)n * sizeof *a);
}

static uint32_t prompt_ids[40];
static void make_prompt(void) { for (uint32_t i = 0; i < 40; i++) prompt_ids[i] = (7 * i * i + 3 * i + 5) % V; }

/* ---- batches: also beyond the context of 24, where the window moves */
TEST(batches_are_each_alone) {
    static const int64_t lengths[ROWS] = {1, 9, 30, 4};
    const uint32_t stop[] = {3};
    make_prompt();
    for (int kind = 0; kind < 5; kind++)
        for (int mode = 0; mode < 3; mode++) {
            cr_lm *m = model(kind);
            REQUIRE(m, "%s", kinds[kind]);
            const cr_generate_options o = {.tokens = 30, .sampling = mode ? &plain : &greedy, .stop = stop,
                                           .n_stop = mode == 2, .cache = mode == 2 ? CR_I8 : CR_BOOL};
            cr_prompt p[ROWS];
            texts all = {0}, one;
            for (int i = 0; i < ROWS; i++)
                p[i] = (cr_prompt){.ids = prompt_ids + i, .n = lengths[i],
                                   .generator = cr_generator_new(40 + (uint64_t)i)};
            OK(cr_lm_generate_batch(m, ROWS, p, &o, collect, &all));
            for (int i = 0; i < ROWS; i++) {
                alone(m, p[i].ids, p[i].n, o, 40 + (uint64_t)i, &one);
                CHECK(equal(all.ids[i], all.n[i], one.ids[0], one.n[0]),
                      "%s, mode %d, row %d: not the text that it is alone", kinds[kind], mode, i);
                CHECK(mode == 2 || one.n[0] == 30, "%s: %d tokens", kinds[kind], (int)one.n[0]);
                for (int64_t k = 0; mode == 2 && k < one.n[0] - 1; k++)
                    CHECK(one.ids[0][k] != 3, "%s: went on after the stop token", kinds[kind]);
                cr_generator_free(p[i].generator);
            }
            cr_lm_free(m);
        }
    test_ran_on(cr_cpu());
}

/* Tokens of the prompt are free; by any way of writing, no token comes twice. */
TEST(penalties_are_of_the_answer) {
    static cr_penalties answer = {.presence = 1e4, .prompt = 9};
    static const cr_sampling once = {.top_p = 1, .adjust = cr_penalize, .adjust_ctx = &answer};
    make_prompt();
    cr_lm *m = model(0), *draft = model(0);
    texts one, two;
    alone(m, prompt_ids, 9, (cr_generate_options){.tokens = 1, .sampling = &greedy}, 0, &one);
    for (int way = 0; way < 3; way++) {
        const cr_generate_options o = {.tokens = 8, .sampling = &once, .beams = way == 1 ? 2 : 0,
                                       .draft = way == 2 ? draft : NULL};
        alone(m, prompt_ids, 9, o, 0, &two);
        CHECK(way == 1 || one.ids[0][0] == two.ids[0][0], "way %d: the first token is another one", way);
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < i; k++)
                CHECK(two.ids[0][i] != two.ids[0][k], "way %d: token %d comes twice", way, (int)two.ids[0][i]);
    }
    cr_lm_free(m);
    cr_lm_free(draft);
    test_ran_on(cr_cpu());
}

/* ---- the step of one token is replayed: the logits have the bits of the step itself */
typedef struct kept_rows { int n; double row[MOST][V]; } kept_rows;

static bool keep_logits(const uint32_t *ids, int64_t n, double *row, int64_t count, void *ctx) {
    kept_rows *l = ctx;
    (void)ids, (void)n;
    memcpy(l->row[l->n++], row, sizeof *row * (size_t)count);
    return l->n < MOST;
}

/* Of 40 tokens behind n; as it runs inside a recording, which no plan may be part of, or by plans. */
static void logits_of(const cr_lm *m, int64_t n, cr_dtype cache, bool recorded, kept_rows *l) {
    const cr_sampling s = {.temperature = 1, .top_p = 1, .adjust = keep_logits, .adjust_ctx = l};
    texts out;
    l->n = 0;
    if (recorded) OK(cr_record_begin(0, NULL));
    if (recorded) cr_record_lenient();
    alone(m, prompt_ids, n, (cr_generate_options){.tokens = 40, .sampling = &s, .cache = cache}, 3, &out);
    if (recorded) cr_record_cancel();
}

/* Kernels that plans ran, in the profile of a text. */
static int64_t replayed(const cr_lm *m, int64_t given, cr_dtype cache) {
    static kept_rows l;
    int64_t n = 0;
    OK(cr_profile_begin());
    logits_of(m, given, cache, false, &l);
    OK(cr_profile_end(folder_path("profile.json")));
    FILE *f = fopen(folder_path("profile.json"), "r");
    char line[1000];
    while (f && fgets(line, sizeof line, f)) n += strstr(line, "\"cat\":\"plan\"") != NULL;
    if (f) fclose(f);
    return n;
}

TEST(replayed_tokens_have_the_bits_of_the_step) {
    static const int64_t lengths[] = {1, 5, 23, 30};
    static const cr_dtype caches[] = {CR_BOOL, CR_F16, CR_I8};
    static kept_rows a, b;
    make_prompt();
    for (int kind = 0; kind < 5; kind++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 3; k++) {
                cr_lm *m = model(kind);
                REQUIRE(m, "%s", kinds[kind]);
                logits_of(m, lengths[i], caches[k], true, &a);
                logits_of(m, lengths[i], caches[k], false, &b);
                CHECK(a.n == 40 && b.n == 40, "%s: %d and %d tokens", kinds[kind], a.n, b.n);
                for (int t = 0; t < a.n && t < b.n; t++)
                    CHECK(!memcmp(a.row[t], b.row[t], sizeof a.row[t]), "%s, %d given, cache %d: token %d differs",
                          kinds[kind], (int)lengths[i], k, t);
                const bool may = !k;                /* a cache that is converted: the step itself */
                CHECK((replayed(m, lengths[i], caches[k]) > 100) == may, "%s, %d given: replays are expected: %d",
                      kinds[kind], (int)lengths[i], may);
                cr_lm_free(m);
            }
    test_ran_on(cr_cpu());
}

/* ---- sampling */
static bool forbid_even(const uint32_t *ids, int64_t n, double *logits, int64_t count, void *ctx) {
    (void)ids;
    (void)n;
    (void)ctx;
    for (int64_t i = 0; i < count; i += 2) logits[i] = -INFINITY;
    return true;
}

static bool fail_adjust(const uint32_t *ids, int64_t n, double *logits, int64_t count, void *ctx) {
    (void)ids;
    (void)n;
    (void)logits;
    (void)count;
    (void)ctx;
    return false;
}

/* How far counts are from expected ones: the sum of squares over expectations, against its limit at 1 in 10^6. */
static void check_counts(const char *what, const int64_t *counts, const double *p, int64_t n, int64_t draws) {
    double chi = 0;
    int64_t free_ = -1;
    for (int64_t i = 0; i < n; i++) {
        const double expected = p[i] * (double)draws;
        CHECK(p[i] > 0 || !counts[i], "%s: token %d cannot be, but came %d times", what, (int)i, (int)counts[i]);
        if (p[i] <= 0) continue;
        chi += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
        free_++;
    }
    const double k = (double)free_, z = 4.75;       /* Wilson and Hilferty (1931) */
    const double limit = k > 0 ? k * pow(1 - 2 / (9 * k) + z * sqrt(2 / (9 * k)), 3) : 1e-9;
    CHECK(chi < limit, "%s: chi-square %g of %d degrees, the limit is %g", what, chi, (int)free_, limit);
}

TEST(sampling_keeps_its_formulas) {
    static const double logits[7] = {0.5, 2, -1, 1.2, -3, 0, 1.9};
    static const uint32_t before[] = {1, 2, 1};
    static const cr_logit_bias bias[] = {{5, 1.5}, {1, -0.75}};
    static cr_penalties presence = {.presence = 0.75}, frequency = {.frequency = -0.5},
                        biased = {.bias = bias, .biases = 2}, late = {.presence = 1, .prompt = 2},
                        whole = {.presence = -0.5, .frequency = 0.75, .bias = bias, .biases = 2};
    static const struct { const char *what; cr_sampling s;
    } rows[] = {{"min_p", {.temperature = 1, .top_p = 1, .min_p = 0.2}},
                {"min_p at temperature 2", {.temperature = 2, .top_p = 1, .min_p = 0.3}},
                {"min_p after top_k", {.temperature = 1, .top_p = 1, .top_k = 4, .min_p = 0.25}},
                {"top_p, then min_p", {.temperature = 1.5, .top_p = 0.8, .min_p = 0.1}},
                {"penalty", {.temperature = 1, .top_p = 1, .repetition_penalty = 1.7}},
                {"presence", {.temperature = 1, .top_p = 1, .adjust = cr_penalize, .adjust_ctx = &presence}},
                {"frequency", {.temperature = 1, .top_p = 1, .adjust = cr_penalize, .adjust_ctx = &frequency}},
                {"bias", {.temperature = 1, .top_p = 1, .adjust = cr_penalize, .adjust_ctx = &biased}},
                {"behind a prompt", {.temperature = 1, .top_p = 1, .adjust = cr_penalize, .adjust_ctx = &late}},
                {"all", {.temperature = 1, .top_p = 1, .adjust = cr_penalize, .adjust_ctx = &whole}},
                {"adjust", {.temperature = 1, .top_p = 1, .adjust = forbid_even}},
                {"adjust and penalty", {.temperature = 1, .top_p = 1, .repetition_penalty = 2, .adjust = forbid_even}}};
    cr_generator *g = cr_generator_new(3);
    cr_scope_begin();
    cr_tensor *t = cr_from(logits, CR_LIST(7), CR_F64, cr_cpu());
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const cr_sampling *s = &rows[r].s;
        double p[7], sum = 0, most = 0;
        int64_t counts[7] = {0};
        for (int i = 0; i < 7; i++) {
            double x = logits[i];
            const bool seen = i == 1 || i == 2;
            const cr_penalties *added = s->adjust == cr_penalize ? s->adjust_ctx : NULL;
            if (s->adjust && !added && i % 2 == 0) x = -INFINITY;
            for (int k = added ? (int)added->prompt : 3, first = 1; k < 3; k++)
                if (before[k] == (uint32_t)i) x -= added->frequency + (first ? added->presence : 0), first = 0;
            for (int64_t k = 0; added && k < added->biases; k++)
                if (added->bias[k].id == (uint32_t)i) x += added->bias[k].add;
            if (s->repetition_penalty > 0 && seen) x = x > 0 ? x / s->repetition_penalty : x * s->repetition_penalty;
            p[i] = exp(x / s->temperature);
            most = fmax(most, p[i]);
        }
        for (int i = 0; i < 7; i++) {               /* rank by counting; the logits differ */
            int above = 0;
            double mass = 0, all = 0;
            for (int k = 0; k < 7; k++) { above += p[k] > p[i]; mass += p[k] > p[i] ? p[k] : 0; all += p[k]; }
            if ((s->top_k && above >= s->top_k) || mass >= s->top_p * all) p[i] = -p[i];
        }
        for (int i = 0; i < 7; i++) {
            if (p[i] < s->min_p * most) p[i] = 0;
            sum += p[i];
        }
        for (int i = 0; i < 7; i++) p[i] /= sum;
        for (int i = 0; i < 4000; i++) {
            uint32_t id = 7;
            OK(cr_sample_next(t, s, before, 3, g, &id));
            counts[id < 7 ? id : 0]++;
        }
        check_counts(rows[r].what, counts, p, 7, 4000);
    }
    uint32_t id;
    FAILS(CR_BAD_VALUE, "min_p must be between 0 (all) and 1, not 2",
          cr_sample(t, &(cr_sampling){.top_p = 1, .min_p = 2}, g, &id));
    FAILS(CR_BAD_VALUE, "repetition_penalty must be 0 (none) or more, not -1",
          cr_sample(t, &(cr_sampling){.top_p = 1, .repetition_penalty = -1}, g, &id));
    FAILS(CR_BAD_VALUE, "penalties must be finite",
          cr_sample(t, &(cr_sampling){.top_p = 1, .adjust = cr_penalize,
                                      .adjust_ctx = &(cr_penalties){.presence = INFINITY}}, g, &id));
    FAILS(CR_BAD_VALUE, "the bias of token 7 is 1: the vocabulary has 7",
          cr_sample(t, &(cr_sampling){.top_p = 1, .adjust = cr_penalize,
                                      .adjust_ctx = &(cr_penalties){.bias = &(cr_logit_bias){7, 1}, .biases = 1}},
                    g, &id));
    FAILS(CR_BAD_VALUE, "adjust failed", cr_sample(t, &(cr_sampling){.top_p = 1, .adjust = fail_adjust}, g, &id));
    FAILS(CR_BAD_VALUE, "none of the 1 tokens is allowed",
          cr_sample(cr_zeros(CR_LIST(1), CR_F32, cr_cpu()), &(cr_sampling){.top_p = 1, .adjust = forbid_even}, g, &id));
    FAILS(CR_BAD_VALUE, "cannot read -1 tokens", cr_sample_next(t, &plain, before, -1, g, &id));
    cr_scope_end();
    cr_generator_free(g);
}

/* ---- the logits after a text, without a cache */
static void logits_after(const cr_lm *m, const uint32_t *ids, int64_t n, double *out) {
    int64_t wide[MOST];
    for (int64_t i = 0; i < n; i++) wide[i] = ids[i];
    cr_scope_begin();
    cr_tensor *y = cr_lm_logits(m, cr_from(wide, CR_LIST(1, n), CR_I64, cr_cpu()));
    OK(cr_read(cr_slice(y, 1, n - 1, n, 1), CR_F64, out, V * sizeof *out));
    cr_scope_end();
}

static void log_softmax(double *x) {
    double sum = 0, most = x[0];
    for (int i = 1; i < V; i++) most = fmax(most, x[i]);
    for (int i = 0; i < V; i++) sum += exp(x[i] - most);
    for (int i = 0; i < V; i++) x[i] -= most + log(sum);
}

/* ---- beams */
typedef struct found { double score; uint32_t ids[8]; int64_t n; } found;

/* Every text of at most `depth` more tokens that ends with the stop token or has them all. */
static void enumerate(const cr_lm *m, uint32_t *ids, int64_t n, int64_t made, int64_t depth, double sum,
                      const cr_generate_options *o, found *b) {
    const bool ended = made && o->n_stop && ids[n + made - 1] == o->stop[0];
    if (ended || made == depth) {
        const double score = sum / pow((double)made, o->length_penalty);
        if (score <= b->score) return;
        b->score = score;
        b->n = made;
        memcpy(b->ids, ids + n, (size_t)made * sizeof *ids);
        return;
    }
    double p[V];
    logits_after(m, ids, n + made, p);
    log_softmax(p);
    for (uint32_t v = 0; v < V; v++) {
        if (o->sampling && o->sampling->adjust && v % 2 == 0) continue;
        ids[n + made] = v;
        enumerate(m, ids, n, made + 1, depth, sum + p[v], o, b);
    }
}

/* W beams without caches, by the rules of transformers: a step ranks W max(2, 1 + stops) continuations; an end among
 * the first W is set aside, the others go on until W texts are better than any of them. */
typedef struct beam { double score; int64_t n; uint32_t ids[MOST]; } beam;

static int by_score(const void *a, const void *b) {
    const double x = ((const beam *)a)->score, y = ((const beam *)b)->score;
    return (x < y) - (x > y);
}

static void plain_beams(const cr_lm *m, const uint32_t *prompt, int64_t n, const cr_generate_options *o, beam *best) {
    enum { MANY = 8 };
    static beam all[MANY * V], now[MANY], done[2 * MANY];
    const int W = (int)o->beams, keep = W * (int)(o->n_stop > 1 ? 1 + o->n_stop : 2);
    int alive = 1, ended = 0;
    now[0] = (beam){.n = n};
    memcpy(now[0].ids, prompt, (size_t)n * sizeof *prompt);
    for (int64_t made = 1; made <= o->tokens && alive; made++) {
        double p[V];
        for (int i = 0; i < alive * V; i++) {
            if (i % V == 0) logits_after(m, now[i / V].ids, now[i / V].n, p), log_softmax(p);
            all[i] = now[i / V];
            all[i].score += p[i % V];
            all[i].ids[all[i].n++] = (uint32_t)(i % V);
        }
        const int ranked = alive * V < keep ? alive * V : keep;
        qsort(all, (size_t)(alive * V), sizeof *all, by_score);
        alive = 0;
        for (int r = 0; r < ranked; r++) {
            bool ends = made == o->tokens;
            for (int64_t k = 0; k < o->n_stop; k++) ends |= all[r].ids[all[r].n - 1] == o->stop[k];
            if (!ends && alive < W) now[alive++] = all[r];
            if (!ends || r >= W) continue;
            done[ended] = all[r];
            done[ended++].score /= pow((double)made, o->length_penalty);
        }
        qsort(done, (size_t)ended, sizeof *done, by_score);
        if (ended > W) ended = W;
        const double hope = alive ? now[0].score / pow((double)made, o->length_penalty) : -INFINITY;
        if (ended == W && hope <= done[W - 1].score) break;
    }
    *best = done[0];
}

TEST(narrow_beams_keep_the_best) {
    static const uint32_t stop[] = {3, 5, 11, 0, 8, 1, 13, 4, 6, 7, 9, 10};
    make_prompt();
    for (int kind = 0; kind < 5; kind++)
        for (int i = 0; i < 12; i++) {
            cr_lm *m = model(kind);
            const cr_generate_options o = {.tokens = 14, .beams = 2 + i % 4,
                                           .length_penalty = (double[]){1, -0.5, 3}[i % 3], .stop = stop,
                                           .n_stop = i < 4 ? 0 : i < 8 ? 1 : 12};
            const uint32_t *prompt = prompt_ids + i % 5;
            static beam wanted;
            texts t;
            plain_beams(m, prompt, 5, &o, &wanted);
            alone(m, prompt, 5, o, 0, &t);
            CHECK(equal(t.ids[0], t.n[0], wanted.ids + 5, wanted.n - 5), "%s: %d beams, %d stops", kinds[kind],
                  (int)o.beams, (int)o.n_stop);
            cr_lm_free(m);
        }
}

TEST(wide_beams_find_the_best_text) {
    static const uint32_t stop[] = {5};
    static const cr_sampling odd = {.top_p = 1, .adjust = forbid_even};
    static const struct { int kind; int64_t n_stop, beams; double length_penalty; const cr_sampling *s;
    } rows[] = {{0, 0, 361, 1, NULL}, {2, 1, 361, 1, NULL}, {4, 1, 361, -1, NULL}, {3, 1, 361, 2.5, &odd},
                {1, 0, 361, 0, NULL}};
    make_prompt();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const cr_generate_options o = {.tokens = 3, .beams = rows[r].beams, .length_penalty = rows[r].length_penalty,
                                       .stop = stop, .n_stop = rows[r].n_stop, .sampling = rows[r].s};
        for (int from = 0; from < 4; from++) {
            cr_lm *m = model(rows[r].kind);
            uint32_t ids[16];
            texts t;
            found b = {.score = -INFINITY};
            memcpy(ids, prompt_ids + from, 4 * sizeof *ids);
            enumerate(m, ids, 4, 0, 3, 0, &o, &b);
            alone(m, prompt_ids + from, 4, o, 0, &t);
            CHECK(equal(t.ids[0], t.n[0], b.ids, b.n), "%s: not the best text, %d and %d tokens",
                  kinds[rows[r].kind], (int)t.n[0], (int)b.n);
            cr_lm_free(m);
        }
    }
    cr_lm *m = model(1);
    texts one, two;
    alone(m, prompt_ids, 4, (cr_generate_options){.tokens = 12, .sampling = &greedy}, 0, &one);
    alone(m, prompt_ids, 4, (cr_generate_options){.tokens = 12, .beams = 1, .sampling = &greedy}, 0, &two);
    CHECK(equal(one.ids[0], one.n[0], two.ids[0], two.n[0]), "one beam is greedy");
    /* the caches of 3 beams over 12 tokens: their text's score, with and without a cache of f32 */
    alone(m, prompt_ids, 4, (cr_generate_options){.tokens = 12, .beams = 3, .length_penalty = 1}, 0, &one);
    alone(m, prompt_ids, 4, (cr_generate_options){.tokens = 12, .beams = 3, .length_penalty = 1, .cache = CR_F32}, 0,
          &two);
    CHECK(one.n[0] == 12 && equal(one.ids[0], one.n[0], two.ids[0], two.n[0]), "3 beams");
    cr_lm_free(m);
}

/* ---- speculation */
TEST(speculation_changes_no_text) {
    make_prompt();
    for (int kind = 0; kind < 5; kind++) {
        cr_lm *m = model(kind), *draft = model((kind + 1) % 5);
        const cr_lm *const drafts[] = {draft, m};
        static const int64_t lengths[] = {1, 9, 30};
        for (int i = 0; i < 6; i++)
            for (int64_t k = 1; k < 8; k += 3) {
                texts one, two;
                cr_generate_options o = {.tokens = 40, .sampling = &greedy};
                alone(m, prompt_ids, lengths[i % 3], o, 0, &one);
                o.draft = drafts[i / 3];
                o.draft_tokens = k;
                alone(m, prompt_ids, lengths[i % 3], o, 0, &two);
                CHECK(equal(one.ids[0], one.n[0], two.ids[0], two.n[0]), "%s, draft %d, %d tokens", kinds[kind], i / 3,
                      (int)k);
            }
        cr_lm_free(m);
        cr_lm_free(draft);
    }
}

TEST(speculation_keeps_the_distribution) {
    make_prompt();
    cr_lm *m = model(0), *draft = model(1);
    const cr_sampling s = {.temperature = 1.3, .top_p = 0.95, .min_p = 0.02, .repetition_penalty = 1.2};
    const cr_generate_options o = {.tokens = 3, .sampling = &s, .draft = draft, .draft_tokens = 2};
    cr_generator *g = cr_generator_new(11), *h = cr_generator_new(12);
    enum { DRAWS = 3000 };
    int64_t counts[3][V] = {{0}}, direct[3][V] = {{0}};
    double p[V];
    for (int i = 0; i < DRAWS; i++) {
        texts t = {0};
        OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = prompt_ids, .n = 3, .generator = g}, &o, collect, &t));
        for (int k = 0; k < 3; k++) counts[k][t.ids[0][k]]++;
        memset(&t, 0, sizeof t);
        OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = prompt_ids, .n = 3, .generator = h},
                                &(cr_generate_options){.tokens = 3, .sampling = &s}, collect, &t));
        for (int k = 0; k < 3; k++) direct[k][t.ids[0][k]]++;
    }
    for (int k = 0; k < 3; k++) {                   /* two samples of equal size: chi-square of their difference */
        double chi = 0;
        int degrees = -1;
        for (int v = 0; v < V; v++) {
            const double a = (double)counts[k][v], b = (double)direct[k][v];
            if (a + b < 10) continue;
            chi += (a - b) * (a - b) / (a + b);
            degrees++;
        }
        const double n = degrees, limit = n * pow(1 - 2 / (9 * n) + 4.75 * sqrt(2 / (9 * n)), 3);
        CHECK(degrees > 2 && chi < limit, "token %d: chi-square %g of %d degrees, the limit is %g", k, chi, degrees,
              limit);
    }
    logits_after(m, prompt_ids, 3, p);              /* the first token against its formula, temperature only */
    const cr_sampling warm = {.temperature = 1.3, .top_p = 1};
    const cr_generate_options two = {.tokens = 2, .sampling = &warm, .draft = draft};
    double sum = 0;
    for (int v = 0; v < V; v++) sum += p[v] = exp(p[v] / 1.3);
    for (int v = 0; v < V; v++) p[v] /= sum;
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < DRAWS; i++) {
        texts t = {0};
        OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = prompt_ids, .n = 3, .generator = g}, &two, collect, &t));
        counts[0][t.ids[0][0]]++;
    }
    check_counts("speculation", counts[0], p, V, DRAWS);
    cr_generator_free(g);
    cr_generator_free(h);
    cr_lm_free(m);
    cr_lm_free(draft);
}

/* A draft with the logits of the model: every proposal is taken, also one that occurred before. */
TEST(proposals_are_seen) {
    const cr_sampling s = {.temperature = 1, .top_p = 1, .repetition_penalty = 3};
    const uint32_t said[] = {0, 2, 2};
    cr_generator *g = cr_generator_new(5);
    cr_scope_begin();
    cr_tensor *logits = cr_ones(CR_LIST(3, 4), CR_F32, cr_cpu());
    for (int i = 0; i < 40; i++) {
        int64_t taken = 0;
        uint32_t id;
        OK(cr_sample_verify(logits, cr_slice(logits, 0, 0, 2, 1), &s, said, 1, g, &taken, &id));
        CHECK(taken == 2, "draw %d: %d of 2 proposals", i, (int)taken);
    }
    cr_scope_end();
    cr_generator_free(g);
}

/* ---- caches */
typedef struct seen { double row[MOST][V]; int64_t n; } seen;

static bool record(const uint32_t *ids, int64_t n, double *logits, int64_t count, void *ctx) {
    seen *s = ctx;
    (void)ids;
    (void)n;
    if (s->n < MOST) memcpy(s->row[s->n++], logits, (size_t)count * sizeof *logits);
    return true;
}

static bool forced(const uint32_t *ids, int64_t n, double *logits, int64_t count, void *ctx) {
    record(ids, n, logits, count, ctx);
    for (int64_t i = 0; i < count; i++) if (i != (7 * n) % count) logits[i] = -INFINITY;
    return true;
}

/* The largest difference of logits along one text, of the largest logit. */
static double off(const seen *a, const seen *b) {
    double worst = 0, most = 0;
    for (int64_t i = 0; i < a->n; i++)
        for (int v = 0; v < V; v++) {
            worst = fmax(worst, fabs(a->row[i][v] - b->row[i][v]));
            most = fmax(most, fabs(a->row[i][v]));
        }
    return a->n == b->n ? worst / most : INFINITY;
}

TEST(smaller_caches_are_near) {
    static const struct { cr_dtype dt; double near, far;
    } rows[] = {{CR_F32, 0, 0}, {CR_F16, 2e-3, 1e-6}, {CR_BF16, 2e-2, 1e-5}, {CR_I8, 5e-2, 1e-5}};
    make_prompt();
    for (int kind = 0; kind < 5; kind++) {
        cr_lm *m = model(kind);
        seen exact = {.n = 0}, s;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            texts t;
            s.n = 0;
            const cr_sampling recorded = {.top_p = 1, .adjust = forced, .adjust_ctx = r ? &s : &exact};
            alone(m, prompt_ids, 9, (cr_generate_options){.tokens = 12, .sampling = &recorded, .cache = rows[r].dt}, 0,
                  &t);
            if (!r) continue;
            const double d = off(&exact, &s);
            CHECK(d <= rows[r].near && d >= rows[r].far, "%s, %s: the logits are off by %g", kinds[kind],
                  cr_dtype_name(rows[r].dt), d);
        }
        cr_lm_free(m);
    }
}

/* Keys and values of the first layer in a file of int8: within half a step of those in floats. */
static void check_codes(const cr_lm *m, const char *file, int64_t n) {
    const char *path = folder_path("exact.safetensors");
    const cr_generate_options o = {.tokens = 1, .sampling = &greedy};
    cr_cache *c = cr_cache_new(m, CR_BOOL);
    texts t = {0};
    OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = prompt_ids, .n = n, .cache = c}, &o, collect, &t));
    OK(cr_cache_save(c, m, path));
    cr_cache_free(c);
    cr_params *exact = cr_load(path, cr_cpu()), *coded = cr_load(file, cr_cpu());
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "0.v" : "0.k", *scale = i ? "0.v_scale" : "0.k_scale";
        cr_scope_begin();
        cr_tensor *x = cr_slice(cr_params_get(exact, name), 2, 0, n, 1),
                  *codes = cr_to(cr_slice(cr_params_get(coded, name), 2, 0, n, 1), CR_F32, cr_cpu()),
                  *y = cr_mul(codes, cr_slice(cr_params_get(coded, scale), 2, 0, n, 1)),
                  *most = cr_max(cr_abs(x), CR_LIST(3), true);
        const double off = cr_item(cr_max(cr_div(cr_abs(cr_sub(x, y)), most), CR_ALL, false));
        CHECK(off <= 0.501 / 127, "%s: off by %g of the largest", name, off);
        cr_scope_end();
    }
    cr_params_free(exact);
    cr_params_free(coded);
}

TEST(a_cache_goes_on_and_keeps_in_a_file) {
    static const cr_dtype dtypes[] = {CR_BOOL, CR_F16, CR_I8};
    make_prompt();
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < 3; i++) {
            cr_lm *m = model(kind), *other = model(kind);
            const char *file = folder_path("cache.safetensors");
            const cr_generate_options o = {.tokens = 5, .sampling = &greedy, .cache = dtypes[i]};
            cr_cache *c = cr_cache_new(m, dtypes[i]);
            texts a = {0}, b = {0}, again = {0}, whole;
            OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = prompt_ids, .n = 8, .cache = c}, &o, collect, &a));
            int64_t n;
            const uint32_t *held = cr_cache_tokens(c, &n);
            CHECK(n == 12 && !memcmp(held, prompt_ids, 32) && !memcmp(held + 8, a.ids[0], 16), "it holds %d", (int)n);
            OK(cr_cache_save(c, m, file));
            if (dtypes[i] == CR_I8) check_codes(m, file, 8);
            uint32_t longer[16];
            memcpy(longer, held, 10 * sizeof *held);        /* goes on from its tenth token with others */
            for (uint32_t k = 10; k < 14; k++) longer[k] = (3 * k) % V;
            alone(m, longer, 14, o, 0, &whole);
            OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = longer, .n = 14, .cache = c}, &o, collect, &b));
            CHECK(equal(whole.ids[0], 5, b.ids[0], b.n[0]), "%s: another text with a cache", kinds[kind]);
            cr_cache *loaded = cr_cache_load(m, file, dtypes[i]);
            REQUIRE(loaded, "%s", cr_error());
            OK(cr_lm_generate_batch(m, 1, &(cr_prompt){.ids = longer, .n = 14, .cache = loaded}, &o, collect, &again));
            CHECK(equal(b.ids[0], 5, again.ids[0], again.n[0]), "%s: another text from the file", kinds[kind]);

            size_t bytes;
            char *data = file_get(file, &bytes);
            OK(cr_cache_save(loaded, m, file));             /* now of the other text */
            for (size_t cut = 1; cut < bytes; cut += bytes / 7) {
                file_put(file, data, bytes - cut);
                cr_cache *broken = cr_cache_load(m, file, dtypes[i]);
                CHECK(!broken && cr_error(), "a file that lacks %d bytes was read", (int)cut);
                cr_error_clear();
            }
            file_put(file, data, bytes);
            FAILS(CR_BAD_VALUE, "belongs to another model", cr_cache_load(other, file, dtypes[i]));
            FAILS(CR_BAD_VALUE, "is a cache of", cr_cache_load(m, file, CR_BF16));
            OK(cr_save(file, cr_lm_params(m), "{\"cache\":\"2\"}"));
            FAILS(CR_BAD_VALUE, "is not a cache of a text", cr_cache_load(m, file, dtypes[i]));
            OK(cr_save(file, cr_lm_params(m), NULL));
            FAILS(CR_BAD_VALUE, "is not a cache of a text", cr_cache_load(m, file, dtypes[i]));
            FAILS(CR_BAD_VALUE, "belongs to another model",
                  cr_lm_generate_batch(other, 1, &(cr_prompt){.ids = longer, .n = 14, .cache = c}, &o, collect, &a));
            free(data);
            cr_cache_free(c);
            cr_cache_free(loaded);
            cr_lm_free(m);
            cr_lm_free(other);
        }
}

/* One token after another of one text: a plan from the third on, with the bits of the model's own steps; another
 * one where the room of the cache grows. */
TEST(steps_replay) {
    make_prompt();
    for (int kind = 0; kind <= DYNAMIC; kind++) {
        cr_lm *m = model(kind);
        const cr_decoder *d = cr_lm_decoder(m);
        const bool recording = cr_set_grad_enabled(false);
        cr_cache *a = cr_cache_for("test", d, d->dtype), *b = cr_cache_for("test", d, d->dtype);
        cr_token_step step = {0};
        OK(cr_cache_reserve(a, 12));
        int replays = 0;
        for (int i = 0; i < 20; i++) {
            float x[V], y[V];
            cr_scope_begin();
            if (i == 6) step.made = 0, cr_plan_free(step.plan), step.plan = NULL;        /* and again */
            const bool planned = step.plan != NULL;
            const cr_tensor *one = cr_forward_token(d, a, prompt_ids[i], &step),
                            *whole = cr_forward(d, 1, &b, &prompt_ids[i], 1, 1);
            REQUIRE(one && whole, "%s", cr_error());
            OK(cr_read(one, CR_F32, x, sizeof x));
            OK(cr_read(whole, CR_F32, y, sizeof y));
            CHECK(!memcmp(x, y, sizeof x), "%s: other logits at position %d%s", kinds[kind], i,
                  planned ? ", by a plan" : "");
            CHECK(a->past == b->past && a->ids[i] == b->ids[i], "%s: position %d", kinds[kind], i);
            replays += planned && step.plan != NULL;
            cr_scope_end();
        }
        /* the room is 12, then one more for each position */
        CHECK(replays == (kind == DYNAMIC ? 0 : 4 + 4), "%s: %d steps were replayed", kinds[kind], replays);
        cr_plan_free(step.plan);
        cr_cache_free(a);
        cr_cache_free(b);
        cr_set_grad_enabled(recording);
        cr_lm_free(m);
    }
}

/* ---- what is refused */
TEST(refused) {
    make_prompt();
    cr_lm *m = model(0), *other = NULL;
    texts t = {0};
    const cr_prompt p = {.ids = prompt_ids, .n = 4}, bad = {.ids = (uint32_t[]){2, V}, .n = 2};
    const uint32_t stop[] = {V};
    cr_cache *c = cr_cache_new(m, CR_BOOL);
    const cr_prompt twice[] = {{.ids = prompt_ids, .n = 4, .cache = c}, {.ids = prompt_ids, .n = 4, .cache = c}};
#define REFUSED(kind, text, ...)                                                                    \
    FAILS(kind, text, cr_lm_generate_batch(m, 1, &p, &(cr_generate_options){__VA_ARGS__}, collect, &t))
    REFUSED(CR_BAD_VALUE, "cannot make -1 tokens", .tokens = -1);
    REFUSED(CR_BAD_VALUE, "beams must be between 1 and 1024, not -2", .tokens = 4, .beams = -2);
    REFUSED(CR_BAD_VALUE, "within the context of 24, not 4 + 21", .tokens = 21, .beams = 2);
    REFUSED(CR_BAD_VALUE, "length_penalty must be finite", .tokens = 4, .beams = 2, .length_penalty = NAN);
    REFUSED(CR_BAD_INDEX, "stop token 0 is 19", .tokens = 4, .stop = stop, .n_stop = 1);
    REFUSED(CR_BAD_VALUE, "cannot read 1 stop tokens", .tokens = 4, .n_stop = 1);
    REFUSED(CR_BAD_VALUE, "beam search takes no draft", .tokens = 4, .beams = 2, .draft = m);
    REFUSED(CR_BAD_VALUE, "draft_tokens must be", .tokens = 4, .draft = m, .draft_tokens = -1);
    REFUSED(CR_BAD_TYPE, "a float type or int8, not int64", .tokens = 4, .cache = CR_I64);
    FAILS(CR_BAD_INDEX, "prompt token 1 is 19",
          cr_lm_generate_batch(m, 1, &bad, &(cr_generate_options){.tokens = 1}, collect, &t));
    FAILS(CR_BAD_VALUE, "prompts 0 and 1 have the same cache",
          cr_lm_generate_batch(m, 2, twice, &(cr_generate_options){.tokens = 1}, collect, &t));
    FAILS(CR_BAD_VALUE, "takes 1 to 65536 prompts",
          cr_lm_generate_batch(m, 0, &p, &(cr_generate_options){.tokens = 1}, collect, &t));
    FAILS(CR_BAD_VALUE, "prompts", cr_lm_generate_batch(m, 1, NULL, &(cr_generate_options){0}, collect, &t));
    FAILS(CR_BAD_VALUE, "the cache is empty", cr_cache_save(c, m, folder_path("x")));
    FAILS(CR_IO, "cannot read", cr_cache_load(m, folder_path("nowhere"), CR_BOOL));
    cr_gpt *small = cr_gpt_new(&(cr_gpt_config){.vocabulary = 7, .context = 8, .layers = 1, .heads = 1, .width = 4},
                               CR_F32, cr_cpu(), NULL);
    OK(cr_gpt_save(small, folder_path("small")));
    cr_gpt_free(small);
    other = cr_lm_load(folder_path("small"), cr_cpu());
    REQUIRE(other, "%s", cr_error());
    REFUSED(CR_BAD_VALUE, "the draft model has a vocabulary of 7, the model of 19", .tokens = 4, .draft = other);
    cr_params *weights = cr_lm_params(m);
    const bool recording = cr_set_grad_enabled(false);
    CHECK(cr_fill_(cr_params_get(weights, "ln_f.bias"), NAN) != NULL, "%s", cr_error());
    cr_set_grad_enabled(recording);
    REFUSED(CR_BAD_VALUE, "is nan: the model has diverged", .tokens = 4);
    REFUSED(CR_BAD_VALUE, "is nan: the model has diverged", .tokens = 4, .beams = 3);
    REFUSED(CR_BAD_VALUE, "is nan: the model has diverged", .tokens = 4, .draft = m);
    CHECK(!t.n[0], "%d tokens of refused calls", (int)t.n[0]);
    cr_cache_free(c);
    cr_lm_free(m);
    cr_lm_free(other);
}

/* ---- chat */
#define SYSTEM "{\"role\": \"system\", \"content\": \"Be brief.\"}"
#define HI "{\"role\": \"user\", \"content\": \" Hi \"}"
#define YES "{\"role\": \"assistant\", \"content\": \" Yes? \"}"
#define SUM "{\"role\": \"user\", \"content\": \"2+2\"}"

static char *chat_text(const cr_chat *c, const char *messages, const char *more) {
    char variables[600];
    snprintf(variables, sizeof variables, "{\"messages\": [%s]%s}", messages, more);
    return cr_chat_text(c, variables, strlen(variables), NULL);
}

static char *form_text(const char *form, const char *messages) {
    cr_chat *c = cr_chat_open(NULL, NULL, form);
    char *text = c ? chat_text(c, messages, "") : NULL;
    cr_chat_free(c);
    return text;
}

TEST(chat_templates) {
    static const struct { const char *name, *messages, *text;
    } rows[] = {
        {"chatml", SYSTEM ", " HI ", " YES ", " SUM,
         "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
         "<|im_start|>assistant\n Yes? <|im_end|>\n<|im_start|>user\n2+2<|im_end|>\n<|im_start|>assistant\n"},
        {"llama3", SYSTEM ", " HI ", " YES ", " SUM,
         "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
         "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
         "<|start_header_id|>user<|end_header_id|>\n\n2+2<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"llama2", SYSTEM ", " HI ", " YES ", " SUM,
         "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Yes? </s><s>[INST] 2+2 [/INST]"},
        {"llama2", HI ", " YES ", " SUM, "<s>[INST] Hi [/INST] Yes? </s><s>[INST] 2+2 [/INST]"},
        {"mistral", HI ", " YES ", " SUM, "<s>[INST]  Hi  [/INST] Yes? </s>[INST] 2+2 [/INST]"},
        {"mistral", SYSTEM ", " HI ", " YES ", " SUM,
         "<s>[INST] Be brief.\n\n Hi  [/INST] Yes? </s>[INST] 2+2 [/INST]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_chat *c = cr_chat_open(NULL, NULL, rows[i].name);
        char *text = chat_text(c, rows[i].messages, ", \"add_generation_prompt\": true");
        CHECK(text && !strcmp(text, rows[i].text), "%s:\n%s\nnot\n%s", rows[i].name, text ? text : cr_error(),
              rows[i].text);
        cr_free(text);
        cr_chat_free(c);
    }
    char *whole = form_text("chatml", SUM);
    CHECK(whole && !strcmp(whole, "<|im_start|>user\n2+2<|im_end|>\n"), "%s", whole);
    cr_free(whole);
    FAILS(CR_BAD_VALUE, "not 'alpaca'", cr_chat_open(NULL, NULL, "alpaca"));
    FAILS(CR_BAD_VALUE, "at least one message", form_text("chatml", ""));
    FAILS(CR_BAD_VALUE, "not 'tool'", form_text("chatml", "{\"role\": \"tool\", \"content\": \"x\"}"));
    FAILS(CR_BAD_VALUE, "message 0: user and assistant must take turns, not 'assistant'", form_text("mistral", YES));
    FAILS(CR_BAD_VALUE, "message 1: user and assistant must take turns, not 'assistant'",
          form_text("llama2", SYSTEM ", " YES));
    FAILS(CR_BAD_VALUE, "needs a message of the user", form_text("llama2", SYSTEM));
    FAILS(CR_BAD_VALUE, "message 1: only the first may be of the system", form_text("llama2", HI ", " SYSTEM));
    FAILS(CR_BAD_VALUE, "message 0: the content must be a str", form_text("llama2", "{\"role\": \"user\"}"));
    FAILS(CR_BAD_VALUE, "has no chat_template", form_text(NULL, HI));
}

/* What a folder says: templates in order, special tokens of its two files, end tokens of three. */
TEST(chat_of_a_folder) {
    const char *dir = folder_path("chat"), *tokens = folder_path("tokens.json");
    CHECK(cr_os_make_directory(dir), "no folder");
    static const char vocabulary[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<e>\",\"special\":true},"
        "{\"id\":2,\"content\":\"<|im_start|>\",\"special\":true},"
        "{\"id\":3,\"content\":\"<|im_end|>\",\"special\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":"
        "{\"a\":0},\"merges\":[]}}";
    file_put(tokens, vocabulary, strlen(vocabulary));
    cr_tokenizer *t = cr_tokenizer_load(tokens);
    REQUIRE(t, "%s", cr_error());
    static const struct { const char *file, *text, *source, *shown;
    } rows[] = {
        {NULL, NULL, "its special tokens", "<|im_start|>user\n Hi <|im_end|>\n"},
        {"special_tokens_map.json", "{\"bos_token\": {\"content\": \"<m>\"}, \"eos_token\": \"<m>\"}",
         "its special tokens", "<|im_start|>user\n Hi <|im_end|>\n"},
        {"tokenizer_config.json", "{\"eos_token\": {\"content\": \"<e>\"}, \"chat_template\": ["
         "{\"name\": \"tool_use\", \"template\": \"T\"}, {\"name\": \"default\", \"template\": "
         "\"{{ bos_token + eos_token }}{{ messages[0].content }}{{ tools }}\"}]}",
         "tokenizer_config.json", "<m><e> Hi None"},
        {"chat_template.jinja", "{{ 'J' + messages[0].content }}", "chat_template.jinja", "J Hi "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        snprintf(path, sizeof path, "chat/%s", rows[i].file ? rows[i].file : "");
        if (rows[i].file) file_put(folder_path(path), rows[i].text, strlen(rows[i].text));
        cr_chat *c = cr_chat_open(dir, t, NULL);
        char *text = chat_text(c, HI, "");
        CHECK(text && !strcmp(text, rows[i].shown), "%d: '%s'", (int)i, text ? text : cr_error());
        CHECK(!strcmp(cr_chat_source(c), rows[i].source), "%d: %s", (int)i, cr_chat_source(c));
        if (i == 2) {
            char *tool = chat_text(c, HI, ", \"tools\": []");
            CHECK(tool && !strcmp(tool, "T"), "with tools: '%s'", tool);
            cr_free(tool);
        }
        cr_free(text);
        cr_chat_free(c);
    }
    file_put(folder_path("chat/config.json"), "{\"eos_token_id\": 7}", 19);
    file_put(folder_path("chat/generation_config.json"), "{\"eos_token_id\": [9, 1, \"x\"]}", 29);
    uint32_t ids[8];
    cr_chat *c = cr_chat_open(dir, t, "chatml");
    CHECK(cr_chat_ends(c, false, ids, 8) == 3 && ids[0] == 1 && ids[1] == 9 && ids[2] == 7, "the ends of a text");
    CHECK(cr_chat_ends(c, true, ids, 8) == 4 && ids[3] == 3, "<|im_end|> ends an answer");
    CHECK(!strcmp(cr_chat_token(c, "bos_token"), "<m>") && !cr_chat_token(c, "pad_token"), "tokens by their roles");
    cr_chat_free(c);
    c = cr_chat_open(dir, NULL, NULL);
    CHECK(cr_chat_ends(c, true, ids, 8) == 3 && ids[0] == 9, "the numbers, without a tokenizer");
    cr_chat_free(c);
    file_put(folder_path("chat/chat_template.jinja"), "{% if %}", 8);
    c = cr_chat_open(dir, t, NULL);                 /* not an error yet: a text needs no template */
    CHECK(c && !cr_error(), "%s", cr_error());
    FAILS(CR_BAD_VALUE, "line 1: an expression is missing", chat_text(c, HI, ""));
    cr_chat_free(c);
    file_put(folder_path("chat/config.json"), "[]", 2);
    FAILS(CR_IO, "is not a JSON object", cr_chat_open(dir, t, NULL));
    cr_tokenizer_free(t);
    (void)cr_os_remove_folder(dir);
}

/* Where the answers are: by the template's own marks, or by what it renders up to each of them. */
TEST(chat_answers) {
    static const struct { const char *form, *answers;
    } rows[] = {
        {"chatml", " Yes? <|im_end|>|a<|im_end|>|"},
        {"llama2", " Yes? </s>| a </s>|"},
        {"{% for m in messages %}{{ '<' + m.role + '>' + m.content + '<e>\\n' }}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}", " Yes? <e>|a<e>|"},
        {"{% for m in messages %}{{ m.content }}{% endfor %}", " Yes? |a|"},
    };
    static const char asked[] = "{\"messages\": [" HI ", " YES ", " SUM
                                ", {\"role\": \"assistant\", \"content\": \"a\"}]}";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_chat *c = cr_chat_open(NULL, NULL, rows[i].form);
        cr_marks marks;
        char *text = cr_chat_answers(c, asked, sizeof asked - 1, &marks), shown[200] = "";
        for (int64_t k = 0; text && k < marks.n; k++) {
            const size_t n = strlen(shown);
            snprintf(shown + n, sizeof shown - n, "%.*s|", (int)(marks.at[2 * k + 1] - marks.at[2 * k]),
                     text + marks.at[2 * k]);
        }
        CHECK(!strcmp(shown, rows[i].answers), "%s: '%s'", rows[i].form, text ? shown : cr_error());
        cr_free(text);
        cr_free(marks.at);
        cr_chat_free(c);
    }
    cr_chat *c = cr_chat_open(NULL, NULL, "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
    cr_marks marks;
    FAILS(CR_BAD_VALUE, "changes earlier text at message 1", cr_chat_answers(c, asked, sizeof asked - 1, &marks));
    cr_chat_free(c);
    c = cr_chat_open(NULL, NULL, "{% for m in messages %}{{ m.content | trim + '<e>' }}{% endfor %}");
    char *text = chat_text(c, HI ", " YES, ", \"continue_final_message\": true");
    CHECK(text && !strcmp(text, "Hi<e>Yes?"), "a message that goes on: '%s'", text);
    FAILS(CR_BAD_VALUE, "exclude each other",
          chat_text(c, HI, ", \"continue_final_message\": true, \"add_generation_prompt\": true"));
    cr_free(text);
    cr_chat_free(c);
}

/* The ids of a text as a whole: how many are also those of its first bytes. */
TEST(encode_parts) {
    static const char vocabulary[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"abb\":3},"
                                     "\"merges\":[\"a b\",\"ab b\"]}}";
    const char *tokens = folder_path("tokens.json");
    file_put(tokens, vocabulary, strlen(vocabulary));
    cr_tokenizer *t = cr_tokenizer_load(tokens);
    REQUIRE(t, "%s", cr_error());
    const int64_t end[] = {0, 2, 3, 4, 6};          /* ab|abb|a: a token that crosses a place is behind it */
    int64_t at[5], n;
    uint32_t *ids = cr_tokenizer_encode_parts(t, "ababba", 6, &(cr_encoding){0}, 5, end, at, &n);
    CHECK(ids && n == 3 && ids[1] == 3, "%s", cr_error());
    CHECK(at[0] == 0 && at[1] == 1 && at[2] == 1 && at[3] == 1 && at[4] == 3, "%d %d %d %d %d", (int)at[0], (int)at[1],
          (int)at[2], (int)at[3], (int)at[4]);
    cr_free(ids);
    FAILS(CR_BAD_VALUE, "part 1 ends at byte 7 of 6",
          cr_tokenizer_encode_parts(t, "ababba", 6, &(cr_encoding){0}, 2, (int64_t[]){1, 7}, at, &n));
    cr_tokenizer_free(t);
}

/* ---- samples of files */
static cr_dataset *dataset(const cr_dataset_options *o, const char *name, const char *text) {
    const char *path = folder_path(name);
    file_put(path, text, strlen(text));
    return cr_dataset_read(o, 1, &path);
}

/* What counts of a sample; the bytes of its text are these. */
static void counted(const cr_dataset *d, int64_t i, const char *wanted) {
    const cr_example s = cr_dataset_at(d, i);
    char shown[100] = "";
    int64_t n = 0;
    for (int64_t k = 0; k < s.n && n < 99; k++) if (s.counts[k]) shown[n++] = (char)s.ids[k];
    CHECK(!strcmp(shown, wanted) && s.counted == n - s.counts[0], "sample %d: '%s'", (int)i, shown);
}

TEST(samples_of_files) {
    cr_tokenizer *t = cr_tokenizer_bytes();
    cr_chat *c = cr_chat_open(NULL, t, "{% for m in messages %}{{ m.role[0] }}{% generation %}{{ m.content }}"
                                       "{% endgeneration %}{% endfor %}");
    cr_dataset_options o = {.tokenizer = t, .chat = c, .context = 9, .eos = '.', .questions = true};
    cr_dataset *d = dataset(&o, "a.jsonl",
                            "\xEF\xBB\xBF{\"prompt\": \"ab\", \"completion\": \"cd\"}\r\n \n{\"text\": \"ab.\"}\n"
                            "{\"question\": \"x\", \"choices\": [\"yy\", \" z\", \"w\"], \"answer\": \"b\"}\n"
                            "{\"messages\": [{\"role\": \"assistant\", \"content\": \"abc\"}]}");
    REQUIRE(d && cr_dataset_count(d) == 6 && cr_dataset_questions(d) == 1, "%s", cr_error());
    static const char *const wanted[] = {"cd.", "ab.", " yy", " z", " w", "abc"};
    for (int i = 0; i < 6; i++) counted(d, i, wanted[i]);
    const cr_question q = cr_dataset_question(d, 0);
    CHECK(q.first == 2 && q.choices == 3 && q.answer == 1, "the question");
    const double loss[] = {3, 2, 2.7, 2, 1.9, 4};   /* the likeliest is " w", by bytes " yy" */
    cr_score r = cr_dataset_score(d, loss);
    CHECK(r.samples == 3 && r.tokens == 8 && r.bytes == 8 && r.loss == 9 / 8., "a loss of %g", r.loss);
    CHECK(r.perplexity == exp(9 / 8.), "a perplexity of %g", r.perplexity);
    CHECK(r.bits_per_byte == 9 / log(2) / 8, "%g bits", r.bits_per_byte);
    CHECK(r.questions == 1 && r.accuracy == 0 && r.accuracy_by_length == 0, "the questions");
    r = cr_dataset_score(d, (double[]){0, 0, 2.7, 1.7, 1.8, 0});
    CHECK(r.accuracy == 1 && r.accuracy_by_length == 1, "by length %g", r.accuracy_by_length);
    r = cr_dataset_score(d, (double[]){0, 0, 2.4, 1.7, 1.8, 0});
    CHECK(r.accuracy == 1 && r.accuracy_by_length == 0, "by length %g", r.accuracy_by_length);
    cr_dataset_free(d);
    d = dataset(&o, "a.txt", "0123456789abcdefghi");
    REQUIRE(d && cr_dataset_count(d) == 2, "%s", cr_error());
    counted(d, 0, "0123456789");                    /* windows share a token */
    counted(d, 1, "9abcdefghi");
    r = cr_dataset_score(d, (double[]){1, 1});
    CHECK(r.tokens == 18 && isnan(r.accuracy), "windows");
    cr_dataset_free(d);
    d = cr_dataset_read(&o, 0, NULL);
    CHECK(d && !cr_dataset_count(d) && isnan(cr_dataset_score(d, NULL).loss), "no files");
    cr_dataset_free(d);
    FAILS(CR_BAD_VALUE, "b.jsonl line 2: the sample has 11 tokens, the context takes 9 and one to predict",
          dataset(&o, "b.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"0123456789\"}"));
    FAILS(CR_BAD_VALUE, "is not valid JSON at byte 1", dataset(&o, "b.jsonl", "{\"text\": \"ab\"}\n{x"));
    FAILS(CR_BAD_VALUE, "\"answer\" must be one of the choices",
          dataset(&o, "b.jsonl", "{\"question\": \"x\", \"choices\": [\"a\", \"b\"]}"));
    FAILS(CR_BAD_VALUE, "has no samples", dataset(&o, "b.jsonl", "\n \n"));
    FAILS(CR_BAD_VALUE, "nothing to predict", dataset(&o, "b.txt", "a"));
    FAILS(CR_IO, "is a folder", cr_dataset_read(&o, 1, (const char *[]){folder_path("")}));
    o.questions = false;
    o.chat = NULL;
    o.truncate = true;
    FAILS(CR_BAD_VALUE, "needs \"messages\"", dataset(&o, "b.jsonl", "{\"question\": \"x\", \"choices\": [1, 2]}"));
    FAILS(CR_BAD_VALUE, "need a chat template",
          dataset(&o, "b.jsonl", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}"));
    FAILS(CR_BAD_VALUE, "no token of the answer is within the context of 9",
          dataset(&o, "b.jsonl", "{\"prompt\": \"0123456789\", \"completion\": \"a\"}"));
    d = dataset(&o, "b.jsonl", "{\"prompt\": \"012345678\", \"completion\": \"abc\"}");
    REQUIRE(d, "%s", cr_error());
    counted(d, 0, "a");
    cr_dataset_free(d);
    cr_chat_free(c);
    cr_tokenizer_free(t);
}
