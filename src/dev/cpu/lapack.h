/* lapack.h - LAPACK, opened at run time, for eigenvalues and singular values of large matrices. */
#ifndef CR_LAPACK_H
#define CR_LAPACK_H

#include "../../core/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { CR_LAPACK_MOST = 20000 };                    /* rows: its sizes of work memory are ints */

bool cr_lapack_ready(void);                         /* opens the library on the first call; false: there is none */

/* Both compute in f32 or f64, on the calling thread, after cr_lapack_ready.  False: no memory, or no convergence.
 * a (N, N) symmetric becomes the eigenvectors, one in each row, or is only overwritten; values (N) ascend. */
bool cr_lapack_eigh(cr_dtype dt, int64_t N, void *a, void *values, bool vectors);
/* a (M, N), M >= N, is overwritten: u (M, N), values (N) descend, vt (N, N) holds v[i][j] at j N + i; u and
 * vt may both be NULL */
bool cr_lapack_svd(cr_dtype dt, int64_t M, int64_t N, void *a, void *u, void *values, void *vt);

#endif
