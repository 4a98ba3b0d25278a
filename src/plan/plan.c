/* plan.c - from the recorded list of steps to a plan: the order of the passes, lifetimes; and its description. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/config.h"
#include "../core/out.h"

/* ---- switches: CHAINRULE_PLAN lists passes to leave out, "tile,fuse_update"; "none" leaves out all */
/* Is the name, of n bytes, one of a list with commas? */
static bool listed(const char *text, const char *name, size_t n) {
    for (; text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL)
        if (strcspn(text, ",") == n && !memcmp(text, name, n)) return true;
    return false;
}

static cr_status check_switch(const char *text) {
    for (const char *at = text; at && *at; ) {
        const size_t n = strcspn(at, ",");
        if (!listed(CR_PLAN_PASSES ",none", at, n))
            return cr_fail(CR_BAD_VALUE, "switch_set",
                           "CHAINRULE_PLAN lists passes to leave out, of " CR_PLAN_PASSES ", or is none; not '%.60s'",
                           text);
        at += n + (at[n] == ',');
    }
    return CR_OK;
}
__attribute__((constructor)) static void own_switch(void) { cr_switch_owner("PLAN", check_switch, NULL); }

bool cr_pass_on(const char *name) {
    const char *text = cr_config("PLAN");
    return !text || (!listed(text, name, strlen(name)) && !listed(text, "none", 4));
}

/* ---- order and lifetimes */
static bool sets_params(const cr_step *a, const cr_step *b) {
    return a->kind == CR_STEP_HOST && (b->kind == CR_STEP_HOST || b->update >= 0);
}

bool cr_conflicts(const cr_step *a, const cr_step *b) {
    if (sets_params(a, b) || sets_params(b, a)) return true;
    for (int i = 0; i < a->n_operands; i++)
        for (int k = 0; k < b->n_operands; k++) {
            const cr_operand *x = &a->operands[i], *y = &b->operands[k];
            if (x->buffer == y->buffer && (x->use | y->use) & CR_WRITES && x->low < y->high && y->low < x->high)
                return true;
        }
    return false;
}

bool cr_may_pass(const cr_plan *p, const cr_step *s, const int *skipped, int n) {
    for (int i = 0; i < n; i++)
        if (cr_conflicts(&p->steps[skipped[i]], s)) return false;
    return true;
}

void cr_plan_uses(cr_plan *p) {
    for (int i = 0; i < p->n_buffers; i++) p->buffers[i].first = p->buffers[i].last = -1;
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++) {
            cr_buffer *b = &p->buffers[p->steps[i].operands[k].buffer];
            if (b->first < 0) b->first = i;
            b->last = i;
        }
}

void cr_plan_remove(cr_plan *p, int i) {
    cr_step_free(&p->steps[i]);
    memmove(&p->steps[i], &p->steps[i + 1], sizeof *p->steps * (size_t)(--p->n_steps - i));
    if (i < p->split) p->split--;
}

cr_status cr_plan_insert(cr_plan *p, int i, const cr_step *s) {
    if (!cr_grow(&p->steps, p->n_steps + 1, &p->step_room, sizeof *p->steps))
        return cr_no_memory("plan");
    memmove(&p->steps[i + 1], &p->steps[i], sizeof *p->steps * (size_t)(p->n_steps++ - i));
    p->steps[i] = *s;
    if (i < p->split) p->split++;
    return CR_OK;
}

void cr_operand_redirect(cr_step *s, cr_operand *o, int buffer) {
    cr_storage *const number = (cr_storage *)(intptr_t)(buffer + 1);
    o->buffer = buffer;
    if (o->walk) cr_step_arg(s, o)->storage = number;
    else cr_step_array(s, o)->storage = number;
}

void cr_plan_redirect(cr_plan *p, int from, int old, int new) {
    for (int i = from; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++)
            if (p->steps[i].operands[k].buffer == old) cr_operand_redirect(&p->steps[i], &p->steps[i].operands[k], new);
}

