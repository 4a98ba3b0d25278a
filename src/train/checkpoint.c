/* checkpoint.c - saves the objects of a run (parameters, optimizer, generator, loader, scaler) and continues from them.
 * commit.c of io has the files.  Ranks that share the moments write a part each: rank 0 the index and the state too; it
 * commits when all are done. */
#include "../io/commit.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/json.h"

static cr_status check_metadata(const char *op, const char *metadata) {
    if (!metadata) return CR_OK;
    cr_json *root = cr_json_parse(op, "metadata", metadata, strlen(metadata));
    if (!root) return cr_error_status();
    bool fits = root->kind == CR_JSON_OBJECT;
    for (const cr_json *m = fits ? root->first : NULL; m; m = m->next) fits &= m->kind == CR_JSON_STRING;
    cr_json_free(root);
    return fits ? CR_OK : cr_fail(CR_BAD_VALUE, op, "the metadata must be a JSON object of strings");
}

/* What the objects of a run are now. */
static cr_saved_state state_of(const cr_training *t) {
    cr_saved_state s = {.step = t->step, .weights = t->params, .optimizer_steps = -1, .generator = t->generator,
                        .cursor = -1, .batches = -1, .scaler = t->scaler};
    if (t->optim) s.optimizer_steps = cr_optim_steps(t->optim);
    if (t->generator) cr_generator_get(t->generator, &s.seed, &s.counter);
    if (t->loader) s.cursor = cr_loader_cursor(t->loader), s.batches = cr_loader_batches(t->loader);
    if (t->scaler) s.scaling = cr_scaler_get(t->scaler);
    return s;
}

static cr_status save_state(const char *op, const char *dir, const cr_training *t, int ranks) {
    const cr_saved_state s = state_of(t);
    return cr_saved_write(op, dir, &s, t->metadata, ranks);
}

static cr_status save_files(const char *op, const char *dir, const cr_training *t) {
    cr_status status = CR_OK;
    if (t->optim) {
        cr_params *moments = cr_optim_state(t->optim);
        status = moments ? cr_saved_put(op, dir, cr_saved_moments(0, 1), 1, moments, NULL) : cr_error_status();
        cr_params_free(moments);
    }
    if (status == CR_OK && t->params) status = cr_saved_put(op, dir, CR_SAVED_WEIGHTS, 1, t->params, t->metadata);
    return status == CR_OK ? save_state(op, dir, t, 1) : status;
}

/* ---- many processes: each writes its parts, rank 0 index and state too; rank 0 commits when all are done */
static cr_status agree(const char *op, cr_world *w, cr_status status) {
    const int64_t mine = status;
    int bad = -1;
    cr_saved_error e;
    cr_error_take(&e);
    cr_scope_begin();
    cr_tensor *x = cr_from(&mine, CR_LIST(1), CR_I64, cr_cpu()),
              *all = cr_zeros(CR_LIST(cr_world_size(w)), CR_I64, cr_cpu());
    const cr_status sent = cr_all_gather(w, x, all);
    const int64_t *of = sent == CR_OK ? cr_data(all) : NULL;
    for (int r = cr_world_size(w) - 1; of && r >= 0; r--)
        if (of[r] != CR_OK) bad = r;
    cr_scope_end();
    if (status != CR_OK || sent == CR_OK) cr_error_put(&e);
    if (status != CR_OK || sent != CR_OK) return status != CR_OK ? status : sent;
    return bad < 0 ? CR_OK : cr_fail(CR_IO, op, "rank %d could not write its part: see its message", bad);
}

/* The rank that writes each tensor: ranks have neighbouring tensors, and about the same number of bytes. */
static int64_t *writers_of(const char *op, const cr_params *p, int ranks) {
    const int64_t n = cr_params_count(p);
    int64_t *rank = calloc((size_t)n + 1, sizeof *rank), at = 0, total = 0;
    if (!rank) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld names", (long long)n), NULL;
    for (int64_t i = 0; i < n; i++) total += (int64_t)cr_bytes_of(cr_params_at(p, i));
    for (int64_t i = 0; i < n; i++) {
        while (rank[i] < ranks - 1 && at >= total / ranks * (rank[i] + 1)) rank[i]++;
        rank[i + 1] = rank[i];
        at += (int64_t)cr_bytes_of(cr_params_at(p, i));
    }
    return rank;
}

static void weights_name(int64_t rank, int64_t ranks, char out[64]) {
    snprintf(out, 64, "%s", cr_saved_name(CR_SAVED_WEIGHTS + (int)rank, (int)ranks).s);
}

