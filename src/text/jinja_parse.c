/* jinja_parse.c - the text of a template to nodes: tokens first, then recursive descent.  Grammar and white space
 * are those of Jinja 3.1 with trim_blocks and lstrip_blocks. */
#include "jinja.h"

#include <stdlib.h>
#include <string.h>

#include "../core/utf8.h"

typedef enum token_kind {
    T_DATA, T_BLOCK, T_BLOCK_END, T_PRINT, T_PRINT_END, T_NAME, T_STRING, T_NUMBER, T_SIGN, T_END
} token_kind;
typedef struct token { token_kind kind; int line, sign; const jtext *text; jvalue value; } token;

typedef struct parser {
    jinja *j;
    const char *s; size_t n, at;                    /* the source */
    int line;
    bool line_starts;                               /* nothing but white space since the last line's end */
    token *tokens; int64_t n_tokens, room;
    int64_t next;                                   /* the token that is looked at */
    int depth, loops, branches;                     /* branches: of `if`, in this frame */
    jnode *macro;                                   /* the innermost one that is read */
    bool in_target;                                 /* names are set, not read */
    jframe *frame, *frames;                         /* the innermost one; all */
} parser;

#define SIGN(a, b) ((a) << 8 | (b))

_Noreturn static void fail(parser *p, const char *what) {
    p->j->line = p->next < p->n_tokens ? p->tokens[p->next].line : p->line;
    cr_j_fail(p->j, "%s", what);
}

/* ---- tokens */
static token *add_token(parser *p, token_kind kind) {
    if (p->n_tokens == p->room) p->tokens = cr_j_grow(p->j, p->tokens, p->n_tokens, &p->room, sizeof *p->tokens);
    token *t = &p->tokens[p->n_tokens++];
    *t = (token){.kind = kind, .line = p->line};
    return t;
}

static void pass_text(parser *p, size_t to) {            /* counts lines */
    for (; p->at < to; p->at++) p->line += p->s[p->at] == '\n';
}

/* Where white space that begins here ends. */
static size_t skip_space(const parser *p, size_t at) {
    uint32_t c;
    for (size_t step; at < p->n; at += step) {
        step = cr_j_code(p->s + at, p->n - at, &c);
        if (!cr_j_space(c)) break;
    }
    return at;
}

/* Where white space in front of `to` begins, not before `from`. */
static size_t strip_end(const parser *p, size_t from, size_t to) {
    while (to > from) {
        size_t at = to - 1;
        uint32_t c;
        while (at > from && ((unsigned char)p->s[at] & 0xC0) == 0x80) at--;
        cr_j_code(p->s + at, to - at, &c);
        if (!cr_j_space(c)) break;
        to = at;
    }
    return to;
}

static bool looks_at(const parser *p, size_t at, const char *sign) {
    const size_t n = strlen(sign);
    return at + n <= p->n && !memcmp(p->s + at, sign, n);
}

/* The end of a tag's closing at `at`: its sign ("%}"), with '-' and the white space behind, with '+', or the end of
 * the line where trim says so; 0: it is not there. */
static size_t find_closing(const parser *p, size_t at, const char *sign, bool trim) {
    const char c = at < p->n ? p->s[at] : 0;
    const size_t end = at + (c == '-' || c == '+') + 2;
    if (!looks_at(p, end - 2, sign) || (c == '+' && !trim)) return 0;
    if (c == '-') return skip_space(p, end);
    return end + (trim && c != '+' && end < p->n && p->s[end] == '\n');
}

/* Behind "{%" and its '-' or '+'. */
static size_t behind_sign(const parser *p, size_t at) {
    at += 2;
    return at + (at < p->n && (p->s[at] == '-' || p->s[at] == '+'));
}

/* {% word %} at `at`: where it ends, 0: it is not there.  raw's own end is trimmed by '-' only. */
static size_t word_tag(const parser *p, size_t at, const char *word, bool trim) {
    if (!looks_at(p, at, "{%")) return 0;
    at = skip_space(p, behind_sign(p, at));
    if (!looks_at(p, at, word)) return 0;
    return find_closing(p, skip_space(p, at + strlen(word)), "%}", trim);
}

/* Text up to a tag at `to` whose sign stands at `to + 2`. */
static void add_data(parser *p, size_t to, bool print) {
    const char sign = to + 2 < p->n ? p->s[to + 2] : 0;
    size_t end = to;
    if (sign == '-') end = strip_end(p, p->at, to);
    else if (sign != '+' && !print) {
        size_t line = to;
        while (line > p->at && p->s[line - 1] != '\n') line--;
        if ((line > p->at || p->line_starts) && strip_end(p, line, to) == line) end = line;
    }
    if (end > p->at) add_token(p, T_DATA)->text = cr_j_text(p->j, p->s + p->at, end - p->at);
    pass_text(p, to);
}

