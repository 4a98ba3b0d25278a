/* jinja.c - runs the nodes of a template (jinja.h), and the public functions cr_template_. */
#include "jinja.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"

struct cr_template { jinja j; jnodes body; const jframe *frame; };

typedef enum flow { ON, BROKEN, CONTINUED } flow;
typedef enum function { F_RANGE, F_DICT, F_NAMESPACE, F_RAISE, F_NOW } function;
static const char *const functions[] = {"range", "dict", "namespace", "raise_exception", "strftime_now"};

static jvalue eval_expression(jinja *j, const jnode *n, jscope *s);
static flow run_nodes(jinja *j, const jnodes *body, jscope *s, jout *o);

/* ---- names */
static jvalue *find_variable(jscope *s, const jtext *name) {
    for (; s; s = s->up)
        for (int i = 0; i < s->n; i++)
            if (cr_j_is(s->at[i].name, name->s)) return &s->at[i].value;
    return NULL;
}

static void set_variable(jinja *j, jscope *s, const jtext *name, jvalue v) {
    jscope own = *s;
    own.up = NULL;
    jvalue *found = find_variable(&own, name);
    if (found) { *found = v; return; }
    int64_t room = s->room;
    if (s->n == s->room) s->at = cr_j_grow(j, s->at, s->n, &room, sizeof *s->at);
    s->room = (int)room;
    s->at[s->n++] = (jnamed){name, v};
}

static void define_as(jinja *j, jscope *s, const char *name, jvalue v) {
    set_variable(j, s, cr_j_text(j, name, strlen(name)), v);
}

static jscope *open_scope(jinja *j, jscope *up, const jframe *frame) {
    jscope *s = cr_j_take(j, sizeof *s);
    s->up = up;
    for (int64_t i = 0; frame && i < frame->n; i++)
        if (frame->at[i].starts_undefined) set_variable(j, s, frame->at[i].name, (jvalue){.kind = J_MISSING});
    return s;
}

static void assign_target(jinja *j, jscope *s, const jnode *to, jvalue v) {
    if (to->kind == N_NAME) { set_variable(j, s, to->text, v); return; }
    if (to->kind == N_PROPERTY) {
        const jvalue *of = find_variable(s, to->text);
        if (!of || of->kind != J_NAMESPACE) cr_j_fail(j, "cannot assign attribute on non-namespace object");
        if (to->name->s[0] == '_') cr_j_fail(j, "an attribute of a namespace may not begin with '_'");
        cr_j_set(j, of->dict, (jvalue){.kind = J_TEXT, .text = to->name}, v);
        return;
    }
    const jlist *l = cr_j_items(j, v);
    if (l->n != to->kids.n)
        cr_j_fail(j, l->n < to->kids.n ? "not enough values to unpack (expected %d, got %lld)"
                                    : "too many values to unpack (expected %d, got %lld)", to->kids.n, (long long)l->n);
    for (int i = 0; i < to->kids.n; i++) assign_target(j, s, to->kids.at[i], l->at[i]);
}

/* ---- calls */
static void add_named(jinja *j, jargs *a, int64_t *room, const jtext *name, jvalue v) {
    for (int i = 0; i < a->n_named; i++)
        if (!strcmp(a->named[i].name->s, name->s)) cr_j_fail(j, "keyword argument repeated: %s", name->s);
    if (a->n_named == *room) a->named = cr_j_grow(j, a->named, a->n_named, room, sizeof *a->named);
    a->named[a->n_named++] = (jnamed){name, v};
}

static jargs eval_arguments(jinja *j, const jnodes *kids, jscope *s) {
    jargs a = {0};
    int64_t room = 0;
    jlist plain = {0};
    for (int i = 0; i < kids->n; i++) {
        const jnode *k = kids->at[i];
        const jvalue v = eval_expression(j, k->a, s);
        if (k->text) add_named(j, &a, &room, k->text, v);
        else if (k->op == '*') {
            const jlist *l = cr_j_items(j, v);
            for (int64_t m = 0; m < l->n; m++) cr_j_append(j, &plain, l->at[m]);
        } else if (k->op == 'p') {
            if (v.kind != J_DICT) cr_j_fail(j, "the argument after ** must be a mapping, not %s", cr_j_type(v));
            for (int64_t m = 0; m < v.dict->n; m++) {
                if (v.dict->at[m].key.kind != J_TEXT) cr_j_fail(j, "keywords must be strings");
                add_named(j, &a, &room, v.dict->at[m].key.text, v.dict->at[m].value);
            }
        } else cr_j_append(j, &plain, v);
    }
    a.at = plain.at;
    a.n = (int)plain.n;
    return a;
}

