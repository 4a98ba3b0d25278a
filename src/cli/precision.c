/* precision.c - --dtype: products and activations of a training run in half precision, by autocast.  The weights
 * stay f32; the optimizer writes copies of them in the pass of its step. */
#include "cli.h"

#include <string.h>

cr_dtype half_dtype_named(const char *name) {
    return !strcmp(name, "bf16") ? CR_BF16 : !strcmp(name, "f16") ? CR_F16 : CR_F32;
}

cr_tensor *half_dtype_loss(const cr_gpt *m, cr_dtype low, const cr_tensor *x, const cr_tensor *y, bool train) {
    if (!x || cr_autocast_begin(cr_device_of(x), low, true)) return NULL;
    cr_tensor *loss = cr_gpt_loss(m, x, y, train);
    return cr_autocast_end() == CR_OK ? loss : NULL;
}

static cr_status copy_of(cr_params *copies, cr_optim *opt, const char *name, cr_tensor *p, cr_dtype low) {
    cr_scope_begin();
    cr_tensor *copy = opt ? cr_empty(cr_ndim(p), cr_shape(p), low, cr_device_of(p))
                          : cr_contiguous(cr_to(cr_detach(p), low, cr_device_of(p)));
    cr_status status = copy ? cr_params_add(copies, name, copy) : cr_error_status();
    if (status == CR_OK && opt) status = cr_optim_mirror(opt, p, copy);
    if (status == CR_OK) status = cr_autocast_copy(p, copy);
    cr_scope_end();
    return status;
}

bool half_dtype_copies(const cr_params *p, cr_optim *opt, cr_dtype low, cr_params **copies) {
    if (low == CR_F32) return true;
    cr_status status = (*copies = cr_params_new()) ? CR_OK : cr_error_status();
    for (int64_t i = 0; status == CR_OK && i < cr_params_count(p); i++) {
        cr_tensor *t = cr_params_at(p, i);          /* half precision and codes need no copy */
        if (cr_dtype_of(t) == CR_F32) status = copy_of(*copies, opt, cr_params_name(p, i), t, low);
    }
    return status == CR_OK;
}

void low_copies_free(cr_params *copies, const cr_params *p) {
    cr_tensor *const none = (cr_tensor *)(uintptr_t)CR_NONE;
    for (int64_t i = 0; copies && i < cr_params_count(copies); i++)
        (void)cr_autocast_copy(cr_params_get(p, cr_params_name(copies, i)), none);
    cr_params_free(copies);
}
