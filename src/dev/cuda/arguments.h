/* arguments.h - how a kernel's argument is declared once: each *.cu begins with the structs of its kernels, which the C
 * file that launches them includes.  The text of every kernel has this header after device.cuh.
 *
 * A kernel takes one struct.  Every member has 8 bytes (an address, i64, u64 or f64), so both compilers lay it out
 * alike.  T, A and other types are those that the text is compiled for; in C each POINTER is an address.  Strides are
 * in elements; flags are 0 or 1; an absent optional pointer is NULL. */
#ifndef CR_CUDA_ARGUMENTS_H
#define CR_CUDA_ARGUMENTS_H

#ifdef __cplusplus
template <class T> using pointer = T *;
#define POINTER(...) pointer<__VA_ARGS__>
#define ALIGNED(bytes) alignas(bytes)
#else
#include <stdint.h>
typedef int64_t i64;
typedef uint64_t u64;
typedef double f64;
#define POINTER(...) uint64_t
#define ALIGNED(bytes) _Alignas(bytes)
#endif

#endif