static jvalue named_argument(const jargs *a, const jtext *name, int *at) {
    for (*at = 0; *at < a->n_named; ++*at)
        if (a->named[*at].name->bytes == name->bytes && !memcmp(a->named[*at].name->s, name->s, name->bytes))
            return a->named[*at].value;
    return (jvalue){.kind = J_MISSING};
}

static jvalue call_macro(jinja *j, const jmacro *m, const jargs *a) {
    const jnode *n = m->node;
    jscope *s = open_scope(j, m->scope, n->frame);
    const int total = n->parameters.n;
    bool *used = cr_j_take(j, (size_t)a->n_named + 1), explicit_caller = false;
    for (int i = 0; i < total; i++) set_variable(j, s, n->parameters.at[i]->text, (jvalue){.kind = J_MISSING});
    for (int i = 0; i < total; i++) {
        const jnode *p = n->parameters.at[i];
        int at = a->n_named;
        jvalue v = i < a->n ? a->at[i] : named_argument(a, p->text, &at);
        if (at < a->n_named) used[at] = true;
        if (v.kind == J_MISSING)
            v = p->a ? eval_expression(j, p->a, s) : cr_j_undefined(j, "parameter '%s' was not provided", p->text->s);
        set_variable(j, s, p->text, v);
        explicit_caller |= !strcmp(p->text->s, "caller");
    }
    if (n->caller && !explicit_caller) {
        int at;
        const jtext *name = cr_j_text(j, "caller", 6);
        jvalue v = named_argument(a, name, &at);
        if (at < a->n_named) used[at] = true;
        set_variable(j, s, name, v.kind == J_MISSING ? cr_j_undefined(j, "No caller defined") : v);
    }
    jvalue more = cr_j_new_dict(j, J_DICT), extra = cr_j_new_list(j, J_TUPLE, 0);
    for (int i = 0; i < a->n_named; i++) {
        if (used[i]) continue;
        if (!n->kwargs) cr_j_fail(j, "macro '%s' takes no keyword argument '%s'", n->text->s, a->named[i].name->s);
        cr_j_set(j, more.dict, (jvalue){.kind = J_TEXT, .text = a->named[i].name}, a->named[i].value);
    }
    if (a->n > total && !n->varargs) cr_j_fail(j, "macro '%s' takes not more than %d argument(s)", n->text->s, total);
    for (int i = total; i < a->n; i++) cr_j_append(j, extra.list, a->at[i]);
    if (n->kwargs) define_as(j, s, "kwargs", more);
    if (n->varargs) define_as(j, s, "varargs", extra);
    jout o = {0};
    run_nodes(j, &n->kids, s, &o);
    return cr_j_out(j, &o);
}

static void loop_over(jinja *j, const jnode *n, jvalue of, jscope *s, jout *o, int depth);

static jvalue call_loop(jinja *j, const jloop *l, const jargs *a) {
    jvalue v[1];
    jout o = {0};
    if (!l->node->recursive) cr_j_fail(j, "The loop must have the 'recursive' marker to be called recursively.");
    cr_j_bind(j, "loop", a, "iterable|", v);
    loop_over(j, l->node, v[0], l->scope, &o, l->depth + 1);
    return cr_j_out(j, &o);
}

static jvalue make_dict(jinja *j, jkind kind, const jargs *a) {
    jvalue made = cr_j_new_dict(j, kind);
    if (a->n > 1) cr_j_fail(j, "dict expected at most 1 argument, got %d", a->n);
    if (a->n && a->at[0].kind == J_DICT)
        for (int64_t i = 0; i < a->at[0].dict->n; i++)
            cr_j_set(j, made.dict, a->at[0].dict->at[i].key, a->at[0].dict->at[i].value);
    else if (a->n) {
        const jlist *l = cr_j_items(j, a->at[0]);
        for (int64_t i = 0; i < l->n; i++) {
            const jlist *pair = cr_j_items(j, l->at[i]);
            if (pair->n != 2) cr_j_fail(j, "a dict is made of pairs");
            cr_j_set(j, made.dict, pair->at[0], pair->at[1]);
        }
    }
    for (int i = 0; i < a->n_named; i++) {
        if (kind == J_NAMESPACE && a->named[i].name->s[0] == '_')
            cr_j_fail(j, "an attribute of a namespace may not begin with '_'");
        cr_j_set(j, made.dict, (jvalue){.kind = J_TEXT, .text = a->named[i].name}, a->named[i].value);
    }
    return made;
}

