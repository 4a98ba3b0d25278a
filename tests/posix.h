/* posix.h - processes, links, limits and the environment for tests.  Windows lacks most of it: a test that needs it
 * starts with POSIX_ONLY("why"), which skips it there; the functions below let it compile. */
#ifndef CR_TEST_POSIX_H
#define CR_TEST_POSIX_H

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef _WIN32
#include <sys/resource.h>
#include <sys/wait.h>
#define POSIX_ONLY(why) (void)0
#define ON_POSIX(...) __VA_ARGS__
#else
#include <direct.h>
#include <io.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>
#define POSIX_ONLY(why) SKIP("Windows: " why)
#define ON_POSIX(...)

enum { RLIMIT_FSIZE, F_GETFD };
enum { SIGXFSZ = SIGTERM, SIGALRM = SIGTERM, SIGKILL = SIGTERM, SIGHUP = SIGTERM, SIGPIPE = SIGTERM };
typedef long long rlim_t;
struct rlimit { rlim_t rlim_cur, rlim_max; };
#define WIFEXITED(status) ((void)(status), 0)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) ((void)(status), 0)
#define WTERMSIG(status) (status)
#define mkdir(path, mode) ((void)(mode), _mkdir(path))
#define execl(...) (-1)
#define fcntl(fd, what) ((void)(fd), (void)(what), -1)
#define kill(id, number) ((void)(id), (void)(number), -1)

static inline pid_t fork(void) { return -1; }
static inline pid_t waitpid(pid_t id, int *status, int how) { return (void)id, (void)status, (void)how, -1; }
static inline unsigned alarm(unsigned seconds) { return seconds; }
static inline int mkfifo(const char *path, int mode) { return (void)path, mode; }
static inline int symlink(const char *to, const char *path) { return (void)to, (void)path, -1; }
static inline long readlink(const char *path, char *to, size_t room) {
    return (void)path, (void)to, (void)room, -1;
}
static inline int getrlimit(int which, struct rlimit *l) { return (void)which, (void)l, -1; }
static inline int setrlimit(int which, const struct rlimit *l) { return (void)which, (void)l, -1; }
static inline unsigned geteuid(void) { return 1; }
static inline int unsetenv(const char *name) { return _putenv_s(name, ""); }
static inline int setenv(const char *name, const char *value, int again) {
    return !again && getenv(name) ? 0 : _putenv_s(name, value);
}
#endif

/* Starts this test program once more: not where an emulator runs it (tools/test_targets.py says so). */
#define NEEDS_ITSELF()                                                                             \
    do {                                                                                           \
        POSIX_ONLY("no fork");                                                                     \
        if (getenv("CHAINRULE_TEST_EMULATED")) SKIP("an emulator runs this program: it cannot start itself"); \
    } while (0)

#endif
