/* test_attention_cpu.c - the cpu device's attention, forward and backward, against plain loops in
 * double; its threads, its guards. */
#include "attention_trial.h"

#include "dev/cpu/attention.h"
#include "use_isa.h"

static void run(const trial *t, set *s) {
    const cr_array *x[BOXES], none = {0};
    for (int i = 0; i < BOXES; i++) x[i] = box_array(&s->b[i]);
    const cr_array *mask = t->mask ? x[MASK] : &none;
    OK(cr_cpu_attention(&(cr_attention_args){*x[O], *x[LSE], *x[Q], *x[K], *x[W], *mask, t->scale, first(t), last(t)}));
    OK(cr_cpu_attention_bwd(&(cr_attention_bwd_args){*x[DQ], *x[DK], *x[DV], *x[Q], *x[K], *x[W], *mask, *x[O], *x[LSE],
                                                     *x[G], t->scale, first(t), last(t)}));
}

static void try_attention(trial t) {
    if (t.scale == 0) t.scale = 1 / sqrt((double)t.D);
    set s = make_set(&t);
    cr_set_num_threads(2);
    run(&t, &s);
    unsigned char *two[BOXES];
    for (int i = 0; i < BOXES; i++) {
        two[i] = malloc(s.b[i].bytes);
        memcpy(two[i], s.b[i].memory, s.b[i].bytes);
        memcpy(s.b[i].memory, s.b[i].before, s.b[i].bytes);
    }
    cr_set_num_threads(1);
    run(&t, &s);
    for (int i = 0; i < BOXES; i++) {
        CHECK(!memcmp(two[i], s.b[i].memory, s.b[i].bytes),
              "operand %d, T %lld S %lld D %lld: one thread and two differ", i, (long long)t.T, (long long)t.S,
              (long long)t.D);
        CHECK(!box_spilled(&s.b[i]), "operand %d, T %lld S %lld D %lld: wrote outside of it", i, (long long)t.T,
              (long long)t.S, (long long)t.D);
        free(two[i]);
    }
    check_all(&t, &s);
    drop_set(&s);
    test_ran_on(cr_cpu());
}

static trial of(cr_dtype dt, int64_t B, int64_t H, int64_t T, int64_t S, int64_t D, bool causal, double scale,
                int layout, int mask) {
    return (trial){.dt = dt, .B = B, .H = H, .T = T, .S = S, .D = D, .causal = causal, .scale = scale, .layout = layout,
                   .mask = mask};
}

static const int64_t sizes[] = {1, 5, 32, 64, 80, 256};
static const struct {
    int64_t T, S;
} lengths[] = {{1, 1},   {7, 7},   {64, 64}, {65, 65},  {200, 200}, {1, 70},
               {7, 130}, {65, 40}, {130, 7}, {66, 200}, {5, 0},     {150, 64}};

TEST(attention_f32) {
    box_state = test_seed();
    for (size_t d = 0; d < sizeof sizes / sizeof *sizes; d++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int causal = 0; causal < 2; causal++)
                try_attention(of(CR_F32, 1 + box_draw(2), 1 + box_draw(3), lengths[l].T, lengths[l].S, sizes[d],
                                      causal, 0, (int)box_draw(3), 0));
}

TEST(attention_masks) {
    box_state = test_seed();
    for (int mask = 1; mask < MASKS; mask++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int causal = 0; causal < 2; causal++)
                try_attention(of(CR_F32, 2, 1 + box_draw(3), lengths[l].T, lengths[l].S, sizes[box_draw(5)],
                                      causal, 0, (int)box_draw(3), mask));
}

