/* nvrtc.c - the simulated NVRTC: CUDA C++ through the host's compiler, with sim.h before it, into a
 * shared object that stands for a cubin.
 *
 * The text stays the same, line by line, with three changes: each kernel is added to a table after its
 * body; `extern __shared__` loses its second word, and the name gets memory; and
 * CUDASIM_DROP_BARRIER="file:n" removes the n-th __syncthreads or __syncwarp of a file (1 is the
 * first; a file is what the last #line said, or the program's name), which the tests must detect; in
 * hopper.cu also what orders the units of sm_90a.
 * With CUDASIM_COUNT=1 each access to memory is counted. */
#define _GNU_SOURCE
#include "nvidia.h"
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

extern char **environ;

typedef struct text { char *at; size_t length, room; } text;
/* architecture: 80; -80: compute_80; specific: sm_90a */
struct _nvrtcProgram { char *source, *name; text log, image; int architecture; bool specific; };

static void append(text *t, const char *from, size_t n) {
    if (t->length + n + 1 > t->room) t->at = realloc(t->at, t->room = 2 * t->room + n + 1024);
    memcpy(t->at + t->length, from, n);
    t->at[t->length += n] = 0;
}
static void add(text *t, const char *words) { append(t, words, strlen(words)); }

static int version(void) { const char *wish = getenv("CUDASIM_NVRTC"); return wish ? atoi(wish) : 13; }

API nvrtcResult nvrtcVersion(int *major, int *minor) {
    if (!major || !minor) return NVRTC_ERROR_INVALID_INPUT;
    *major = version();
    *minor = 0;
    return NVRTC_SUCCESS;
}

API nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int headers,
                                   const char *const *contents, const char *const *names) {
    (void)contents, (void)names;
    if (!out || !source || headers) return NVRTC_ERROR_INVALID_INPUT;
    nvrtcProgram p = calloc(1, sizeof *p);
    p->source = strdup(source);
    p->name = strdup(name && *name ? name : "default_program");
    *out = p;
    return NVRTC_SUCCESS;
}

API nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p) {
    if (!p || !*p) return NVRTC_ERROR_INVALID_PROGRAM;
    free((*p)->source);
    free((*p)->name);
    free((*p)->log.at);
    free((*p)->image.at);
    free(*p);
    *p = NULL;
    return NVRTC_SUCCESS;
}

/* ---- the text */
/* The length of the word, comment, string, run of spaces, or other character that begins here; 0 at the end. */
static size_t word_at(const char *start) {
    const char *at = start;
    if (isalpha((unsigned char)*at) || *at == '_') while (isalnum((unsigned char)*at) || *at == '_') at++;
    else if (isdigit((unsigned char)*at)) while (isalnum((unsigned char)*at) || *at == '.' || *at == '\'') at++;
    else if (!strncmp(at, "//", 2)) at += strcspn(at, "\n");
    else if (!strncmp(at, "/*", 2)) at = strstr(at + 2, "*/") ? strstr(at + 2, "*/") + 2 : at + strlen(at);
    else if (*at == '"' || *at == '\'') {
        for (at++; *at && *at != *start; at++)
            if (*at == '\\' && at[1]) at++;
        if (*at) at++;
    } else if (isspace((unsigned char)*at)) while (isspace((unsigned char)*at)) at++;
    else if (*at) at++;
    return (size_t)(at - start);
}

static bool is_word(const char *at) { return isalpha((unsigned char)*at) || *at == '_'; }

/* #line 12 "name" changes the file, which is at least 200 bytes; a file goes on after what it includes. */
static void line_directive(const char *at, char *file) {
    sscanf(at, "# line %*d \"%199[^\"]\"", file);
}

typedef struct word { const char *at; size_t length; } word;
static bool is(word n, const char *what) { return strlen(what) == n.length && !memcmp(n.at, what, n.length); }
static bool same(word a, word b) { return a.length == b.length && !memcmp(a.at, b.at, a.length); }

