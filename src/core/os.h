/* os.h - the platform.  Nothing outside os_*.c includes a system header beyond the C standard's; every
 * layer may include this. */
#ifndef CR_OS_H
#define CR_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* threads */
typedef struct cr_thread cr_thread;
typedef struct cr_mutex cr_mutex;
typedef struct cr_cond cr_cond;
cr_thread *cr_thread_start(void (*fn)(void *), void *arg);             /* NULL: no thread could be made */
void       cr_thread_join(cr_thread *t);
/* a thread that nobody waits for; false: no thread could be made */
bool       cr_thread_detached(void (*fn)(void *), void *arg);
cr_mutex  *cr_mutex_new(void);
void       cr_mutex_free(cr_mutex *m);
void       cr_mutex_lock(cr_mutex *m);
void       cr_mutex_unlock(cr_mutex *m);
cr_cond   *cr_cond_new(void);
void       cr_cond_free(cr_cond *c);
void       cr_cond_wait(cr_cond *c, cr_mutex *m);
void       cr_cond_signal_all(cr_cond *c);
/* static initialiser {0}; for a few instructions only */
typedef struct cr_spinlock { volatile int held; } cr_spinlock;
void       cr_spin_lock(cr_spinlock *l);
void       cr_spin_unlock(cr_spinlock *l);
/* for longer work: waiting threads sleep; initially 0 */
void       cr_word_lock(volatile int *word);
void       cr_word_unlock(volatile int *word);
/* Sleeps until cr_os_wake, or for so many seconds (0: no limit); returns at once if *word != value,
 * and may return early. */
void       cr_os_sleep_on(volatile int *word, int value, double seconds);
void       cr_os_wake_all(volatile int *word);
void       cr_os_wake(volatile int *word, int threads);                 /* wakes at most so many threads */
void       cr_os_relax(void);                                           /* pause instruction of a spin loop */
/* usable processors, by affinity and cgroup quota; >= 1 */
int        cr_os_cpu_count(void);
int64_t    cr_os_process_id(void);
void       cr_os_host_name(char *out, size_t room);
_Noreturn void cr_os_leave(int code);                                   /* at once: no atexit, no flush */
void       cr_os_before_fork(void (*fn)(void));                         /* fn runs in the parent before every fork */
void       cr_os_at_fork_child(void (*fn)(void));                       /* fn runs in the child after every fork */
/* fn runs when this thread ends, and when any thread ends that called this with some function; four
 * functions at most. */
void       cr_os_at_thread_exit(void (*fn)(void));

/* memory */
/* zeroed; huge: 2 MiB aligned, with huge pages; NULL: no memory */
void  *cr_os_pages(size_t bytes, bool huge);
void   cr_os_pages_free(void *p, size_t bytes);
/* alignment: a power of two; NULL: no memory */
void  *cr_os_aligned(size_t alignment, size_t bytes);
void   cr_os_aligned_free(void *p);
int64_t cr_os_peak_rss(void);                                           /* bytes, the most that were ever resident */
/* bytes that this process can still get: of the machine with swap, of its cgroup, of its own limit */
int64_t cr_os_free_memory(void);

/* shared libraries */
void  *cr_os_open_library(const char *path);                            /* NULL: not found */
void  *cr_os_loaded_library(const char *name);                          /* NULL: not in this process yet */
void  *cr_os_symbol(void *library, const char *name);
/* The path of the library that contains this symbol.  Its names become visible to all libraries, as MPI's plugins
 * expect. */
bool   cr_os_share_library(const void *symbol, char *path, size_t room);
/* The folder of the library or program that contains this code (NULL: this library); returns its length, 0: unknown. */
int    cr_os_directory_of(const void *code, char *out, size_t room);

/* randomness */
uint64_t cr_os_entropy(void);                                           /* 64 unpredictable bits */

/* time */
double  cr_os_seconds(void);                                            /* monotonic */
void    cr_os_timestamp(char out[32]);                                  /* "2026-01-31T12:00:00Z" */
bool    cr_os_local_time(time_t seconds, struct tm *out);               /* localtime_r */
void    cr_os_sleep(double seconds);

/* sockets: TCP for a few small messages; -1: cr_os_error() has the reason */
int     cr_os_listen(int *port);                                        /* *port 0: the system chooses one */
int     cr_os_accept(int listener, double seconds);
int     cr_os_connect(const char *host, int port, double seconds);
/* Waits until some of n sockets can be read or are at their end, for so many seconds at most. */
void    cr_os_poll(int n, const int *sockets, bool *ready, double seconds);
bool    cr_os_send(int socket, const void *data, size_t n);             /* never waits; false: it is gone, or full */
int64_t cr_os_receive(int socket, void *data, size_t n);                /* never waits; 0: nothing yet, -1: the end */
void    cr_os_close_socket(int socket);                                 /* -1 is allowed */