static cr_status save_weights(const char *op, const char *dir, const cr_training *t, int rank, int ranks) {
    cr_path to;
    int64_t *of = writers_of(op, t->params, ranks);
    cr_params *mine = of ? cr_params_new() : NULL;
    cr_status status = mine ? CR_OK : cr_error_status();
    for (int64_t i = 0; i < cr_params_count(t->params) && status == CR_OK; i++)
        if (of[i] == rank) status = cr_params_add(mine, cr_params_name(t->params, i), cr_params_at(t->params, i));
    const char *metadata = rank ? NULL : t->metadata;
    if (status == CR_OK) status = cr_saved_put(op, dir, CR_SAVED_WEIGHTS + rank, ranks, mine, metadata);
    if (status == CR_OK && !rank) status = cr_saved_path(op, dir, CR_SAVED_INDEX, ranks, &to);
    if (status == CR_OK && !rank) status = cr_index_save(op, to.s, t->params, of, ranks, weights_name);
    cr_params_free(mine);
    free(of);
    return status;
}

static cr_status save_together(const char *op, const char *dir, const cr_training *t, const cr_params *moments) {
    cr_world *w = cr_parallel_world(t->parallel);
    const int rank = cr_world_rank(w), ranks = cr_world_size(w);
    if (ranks > CR_SAVED_RANKS) return cr_fail(CR_BAD_VALUE, op, "%d ranks: at most %d", ranks, CR_SAVED_RANKS);
    int lock = -1;
    cr_status status = agree(op, w, rank ? CR_OK : cr_stage_begin(op, dir, &cr_saved_kind, &lock));
    if (status != CR_OK) return rank ? status : cr_stage_end(op, dir, &cr_saved_kind, lock, status);
    status = cr_saved_put(op, dir, cr_saved_moments(rank, ranks), ranks, moments, NULL);
    if (status == CR_OK && t->params) status = save_weights(op, dir, t, rank, ranks);
    if (status == CR_OK && !rank) status = save_state(op, dir, t, ranks);
    status = agree(op, w, status);
    const cr_status ended = rank ? CR_OK : cr_stage_end(op, dir, &cr_saved_kind, lock, status);
    return agree(op, w, ended) != CR_OK ? cr_error_status() : status;
}

cr_status cr_training_save(const char *dir, const cr_training *t) {
    static const char op[] = "training_save";
    if (!dir) return cr_fail_null(op, "the folder");
    if (!t) return cr_fail_null(op, "the training");
    if (t->step < 0) return cr_fail(CR_BAD_VALUE, op, "step must be at least 0, not %lld", (long long)t->step);
    cr_status status = check_metadata(op, t->metadata);
    if (status != CR_OK) return status;
    cr_saved_error earlier;
    cr_error_take(&earlier);                        /* a message of an earlier call says nothing of this one */
    cr_params *moments = t->parallel && t->optim ? cr_parallel_moments(t->parallel) : NULL;
    const bool failed = !moments && cr_error();
    if (!failed) cr_error_put(&earlier);
    if (moments) status = save_together(op, dir, t, moments);
    else if (failed) status = cr_error_status();
    else if (t->parallel && cr_world_rank(cr_parallel_world(t->parallel))) return CR_OK;
    else {
        int lock;
        status = cr_stage_begin(op, dir, &cr_saved_kind, &lock);
        if (status == CR_OK) status = save_files(op, dir, t);
        status = cr_stage_end(op, dir, &cr_saved_kind, lock, status);
    }
    cr_params_free(moments);
    return status;
}

/* Does the checkpoint have every requested object, and does the loader fit? */
static cr_status check_asked(const char *op, const char *dir, const cr_training *t, const cr_saved_state *s) {
    const char *missing = t->params && !s->weights             ? "weights"
                          : t->optim && s->optimizer_steps < 0 ? "an optimizer"
                          : t->generator && !s->generator      ? "a generator"
                          : t->loader && s->cursor < 0         ? "a loader"
                          : t->scaler && !s->scaler            ? "a scaler"
                                                               : NULL;
    if (missing) return cr_fail(CR_BAD_VALUE, op, "'%s' was saved without %s", dir, missing);
    if (t->loader && s->batches != cr_loader_batches(t->loader))
        return cr_fail(
            CR_BAD_VALUE, op,
            "'%s' was saved with %lld batches an epoch, this loader has %lld: another text, batch or context", dir,
            (long long)s->batches, (long long)cr_loader_batches(t->loader));
    return CR_OK;
}

