/* compile.c - elementwise programs as loops that the system's C compiler makes while the program runs.
 *
 * The text of the loops contains vec.h and vmath.h, so they compute what the instructions compute.  The compiler may
 * not join a product and a sum into one operation: the text says where that is done, and the bits are the same.  The
 * machine code is kept in the cache folder. */
#include "cpu.h"
#include "../../core/cache.h"
#include "../../core/config.h"
#include "../../core/os.h"
#include "../../core/out.h"
#include "../program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmake/embed.cmake makes them of the headers */
extern const char cr_cpu_source_isa_name[], cr_cpu_source_loops[], cr_cpu_source_vec[], cr_cpu_source_vmath[];
static const char *const headers[] = {cr_cpu_source_isa_name, cr_cpu_source_loops, cr_cpu_source_vec,
                                      cr_cpu_source_vmath};

/* ---- text */
enum { OPERANDS = 3 };
typedef struct name { char s[32]; } name;

static const struct { const char *name; int operands; } opcodes[CR_OP_COUNT] = {
#define OPCODE(OP, op, operands, value, cuda, wgsl, by) [CR_OP_##OP] = {#op, operands},
    CR_FLOAT_OPCODES(OPCODE)
};

/* Value v of a program: one of its inputs, which have names, or a variable of its own. */
static name name_of(const cr_program *p, int v, const char *prefix, const name *inputs) {
    name n;
    if (v < p->n_in) return inputs[v];
    snprintf(n.s, sizeof n.s, "%s%d", prefix, v);
    return n;
}

/* By its bits, as the instructions round it. */
static void add_constants(cr_out *t, const cr_program *p, const char *prefix) {
    for (int k = 0; k < p->n_const; k++) {
        const float rounded = (float)p->consts[k];
        uint32_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        cr_out_format(t, "const vec %s%d = (vec)((vuint){0} + 0x%08xu);\n", prefix, p->n_in + k, bits);
    }
}

/* Instruction i of a row and the product that is its operand k. */
static void add_joined(cr_out *t, const cr_program *row, int i, int k, const char *prefix, const name *inputs) {
    const cr_instr *s = &row->instr[i], *product = &row->instr[(k ? s->b : s->a) - cr_first_result(row)];
    const name a = name_of(row, product->a, prefix, inputs), b = name_of(row, product->b, prefix, inputs),
               other = name_of(row, k ? s->a : s->b, prefix, inputs);
    const bool minus = s->op == CR_OP_SUB;
    cr_out_format(t, "const vec %s%d = %s(%s, %s, %s%s);\n", prefix, cr_first_result(row) + i,
                  minus && k ? "v_fnma" : "v_fma", a.s, b.s, minus && !k ? "-" : "", other.s);
}

/* A row of ops.def, which is one instruction of a plan's program, or such a program. */
static void add_instructions(cr_out *t, const cr_program *p, const char *prefix, const name *inputs) {
    for (int i = 0; i < p->n_instr; i++) {
        const cr_instr *s = &p->instr[i];
        const int of[OPERANDS] = {s->a, s->b, s->c}, result = cr_first_result(p) + i;
        const int joined = cr_joined_operand(p, i);
        if (joined >= 0) {
            add_joined(t, p, i, joined, prefix, inputs);
            continue;
        }
        name operand[OPERANDS];
        for (int k = 0; k < OPERANDS && of[k] >= 0; k++) operand[k] = name_of(p, of[k], prefix, inputs);
        if (s->op < CR_OP_COUNT) {
            cr_out_format(t, "const vec %s%d = v_%s(%s", prefix, result, opcodes[s->op].name, operand[0].s);
            for (int k = 1; k < opcodes[s->op].operands; k++) cr_out_format(t, ", %s", operand[k].s);
            cr_out_format(t, ");\n");
            continue;
        }
        const cr_program *row = p->chain->rows[i];
        char own[24];
        snprintf(own, sizeof own, "row%d_", i);
        add_constants(t, row, own);
        add_instructions(t, row, own, operand);
        cr_out_format(t, "const vec %s%d = %s;\n", prefix, result, name_of(row, row->out[0], own, operand).s);
    }
}

