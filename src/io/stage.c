/* stage.c - see stage.h. */
#include "stage.h"

#include "../core/os.h"
#include "../core/status.h"

const char cr_stage_new[] = ".chainrule-new";

static cr_status not_ours(const char *op, const char *path) {
    return cr_fail(CR_IO, op, "'%s' is no folder that a save made: move it away", path);
}

static cr_status cleared(const char *op, const char *path, bool good) {
    return good ? CR_OK : cr_fail(CR_IO, op, "cannot clear '%s': %s", path, cr_os_error());
}

/* Waits for the lock of a folder; *lock stays -1 where it is not there (any more). */
static cr_status hold(const char *op, const char *path, int *lock) {
    cr_status status = CR_OK;
    while (status == CR_OK && cr_os_is_directory(path)) {
        *lock = cr_os_hold(path);
        if (*lock >= 0) return CR_OK;
        if (*lock == -1 && cr_os_is_directory(path))
            status = cr_fail(CR_IO, op, "cannot open '%s': %s", path, cr_os_error());
        *lock = -1;
        cr_os_sleep(0.005);
        if (status == CR_OK) status = cr_check_interrupt(op);
    }
    return status;
}

/* Moves the files of the complete set and removes its folder, which this thread holds. */
static cr_status finish(const char *op, const char *dir, const cr_stage_kind *k, const char *ready, bool reader) {
    cr_status status = k->finish(op, dir, ready);
    if (status == CR_OK && !cr_os_remove_folder(ready, k->ours) && !reader) status = cleared(op, ready, false);
    return status;
}

cr_status cr_stage_complete(const char *op, const char *dir, const cr_stage_kind *k, bool reader) {
    cr_path ready;
    int lock = -1;
    cr_status status = cr_join(op, dir, k->ready, &ready);
    if (status != CR_OK || !cr_os_exists(ready.s)) return status;
    if (!cr_os_is_directory(ready.s)) return reader ? CR_OK : not_ours(op, ready.s);
    status = hold(op, ready.s, &lock);
    if (lock >= 0) status = finish(op, dir, k, ready.s, reader);
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
    while (status == CR_OK && *lock < 0) {          /* again: another save has moved its folder meanwhile */
        if (cr_os_exists(new.s) && !cr_os_is_directory(new.s)) status = not_ours(op, new.s);
        else if (!cr_os_make_directory(new.s) && !cr_os_is_directory(new.s))
            status = cr_fail(CR_IO, op, "cannot create '%s': %s", new.s, cr_os_error());
        else status = hold(op, new.s, lock);
    }
    if (status == CR_OK) status = cleared(op, new.s, cr_os_clear_folder(new.s, k->ours));
    if (status == CR_OK) return CR_OK;
    cr_os_let_go(*lock);
    *lock = -1;
    return status;
}

/* Another save may have a complete set between the two steps. */
static cr_status make_ready(const char *op, const char *dir, const cr_stage_kind *k, const char *new) {
    cr_path ready;
    cr_status status = cr_join(op, dir, k->ready, &ready);
    while (status == CR_OK && !cr_os_rename(new, ready.s)) {
        status = cr_fail(CR_IO, op, "cannot rename '%s' to '%s': %s", new, ready.s, cr_os_error());
        if (!cr_os_is_directory(new) || !cr_os_is_directory(ready.s)) return status;
        cr_error_clear();
        status = cr_stage_complete(op, dir, k, false);
    }
    return status != CR_OK ? status : finish(op, dir, k, ready.s, true);
}

cr_status cr_stage_end(const char *op, const char *dir, const cr_stage_kind *k, int lock, cr_status status) {
    cr_path new;
    if (lock < 0) return status;                    /* it did not begin */
    if (cr_join(op, dir, cr_stage_new, &new)) return cr_error_status();
    if (status == CR_OK) status = make_ready(op, dir, k, new.s);
    else (void)cr_os_remove_folder(new.s, k->ours);
    cr_os_let_go(lock);
    return status;
}

cr_status cr_stage_remove(const char *op, const char *path, const cr_stage_kind *k) {
    if (!cr_os_exists(path)) return CR_OK;
    if (!cr_os_is_directory(path)) return not_ours(op, path);
    return cleared(op, path, cr_os_remove_folder(path, k->ours));
}
