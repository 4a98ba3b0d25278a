/* gguf_model.c - models in GGUF files: llama.cpp's names of tensors and of entries, and those of config.json,
 * for the families that name an architecture of llama.cpp.
 *
 * llama.cpp turns neighbouring elements of a head in a "llama" and some others, not the pairs (i, i + D / 2): the rows
 * of their query and key weights are in another order.  Packed rows stay as they lie: their names end with "_paired".
 */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/gguf.h"

/* by role; "%": the number of a layer, "|": another name that files have; without .weight or .bias */
static const char *const names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "token_embd",
    [CR_ROLE_POSITION] = "position_embd",
    [CR_ROLE_KINDS] = "token_types",
    [CR_ROLE_EMBED_NORM] = "token_embd_norm",
    [CR_ROLE_NORM_1] = "blk.%.attn_norm",
    [CR_ROLE_QKV] = "blk.%.attn_qkv",
    [CR_ROLE_Q] = "blk.%.attn_q",
    [CR_ROLE_K] = "blk.%.attn_k",
    [CR_ROLE_V] = "blk.%.attn_v",
    [CR_ROLE_O] = "blk.%.attn_output",
    [CR_ROLE_Q_NORM] = "blk.%.attn_q_norm",
    [CR_ROLE_K_NORM] = "blk.%.attn_k_norm",
    [CR_ROLE_SINKS] = "blk.%.attn_sinks",
    [CR_ROLE_POST_1] = "blk.%.post_attention_norm|blk.%.attn_output_norm",
    [CR_ROLE_NORM_2] = "blk.%.ffn_norm|blk.%.post_attention_norm",
    [CR_ROLE_GATE_UP] = "blk.%.ffn_up",
    [CR_ROLE_GATE] = "blk.%.ffn_gate",
    [CR_ROLE_UP] = "blk.%.ffn_up",
    [CR_ROLE_DOWN] = "blk.%.ffn_down",
    [CR_ROLE_ROUTER] = "blk.%.ffn_gate_inp",
    [CR_ROLE_EXPERT_GATE] = "blk.%.ffn_gate_exps",
    [CR_ROLE_EXPERT_UP] = "blk.%.ffn_up_exps",
    [CR_ROLE_EXPERT_DOWN] = "blk.%.ffn_down_exps",
    [CR_ROLE_SHARED_GATE] = "blk.%.ffn_gate_shexp",
    [CR_ROLE_SHARED_UP] = "blk.%.ffn_up_shexp",
    [CR_ROLE_SHARED_DOWN] = "blk.%.ffn_down_shexp",
    [CR_ROLE_SHARED_ROUTER] = "blk.%.ffn_gate_inp_shexp",
    [CR_ROLE_POST_2] = "blk.%.post_ffw_norm|blk.%.layer_output_norm",
    [CR_ROLE_LAST_NORM] = "output_norm",
    [CR_ROLE_POOLER] = "cls",
    [CR_ROLE_HEAD_DENSE] = "cls",
    [CR_ROLE_HEAD_NORM] = "cls.norm",
    [CR_ROLE_CLASS] = "cls.output",
    [CR_ROLE_DENSE_1] = "dense_2",
    [CR_ROLE_DENSE_2] = "dense_3",
    [CR_ROLE_HEAD] = "output",
};

/* Does a pattern fit all n bytes of name?  *digits: those at its "%". */
static bool fits_one(const char *pattern, const char *name, size_t n, const char **digits, int *count) {
    const char *end = name + n;
    *count = 0;
    for (; *pattern && *pattern != '|'; pattern++) {
        if (*pattern != '%') {
            if (name == end || *name++ != *pattern) return false;
            continue;
        }
        *digits = name;
        while (name < end && *name >= '0' && *name <= '9') name++, ++*count;
        if (!*count || *count > 9) return false;
    }
    return name == end;
}

