/* loops.h - pragmas for loops, GCC and Clang.  CR_UNROLL(n): unroll all of at most n rounds, so that
 * the counter becomes a constant. CR_INDEPENDENT: no round reads what an earlier one wrote. */
#ifndef CR_LOOPS_H
#define CR_LOOPS_H

#ifdef __clang__
#define CR_UNROLL(n) _Pragma("clang loop unroll(full)")
#define CR_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CR_PRAGMA(text) _Pragma(#text)
#define CR_UNROLL(n) CR_PRAGMA(GCC unroll n)
#define CR_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
