/* test_os.c - the platform: threads, pages, libraries, time, files and what they say when they fail. */
#include "test.h"
#include "posix.h"

#include <stdatomic.h>

#include "core/os.h"

static char folder[200];                            /* a temporary one, made by the first test that needs it */

__attribute__((destructor)) static void remove_folder(void) { if (*folder) cr_os_remove(folder); }

static const char *in_folder(const char *name) {
    static char path[16][300];
    static int turn;
    if (!*folder) {
        const char *base = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/chainrule-os-XXXXXX", base && *base ? base : "/tmp");
        if (!mkdtemp(folder)) return "";
    }
    char *p = path[turn++ % 16];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static bool write_file(const char *path, const char *text) {
    char temporary[300];
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    return f && fputs(text, f) >= 0 && cr_os_commit(f, temporary, path);
}

/* ---- threads ---- */
typedef struct counter { cr_mutex *m; cr_cond *c; cr_spinlock spin; int locked, spun; } counter;

static void count_up(void *arg) {
    counter *k = arg;
    for (int i = 0; i < 5000; i++) {
        cr_mutex_lock(k->m); k->locked++; cr_mutex_unlock(k->m);
        cr_spin_lock(&k->spin); k->spun++; cr_spin_unlock(&k->spin);
    }
    cr_mutex_lock(k->m);
    cr_cond_signal_all(k->c);
    cr_mutex_unlock(k->m);
}

TEST(locks) {
    counter k = {.m = cr_mutex_new(), .c = cr_cond_new()};
    cr_thread *t[5];
    REQUIRE(k.m && k.c, "no lock");
    for (int i = 0; i < 5; i++) t[i] = cr_thread_start(count_up, &k);
    cr_mutex_lock(k.m);
    while (k.locked < 25000) cr_cond_wait(k.c, k.m);
    cr_mutex_unlock(k.m);
    for (int i = 0; i < 5; i++) cr_thread_join(t[i]);
    CHECK(k.locked == 25000 && k.spun == 25000, "counted %d and %d of 25000", k.locked, k.spun);
    cr_cond_free(k.c);
    cr_mutex_free(k.m);
    cr_cond_free(NULL); cr_mutex_free(NULL); cr_thread_join(NULL);
}

static volatile int word;
static void raise_word(void *arg) {
    (void)arg;
    cr_os_sleep(5e-3);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    cr_os_wake_all(&word);
}

TEST(sleep_on_a_word) {
    cr_os_sleep_on(&word, 7, 0);                    /* another value: returns at once */
    cr_os_sleep_on(&word, 0, 2e-3);                 /* nobody wakes it: so long, or less */
    cr_thread *t = cr_thread_start(raise_word, NULL);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) cr_os_sleep_on(&word, 0, 0);
    cr_thread_join(t);
}

TEST(cpu_count_follows_affinity) {
    NEEDS_ITSELF();
    int n = cr_os_cpu_count();
    CHECK(n >= 1 && n < 100000, "%d processors", n);
    fflush(stdout);
    if (system("command -v taskset >/dev/null") != 0) SKIP("no taskset");
    if (getenv("TEST_OS_CHILD")) {
        CHECK(n == 1, "%d processors on one", n);
        return;
    }
    char command[800], self[300];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    REQUIRE(length > 0, "no name");
    self[length] = 0;
    snprintf(command, sizeof command,
             "TEST_OS_CHILD=1 taskset 1 '%s' cpu_count >/dev/null 2>&1 || TEST_OS_CHILD=1 taskset 2 '%s' cpu_count "
             ">/dev/null",
             self, self);
    CHECK(system(command) == 0, "affinity to one processor is not seen");
}

static volatile sig_atomic_t forked;
static void in_child(void) { forked = 1; }

TEST(fork_handler) {
    POSIX_ONLY("no fork");
    cr_os_at_fork_child(in_child);
    int64_t parent = cr_os_process_id();
    pid_t child = fork();
    if (!child) _exit(forked && cr_os_process_id() != parent ? 0 : 1);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the handler did not run in the child");
    CHECK(!forked, "the handler ran in the parent");
}

/* A thread holds every kind of lock while another forks: the child takes them, and they still lock there. */
typedef struct held_locks {
    cr_spinlock spin;
    volatile int word, step;
    cr_mutex *mutex;
    int sum;
} held_locks;