static bool match_pattern(const char *patterns, const char *name, size_t n, const char **digits, int *count) {
    for (const char *p = patterns; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (fits_one(p, name, n, digits, count)) return true;
    return false;
}

/* The first of the patterns with digits at its "%", and the number of an expert at "#". */
static void fill_pattern(const char *pattern, const char *digits, int count, int64_t expert, const char *end,
                         cr_out *o) {
    for (; *pattern && *pattern != '|'; pattern++) {
        if (*pattern == '%') cr_out_put(o, digits, (size_t)count);
        else if (*pattern == '#') cr_out_format(o, "%lld", (long long)expert);
        else cr_out_put(o, pattern, 1);
    }
    cr_out_put(o, end, strlen(end) + 1);
}

/* llama.cpp's name of a tensor as Hugging Face's, or back; the same if no role has it.  Returns the role, or
 * CR_ROLES. */
static cr_role translate_name(const char *name, const cr_family *f, bool to_gguf, int64_t expert, char *out,
                              size_t room) {
    const char *dot = strrchr(name, '.'), *digits = "";
    int count = 0;
    snprintf(out, room, "%s", name);
    for (cr_role r = CR_ROLE_EMBED; dot && r < CR_ROLES; r++) {
        const char *theirs = cr_family_name(f, r);
        const char *from = to_gguf ? theirs : names[r], *to = to_gguf ? names[r] : theirs;
        if (!from || !to || !match_pattern(from, name, (size_t)(dot - name), &digits, &count)) continue;
        cr_out o = {0};
        fill_pattern(to, digits, count, expert, dot, &o);
        if (o.text && !o.failed) snprintf(out, room, "%s", o.text);
        cr_out_free(&o);
        return r;
    }
    return CR_ROLES;
}

/* Rows of a head: halves one after the other <-> neighbours; weight (H D, C) or bias (H D). */
static cr_tensor *reorder_rows(cr_tensor *t, int64_t H, bool to_halves) {
    const int64_t rows = cr_size(t, 0), D = H ? rows / H : 0;
    if (!H || rows != H * D || D % 2) return t;     /* of a shape that is refused later */
    const int64_t C = cr_ndim(t) == 2 ? cr_size(t, 1) : 1;
    cr_tensor *y = cr_reshape(t, CR_LIST(H, to_halves ? D / 2 : 2, to_halves ? 2 : D / 2, C));
    y = cr_transpose(y, 1, 2);
    return cr_ndim(t) == 2 ? cr_reshape(y, CR_LIST(rows, C)) : cr_reshape(y, CR_LIST(rows));
}

/* ---- reading ---- */
typedef struct source {
    const char *op, *path, *kind;
    int64_t heads, kv_heads;
    const cr_family *family;
    const cr_json *said;
    cr_out *o;
    cr_status status;
} source;

static const cr_json *said(const source *s, const char *key) {
    char full[128];
    if (!strncmp(key, "general.", 8)) return cr_json_get(s->said, key);
    snprintf(full, sizeof full, "%s.%s", s->kind, key);
    return cr_json_get(s->said, full);
}

/* One entry of config.json; GGUF keeps f32. */
static void copy_entry(source *s, const char *key, const char *as, bool needed) {
    const cr_json *v = said(s, key);
    if (!v && needed && s->status == CR_OK)
        s->status = cr_fail(CR_BAD_VALUE, s->op, "'%s' does not say \"%s.%s\"", s->path, s->kind, key);
    if (!v) return;
    cr_out_format(s->o, ", \"%s\": ", as);
    if (v->kind == CR_JSON_NUMBER && !v->integral) cr_out_format(s->o, "%.7g", v->number);
    else cr_put_json(s->o, v);
}

static double number_of(const source *s, const char *key, double absent) {
    const cr_json *v = said(s, key);
    return v && v->kind == CR_JSON_NUMBER ? v->number : absent;
}

/* The tensor of this name, without the part behind its last dot if that is "*": a weight of any format. */
static cr_tensor *find_tensor(const cr_params *p, const char *name) {
    const char *star = strchr(name, '*');
    const size_t n = star ? (size_t)(star - name) : strlen(name) + 1;
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        const char *have = cr_params_name(p, i);
        if (!strncmp(have, name, n) && (!star || (!strchr(have + n, '.') && strcmp(have + n, "bias"))))
            return cr_params_at(p, i);
    }
    return NULL;
}

/* The part of pair i of D / 2 that "llama3" does not stretch: it divides its frequency by
 * 1 / (keep + (1 - keep) / factor). */
static double kept(double base, double low, double high, double trained, int64_t i, int64_t D) {
    const double f = pow(base, -2.0 * (double)i / (double)D);
    return fmin(fmax((trained * f / (2 * acos(-1)) - low) / (high - low), 0), 1);
}

/* Llama 3 stretches slow pairs: the file has the divisors of all; those of Meta's numbers are recognized. */
static void put_llama3(source *s, const cr_tensor *divisors) {
    const int64_t half = cr_numel(divisors), D = 2 * half;
    const double base = number_of(s, "rope.freq_base", 1e4);
    double *d = malloc((size_t)(half + 1) * sizeof *d), factor = 1;
    if (!d || cr_read(divisors, CR_F64, d, (size_t)half * sizeof *d)) {
        s->status = cr_error() ? cr_error_status() : cr_fail(CR_NO_MEMORY, s->op, "no memory for '%s'", s->path);
        free(d);
        return;
    }
    bool same = half > 0;
    const double last = kept(base, 1, 4, 8192, half - 1, D);
    if (same && last < 1) factor = (1 - last) / (1 / d[half - 1] - last);       /* of the slowest pair */
    if (fabs(factor - round(factor)) < 1e-3 * factor) factor = round(factor);   /* the file has f32 */
    for (int64_t i = 0; i < half; i++) {
        const double keep = kept(base, 1, 4, 8192, i, D);
        same &= fabs(d[i] * (keep + (1 - keep) / factor) - 1) < 1e-3;
    }
    free(d);
    if (!same) {
        s->status = cr_fail(CR_BAD_VALUE, s->op, "'%s': rope_freqs.weight has other divisors than Llama 3", s->path);
        return;
    }
    cr_out_format(s->o, ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %.7g, \"low_freq_factor\": 1.0,"
                        " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}", factor);
}

