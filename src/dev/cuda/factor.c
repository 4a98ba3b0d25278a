/* factor.c - factors of matrices, triangular systems and solve: small ones by kernels of our own (factor.cu), a warp
 * for each matrix of a batch; large ones by cuSOLVER's generic interface, matrix after matrix.
 *
 * cuSOLVER sees columns where we have rows: it gets a transposed copy, and its factors are transposed back, both passes
 * over all matrices of a batch.  A symmetric matrix needs neither: its lower triangle by rows is the upper one by
 * columns, so Cholesky's factor lies where we want it.  Eigenvectors are transposed once, and cuSOLVER's V^T by columns
 * is our V.  A triangular system of any size is products and systems of FACTOR_SMALL rows.  cuSOLVER's info stays on
 * the GPU: where it reports a failure, and where an element is not finite, the result is NaN, as on the cpu. */
#include "gpu.h"
#include "factor.cu"

#include <stdlib.h>

typedef struct job {
    cuda *g;
    const char *op;
    cr_dtype dt;
    int type;                                       /* cuSOLVER's */
    size_t size;                                    /* bytes of an element */
    int64_t B, M, N;
    cuda_address x, y;
    cuda_block *bad, *copy, *more, *room;           /* bad: see move_arguments; copy, more: what cuSOLVER works on */
    void *host_room;
    size_t bytes, host_bytes;                       /* of the rooms */
} job;

static const cuda_kernel *kernel_of(const job *j, const char *name) {
    return cr_cuda_kernel_of(j->g, j->op, cr_cuda_source_factor, name, "#define T %s\n", cr_cuda_type(j->dt));
}

/* ---- cuSOLVER */
static bool has_solver(cuda *g) {
    if (!cr_solver_ready()) return false;
    if (g->solver || g->solver_failed) return g->solver;
    int error;
    do error = cr_cusolver.Create(&g->solver);
    while (error == SOLVER_ALLOC_FAILED && cr_cuda_make_room(g, CUDA_OUT_OF_MEMORY));
    if (!error) error = cr_cusolver.SetStream(g->solver, g->stream);
    if (!error) error = cr_cusolver.CreateParams(&g->solver_params);
    if (!error && cr_cusolver.SetDeterministicMode)
        error = cr_cusolver.SetDeterministicMode(g->solver, SOLVER_DETERMINISTIC);
    if (error) g->solver = NULL, g->solver_failed = true;
    return g->solver;
}

/* Many small matrices go to the cpu for QR, eigenvalues and SVD, which has them side by side: cuSOLVER takes one after
 * the other. */
bool cr_cuda_factors(const cr_device *d, cr_factor_kind kind, int64_t B, int64_t M, int64_t N) {
    const bool small = M <= FACTOR_SMALL && N <= FACTOR_SMALL;
    if (small && (kind == CR_FACTOR_CHOLESKY || kind == CR_FACTOR_LU)) return true;
    if ((small && B > 1) || M > INT32_MAX || !cr_solver_ready()) return false;
    cuda *g = cr_cuda_enter("factor", d);
    if (!g) return true;                            /* the kernel reports the lost GPU */
    const bool found = has_solver(g);
    cr_cuda_leave(g, CR_OK);
    return found;
}

static cr_status checked(job *j, const char *what, int error) {
    if (!error) return CR_OK;
    return cr_fail(error == SOLVER_ALLOC_FAILED ? CR_NO_MEMORY : CR_RUNTIME, j->op, "%s: %s fails with error %d",
                   j->g->name, what, error);
}

/* The workspace that a query asked for, device and host. */
static cr_status take_room(job *j, const char *what, int error) {
    if (error) return checked(j, what, error);
    if (!j->room && !(j->room = cr_cuda_block_take(j->g, j->op, j->bytes))) return cr_error_status();
    if (!j->host_room && !(j->host_room = malloc(j->host_bytes + 1))) return cr_no_memory(j->op);
    return CR_OK;
}
static void give_room(job *j) {
    if (j->room) cr_cuda_block_give(j->g, j->room);
    free(j->host_room);
    j->room = NULL;
    j->host_room = NULL;
}