static void hold_locks(void *arg) {
    held_locks *l = arg;
    cr_spin_lock(&l->spin);
    cr_word_lock(&l->word);
    cr_mutex_lock(l->mutex);
    __atomic_store_n(&l->step, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&l->step, __ATOMIC_SEQ_CST) < 2) cr_os_sleep(0.001);
    cr_mutex_unlock(l->mutex);
    cr_word_unlock(&l->word);
    cr_spin_unlock(&l->spin);
}

static void add_under_locks(void *arg) {
    held_locks *l = arg;
    for (int i = 0; i < 2000; i++) {
        cr_spin_lock(&l->spin);
        cr_word_lock(&l->word);
        cr_mutex_lock(l->mutex);
        l->sum++;
        cr_mutex_unlock(l->mutex);
        cr_word_unlock(&l->word);
        cr_spin_unlock(&l->spin);
    }
}

TEST(locks_held_at_a_fork) {
    POSIX_ONLY("no fork");
#if defined(__SANITIZE_THREAD__)
    SKIP("the thread sanitizer allows no threads in the child of a process with threads");
#endif
    held_locks l = {.mutex = cr_mutex_new()};
    cr_thread *holder = cr_thread_start(hold_locks, &l), *threads[3];
    while (!__atomic_load_n(&l.step, __ATOMIC_SEQ_CST)) cr_os_sleep(0.001);
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        signal(SIGALRM, SIG_DFL);
        alarm(20);
        for (int i = 0; i < 3; i++) threads[i] = cr_thread_start(add_under_locks, &l);
        for (int i = 0; i < 3; i++) cr_thread_join(threads[i]);
        _exit(l.sum == 6000 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x", status);
    __atomic_store_n(&l.step, 2, __ATOMIC_SEQ_CST);
    cr_thread_join(holder);
    add_under_locks(&l);
    CHECK(l.sum == 2000, "the parent counted %d", l.sum);
    cr_mutex_free(l.mutex);
}

/* ---- memory ---- */
TEST(pages) {
    static const size_t sizes[] = {1, 4096, 4097, 1 << 20, (2 << 20) - 1, 2 << 20, (6 << 20) + 12345};
    for (int i = 0; i < 7; i++)
        for (int huge = 0; huge < 2; huge++) {
            unsigned char *p = cr_os_pages(sizes[i], huge);
            REQUIRE(p, "no %zu bytes", sizes[i]);
            CHECK((uintptr_t)p % (huge ? 2 << 20 : 4096) == 0, "%zu bytes at %p", sizes[i], (void *)p);
            int dirty = 0;
            for (size_t k = 0; k < sizes[i]; k++) dirty |= p[k];
            CHECK(!dirty, "%zu bytes are not zero", sizes[i]);
            memset(p, 0xa5, sizes[i]);
            cr_os_pages_free(p, sizes[i]);
        }
    void *p = cr_os_pages(0, false);
    CHECK(p, "no pages for 0 bytes");
    cr_os_pages_free(p, 0);
    CHECK(!cr_os_pages(SIZE_MAX, false) && !cr_os_pages(SIZE_MAX - 4096, true) && !cr_os_pages(SIZE_MAX / 2, true),
          "impossible sizes");
    cr_os_pages_free(NULL, 4096);
    CHECK(cr_os_peak_rss() > 1 << 20, "peak of %lld bytes", (long long)cr_os_peak_rss());
}

/* ---- libraries, time ---- */
TEST(libraries) {
    CHECK(!cr_os_open_library("libno-such-library.so.77"), "opened a library that is not there");
    POSIX_ONLY("no libm");
    if (!test_opens_libraries()) SKIP("a static program opens no library");
    void *m = cr_os_open_library("libm.so.6");
    REQUIRE(m, "no libm.so.6");
    double (*cosine)(double);
    void *symbol = cr_os_symbol(m, "cos");
    REQUIRE(symbol && !cr_os_symbol(m, "no_such_function"), "symbols of libm");
    memcpy(&cosine, &symbol, sizeof cosine);
    CHECK(cosine(0.0) == 1.0, "cos(0) = %g", cosine(0.0));

    char self[500], wanted[500];
    int n = cr_os_directory_of(NULL, self, sizeof self);
    ssize_t length = readlink("/proc/self/exe", wanted, sizeof wanted - 1);
    REQUIRE(n > 0 && length > 0, "own folder: %d", n);
    wanted[length] = 0;
    *strrchr(wanted, '/') = 0;
    CHECK(!strcmp(self, wanted) && n == (int)strlen(self), "own folder '%s', wanted '%s'", self, wanted);
    CHECK(cr_os_directory_of(NULL, self, (size_t)n) == 0, "%d bytes hold %d and the end", n, n);
    n = cr_os_directory_of(symbol, self, sizeof self);
    CHECK(n > 0 && strcmp(self, wanted) && *self == '/', "folder of libm '%s'", self);
}

TEST(time_goes_on) {
    double a = cr_os_seconds();
    cr_os_sleep(0.003);
    double b = cr_os_seconds();
    CHECK(b - a >= 0.003, "slept %g s", b - a);
    cr_os_sleep(0); cr_os_sleep(-1); cr_os_sleep(NAN);
    char text[32];
    cr_os_timestamp(text);
    int year, month, day, hour, minute, second, end = 0;
    CHECK(sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &end) == 6 &&
              end == 20 && year >= 2024,
          "'%s'", text);
}