static const char *const scalings[][2] = {
    {"rope.scaling.original_context_length", "original_max_position_embeddings"},
    {"rope.scaling.yarn_beta_fast", "beta_fast"},
    {"rope.scaling.yarn_beta_slow", "beta_slow"},
    {"rope.scaling.yarn_log_multiplier", "mscale"},
    {"rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
    {"attention.temperature_scale", "llama_4_scaling_beta"},
};

static void put_scaling(source *s) {
    const cr_json *type = said(s, "rope.scaling.type");
    if (!type || type->kind != CR_JSON_STRING || !strcmp(type->text, "none")) return;
    cr_out_format(s->o, ", \"rope_scaling\": {\"rope_type\": ");
    cr_put_json(s->o, type);
    cr_out_format(s->o, ", \"factor\": %.7g", number_of(s, "rope.scaling.factor", 1));
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
        copy_entry(s, scalings[i][0], scalings[i][1], false);
    if (s->family->features.rope[0].untruncated) cr_out_format(s->o, ", \"truncate\": false");
    cr_out_format(s->o, "}");
}

/* The ids of the file's tokenizer, which config.json has too. */
static void put_special(const source *s) {
    static const char *const roles[] = {"bos_token_id", "eos_token_id"};
    for (int i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s", roles[i]);
        const cr_json *id = cr_json_get(s->said, key);
        if (id && id->integral) cr_out_format(s->o, ", \"%s\": %lld", roles[i], (long long)id->integer);
    }
}

/* entries as config.json has them; those of some families, which list the key, may have several names */
typedef enum entry_of { NEEDED, USUAL, SOME } entry_of;
static const struct { const char *key, *as; entry_of of; } sizes[] = {
    {"context_length", "max_position_embeddings", NEEDED},
    {"embedding_length", "hidden_size", NEEDED},
    {"block_count", "num_hidden_layers", NEEDED},
    {"attention.head_count", "num_attention_heads", NEEDED},
    {"feed_forward_length", "intermediate_size", NEEDED},
    {"attention.head_count_kv", "num_key_value_heads", USUAL},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", USUAL},
    {"attention.layer_norm_epsilon", "layer_norm_eps", SOME},
    {"attention.layer_norm_epsilon", "norm_epsilon", SOME},
    {"attention.layer_norm_epsilon", "norm_eps", SOME},
    {"attention.clamp_kqv", "clip_qkv", SOME},
    {"attention.scale", "attention_multiplier", SOME},
    {"attention.sliding_window", "sliding_window", SOME},
    {"attention.sliding_window", "local_attention", SOME},
    {"attention.sliding_window_pattern", "global_attn_every_n_layers", SOME},
    {"attn_logit_softcapping", "attn_logit_softcapping", SOME},
    {"final_logit_softcapping", "final_logit_softcapping", SOME},
    {"rope.freq_base_swa", "rope_local_base_freq", USUAL},
    {"rope.freq_base_swa", "local_rope_theta", USUAL},
    {"rope.freq_base", "global_rope_theta", USUAL},
    {"use_parallel_residual", "use_parallel_residual", SOME},
    {"embedding_scale", "embedding_multiplier", SOME},
    {"residual_scale", "residual_multiplier", SOME},
    {"logit_scale", "logit_scale", SOME},
    {"logit_scale", "logits_scaling", SOME},
    {"expert_count", "num_experts", SOME},
    {"expert_count", "num_local_experts", SOME},
    {"expert_used_count", "num_experts_per_tok", SOME},
    {"expert_feed_forward_length", "moe_intermediate_size", SOME},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", SOME},
};

static void put_gpt_sizes(source *s) {
    copy_entry(s, "context_length", "n_positions", true);
    copy_entry(s, "embedding_length", "n_embd", true);
    copy_entry(s, "block_count", "n_layer", true);
    copy_entry(s, "attention.head_count", "n_head", true);
    copy_entry(s, "feed_forward_length", "n_inner", false);
    copy_entry(s, "attention.layer_norm_epsilon", "layer_norm_epsilon", false);
    cr_out_format(s->o, ", \"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}");
}

static void put_flag(source *s, const char *key, bool on) {
    if (!cr_family_reads(s->family, key)) return;
    cr_out_format(s->o, ", \"%s\": %s", key, on ? "true" : "false");
}

/* Biases by the tensors that there are. */
static void put_biases(source *s, const cr_params *p) {
    const bool out = find_tensor(p, "blk.0.attn_output.bias"), in = find_tensor(p, "blk.0.attn_q.bias") ||
                                                              find_tensor(p, "blk.0.attn_qkv.bias");
    const bool free_out = s->family->features.out_unbiased || !strcmp(s->family->kind, "seed_oss");
    put_flag(s, "attention_bias", free_out ? in : out);
    put_flag(s, "attention_out_bias", out);
    put_flag(s, "use_qkv_bias", in);
    put_flag(s, "qkv_bias", in);
    put_flag(s, "use_bias", in);
    put_flag(s, "mlp_bias", find_tensor(p, "blk.0.ffn_up.bias"));
    put_flag(s, "norm_bias", find_tensor(p, "output_norm.bias"));
}

/* Rows of an encoder's kinds of tokens, and how embeddings are pooled; llama.cpp's server normalizes them. */
static void put_sentence(source *s, const cr_params *p) {
    static const char *const rules[] = {NULL, "mean", "cls", "last"};      /* enum llama_pooling_type; 4: a ranking */
    const cr_tensor *kinds = find_tensor(p, "token_types.weight");
    const double pooling = number_of(s, "pooling_type", 0);
    const cr_json *causal = said(s, "attention.causal");
    if (s->family->features.encoder)
        cr_out_format(s->o, ", \"type_vocab_size\": %lld", kinds ? (long long)cr_size(kinds, 0) : 0LL);
    if (pooling == 1 || pooling == 2 || pooling == 3)
        cr_out_format(s->o, ", \"sentence_pooling\": \"%s%s%s|normalize\"", rules[(int)pooling],
                      find_tensor(p, "dense_2.*") ? "|dense" : "", find_tensor(p, "dense_3.*") ? "|dense" : "");
    put_flag(s, "use_bidirectional_attention", true);
    if (s->status == CR_OK && causal && causal->truth == s->family->features.encoder)
        s->status = cr_fail(CR_BAD_VALUE, s->op, "'%s': \"%s.attention.causal\" must be %s", s->path, s->kind,
                            causal->truth ? "false" : "true");
}

/* What the file does not say, but llama.cpp does by the architecture. */
static void put_implied(source *s) {
    const double layers = number_of(s, "block_count", 0), width = number_of(s, "embedding_length", 0),
                 heads = number_of(s, "attention.head_count", 1);
    const double D = number_of(s, "attention.key_length", heads > 0 ? floor(width / heads) : 0);
    const double rotary = number_of(s, "rope.dimension_count", D);
    cr_out_format(s->o, ", \"head_dim\": %.0f", D);
    if (D > 0 && (s->family->features.rotary_share > 0 || rotary != D))
        cr_out_format(s->o, ", \"partial_rotary_factor\": %.17g", rotary < D ? (rotary + 1e-6) / D : rotary / D);
    cr_out_format(s->o, ", \"rope_theta\": %.7g", number_of(s, "rope.freq_base", 1e4));
    const bool largest = (!strcmp(s->kind, "gemma2") && layers == 46) || (!strcmp(s->kind, "gemma3") && layers == 62);
    if (cr_family_reads(s->family, "query_pre_attn_scalar"))
        cr_out_format(s->o, ", \"query_pre_attn_scalar\": %.7g", largest ? width / heads : D);
    const cr_json *norm = said(s, "expert_weights_norm");
    put_flag(s, "norm_topk_prob", norm ? norm->truth : !strcmp(s->kind, "qwen3moe"));
}

static void put_config(source *s, const cr_params *p) {
    const cr_tensor *table = find_tensor(p, "token_embd.*"), *divisors = find_tensor(p, "rope_freqs.weight");
    const bool gpt = s->family->gpt_keys;
    cr_out_format(s->o, "{\"model_type\": \"%s\"", s->family->kind);
    if (!table || cr_ndim(table) != 2) {
        s->status = cr_fail(CR_BAD_VALUE, s->op, "'%s' has no matrix 'token_embd.weight'", s->path);
        return;
    }
    cr_out_format(s->o, ", \"vocab_size\": %lld, \"tie_word_embeddings\": %s", (long long)cr_size(table, 0),
                  find_tensor(p, "output.*") && !gpt ? "false" : "true");
    put_special(s);
    if (gpt) { put_gpt_sizes(s); return; }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].of != SOME || cr_family_reads(s->family, sizes[i].as))
            copy_entry(s, sizes[i].key, sizes[i].as, sizes[i].of == NEEDED);
    put_biases(s, p);
    put_sentence(s, p);
    put_implied(s);
    if (divisors) put_llama3(s, divisors);
    else put_scaling(s);
    cr_out_format(s->o, "}");
}

