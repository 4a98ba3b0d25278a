/* mpi.h - MPI, opened at run time, whatever its ABI.  Handles are words: MPICH's are ints, the
 * others' pointers; a callee reads what it needs. */
#ifndef CR_MPI_H
#define CR_MPI_H

#include <stdatomic.h>

#include "../core/status.h"

typedef uintptr_t cr_mpi_handle;                    /* 0 before an out parameter: an int fills the low half */

typedef struct cr_mpi {
    char path[1024], name[160];                     /* of the library; "MPI 5.0 standard ABI, MPICH 5.0.2" */
    cr_mpi_handle world, byte, f32, f64, sum, errors_return;
    void *in_place, *no_status;
    int serialized;                                 /* MPI_THREAD_SERIALIZED */
    atomic_bool lost;                               /* a rank is gone: what waits for it will not end */
    double limit;                                   /* of cr_os_seconds: a wait ends then, as at a loss; 0: none */
    int (*Init_thread)(int *, char ***, int, int *);
    int (*Initialized)(int *);
    int (*Finalized)(int *);
    int (*Query_thread)(int *);
    int (*Finalize)(void);
    int (*Abort)(cr_mpi_handle, int);
    int (*Comm_rank)(cr_mpi_handle, int *);
    int (*Comm_size)(cr_mpi_handle, int *);
    int (*Comm_idup)(cr_mpi_handle, cr_mpi_handle *, cr_mpi_handle *);
    int (*Comm_free)(cr_mpi_handle *);
    int (*Comm_set_errhandler)(cr_mpi_handle, cr_mpi_handle);
    int (*Ibarrier)(cr_mpi_handle, cr_mpi_handle *);
    int (*Ibcast)(void *, int, cr_mpi_handle, int, cr_mpi_handle, cr_mpi_handle *);
    int (*Iallgather)(const void *, int, cr_mpi_handle, void *, int, cr_mpi_handle, cr_mpi_handle, cr_mpi_handle *);
    int (*Iallgatherv)(const void *, int, cr_mpi_handle, void *, const int *, const int *, cr_mpi_handle, cr_mpi_handle,
                       cr_mpi_handle *);
    int (*Ialltoallv)(const void *, const int *, const int *, cr_mpi_handle, void *, const int *, const int *,
                      cr_mpi_handle, cr_mpi_handle, cr_mpi_handle *);
    int (*Iallreduce)(const void *, void *, int, cr_mpi_handle, cr_mpi_handle, cr_mpi_handle, cr_mpi_handle *);
    int (*Test)(cr_mpi_handle *, int *, void *);
    int (*Get_library_version)(char *, int *);
    int (*Error_string)(int, char *, int *);
    /* NULL where survivors of a loss cannot go on: all but Open MPI under `mpirun --with-ft ulfm` */
    int (*Comm_revoke)(cr_mpi_handle);
    int (*Comm_shrink)(cr_mpi_handle, cr_mpi_handle *);
    int (*Comm_agree)(cr_mpi_handle, int *);
    cr_mpi_handle elastic;                          /* a loss revokes this communicator; 0: a loss is the end */
} cr_mpi;

/* What started this process, by its environment variables. */
typedef enum cr_launcher { CR_LAUNCHER_NONE, CR_LAUNCHER_OPENMPI, CR_LAUNCHER_PMI, CR_LAUNCHER_PMIX } cr_launcher;
cr_launcher cr_mpi_launcher(int *rank, int *size);  /* *size 0: the launcher does not say */

/* Waits for a request that a call with this code made; gives the processor away while nothing moves.  CR_MPI_LOST: a
 * rank is gone, and no more calls of MPI may follow but those of elastic.c.  bytes: that this rank sends, about. */
enum { CR_MPI_LOST = -25 };
int cr_mpi_wait(const cr_mpi *m, int code, cr_mpi_handle *request, int64_t bytes);

/* path NULL: CHAINRULE_MPI, or by launcher */
cr_status cr_mpi_open(const char *path, cr_launcher launcher, cr_mpi *m);

#endif