/* ---- files ---- */
TEST(write_and_map) {
    const char *path = in_folder("a file");
    REQUIRE(*folder, "no temporary folder");
    cr_mapping m;
    CHECK(!cr_os_map(path, &m) && !m.data && strstr(cr_os_error(), "No such file"), "a missing file: '%s'",
          cr_os_error());
    REQUIRE(write_file(path, "first"), "write: %s", cr_os_error());
    REQUIRE(cr_os_map(path, &m), "map: %s", cr_os_error());
    REQUIRE(write_file(path, "second!"), "overwrite: %s", cr_os_error());
    CHECK(m.bytes == 5 && !memcmp(m.data, "first", 5), "a mapping must keep the old file");
    cr_os_unmap(&m);
    CHECK(!m.data && !m.bytes, "unmapped");
    cr_os_unmap(&m);
    REQUIRE(cr_os_map(path, &m), "map: %s", cr_os_error());
    CHECK(m.bytes == 7 && !memcmp(m.data, "second!", 7), "%zu bytes", m.bytes);
    cr_os_unmap(&m);
    REQUIRE(write_file(path, ""), "an empty file: %s", cr_os_error());
    REQUIRE(cr_os_map(path, &m), "map: %s", cr_os_error());
    CHECK(m.data && !m.bytes, "an empty file");
    cr_os_unmap(&m);
#ifndef _WIN32                                      /* files have no mode there */
    struct stat st;
    mode_t mask = umask(022);
    umask(mask);
    CHECK(!stat(path, &st) && (st.st_mode & 0777) == (0666 & ~mask), "mode %o", (unsigned)st.st_mode);
#endif
    CHECK(cr_os_remove(path) && !cr_os_exists(path), "removed");
    CHECK(!cr_os_remove(path), "removed twice");
}

TEST(what_cannot_be_mapped) {
    cr_mapping m;
    CHECK(!cr_os_map("/", &m) && strstr(cr_os_error(), "directory"), "a folder: %s", cr_os_error());
    CHECK(!cr_os_map("", &m), "no name");
    POSIX_ONLY("no pipes and devices among the files");
    CHECK(!cr_os_map("/dev/null", &m) && strstr(cr_os_error(), "Not a regular file"), "a device: %s", cr_os_error());
    const char *path = in_folder("pipe");
    REQUIRE(!mkfifo(path, 0600), "no pipe");
    CHECK(!cr_os_map(path, &m) && strstr(cr_os_error(), "Not a regular file"), "a pipe: %s", cr_os_error());
    CHECK(!write_file(path, "x") && cr_os_exists(path), "a pipe was replaced");
    cr_os_remove(path);
}

static void count_file(const char *name, void *n) { (void)name, ++*(int *)n; }

static int files_in_folder(void) {
    int n = 0;
    cr_os_each_entry(folder, count_file, &n);
    return n;
}