/* The family of an architecture, which some share. */
static const cr_family *family_of(const source *s, const char *kind) {
    const bool window = said(s, "attention.sliding_window"), experts = number_of(s, "expert_count", 0) > 0;
    if (!strcmp(kind, "mistral3") && !said(s, "attention.temperature_scale")) kind = "llama";      /* Mistral Small */
    const char *name = strcmp(kind, "llama") ? !strcmp(kind, "olmo2") && window ? "olmo3" : NULL
                       : experts             ? "mixtral"
                       : window              ? "mistral"
                                             : NULL;
    if (name) return cr_family_named(name);
    return cr_family_of_gguf(kind);
}

/* Rows q, k, v of all heads -> those of each head in turn; weight (3 H D, C) of any kind of rows, or bias */
static cr_tensor *by_head(cr_tensor *t, int64_t H) {
    const int64_t rows = cr_size(t, 0);
    if (!H || rows % (3 * H)) return t;             /* of a shape that is refused later */
    cr_tensor *y = cr_transpose(cr_reshape(t, CR_LIST(3, H, rows / (3 * H), -1)), 0, 1);
    return cr_ndim(t) == 2 ? cr_reshape(y, CR_LIST(rows, -1)) : cr_reshape(y, CR_LIST(rows));
}

/* The tensor as the model has it; name: Hugging Face's, which may get another end. */
static cr_tensor *as_model(const source *s, cr_role role, cr_tensor *t, char *name, size_t room) {
    const int64_t H = s->heads, KV = s->kv_heads;
    const cr_features *f = &s->family->features;
    const bool packed = cr_packed_format(name, NULL) >= 0;
    if (s->family->gguf_paired && (role == CR_ROLE_Q || role == CR_ROLE_K)) {
        if (!packed) return reorder_rows(t, role == CR_ROLE_Q ? H : KV, true);
        const size_t n = strlen(name);
        snprintf(name + n, room - n, "_paired");
    }
    if (role == CR_ROLE_SINKS) *strrchr(name, '.') = 0;        /* no layer's weight */
    if (role == CR_ROLE_QKV && f->qkv_by_head) return by_head(t, H);
    if (role == CR_ROLE_SHARED_ROUTER && cr_ndim(t) == 1) return cr_reshape(t, CR_LIST(1, -1));
    /* files have 1 + weight */
    if (f->unit_offset && cr_ndim(t) == 1 && strstr(name, "norm.weight")) return cr_add_scalar(t, -1);
    return t;
}