/* ---- from recording to plan */
/* What the runs ask of each step. */
cr_status cr_plan_finish(cr_plan *p) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++) {
            const cr_buffer *b = &p->buffers[p->steps[i].operands[k].buffer];
            const bool own = b->kind == CR_BUFFER_OUTPUT || (b->kind == CR_BUFFER_TEMPORARY && !cr_has_arena(b->dev));
            p->steps[i].begins |= own && (b->first == i || b->last == i);
        }
    for (int i = 0; i < p->n_buffers; i++)
        p->writes_outside |= p->buffers[i].written && (p->buffers[i].kind == CR_BUFFER_OUTSIDE ||
                                                       p->buffers[i].kind == CR_BUFFER_INPUT);
    if (!(p->grad_outputs = calloc((size_t)p->n_outputs + 1, sizeof *p->grad_outputs)))
        return cr_no_memory("plan");
    for (int i = 0, n = 0; i < p->n_outputs; i++)
        if (p->outputs[i].in_graph) p->grad_outputs[n++] = i;
    return cr_plan_index(p);
}

cr_status cr_plan_prepare(cr_plan *p) {
    cr_status status = CR_OK;
    if (p->split == 0 && !p->n_cotangents) p->split = p->n_steps;
    p->recorded = p->n_steps;
    if ((status = cr_plan_find_indices(p)) != CR_OK) return status;
    if (cr_pass_on("dce")) status = cr_pass_dce(p);
    if (status == CR_OK && cr_pass_on("cse")) status = cr_pass_cse(p);
    if (status == CR_OK && cr_pass_on("fold")) status = cr_pass_fold(p);
    if (status == CR_OK && cr_pass_on("fuse_update")) status = cr_pass_fuse_update(p);
    if (status == CR_OK && cr_pass_on("remat")) status = cr_pass_remat(p);
    if (status == CR_OK && cr_pass_on("fuse")) status = cr_pass_fuse(p);
    if (status == CR_OK && cr_pass_on("tile")) status = cr_pass_tile(p);
    if (status == CR_OK) status = cr_pass_arena(p);
    return status == CR_OK ? cr_plan_finish(p) : status;
}

/* What is freed may run a user's code, and come back here. */
void cr_plan_retire(cr_plan *p) {
    if (!p) return;
    p->retired = true;
    while (p->n_callbacks > 0) {
        const cr_callback c = p->callbacks[--p->n_callbacks];
        if (c.done) c.done(c.ctx);
    }
    while (p->n_reads > 0) cr_drop(p->reads[--p->n_reads].tensor);
    while (p->n_leaves > 0) cr_drop(p->leaves[--p->n_leaves].tensor);
    while (p->n_captured > 0) cr_drop(p->captured[--p->n_captured]);
}

void cr_plan_release(cr_plan *p) {
    if (!cr_unref(&p->refs)) return;
    cr_instances_free(p);
    cr_loop_job_release(p->loops);
    cr_plan_retire(p);
    for (int i = 0; i < p->n_steps; i++) cr_step_free(&p->steps[i]);
    for (int i = 0; i < p->n_buffers; i++) {
        const cr_buffer *b = &p->buffers[i];
        if (b->kind == CR_BUFFER_OUTSIDE || b->kind == CR_BUFFER_CONSTANT) cr_storage_release(b->storage);
    }
    for (int i = 0; i < p->n_inputs; i++) cr_storage_release(p->inputs[i].array.storage);
    for (int i = 0; i < p->n_visited; i++) cr_node_release(p->visited[i]);
    for (int i = 0; i < p->n_counters; i++) cr_counter_release(p->counters[i]);
    for (int i = 0; i < p->n_updates; i++) free(p->updates[i].of);
    for (int i = 0; i < p->n_draws; i++) cr_generator_free(p->draws[i].g);
    free(p->steps), free(p->buffers), free(p->inputs), free(p->outputs),
    free(p->leaves), free(p->reads), free(p->visited);
    free(p->draws);
    free(p->callbacks), free(p->updates), free(p->cotangents), free(p->captured);
    free(p->gradients), free(p->ref_start), free(p->refs_of), free(p->args_at), free(p->draw_refs);
    free(p->grad_outputs), free(p->checks), free(p->counters);
    free(p);
}

void cr_plan_free(cr_plan *p) { if (p) cr_plan_release(p); }