static void skip_behind(parser *p, size_t end) {
    pass_text(p, end);
    p->line_starts = end && p->s[end - 1] == '\n';
}

static bool name_starts(uint32_t c) { return c == '_' || c >= 0x80 || (c | 32) - 'a' < 26; }

static void read_string(parser *p) {
    const char quote = p->s[p->at];
    size_t end = p->at + 1;
    while (end < p->n && p->s[end] != quote) end += p->s[end] == '\\' ? 2 : 1;
    if (end >= p->n) fail(p, "a text has no end");
    token *t = add_token(p, T_STRING);
    jout o = {0};
    for (size_t i = p->at + 1; i < end; i++) {
        static const char plain[] = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\"";
        const char c = p->s[i], e = c == '\\' ? p->s[i + 1] : 0;
        if (!e) { cr_j_put(p->j, &o, &c, 1); continue; }
        i++;
        const char *found = NULL;
        for (const char *k = plain; *k && !found; k += 2) if (*k == e) found = k + 1;
        if (found) { cr_j_put(p->j, &o, found, 1); continue; }
        if (e == '\n') continue;
        const int digits = e == 'x' ? 2 : e == 'u' ? 4 : e == 'U' ? 8 : 0;
        if (e == 'N') fail(p, "\\N{...} in a text is not supported");
        uint32_t code = 0;
        if (digits || (e >= '0' && e <= '7')) {
            const int base = digits ? 16 : 8, most = digits ? digits : 3;
            int got = 0;
            for (size_t k = digits ? i + 1 : i; got < most && k < end; k++, got++) {
                const char d = p->s[k] | 32;
                const int v = cr_j_digit(p->s[k]) ? p->s[k] - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : 99;
                if (v >= base) break;
                code = code * (uint32_t)base + (uint32_t)v;
            }
            if (digits && got < digits) fail(p, "an escape in a text is cut off");
            if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail(p, "an escape is not a character");
            i += (size_t)(digits ? got : got - 1);
            char utf8[4];
            cr_j_put(p->j, &o, utf8, (size_t)cr_utf8_encode(code, utf8));
        } else cr_j_put(p->j, &o, p->s + i - 1, 2);    /* an unknown escape stays */
    }
    t->text = cr_j_text(p->j, o.s, o.bytes);
    pass_text(p, end + 1);
}

/* Digits with single underscores between them, from `at`. */
static size_t digits_end(const parser *p, size_t at) {
    while (at < p->n && (cr_j_digit(p->s[at]) ||
                         (p->s[at] == '_' && at + 1 < p->n && cr_j_digit(p->s[at + 1]) && p->s[at - 1] != '_')))
        at++;
    return at;
}

static void read_number(parser *p) {
    const size_t from = p->at;
    size_t end = digits_end(p, from);
    bool real = false;
    if ((!from || p->s[from - 1] != '.') && end + 1 < p->n) {
        size_t e = end;
        if (p->s[e] == '.' && cr_j_digit(p->s[e + 1])) e = digits_end(p, e + 1), real = true;
        if (e < p->n && (p->s[e] | 32) == 'e') {
            size_t d = e + 1;
            if (d < p->n && (p->s[d] == '+' || p->s[d] == '-')) d++;
            if (d < p->n && cr_j_digit(p->s[d])) e = digits_end(p, d), real = true;
        }
        if (real) end = e;
    }
    const char second = from + 1 < p->n ? p->s[from + 1] | 32 : 0;
    if (p->s[from] == '0' && (second == 'x' || second == 'o' || second == 'b'))
        fail(p, "numbers are decimal in templates of chats");
    char digit[64];
    size_t n = 0;
    for (size_t i = from; i < end; i++) {
        if (n + 1 == sizeof digit) fail(p, "a number has too many digits");
        if (p->s[i] != '_') digit[n++] = p->s[i];
    }
    digit[n] = 0;
    token *t = add_token(p, T_NUMBER);
    if (real) t->value = (jvalue){.kind = J_FLOAT, .d = strtod(digit, NULL)};
    else {
        if (n > 18) fail(p, "an integer is too large");
        t->value = cr_j_number(strtoll(digit, NULL, 10));
    }
    pass_text(p, end);
}