/* files; paths are UTF-8.  After a failure cr_os_error() has the reason as text.  A folder may be a link.  The
 * library's own names (.chainrule-new, -ready, -commit, -old, .chainrule-1-2.tmp) and what they hold are never followed
 * as links: such a link exists, and is neither a folder nor a file. */
const char *cr_os_error(void);                                          /* reason of this thread's last failure */
/* equal: the same file; a mapped file keeps its id */
typedef struct cr_file_id { uint64_t device, inode; } cr_file_id;
typedef struct cr_mapping { const unsigned char *data; size_t bytes; cr_file_id id; } cr_mapping;
/* read-only; an empty file gives data != NULL, bytes 0 */
bool  cr_os_map(const char *path, cr_mapping *m);
/* the same, and writable: writes stay in this process */
bool  cr_os_map_private(const char *path, cr_mapping *m);
void  cr_os_unmap(cr_mapping *m);
cr_file_id cr_os_file_id(const char *path);                             /* {0, 0}: the file does not exist */
/* A new file in the folder of path, for cr_os_commit; with the mode of the file that it replaces.  Temporary files of
 * processes that were killed are removed from the folder. */
FILE *cr_os_create_beside(const char *path, char *temporary, size_t room);
/* flush, sync, rename, close; removes the temporary on failure; a link is replaced */
bool  cr_os_commit(FILE *f, const char *temporary, const char *path);
void  cr_os_abandon(FILE *f, const char *temporary);                    /* close and delete */
/* with parents; true when it exists afterwards */
bool  cr_os_make_directory(const char *path);
bool  cr_os_remove(const char *path);
/* a folder and the files in it; refuses when folders are in it */
bool  cr_os_remove_folder(const char *path);
/* syncs the folder; a file gets the mode of the one that it replaces */
bool  cr_os_rename(const char *from, const char *to);
bool  cr_os_copy(const char *from, const char *to);
bool  cr_os_share(const char *from, const char *to);                    /* a hard link if possible, else a copy */
/* names in a folder, in any order */
void  cr_os_each_entry(const char *path, void (*fn)(const char *name, void *ctx), void *ctx);
/* until this process ends; false: another process holds it */
bool  cr_os_lock_folder(const char *path);
/* Locks a folder until cr_os_let_go, or the end of this process; -1: a failure; -2: another thread or process holds it,
 * or has just moved it */
int   cr_os_hold(const char *path);
void  cr_os_let_go(int held);                                           /* -1 is allowed */
/* removes the files in it; false, and nothing is removed: not all are regular files whose names are `ours`, or
 * temporary files */
bool  cr_os_clear_held(int held, bool (*ours)(const char *name));
bool  cr_os_exists(const char *path);
bool  cr_os_is_directory(const char *path);
bool  cr_os_is_link(const char *path);
bool  cr_os_is_plain(const char *path);                                 /* a regular file, and no link */
bool  cr_os_is_temporary(const char *name);                             /* the name of a temporary file of ours */

FILE *cr_os_open_file(const char *path, const char *mode);             /* fopen */

/* terminal and signals, for programs */
/* Before anything else: arguments become UTF-8 (NULL: they are already), and streams write bytes as they are. */
void  cr_os_begin(int *argc, char ***argv);
bool  cr_os_is_terminal(FILE *f);
int   cr_os_hide_output(void);                                          /* stdout goes nowhere; for the next; -1 */
void  cr_os_show_output(int hidden);
int   cr_os_terminal_width(FILE *f);                                    /* columns, 80 when unknown */
/* a write beyond the limit of file sizes fails, and does not kill */
void cr_os_survive_file_limit(void);
/* Ctrl-C, SIGTERM, SIGHUP, SIGPIPE set a flag; a second Ctrl-C kills; ignored signals stay ignored */
void cr_os_catch_interrupt(void);
bool  cr_os_interrupted(void);
/* Becomes another program, searched in PATH where its name has no slash; argv ends with NULL. Returns
 * when it cannot: the reason. */
const char *cr_os_become(const char *const *argv);
/* Ctrl-C waits until it is unblocked, by the program that this process becomes too. */
void  cr_os_hold_ctrl_c(void);
bool  cr_os_forget_ctrl_c(void);                                        /* false: another signal came */
/* Runs another program, searched in PATH, without input and output, and waits for its end: its exit
 * status; -1: it did not run, or a signal ended it. */
int   cr_os_run(const char *const *argv);

/* processes that this one starts, before it has threads */
int64_t cr_os_fork(void);                                               /* 0: the child, which ends with this one; -1 */
/* A child that has ended, within so many seconds: its id, and its exit code, or minus the signal that killed it; 0:
 * none */
int64_t cr_os_reap(int *code, double seconds);
void  cr_os_end(int64_t id, bool at_once);                              /* SIGTERM, or SIGKILL */
void  cr_os_set_variable(const char *name, const char *value);          /* of the environment */

#endif