void cr_plan_set_params(cr_plan *p, int i, const double *params) {
    if (p && params && i >= 0 && i < p->n_updates && p->updates[i].live)
        memcpy(p->updates[i].of, params, sizeof *params * (size_t)p->updates[i].n);
}

/* ---- what a plan says of itself */
cr_plan_info cr_plan_look(const cr_plan *p) {
    cr_plan_info info = {0};
    if (!p) return info;
    info.recorded = p->recorded;
    info.escaped = p->escaped;
    info.arena = (int64_t)p->arena;
    info.temporaries = (int64_t)p->temporaries;
    for (int i = 0; i < p->n_steps; i++) {
        const cr_group *g = p->steps[i].group;
        info.kernels += g ? g->n : 1;
        info.fused += g ? g->n : 0;
        for (int k = 0; k < (g ? g->n : 1); k++) {
            const cr_step *s = g ? &g->steps[k] : &p->steps[i];
            info.loops += cr_runs_as_loop(s);
            info.flops += cr_step_flops(s);
        }
        info.calls++;
    }
    for (int i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].kind == CR_BUFFER_OUTSIDE || p->buffers[i].kind == CR_BUFFER_CONSTANT)
            info.kept += (int64_t)p->buffers[i].bytes;
    return info;
}

static char *finish_text(cr_out *w, const char *op) {
    if (!w->failed) return w->text;
    cr_out_free(w);
    return cr_no_memory(op), NULL;
}

static const char *short_dtype(cr_dtype dt) {
    static const char *const names[CR_DTYPES] = {"bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64",
                                                 "f16", "bf16", "f32", "f64"};
    return names[dt];
}

static char letter_of(const cr_plan *p, int buffer) {
    static const char letters[] = {[CR_BUFFER_OUTSIDE] = 'p', [CR_BUFFER_CONSTANT] = 'c', [CR_BUFFER_TEMPORARY] = 't',
                                   [CR_BUFFER_INPUT] = 'x', [CR_BUFFER_OUTPUT] = 'y'};
    return letters[p->buffers[buffer].kind];
}

/* "t4 f32(256, 768)": the letter says where it is, the number which one */
static void write_operand(cr_out *w, const cr_plan *p, const cr_step *s, const cr_operand *o) {
    const cr_walk *walk = s->kernel == CR_KERNEL_elementwise ? cr_step_walks(s)->walks : NULL;
    const cr_array *a = o->walk ? NULL : cr_step_array(s, o);
    const cr_dtype dt = o->walk ? cr_step_arg(s, o)->dtype : a->dtype;
    cr_out_format(w, "%c%d %s%s", letter_of(p, o->buffer), o->buffer, short_dtype(dt),
                  a ? cr_shape_text(a->ndim, a->shape).s : walk ? cr_shape_text(walk->ndim, walk->shape).s : "");
}

static const char *kind_of(const cr_step *s) {
    return s->kind == CR_STEP_UPLOAD     ? "upload"
           : s->kind == CR_STEP_TRANSFER ? "transfer"
           : s->kind == CR_STEP_HOST     ? "host"
           : cr_runs_as_loop(s)          ? "loop"
                                         : cr_kernel_name(s->kernel);
}

static void write_step(cr_out *w, const cr_plan *p, const cr_step *s, const char *indent) {
    int64_t bytes = 0;
    cr_out_format(w, "%s%-16s %-24s", indent, kind_of(s), s->name ? s->name : "");
    for (int i = 0; i < s->n_operands; i++) {
        bytes += s->operands[i].high - s->operands[i].low;
        if (i >= 8) continue;
        cr_out_format(w, " %s", s->operands[i].use == CR_READS ? "" : s->operands[i].use == CR_WRITES ? "=" : "+=");
        write_operand(w, p, s, &s->operands[i]);
    }
    const double flops = cr_step_flops(s);
    cr_out_format(w, "%s, %.3g KB", s->n_operands > 8 ? " ..." : "", (double)bytes / 1024);
    cr_out_format(w, flops > 0 ? ", %.4g MFLOP\n" : "\n", flops / 1e6);
}