/* The tokens of a tag, up to its closing sign. */
static void read_tag(parser *p, const char *sign, token_kind end) {
    char open[J_DEPTH];
    int n_open = 0;
    for (;;) {
        pass_text(p, skip_space(p, p->at));
        if (p->at >= p->n) fail(p, "a tag has no end");
        const size_t closed = n_open ? 0 : find_closing(p, p->at, sign, end == T_BLOCK_END);
        if (closed) {
            add_token(p, end);
            skip_behind(p, closed);
            return;
        }
        const char c = p->s[p->at];
        uint32_t code;
        cr_j_code(p->s + p->at, p->n - p->at, &code);
        if (cr_j_digit(c)) read_number(p);
        else if (c == '\'' || c == '"') read_string(p);
        else if (name_starts(code)) {
            size_t to = p->at;
            while (to < p->n && (name_starts((unsigned char)p->s[to]) || cr_j_digit(p->s[to]))) to++;
            add_token(p, T_NAME)->text = cr_j_text(p->j, p->s + p->at, to - p->at);
            pass_text(p, to);
        } else {
            static const char twos[][3] = {"//", "**", "==", "!=", ">=", "<="};
            int length = 0;
            for (int i = 0; i < 6 && !length; i++) if (looks_at(p, p->at, twos[i])) length = 2;
            if (!length && c && strchr("+-*/%~[](){}><=.:|,;", c)) length = 1;
            if (!length) fail(p, "a character that cannot be part of an expression");
            if (strchr("([{", c)) {
                if (n_open == J_DEPTH) fail(p, "brackets are nested too deeply");
                open[n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
            } else if (strchr(")]}", c) && (!n_open || open[--n_open] != c)) fail(p, "a bracket closes nothing");
            add_token(p, T_SIGN)->sign = length == 2 ? SIGN(c, p->s[p->at + 1]) : c;
            pass_text(p, p->at + (size_t)length);
        }
    }
}

static void read_tokens(parser *p) {
    p->line_starts = true;
    while (p->at < p->n) {
        size_t to = p->at;
        while (to + 1 < p->n && !(p->s[to] == '{' && strchr("%{#", p->s[to + 1]) && p->s[to + 1])) to++;
        if (to + 1 >= p->n) {
            add_token(p, T_DATA)->text = cr_j_text(p->j, p->s + p->at, p->n - p->at);
            break;
        }
        const char c = p->s[to + 1];
        const size_t raw = word_tag(p, to, "raw", false);
        add_data(p, to, c == '{');
        if (raw) {
            skip_behind(p, raw);
            size_t end = 0;
            for (to = p->at; to < p->n && !(end = word_tag(p, to, "endraw", true)); to++) {}
            if (!end) fail(p, "{% raw %} has no end");
            add_data(p, to, false);
            skip_behind(p, end);
        } else if (c == '#') {
            size_t end = 0;
            for (to = behind_sign(p, to); to < p->n && !(end = find_closing(p, to, "#}", true)); to++) {}
            if (!end) fail(p, "a comment has no end");
            skip_behind(p, end);
        } else {
            add_token(p, c == '%' ? T_BLOCK : T_PRINT);
            pass_text(p, behind_sign(p, to));
            read_tag(p, c == '%' ? "%}" : "}}", c == '%' ? T_BLOCK_END : T_PRINT_END);
        }
    }
    add_token(p, T_END);
}

/* ---- the parser's eyes */
static const token *next_token(const parser *p) { return &p->tokens[p->next]; }

static bool is_name(const token *t, const char *name) {
    return t->kind == T_NAME && t->text->bytes == strlen(name) && !memcmp(t->text->s, name, t->text->bytes);
}

static bool is_sign(const parser *p, int sign) { return next_token(p)->kind == T_SIGN && next_token(p)->sign == sign; }

static bool skip_name(parser *p, const char *name) {
    const bool found = is_name(next_token(p), name);
    p->next += found;
    return found;
}

static bool skip_sign(parser *p, int sign) {
    const bool found = is_sign(p, sign);
    p->next += found;
    return found;
}

static void expect_sign(parser *p, int sign) {
    char what[40] = "'?' is missing";
    what[1] = (char)sign;
    if (!skip_sign(p, sign)) fail(p, what);
}

static void expect_kind(parser *p, token_kind kind, const char *what) {
    if (next_token(p)->kind != kind) fail(p, what);
    p->next++;
}

static const jtext *expect_name(parser *p) {
    expect_kind(p, T_NAME, "a name is missing");
    return p->tokens[p->next - 1].text;
}

static jnode *new_node(parser *p, jnode_kind kind) {
    jnode *n = cr_j_take(p->j, sizeof *n);
    n->kind = kind;
    n->line = next_token(p)->line;
    return n;
}

static jnode *make_binary(parser *p, jnode_kind kind, int op, jnode *a, jnode *b) {
    jnode *n = new_node(p, kind);
    n->op = op;
    n->a = a;
    n->b = b;
    if (a) n->line = a->line;
    return n;
}

static void push_node(parser *p, jnodes *list, jnode *n) {
    int64_t room = list->room;
    if (list->n == list->room) list->at = cr_j_grow(p->j, list->at, list->n, &room, sizeof *list->at);
    list->room = (int)room;
    list->at[list->n++] = n;
}

static void go_deeper(parser *p) {
    if (++p->depth > J_DEPTH) fail(p, "the template is nested too deeply");
}

/* ---- expressions */
static jnode *parse_expression(parser *p);
static jnode *parse_disjunction(parser *p);
static jnode *parse_unary(parser *p, bool filters);

static jnodes parse_arguments(parser *p) {
    jnodes list = {0};
    bool named = false;
    expect_sign(p, '(');
    while (!is_sign(p, ')')) {
        if (list.n) {
            expect_sign(p, ',');
            if (is_sign(p, ')')) break;
        }
        jnode *a = new_node(p, N_ARGUMENT);
        const token *behind_name = next_token(p)->kind == T_NAME ? next_token(p) + 1 : NULL;
        if (skip_sign(p, '*')) a->op = '*';
        else if (skip_sign(p, SIGN('*', '*'))) a->op = 'p';
        else if (behind_name && behind_name->kind == T_SIGN && behind_name->sign == '=') {
            a->text = expect_name(p);
            expect_sign(p, '=');
        } else if (named) fail(p, "an argument without a name follows one with a name");
        named |= a->text != NULL || a->op;
        a->a = parse_expression(p);
        push_node(p, &list, a);
    }
    expect_sign(p, ')');
    return list;
}

static bool tuple_ends(const parser *p, const char *word) {
    const token *t = next_token(p);
    return t->kind == T_PRINT_END || t->kind == T_BLOCK_END || is_sign(p, ')') || (word && is_name(t, word));
}

static jnode *parse_primary(parser *p, bool properties);

/* One expression, or several with commas between them.  targets: names only; plain: without `a if b`; word ends it. */
static jnode *parse_tuple(parser *p, bool targets, bool plain, const char *word, bool bracketed, bool properties) {
    jnode *whole = new_node(p, N_TUPLE);
    bool several = false;
    for (;;) {
        if (whole->kids.n) expect_sign(p, ',');
        if (tuple_ends(p, word)) break;
        push_node(p, &whole->kids, targets ? parse_primary(p, properties) : plain ? parse_disjunction(p)
                                                                              : parse_expression(p));
        if (!is_sign(p, ',')) break;
        several = true;
    }
    if (several) return whole;
    if (whole->kids.n) return whole->kids.at[0];
    if (!bracketed) fail(p, "an expression is missing");
    return whole;
}

static jnode *new_constant(parser *p, jvalue v) {
    jnode *n = new_node(p, N_CONST);
    n->value = v;
    return n;
}

/* ---- frames */
static bool is_mentioned(const jframe *f, const jtext *name) {
    for (int64_t i = 0; i < f->n; i++) if (!strcmp(f->at[i].name->s, name->s)) return true;
    return false;
}

static void note_mention(parser *p, const jtext *name, bool set) {
    jframe *f = p->frame;
    if (is_mentioned(f, name)) return;
    if (f->n == f->room) f->at = cr_j_grow(p->j, f->at, f->n, &f->room, sizeof *f->at);
    f->at[f->n++] = (struct jmention){name, set && !p->branches};
}

static jframe *enter_frame(parser *p) {
    jframe *f = cr_j_take(p->j, sizeof *f);
    *f = (jframe){.up = p->frame, .next = p->frames};
    p->frames = p->frame = f;
    return f;
}

/* Names of frames around this one decide about its own. */
static void settle_frames(const jframe *all) {
    for (const jframe *f = all; f; f = f->next)
        for (int64_t i = 0; i < f->n; i++)
            for (const jframe *up = f->up; up && f->at[i].starts_undefined; up = up->up)
                f->at[i].starts_undefined = !is_mentioned(up, f->at[i].name);
}

static void mention_target(parser *p, const jnode *t, bool set) {
    if (t->kind == N_TUPLE) for (int i = 0; i < t->kids.n; i++) mention_target(p, t->kids.at[i], set);
    else note_mention(p, t->text, set && t->kind == N_NAME);
}

static void note_name(parser *p, const jtext *name) {
    if (!p->macro) return;
    static const char *const special[] = {"varargs", "kwargs", "caller"};
    bool *const flags[] = {&p->macro->varargs, &p->macro->kwargs, &p->macro->caller};
    for (int i = 0; i < 3; i++) if (!strcmp(name->s, special[i])) *flags[i] = true;
}

static jnode *parse_primary(parser *p, bool properties) {
    const token *t = next_token(p);
    jnode *n;
    if (t->kind == T_NAME) {
        p->next++;
        if (is_name(t, "true") || is_name(t, "True")) return new_constant(p, cr_j_truth(true));
        if (is_name(t, "false") || is_name(t, "False")) return new_constant(p, cr_j_truth(false));
        if (is_name(t, "none") || is_name(t, "None")) return new_constant(p, (jvalue){.kind = J_NONE});
        n = new_node(p, N_NAME);
        n->line = t->line;
        n->text = t->text;
        if (!p->in_target) note_mention(p, t->text, false);
        note_name(p, t->text);
        if (properties && skip_sign(p, '.')) {
            n->kind = N_PROPERTY;
            n->name = expect_name(p);
        }
        return n;
    }
    if (t->kind == T_STRING) {
        jout o = {0};
        for (; next_token(p)->kind == T_STRING; p->next++)
            cr_j_put(p->j, &o, next_token(p)->text->s, next_token(p)->text->bytes);
        return new_constant(p, cr_j_out(p->j, &o));
    }
    if (t->kind == T_NUMBER) {
        p->next++;
        return new_constant(p, t->value);
    }
    if (skip_sign(p, '(')) {
        n = parse_tuple(p, false, false, NULL, true, false);
        expect_sign(p, ')');
        return n;
    }
    n = new_node(p, is_sign(p, '[') ? N_LIST : N_DICT);
    if (skip_sign(p, '[')) {
        while (!is_sign(p, ']')) {
            if (n->kids.n) expect_sign(p, ',');
            if (is_sign(p, ']')) break;
            push_node(p, &n->kids, parse_expression(p));
        }
        expect_sign(p, ']');
        return n;
    }
    if (!skip_sign(p, '{')) fail(p, "an expression is missing");
    while (!is_sign(p, '}')) {
        if (n->kids.n) expect_sign(p, ',');
        if (is_sign(p, '}')) break;
        push_node(p, &n->kids, parse_expression(p));
        expect_sign(p, ':');
        push_node(p, &n->kids, parse_expression(p));
    }
    expect_sign(p, '}');
    return n;
}

static jnode *parse_subscript(parser *p) {
    jnode *n = new_node(p, N_SLICE);
    jnode **const parts[] = {&n->a, &n->b, &n->c};
    if (!is_sign(p, ':')) {
        jnode *index = parse_expression(p);
        if (!is_sign(p, ':')) return index;
        n->a = index;
    }
    for (int i = 1; i < 3 && skip_sign(p, ':'); i++)
        if (!is_sign(p, ':') && !is_sign(p, ']') && !is_sign(p, ',')) *parts[i] = parse_expression(p);
    return n;
}

static jnode *parse_call(parser *p, jnode *f) {
    jnode *n = make_binary(p, N_CALL, 0, f, NULL);
    n->kids = parse_arguments(p);
    return n;
}

static jnode *parse_postfix(parser *p, jnode *n) {
    for (;;) {
        if (is_sign(p, '(')) n = parse_call(p, n);
        else if (skip_sign(p, '.')) {
            if (next_token(p)->kind == T_NUMBER) {
                n = make_binary(p, N_ITEM, 0, n, new_constant(p, next_token(p)->value));
                p->next++;
                continue;
            }
            n = make_binary(p, N_ATTRIBUTE, 0, n, NULL);
            n->text = expect_name(p);
        } else if (skip_sign(p, '[')) {
            n = make_binary(p, N_ITEM, 0, n, NULL);
            jnode *keys = new_node(p, N_TUPLE);
            while (!is_sign(p, ']')) {
                if (keys->kids.n) expect_sign(p, ',');
                push_node(p, &keys->kids, parse_subscript(p));
            }
            expect_sign(p, ']');
            n->b = keys->kids.n == 1 ? keys->kids.at[0] : keys;
        } else return n;
    }
}

/* The dotted name of a filter or a test. */
static const jtext *parse_dotted(parser *p) {
    const jtext *name = expect_name(p);
    if (is_sign(p, '.')) fail(p, "a filter or test with a dot in its name is not known");
    return name;
}

static jnode *parse_filter(parser *p, jnode *of) {
    jnode *n = make_binary(p, N_FILTER, 0, of, NULL);
    n->line = next_token(p)->line;
    n->text = parse_dotted(p);
    if (is_sign(p, '(')) n->kids = parse_arguments(p);
    return n;
}

static jnode *parse_test(parser *p, jnode *of) {
    const bool negated = skip_name(p, "not");
    jnode *n = make_binary(p, N_TEST, 0, of, NULL);
    n->text = parse_dotted(p);
    const token *t = next_token(p);
    const bool word = is_name(t, "else") || is_name(t, "or") || is_name(t, "and");
    if (is_sign(p, '(')) n->kids = parse_arguments(p);
    else if (!word && (t->kind == T_NAME || t->kind == T_STRING || t->kind == T_NUMBER || is_sign(p, '[') ||
                       is_sign(p, '{'))) {
        if (is_name(t, "is")) fail(p, "two tests in a row");
        jnode *a = new_node(p, N_ARGUMENT);
        a->a = parse_postfix(p, parse_primary(p, false));
        push_node(p, &n->kids, a);
    }
    return negated ? make_binary(p, N_NOT, 0, n, NULL) : n;
}

static jnode *parse_unary(parser *p, bool filters) {
    jnode *n;
    go_deeper(p);
    if (is_sign(p, '-') || is_sign(p, '+')) {
        const int op = next_token(p)->sign;
        p->next++;
        n = make_binary(p, N_UNARY, op, parse_unary(p, false), NULL);
    } else n = parse_primary(p, false);
    n = parse_postfix(p, n);
    for (; filters;) {
        if (skip_sign(p, '|')) n = parse_filter(p, n);
        else if (skip_name(p, "is")) n = parse_test(p, n);
        else if (is_sign(p, '(')) n = parse_call(p, n);
        else break;
    }
    p->depth--;
    return n;
}

/* The binary operators of one level, which bind to the left. */
static jnode *parse_power(parser *p) {
    jnode *n = parse_unary(p, true);
    while (skip_sign(p, SIGN('*', '*'))) n = make_binary(p, N_BINARY, SIGN('*', '*'), n, parse_unary(p, true));
    return n;
}

static jnode *parse_product(parser *p) {
    jnode *n = parse_power(p);
    while (is_sign(p, '*') || is_sign(p, '/') || is_sign(p, '%') || is_sign(p, SIGN('/', '/'))) {
        const int op = next_token(p)->sign;
        p->next++;
        n = make_binary(p, N_BINARY, op, n, parse_power(p));
    }
    return n;
}

static jnode *parse_concatenation(parser *p) {
    jnode *first = parse_product(p);
    if (!is_sign(p, '~')) return first;
    jnode *n = new_node(p, N_CONCAT);
    push_node(p, &n->kids, first);
    while (skip_sign(p, '~')) push_node(p, &n->kids, parse_product(p));
    return n;
}

static jnode *parse_sum(parser *p) {
    jnode *n = parse_concatenation(p);
    while (is_sign(p, '+') || is_sign(p, '-')) {
        const int op = next_token(p)->sign;
        p->next++;
        n = make_binary(p, N_BINARY, op, n, parse_concatenation(p));
    }
    return n;
}

static int comparison_here(parser *p) {
    static const int signs[] = {SIGN('=', '='), SIGN('!', '='), '<', '>', SIGN('<', '='), SIGN('>', '=')};
    for (int i = 0; i < 6; i++) if (skip_sign(p, signs[i])) return signs[i];
    if (skip_name(p, "in")) return 'i';
    if (!is_name(next_token(p), "not") || !is_name(next_token(p) + 1, "in")) return 0;
    p->next += 2;
    return 'n';
}

static jnode *parse_comparison(parser *p) {
    jnode *first = parse_sum(p), *n = NULL;
    for (int op; (op = comparison_here(p));) {
        if (!n) n = make_binary(p, N_COMPARE, 0, first, NULL);
        push_node(p, &n->kids, make_binary(p, N_BINARY, op, NULL, parse_sum(p)));
    }
    return n ? n : first;
}

static jnode *parse_negation(parser *p) {
    if (!skip_name(p, "not")) return parse_comparison(p);
    go_deeper(p);
    jnode *n = make_binary(p, N_NOT, 0, parse_negation(p), NULL);
    p->depth--;
    return n;
}

static jnode *parse_conjunction(parser *p) {
    jnode *n = parse_negation(p);
    while (skip_name(p, "and")) n = make_binary(p, N_AND, 0, n, parse_negation(p));
    return n;
}

static jnode *parse_disjunction(parser *p) {
    jnode *n = parse_conjunction(p);
    while (skip_name(p, "or")) n = make_binary(p, N_OR, 0, n, parse_conjunction(p));
    return n;
}

static jnode *parse_expression(parser *p) {
    go_deeper(p);
    jnode *n = parse_disjunction(p);
    while (skip_name(p, "if")) {
        n = make_binary(p, N_COND, 0, n, parse_disjunction(p));
        if (skip_name(p, "else")) n->c = parse_expression(p);
    }
    p->depth--;
    return n;
}

/* ---- statements */
/* Statements up to a tag with one of these words, which stays the token that is looked at. */
static jnodes parse_statements(parser *p, const char *const *ends);

static jnodes parse_body(parser *p, const char *const *ends) {
    skip_sign(p, ':');
    expect_kind(p, T_BLOCK_END, "'%}' is missing");
    return parse_statements(p, ends);
}

static jnodes whole_body(parser *p, const char *end) {
    jnodes list = parse_body(p, (const char *const[]){end, NULL});
    p->next++;
    return list;
}

/* A body with names of its own, and those of targets. */
static jnodes parse_framed(parser *p, const char *const *ends, const jnode *const *targets, int n,
                           const jframe **frame) {
    jframe *const outer = p->frame;
    const int branches = p->branches;
    p->branches = 0;
    *frame = enter_frame(p);
    for (int i = 0; i < n; i++) mention_target(p, targets[i], false);
    jnodes list = parse_body(p, ends);
    p->frame = outer;
    p->branches = branches;
    return list;
}

static jnodes whole_framed(parser *p, const char *end, const jframe **frame) {
    jnodes list = parse_framed(p, (const char *const[]){end, NULL}, NULL, 0, frame);
    p->next++;
    return list;
}

static void check_target(parser *p, const jnode *t) {
    if (t->kind == N_TUPLE) for (int i = 0; i < t->kids.n; i++) check_target(p, t->kids.at[i]);
    else if (t->kind != N_NAME && t->kind != N_PROPERTY) fail(p, "only a name can be set");
}

static jnode *parse_target(parser *p, const char *word, bool properties) {
    p->in_target = true;
    jnode *n = parse_tuple(p, true, false, word, false, properties);
    p->in_target = false;
    check_target(p, n);
    return n;
}

static jnode *parse_loop(parser *p) {
    jnode *n = new_node(p, N_FOR);
    n->a = parse_target(p, "in", false);
    if (!skip_name(p, "in")) fail(p, "'in' is missing");
    n->b = parse_tuple(p, false, true, "recursive", false, false);
    if (skip_name(p, "if")) n->c = parse_expression(p);
    n->recursive = skip_name(p, "recursive");
    p->loops++;
    const char *const ends[] = {"endfor", "else", NULL};
    n->kids = parse_framed(p, ends, (const jnode *const[]){n->a}, 1, &n->frame);
    p->loops--;
    if (skip_name(p, "else")) n->orelse = whole_framed(p, "endfor", &n->orelse_frame);
    else p->next++;
    return n;
}

static jnode *parse_condition(parser *p) {
    jnode *n = new_node(p, N_IF);
    n->a = parse_tuple(p, false, true, NULL, false, false);
    p->branches++;
    n->kids = parse_body(p, (const char *const[]){"elif", "else", "endif", NULL});
    if (skip_name(p, "elif")) push_node(p, &n->orelse, parse_condition(p));
    else if (skip_name(p, "else")) n->orelse = whole_body(p, "endif");
    else p->next++;
    p->branches--;
    return n;
}

static jnode *parse_assignment(parser *p) {
    jnode *n = new_node(p, N_SET);
    n->a = parse_target(p, NULL, true);
    if (skip_sign(p, '=')) {
        n->b = parse_tuple(p, false, false, NULL, false, false);
        mention_target(p, n->a, true);
        return n;
    }
    n->kind = N_SET_BLOCK;
    while (skip_sign(p, '|')) n->b = parse_filter(p, n->b);
    mention_target(p, n->a, true);
    n->kids = whole_framed(p, "endset", &n->frame);
    return n;
}

/* (a, b=1): names, with their defaults in a */
static void parse_parameters(parser *p, jnode *of) {
    expect_sign(p, '(');
    while (!is_sign(p, ')')) {
        if (of->parameters.n) expect_sign(p, ',');
        jnode *one = new_node(p, N_NAME);
        one->text = expect_name(p);
        const int n = of->parameters.n;
        if (skip_sign(p, '=')) one->a = parse_expression(p);
        else if (n && of->parameters.at[n - 1]->a) fail(p, "a parameter without a default follows one with a default");
        push_node(p, &of->parameters, one);
    }
    expect_sign(p, ')');
}

static jnodes macro_body(parser *p, jnode *macro, const char *end) {
    jnode *outer = p->macro;
    const int loops = p->loops;
    p->macro = macro;
    p->loops = 0;
    jnodes list = parse_framed(p, (const char *const[]){end, NULL}, (const jnode *const *)macro->parameters.at,
                               macro->parameters.n, &macro->frame);
    p->next++;
    p->loops = loops;
    p->macro = outer;
    if (outer) {                                    /* what an inner macro reads, its outer one takes too */
        outer->varargs |= macro->varargs;
        outer->kwargs |= macro->kwargs;
        outer->caller |= macro->caller;
    }
    return list;
}

static jnode *parse_macro(parser *p) {
    jnode *n = new_node(p, N_MACRO);
    n->text = expect_name(p);
    note_mention(p, n->text, true);
    parse_parameters(p, n);
    n->kids = macro_body(p, n, "endmacro");
    return n;
}

static jnode *call_block(parser *p) {
    jnode *n = new_node(p, N_CALL_BLOCK), *m = new_node(p, N_MACRO);
    m->text = cr_j_text(p->j, "caller", 6);
    if (is_sign(p, '(')) parse_parameters(p, m);
    n->a = parse_unary(p, true);
    if (n->a->kind != N_CALL) fail(p, "{% call %} needs a call");
    n->b = m;
    m->kids = macro_body(p, m, "endcall");
    return n;
}

static jnode *parse_with(parser *p) {
    jnode *n = new_node(p, N_WITH);
    while (next_token(p)->kind != T_BLOCK_END) {
        if (n->parameters.n) expect_sign(p, ',');
        jnode *one = new_node(p, N_SET);
        one->a = parse_target(p, NULL, false);
        expect_sign(p, '=');
        one->b = parse_expression(p);
        push_node(p, &n->parameters, one);
    }
    jnode *targets = new_node(p, N_TUPLE);
    for (int i = 0; i < n->parameters.n; i++) push_node(p, &targets->kids, n->parameters.at[i]->a);
    n->kids = parse_framed(p, (const char *const[]){"endwith", NULL}, (const jnode *const[]){targets}, 1, &n->frame);
    p->next++;
    return n;
}

static jnode *filter_block(parser *p) {
    jnode *n = new_node(p, N_FILTER_BLOCK);
    n->b = parse_filter(p, NULL);
    while (skip_sign(p, '|')) n->b = parse_filter(p, n->b);
    n->kids = whole_framed(p, "endfilter", &n->frame);
    return n;
}

static jnode *parse_generation(parser *p) {
    jnode *n = new_node(p, N_GENERATION);
    n->kids = whole_framed(p, "endgeneration", &n->frame);
    return n;
}

static jnode *loop_control(parser *p, jnode_kind kind) {
    if (!p->loops) fail(p, "break and continue stand in loops");
    return new_node(p, kind);
}

static jnode *break_loop(parser *p) { return loop_control(p, N_BREAK); }
static jnode *continue_loop(parser *p) { return loop_control(p, N_CONTINUE); }

static const struct { const char *word; jnode *(*read)(parser *p); } tags[] = {
    {"for", parse_loop}, {"if", parse_condition}, {"set", parse_assignment}, {"macro", parse_macro},
    {"call", call_block}, {"with", parse_with},
    {"filter", filter_block}, {"generation", parse_generation}, {"break", break_loop}, {"continue", continue_loop}};

static jnode *parse_statement(parser *p) {
    const token *t = next_token(p);
    if (t->kind != T_NAME) fail(p, "the name of a tag is missing");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (skip_name(p, tags[i].word)) return tags[i].read(p);
    p->j->line = t->line;
    cr_j_fail(p->j, "the tag '%.40s' is not known here", t->text->s);
}

static jnodes parse_statements(parser *p, const char *const *ends) {
    jnodes list = {0};
    go_deeper(p);
    for (;;) {
        const token *t = next_token(p);
        if (t->kind == T_END) {
            if (!ends) break;
            p->j->line = p->line;
            cr_j_fail(p->j, "{%% %s %%} is missing", ends[0]);
        }
        p->next++;
        if (t->kind == T_DATA) {
            jnode *n = new_node(p, N_DATA);
            n->text = t->text;
            push_node(p, &list, n);
        } else if (t->kind == T_PRINT) {
            jnode *n = new_node(p, N_PRINT);
            n->a = parse_tuple(p, false, false, NULL, false, false);
            expect_kind(p, T_PRINT_END, "'}}' is missing");
            push_node(p, &list, n);
        } else {
            bool ended = false;
            for (int i = 0; ends && ends[i]; i++) ended |= is_name(next_token(p), ends[i]);
            if (ended) break;
            push_node(p, &list, parse_statement(p));
            expect_kind(p, T_BLOCK_END, "'%}' is missing");
        }
    }
    p->depth--;
    return list;
}

jnodes cr_j_parse(jinja *j, const char *source, size_t bytes, const jframe **frame) {
    parser p = {.j = j, .line = 1};
    j->line = 1;
    if (cr_utf8_valid(source, bytes) != bytes) cr_j_fail(j, "the template is not UTF-8");
    jout o = {0};                                   /* one kind of line end, and none behind the last line */
    for (size_t i = 0; i < bytes; i++) {
        if (source[i] == '\r') cr_j_put(j, &o, "\n", 1);
        else if (source[i] != '\n' || !i || source[i - 1] != '\r') cr_j_put(j, &o, source + i, 1);
    }
    if (o.bytes && o.s[o.bytes - 1] == '\n') o.bytes--;
    p.s = o.s;
    p.n = o.bytes;
    read_tokens(&p);
    p.line = p.tokens[p.n_tokens - 1].line;
    *frame = enter_frame(&p);
    const jnodes list = parse_statements(&p, NULL);
    settle_frames(p.frames);
    return list;
}
