/* rng.h - random numbers: Philox, and generators. */
#ifndef CR_RNG_H
#define CR_RNG_H

#include <chainrule.h>

/* Philox 4x32-10: key = seed, counter = (counter, 0) */
void     cr_philox(uint64_t seed, uint64_t counter, uint32_t out[4]);
/* floor(word span / 2^64), where span 0 means 2^64: maps a random word to [0, span), uniform up to 2^-64 span. */
static inline uint64_t cr_below(uint64_t word, uint64_t span) {
    __extension__ typedef unsigned __int128 wide;
    return span ? (uint64_t)((wide)word * span >> 64) : word;
}
cr_generator *cr_generator_retain(cr_generator *g);            /* one more cr_generator_free */
int      cr_generator_refs(const cr_generator *g);  /* the default generator: INT_MAX */
/* reserves `blocks` counter values, returns the first; thread-safe */
uint64_t cr_generator_take(cr_generator *g, uint64_t blocks, uint64_t *seed);
/* A tape records the results of cr_generator_take in this thread, for code that must run again with the same numbers
 * (activation checkpointing).  Between begin and end each take is recorded (replay false) or replayed (replay true). */
typedef struct cr_tape cr_tape;
cr_tape *cr_tape_new(void);
void     cr_tape_free(cr_tape *t);
/* several threads may replay one tape at once */
typedef struct cr_tape_use { cr_tape *tape; bool replay; size_t next; } cr_tape_use;
cr_tape_use cr_tape_begin(cr_tape *t, bool replay); /* returns the previous state, for cr_tape_end */
void     cr_tape_end(cr_tape_use before);

#endif