/* Adds one tensor, or of all experts each. */
static cr_status add_renamed(const source *s, const char *from, cr_tensor *t, cr_params *into) {
    char name[256];
    const cr_role role = translate_name(from, s->family, false, 0, name, sizeof name);
    const bool each = cr_role_of_expert(role) && cr_ndim(t) >= 2;      /* biases too */
    cr_status status = CR_OK;
    for (int64_t e = 0; e < (each ? cr_size(t, 0) : 1) && status == CR_OK; e++) {
        cr_scope_begin();
        if (each) translate_name(from, s->family, false, e, name, sizeof name);
        cr_tensor *one = each ? cr_select(t, 0, e) : as_model(s, role, t, name, sizeof name);
        status = one ? cr_params_add(into, name, one) : cr_error_status();
        cr_scope_end();
    }
    return status;
}

/* All tensors by Hugging Face's names, as the model has them. */
static cr_status rename_all(source *s, const cr_params *p, cr_params *into) {
    for (int64_t i = 0; i < cr_params_count(p) && s->status == CR_OK; i++)
        if (strcmp(cr_params_name(p, i), "rope_freqs.weight"))
            s->status = add_renamed(s, cr_params_name(p, i), cr_params_at(p, i), into);
    return s->status;
}

static cr_status find_family(source *s) {
    const cr_json *kind = cr_json_get(s->said, "general.architecture");
    const bool named = kind && kind->kind == CR_JSON_STRING;
    if (named) s->kind = kind->text;
    s->family = named ? family_of(s, kind->text) : NULL;
    if (s->family) return CR_OK;
    cr_out known = {0};
    const cr_family *f;
    for (int i = 0; (f = cr_family_at(i)); i++) {
        const bool first = f->gguf && cr_family_of_gguf(f->gguf) == f;
        if (first) cr_out_format(&known, "%s%s", known.bytes ? ", " : "", f->gguf);
    }
    cr_out_put(&known, "", 1);
    const cr_status status = cr_fail(CR_BAD_VALUE, s->op, "'%s' is of the architecture %.40s: known are %s", s->path,
                                     named ? kind->text : "that it does not say", known.text ? known.text : "");
    cr_out_free(&known);
    return status;
}

cr_params *cr_gguf_weights(const char *path, const cr_device *dev, bool packed, char **config) {
    static const char op[] = "load_gguf";
    if (!path) return cr_fail_null(op, "the path"), NULL;
    if (!dev) return cr_fail_null(op, "the device"), NULL;
    cr_mapping m;
    char *metadata = NULL;
    if (cr_file_map(op, path, true, &m)) return NULL;
    cr_params *p = cr_gguf_load(op, path, &m, dev, packed, &metadata), *into = p ? cr_params_new() : NULL;
    cr_json *root = into ? cr_json_parse(op, path, metadata, strlen(metadata)) : NULL;
    cr_out o = {0};
    source s = {.op = op, .path = path, .kind = "", .said = root, .o = &o, .status = root ? CR_OK : CR_IO};
    if (s.status == CR_OK) s.status = find_family(&s);
    if (s.status == CR_OK) s.heads = (int64_t)number_of(&s, "attention.head_count", 0);
    if (s.status == CR_OK) s.kv_heads = (int64_t)number_of(&s, "attention.head_count_kv", (double)s.heads);
    const bool recording = cr_set_grad_enabled(false);
    if (s.status == CR_OK) put_config(&s, p);
    if (s.status == CR_OK) s.status = rename_all(&s, p, into);
    cr_set_grad_enabled(recording);
    if (s.status == CR_OK) s.status = cr_out_check(&o, op, path);
    cr_json_free(root);
    free(metadata);
    cr_params_free(p);
    if (s.status == CR_OK && config) *config = o.text;
    else cr_out_free(&o);
    if (s.status == CR_OK) return into;
    cr_params_free(into);
    return NULL;
}

cr_params *cr_load_gguf(const char *path, const cr_device *dev, char **config) {
    return cr_gguf_weights(path, dev, false, config);
}

