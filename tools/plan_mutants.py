"""Mistakes in the passes of plans (src/plan), each of which a test must notice.  tools/mutate.py builds and runs them.

In `text` the expression between « and » becomes `other`.  The text must stand once in the file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanMutant:
    kind: str  # the pass, or another part
    path: str
    text: str
    other: str
    tests: str  # of tests/test_plan.c, or of the program that the first word names; without more, all of it


PLAN, DCE, ARENA = "src/plan/plan.c", "src/plan/dce.c", "src/plan/arena.c"
CSE, FOLD, FUSE_UPDATE = "src/plan/cse.c", "src/plan/fold.c", "src/plan/fuse_update.c"
REMAT, FUSE, TILE, JIT = "src/plan/remat.c", "src/plan/fuse.c", "src/plan/tile.c", "src/dev/cpu/compile.c"
GRAPH, KERNELS, INDICES = "src/plan/graph.c", "src/dev/kernels.def", "src/plan/indices.c"
RECORD, RUN = "src/plan/record.c", "src/plan/run.c"
PLAN_MUTANTS = [
    # the recording
    PlanMutant("record", RECORD, "if («i >= 0 || dst->born != r->id»)", "i >= 0", "test_plan_passes written_outside"),
    PlanMutant("record", RECORD, ".high = (int64_t)(«at + bytes»)});", "bytes", "test_plan_passes written_outside"),
    PlanMutant("record", RECORD, ": «src->born == mine->id») return CR_OK;", "true", "refused"),
    PlanMutant("record", RECORD, "p->split += «r->n_first»;", "0", "test_plan_passes changed_numbers"),
    PlanMutant("record", RECORD, "for (int i = «w->n»; i < n; i++) {\n        cr_count_write", "n", "host_steps"),
    PlanMutant(
        "record",
        RECORD,
        "for (int i = 0; «r->tries_backward» && i < s->n_operands",
        "false",
        "test_plan_passes backward_pass_that_writes_outside",
    ),
    PlanMutant("record", RECORD, "«whole.low <= o->low && o->high <= whole.high»;", "true", "test_plan_passes beside"),
    # a run
    PlanMutant(
        "run", RUN, "if («!cr_same_layout(&p->inputs[i].array, &in[i]->array)»)", "false", "test_plan_passes do_not_fit"
    ),
    PlanMutant(
        "run", RUN, "&& «b->last >= p->split»;", "b->last > p->split", "test_plan_passes input_read_again_backwards"
    ),
    PlanMutant("run", RUN, "results[«i»]);", "0", "host_steps"),
    PlanMutant("run", RUN, "if («!inner») status = check_kernel", "true", "anomalies_of_replays"),
    # kernels whose results nothing reads
    PlanMutant("dce", DCE, "needed[s->operands[k].buffer] |= «s->operands[k].use & CR_READS»", "0", "training"),
    PlanMutant(
        "dce",
        DCE,
        "needed[i] = «p->buffers[i].kind != CR_BUFFER_TEMPORARY»",
        "p->buffers[i].kind == CR_BUFFER_OUTPUT",
        "training",
    ),
    PlanMutant("dce", DCE, "bool keep = «s->kind == CR_STEP_HOST» ||", "false", "clipping host_steps"),
    PlanMutant("dce", DCE, "== CR_STEP_HOST || «s->may_fail»;", "false", "test_plan_passes bad_indices"),
    PlanMutant("dce", INDICES, "(i < c->low || «i >= c->size»)", "false", "test_plan_passes bad_indices"),
    PlanMutant("dce", DCE, "split -= «i < p->split»;", "0", "test_plan_passes dead_kernels"),
    PlanMutant("dce", DCE, "if («!keep») {", "false", "test_plan_passes dead_kernels"),
    # kernels that compute what another one has
    PlanMutant("cse", CSE, "return «changed_between(p, j, i)» ||", "false", "common"),
    PlanMutant("cse", CSE, "|| «kept_long(p, j, i)» ?", "false", "common_far"),
    PlanMutant("cse", CSE, "!«memcmp(x->of, y->of, sizeof *x->of * (size_t)x->n)»", "0", "common"),
    PlanMutant("cse", CSE, "«!written_once(p, s->operands[i].buffer, writers)»", "false", "common"),
    PlanMutant("cse", CSE, "a->dtype == b->dtype && «a->offset == b->offset»", "true", "common"),
    PlanMutant("cse", CSE, "!«memcmp(a->strides, b->strides, sizeof *a->strides * (size_t)w->ndim)»", "0", "common"),
    PlanMutant("cse", CSE, "const bool same = x && y && !«memcmp(x, y, a->bytes)»", "0", "common"),
    PlanMutant("cse", CSE, "(x->use == CR_READS && «x->buffer != y->buffer»)", "false", "common"),
    PlanMutant("cse", CSE, "if («a->program != b->program» ||", "false", "common"),
    PlanMutant("cse", CSE, "if («memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim)»)", "0", "common"),
    PlanMutant("cse", CSE, "x->buffer == y->buffer && «x->low < y->high»", "x->low <= y->low", "common"),
    PlanMutant("cse", CSE, "if («cr_live_params(p, s)»)", "false", "changing_params"),
    PlanMutant(
        "cse",
        CSE,
        "= «i >= p->split && p->n_cotangents ? p->split : 0»;",
        "0",
        "test_plan_passes input_read_again_backwards",
    ),
    # kernels that run once
    PlanMutant("fold", FOLD, "return kind && «s->draw < 0» &&", "true", "fold"),
    PlanMutant("fold", FOLD, "s->draw < 0 && «!cr_live_params(p, s)»;", "true", "fold changing_params"),
    PlanMutant("fold", FOLD, "const bool late = «f->read[o->buffer]» ||", "false", "fold"),
    PlanMutant("fold", FOLD, "return «bytes <= MOST»;", "true", "fold"),
    PlanMutant(
        "fold",
        FOLD,
        "!f->buffer[b] && «f->p->buffers[b].kind != CR_BUFFER_CONSTANT»",
        "f->p->buffers[b].kind != CR_BUFFER_CONSTANT && f->p->buffers[b].kind != CR_BUFFER_OUTSIDE",
        "test_plan_passes tensor_from_outside",
    ),
    PlanMutant(
        "fold",
        FOLD,
        "f->buffer[i] = «p->buffers[i].kind == CR_BUFFER_TEMPORARY» &&",
        "(p->buffers[i].kind == CR_BUFFER_TEMPORARY || p->buffers[i].kind == CR_BUFFER_OUTPUT)",
        "fold",
    ),
    # an optimizer's update in the product that makes the gradient, or right behind the gradient
    PlanMutant(
        "fuse_update",
        FUSE_UPDATE,
        "if («cr_conflicts(walk, &p->steps[k])») at = k;",
        "false",
        "update_waits_for_readers",
    ),
    PlanMutant(
        "fuse_update", FUSE_UPDATE, "if («cr_conflicts(product, &p->steps[k])»)", "false", "update_waits_for_readers"
    ),
    PlanMutant(
        "fuse_update",
        FUSE_UPDATE,
        "if («cr_conflicts(&own, &p->steps[k])») at = k + 1;",
        "false",
        "updates_behind_gradients",
    ),
    PlanMutant("fuse_update", FUSE_UPDATE, "joint.update = «u->update»;", "-1", "test_plan_passes host_before_update"),
    PlanMutant("fuse_update", FUSE_UPDATE, "own.update = «u->update»;", "-1", "test_plan_passes host_before_update"),
    PlanMutant(
        "fuse_update",
        FUSE_UPDATE,
        "if (k < i || «found >= 0») return -1;",
        "false",
        "test_plan_passes gradient_read_twice",
    ),
    # values computed again
    PlanMutant("remat", REMAT, "if («overwritten(p, &s->operands[o], i + 1, to)»)", "false", "values_that_change"),
    PlanMutant("remat", REMAT, "if («!there») return false;", "false", "values_that_change"),
    PlanMutant("remat", REMAT, "«written_by_another(p, i, buffer)» ||", "false", "values_that_change"),
    PlanMutant("remat", REMAT, "cr_plan_redirect(p, «at + 1», buffer, twin)", "p->n_steps", "values_again"),
    PlanMutant("remat", REMAT, "if («k - last > CR_FAR») return k;", "false", "values_again"),
    # elementwise chains
    PlanMutant("fuse", FUSE, "|| «!may_write(&next, &at)») return false;", "false", "tiles"),
    PlanMutant("fuse", FUSE, "*ok &= «!clash»;", "true", "tiles"),
    PlanMutant("fuse", FUSE, "&& «c->total[b] == inside»;", "true", "tiles"),
    PlanMutant(
        "fuse",
        FUSE,
        "return «c->p->buffers[b].kind == CR_BUFFER_TEMPORARY» &&",
        "c->p->buffers[b].kind != CR_BUFFER_OUTPUT",
        "test_plan_passes written_outside",
    ),
    PlanMutant("fuse", FUSE, "if («at->dtype == c->compute») return v;", "true", "tiles"),
    PlanMutant("fuse", FUSE, "«cr_may_pass(p, &p->steps[i], skipped, n_skipped)» && join_step(c, i)", "true", "tiles"),
    PlanMutant("fuse", FUSE, "w->numel < LEAST) || «cr_live_params(p, s)»)", "false", "changing_params"),
    PlanMutant("fuse", FUSE, "if (!«memcmp(&c->consts[i], &k, sizeof k)»)", "(c->consts[i] != k)", "tiles"),
    PlanMutant("fuse", FUSE, "|| «a->offset != b->offset») return false;", "false", "tiles"),
    PlanMutant("fuse", FUSE, "w->ndim == c->ndim || «w->ndim == 1») return;", "true", "tiles"),
    PlanMutant(
        "fuse",
        FUSE,
        "if (s->op == CR_OP_SUB && k) «a = instruction(c, CR_OP_NEG, a, NONE, NONE)»;",
        "other = instruction(c, CR_OP_NEG, other, NONE, NONE)",
        "test_cuda_plan chain",
    ),
    # loops of the system's compiler
    PlanMutant(
        "jit",
        JIT,
        "const float rounded = «(float)p->consts[k]»;",
        "(float)(1.5 * p->consts[k])",
        "test_plan_ops loops",
    ),
    PlanMutant("jit", JIT, "const bool minus = «s->op == CR_OP_SUB»;", "false", "test_plan_ops loops"),
    PlanMutant("jit", JIT, 'if («held >> k & 1») cr_out_format(t, "const vec', "0", "tiles"),
    # groups by tiles
    PlanMutant("tile", TILE, "& CR_WRITES && «!in_step(t, &c->of[m].rows, i, s, r, k)»)", "false", "tiles"),
    PlanMutant("tile", TILE, "«u[buffer].inside == u[buffer].total» &&", "true", "tiles"),
    PlanMutant("tile", TILE, "«cr_may_pass(p, s, skipped, n_skipped)») {", "true", "tiles"),
    PlanMutant("tile", TILE, "&& «!u[buffer].parts» &&", "true", "tiles"),
    PlanMutant("tile", TILE, "&& «!s->operands[k].whole»;", "true", "tiles"),
    PlanMutant("tile", KERNELS, "«a->y.dtype == CR_F64 ? 2 : 4»", "1", "tiles"),
    PlanMutant("tile", TILE, "+ «(uint64_t)(t / unit)»;", "0", "tiles"),
    PlanMutant("tile", TILE, "r->each[k] = «all ? unit : 0»;", "0", "tiles"),
    PlanMutant("tile", TILE, "split = «n»;", "p->split", "test_plan_passes update_before_graph"),
    # what a call reads and writes
    PlanMutant("roles", KERNELS, "OUT_OR_IN(x, «a->kind == CR_CONV_INPUT»)", "0", "test_plan_ops"),
    # kernels launched as one
    PlanMutant("graph", GRAPH, "fresh = «now.fresh != all->before.fresh» ||", "false", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "|| «new_in_each_run(p, s)»;", "false", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "FRESH : «has_movable(p, s)» ?", "false", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "if (i > s->from && «kinds[i] == kinds[i - 1]»)", "true", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "changed |= «now != a->address[i]»;", "false", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "+ «(uint64_t)x->moved[b]»;", "0", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "|| «s->parts[i].kind == FRESH»;", "false", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "if («status != CR_OK») forget_addresses(s);", "false", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "|| «!was_watched(all, from, to)»)", "false", "test_cuda_graph"),
    PlanMutant("graph", GRAPH, "if («p->steps[i].begins»)", "false", "test_cuda_graph"),
    # the arena
    PlanMutant("arena", ARENA, "return «a->first <= b->last» &&", "a->first < b->last", "training"),
    PlanMutant("arena", ARENA, "&& «b->first <= a->last»; }", "b->first < a->last", "training"),
    PlanMutant("arena", ARENA, "if («at + rounded(b) <= o->at») break;", "at <= o->at", "training"),
    PlanMutant("arena", PLAN, "b->last = «i»;", "b->first", "training"),
    PlanMutant(
        "arena",
        ARENA,
        "b->at = «share ? lowest_offset(p, placed, i, b) : p->temporaries»;",
        "p->temporaries",
        "test_plan_passes shared_memory",
    ),
]