TEST(attention_other_dtypes) {
    box_state = test_seed();
    static const cr_dtype dtypes[] = {CR_F64, CR_F16, CR_BF16};
    for (int dt = 0; dt < 3; dt++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            try_attention(of(dtypes[dt], 1 + box_draw(2), 1 + box_draw(3), lengths[l].T, lengths[l].S,
                                  sizes[box_draw(5)], box_draw(2), 0, (int)box_draw(3), (int)box_draw(MASKS)));
}

/* Many heads take a whole head a chunk, few take blocks; both with several blocks of keys and queries. */
TEST(attention_cuts) {
    box_state = test_seed();
    for (int causal = 0; causal < 2; causal++) {
        try_attention(of(CR_F32, 2, 5, 150, 150, 16, causal, 0, 1, 0));
        try_attention(of(CR_F32, 1, 2, 150, 280, 16, causal, 0, 1, 0));
        try_attention(of(CR_F32, 3, 4, 200, 133, 24, causal, 0, 2, 0));
        try_attention(of(CR_F32, 40, 3, 5, 5, 8, causal, 0, 0, 0));
        try_attention(of(CR_F32, 1, 1, 0, 9, 8, causal, 0, 0, 0));
        try_attention(of(CR_F32, 0, 2, 4, 9, 8, causal, 0, 0, 0));
        try_attention(of(CR_BF16, 1, 2, 0, 9, 8, causal, 0, 0, 0));
    }
}

/* Scores of some hundred: the running maximum must keep exp from overflowing; a negative scale is allowed. */
TEST(attention_large_scores) {
    box_state = test_seed();
    try_attention(of(CR_F32, 1, 2, 130, 130, 64, true, 50, 0, 0));
    try_attention(of(CR_F32, 1, 2, 70, 200, 64, false, -20, 0, 0));
    try_attention(of(CR_F64, 1, 2, 70, 90, 16, false, -20, 0, 0));
}

/* Keys that several heads share (stride 0). */
TEST(attention_shared_keys) {
    box_state = test_seed();
    trial t = of(CR_F32, 2, 3, 70, 90, 20, true, 0.2, 0, 2);
    set s = make_set(&t);
    for (int i = K; i <= W; i++) s.b[i].t.strides[1] = 0;
    run(&t, &s);
    check_all(&t, &s);
    drop_set(&s);
    test_ran_on(cr_cpu());
}

/* Heads that share keys, windows, and diagonals that are not at the end; few queries read long keys in parts. */
TEST(attention_groups_and_windows) {
    static const struct { int64_t T, S, shared, window, shift; } trials[] = {
        {70, 70, 3, 0, 0},   {150, 150, 2, 40, 0}, {66, 200, 4, 100, 0}, {200, 66, 1, 9, 0},  {130, 130, 1, 1, 0},
        {90, 150, 2, 0, 25}, {90, 150, 2, 70, -60}, {150, 90, 3, 30, 60}, {65, 65, 1, 64, -70}, {40, 40, 2, 7, 9},
        {1, 700, 1, 0, 0},   {1, 515, 4, 0, 0},    {2, 600, 3, 100, 0},  {4, 300, 8, 0, -2},  {3, 1030, 2, 257, 1},
        {1, 40, 5, 3, 0},    {4, 2, 2, 0, 0},      {2, 513, 1, 1, 0},    {1, 9, 2, 4, -20},   {3, 0, 2, 2, 0}};
    static const cr_dtype dtypes[] = {CR_F32, CR_F32, CR_BF16, CR_F16, CR_F64};
    box_state = test_seed();
    for (size_t i = 0; i < 2 * sizeof trials / sizeof *trials; i++) {
        const size_t n = i / 2;
        trial t = of(dtypes[box_draw(5)], 1 + box_draw(2), trials[n].shared * (1 + box_draw(2)), trials[n].T,
                     trials[n].S, i % 2 ? sizes[box_draw(5)] : 64, true, 0,
                     (int)box_draw(3), (int)(i % 3 ? 0 : box_draw(MASKS)));
        t.shared = trials[n].shared, t.window = trials[n].window, t.shift = trials[n].shift;
        try_attention(t);
    }
}

TEST(attention_instruction_sets) {
    static const int sets[] = {0, 2, 3, 4};
    box_state = test_seed();
    for (int i = 0; i < 4; i++) {
        if (!test_use_isa(sets[i])) continue;
        for (int causal = 0; causal < 2; causal++)
            for (size_t d = 0; d < sizeof sizes / sizeof *sizes; d++) {
                try_attention(of(CR_F32, 1, 2, 45, 70, sizes[d], causal, 0, 2, 0));
                try_attention(of(CR_F32, 1, 2, 70, 35, sizes[d], causal, 0, 2, 1 + (int)box_draw(MASKS - 1)));
                trial t = of(CR_BF16, 1, 6, causal ? 2 : 70, 300, sizes[d], true, 0, 2, 0);
                t.shared = 3, t.window = 50;
                try_attention(t);
            }
    }
    test_use_isa(-1);
}