static jvalue make_range(jinja *j, const jargs *a) {
    if (a->n < 1 || a->n > 3 || a->n_named) cr_j_fail(j, "range expected 1 to 3 arguments");
    int64_t v[3] = {0, 0, 1};
    for (int i = 0; i < a->n; i++) v[a->n == 1 ? 1 : i] = cr_j_index(j, a->at[i], "an argument of range");
    if (!v[2]) cr_j_fail(j, "range() arg 3 must not be zero");
    jvalue made = cr_j_new_list(j, J_RANGE, 0);
    for (int64_t i = v[0]; v[2] > 0 ? i < v[1] : i > v[1];) {
        if (made.list->n == J_RANGE_MOST)
            cr_j_fail(j, "Range too big. The sandbox blocks ranges larger than %d.", J_RANGE_MOST);
        cr_j_append(j, made.list, cr_j_number(i));
        if (__builtin_add_overflow(i, v[2], &i)) break;
    }
    return made;
}

static jvalue now(jinja *j, const jargs *a) {
    jvalue v[1];
    char text[400];
    cr_j_bind(j, "strftime_now", a, "format|", v);
    struct tm parts;
    if (!cr_os_local_time(time(NULL), &parts)) cr_j_fail(j, "there is no local time");
    return cr_j_of_text(j, text, strftime(text, sizeof text, cr_j_str(j, v[0])->s, &parts));
}

jvalue cr_j_call(jinja *j, jvalue f, const jargs *a) {
    if (f.kind == J_METHOD) return cr_j_method(j, f.bound, a);
    if (f.kind == J_MACRO) return call_macro(j, f.macro, a);
    if (f.kind == J_LOOP) return call_loop(j, f.loop, a);
    if (f.kind == J_UNDEFINED) cr_j_fail(j, "%s", f.why);
    if (f.kind != J_FUNCTION) cr_j_fail(j, "'%s' object is not callable", cr_j_type(f));
    switch ((function)f.function) {
        case F_RANGE: return make_range(j, a);
        case F_DICT: return make_dict(j, J_DICT, a);
        case F_NAMESPACE: return make_dict(j, J_NAMESPACE, a);
        case F_NOW: return now(j, a);
        case F_RAISE: break;
    }
    jvalue v[1];
    cr_j_bind(j, "raise_exception", a, "message|", v);
    cr_j_fail(j, "the template refuses these messages: %s", cr_j_str(j, v[0])->s);
}

/* ---- expressions */
static jvalue eval_compare(jinja *j, const jnode *n, jscope *s) {
    jvalue left = eval_expression(j, n->a, s);
    for (int i = 0; i < n->kids.n; i++) {
        const int op = n->kids.at[i]->op;
        const jvalue right = eval_expression(j, n->kids.at[i]->b, s);
        bool good;
        if (op == ('=' << 8 | '=') || op == ('!' << 8 | '=')) good = cr_j_equal(j, left, right) == (op >> 8 == '=');
        else if (op == 'i' || op == 'n') good = cr_j_contains(j, right, left) == (op == 'i');
        else {
            const char first = (char)(op > 255 ? op >> 8 : op), sign[3] = {first, op > 255 ? '=' : 0, 0};
            const int order = cr_j_compare(j, sign, left, right);
            good = (first == '<' ? order < 0 : order > 0) || (op > 255 && !order);
        }
        if (!good) return cr_j_truth(false);
        left = right;
    }
    return cr_j_truth(true);
}

static jvalue eval_container(jinja *j, const jnode *n, jscope *s) {
    if (n->kind == N_DICT) {
        jvalue made = cr_j_new_dict(j, J_DICT);
        for (int i = 0; i < n->kids.n; i += 2) {
            const jvalue key = eval_expression(j, n->kids.at[i], s);
            cr_j_set(j, made.dict, key, eval_expression(j, n->kids.at[i + 1], s));
        }
        return made;
    }
    jvalue made = cr_j_new_list(j, n->kind == N_LIST ? J_LIST : J_TUPLE, n->kids.n);
    for (int i = 0; i < n->kids.n; i++) cr_j_append(j, made.list, eval_expression(j, n->kids.at[i], s));
    return made;
}

