/* programs.h - the table of elementwise functions (programs.gen.c), and the builder of new programs
 * (build.c): from text (program.c) or as the gradient of another program (derive.c). */
#ifndef CR_PROGRAMS_H
#define CR_PROGRAMS_H

#include "../core/table.h"
#include "op.h"
#include "rows.gen.h"

extern cr_program cr_rows[CR_ROW_COUNT];            /* with their gradients; those of higher order are derived and
                                                     * cached */
extern cr_program cr_updates[CR_UPDATE_COUNT];      /* the rules of optimizers: several results, no gradients */
typedef struct cr_update_options {                  /* how the params of an update follow from an optimizer's options */
    int n;
    const char *names[10];
    void (*fill)(const double *options, double *params);                /* NULL: the params are the options */
} cr_update_options;
extern const cr_update_options cr_options[CR_UPDATE_COUNT];            /* of cr_updates, by position */
extern const int16_t cr_opcode_row[CR_OP_COUNT];    /* the row that is exactly this instruction;
                                                     * -1: none, only programs of plans have it */

enum { CR_MAX_PARAMS = sizeof((cr_ew_params){0}.params) / sizeof(double) };

/* Equal values have the same number.  After a failure every function returns -1 and cr_build_finish
 * reports it once; -1 is accepted as an operand, so expressions nest without checks. */
/* op < 0: an input, param (number a) or constant k */
typedef struct cr_build_value { int op; int a, b, c; double k; } cr_build_value;        /* no padding */
typedef struct cr_build {
    int n;
    cr_build_value *values; int64_t room;           /* operands come before their users */
    cr_table numbers;                               /* of values, by their bytes */
    cr_status failed;                               /* CR_NO_MEMORY, or CR_BAD_VALUE: too many values */
} cr_build;

int  cr_build_input(cr_build *b, int i);
int  cr_build_param(cr_build *b, int i);
int  cr_build_const(cr_build *b, double k);
int  cr_build_op(cr_build *b, int opcode, int v0, int v1, int v2);      /* operands not used: -1 */
/* p (a row or a row's gradient) on values: its inputs, then its params */
int  cr_build_row(cr_build *b, const cr_program *p, const int *args);
bool cr_build_is(const cr_build *b, int v, double k);                   /* is v the constant k? */
void cr_build_free(cr_build *b);

/* The program that computes the n_out results, refs 1.  used NULL: it has all n_in inputs.
 * Otherwise it has the inputs that are read, with their numbers in used[]; if none is read, it has
 * only `fallback`. */
typedef struct cr_build_result {
    const char *name, *doc;
    int n_in, n_param, n_out;
    int out[CR_MAX_OUTPUTS];
    uint8_t *used;
    int fallback;
} cr_build_result;
cr_program *cr_build_finish(const cr_build *b, const cr_build_result *r);

#endif
