/* packing.c - rows of whole samples for finetune and eval: tokens, and the targets that count. */
#include "run.h"

#include <stdlib.h>

#include "../core/out.h"

cr_dataset *read_data(const opened *o, const file_list *files, int64_t context, bool truncate, bool questions) {
    const cr_dataset_options how = {.tokenizer = o->tokenizer, .chat = o->chat, .context = context,
                                    .eos = o->ends ? (int64_t)o->end[0] : -1, .truncate = truncate,
                                    .questions = questions};
    cr_dataset *d = cr_dataset_read(&how, files->n, files->path);
    if (!d) cli_fail_library();
    return d;
}

static int64_t target_of(const cr_example *s, int64_t i) { return s->counts[i + 1] ? (int64_t)s->ids[i + 1] : -1; }

uint64_t data_hash(const cr_dataset *d, uint64_t seed) {
    const int64_t n = cr_dataset_count(d);
    uint64_t h = 0xcbf29ce484222325u ^ seed ^ (uint64_t)n;         /* FNV-1a */
    for (int64_t i = 0; i < n; i++) h = (h ^ (uint64_t)(cr_dataset_at(d, i).n - 1)) * 0x100000001b3u;
    for (int64_t i = 0; i < n; i++) {
        const cr_example s = cr_dataset_at(d, i);
        for (int64_t k = 0; k + 1 < s.n; k++)
            h = ((h ^ (uint64_t)s.ids[k]) * 0x100000001b3u ^ (uint64_t)target_of(&s, k)) * 0x100000001b3u;
    }
    return h;
}

static uint64_t mixed(uint64_t x) {                 /* splitmix64 (Steele, Lea, Flood 2014) */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A new order for the next epoch (Fisher and Yates). */
static bool shuffle(packer *p) {
    const int64_t n = p->n;
    if (!p->order && !(p->order = malloc((size_t)n * sizeof *p->order)))
        return cli_fail("no memory for %lld samples", (long long)n), false;
    const uint64_t key = mixed(mixed(p->seed) + (uint64_t)p->epoch++);
    for (int64_t i = 0; i < n; i++) p->order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = (int64_t)(mixed(key + (uint64_t)i) % (uint64_t)(i + 1)), other = p->order[k];
        p->order[k] = p->order[i];
        p->order[i] = other;
    }
    p->at = 0;
    return true;
}

bool packing_add(packing *out, const cr_dataset *d, int64_t i) {
    const cr_example s = cr_dataset_at(d, i);
    const int64_t n = s.n - 1;
    if (!cr_grow(&out->token, out->tokens + n, &out->token_room, sizeof *out->token) ||
        !cr_grow(&out->target, out->tokens + n, &out->target_room, sizeof *out->target) ||
        !cr_grow(&out->length, out->samples + 1, &out->length_room, sizeof *out->length))
        return cli_fail("no memory for %lld tokens", (long long)(out->tokens + n)), false;
    for (int64_t k = 0; k < n; k++, out->tokens++) {
        out->token[out->tokens] = s.ids[k];
        out->target[out->tokens] = target_of(&s, k);
    }
    out->length[out->samples++] = n;
    return true;
}

bool packer_row(packer *p, packing *out) {
    if ((!p->order || p->at == p->n) && !shuffle(p)) return false;
    for (int64_t used = 0; p->at < p->n; p->at++) {
        const int64_t i = p->order[p->at], n = cr_dataset_at(p->data, i).n - 1;
        if (used + n > p->context && used) break;
        if (out && !packing_add(out, p->data, i)) return false;
        used += n;
    }
    return true;
}

void packing_free(packing *p) {
    free(p->token);
    free(p->target);
    free(p->length);
    *p = (packing){0};
}

cr_samples packing_of(const packing *p) { return (cr_samples){p->token, p->target, p->samples, p->length}; }
