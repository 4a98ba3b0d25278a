/* commit.h - the files of a checkpoint (commit.c) for those who write and read one. */
#ifndef CR_COMMIT_H
#define CR_COMMIT_H

#include "file.h"
#include "folder.h"
#include "stage.h"

/* The files of N ranks by number: the state, the index, N files of weights, N files of moments. */
enum { CR_SAVED_STATE, CR_SAVED_INDEX, CR_SAVED_WEIGHTS, CR_SAVED_RANKS = 99999 };
typedef struct cr_saved_file { char s[64]; } cr_saved_file;
cr_saved_file cr_saved_name(int file, int ranks);
int           cr_saved_moments(int rank, int ranks);    /* the number of that file */

/* state.json; -1: no optimizer, no loader */
typedef struct cr_saved_state {
    int64_t step, optimizer_steps, cursor, batches;
    bool weights, generator, scaler;
    uint64_t seed, counter;
    cr_scaler_state scaling;
} cr_saved_state;

/* ---- a save: between cr_stage_begin and cr_stage_end with this kind */
extern const cr_stage_kind cr_saved_kind;
cr_status cr_saved_path(const char *op, const char *dir, int file, int ranks, cr_path *out);   /* of the new file */
cr_status cr_saved_put(const char *op, const char *dir, int file, int ranks, const cr_params *p, const char *metadata);
cr_status cr_saved_write(const char *op, const char *dir, const cr_saved_state *s, const char *metadata, int ranks);

/* ---- the files of one save; map[i].data NULL: the file is absent */
typedef struct cr_saved_files { int ranks, n; cr_mapping *map; cr_path *at; } cr_saved_files;
cr_status cr_saved_open(const char *op, const char *dir, cr_saved_files *s);
void      cr_saved_close(cr_saved_files *s);
cr_status cr_saved_missing(const char *op, const cr_saved_files *s, int file);        /* the failure that names it */
cr_status cr_saved_read(const char *op, const cr_saved_files *s, cr_saved_state *state);
/* the tensors take the mappings from s */
cr_status cr_saved_tensors(const char *op, cr_saved_files *s, int file, const cr_device *dev, cr_params **out);
cr_status cr_saved_weights(const char *op, cr_saved_files *s, const cr_device *dev, cr_params **out);

/* ---- for the readers of files (safetensors.c) */
cr_params *cr_saved_load_weights(const char *op, const char *dir, const cr_device *dev);
/* the safetensors file that has the metadata of the weights, a private mapping that the caller unmaps; path: its
 * name */
cr_status  cr_saved_map_metadata(const char *op, const char *dir, cr_mapping *m, cr_path *path);

#endif
