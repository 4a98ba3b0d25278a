/* test_cuda_attention.c - an NVIDIA GPU's attention, forward and backward, against plain loops in
 * double: plain kernels and those with tensor cores, which run for f16 and bf16 if rows are multiples
 * of 16 bytes.  A simulated GPU needs a second for a block of 128 rows, so shapes are small. */
#define CR_TEST_CUDA
#include "cuda_attention.h"

TEST(attention_plain) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16, CR_F16};
    static const struct { int64_t T, S; } lengths[] = {{1, 1}, {7, 70}, {70, 7}, {65, 130}};
    static const int64_t sizes[] = {1, 20, 67, 131};
    box_state = test_seed();
    for (int dt = 0; dt < 4; dt++)
        for (int l = 0; l < 4; l++)
            try_attention((trial){.dt = dtypes[dt],
                                  .B = 1 + box_draw(2),
                                  .H = 1 + box_draw(2),
                                  .T = lengths[l].T,
                                  .S = lengths[l].S,
                                  .D = sizes[(dt + l) % 4],
                                  .causal = box_draw(2),
                                  .layout = 2,
                                  .mask = (dt + l) % MASKS});
}

/* Layouts 0 and 1 have rows that begin at multiples of 16 bytes. */
TEST(attention_tensor_cores) {
    static const struct {
        int64_t T, S, D;
        bool causal;
        int mask;
    } trials[] = {{1, 1, 48, false, 0},   {130, 200, 32, true, 0}, {5, 70, 64, false, 2},  {70, 35, 40, true, 3},
                  {40, 66, 128, true, 1}, {33, 20, 72, false, 5},  {20, 63, 64, false, 0}, {21, 63, 64, false, 0},
                  {30, 90, 40, true, 0},  {31, 91, 40, true, 0}};
    box_state = test_seed();
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
            if (test_full() || (i + (size_t)bf16) % 2)
                try_attention((trial){.dt = bf16 ? CR_BF16 : CR_F16,
                                      .B = 1,
                                      .H = 1 + (i == 0),
                                      .T = trials[i].T,
                                      .S = trials[i].S,
                                      .D = trials[i].D,
                                      .causal = trials[i].causal,
                                      .layout = (int)box_draw(2),
                                      .mask = trials[i].mask});
}

/* Few queries, whose keys are split: a little more than one part, whole parts, several; masked parts;
 * heads with more columns than a block has threads. */
TEST(attention_split) {
    static const struct {
        int64_t T, S, D;
        bool causal;
        int mask;
    } trials[] = {{1, 65, 64, true, 0},   {1, 192, 20, false, 2}, {4, 300, 7, true, 3}, {3, 130, 300, true, 0},
                  {2, 131, 96, false, 1}, {4, 67, 33, false, 5},  {1, 131, 1, false, 4}};
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16, CR_F16};
    box_state = test_seed();
    for (size_t i = 0; i < 4 * sizeof trials / sizeof *trials; i += test_full() ? 1 : 2)
        try_attention((trial){.dt = dtypes[i / 7],
                              .B = 1 + box_draw(2),
                              .H = 1 + box_draw(2),
                              .T = trials[i % 7].T,
                              .S = trials[i % 7].S,
                              .D = trials[i % 7].D,
                              .causal = trials[i % 7].causal,
                              .layout = (int)box_draw(3),
                              .mask = trials[i % 7].mask});
}

/* Scores of several hundred: the running maximum must keep exp from overflowing; a negative scale is allowed. */
TEST(attention_large_scores) {
    box_state = test_seed();
    try_attention((trial){.dt = CR_F32, .B = 1, .H = 1, .T = 66, .S = 130, .D = 33, .scale = 50});
    try_attention((trial){.dt = CR_F32, .B = 1, .H = 1, .T = 66, .S = 130, .D = 33, .scale = -20, .causal = true});
    try_attention((trial){.dt = CR_BF16, .B = 1, .H = 1, .T = 66, .S = 130, .D = 40, .scale = 5});
    try_attention((trial){.dt = CR_BF16, .B = 1, .H = 1, .T = 66, .S = 130, .D = 40, .scale = -5, .causal = true});
}

/* Keys that several heads share (stride 0). */
TEST(attention_shared_keys) {
    box_state = test_seed();
    for (int half = 0; half < 2; half++) {
        trial t = {.dt = half ? CR_BF16 : CR_F32,
                   .B = 2,
                   .H = 2,
                   .T = 20,
                   .S = 40,
                   .D = 32,
                   .causal = true,
                   .scale = 0.2,
                   .mask = 2,
                   .rough = half ? rounding(CR_BF16) : 0};
        set s = make_set(&t);
        for (int i = K; i <= W; i++) s.b[i].t.strides[1] = 0;
        run(&t, &s, cr_cuda(0));
        check_all(&t, &s);
        drop_set(&s);
        test_ran_on(cr_cuda(0));
    }
}

/* Heads that share keys, windows, and diagonals that are not at the end: plain kernels, tensor cores, few queries. */
TEST(attention_groups_and_windows) {
    static const struct { int64_t T, S, D, shared, window, shift; } trials[] = {
        {70, 70, 20, 2, 9, 0}, {40, 66, 40, 2, 20, 0}, {66, 130, 32, 1, 33, -40}, {3, 130, 32, 2, 70, 0},
        {35, 20, 48, 3, 0, 15}, {1, 200, 64, 3, 0, 0},  {20, 90, 64, 1, 1, 0},     {2, 9, 8, 2, 3, -5}};
    static const cr_dtype dtypes[] = {CR_BF16, CR_F32, CR_F16, CR_F64};
    box_state = test_seed();
    for (size_t i = 0; i < 4 * sizeof trials / sizeof *trials; i += test_full() ? 1 : 3) {
        const size_t n = i / 4;
        try_attention((trial){.dt = dtypes[i % 4],
                              .B = 1,
                              .H = trials[n].shared,
                              .T = trials[n].T,
                              .S = trials[n].S,
                              .D = trials[n].D,
                              .causal = true,
                              .layout = (int)box_draw(2),
                              .mask = i % 5 ? 0 : 2,
                              .shared = trials[n].shared,
                              .window = trials[n].window,
                              .shift = trials[n].shift});
    }
    try_attention((trial){.dt = CR_BF16, .B = 2, .H = 4, .T = 20, .S = 40, .D = 32, .shared = 2});
}

TEST(attention_of_nothing) {
    box_state = test_seed();
    try_attention((trial){.dt = CR_F32, .B = 1, .H = 1, .T = 0, .S = 9, .D = 8, .causal = true});
    try_attention((trial){.dt = CR_BF16, .B = 0, .H = 2, .T = 4, .S = 9, .D = 8, .causal = true});
    trial t = {.dt = CR_F32, .B = 1, .H = 2, .T = 5, .S = 0, .D = 4, .scale = 1};
    try_attention(t);
}