typedef struct rewriter {
    text out, labels;                               /* labels: the names of dynamic shared memory */
    char file[200], kernel[200], drop_file[200];
    int barriers, drop;                             /* of drop_file so far; the one to remove */
    word starters[16];                              /* __global__ and macros that hold it: what a kernel begins with */
    int starter_count, depth, parentheses, begins;  /* begins: the depth at which the kernel began whose body this
                                                     * is, or -1 */
    bool header, external, dropped;                 /* between a starter and the body; between `extern __shared__`
                                                     * and its name; a barrier was removed */
    word last, defined;                             /* word; macro */
} rewriter;

static bool starts_kernel(const rewriter *r, word n) {
    for (int i = 0; i < r->starter_count; i++)
        if (same(r->starters[i], n)) return true;
    return false;
}

static void kernel_ends(rewriter *r) {
    add(&r->out, " CUDASIM_KERNEL(");
    add(&r->out, r->kernel);
    add(&r->out, ")");
    r->begins = -1;
}

/* A word or character outside the preprocessor's lines, after it was copied: where kernels begin and end. */
static void follow(rewriter *r, word n) {
    switch (*n.at) {
    case '(':
        if (r->header && !r->parentheses && !starts_kernel(r, r->last) && !is(r->last, "__launch_bounds__"))
            snprintf(r->kernel, sizeof r->kernel, "%.*s", (int)r->last.length, r->last.at);
        r->parentheses++;
        break;
    case ')': r->parentheses--; break;
    case ';': r->header = false; break;             /* of a declaration */
    case '{':
        if (r->header) r->begins = r->depth;
        r->header = false;
        r->depth++;
        break;
    case '}':
        if (--r->depth == r->begins) kernel_ends(r);
        break;
    default:
        if (starts_kernel(r, n)) r->header = true;
    }
}

static bool is_barrier(const rewriter *r, word n) {
    static const char *const of_hopper[] = {"barrier_wait", "barrier_arrive", "barrier_expect",  "synchronize",
                                            "arrive",       "begin_products", "commit_products", "publish"};
    bool found = is(n, "__syncthreads") || is(n, "__syncwarp");
    for (int i = 0; i < COUNT(of_hopper) && !strcmp(r->file, "hopper.cu"); i++) found |= is(n, of_hopper[i]);
    return found;
}

/* The source as the host's compiler gets it, line by line. */
static text rewrite(const char *source, const char *program, bool *dropped) {
    rewriter r = {.begins = -1, .starters = {{"__global__", 10}}, .starter_count = 1};
    const char *wish = getenv("CUDASIM_DROP_BARRIER"), *colon = wish ? strrchr(wish, ':') : NULL;
    if (colon) {
        snprintf(r.drop_file, sizeof r.drop_file, "%.*s", (int)(colon - wish), wish);
        r.drop = atoi(colon + 1);
    }
    snprintf(r.file, sizeof r.file, "%s", program);
    /* on a line of the preprocessor; nothing yet on this line */
    bool directive = false, first = true, after_extern = false;
    for (word n; (n.length = word_at(n.at = source));) {
        source += n.length;
        if (isspace((unsigned char)*n.at) || (n.length > 1 && *n.at == '/')) {
            for (size_t i = 0; i < n.length; i++)
                if (n.at[i] == '\n' && *n.at != '/') {
                    const char *before = n.at + i;
                    if (directive && before[-1] != '\\') directive = false;
                    first = true;
                }
            append(&r.out, n.at, n.length);
            continue;
        }
        if (first && *n.at == '#') {
            directive = true;
            line_directive(n.at, r.file);
        }
        first = false;
        if (is(n, "__shared__") && after_extern) {
            r.external = true;
            after_extern = false;
            continue;
        }
        after_extern = is(n, "extern");
        if (!strcmp(r.file, r.drop_file) && is_barrier(&r, n) && ++r.barriers == r.drop) {
            add(&r.out, "cudasim_dropped");
            r.dropped = true;
            continue;
        }
        append(&r.out, n.at, n.length);
        if (r.external && *n.at == '[') {
            r.external = false;
            append(&r.labels, r.last.at, r.last.length);
            add(&r.labels, ":\\n");
        }
        if (directive) {
            if (is(r.last, "define") && is_word(n.at)) r.defined = n;
            if (is(n, "__global__") && r.starter_count < COUNT(r.starters)) r.starters[r.starter_count++] = r.defined;
        } else follow(&r, n);
        if (is_word(n.at)) r.last = n;
    }
    add(&r.out, "\nCUDASIM_END(\"");
    append(&r.out, r.labels.at ? r.labels.at : "", r.labels.length);
    add(&r.out, "\")\n");
    free(r.labels.at);
    *dropped = r.dropped;
    return r.out;
}

