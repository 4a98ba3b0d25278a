/* decode.c - from ids to text, one after the other. */
#include <string.h>

#include "pipeline.h"

/* WordPiece's, in place from out->text + from on: a space before punctuation goes. */
static void clean_spaces(cr_out *out, size_t from) {
    static const struct { const char *from, *to; } rules[] = {
        {" .", "."},     {" ?", "?"},          {" !", "!"},     {" ,", ","},       {" ' ", "'"},      {" n't", "n't"},
        {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    size_t to = from;
    for (size_t at = from; at < out->bytes;) {
        size_t used = 0, n = 0;
        for (size_t i = 0; !used && out->text[at] == ' ' && i < sizeof rules / sizeof *rules; i++) {
            const size_t m = strlen(rules[i].from);
            if (m > out->bytes - at || memcmp(out->text + at, rules[i].from, m)) continue;
            used = m;
            n = strlen(rules[i].to);
            memcpy(out->text + to, rules[i].to, n);
        }
        if (!used) out->text[to] = out->text[at], used = n = 1;
        at += used;
        to += n;
    }
    out->bytes = to;
}

/* The first token of a text: without the metaspaces. */
static void put_first(const cr_pipeline *p, uint32_t id, cr_out *out) {
    const cr_decoding *d = &p->decoding;
    size_t n = 0;
    const char *name = cr_words_at(&p->model.words, id, &n);
    for (int64_t i = 0; i < p->n_added; i++) if (p->added[i].id == id) name = p->added[i].text, n = p->added[i].bytes;
    if (!name) { cr_out_put(out, d->blob.text + d->at[id], d->at[id + 1] - d->at[id]); return; }
    const size_t bytes = strlen(d->metaspace);
    for (size_t at = 0; at < n;) {
        const size_t found = cr_literal_find(d->metaspace, bytes, name, n, at);
        cr_out_put(out, name + at, found - at);
        at = found < n ? found + bytes : n;
    }
}

bool cr_pipeline_decode(const cr_pipeline *p, cr_decode_state *state, uint32_t id, cr_out *out) {
    const cr_decoding *d = &p->decoding;
    if (id >= p->size || !d->known[id]) return false;
    const char *s = d->blob.text + d->at[id];
    size_t n = d->at[id + 1] - d->at[id];
    const bool first = !state->count++;
    if (first) *state = (cr_decode_state){.count = 1};
    if (d->joins) {
        const size_t m = strlen(d->prefix);
        const bool continues = m && n >= m && !memcmp(s, d->prefix, m) && !first;
        const size_t from = out->bytes;
        if (continues) { s += m; n -= m; }
        else if (!first) cr_out_put(out, " ", 1);
        cr_out_put(out, s, n);
        if (d->cleanup && !out->failed) clean_spaces(out, from);
        return true;
    }
    if (*d->suffix) {
        const size_t m = strlen(d->suffix);
        const bool ends = n >= m && !memcmp(s + n - m, d->suffix, m);
        if (state->pending) cr_out_put(out, " ", 1);
        cr_out_put(out, s, ends ? n - m : n);
        state->pending = ends;
        return true;
    }
    if (first && *d->metaspace) { put_first(p, id, out); return true; }
    if (*d->strip) {
        const size_t m = strlen(d->strip);
        while (state->stripped < d->strip_most && n >= m && !memcmp(s, d->strip, m)) {
            s += m;
            n -= m;
            state->stripped++;
        }
        if (n) state->stripped = d->strip_most;     /* only at the start of the text */
    }
    cr_out_put(out, s, n);
    return true;
}