TEST(what_cannot_be_written) {
    char temporary[300], small[10];
    const char *path = in_folder("target");
    REQUIRE(*folder, "no temporary folder");
    CHECK(!cr_os_create_beside(in_folder("no/such/folder"), temporary, sizeof temporary) &&
              strstr(cr_os_error(), "No such file"),
          "%s", cr_os_error());
    CHECK(!cr_os_create_beside(path, small, sizeof small) && strstr(cr_os_error(), "too long"), "%s", cr_os_error());
    CHECK(!cr_os_create_beside(folder, temporary, sizeof temporary), "over a folder");
    CHECK(!cr_os_create_beside("", temporary, sizeof temporary), "no name");
    CHECK(!cr_os_create_beside(in_folder("x/"), temporary, sizeof temporary), "a name that ends in a slash");
    ON_POSIX(CHECK(!cr_os_create_beside("/dev/null", temporary, sizeof temporary), "over a device");)

    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    REQUIRE(f, "%s", cr_os_error());
    CHECK(cr_os_exists(temporary) && !cr_os_exists(path), "the temporary file comes first");
    cr_os_abandon(f, temporary);
    CHECK(!cr_os_exists(temporary) && !cr_os_exists(path), "abandoned");

    f = cr_os_create_beside(path, temporary, sizeof temporary);
    REQUIRE(f && cr_os_make_directory(path), "%s", cr_os_error());
    CHECK(!cr_os_commit(f, temporary, path) && !cr_os_exists(temporary), "a rename that fails leaves its temporary");
    cr_os_remove(path);
    CHECK(files_in_folder() == 0, "%d files left", files_in_folder());
}

/* A full disk, through the limit on a file's size. */
TEST(a_full_disk) {
    POSIX_ONLY("no limit of file sizes");
    const char *path = in_folder("full");
    REQUIRE(write_file(path, "old"), "%s", cr_os_error());
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    char temporary[300];
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    for (int i = 0; f && i < 5000; i++) fputs("twenty bytes of text", f);
    bool committed = f && cr_os_commit(f, temporary, path);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(f && !committed, "more than fits was written");
    CHECK(strlen(cr_os_error()) > 0, "no error text");
    cr_mapping m;
    REQUIRE(cr_os_map(path, &m), "%s", cr_os_error());
    CHECK(m.bytes == 3 && !memcmp(m.data, "old", 3), "the old file must stay");
    cr_os_unmap(&m);
    cr_os_remove(path);
    CHECK(files_in_folder() == 0, "%d files left", files_in_folder());
}

TEST(folders) {
    const char *deep = in_folder("a/b/c");
    CHECK(cr_os_make_directory(deep) && cr_os_is_directory(deep), "%s", cr_os_error());
    CHECK(cr_os_make_directory(deep), "again: %s", cr_os_error());
    CHECK(cr_os_make_directory(in_folder("a//b/c/")), "with slashes: %s", cr_os_error());
    CHECK(!cr_os_make_directory(""), "no name");
    REQUIRE(write_file(in_folder("a/file"), "x"), "%s", cr_os_error());
    CHECK(!cr_os_make_directory(in_folder("a/file")) && !cr_os_make_directory(in_folder("a/file/b")), "below a file");
    CHECK(!cr_os_is_directory(in_folder("a/file")) && cr_os_exists(in_folder("a/file")), "a file");
    CHECK(cr_os_rename(in_folder("a/file"), in_folder("a/b/file")) && cr_os_exists(in_folder("a/b/file")), "%s",
          cr_os_error());
    CHECK(!cr_os_rename(in_folder("nothing"), in_folder("b")) && !cr_os_exists(in_folder("b")), "renamed nothing");
    CHECK(!cr_os_remove(in_folder("a/b")), "removed a folder that is not empty");
    CHECK(cr_os_remove(in_folder("a/b/file")) && cr_os_remove(in_folder("a/b/c")) && cr_os_remove(in_folder("a/b")) &&
              cr_os_remove(in_folder("a")),
          "%s", cr_os_error());
    CHECK(cr_os_make_directory(in_folder("full/")) && write_file(in_folder("full/x"), "1") &&
              write_file(in_folder("full/y"), "2"),
          "%s", cr_os_error());
    CHECK(cr_os_remove_folder(in_folder("full")) && !cr_os_exists(in_folder("full")), "%s", cr_os_error());
    CHECK(!cr_os_remove_folder(in_folder("full")), "removed a folder that is not there");
    CHECK(cr_os_make_directory(in_folder("outer/inner")) && !cr_os_remove_folder(in_folder("outer")),
          "removed a folder with a folder in it");
    CHECK(cr_os_remove_folder(in_folder("outer/inner")) && cr_os_remove_folder(in_folder("outer")), "%s",
          cr_os_error());
    CHECK(cr_os_make_directory("/") && cr_os_make_directory("."), "%s", cr_os_error());
}