static void put_real(cr_out *o, const char *kind, const char *key, double v) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", v);
    cr_out_format(o, ", \"%s.%s\": %s%s", kind, key, text, strpbrk(text, ".e") ? "" : ".0");
}

/* ---- adapters, as llama.cpp's convert_lora_to_gguf writes them: NAME.lora_a (r, C) and NAME.lora_b (OC, r) ---- */
static const char peft[] = "base_model.model.";

static cr_status check_adapter(const source *s) {
    static const char *const wanted[][2] = {{"general.type", "adapter"}, {"adapter.type", "lora"}};
    for (int i = 0; i < 2; i++) {
        const cr_json *v = cr_json_get(s->said, wanted[i][0]);
        const bool text = v && v->kind == CR_JSON_STRING;
        if (text && !strcmp(v->text, wanted[i][1])) continue;
        return cr_fail(CR_BAD_VALUE, s->op, "'%s' is no LoRA adapter: \"%s\" is %.40s, not %s", s->path, wanted[i][0],
                       text ? v->text : "absent", wanted[i][1]);
    }
    return CR_OK;
}

/* name: "blk.0.attn_q.weight.lora_a" */
static cr_status add_matrix(const source *s, const cr_adapter_base *base, const char *name, cr_tensor *t,
                            cr_params *into) {
    const char *end = strrchr(name, '.');
    const bool a = end && !strcmp(end, ".lora_a"), known = a || (end && !strcmp(end, ".lora_b"));
    char weight[256], layer[256], full[600];
    snprintf(weight, sizeof weight, "%.*s", known ? (int)(end - name) : 0, name);
    const cr_role role = translate_name(weight, s->family, false, 0, layer, sizeof layer);
    if (role == CR_ROLES || cr_role_of_expert(role) || !strrchr(layer, '.'))
        return cr_fail(CR_BAD_VALUE, s->op, "'%s': no layer has the adapter '%.100s'", s->path, name);
    cr_scope_begin();
    if (!a && cr_ndim(t) == 2) {
        source own = *s;
        own.heads = own.kv_heads = cr_size(t, 0) / base->head_dim / (role == CR_ROLE_QKV ? 3 : 1);
        t = as_model(&own, role, t, layer, sizeof layer);
    }
    *strrchr(layer, '.') = 0;
    const size_t skip = strlen(s->family->prefix);
    snprintf(full, sizeof full, "%s%s%s.lora_%c.weight", peft, base->prefix,
             layer + (strncmp(layer, s->family->prefix, skip) ? 0 : skip), a ? 'A' : 'B');
    const cr_status status = t ? cr_params_add(into, full, t) : cr_error_status();
    cr_scope_end();
    return status;
}

cr_params *cr_gguf_adapter(const char *op, const char *path, const cr_adapter_base *base, const cr_device *dev,
                           double *alpha) {
    cr_mapping m;
    char *metadata = NULL;
    if (cr_file_map(op, path, true, &m)) return NULL;
    cr_params *p = cr_gguf_load(op, path, &m, dev, false, &metadata), *into = p ? cr_params_new() : NULL;
    cr_json *root = into ? cr_json_parse(op, path, metadata, strlen(metadata)) : NULL;
    source s = {.op = op, .path = path, .kind = "", .said = root, .status = root ? CR_OK : CR_IO};
    if (s.status == CR_OK) s.status = check_adapter(&s);
    if (s.status == CR_OK) s.status = find_family(&s);
    const cr_json *said_alpha = root ? cr_json_get(root, "adapter.lora.alpha") : NULL;
    *alpha = said_alpha && said_alpha->kind == CR_JSON_NUMBER ? said_alpha->number : 0;
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < cr_params_count(p) && s.status == CR_OK; i++)
        s.status = add_matrix(&s, base, cr_params_name(p, i), cr_params_at(p, i), into);
    cr_set_grad_enabled(recording);
    cr_json_free(root);
    free(metadata);
    cr_params_free(p);
    if (s.status == CR_OK) return into;
    cr_params_free(into);
    return NULL;
}

cr_status cr_gguf_save_adapter(const char *op, const char *path, const cr_family *f, const cr_adapter_base *base,
                               const cr_params *adapter, double alpha) {
    if (!f->gguf_written || f->features.qkv_by_head)
        return cr_fail(CR_BAD_VALUE, op, "no GGUF adapter is written of the family '%s'", f->kind);
    cr_params *into = cr_params_new();
    cr_status status = into ? CR_OK : cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < cr_params_count(adapter) && status == CR_OK; i++) {
        const char *name = cr_params_name(adapter, i);      /* LAYER.lora_A.weight */
        const int layer = (int)(strlen(name) - strlen(".lora_A.weight"));
        const bool a = name[layer + 6] == 'A';
        char weight[256], full[300];
        snprintf(weight, sizeof weight, "%.*s.weight", layer, name);
        const cr_role role = translate_name(weight, f, true, 0, full, sizeof full - 8);
        cr_tensor *t = cr_params_at(adapter, i);
        cr_scope_begin();
        if (!a && f->gguf_paired && (role == CR_ROLE_Q || role == CR_ROLE_K))
            t = reorder_rows(t, cr_size(t, 0) / base->head_dim, false);
        strcat(full, a ? ".lora_a" : ".lora_b");
        status = role == CR_ROLES ? cr_fail(CR_BAD_VALUE, op, "a GGUF file has no name for '%s'", name)
                 : t              ? cr_params_add(into, full, t)
                                  : cr_error_status();
        cr_scope_end();
    }
    cr_set_grad_enabled(recording);
    cr_out o = {0};
    cr_out_format(&o, "{\"general.architecture\": \"%s\", \"general.type\": \"adapter\", "
                      "\"adapter.type\": \"lora\"", f->gguf);
    put_real(&o, "adapter", "lora.alpha", alpha);
    cr_out_put(&o, "}", 2);
    if (status == CR_OK) status = cr_out_check(&o, op, path);
    if (status == CR_OK) status = cr_gguf_save(op, path, into, o.text, "f32", NULL);
    cr_out_free(&o);
    cr_params_free(into);
    return status;
}