static jvalue eval_unary(jinja *j, int op, jvalue v) {
    if (v.kind == J_FLOAT) return (jvalue){.kind = J_FLOAT, .d = op == '-' ? -v.d : v.d};
    return cr_j_binary(j, op, cr_j_number(0), cr_j_number(cr_j_index(j, v, "the operand of a sign")));
}

static jvalue item_of(jinja *j, const jnode *n, jscope *s) {
    const jvalue of = eval_expression(j, n->a, s);
    if (n->b->kind != N_SLICE) return cr_j_get_item(j, of, eval_expression(j, n->b, s));
    const jnode *const parts[] = {n->b->a, n->b->b, n->b->c};
    jvalue v[3] = {0};
    for (int i = 0; i < 3; i++) if (parts[i]) v[i] = eval_expression(j, parts[i], s);
    return cr_j_slice(j, of, v[0], v[1], v[2]);
}

/* A chain of filters; the innermost takes `of` where it has no operand of its own. */
static jvalue eval_filter(jinja *j, const jnode *n, jscope *s, jvalue of) {
    if (!n->a) {
        const jargs a = eval_arguments(j, &n->kids, s);
        return cr_j_filter(j, n->text, of, &a);
    }
    const jvalue v = n->a->kind == N_FILTER ? eval_filter(j, n->a, s, of) : eval_expression(j, n->a, s);
    const jargs a = eval_arguments(j, &n->kids, s);
    j->line = n->line;
    return cr_j_filter(j, n->text, v, &a);
}

static jvalue eval_node(jinja *j, const jnode *n, jscope *s) {
    jvalue v;
    switch (n->kind) {
        case N_CONST: return n->value;
        case N_NAME: {
            const jvalue *found = find_variable(s, n->text);
            return found && found->kind != J_MISSING ? *found : cr_j_undefined(j, "'%s' is undefined", n->text->s);
        }
        case N_LIST: case N_TUPLE: case N_DICT: return eval_container(j, n, s);
        case N_UNARY: return eval_unary(j, n->op, eval_expression(j, n->a, s));
        case N_BINARY:
            v = eval_expression(j, n->a, s);
            return cr_j_binary(j, n->op, v, eval_expression(j, n->b, s));
        case N_COMPARE: return eval_compare(j, n, s);
        case N_AND:
            v = eval_expression(j, n->a, s);
            return cr_j_true(v) ? eval_expression(j, n->b, s) : v;
        case N_OR:
            v = eval_expression(j, n->a, s);
            return cr_j_true(v) ? v : eval_expression(j, n->b, s);
        case N_NOT: return cr_j_truth(!cr_j_true(eval_expression(j, n->a, s)));
        case N_COND:
            if (cr_j_true(eval_expression(j, n->b, s))) return eval_expression(j, n->a, s);
            return n->c ? eval_expression(j, n->c, s)
                        : cr_j_undefined(j, "the inline if-expression is false and has no else");
        case N_CONCAT: {
            jout o = {0};
            for (int i = 0; i < n->kids.n; i++) cr_j_put_value(j, &o, eval_expression(j, n->kids.at[i], s));
            return cr_j_out(j, &o);
        }
        case N_ATTRIBUTE: return cr_j_get_attribute(j, eval_expression(j, n->a, s), n->text);
        case N_ITEM: return item_of(j, n, s);
        case N_CALL: {
            v = eval_expression(j, n->a, s);
            const jargs a = eval_arguments(j, &n->kids, s);
            j->line = n->line;
            return cr_j_call(j, v, &a);
        }
        case N_FILTER: return eval_filter(j, n, s, (jvalue){.kind = J_MISSING});
        case N_TEST: {
            v = eval_expression(j, n->a, s);
            const jargs a = eval_arguments(j, &n->kids, s);
            return cr_j_truth(cr_j_test(j, n->text, v, &a));
        }
        default: cr_j_fail(j, "an expression of an unknown kind");
    }
}

static jvalue eval_expression(jinja *j, const jnode *n, jscope *s) {
    if (++j->depth > J_DEPTH) cr_j_fail(j, "the template calls itself too deeply");
    j->line = n->line;
    const jvalue v = eval_node(j, n, s);
    j->depth--;
    return v;
}