static void count_entry(const char *name, void *ctx) { *(size_t *)ctx += strlen(name); }

TEST(copies_and_entries) {
    const char *from = in_folder("from"), *to = in_folder("to");
    size_t letters = 0, none = 0;
    REQUIRE(write_file(from, "first"), "%s", cr_os_error());
    CHECK(cr_os_share(from, to), "%s", cr_os_error());
    const cr_file_id one = cr_os_file_id(from), two = cr_os_file_id(to), nothing = cr_os_file_id(in_folder("nothing"));
    CHECK(one.inode && one.inode == two.inode && one.device == two.device && !nothing.inode, "a second name");
    /* replaced by a rename: the other name keeps the old file */
    REQUIRE(write_file(from, "second, longer"), "%s", cr_os_error());
    cr_mapping m;
    REQUIRE(cr_os_map(to, &m), "%s", cr_os_error());
    CHECK(m.bytes == 5 && !memcmp(m.data, "first", 5) && m.id.inode == one.inode, "%zu bytes", m.bytes);
    cr_os_unmap(&m);
    for (int share = 0; share < 2; share++) {
        CHECK((share ? cr_os_share : cr_os_copy)(from, to) && cr_os_file_id(to).inode != cr_os_file_id(from).inode,
              "over a file there is only a copy: %s", cr_os_error());
        REQUIRE(cr_os_map(to, &m), "%s", cr_os_error());
        CHECK(m.bytes == 14 && !memcmp(m.data, "second, longer", 14), "%zu bytes", m.bytes);
        cr_os_unmap(&m);
        cr_os_remove(to);
        CHECK(cr_os_copy(from, to) && cr_os_file_id(to).inode != cr_os_file_id(from).inode, "copied by a second name");
    }
    CHECK(!cr_os_share(in_folder("nothing"), in_folder("x")) && !cr_os_exists(in_folder("x")), "copied nothing");
    cr_os_each_entry(folder, count_entry, &letters);
    cr_os_each_entry(in_folder("nothing"), count_entry, &none);
    CHECK(letters == strlen("from") + strlen("to") && !none, "%zu letters", letters);
    cr_os_remove(from);
    cr_os_remove(to);
}

TEST(folder_locks) {
    POSIX_ONLY("no fork");
    fflush(stdout);
    CHECK(cr_os_lock_folder(folder) && cr_os_lock_folder(in_folder("nothing")), "locked by nobody");
    const pid_t child = fork();
    if (!child) {
        /* by another open file, which a fork shares no lock with */
        const bool refused = !cr_os_lock_folder(folder);
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "locked twice");
}

/* ---- terminal and signals ---- */
TEST(terminal) {
    FILE *f = tmpfile();
    REQUIRE(f, "no file");
    CHECK(!cr_os_is_terminal(f) && cr_os_terminal_width(f) == 80, "a file is no terminal");
    fclose(f);
}

TEST(interrupts) {
    POSIX_ONLY("no signals between processes");
    fflush(stdout);
    static const int first[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork();
        if (!child) {
            for (int k = 0; k < 4; k++) signal(first[k], SIG_DFL);     /* whatever these tests were started with */
            if (i == 4) signal(SIGINT, SIG_IGN), signal(SIGHUP, SIG_IGN);
            cr_os_catch_interrupt();
            if (i == 4) raise(SIGINT), raise(SIGHUP);              /* ignored before: still so */
            if (cr_os_interrupted()) _exit(1);
            raise(i < 4 ? first[i] : SIGTERM);
            if (!cr_os_interrupted()) _exit(2);
            for (int k = 1; k < 4; k++) raise(first[k]);            /* only a second Ctrl-C kills */
            if (i) raise(SIGINT);
            raise(SIGINT);
            _exit(3);
        }
        int status = 0;
        waitpid(child, &status, 0);
        const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT,
                   ended = WIFEXITED(status) && WEXITSTATUS(status) == 3;
        CHECK(i < 4 ? killed : ended, "case %d: the child ended with status %x", i, (unsigned)status);
    }
}

/* ---- the library's own names ---- */
static void write_plain(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    REQUIRE(f && fputs(text, f) >= 0 && !fclose(f), "cannot write %s", path);
}

static bool is_letter(const char *name) { return strlen(name) == 1; }