char *cr_plan_text(const cr_plan *p) {
    if (!p) return cr_fail_null("plan_text", "the plan"), NULL;
    const cr_plan_info info = cr_plan_look(p);
    cr_out w = {0};
    cr_out_format(&w, "%d kernels in %d calls, %d recorded; %.4g MB of memory for temporaries of %.4g MB, %.4g MB from "
                      "outside; %.4g GFLOP\n",
                  info.kernels, info.calls, info.recorded, (double)info.arena / 1e6, (double)info.temporaries / 1e6,
                  (double)info.kept / 1e6, info.flops / 1e9);
    for (int i = 0; i < p->n_steps; i++) {
        const cr_step *s = &p->steps[i];
        if (i == p->split && p->n_cotangents) cr_out_format(&w, "backward\n");
        if (!s->group) { write_step(&w, p, s, "  "); continue; }
        cr_out_format(&w, "  by tiles of %lld of %lld elements:\n", (long long)s->group->tile,
                      (long long)s->group->numel);
        for (int k = 0; k < s->group->n; k++) write_step(&w, p, &s->group->steps[k], "    ");
    }
    return finish_text(&w, "plan_text");
}

/* ---- a picture: a node for each kernel, and for each tensor that none of them has written before it is read */
static void draw_step(cr_out *w, const cr_plan *p, const cr_step *s, int number, int *from) {
    for (int i = 0; i < s->n_operands; i++) {
        const cr_operand *o = &s->operands[i];
        if (!(o->use & CR_READS)) continue;
        if (from[o->buffer] < 0) {
            cr_out_format(w, "  b%d [label=\"", o->buffer);
            write_operand(w, p, s, o);
            cr_out_format(w, "\", color=\"#0072b2\", fillcolor=\"#dcebf6\"];\n  b%d -> k%d;\n", o->buffer, number);
        } else if (from[o->buffer] != number) {
            cr_out_format(w, "  k%d -> k%d;\n", from[o->buffer], number);
        }
    }
    cr_out_format(w, "  k%d [label=\"%s", number, kind_of(s));
    if (s->name && strcmp(s->name, kind_of(s))) cr_out_format(w, "\\n%s", s->name);
    bool result = false;
    for (int i = 0; i < s->n_operands; i++) {
        const cr_operand *o = &s->operands[i];
        if (!(o->use & CR_WRITES)) continue;
        from[o->buffer] = number;
        result |= p->buffers[o->buffer].kind != CR_BUFFER_TEMPORARY;
        if (i >= 8) continue;
        cr_out_format(w, "\\n");
        write_operand(w, p, s, o);
    }
    cr_out_format(w, "\"%s];\n", result ? ", color=\"#d55e00\", fillcolor=\"#fbe6d9\"" : "");
}

char *cr_plan_dot(const cr_plan *p) {
    if (!p) return cr_fail_null("plan_dot", "the plan"), NULL;
    int *from = malloc(sizeof *from * (size_t)(p->n_buffers + 1)), number = 0;
    if (!from) return cr_no_memory("plan_dot"), NULL;
    for (int i = 0; i < p->n_buffers; i++) from[i] = -1;
    cr_out w = {0};
    cr_out_format(&w, "digraph plan {\n  rankdir=LR; nodesep=0.15; ranksep=0.35;\n"
                   "  node [shape=box, style=\"rounded,filled\", fillcolor=white, color=\"#98a2b3\", fontsize=11,\n"
                   "        fontname=\"Helvetica,Arial,sans-serif\", height=0.3, margin=\"0.12,0.06\"];\n"
                   "  edge [color=\"#98a2b3\", arrowsize=0.6];\n");
    for (int i = 0; i < p->n_steps; i++) {
        const cr_group *g = p->steps[i].group;
        if (g) cr_out_format(&w, "  subgraph cluster%d { label=\"by tiles\"; fontsize=11; color=\"#98a2b3\";", number);
        for (int k = 0; g && k < g->n; k++) cr_out_format(&w, " k%d;", number + k);
        if (g) cr_out_format(&w, " }\n");
        for (int k = 0; k < (g ? g->n : 1); k++) draw_step(&w, p, g ? &g->steps[k] : &p->steps[i], number++, from);
    }
    cr_out_format(&w, "}\n");
    free(from);
    return finish_text(&w, "plan_dot");
}