/* ---- statements */
static void loop_over(jinja *j, const jnode *n, jvalue of, jscope *s, jout *o, int depth) {
    const jlist *items = cr_j_items(j, of);
    if (n->c) {                                     /* only the elements that its condition takes */
        jlist *kept = cr_j_new_list(j, J_LIST, 0).list;
        for (int64_t i = 0; i < items->n; i++) {
            jscope *one = open_scope(j, s, NULL);
            assign_target(j, one, n->a, items->at[i]);
            if (cr_j_true(eval_expression(j, n->c, one))) cr_j_append(j, kept, items->at[i]);
        }
        items = kept;
    }
    if (!items->n) {
        run_nodes(j, &n->orelse, open_scope(j, s, n->orelse_frame), o);
        return;
    }
    jloop *l = cr_j_take(j, sizeof *l);
    *l = (jloop){.node = n, .scope = s, .items = items, .depth = depth};
    for (; l->index < items->n; l->index++) {
        jscope *one = open_scope(j, s, n->frame);
        define_as(j, one, "loop", (jvalue){.kind = J_LOOP, .loop = l});
        assign_target(j, one, n->a, items->at[l->index]);
        if (run_nodes(j, &n->kids, one, o) == BROKEN) break;
    }
}

static jvalue macro_of(jinja *j, const jnode *n, jscope *s) {
    jmacro *m = cr_j_take(j, sizeof *m);
    *m = (jmacro){n, s};
    return (jvalue){.kind = J_MACRO, .macro = m};
}

static void call_block(jinja *j, const jnode *n, jscope *s, jout *o) {
    const jvalue f = eval_expression(j, n->a->a, s);
    jargs a = eval_arguments(j, &n->a->kids, s);
    int64_t room = a.n_named;
    add_named(j, &a, &room, cr_j_text(j, "caller", 6), macro_of(j, n->b, s));
    cr_j_put_value(j, o, cr_j_call(j, f, &a));
}

static void mark_generation(jinja *j, int64_t at) {
    if (j->n_marks == j->marks_room) j->marks = cr_j_grow(j, j->marks, j->n_marks, &j->marks_room, sizeof *j->marks);
    j->marks[j->n_marks++] = at;
}

static void render_generation(jinja *j, const jnode *n, jscope *s, jout *o) {
    jout text = {0};
    run_nodes(j, &n->kids, open_scope(j, s, n->frame), &text);
    mark_generation(j, (int64_t)j->root->bytes);
    mark_generation(j, (int64_t)(j->root->bytes + text.bytes));
    cr_j_put(j, o, text.s, text.bytes);
}

static flow run_node(jinja *j, const jnode *n, jscope *s, jout *o) {
    jout text = {0};
    jvalue v;
    switch (n->kind) {
        case N_DATA: cr_j_put(j, o, n->text->s, n->text->bytes); break;
        case N_PRINT: cr_j_put_value(j, o, eval_expression(j, n->a, s)); break;
        case N_FOR: loop_over(j, n, eval_expression(j, n->b, s), s, o, 0); break;
        case N_IF: return run_nodes(j, cr_j_true(eval_expression(j, n->a, s)) ? &n->kids : &n->orelse, s, o);
        case N_SET: assign_target(j, s, n->a, eval_expression(j, n->b, s)); break;
        case N_SET_BLOCK:
            run_nodes(j, &n->kids, open_scope(j, s, n->frame), &text);
            v = cr_j_out(j, &text);
            assign_target(j, s, n->a, n->b ? eval_filter(j, n->b, s, v) : v);
            break;
        case N_MACRO: set_variable(j, s, n->text, macro_of(j, n, s)); break;
        case N_CALL_BLOCK: call_block(j, n, s, o); break;
        case N_FILTER_BLOCK:
            run_nodes(j, &n->kids, open_scope(j, s, n->frame), &text);
            v = eval_filter(j, n->b, s, cr_j_out(j, &text));
            if (v.kind != J_TEXT) cr_j_fail(j, "a filtered block must be str, not %s", cr_j_type(v));
            cr_j_put_value(j, o, v);
            break;
        case N_WITH: {
            jscope *one = open_scope(j, s, n->frame);
            for (int i = 0; i < n->parameters.n; i++)
                assign_target(j, one, n->parameters.at[i]->a, eval_expression(j, n->parameters.at[i]->b, s));
            return run_nodes(j, &n->kids, one, o);
        }
        case N_GENERATION: render_generation(j, n, s, o); break;
        case N_BREAK: return BROKEN;
        case N_CONTINUE: return CONTINUED;
        default: cr_j_fail(j, "a statement of an unknown kind");
    }
    return ON;
}