/* what(...) for matrix b of each. */
#define FOR_EACH(j, status, what, ...)                                                                               \
    for (int64_t b = 0; b < (j)->B && (status) == CR_OK; b++) {                                                      \
        cuda_span *span = cr_cuda_span_begin((j)->g, CUDA_KERNELS, (j)->op, #what);                                  \
        int problem;                                                                                                 \
        do problem = cr_cusolver.what(__VA_ARGS__);                                                                    \
        while (problem == SOLVER_ALLOC_FAILED && cr_cuda_make_room((j)->g, CUDA_OUT_OF_MEMORY));                     \
        cr_cuda_span_stop((j)->g, span);                                                                             \
        (j)->g->counters.launches++;                                                                                 \
        (j)->g->counters.factored++;                                                                                 \
        (status) = checked(j, "cuSOLVER's " #what, problem);                                                         \
    }
#define HANDLE j->g->solver, j->g->solver_params
#define ROOM &j->bytes, &j->host_bytes
#define WORK j->room->at, j->bytes, j->host_room, j->host_bytes, info_of(j, b)
static cuda_address info_of(const job *j, int64_t b) { return j->bad->at + 8 * (cuda_address)b; }
/* matrix b of `each` elements in a block, or from an address on */
static cuda_address at_of(const job *j, cuda_address first, int64_t b, int64_t each) {
    return first + (cuda_address)(b * each) * j->size;
}

/* ---- moves */
static cr_status launch_move(const job *j, move_arguments q) {
    q.count = j->B;
    return cr_cuda_launch(j->g, j->op, kernel_of(j, "move"), &q,
                          j->B * cuda_pieces(q.rows, 32) * cuda_pieces(q.columns, 32));
}
/* x into the copy: by columns, or the lower triangle as it lies */
static cr_status fetch(const job *j, bool turned, bool checked) {
    return launch_move(j, (move_arguments){
        .to = j->copy->at, .from = j->x, .bad = j->bad->at, .rows = j->M, .columns = j->N, .turned = turned,
        .to_row = turned ? j->M : j->N, .from_row = j->N, .to_batch = j->M * j->N, .from_batch = j->M * j->N,
        .lower = !turned, .check = checked});
}
/* columns of a matrix (rows, columns), `apart` elements from one to the next and `batch` from one matrix to the next,
 * into y from row `first` on, of matrices of `height` rows */
static cr_status put_columns(const job *j, cuda_address from, int64_t rows, int64_t columns, int64_t apart,
                             int64_t batch, int64_t first, int64_t height, bool lower, bool spoils) {
    return launch_move(j, (move_arguments){
        .to = j->y + (cuda_address)(first * j->N) * j->size, .from = from, .bad = spoils ? j->bad->at : 0,
        .rows = columns, .columns = rows, .turned = 1, .to_row = j->N, .to_batch = height * j->N, .from_row = apart,
        .from_batch = batch, .lower = lower});
}
/* rows first .. first + rows - 1 of y become NaN where the matrix is bad */
static cr_status spoil_rows(const job *j, int64_t first, int64_t rows, int64_t height) {
    const cuda_address at = j->y + (cuda_address)(first * j->N) * j->size;
    return launch_move(j, (move_arguments){
        .to = at, .from = at, .bad = j->bad->at, .rows = rows, .columns = j->N, .to_row = j->N, .from_row = j->N,
        .to_batch = height * j->N, .from_batch = height * j->N});
}

/* copy: M N elements; more: elements of each matrix */
static cr_status begin(job *j, bool copies, int64_t more) {
    const size_t bad = 8 * (size_t)j->B;
    if (!(j->bad = cr_cuda_block_take(j->g, j->op, bad)) ||
        (copies && !(j->copy = cr_cuda_block_take(j->g, j->op, (size_t)(j->B * j->M * j->N) * j->size))) ||
        (more && !(j->more = cr_cuda_block_take(j->g, j->op, (size_t)(j->B * more) * j->size))))
        return cr_error_status();
    return cr_cuda_check(j->g, j->op, "cannot write", cr_cu.MemsetD8Async(j->bad->at, 0, bad, j->g->stream));
}
static cr_status end(job *j, cr_status status) {
    cuda_block *const blocks[] = {j->bad, j->copy, j->more};
    give_room(j);
    for (int i = 0; i < 3; i++) if (blocks[i]) cr_cuda_block_give(j->g, blocks[i]);
    return status;
}

/* ---- Cholesky and LU */
static cr_status run_small(const job *j, const char *name, cuda_address order, cuda_address pivots) {
    const factor_arguments q = {.y = j->y, .x = j->x, .order = order, .pivots = pivots, .count = j->B, .M = j->M,
                                .N = j->N};
    return cr_cuda_launch_shared(j->g, j->op, kernel_of(j, name), &q, cuda_pieces(j->B, FACTOR_WARPS),
                                 32 * FACTOR_WARPS, 0);
}
static bool is_small(const job *j) { return j->M <= FACTOR_SMALL && j->N <= FACTOR_SMALL; }

static cr_status cholesky(job *j) {
    if (is_small(j)) return run_small(j, "cholesky", 0, 0);
    const int64_t N = j->N;
    cr_status status = begin(j, false, 0);
    const move_arguments q = {.to = j->y, .from = j->x, .rows = N, .columns = N, .to_row = N, .from_row = N,
                              .to_batch = N * N, .from_batch = N * N, .lower = true, .count = j->B,
                              .bad = status == CR_OK ? j->bad->at : 0};
    if (status == CR_OK) status = launch_move(j, q);
    if (status == CR_OK)
        status = take_room(j, "cuSOLVER's Potrf",
                           cr_cusolver.PotrfRoom(HANDLE, SOLVER_UPPER, N, j->type, j->y, N, j->type, ROOM));
    FOR_EACH(j, status, Potrf, HANDLE, SOLVER_UPPER, N, j->type, at_of(j, j->y, b, N * N), N, j->type, WORK)
    if (status == CR_OK)
        status = cr_cuda_launch(j->g, j->op, kernel_of(j, "lower"), &q, cuda_pieces(j->B * N * N, CUDA_GROUP));
    return end(j, status);
}

static cr_status lu(job *j, cuda_address order, cuda_address pivots) {
    if (is_small(j)) return run_small(j, "lu", order, pivots);
    const int64_t M = j->M, N = j->N, K = cr_imin(M, N);
    cr_status status = begin(j, true, K * 8 / (int64_t)j->size);       /* pivots of 64 bits */
    if (status == CR_OK) status = fetch(j, true, false);
    if (status == CR_OK)
        status = take_room(j, "cuSOLVER's Getrf",
                           cr_cusolver.GetrfRoom(HANDLE, M, N, j->type, j->copy->at, M, j->type, ROOM));
    FOR_EACH(j, status, Getrf, HANDLE, M, N, j->type, at_of(j, j->copy->at, b, M * N), M,
             j->more->at + (cuda_address)(8 * K * b), j->type, WORK)
    if (status == CR_OK) status = put_columns(j, j->copy->at, M, N, M, M * N, 0, M, false, false);
    if (status == CR_OK) {
        const exchange_arguments q = {.from = j->more->at, .order = order, .pivots = pivots, .count = j->B, .M = M,
                                      .K = K};
        status = cr_cuda_launch(j->g, j->op, kernel_of(j, "exchanges"), &q, cuda_pieces(j->B, CUDA_GROUP));
    }
    return end(j, status);
}

/* ---- QR: geqrf leaves R above the reflections, of which orgqr makes Q */
static cr_status make_q(job *j) {
    const int M = (int)j->M, N = (int)j->N;
    const bool wide = j->dt == CR_F64;
    int room = 0;
    give_room(j);
    int error = (wide ? cr_cusolver.DorgqrRoom : cr_cusolver.SorgqrRoom)(j->g->solver, M, N, N, j->copy->at, M,
                                                                         j->more->at, &room);
    j->bytes = (size_t)room * j->size;
    j->host_bytes = 0;
    cr_status status = take_room(j, "cuSOLVER's orgqr", error);
#define ORGQR j->g->solver, M, N, N, at_of(j, j->copy->at, b, j->M * j->N), M, at_of(j, j->more->at, b, j->N), \
    j->room->at, room, info_of(j, b)
    if (wide) FOR_EACH(j, status, Dorgqr, ORGQR)
    else FOR_EACH(j, status, Sorgqr, ORGQR)
    return status;
}

static cr_status qr(job *j) {
    const int64_t M = j->M, N = j->N, height = M + N;
    cr_status status = begin(j, true, N);
    if (status == CR_OK) status = fetch(j, true, false);
    if (status == CR_OK)
        status = take_room(j, "cuSOLVER's Geqrf",
                           cr_cusolver.GeqrfRoom(HANDLE, M, N, j->type, j->copy->at, M, j->type, j->more->at, j->type,
                                                 ROOM));
    FOR_EACH(j, status, Geqrf, HANDLE, M, N, j->type, at_of(j, j->copy->at, b, M * N), M, j->type,
             at_of(j, j->more->at, b, N), j->type, WORK)
    if (status == CR_OK) status = put_columns(j, j->copy->at, N, N, M, M * N, M, height, true, false);
    if (status == CR_OK) status = make_q(j);
    if (status == CR_OK) status = put_columns(j, j->copy->at, M, N, M, M * N, 0, height, false, false);
    return end(j, status);
}

/* ---- symmetric eigenvalues: vectors as columns above the ascending values, or those only */
static cr_status eigh(job *j, bool vectors) {
    const int64_t N = j->N, rows = vectors ? N : 0, height = rows + 1;
    const int how = vectors ? SOLVER_VECTORS : SOLVER_VALUES;
    cr_status status = begin(j, true, 0);
    const cuda_address values = at_of(j, j->y, 1, rows * N);
    if (status == CR_OK) status = fetch(j, false, true);
    if (status == CR_OK)
        status = take_room(j, "cuSOLVER's Syevd",
                           cr_cusolver.SyevdRoom(HANDLE, how, SOLVER_UPPER, N, j->type, j->copy->at, N, j->type, values,
                                                 j->type, ROOM));
    FOR_EACH(j, status, Syevd, HANDLE, how, SOLVER_UPPER, N, j->type, at_of(j, j->copy->at, b, N * N), N, j->type,
             at_of(j, values, b, height * N), j->type, WORK)
    if (status == CR_OK && vectors)
        status = put_columns(j, j->copy->at, N, N, N, N * N, 0, height, false, true);
    if (status == CR_OK) status = spoil_rows(j, rows, 1, height);
    return end(j, status);
}

/* ---- SVD of M >= N: U above the descending values above V, or the values only */
static cr_status svd(job *j, bool vectors) {
    const int64_t M = j->M, N = j->N, rows = vectors ? M : 0, below = vectors ? N : 0, height = rows + 1 + below;
    const signed char how = vectors ? 'S' : 'N';
    cr_status status = begin(j, true, rows * N);    /* more: U */
    const cuda_address values = at_of(j, j->y, 1, rows * N), v = vectors ? at_of(j, values, 1, N) : 0,
                       u = j->more ? j->more->at : 0;
    if (status == CR_OK) status = fetch(j, true, true);
    if (status == CR_OK)
        status = take_room(j, "cuSOLVER's Gesvd",
                           cr_cusolver.GesvdRoom(HANDLE, how, how, M, N, j->type, j->copy->at, M, j->type, values,
                                                 j->type, u, M, j->type, v, N, j->type, ROOM));
    FOR_EACH(j, status, Gesvd, HANDLE, how, how, M, N, j->type, at_of(j, j->copy->at, b, M * N), M, j->type,
             at_of(j, values, b, height * N), j->type, vectors ? at_of(j, u, b, M * N) : 0, M, j->type,
             vectors ? at_of(j, v, b, height * N) : 0, N, j->type, WORK)
    if (status == CR_OK && vectors) status = put_columns(j, u, M, N, M, M * N, 0, height, false, true);
    if (status == CR_OK) status = spoil_rows(j, rows, 1 + below, height);
    return end(j, status);
}

/* ---- kernels.def */
static job job_of(cuda *g, const char *op, const cr_array *y, const cr_array *x) {
    const bool wide = x->dtype == CR_F64;
    return (job){.g = g, .op = op, .dt = x->dtype, .type = wide ? LT_R_64F : LT_R_32F, .size = wide ? 8 : 4,
                 .B = x->shape[0], .M = x->shape[1], .N = x->shape[2], .x = cuda_address_of(x),
                 .y = cuda_address_of(y)};
}

cr_status cr_cuda_factor(const cr_factor_args *args) {
    static const char *const names[] = {"cholesky", "lu_factor", "qr", "eigh", "svd", "eigvalsh", "svdvals"};
    const char *op = names[args->kind];
    cuda *g = cr_cuda_enter(op, args->y.dev);
    if (!g) return cr_error_status();
    job j = job_of(g, op, &args->y, &args->x);
    cr_status status;
    switch (args->kind) {
    case CR_FACTOR_CHOLESKY: status = cholesky(&j); break;
    case CR_FACTOR_LU: status = lu(&j, cuda_address_of(&args->order), cuda_address_of(&args->pivots)); break;
    case CR_FACTOR_QR: status = qr(&j); break;
    case CR_FACTOR_EIGH:
    case CR_FACTOR_EIGVALSH: status = eigh(&j, args->kind == CR_FACTOR_EIGH); break;
    default: status = svd(&j, args->kind == CR_FACTOR_SVD);
    }
    return cr_cuda_leave(g, status);
}

/* rows and columns of contiguous matrices, from element `at` on; `row` elements from one row to the next */
static cr_array part(cr_storage *s, cr_dtype dt, int64_t at, int64_t B, int64_t rows, int64_t columns, int64_t row,
                     int64_t batch) {
    return (cr_array){.storage = s, .dev = s->dev, .dtype = dt, .ndim = 3, .offset = at, .numel = B * rows * columns,
                      .shape = {B, rows, columns}, .strides = {batch, row, 1}};
}

/* x = a^-1 b for a triangle of a, x and b (B, N, K): n rows at a time, less the product of the rows found so far. */
static cr_status substitute(cuda *g, const char *op, const cr_array *x, const cr_array *a, const cr_array *b,
                            const cr_array *order, bool upper, bool unit) {
    const int64_t B = x->shape[0], N = x->shape[1], K = x->shape[2];
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_factor, "substitute", "#define T %s\n",
                                             cr_cuda_type(x->dtype));
    cuda_block *room = NULL;
    if (N > FACTOR_SMALL &&
        !(room = cr_cuda_block_take(g, op, (size_t)(B * FACTOR_SMALL * K) * cr_dtype_size(x->dtype))))
        return cr_error_status();
    cr_storage sums = {.data = room, .dev = &g->dev};
    cr_status status = CR_OK;
    for (int64_t done = 0; done < N && status == CR_OK; done += FACTOR_SMALL) {
        const int64_t n = cr_imin(FACTOR_SMALL, N - done), first = upper ? N - done - n : done,
                      from = upper ? first + n : 0;
        if (done) {
            const cr_array c = part(&sums, x->dtype, 0, B, n, K, K, n * K),
                           left = part(a->storage, x->dtype, a->offset + first * N + from, B, n, done, N, N * N),
                           right = part(x->storage, x->dtype, x->offset + from * K, B, done, K, K, N * K);
            status = cr_cuda_multiply(g, &c, &left, &right);
        }
        const substitute_arguments q = {.x = cuda_address_of(x), .a = cuda_address_of(a), .b = cuda_address_of(b),
                                        .sums = done ? room->at : 0, .order = cuda_address_of(order), .count = B,
                                        .N = N, .K = K, .first = first, .n = n, .upper = upper, .unit = unit};
        if (status == CR_OK) status = cr_cuda_launch(g, op, k, &q, cuda_pieces(B * K, CUDA_GROUP));
    }
    if (room) cr_cuda_block_give(g, room);
    return status;
}

cr_status cr_cuda_substitute(const cr_substitute_args *args) {
    static const char op[] = "solve_triangular";
    cuda *g = cr_cuda_enter(op, args->x.dev);
    if (!g) return cr_error_status();
    return cr_cuda_leave(g, substitute(g, op, &args->x, &args->a, &args->b, NULL, args->upper, args->unit));
}

/* y = L^-1 P b, then x = U^-1 y: a thread reads its column of y before it writes that of x, so both are x */
cr_status cr_cuda_solve(const cr_solve_args *args) {
    static const char op[] = "solve";
    cuda *g = cr_cuda_enter(op, args->x.dev);
    if (!g) return cr_error_status();
    job j = job_of(g, op, &args->lu, &args->a);
    cr_status status = lu(&j, cuda_address_of(&args->order), 0);
    if (status == CR_OK) status = substitute(g, op, &args->x, &args->lu, &args->b, &args->order, false, true);
    if (status == CR_OK) status = substitute(g, op, &args->x, &args->lu, &args->x, NULL, true, false);
    return cr_cuda_leave(g, status);
}
