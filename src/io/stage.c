/* stage.c - see stage.h. */
#include "stage.h"

#include "../core/os.h"
#include "../core/status.h"

const char cr_stage_new[] = ".chainrule-new";

static cr_status not_ours(const char *op, const char *path) {
    return cr_fail(CR_IO, op, "'%s' is not a folder that a save made: move it away", path);
}

static cr_status cleared(const char *op, const char *path, bool good) {
    return good ? CR_OK : cr_fail(CR_IO, op, "cannot clear '%s': %s", path, cr_os_error());
}

/* Waits for the lock of a folder; *lock stays -1 where it is not there (any more). */
static cr_status hold_lock(const char *op, const char *path, int *lock) {
    cr_status status = CR_OK;
    for (int failures = 0; status == CR_OK && cr_os_is_directory(path); ) {
        *lock = cr_os_hold(path);
        if (*lock >= 0) return CR_OK;
        if (*lock == -1 && ++failures > 1000)       /* a few are of a folder that another save moves and makes */
            return cr_fail(CR_IO, op, "cannot open '%s': %s", path, cr_os_error());
        if (*lock == -2) cr_os_sleep(0.002);
        *lock = -1;
        status = cr_check_interrupt(op);
    }
    return status;
}

/* Moves the files of the complete set and removes its folder, which this thread holds.  Another save may put its
 * own in place of the empty folder: that one is not empty, and stays. */
static cr_status finish_stage(const char *op, const char *dir, const cr_stage_kind *k, const char *ready, int lock,
                        bool reader) {
    cr_status status = k->finish(op, dir, ready);
    if (status != CR_OK) return status;
    if (!cr_os_clear_held(lock, k->ours)) return reader ? CR_OK : cleared(op, ready, false);
    (void)cr_os_remove(ready);
    return CR_OK;
}

static bool is_foreign(const char *path) { return cr_os_is_link(path) || cr_os_is_plain(path); }

cr_status cr_stage_complete(const char *op, const char *dir, const cr_stage_kind *k, bool reader) {
    cr_path ready;
    int lock = -1;
    cr_status status = cr_join(op, dir, k->ready, &ready);
    if (status != CR_OK || !cr_os_exists(ready.s)) return status;
    if (is_foreign(ready.s)) return reader ? CR_OK : not_ours(op, ready.s);
    status = hold_lock(op, ready.s, &lock);
    if (lock < 0) return status;
    status = finish_stage(op, dir, k, ready.s, lock, reader);
    cr_os_let_go(lock);
    return status;
}

cr_status cr_stage_begin(const char *op, const char *dir, const cr_stage_kind *k, int *lock) {
    cr_path new;
    *lock = -1;
    cr_status status = cr_join(op, dir, cr_stage_new, &new);
    if (status == CR_OK && !cr_os_make_directory(dir))
        status = cr_fail(CR_IO, op, "cannot create '%s': %s", dir, cr_os_error());
    if (status == CR_OK) status = cr_stage_complete(op, dir, k, false);
    for (int tries = 0; status == CR_OK && *lock < 0; tries++) {        /* another save may move it meanwhile */
        if (is_foreign(new.s)) status = not_ours(op, new.s);
        else if (cr_os_make_directory(new.s)) status = hold_lock(op, new.s, lock);
        else if (tries > 1000) status = cr_fail(CR_IO, op, "cannot create '%s': %s", new.s, cr_os_error());
    }
    if (status == CR_OK) status = cleared(op, new.s, cr_os_clear_held(*lock, k->ours));
    if (status == CR_OK) return CR_OK;
    cr_os_let_go(*lock);
    *lock = -1;
    return status;
}

/* The complete set of another save may be there first. */
static cr_status make_ready(const char *op, const char *dir, const cr_stage_kind *k, const char *new, int lock) {
    cr_path ready;
    cr_status status = cr_join(op, dir, k->ready, &ready);
    for (int tries = 0; status == CR_OK && !cr_os_rename(new, ready.s); tries++) {
        if (tries > 1000) return cr_fail(CR_IO, op, "cannot rename '%s' to '%s': %s", new, ready.s, cr_os_error());
        status = cr_stage_complete(op, dir, k, false);
    }
    return status != CR_OK ? status : finish_stage(op, dir, k, ready.s, lock, false);
}

cr_status cr_stage_end(const char *op, const char *dir, const cr_stage_kind *k, int lock, cr_status status) {
    cr_path new;
    if (lock < 0) return status;                    /* it did not begin */
    if (cr_join(op, dir, cr_stage_new, &new)) return cr_error_status();
    if (status == CR_OK) status = make_ready(op, dir, k, new.s, lock);
    else if (cr_os_clear_held(lock, k->ours)) (void)cr_os_remove(new.s);
    cr_os_let_go(lock);
    return status;
}

cr_status cr_stage_remove(const char *op, const char *path, const cr_stage_kind *k) {
    int lock = -1;
    if (is_foreign(path)) return not_ours(op, path);
    cr_status status = hold_lock(op, path, &lock);
    if (lock < 0) return status;
    status = cleared(op, path, cr_os_clear_held(lock, k->ours));
    if (status == CR_OK && !cr_os_remove(path)) status = cleared(op, path, false);
    cr_os_let_go(lock);
    return status;
}

cr_status cr_stage_move(const char *op, const char *dir, const char *from, const char *name) {
    cr_path old, new;
    if (cr_join(op, from, name, &old) || cr_join(op, dir, name, &new)) return cr_error_status();
    if (!cr_os_exists(old.s) || cr_os_rename(old.s, new.s) || !cr_os_exists(old.s)) return CR_OK;
    return cr_fail(CR_IO, op, "cannot move '%s' to '%s': %s", old.s, new.s, cr_os_error());
}