static flow run_nodes(jinja *j, const jnodes *body, jscope *s, jout *o) {
    flow f = ON;
    if (++j->depth > J_DEPTH) cr_j_fail(j, "the template calls itself too deeply");
    for (int i = 0; i < body->n && f == ON; i++) {
        j->line = body->at[i]->line;
        f = run_node(j, body->at[i], s, o);
    }
    j->depth--;
    return f;
}

/* ---- public */
cr_template *cr_template_new(const char *text, size_t bytes) {
    if (!text) return cr_fail_null("chat_template", "the text"), NULL;
    cr_template *t = calloc(1, sizeof *t);
    if (!t) return cr_no_memory("chat_template"), NULL;
    if (setjmp(t->j.failed)) {
        cr_fail(CR_BAD_VALUE, "chat_template", "%s", t->j.message);
        cr_template_free(t);
        return NULL;
    }
    t->body = cr_j_parse(&t->j, text, bytes, &t->frame);
    return t;
}

void cr_template_free(cr_template *t) {
    if (!t) return;
    cr_j_free(&t->j);
    free(t);
}

static void render_template(jinja *j, const cr_template *t, int n, const cr_json *const variables[], jout *o) {
    jscope *globals = open_scope(j, NULL, NULL);
    for (int i = 0; i < (int)(sizeof functions / sizeof *functions); i++)
        define_as(j, globals, functions[i], (jvalue){.kind = J_FUNCTION, .function = i});
    jscope *given = open_scope(j, globals, NULL);
    for (int i = 0; i < n; i++)
        for (const cr_json *v = variables[i]->first; v; v = v->next)
            set_variable(j, given, cr_j_text(j, v->key, v->key_bytes), cr_j_of_json(j, v));
    j->root = o;
    run_nodes(j, &t->body, open_scope(j, given, t->frame), o);
}

/* The text and its marks, owned; NULL: no memory. */
static char *copy_output(const jinja *j, const jout *o, cr_marks *marks) {
    char *text = malloc(o->bytes + 1);
    int64_t *at = j->n_marks ? malloc((size_t)j->n_marks * sizeof *at) : NULL;
    if (!text || (j->n_marks && !at)) {
        free(text);
        free(at);
        return NULL;
    }
    if (o->bytes) memcpy(text, o->s, o->bytes);
    text[o->bytes] = 0;
    if (at) memcpy(at, j->marks, (size_t)j->n_marks * sizeof *at);
    if (marks) *marks = (cr_marks){.bytes = o->bytes, .n = j->n_marks / 2, .at = at};
    else free(at);
    return text;
}

static void end_render(jinja *j) {
    cr_j_free(j);
    free(j);
}

char *cr_template_render_json(const cr_template *t, int n, const cr_json *const variables[], cr_marks *marks) {
    static const char op[] = "chat_template";
    jinja *j = calloc(1, sizeof *j);
    if (!j) return cr_no_memory(op), NULL;
    if (setjmp(j->failed)) {
        cr_fail(CR_BAD_VALUE, op, "%s", j->message);
        end_render(j);
        return NULL;
    }
    jout o = {0};
    render_template(j, t, n, variables, &o);
    char *text = copy_output(j, &o, marks);
    if (!text) cr_no_memory(op);
    end_render(j);
    return text;
}

char *cr_template_render(const cr_template *t, const char *variables, size_t bytes, cr_marks *marks) {
    static const char op[] = "chat_template";
    if (marks) *marks = (cr_marks){0};
    if (!t || !variables) return cr_fail_null(op, t ? "the variables" : "the template"), NULL;
    cr_json *root = cr_json_parse(op, "the variables", variables, bytes);
    if (!root) return NULL;
    char *text = NULL;
    if (root->kind != CR_JSON_OBJECT) cr_fail(CR_BAD_VALUE, op, "the variables must be a JSON object");
    else text = cr_template_render_json(t, 1, (const cr_json *const[]){root}, marks);
    cr_json_free(root);
    return text;
}