/* ---- options: NVRTC's that change what is compiled are passed on, those about code for a GPU mean nothing here */
static bool starts(const char *option, const char *with) { return !strncmp(option, with, strlen(with)); }

static const char *const architectures[] = {
    "60",   "61",   "62",  "70",   "72",   "75",  "80",   "86",   "87",  "88",   "89",   "90",  "90a",  "100",
    "100a", "100f", "103", "103a", "103f", "110", "110a", "110f", "120", "120a", "120f", "121", "121a", "121f"};
static int first_architecture(void) { return version() > 12 ? 5 : 0; }         /* CUDA 13 begins with 7.5 */

static bool known_architecture(const char *name) {
    for (int i = first_architecture(); i < COUNT(architectures); i++)
        if (!strcmp(architectures[i], name)) return true;
    return false;
}

API nvrtcResult nvrtcGetSupportedArchs(int *known) {
    if (!known) return NVRTC_ERROR_INVALID_INPUT;
    for (int i = first_architecture(); i < COUNT(architectures); i++)
        if (!strpbrk(architectures[i], "af")) *known++ = atoi(architectures[i]);
    return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
    if (!count) return NVRTC_ERROR_INVALID_INPUT;
    *count = 0;
    for (int i = first_architecture(); i < COUNT(architectures); i++) *count += !strpbrk(architectures[i], "af");
    return NVRTC_SUCCESS;
}

static nvrtcResult read_options(nvrtcProgram p, int count, const char *const *options, const char **command, int *words,
                                int room) {
    static const char *const ignored[] = {"--fmad",
                                          "-fmad",
                                          "--use_fast_math",
                                          "-use_fast_math",
                                          "--default-device",
                                          "-default-device",
                                          "--device-as-default-execution-space",
                                          "--generate-line-info",
                                          "-lineinfo",
                                          "--restrict",
                                          "-restrict",
                                          "--maxrregcount",
                                          "-maxrregcount",
                                          "--ptxas-options",
                                          "-Xptxas",
                                          "--extra-device-vectorization",
                                          "-extra-device-vectorization",
                                          "--disable-warnings",
                                          "-w",
                                          "--no-cache",
                                          "-no-cache",
                                          "--minimal",
                                          "-minimal",
                                          "--ftz",
                                          "-ftz",
                                          "--prec-div",
                                          "-prec-div",
                                          "--prec-sqrt",
                                          "-prec-sqrt",
                                          "--split-compile",
                                          "-split-compile",
                                          "--dopt",
                                          "-dopt",
                                          "--device-debug",
                                          "-G"};
    for (int i = 0; i < count; i++) {
        const char *o = options[i], *value = strchr(o, '=');
        bool fine = false;
        if (*words + 3 >= room) return NVRTC_ERROR_INVALID_OPTION;
        if (starts(o, "-D") || starts(o, "-U") || starts(o, "-I")) fine = true, command[(*words)++] = o;
        else if (starts(o, "--std=") || starts(o, "-std=")) {
            fine = !strcmp(value, "=c++17") || !strcmp(value, "=c++14") || !strcmp(value, "=c++20");
            command[(*words)++] = !strcmp(value, "=c++20")   ? "-std=gnu++20"
                                  : !strcmp(value, "=c++14") ? "-std=gnu++14"
                                                             : "-std=gnu++17";
        } else if (starts(o, "--gpu-architecture=") || starts(o, "-arch=")) {
            const bool machine = starts(value, "=sm_");
            const char *name = value + (machine ? 4 : starts(value, "=compute_") ? 9 : 0);
            fine = known_architecture(name);
            p->architecture = machine ? atoi(name) : -atoi(name);
            p->specific = strchr(name, 'a') != NULL;
        } else
            for (int j = 0; j < COUNT(ignored); j++)
                fine |= value ? (size_t)(value - o) == strlen(ignored[j]) && starts(o, ignored[j])
                              : !strcmp(o, ignored[j]);
        if (fine) continue;
        add(&p->log, "nvrtc: error: ");
        add(&p->log, value ? "invalid value for option or unrecognized option: " : "unrecognized option ");
        add(&p->log, o);
        add(&p->log, "\n");
        return NVRTC_ERROR_INVALID_OPTION;
    }
    return NVRTC_SUCCESS;
}

