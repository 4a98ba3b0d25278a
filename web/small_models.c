/* small_models.c - see small.c. */
#include "../src/core/status.h"
#include "../src/models/lm.h"

static cr_status refuse(const char *op, const char *what) {
    return cr_fail(CR_RUNTIME, op, "%s need the whole module: load({ whole: true }), or await whole()", what);
}

cr_status cr_lm_check_decoder(const char *op, const cr_lm *m) { return (void)m, refuse(op, "pretrained models"); }
cr_status cr_beam_search(cr_job *j) { return refuse(j->op, "beams"); }
cr_status cr_speculate(cr_job *j) { return refuse(j->op, "draft models"); }
void      cr_speculation_free(struct cr_speculation *s) { (void)s; }

/* Not reached: there is no cr_lm. */
const cr_decoder *cr_lm_decoder(const cr_lm *m) { return (void)m, NULL; }
cr_tensor *cr_linear_packed(const cr_tensor *x, const cr_tensor *w, const char *format, const cr_tensor *b) {
    return (void)x, (void)w, (void)format, (void)b, NULL;
}
cr_tensor *cr_unpack(const cr_tensor *w, const char *format, cr_dtype dt) {
    return (void)w, (void)format, (void)dt, NULL;
}