/* ---- pieces */
typedef struct piece { char *name; int64_t from, n, shape[CR_MAX_DIMS]; int ndim; } piece;

/* "NAME@FIRST:ROWSxCOLUMNS"; false: a whole tensor.  text: cut behind NAME. */
static bool read_piece(char *text, int64_t n, piece *x) {
    char *at = strrchr(text, '@'), *end = NULL;
    if (!at || at[1] < '0' || at[1] > '9') return false;
    *x = (piece){.name = text, .n = n, .from = strtoll(at + 1, &end, 10)};
    int64_t all = 1;
    for (char mark = ':'; *end == mark && x->ndim < CR_MAX_DIMS; mark = 'x') {
        const int64_t size = x->shape[x->ndim++] = strtoll(end + 1, &end, 10);
        if (size < 1 || __builtin_mul_overflow(all, size, &all)) return false;
    }
    *at = 0;
    return x->ndim && !*end && x->from <= all - n;
}

static cr_status put_piece(const char *op, cr_params *out, const cr_tensor *from, const piece *x) {
    cr_status status = CR_OK;
    cr_tensor *whole = cr_params_get(out, x->name);
    if (!whole) {
        cr_error_clear();
        cr_tensor *made = cr_zeros(x->ndim, x->shape, CR_F32, cr_cpu());
        status = made ? cr_params_add(out, x->name, made) : cr_error_status();
        if (made) cr_release(made);
        if (status == CR_OK) whole = cr_params_at(out, cr_params_count(out) - 1);
    }
    if (status != CR_OK) return status;
    if (cr_dtype_of(from) != CR_F32 || x->from + x->n > cr_numel(whole))
        return cr_fail(CR_IO, op, "the pieces of '%s' do not fit each other", x->name);
    memcpy((float *)cr_data(whole) + x->from, cr_data(from), (size_t)x->n * 4);
    return CR_OK;
}

/* Adds the tensors and pieces of one rank; *sum: elements so far. */
static cr_status join_part(const char *op, cr_params *out, const cr_params *part, int64_t *sum) {
    cr_status status = CR_OK;
    for (int64_t i = 0; i < cr_params_count(part) && status == CR_OK; i++) {
        piece x;
        cr_tensor *t = cr_params_at(part, i);
        char *text = malloc(strlen(cr_params_name(part, i)) + 1);
        if (!text) return cr_fail(CR_NO_MEMORY, op, "no memory for a name");
        strcpy(text, cr_params_name(part, i));
        *sum += cr_numel(t);
        status = read_piece(text, cr_numel(t), &x) ? put_piece(op, out, t, &x)
                                                   : cr_params_add(out, cr_params_name(part, i), t);
        free(text);
    }
    return status;
}

/* The moments that ranks have written. */
static cr_status load_moments(const char *op, cr_saved_files *s, cr_params **out) {
    if (s->ranks == 1) return cr_saved_tensors(op, s, cr_saved_moments(0, 1), cr_cpu(), out);
    int64_t sum = 0;
    *out = cr_params_new();
    cr_status status = *out ? CR_OK : cr_error_status();
    for (int r = 0; r < s->ranks && status == CR_OK; r++) {
        cr_params *part = NULL;
        status = cr_saved_tensors(op, s, cr_saved_moments(r, s->ranks), cr_cpu(), &part);
        if (status == CR_OK) status = join_part(op, *out, part, &sum);
        cr_params_free(part);
    }
    if (status == CR_OK && sum != cr_params_numel(*out))
        status = cr_fail(CR_IO, op, "the files of %d ranks hold %lld elements of moments in place of %lld: '%s' ...",
                         s->ranks, (long long)sum, (long long)cr_params_numel(*out),
                         s->at[cr_saved_moments(0, s->ranks)].s);
    return status;
}

/* Loads optimizer and parameters, both or neither: each of the two functions is all or nothing. */
static cr_status put_tensors(cr_training *t, const cr_params *weights, const cr_params *moments, int64_t steps) {
    cr_params *before = t->optim ? cr_optim_state(t->optim) : NULL;
    const int64_t steps_before = t->optim ? cr_optim_steps(t->optim) : 0;
    cr_status status = t->optim ? (before ? cr_optim_load(t->optim, moments, steps) : cr_error_status()) : CR_OK;
    if (status == CR_OK && t->params && (status = cr_params_copy(t->params, weights)) && t->optim) {
        cr_saved_error e;
        cr_error_take(&e);
        (void)cr_optim_load(t->optim, before, steps_before);
        cr_error_put(&e);
    }
    cr_params_free(before);
    return status;
}