TEST(links_of_own_names_are_not_followed) {
    POSIX_ONLY("links need a privilege");
    static const char *const names[] = {".chainrule-new", ".chainrule-ready", ".chainrule-commit", ".chainrule-old",
                                        "real/.chainrule-new", "link/.chainrule-new", ".chainrule-new/",
                                        "real/.chainrule-old/.chainrule-new"};
    char at[300], inside[320], temporary[340], victim[300];
    snprintf(victim, sizeof victim, "%s", in_folder("victim"));
    REQUIRE(cr_os_make_directory(victim) && cr_os_make_directory(in_folder("real/.chainrule-old")), "%s",
            cr_os_error());
    write_plain(in_folder("victim/dear"), "data");
    CHECK(!symlink("real", in_folder("link")), "link");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(at, sizeof at, "%s", in_folder(names[i]));
        const bool slash = at[strlen(at) - 1] == '/';
        if (slash) at[strlen(at) - 1] = 0;
        CHECK(!symlink(in_folder("victim"), at), "%s", at);
        if (slash) strcat(at, "/");
        snprintf(inside, sizeof inside, "%s/dear", at);
        cr_mapping m;
        size_t letters = 0;
        CHECK(!cr_os_is_directory(at) && !cr_os_exists(inside) && !cr_os_map(inside, &m), "%s is followed", at);
        CHECK(!cr_os_file_id(inside).inode && cr_os_hold(at) == -1, "%s is followed", at);
        cr_os_each_entry(at, count_entry, &letters);
        CHECK(!letters && !cr_os_make_directory(at) && !cr_os_remove(inside), "%s is followed", at);
        CHECK(!cr_os_remove_folder(at), "%s is cleared", at);
        CHECK(!cr_os_create_beside(inside, temporary, sizeof temporary), "a file in %s", at);
        CHECK(!cr_os_rename(inside, in_folder("moved")) && !cr_os_share(inside, in_folder("moved")), "out of %s", at);
        write_plain(in_folder("x"), "new");
        CHECK(!cr_os_rename(in_folder("x"), inside) && cr_os_remove(in_folder("x")), "into %s", at);
        if (slash) at[strlen(at) - 1] = 0;
        CHECK(cr_os_exists(at) && cr_os_is_link(at) && cr_os_remove(at) && !cr_os_exists(at), "%s", cr_os_error());
        CHECK(cr_os_is_plain(in_folder("victim/dear")), "the file behind %s is gone", at);
    }
    /* a link in a folder of that name; a folder that is a link itself */
    CHECK(cr_os_make_directory(in_folder("link/.chainrule-new")), "%s", cr_os_error());
    CHECK(cr_os_is_directory(in_folder("real/.chainrule-new")), "below a folder that is a link");
    CHECK(!symlink(in_folder("victim/dear"), in_folder("real/.chainrule-new/a")), "link");
    cr_mapping m;
    CHECK(!cr_os_map(in_folder("link/.chainrule-new/a"), &m) && cr_os_map(in_folder("victim/dear"), &m), "a link");
    cr_os_unmap(&m);
    int held = cr_os_hold(in_folder("link/.chainrule-new"));
    CHECK(held >= 0 && !cr_os_clear_held(held, is_letter) && strstr(cr_os_error(), "'a'"), "%s", cr_os_error());
    CHECK(cr_os_remove(in_folder("real/.chainrule-new/a")), "%s", cr_os_error());
    write_plain(in_folder("real/.chainrule-new/b"), "1");
    write_plain(in_folder("real/.chainrule-new/.chainrule-1-2.tmp"), "1");
    write_plain(in_folder("real/.chainrule-new/thesis"), "dear");
    CHECK(!cr_os_clear_held(held, is_letter) && strstr(cr_os_error(), "'thesis'") &&
              cr_os_exists(in_folder("real/.chainrule-new/b")),
          "%s", cr_os_error());
    CHECK(cr_os_remove(in_folder("real/.chainrule-new/thesis")), "%s", cr_os_error());
    CHECK(cr_os_clear_held(held, is_letter) && cr_os_remove(in_folder("real/.chainrule-new")), "%s", cr_os_error());
    cr_os_let_go(held);
    CHECK(cr_os_remove_folder(victim) && cr_os_remove(in_folder("link")) &&
              cr_os_remove(in_folder("real/.chainrule-old")) && cr_os_remove(in_folder("real")),
          "%s", cr_os_error());
    CHECK(files_in_folder() == 0, "%d files left", files_in_folder());
}

