/* norm.c - the joint norm of gradients, in blocks whose sums are added in f64 in one order: its bits do not depend on
 * buckets, shards, ranks or threads. */
#include <math.h>
#include <stdlib.h>

#include "parallel.h"

static const char op[] = "parallel_step";

double cr_block_sum(const float *g, int64_t n) {
    double lane[8] = {0}, block = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int i = 0; i < 8; i++) lane[i] += (double)g[k + i] * (double)g[k + i];
    for (; k < n; k++) lane[k % 8] += (double)g[k] * (double)g[k];
    for (int i = 0; i < 8; i++) block += lane[i];
    return block;
}

static int64_t pieces_of(int64_t n) { return (n + CR_SQUARES_PIECE - 1) / CR_SQUARES_PIECE; }

/* A GPU adds up pieces, all in one call; a block has four. */
static cr_status sums_on_gpu(const cr_tensor *flat, const cr_flat_range *range, int64_t count, double *sums) {
    enum { EACH = CR_NORM_BLOCK / CR_SQUARES_PIECE };
    int64_t all = 0;
    cr_array *x = calloc((size_t)count + 1, sizeof *x);
    const cr_array **of = calloc((size_t)count + 1, sizeof *of);
    for (int64_t i = 0; i < count && x && of; i++) {
        x[i] = cr_array_range(&flat->array, range[i].at, range[i].n);
        of[i] = &x[i];
        all += pieces_of(range[i].n);
    }
    double *piece = calloc((size_t)all + 1, sizeof *piece);
    cr_status status = x && of && piece ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
    cr_scope_begin();
    const cr_tensor *y = status == CR_OK ? cr_empty(CR_LIST(all), CR_F64, flat->dev) : NULL;
    if (status == CR_OK && !y) status = cr_error_status();
    if (status == CR_OK && all) {
        status = flat->dev->kernels->sum_squares(&(cr_sum_squares_args){y->array, count, of});
        if (status == CR_OK) status = cr_read(y, CR_F64, piece, (size_t)all * sizeof *piece);
    }
    cr_scope_end();
    const double *at = piece;
    for (int64_t i = 0; i < count && status == CR_OK; i++)
        for (int64_t left = pieces_of(range[i].n); left > 0; left -= EACH) {
            double sum = 0;
            for (int64_t k = 0; k < EACH && k < left; k++) sum += *at++;
            *sums++ = sum;
        }
    free(x);
    free(of);
    free(piece);
    return status;
}

/* Block by block; `wide` takes the blocks of what is not f32. */
static cr_status sums_on_cpu(const cr_tensor *flat, const cr_flat_range *range, int64_t count, double *sums,
                             const cr_tensor *wide) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t at = 0; at < range[i].n; at += CR_NORM_BLOCK) {
            const int64_t n = range[i].n - at < CR_NORM_BLOCK ? range[i].n - at : CR_NORM_BLOCK;
            cr_array block = cr_array_range(&flat->array, range[i].at + at, n);
            if (wide) {
                const cr_array to = cr_array_range(&wide->array, 0, n);
                const cr_status status = cr_exchange_copy(&to, &block);
                if (status != CR_OK) return status;
                block = to;
            }
            *sums++ = cr_block_sum(cr_array_data(&block), n);
        }
    return CR_OK;
}

cr_status cr_range_sums(const cr_tensor *flat, const cr_flat_range *range, int64_t count, double *sums) {
    if (!flat->dev->host) return sums_on_gpu(flat, range, count, sums);
    if (cr_dtype_of(flat) == CR_F32) return sums_on_cpu(flat, range, count, sums, NULL);
    cr_tensor *wide = cr_flat_new(flat->dev, CR_F32, CR_NORM_BLOCK);
    const cr_status status = wide ? sums_on_cpu(flat, range, count, sums, wide) : cr_error_status();
    cr_drop(wide);
    return status;
}

cr_status cr_parallel_norm(const cr_parallel *p, const cr_tensor *flat, double *norm) {
    cr_flat_range *range = calloc((size_t)p->opt->count + 1, sizeof *range);
    int64_t count = 0, blocks = 0;
    for (int64_t i = 0; range && i < p->opt->count; i++) {
        if (!p->ranges[i].arrived) continue;
        range[count++] = p->ranges[i];
        blocks += cr_blocks_of(p->ranges[i].n);
    }
    double *sums = calloc((size_t)blocks + 1, sizeof *sums), total = 0;
    cr_status status = range && sums ? cr_range_sums(flat, range, count, sums)
                                     : cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
    for (int64_t i = 0; i < blocks && status == CR_OK; i++) total += sums[i];
    *norm = sqrt(total);
    free(range);
    free(sums);
    return status;
}

cr_status cr_block_squares(const cr_tensor *x, double *sums) {
    static const char name[] = "block_squares";
    if (cr_lacks_tensor(name, "x", x)) return cr_error_status();
    if (!sums) return cr_fail_null(name, "the sums");
    if (cr_is_none(x) || cr_dtype_of(x) != CR_F32 || !cr_data(x) || !cr_is_contiguous(x))
        return cr_fail(CR_BAD_TYPE, name, "x must be contiguous float32 on cpu");
    const cr_flat_range all = {.n = cr_numel(x)};
    return cr_range_sums(x, &all, 1, sums);
}