char *cr_gguf_entries(const char *path, const char *prefix) {
    static const char op[] = "gguf_entries";
    if (!path || !prefix) return cr_fail_null(op, path ? "the prefix" : "the path"), NULL;
    cr_mapping m;
    if (cr_file_map(op, path, false, &m)) return NULL;
    char *found = cr_gguf_section(op, path, &m, prefix);
    cr_os_unmap(&m);
    if (!found || strcmp(found, "{}")) return found;
    free(found);
    return NULL;
}

/* ---- writing ---- */
static void put_whole(cr_out *o, const char *kind, const char *key, int64_t v) {
    cr_out_format(o, ", \"%s.%s\": %lld", kind, key, (long long)v);
}

/* A file of this format says the factor and the length of YaRN: the rest has to be what these imply. */
static cr_status check_yarn(const char *op, const cr_rope_options *r) {
    const double implied = 0.1 * log(r->factor) + 1;
    const struct { const char *name; double said, implied; } rows[] = {
        {"beta_fast", r->beta_fast, r->beta_fast != 0 ? 32 : 0},
        {"beta_slow", r->beta_slow, r->beta_slow != 0 ? 1 : 0},
        {"truncate", !r->untruncated, 1},
        {"mscale_all_dim", r->mscale_all_dim, 0},
        {"attention_factor", r->attention_factor, r->attention_factor > 0 ? implied : 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (fabs(rows[i].said - rows[i].implied) > 1e-6)
            return cr_fail(CR_BAD_VALUE, op, "a GGUF file has no \"%s\" of YaRN: it is %g, not %g as readers take it",
                           rows[i].name, rows[i].said, rows[i].implied);
    return CR_OK;
}

/* It has the divisors of the pairs, by which readers know Llama 3's numbers only. */
static cr_status put_divisors(const char *op, const cr_rope_options *r, int64_t D, cr_params *into) {
    if (r->low != 1 || r->high != 4 || r->original != 8192)
        return cr_fail(CR_BAD_VALUE, op, "a GGUF file's divisors are those of Llama 3, with low_freq_factor 1, "
                       "high_freq_factor 4 and original_max_position_embeddings 8192, not %g, %g and %g", r->low,
                       r->high, r->original);
    double *d = malloc((size_t)(D / 2 + 1) * sizeof *d);
    if (!d) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld divisors", (long long)D);
    for (int64_t i = 0; i < D / 2; i++) {
        const double keep = kept(r->base, r->low, r->high, r->original, i, D);
        d[i] = 1 / (keep + (1 - keep) / r->factor);
    }
    cr_scope_begin();
    cr_tensor *t = cr_to(cr_from(d, CR_LIST(D / 2), CR_F64, cr_cpu()), CR_F32, cr_cpu());
    cr_status status = t ? cr_params_add(into, "rope_freqs.weight", t) : cr_error_status();
    cr_scope_end();
    free(d);
    return status;
}

/* It has a window of all layers, of mistral. */
static cr_status check_windows(const char *op, const cr_family *family, const cr_features *f) {
    const bool all = family->features.windows == CR_WINDOW_ALL && f->window;
    for (int64_t l = 0; l < f->layers; l++)
        if (f->layer[l].window != all)
            return cr_fail(CR_BAD_VALUE, op, "a GGUF file has the window of all layers of mistral, not of some layers "
                           "by \"layer_types\" or \"use_sliding_window\": layer %lld %s one", (long long)l,
                           f->layer[l].window ? "has" : "lacks");
    return CR_OK;
}

/* The rotation; the divisors of Llama 3 become a tensor. */
static cr_status put_rope(const char *op, const cr_features *f, cr_out *o, const char *kind, cr_params *into) {
    const cr_rope_options *r = &f->rope[0];
    put_real(o, kind, "rope.freq_base", r->base);
    put_whole(o, kind, "rope.dimension_count", f->rotary);
    if (r->scaling == CR_ROPE_DYNAMIC)
        return cr_fail(CR_BAD_VALUE, op, "a GGUF file has no \"rope_type\" dynamic: it must be one of default|linear|"
                       "yarn|llama3");
    if (r->scaling == CR_ROPE_LLAMA3) return put_divisors(op, r, f->rotary, into);
    if (r->scaling == CR_ROPE_PLAIN) return CR_OK;
    const bool yarn = r->scaling == CR_ROPE_YARN;
    cr_out_format(o, ", \"%s.rope.scaling.type\": \"%s\"", kind, yarn ? "yarn" : "linear");
    put_real(o, kind, "rope.scaling.factor", r->factor);
    if (yarn) put_whole(o, kind, "rope.scaling.original_context_length", (int64_t)r->original);
    return yarn ? check_yarn(op, r) : CR_OK;
}

/* Entries by the features; into: for tensors that they need. */
static cr_status put_entries(const char *op, const cr_family *family, const cr_features *f, cr_out *o,
                             cr_params *into) {
    const char *kind = family->gguf, *eps = f->layer_norm ? "attention.layer_norm_epsilon"
                                                          : "attention.layer_norm_rms_epsilon";
    put_whole(o, kind, "context_length", f->context);
    put_whole(o, kind, "embedding_length", f->width);
    put_whole(o, kind, "block_count", f->layers);
    put_whole(o, kind, "feed_forward_length", f->inner);
    put_whole(o, kind, "attention.head_count", f->heads);
    put_real(o, kind, eps, f->eps);
    if (family->gpt_keys) return CR_OK;
    put_whole(o, kind, "attention.head_count_kv", f->kv_heads);
    put_whole(o, kind, "attention.key_length", f->head_dim);
    put_whole(o, kind, "attention.value_length", f->head_dim);
    put_whole(o, kind, "vocab_size", f->vocabulary);
    const cr_status status = check_windows(op, family, f);
    if (f->window && f->layer[0].window) put_whole(o, kind, "attention.sliding_window", f->window);
    return status == CR_OK ? put_rope(op, f, o, kind, into) : status;
}

cr_status cr_save_gguf(const char *path, const cr_params *tensors, const char *config, const char *tokenizer,
                       const char *type) {
    return cr_gguf_write(path, tensors, config, tokenizer, type, NULL);
}

cr_status cr_gguf_write(const char *path, const cr_params *tensors, const char *config, const char *tokenizer,
                        const char *type, const cr_params *importance) {
    static const char op[] = "save_gguf";
    if (!path) return cr_fail_null(op, "the path");
    if (!tensors) return cr_fail_null(op, "the tensors");
    if (!config) return cr_fail_null(op, "the configuration");
    cr_json *root = cr_json_parse(op, "config.json", config, strlen(config)), *more = NULL;
    cr_params *into = root ? cr_params_new() : NULL, *columns = into ? cr_params_new() : NULL;
    if (into && tokenizer && !(more = cr_json_parse(op, "tokenizer", tokenizer, strlen(tokenizer)))) {
        cr_params_free(into);
        into = NULL;
    }
    cr_entries e = {op, "config.json", root, into ? CR_OK : CR_BAD_VALUE};
    cr_out o = {0};
    cr_features f = {0};
    const cr_family *family = e.status == CR_OK ? cr_family_of(&e) : NULL;
    if (family && !family->gguf_written)
        e.status = cr_fail(CR_BAD_VALUE, op, "no GGUF file is written of the family '%s'", family->kind);
    if (e.status == CR_OK) e.status = cr_features_read(family, &e, cr_family_depth(family, tensors), &f);
    const char *kind = family && family->gguf ? family->gguf : "";
    cr_out_format(&o, "{\"general.architecture\": \"%s\", \"general.quantization_version\": 2", kind);
    if (e.status == CR_OK) e.status = put_entries(op, family, &f, &o, into);
    free(f.layer);
    for (const cr_json *v = more ? more->first : NULL; v; v = v->next) {
        cr_out_put(&o, ", ", 2);
        cr_out_string(&o, v->key, v->key_bytes);
        cr_out_put(&o, ": ", 2);
        cr_put_json(&o, v);
    }
    cr_out_put(&o, "}", 1);
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < cr_params_count(tensors) && e.status == CR_OK; i++) {
        char name[256];
        const cr_role role = translate_name(cr_params_name(tensors, i), family, true, 0, name, sizeof name);
        cr_scope_begin();
        cr_tensor *t = cr_params_at(tensors, i);
        if (family->gguf_paired && (role == CR_ROLE_Q || role == CR_ROLE_K))
            t = reorder_rows(t, role == CR_ROLE_Q ? f.heads : f.kv_heads, false);
        e.status = t && columns ? cr_params_add(into, name, t) : cr_error_status();
        cr_tensor *counts = importance ? cr_params_if(importance, cr_params_name(tensors, i)) : NULL;
        if (counts && e.status == CR_OK) e.status = cr_params_add(columns, name, counts);
        cr_scope_end();
    }
    cr_set_grad_enabled(recording);
    if (e.status == CR_OK) e.status = cr_out_check(&o, op, path);
    if (e.status == CR_OK) e.status = cr_gguf_save(op, path, into, o.text, type ? type : "f16", columns);
    cr_out_free(&o);
    cr_json_free(more);
    cr_json_free(root);
    cr_params_free(into);
    cr_params_free(columns);
    return e.status;
}