cr_status cr_training_load(const char *dir, cr_training *t) {
    static const char op[] = "training_load";
    if (!dir) return cr_fail_null(op, "the folder");
    if (!t) return cr_fail_null(op, "the training");
    cr_saved_state s;
    cr_saved_files from;
    cr_params *weights = NULL, *moments = NULL;
    cr_status status = cr_saved_open(op, dir, &from);
    if (status != CR_OK) return status;
    status = cr_saved_read(op, &from, &s);
    if (status == CR_OK) status = check_asked(op, dir, t, &s);
    const cr_scaler_state scaling = t->scaler ? cr_scaler_get(t->scaler) : s.scaling;
    if (status == CR_OK && t->scaler) status = cr_scaler_set(t->scaler, &s.scaling);        /* checks it too */
    if (status == CR_OK && t->params) status = cr_saved_weights(op, &from, cr_cpu(), &weights);
    if (status == CR_OK && t->optim) status = load_moments(op, &from, &moments);
    cr_saved_close(&from);
    if (status == CR_OK) status = put_tensors(t, weights, moments, s.optimizer_steps);
    cr_params_free(weights);
    cr_params_free(moments);
    if (status != CR_OK && t->scaler) (void)cr_scaler_set(t->scaler, &scaling);
    if (status != CR_OK) return status;
    if (t->generator) cr_generator_set(t->generator, s.seed, s.counter);
    if (t->loader) status = cr_loader_seek(t->loader, s.cursor);
    t->step = s.step;
    return status;
}

/* ---- single files in place of parts */
/* The state without its line about ranks. */
static cr_status merged_state(const char *op, const char *dir, const cr_saved_files *s) {
    cr_path to;
    const cr_mapping *m = &s->map[CR_SAVED_STATE];
    const char *text = (const char *)m->data, *stop = text + m->bytes, *line = text;
    cr_out o = {0};
    cr_status status = cr_saved_path(op, dir, CR_SAVED_STATE, 1, &to);
    while (line < stop) {
        const char *next = memchr(line, '\n', (size_t)(stop - line));
        next = next ? next + 1 : stop;
        if (strncmp(line, " \"ranks\": ", 10) != 0) cr_out_put(&o, line, (size_t)(next - line));
        line = next;
    }
    if (status == CR_OK) status = cr_out_check(&o, op, to.s);
    if (status == CR_OK) status = cr_file_save(op, to.s, o.text, o.bytes);
    cr_out_free(&o);
    return status;
}

/* The weights in one file, with their metadata. */
static cr_status merge_weights(const char *op, const char *dir, cr_saved_files *s) {
    cr_params *p = NULL;
    if (!s->map[CR_SAVED_WEIGHTS].data) return CR_OK; /* saved without them */
    char *metadata = cr_load_metadata(s->at[CR_SAVED_WEIGHTS].s, NULL);
    cr_status status = metadata ? cr_saved_weights(op, s, cr_cpu(), &p) : cr_error_status();
    if (status == CR_OK) status = cr_saved_put(op, dir, CR_SAVED_WEIGHTS, 1, p, metadata);
    cr_params_free(p);
    cr_free(metadata);
    return status;
}

static cr_status merge_moments(const char *op, const char *dir, cr_saved_files *s) {
    cr_params *p = NULL;
    cr_status status = load_moments(op, s, &p);
    if (status == CR_OK) status = cr_saved_put(op, dir, cr_saved_moments(0, 1), 1, p, NULL);
    cr_params_free(p);
    return status;
}

cr_status cr_training_merge(const char *dir) {
    static const char op[] = "training_merge";
    if (!dir) return cr_fail_null(op, "the folder");
    cr_saved_files s;
    int lock = -1;
    cr_status status = cr_stage_complete(op, dir, &cr_saved_kind, false);
    if (status == CR_OK) status = cr_saved_open(op, dir, &s);
    if (status != CR_OK) return status;
    const bool parts = s.ranks > 1;
    if (!s.map[CR_SAVED_STATE].data) status = cr_saved_missing(op, &s, CR_SAVED_STATE);
    if (parts && status == CR_OK) status = cr_stage_begin(op, dir, &cr_saved_kind, &lock);
    if (parts && status == CR_OK) status = merge_weights(op, dir, &s);
    if (parts && status == CR_OK) status = merge_moments(op, dir, &s);
    if (parts && status == CR_OK) status = merged_state(op, dir, &s);
    cr_saved_close(&s);
    return cr_stage_end(op, dir, &cr_saved_kind, lock, status);
}