TEST(a_folder_is_held) {
    const char *dir = in_folder(".chainrule-new");
    REQUIRE(cr_os_make_directory(dir), "%s", cr_os_error());
    const int held = cr_os_hold(dir);
    CHECK(held >= 0 && cr_os_hold(dir) == -2, "held twice");
    cr_os_let_go(held);
    const int again = cr_os_hold(dir);
    CHECK(again >= 0, "%s", cr_os_error());
    cr_os_let_go(again);
    CHECK(cr_os_remove(dir) && cr_os_hold(dir) == -1, "a folder that is not there");
}

TEST(temporary_files_of_killed_processes) {
    POSIX_ONLY("no fork");
    static const char *const foreign[] = {"mine.tmp", ".chainrule-1-2.tmp~", ".chainrule-a-2.tmp", ".chainrule-1.tmp"};
    char live[300], path[300];
    const pid_t child = fork();
    if (!child) {                                   /* is killed between two writes */
        for (int i = 0; i < 3; i++) {
            FILE *f = cr_os_create_beside(in_folder("target"), live, sizeof live);
            if (!f || fputs("half a tensor", f) < 0 || fflush(f)) _exit(1);
        }
        raise(SIGKILL);
    }
    int how = 0;
    REQUIRE(waitpid(child, &how, 0) == child && WIFSIGNALED(how), "the child ended with %d", how);
    REQUIRE(files_in_folder() == 3, "%d files are left of it", files_in_folder());
    for (int i = 0; i < 4; i++) write_plain(in_folder(foreign[i]), "mine");
    write_plain(in_folder("victim"), "dear");
    CHECK(!symlink("victim", in_folder(".chainrule-7-7.tmp")) && !mkdir(in_folder(".chainrule-8-8.tmp"), 0700), "made");
    FILE *f = cr_os_create_beside(in_folder("target"), live, sizeof live);
    CHECK(f && files_in_folder() == 8, "%d files in place of 8", files_in_folder());
    CHECK(write_file(in_folder("other"), "x") && files_in_folder() == 9 && cr_os_exists(live), "one of a live writer");
    CHECK(f && cr_os_commit(f, live, in_folder("target")) && cr_os_exists(in_folder("target")), "%s", cr_os_error());
    static const char *const left[] = {"target", "other", "victim", ".chainrule-7-7.tmp", ".chainrule-8-8.tmp"};
    for (int i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "%s", in_folder(i < 4 ? foreign[i] : left[i - 4]));
        CHECK(cr_os_remove(path), "%s: %s", path, cr_os_error());
    }
    CHECK(files_in_folder() == 0, "%d files left", files_in_folder());
}

static unsigned mode_of(const char *path) {
    struct stat st;
    return stat(path, &st) ? 0 : st.st_mode & 07777;
}

TEST(a_replaced_file_keeps_its_mode) {
    POSIX_ONLY("files have no mode");
    const char *path = in_folder("private"), *next = in_folder("next"), *link = in_folder("link");
    const mode_t before = umask(027);
    static const unsigned modes[] = {0600, 0640, 0666, 0604};
    CHECK(write_file(path, "1") && mode_of(path) == 0640, "%o", mode_of(path));
    for (int i = 0; i < 4; i++) {
        CHECK(!chmod(path, modes[i]) && write_file(path, "2") && mode_of(path) == modes[i], "%o", mode_of(path));
        CHECK(write_file(next, "3") && cr_os_rename(next, path) && mode_of(path) == modes[i], "%o", mode_of(path));
    }
    char temporary[300];
    CHECK(!chmod(path, 0600), "chmod");
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    CHECK(f && mode_of(temporary) == 0600, "while it is written: %o", mode_of(temporary));
    cr_os_abandon(f, temporary);
    CHECK(!symlink("private", link) && write_file(link, "4") && cr_os_is_plain(link), "the link is replaced");
    CHECK(!chmod(path, 0400), "chmod");
    if (geteuid()) CHECK(!write_file(path, "5") && strstr(cr_os_error(), "denied"), "a file that is read-only");
    CHECK(cr_os_remove(path) && cr_os_remove(link), "%s", cr_os_error());
    umask(before);
    CHECK(files_in_folder() == 0, "%d files left", files_in_folder());
}
