/* affine.c - the linear layers of the language models, with the adapter that a layer may have. */
#include "lm.h"

static cr_tensor *activated(cr_tensor *x, cr_act act) {
    switch (act) {
    case CR_ACT_NONE: return x;
    case CR_ACT_RELU: return cr_relu(x);
    case CR_ACT_GELU: return cr_gelu(x);
    case CR_ACT_GELU_TANH: return cr_gelu_tanh(x);
    case CR_ACT_SILU: return cr_silu(x);
    case CR_ACT_TANH: return cr_tanh(x);
    case CR_ACT_SIGMOID: return cr_sigmoid(x);
    }
    return NULL;
}

/* In the dtype of an adapter, which is f32 over weights in half precision; autocast has its own rules. */
static cr_tensor *in_dtype_of(const cr_tensor *x, const cr_tensor *like) {
    if (!x || cr_autocasting()) return (cr_tensor *)(uintptr_t)x;
    return cr_to(x, cr_dtype_of(like), cr_device_of(x));
}

/* scale (dropout(x) A^T) B^T : (..., C) -> (..., OC).  The scale is applied to the r columns in the middle. */
static cr_tensor *low_rank(const cr_affine *p, const cr_tensor *x) {
    const cr_lora_mode *mode = p->lora_mode;
    if (mode->train && mode->dropout > 0) x = cr_dropout(x, mode->dropout, true, mode->generator);
    cr_tensor *narrow = cr_linear(in_dtype_of(x, p->lora_a), p->lora_a, CR_NONE, CR_ACT_NONE);
    return cr_linear(cr_mul_scalar(narrow, p->scale), p->lora_b, CR_NONE, CR_ACT_NONE);
}

int64_t cr_affine_inputs(const cr_affine *p) { return cr_size(p->weight, 1); }
int64_t cr_affine_outputs(const cr_affine *p) { return cr_size(p->weight, 0); }

bool cr_affine_is_plain(const cr_affine *p) { return !p->lora_a; }

cr_tensor *cr_affine_apply(const cr_affine *p, const cr_tensor *x, cr_act act) {
    const cr_tensor *bias = p->bias ? p->bias : CR_NONE;
    if (cr_affine_is_plain(p)) return cr_linear(x, p->weight, bias, act);
    cr_tensor *y = cr_linear(x, p->weight, bias, CR_ACT_NONE), *low = low_rank(p, x);
    return y && low ? activated(cr_add(y, in_dtype_of(low, y)), act) : NULL;
}