static void add_loop(cr_out *t, int number, const cr_program *p, uint32_t held) {
    name inputs[CR_MAX_INPUTS];
    cr_out_format(t, "void loop_%d(float *const *out, const float *const *in, const float *params, int64_t n) {\n",
                  number);
    for (int k = 0; k < p->n_in; k++) {
        snprintf(inputs[k].s, sizeof inputs[k].s, "x%d", k);
        if (held >> k & 1) cr_out_format(t, "const vec x%d = v_k(*in[%d]);\n", k, k);
        else cr_out_format(t, "const float *const in%d = in[%d];\n", k, k);
    }
    for (int k = 0; k < p->n_out; k++) cr_out_format(t, "float *const out%d = out[%d];\n", k, k);
    add_constants(t, p, "v");
    cr_out_format(t, "for (int64_t i = 0; i < n; i += V) {\n");
    for (int k = 0; k < p->n_in; k++)
        if (!(held >> k & 1)) cr_out_format(t, "const vec x%d = FETCH(in%d + i);\n", k, k);
    add_instructions(t, p, "v", inputs);
    for (int k = 0; k < p->n_out; k++) {
        bool again = false;                         /* elementwise.c copies a value that is written twice */
        for (int j = 0; j < k; j++) again |= p->out[j] == p->out[k];
        if (!again) cr_out_format(t, "STORE(out%d + i, %s);\n", k, name_of(p, p->out[k], "v", inputs).s);
    }
    cr_out_format(t, "}\n}\n");
}

char *cr_cpu_loops_text(int n, cr_program *const *programs) {
    cr_out t = {0};
    const int isa = cr_cpu_isa();
    cr_out_format(&t, "#define CR_ISA %d\n", isa);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) cr_out_format(&t, "%s", headers[i]);
    for (int i = 0; i < n; i++) {
        programs[i]->chain->loop.isa = isa;
        add_loop(&t, i, programs[i], programs[i]->chain->loop.held);
    }
    if (t.failed) cr_out_free(&t);
    return t.text;
}

/* ---- the compiler */
enum { MOST_WORDS = 20 };
typedef struct command { int n; const char *words[MOST_WORDS]; char march[24]; } command;

/* False: CHAINRULE_CC is off. */
static bool command_of(command *c, int isa) {
    static const char *const flags[] = {"-O3", "-shared", "-fPIC", "-w", "-ffp-contract=off", "-fno-math-errno",
                                        "-fno-trapping-math"};
    const char *cc = cr_config("CC");
    *c = (command){.words = {cc ? cc : "cc"}, .n = 1};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) c->words[c->n++] = flags[i];
    snprintf(c->march, sizeof c->march, "-march=x86-64-v%d", isa);
    if (isa) c->words[c->n++] = c->march;
    if (isa == 4) c->words[c->n++] = "-mprefer-vector-width=512";
    return !cc || strcmp(cc, "off");
}

static char *contents_of(const char *path, size_t *bytes) {
    cr_mapping m;
    if (!cr_os_map(path, &m)) return NULL;
    char *data = m.bytes ? malloc(m.bytes) : NULL;
    if (data) memcpy(data, m.data, *bytes = m.bytes);
    cr_os_unmap(&m);
    return data;
}

/* Into a file of the cache. */
static bool compile(command *c, const char *text, const char *path, cr_hash key) {
    char source[1100], library[1200];
    FILE *f = cr_os_create_beside(path, source, sizeof source);
    if (!f) return false;
    snprintf(library, sizeof library, "%s.so", source);
    const char *const files[] = {"-o", library, "-x", "c", source};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) c->words[c->n++] = files[i];
    size_t bytes = 0;
    const bool written = fputs(text, f) >= 0;
    char *code = written && !fflush(f) && !cr_os_run(c->words) ? contents_of(library, &bytes) : NULL;
    const bool kept = code && cr_cache_keep(path, key, code, bytes);
    free(code);
    cr_os_abandon(f, source);
    cr_os_remove(library);
    return kept;
}

bool cr_cpu_loops_make(const char *text, int n, cr_program *const *programs) {
    char path[1024], symbol[24];
    command c;
    if (!command_of(&c, programs[0]->chain->loop.isa)) return false;
    cr_hash key = cr_hash_of(cr_hash_start, text, strlen(text));
    for (int i = 1; i < c.n; i++) key = cr_hash_of(key, c.words[i], strlen(c.words[i]) + 1);
    if (!cr_cache_path(path, sizeof path, key, ".so")) return false;
    size_t bytes = 0;
    char *kept = cr_cache_read(path, key, &bytes);
    if (!kept && !compile(&c, text, path, key)) return false;
    free(kept);
    void *library = cr_os_open_library(path);       /* for the life of the process */
    for (int i = 0; i < n && library; i++) {
        snprintf(symbol, sizeof symbol, "loop_%d", i);
        void *found = cr_os_symbol(library, symbol);
        cr_loop run;
        memcpy(&run, &found, sizeof found);
        atomic_store_explicit(&programs[i]->chain->loop.run, run, memory_order_release);
    }
    return library != NULL;
}