/* ---- the compiler */
static bool read_all(int file, text *into) {
    char buffer[1 << 16];
    ssize_t n;
    while ((n = read(file, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) append(into, buffer, (size_t)n);
    return n == 0;
}

/* Runs a command and collects its two outputs; returns its exit status, or -1. */
static int spawn(const char *const *command, text *said) {
    int ends[2], status = -1;
    pid_t child;
    if (pipe2(ends, O_CLOEXEC)) return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    const int failed = posix_spawnp(&child, command[0], &actions, NULL, (char **)(uintptr_t)command, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!failed) {
        read_all(ends[0], said);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    }
    close(ends[0]);
    return failed || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/* name:12:5: error: words -> name(12): error: words; what else the host's compiler says goes through,
 * but for "In function" */
static void as_nvrtc(const text *said, text *log) {
    for (const char *line = said->at, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        char name[200], kind[20];
        int row, column, used = 0;
        if (sscanf(line, "%199[^:\n]:%d:%d: %19[a-z ]: %n", name, &row, &column, kind, &used) == 4 && used) {
            char head[300];
            snprintf(head, sizeof head, "%s(%d): %s: ", name, row, strstr(kind, "error") ? "error" : kind);
            add(log, head);
            append(log, line + used, (size_t)(end - line - used));
        } else if (!strstr(line, ": In ") && !strstr(line, ": At ")) append(log, line, (size_t)(end - line));
    }
}

static bool write_file(const char *path, const text *t) {
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const bool written = fwrite(t->at, 1, t->length, f) == t->length;
    return fclose(f) == 0 && written;
}

/* CUDASIM_KEEP=folder: every compiled text is kept there, for other compilers. */
static void keep(const char *source) {
    const char *folder = getenv("CUDASIM_KEEP");
    if (!folder) return;
    char path[400];
    uint64_t h = 0xcbf29ce484222325u;               /* FNV-1a */
    for (const char *at = source; *at; at++) h = (h ^ (unsigned char)*at) * 0x100000001b3u;
    snprintf(path, sizeof path, "%.350s/%016llx.cu", folder, (unsigned long long)h);
    const text t = {(char *)(uintptr_t)source, strlen(source), 0};
    write_file(path, &t);
}

API nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options) {
    if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
    p->log.length = p->image.length = 0;
    p->architecture = -75;
    if (version() == 13 && !dlopen("libnvrtc-builtins.so.13.0", RTLD_LAZY | RTLD_NOLOAD)) {
        add(&p->log, "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n  Make sure that "
                     "libnvrtc-builtins.so.13.0 is installed correctly.");
        return NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
    }
    static const char *const flags[] = {
        CUDASIM_COMPILER,
        "-x",
        "c++",
        "-include",
        CUDASIM_SHIM,
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-nostdlib",
        "-w",
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-strict-aliasing",
        "-ffp-contract=off",
        "-fdiagnostics-color=never",
        "-fno-diagnostics-show-caret",
        "-fno-asynchronous-unwind-tables",
        "-std=gnu++17",
#if defined CUDASIM_THREAD
        "-Og",
        "-g1",
        "-fsanitize=thread",
        "-DCUDASIM_THREAD",
#elif defined CUDASIM_ADDRESS
        "-Og",
        "-g1",
        "-fsanitize=address",
#else
        "-O0",
        "-fsanitize=alignment",
#endif
    };
    const char *command[200];
    int words = 0;
    for (int i = 0; i < COUNT(flags); i++) command[words++] = flags[i];
#if !defined CUDASIM_THREAD && !defined CUDASIM_ADDRESS
    if (getenv("CUDASIM_COUNT")) {                  /* each access is a call: optimized */
        command[words++] = "-DCUDASIM_TRAFFIC";
        command[words++] = "-fsanitize=thread";
        command[words++] = "-Og";
    }
#endif
    const nvrtcResult status = read_options(p, count, options, command, &words, COUNT(command) - 8);
    if (status) return status;

    keep(p->source);
    char folder[300], in[320], out[320], define[60], specific[40];
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.250s/cudasim-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return NVRTC_ERROR_INTERNAL_ERROR;
    snprintf(in, sizeof in, "%s/in", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(define, sizeof define, "-DCUDASIM_ARCHITECTURE=%d", p->architecture);
    snprintf(specific, sizeof specific, "-DCUDASIM_SPECIFIC=%d", p->specific);
    bool dropped = false;
    text source = {0}, said = {0}, body = rewrite(p->source, p->name, &dropped);
    add(&source, "#line 1 \"");
    add(&source, p->name);
    add(&source, "\"\n");
    append(&source, body.at, body.length);
    command[words++] = define;
    command[words++] = specific;
    command[words++] = in;
    command[words++] = "-l:libm.so.6";
    command[words++] = "-lgcc";                     /* has the functions that count bits */
    command[words++] = "-o";
    command[words++] = out;
    command[words] = NULL;
    const int exit_status = write_file(in, &source) ? spawn(command, &said) : -1;
    as_nvrtc(&said, &p->log);
    const int made = exit_status == 0 ? open(out, O_RDONLY | O_CLOEXEC) : -1;
    const bool done = made >= 0 && read_all(made, &p->image);
    if (made >= 0) close(made);
    unlink(in);
    unlink(out);
    rmdir(folder);
    if (dropped) fprintf(stderr, "cudasim: a barrier was dropped: %s\n", getenv("CUDASIM_DROP_BARRIER"));
    free(source.at);
    free(body.at);
    free(said.at);
    return done ? NVRTC_SUCCESS : exit_status > 0 ? NVRTC_ERROR_COMPILATION : NVRTC_ERROR_INTERNAL_ERROR;
}

/* ---- results: compute_80 has no machine code; its PTX differs only in the architecture */
static nvrtcResult size_of(nvrtcProgram p, size_t *size, bool there) {
    if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
    *size = there ? p->image.length : 0;
    return NVRTC_SUCCESS;
}
static nvrtcResult get(nvrtcProgram p, char *image, bool there) {
    if (!p || !there) return NVRTC_ERROR_INVALID_PROGRAM;
    if (p->image.length) memcpy(image, p->image.at, p->image.length);
    return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *size) { return size_of(p, size, p && p->architecture > 0); }
API nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *image) { return get(p, image, p && p->architecture > 0); }
API nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *size) { return size_of(p, size, p && p->architecture < 0); }
API nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *image) { return get(p, image, p && p->architecture < 0); }
API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *size) {
    if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
    *size = p->log.length + 1;
    return NVRTC_SUCCESS;
}
API nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) {
    if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
    memcpy(log, p->log.at ? p->log.at : "", p->log.length);
    log[p->log.length] = 0;
    return NVRTC_SUCCESS;
}

API const char *nvrtcGetErrorString(nvrtcResult status) {
    switch (status) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_PROGRAM_CREATION_FAILURE: return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case NVRTC_ERROR_INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE: return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    case NVRTC_ERROR_INTERNAL_ERROR: return "NVRTC_ERROR_INTERNAL_ERROR";
    }
    return "NVRTC_ERROR unknown";
}
