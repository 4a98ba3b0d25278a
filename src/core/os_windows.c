/* os_windows.c - the platform on Windows 10 and later.  Paths are UTF-8 here and UTF-16 there; what the system does not
 * have (forks, signals between processes) fails with a reason. */
#include "os.h"

#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#define WIN32_LEAN_AND_MEAN
#define _CRT_RAND_S
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <process.h>
#include <psapi.h>
#include <shellapi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- errors and texts ---- */
static _Thread_local char error_text[384];

const char *cr_os_error(void) { return error_text; }

static bool failed_with(const char *text) {
    snprintf(error_text, sizeof error_text, "%s", text);
    return false;
}

/* The words that C's library has on every system, where it has them. */
static bool failed(DWORD code) {
    static const struct { DWORD code; const char *text; } known[] = {
        {ERROR_FILE_NOT_FOUND, "No such file or directory"}, {ERROR_PATH_NOT_FOUND, "No such file or directory"},
        {ERROR_INVALID_NAME, "No such file or directory"},   {ERROR_ACCESS_DENIED, "Permission denied"},
        {ERROR_SHARING_VIOLATION, "Another program uses the file"},
        {ERROR_USER_MAPPED_FILE, "A program has the file mapped"},
        {ERROR_DISK_FULL, "No space left on device"},        {ERROR_HANDLE_DISK_FULL, "No space left on device"},
        {ERROR_ALREADY_EXISTS, "File exists"},               {ERROR_FILE_EXISTS, "File exists"},
        {ERROR_DIR_NOT_EMPTY, "Directory not empty"},        {ERROR_DIRECTORY, "Not a directory"},
        {ERROR_FILENAME_EXCED_RANGE, "File name too long"},  {ERROR_NOT_ENOUGH_MEMORY, "Cannot allocate memory"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) return failed_with(known[i].text);
    wchar_t text[256];
    const DWORD how = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS,
                n = FormatMessageW(how, NULL, code, 0, text, 256, NULL);
    if (!n || !WideCharToMultiByte(CP_UTF8, 0, text, -1, error_text, sizeof error_text, NULL, NULL))
        snprintf(error_text, sizeof error_text, "error %lu of Windows", code);
    error_text[strcspn(error_text, "\r\n")] = 0;
    return false;
}

static char *narrow(const wchar_t *from) {          /* malloc; NULL: no memory */
    const int n = WideCharToMultiByte(CP_UTF8, 0, from, -1, NULL, 0, NULL, NULL);
    char *to = n > 0 ? malloc((size_t)n) : NULL;
    if (to) WideCharToMultiByte(CP_UTF8, 0, from, -1, to, n, NULL, NULL);
    return to;
}

static wchar_t *widen(const char *from) {           /* malloc; NULL: no memory, or not UTF-8 */
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, from, -1, NULL, 0);
    wchar_t *to = n > 0 ? malloc((size_t)n * sizeof *to) : NULL;
    if (to) MultiByteToWideChar(CP_UTF8, 0, from, -1, to, n);
    return to;
}

/* ---- threads ---- */
struct cr_thread { HANDLE handle; void (*fn)(void *); void *arg; };
struct cr_mutex { SRWLOCK lock; };
struct cr_cond { CONDITION_VARIABLE c; };

static unsigned __stdcall thread_main(void *p) {
    const cr_thread t = *(cr_thread *)p;
    if (!t.handle) free(p);                         /* nobody waits for it */
    t.fn(t.arg);
    return 0;
}

static cr_thread *start(void (*fn)(void *), void *arg, bool waited_for) {
    cr_thread *t = malloc(sizeof *t);
    if (!t) return NULL;
    *t = (cr_thread){NULL, fn, arg};
    unsigned id;
    const unsigned how = CREATE_SUSPENDED | STACK_SIZE_PARAM_IS_A_RESERVATION;
    const HANDLE handle = (HANDLE)_beginthreadex(NULL, 4 << 20, thread_main, t, how, &id);
    if (!handle) { free(t); return NULL; }
    if (waited_for) t->handle = handle;
    ResumeThread(handle);
    if (!waited_for) CloseHandle(handle);
    return t;                                       /* may have ended, where nobody waits */
}

cr_thread *cr_thread_start(void (*fn)(void *), void *arg) { return start(fn, arg, true); }
bool cr_thread_detached(void (*fn)(void *), void *arg) { return start(fn, arg, false) != NULL; }

void cr_thread_join(cr_thread *t) {
    if (!t) return;
    WaitForSingleObject(t->handle, INFINITE);
    CloseHandle(t->handle);
    free(t);
}

cr_mutex *cr_mutex_new(void) { return calloc(1, sizeof(cr_mutex)); }
void cr_mutex_free(cr_mutex *m) { free(m); }
void cr_mutex_lock(cr_mutex *m) { AcquireSRWLockExclusive(&m->lock); }
void cr_mutex_unlock(cr_mutex *m) { ReleaseSRWLockExclusive(&m->lock); }
cr_cond *cr_cond_new(void) { return calloc(1, sizeof(cr_cond)); }
void cr_cond_free(cr_cond *c) { free(c); }
void cr_cond_wait(cr_cond *c, cr_mutex *m) { SleepConditionVariableSRW(&c->c, &m->lock, INFINITE, 0); }
void cr_cond_signal_all(cr_cond *c) { WakeAllConditionVariable(&c->c); }

void cr_os_relax(void) { YieldProcessor(); }

void cr_spin_lock(cr_spinlock *l) {
    for (int tries = 0, seen = 0;
         !__atomic_compare_exchange_n(&l->held, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); seen = 0) {
        if (++tries < 100) cr_os_relax();
        else SwitchToThread();
    }
}

void cr_spin_unlock(cr_spinlock *l) { __atomic_store_n(&l->held, 0, __ATOMIC_RELEASE); }

void cr_word_lock(volatile int *word) {             /* 1: held; 2: and threads may sleep */
    int seen = 0;
    if (__atomic_compare_exchange_n(word, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE)) cr_os_sleep_on(word, 2, 0);
}

void cr_word_unlock(volatile int *word) {
    if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) == 2) cr_os_wake(word, 1);
}

void cr_os_sleep_on(volatile int *word, int value, double seconds) {
    const double ms = seconds * 1e3 + 1;
    WaitOnAddress(word, &value, sizeof value, seconds > 0 ? (ms < 1e9 ? (DWORD)ms : 1000000000) : INFINITE);
}

void cr_os_wake_all(volatile int *word) { WakeByAddressAll((void *)(uintptr_t)word); }

void cr_os_wake(volatile int *word, int threads) {
    if (threads > 8) cr_os_wake_all(word);
    else for (int i = 0; i < threads; i++) WakeByAddressSingle((void *)(uintptr_t)word);
}

int cr_os_cpu_count(void) {
    DWORD_PTR ours = 0, all = 0;
    int n = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &ours, &all))
        for (; ours; ours &= ours - 1) n++;
    return n > 0 ? n : 1;
}

int64_t cr_os_process_id(void) { return (int64_t)GetCurrentProcessId(); }

void cr_os_host_name(char *out, size_t room) {
    wchar_t name[MAX_COMPUTERNAME_LENGTH + 1];
    DWORD n = MAX_COMPUTERNAME_LENGTH + 1;
    char *text = GetComputerNameW(name, &n) ? narrow(name) : NULL;
    snprintf(out, room, "%s", text ? text : "unknown");
    free(text);
}

void cr_os_leave(int code) { TerminateProcess(GetCurrentProcess(), (UINT)code); abort(); }
void cr_os_before_fork(void (*fn)(void)) { (void)fn; }
void cr_os_at_fork_child(void (*fn)(void)) { (void)fn; }

enum { EXIT_FNS = 4 };
static void (*exit_fns[EXIT_FNS])(void);            /* filled from the front */
static DWORD exit_slot = FLS_OUT_OF_INDEXES;

static void WINAPI run_at_exit(void *set) {
    (void)set;
    for (int i = 0; i < EXIT_FNS; i++) {
        void (*fn)(void) = __atomic_load_n(&exit_fns[i], __ATOMIC_ACQUIRE);
        if (fn) fn();
    }
}

static BOOL CALLBACK make_exit_slot(INIT_ONCE *once, void *arg, void **out) {
    (void)once, (void)arg, (void)out;
    exit_slot = FlsAlloc(run_at_exit);
    return TRUE;
}

void cr_os_at_thread_exit(void (*fn)(void)) {
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    for (int i = 0; i < EXIT_FNS; i++) {
        void (*there)(void) = NULL;
        if (__atomic_compare_exchange_n(&exit_fns[i], &there, fn, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            there == fn)
            break;
    }
    InitOnceExecuteOnce(&once, make_exit_slot, NULL, NULL);
    if (exit_slot != FLS_OUT_OF_INDEXES) FlsSetValue(exit_slot, &exit_slot);
}

/* ---- memory ---- */
void *cr_os_pages(size_t bytes, bool huge) {
    const size_t align = 2 << 20, extra = huge ? align : 0, size = bytes ? bytes : 1;
    if (size > SIZE_MAX / 2) return NULL;
    /* another thread may take the aligned address between the two calls */
    for (int tries = 0; tries < 16; tries++) {
        char *p = VirtualAlloc(NULL, size + extra, huge ? MEM_RESERVE : MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
        if (!p || !huge) return p;
        char *aligned = p + (align - (uintptr_t)p % align) % align;
        VirtualFree(p, 0, MEM_RELEASE);
        p = VirtualAlloc(aligned, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
        if (p || GetLastError() != ERROR_INVALID_ADDRESS) return p;
    }
    return NULL;
}

void cr_os_pages_free(void *p, size_t bytes) {
    (void)bytes;
    if (p) VirtualFree(p, 0, MEM_RELEASE);
}

void *cr_os_aligned(size_t alignment, size_t bytes) { return _aligned_malloc(bytes ? bytes : 1, alignment); }
void cr_os_aligned_free(void *p) { _aligned_free(p); }

int64_t cr_os_peak_rss(void) {
    PROCESS_MEMORY_COUNTERS c;
    return GetProcessMemoryInfo(GetCurrentProcess(), &c, sizeof c) ? (int64_t)c.PeakWorkingSetSize : 0;
}

int64_t cr_os_free_memory(void) {
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    if (!GlobalMemoryStatusEx(&m)) return INT64_MAX;
    return (int64_t)(m.ullAvailPageFile < m.ullAvailVirtual ? m.ullAvailPageFile : m.ullAvailVirtual);
}

/* ---- shared libraries ---- */
void *cr_os_open_library(const char *path) {
    wchar_t *name = widen(path);
    void *library = name ? (void *)LoadLibraryW(name) : NULL;
    free(name);
    return library;
}

void *cr_os_loaded_library(const char *path) {
    wchar_t *name = widen(path);
    HMODULE library = NULL;
    if (name) GetModuleHandleExW(0, name, &library);
    free(name);
    return (void *)library;
}

void *cr_os_symbol(void *library, const char *name) {
    const FARPROC found = GetProcAddress((HMODULE)library, name);
    void *symbol;
    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

bool cr_os_share_library(const void *symbol, char *path, size_t room) {
    (void)symbol, (void)path, (void)room;
    return false;                                   /* no library sees the names of another one */
}

int cr_os_directory_of(const void *code, char *out, size_t room) {
    static const char ours;                         /* an address in this library */
    wchar_t path[MAX_PATH * 8];
    HMODULE module;
    const DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExW(how, (const wchar_t *)(code ? code : &ours), &module)) return 0;
    const DWORD n = GetModuleFileNameW(module, path, MAX_PATH * 8);
    if (!n || n == MAX_PATH * 8) return 0;
    char *text = narrow(path);
    for (char *c = text; c && *c; c++) if (*c == '\\') *c = '/';
    char *slash = text ? strrchr(text, '/') : NULL;
    const size_t length = slash ? (size_t)(slash - text) : 0;
    if (length && length < room) {
        memcpy(out, text, length);
        out[length] = 0;
    }
    free(text);
    return length < room ? (int)length : 0;
}

/* ---- randomness ---- */
uint64_t cr_os_entropy(void) {
    unsigned high = 0, low = 0;
    (void)rand_s(&high), (void)rand_s(&low);
    return (uint64_t)high << 32 | low;
}

/* ---- time ---- */
double cr_os_seconds(void) {
    LARGE_INTEGER now, rate;
    QueryPerformanceCounter(&now), QueryPerformanceFrequency(&rate);
    const int64_t whole = now.QuadPart / rate.QuadPart;
    return (double)whole + (double)(now.QuadPart - whole * rate.QuadPart) / (double)rate.QuadPart;
}

void cr_os_timestamp(char out[32]) {
    SYSTEMTIME t;
    GetSystemTime(&t);
    snprintf(out, 32, "%04u-%02u-%02uT%02u:%02u:%02uZ", t.wYear, t.wMonth, t.wDay, t.wHour, t.wMinute, t.wSecond);
}

bool cr_os_local_time(time_t seconds, struct tm *out) { return localtime_s(out, &seconds) == 0; }

void cr_os_sleep(double seconds) {
    if (seconds > 0) Sleep(seconds < 1e6 ? (DWORD)(seconds * 1e3 + 0.5) : 1000000000);
}

/* ---- files ---- */
static bool is_slash(char c) { return c == '/' || c == '\\'; }

/* The library's own names: folders of a save under way, and temporary files, ".chainrule-PROCESS-NUMBER.tmp". */
bool cr_os_is_temporary(const char *name) {
    int end = 0;
    return sscanf(name, ".chainrule-%*[0-9]-%*[0-9].tmp%n", &end) == 0 && end && !name[end];
}

static bool is_own(const char *name) {
    static const char *const folders[] = {"new", "ready", "commit", "old"};
    if (strncmp(name, ".chainrule-", 11)) return false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) if (!strcmp(name + 11, folders[i])) return true;
    return cr_os_is_temporary(name);
}

/* UTF-16; long ones absolute behind the prefix that lifts the limit of 260.  malloc; NULL: the reason is noted. */
static wchar_t *plain_path(const char *path) {
    wchar_t *short_form = widen(path);
    if (!short_form) return failed_with("The path is not UTF-8"), NULL;
    if (!*path) return free(short_form), failed(ERROR_FILE_NOT_FOUND), NULL;
    for (wchar_t *c = short_form; *c; c++) if (*c == L'/') *c = L'\\';
    const DWORD n = GetFullPathNameW(short_form, 0, NULL, NULL);
    if (n < 240 || !wcsncmp(short_form, L"\\\\", 2)) return short_form;
    wchar_t *full = malloc((n + 8) * sizeof *full);
    if (full) {
        wcscpy(full, L"\\\\?\\");
        GetFullPathNameW(short_form, n + 4, full + 4, NULL);
    } else failed(ERROR_NOT_ENOUGH_MEMORY);
    free(short_form);
    return full;
}

static DWORD attributes_of(const wchar_t *path) { return GetFileAttributesW(path); }

/* From the first name of the library's own on no link is followed, since a link there was not made by a save; the last
 * name may be one where `last` is. */
static bool passes_link(const char *path, bool last) {
    bool own = false;
    for (size_t from = 0, to; path[from]; from = to + (path[to] != 0)) {
        to = from;
        while (path[to] && !is_slash(path[to])) to++;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(to - from), path + from);
        own |= is_own(name);
        if (!own || (!path[to] && last)) continue;
        char *part = malloc(to + 1);
        if (!part) return true;
        memcpy(part, path, to);
        part[to] = 0;
        wchar_t *wide = plain_path(part);
        const DWORD what = wide ? attributes_of(wide) : 0;
        free(wide), free(part);
        if (what != INVALID_FILE_ATTRIBUTES && (what & FILE_ATTRIBUTE_REPARSE_POINT)) return true;
    }
    return false;
}

static wchar_t *path_of(const char *path) {         /* NULL: the reason is noted */
    if (passes_link(path, false)) return failed_with("A link is not followed here"), NULL;
    return plain_path(path);
}

static DWORD attributes(const char *path) {
    wchar_t *wide = path_of(path);
    const DWORD found = wide ? attributes_of(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return found;
}

static HANDLE open_handle(const char *path, DWORD access, DWORD share, DWORD how, DWORD flags) {
    wchar_t *wide = path_of(path);
    if (!wide) return INVALID_HANDLE_VALUE;
    const HANDLE h = CreateFileW(wide, access, share, NULL, how, FILE_ATTRIBUTE_NORMAL | flags, NULL);
    if (h == INVALID_HANDLE_VALUE) failed(GetLastError());
    free(wide);
    return h;
}

enum { SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

static cr_file_id id_of(HANDLE h) {
    BY_HANDLE_FILE_INFORMATION i;
    if (!GetFileInformationByHandle(h, &i)) return (cr_file_id){0};
    return (cr_file_id){i.dwVolumeSerialNumber + (uint64_t)1, (uint64_t)i.nFileIndexHigh << 32 | i.nFileIndexLow};
}

static bool map_file(const char *path, DWORD protection, DWORD access, cr_mapping *m) {
    *m = (cr_mapping){0};
    const DWORD what = attributes(path);
    if (what != INVALID_FILE_ATTRIBUTES && (what & FILE_ATTRIBUTE_DIRECTORY)) return failed_with("Is a directory");
    const HANDLE h = open_handle(path, GENERIC_READ, SHARE_ALL, OPEN_EXISTING, 0);
    if (h == INVALID_HANDLE_VALUE) return false;
    LARGE_INTEGER size = {0};
    bool ok = GetFileType(h) == FILE_TYPE_DISK || failed_with("Not a regular file");
    ok = ok && (GetFileSizeEx(h, &size) || failed(GetLastError()));
    const cr_file_id id = id_of(h);
    const HANDLE section = ok && size.QuadPart ? CreateFileMappingW(h, NULL, protection, 0, 0, NULL) : NULL;
    const void *p = section ? MapViewOfFile(section, access, 0, 0, 0) : "";
    if (ok && ((size.QuadPart && !section) || !p)) ok = failed(GetLastError());
    if (section) CloseHandle(section);
    CloseHandle(h);
    if (ok) *m = (cr_mapping){p, (size_t)size.QuadPart, id};
    return ok;
}

bool cr_os_map(const char *path, cr_mapping *m) { return map_file(path, PAGE_READONLY, FILE_MAP_READ, m); }
bool cr_os_map_private(const char *path, cr_mapping *m) { return map_file(path, PAGE_WRITECOPY, FILE_MAP_COPY, m); }

void cr_os_unmap(cr_mapping *m) {
    if (m->bytes) UnmapViewOfFile(m->data);
    *m = (cr_mapping){0};
}

cr_file_id cr_os_file_id(const char *path) {
    const HANDLE h = open_handle(path, 0, SHARE_ALL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (h == INVALID_HANDLE_VALUE) return (cr_file_id){0};
    const cr_file_id id = id_of(h);
    CloseHandle(h);
    return id;
}

FILE *cr_os_open_file(const char *path, const char *mode) {
    wchar_t *wide = path_of(strcmp(path, "/dev/null") ? path : "NUL"), *how = widen(mode);
    FILE *f = wide && how ? _wfopen(wide, how) : NULL;
    free(wide), free(how);
    return f;
}

/* The folder of path, with its slash: "" for a bare name. */
static int folder_length(const char *path) {
    int n = (int)strlen(path);
    while (n && !is_slash(path[n - 1])) n--;
    return n;
}

static bool lives(DWORD id) {
    const HANDLE h = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, id);
    DWORD code = 0;
    const bool is = h && GetExitCodeProcess(h, &code) && code == STILL_ACTIVE;
    if (h) CloseHandle(h);
    return is || GetLastError() == ERROR_ACCESS_DENIED;
}

typedef struct folder { const char *path; bool (*ours)(const char *name); bool remove, good; } folder;

static char *in_folder(const char *path, const char *name) {
    const size_t n = strlen(path) + strlen(name) + 2;
    char *to = malloc(n);
    if (to) snprintf(to, n, "%s%s%s", path, *path && !is_slash(path[strlen(path) - 1]) ? "/" : "", name);
    return to;
}

static void remove_stale(const char *name, void *ctx) {
    const folder *f = ctx;
    if (!cr_os_is_temporary(name) || lives((DWORD)strtoul(name + strlen(".chainrule-"), NULL, 10))) return;
    char *path = in_folder(f->path, name);
    if (path) (void)cr_os_remove(path);
    free(path);
}

static atomic_uint temporaries;

/* A name beside path: ".chainrule-PROCESS-NUMBER.tmp".  false: it is too long. */
static bool temporary_beside(const char *path, char *temporary, size_t room) {
    const int n = snprintf(temporary, room, "%.*s.chainrule-%lu-%u.tmp", folder_length(path), path,
                           GetCurrentProcessId(), atomic_fetch_add(&temporaries, 1));
    return n > 0 && (size_t)n < room;
}

FILE *cr_os_create_beside(const char *path, char *temporary, size_t room) {
    const size_t n = strlen(path);
    if (!n || is_slash(path[n - 1])) return failed_with("Is a directory"), NULL;
    const DWORD what = attributes(path);
    const bool there = what != INVALID_FILE_ATTRIBUTES;
    if (there && what & FILE_ATTRIBUTE_DIRECTORY) return failed_with("Is a directory"), NULL;
    if (there && what & FILE_ATTRIBUTE_READONLY) return failed(ERROR_ACCESS_DENIED), NULL;
    for (int tries = 0; tries < 100; tries++) {
        if (!temporary_beside(path, temporary, room)) return failed(ERROR_FILENAME_EXCED_RANGE), NULL;
        if (!tries) {
            const int length = folder_length(path);
            char *at = length ? malloc((size_t)length + 1) : NULL;
            if (at) snprintf(at, (size_t)length + 1, "%s", path);
            cr_os_each_entry(at ? at : ".", remove_stale, &(folder){.path = at ? at : "."});
            free(at);
        }
        const HANDLE h = open_handle(temporary, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, CREATE_NEW, 0);
        if (h == INVALID_HANDLE_VALUE && GetLastError() == ERROR_FILE_EXISTS) continue;
        if (h == INVALID_HANDLE_VALUE) return NULL;
        const int fd = _open_osfhandle((intptr_t)h, _O_BINARY);
        FILE *f = fd < 0 ? NULL : _fdopen(fd, "w+b");
        if (f) return f;
        if (fd < 0) CloseHandle(h);
        else _close(fd);
        cr_os_remove(temporary);
        return failed_with("Too many open files"), NULL;
    }
    return failed(ERROR_FILE_EXISTS), NULL;
}

/* A file that somebody has mapped cannot be replaced, but renamed: it becomes a temporary file, which a later process
 * removes. */
static bool move_mapped(const wchar_t *from, const wchar_t *to, const char *path) {
    char away[4096];
    wchar_t *old = temporary_beside(path, away, sizeof away) ? plain_path(away) : NULL;
    bool ok = old && MoveFileExW(to, old, 0);
    if (ok && !MoveFileExW(from, to, MOVEFILE_WRITE_THROUGH)) {
        ok = false;
        (void)MoveFileExW(old, to, 0);
    }
    if (ok) (void)DeleteFileW(old);                 /* where nobody has it mapped, only open */
    free(old);
    return ok;
}

static bool move(const char *from, const char *to) {
    wchar_t *a = path_of(from), *b = passes_link(to, true) ? NULL : plain_path(to);
    const bool folder = a && attributes_of(a) & FILE_ATTRIBUTE_DIRECTORY;      /* which replaces nothing, in wine too */
    const DWORD how = MOVEFILE_WRITE_THROUGH | (folder ? 0 : MOVEFILE_REPLACE_EXISTING);
    bool ok = a && b;
    if (ok && !MoveFileExW(a, b, how)) {
        const DWORD code = GetLastError(), what = attributes_of(b);
        const bool plain = what != INVALID_FILE_ATTRIBUTES && !(what & FILE_ATTRIBUTE_DIRECTORY);
        const bool in_use = code == ERROR_ACCESS_DENIED || code == ERROR_USER_MAPPED_FILE ||
                            code == ERROR_SHARING_VIOLATION;
        ok = (plain && in_use && move_mapped(a, b, to)) || failed(code);
    }
    free(a), free(b);
    return ok;
}

bool cr_os_commit(FILE *f, const char *temporary, const char *path) {
    bool ok = !ferror(f) && !fflush(f) && !_commit(_fileno(f));
    if (!ok) failed(GetLastError());
    ok = !fclose(f) && ok;
    if (!ok || !move(temporary, path)) {
        char why[sizeof error_text];
        snprintf(why, sizeof why, "%s", error_text);
        cr_os_remove(temporary);
        return failed_with(why);
    }
    return true;
}

void cr_os_abandon(FILE *f, const char *temporary) {
    if (f) fclose(f);
    cr_os_remove(temporary);
}

bool cr_os_exists(const char *path) { return attributes(path) != INVALID_FILE_ATTRIBUTES; }

bool cr_os_is_directory(const char *path) {
    const DWORD what = attributes(path);
    return what != INVALID_FILE_ATTRIBUTES && (what & FILE_ATTRIBUTE_DIRECTORY);
}

static DWORD own_kind(const char *path) {           /* of a link itself */
    wchar_t *wide = passes_link(path, true) ? NULL : plain_path(path);
    const DWORD what = wide ? attributes_of(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return what;
}

bool cr_os_is_link(const char *path) {
    const DWORD what = own_kind(path);
    return what != INVALID_FILE_ATTRIBUTES && (what & FILE_ATTRIBUTE_REPARSE_POINT);
}

bool cr_os_is_plain(const char *path) {
    const DWORD what = own_kind(path);
    return what != INVALID_FILE_ATTRIBUTES && !(what & (FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DIRECTORY));
}

static bool make_one(const char *path) {
    wchar_t *wide = path_of(path);
    const bool made = wide && CreateDirectoryW(wide, NULL);
    const DWORD code = made || !wide ? 0 : GetLastError();
    free(wide);
    if (made || cr_os_is_directory(path)) return true;
    return code == ERROR_ALREADY_EXISTS ? failed(ERROR_DIRECTORY) : code ? failed(code) : false;
}

bool cr_os_make_directory(const char *path) {
    const size_t n = strlen(path);
    char *part = malloc(n + 1);
    bool ok = part && n ? true : failed(ERROR_FILE_NOT_FOUND);
    for (size_t i = 1; ok && i <= n; i++) {
        if (path[i] && !is_slash(path[i])) continue;
        if (path[i - 1] == ':') continue;           /* C:/ */
        memcpy(part, path, i);
        part[i] = 0;
        ok = make_one(part);
    }
    free(part);
    return ok;
}

bool cr_os_remove(const char *path) {
    wchar_t *wide = passes_link(path, true) ? NULL : plain_path(path);
    if (!wide) return false;
    const DWORD what = attributes_of(wide);
    bool ok = what != INVALID_FILE_ATTRIBUTES;
    if (ok && (what & FILE_ATTRIBUTE_READONLY)) SetFileAttributesW(wide, what & ~(DWORD)FILE_ATTRIBUTE_READONLY);
    ok = ok && (what & FILE_ATTRIBUTE_DIRECTORY ? RemoveDirectoryW(wide) : DeleteFileW(wide));
    if (!ok) failed(GetLastError());
    free(wide);
    return ok;
}


bool cr_os_share(const char *from, const char *to) {
    wchar_t *a = path_of(from), *b = path_of(to);
    const bool linked = a && b && CreateHardLinkW(b, a, NULL);
    free(a), free(b);
    return linked || cr_os_copy(from, to);
}

bool cr_os_copy(const char *from, const char *to) {
    cr_mapping m;
    char temporary[4096];
    if (!cr_os_map(from, &m)) return false;
    FILE *f = cr_os_create_beside(to, temporary, sizeof temporary);
    if (f) (void)fwrite(m.data, 1, m.bytes, f);     /* a failure is found by the commit */
    cr_os_unmap(&m);
    return f && cr_os_commit(f, temporary, to);
}

static bool each(const char *path, void (*fn)(const char *name, void *ctx), void *ctx) {
    char *pattern = in_folder(path, "*");
    wchar_t *wide = pattern ? path_of(pattern) : NULL;
    WIN32_FIND_DATAW found;
    const HANDLE h = wide ? FindFirstFileW(wide, &found) : INVALID_HANDLE_VALUE;
    const bool ok = h != INVALID_HANDLE_VALUE || (wide && failed(GetLastError()));
    bool more = ok;
    for (; more; more = FindNextFileW(h, &found)) {
        char *name = narrow(found.cFileName);
        if (name && strcmp(name, ".") && strcmp(name, "..")) fn(name, ctx);
        free(name);
    }
    if (ok) FindClose(h);
    free(wide), free(pattern);
    return ok;
}

void cr_os_each_entry(const char *path, void (*fn)(const char *name, void *ctx), void *ctx) {
    (void)each(path, fn, ctx);
}

static bool is_id(cr_file_id a, cr_file_id b) { return a.device == b.device && a.inode == b.inode; }

/* A folder is locked by whoever has made the event of its id: it ends with the process.  NULL: another one has it, or
 * another folder has come to this path meanwhile. */
static HANDLE locked(const char *path, cr_file_id *its) {
    const cr_file_id id = *its = cr_os_file_id(path);
    if (!id.device) return NULL;
    wchar_t name[80];
    swprintf(name, sizeof name / sizeof *name, L"Local\\chainrule-%llx-%llx", (unsigned long long)id.device,
             (unsigned long long)id.inode);
    const HANDLE h = CreateEventW(NULL, FALSE, FALSE, name);
    const bool taken = GetLastError() == ERROR_ALREADY_EXISTS;
    if (is_id(h && !taken ? cr_os_file_id(path) : (cr_file_id){0}, id)) return h;
    if (h) CloseHandle(h);
    return NULL;
}

bool cr_os_lock_folder(const char *path) { return !cr_os_is_directory(path) || locked(path, &(cr_file_id){0}); }

enum { HELD = 64 };
static struct { HANDLE lock; char *path; cr_file_id id; } held_folders[HELD];
static cr_spinlock held_lock;

/* The lock of a folder goes with it when it is renamed: by the thread that holds it, so that the path is in one place
 * only before the move. */
bool cr_os_rename(const char *from, const char *to) {
    const size_t n = strlen(to) + 1;
    char *path = malloc(n);
    int slot = -1;
    if (!path) return failed(ERROR_NOT_ENOUGH_MEMORY);
    cr_spin_lock(&held_lock);
    for (int i = 0; i < HELD; i++)
        if (held_folders[i].path && !strcmp(held_folders[i].path, from)) slot = i;
    cr_spin_unlock(&held_lock);
    const bool moved = move(from, to);
    if (moved && slot >= 0) {
        cr_spin_lock(&held_lock);
        free(held_folders[slot].path);
        held_folders[slot].path = memcpy(path, to, n);
        cr_spin_unlock(&held_lock);
    } else free(path);
    return moved;
}

int cr_os_hold(const char *path) {
    if (!cr_os_is_directory(path)) return failed(ERROR_PATH_NOT_FOUND), -1;
    cr_file_id id;
    const HANDLE lock = locked(path, &id);
    if (!lock) return -2;
    const size_t n = strlen(path) + 1;
    char *copy = malloc(n);
    int at = -1;
    cr_spin_lock(&held_lock);
    for (int i = 0; copy && at < 0 && i < HELD; i++)
        if (!held_folders[i].lock)
            held_folders[at = i].lock = lock, held_folders[i].path = memcpy(copy, path, n), held_folders[i].id = id;
    cr_spin_unlock(&held_lock);
    if (at < 0) failed_with("Too many folders are held"), CloseHandle(lock), free(copy);
    return at;
}

void cr_os_let_go(int held) {
    if (held < 0) return;
    cr_spin_lock(&held_lock);
    const HANDLE lock = held_folders[held].lock;
    free(held_folders[held].path);
    held_folders[held].lock = NULL, held_folders[held].path = NULL;
    cr_spin_unlock(&held_lock);
    CloseHandle(lock);
}

static void look(const char *name, void *ctx) {
    folder *f = ctx;
    if (!f->good) return;
    char *path = in_folder(f->path, name);
    if (f->remove) (void)cr_os_remove(path);
    else if (!((f->ours(name) || cr_os_is_temporary(name)) && cr_os_is_plain(path))) {
        f->good = false;
        snprintf(error_text, sizeof error_text, "'%s' in it is not a file of a save: move it away", name);
    }
    free(path);
}

/* The folder may be gone, empty as it was, and another save's in its place: the handle says which it is, and keeps it
 * there meanwhile. */
bool cr_os_clear_held(int held, bool (*ours)(const char *name)) {
    folder f = {held_folders[held].path, ours, false, true};
    const HANDLE h = open_handle(f.path, FILE_LIST_DIRECTORY, FILE_SHARE_READ | FILE_SHARE_WRITE, OPEN_EXISTING,
                                 FILE_FLAG_BACKUP_SEMANTICS);
    const bool open = h != INVALID_HANDLE_VALUE;
    if (!is_id(open ? id_of(h) : cr_os_file_id(f.path), held_folders[held].id)) {
        if (open) CloseHandle(h);
        return true;
    }
    bool good = open && each(f.path, look, &f) && f.good;
    f.remove = true;
    good = good && each(f.path, look, &f);
    if (open) CloseHandle(h);
    return good;
}

static void remove_file(const char *name, void *ctx) {
    char *path = in_folder(ctx, name);
    if (path && !cr_os_is_directory(path)) (void)cr_os_remove(path);
    free(path);
}

bool cr_os_remove_folder(const char *path) {
    if (!cr_os_is_directory(path)) return failed(ERROR_PATH_NOT_FOUND);
    cr_os_each_entry(path, remove_file, (void *)(uintptr_t)path);
    return cr_os_remove(path);                      /* fails, with the reason, if anything is left */
}

/* ---- terminal and signals ---- */
void cr_os_begin(int *argc, char ***argv) {
    int n = 0;
    wchar_t **wide = argc ? CommandLineToArgvW(GetCommandLineW(), &n) : NULL;
    char **texts = wide ? calloc((size_t)n + 1, sizeof *texts) : NULL;
    for (int i = 0; texts && i < n; i++) texts[i] = narrow(wide[i]);
    if (texts) *argc = n, *argv = texts;            /* for the whole run */
    LocalFree(wide);
    SetConsoleOutputCP(CP_UTF8);
    DWORD mode;
    const HANDLE screens[] = {GetStdHandle(STD_OUTPUT_HANDLE), GetStdHandle(STD_ERROR_HANDLE)};
    for (int i = 0; i < 2; i++)
        if (GetConsoleMode(screens[i], &mode)) SetConsoleMode(screens[i], mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    (void)_setmode(0, _O_BINARY), (void)_setmode(1, _O_BINARY), (void)_setmode(2, _O_BINARY);
}

bool cr_os_is_terminal(FILE *f) { return _isatty(_fileno(f)) != 0; }

int cr_os_hide_output(void) {
    fflush(stdout);
    const int before = _dup(1), nowhere = _open("NUL", _O_WRONLY);
    const bool hidden = before >= 0 && nowhere >= 0 && !_dup2(nowhere, 1);
    if (nowhere >= 0) _close(nowhere);
    return hidden ? before : (failed(GetLastError()), -1);
}

void cr_os_show_output(int hidden) {
    fflush(stdout);
    (void)_dup2(hidden, 1);
    _close(hidden);
}

int cr_os_terminal_width(FILE *f) {
    CONSOLE_SCREEN_BUFFER_INFO i;
    const HANDLE h = (HANDLE)_get_osfhandle(_fileno(f));
    const bool known = GetConsoleScreenBufferInfo(h, &i) && i.srWindow.Right > i.srWindow.Left;
    return known ? i.srWindow.Right - i.srWindow.Left + 1 : 80;
}

static volatile LONG interrupted, ctrl_c;

static BOOL WINAPI on_interrupt(DWORD kind) {
    if (kind != CTRL_C_EVENT) { interrupted = 1; return TRUE; }
    return InterlockedExchange(&ctrl_c, 1) == 0;    /* the second one ends the program */
}

void cr_os_survive_file_limit(void) { }
void cr_os_catch_interrupt(void) { SetConsoleCtrlHandler(on_interrupt, TRUE); }
bool cr_os_interrupted(void) { return interrupted || ctrl_c; }
void cr_os_hold_ctrl_c(void) { }
bool cr_os_forget_ctrl_c(void) { ctrl_c = 0; return !interrupted; }

/* ---- processes ----
 * One text for all arguments, as C's library and CommandLineToArgvW take it apart: quotes around each, backslashes
 * doubled in front of quotes.  malloc. */
static wchar_t *command_line(const char *const *argv) {
    size_t room = 1;
    for (int i = 0; argv[i]; i++) room += 2 * strlen(argv[i]) + 3;
    char *text = malloc(room), *to = text;
    for (int i = 0; text && argv[i]; i++) {
        size_t slashes = 0;
        if (i) *to++ = ' ';
        *to++ = '"';
        for (const char *c = argv[i]; *c; c++) {
            if (*c == '"') for (size_t k = 0; k <= slashes; k++) *to++ = '\\';
            slashes = *c == '\\' ? slashes + 1 : 0;
            *to++ = *c;
        }
        for (size_t k = 0; k < slashes; k++) *to++ = '\\';
        *to++ = '"';
    }
    if (text) *to = 0;
    wchar_t *wide = text ? widen(text) : NULL;
    free(text);
    return wide;
}

static int run(const char *const *argv, bool quiet) {          /* its exit status; -1: it did not run */
    wchar_t *line = command_line(argv);
    SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
    const HANDLE nowhere = !quiet ? NULL
                                  : CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, SHARE_ALL, &inherited,
                                                OPEN_EXISTING, 0, NULL);
    STARTUPINFOW how = {.cb = sizeof how, .dwFlags = quiet ? STARTF_USESTDHANDLES : 0, .hStdInput = nowhere,
                        .hStdOutput = nowhere, .hStdError = nowhere};
    PROCESS_INFORMATION made;
    DWORD code = (DWORD)-1;
    if (line && CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &how, &made)) {
        WaitForSingleObject(made.hProcess, INFINITE);
        GetExitCodeProcess(made.hProcess, &code);
        CloseHandle(made.hProcess), CloseHandle(made.hThread);
    } else failed(GetLastError());
    if (nowhere) CloseHandle(nowhere);
    free(line);
    return (int)code;
}

/* Nothing here becomes another program: it waits for its end, and ends alike. */
const char *cr_os_become(const char *const *argv) {
    const int code = run(argv, false);
    if (code != -1) exit(code);
    return error_text;
}

int cr_os_run(const char *const *argv) { return run(argv, true); }

int64_t cr_os_fork(void) { return failed_with("Windows has no fork: start the processes yourself"), -1; }
int64_t cr_os_reap(int *code, double seconds) { (void)code, (void)seconds; return 0; }
void cr_os_end(int64_t id, bool at_once) { (void)id, (void)at_once; }

void cr_os_set_variable(const char *name, const char *value) {
    wchar_t *a = widen(name), *b = widen(value);
    if (a && b) (void)_wputenv_s(a, b);
    free(a), free(b);
}

/* ---- sockets ---- */
static int failed_socket(SOCKET s) {
    failed((DWORD)WSAGetLastError());
    if (s != INVALID_SOCKET) closesocket(s);
    return -1;
}

static BOOL CALLBACK start_sockets(INIT_ONCE *once, void *arg, void **out) {
    WSADATA data;
    (void)once, (void)arg, (void)out;
    return WSAStartup(MAKEWORD(2, 2), &data) == 0;
}

static SOCKET new_socket(int family) {
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    InitOnceExecuteOnce(&once, start_sockets, NULL, NULL);
    return socket(family, SOCK_STREAM, 0);
}

static int ready_within(SOCKET s, short events, double seconds) {
    WSAPOLLFD p = {.fd = s, .events = events};
    return WSAPoll(&p, 1, seconds > 0 ? (int)(1e3 * seconds) : 0);
}

/* Small messages go out at once, and no call waits. */
static int tuned(SOCKET s) {
    u_long on = 1;
    if (ioctlsocket(s, (long)FIONBIO, &on)) return failed_socket(s);
    (void)setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (const char *)&on, sizeof(int));
    return (int)s;
}

static SOCKET listening(int family, const struct sockaddr *at, int n) {
    const int off = 0, on = 1;
    const SOCKET s = new_socket(family);
    if (s == INVALID_SOCKET) return s;
    if (family == AF_INET6) (void)setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, (const char *)&off, sizeof off);
    (void)setsockopt(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on, sizeof on);
    if (!bind(s, at, n)) return s;
    closesocket(s);
    return INVALID_SOCKET;
}

int cr_os_listen(int *port) {
    const uint16_t wanted = htons((uint16_t)*port);
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = wanted};
    const struct sockaddr_in old = {.sin_family = AF_INET, .sin_port = wanted};
    struct sockaddr_storage found;
    int n = sizeof found;
    SOCKET s = listening(AF_INET6, (const struct sockaddr *)&at, sizeof at);
    if (s == INVALID_SOCKET) s = listening(AF_INET, (const struct sockaddr *)&old, sizeof old);
    if (s == INVALID_SOCKET) return failed_socket(s);
    if (listen(s, SOMAXCONN) || getsockname(s, (struct sockaddr *)&found, &n)) return failed_socket(s);
    const bool six = found.ss_family == AF_INET6;
    *port = ntohs(six ? ((struct sockaddr_in6 *)&found)->sin6_port : ((struct sockaddr_in *)&found)->sin_port);
    return (int)s;
}

int cr_os_accept(int listener, double seconds) {
    WSASetLastError(WSAETIMEDOUT);
    if (ready_within((SOCKET)listener, POLLRDNORM, seconds) < 1) return failed_socket(INVALID_SOCKET);
    const SOCKET s = accept((SOCKET)listener, NULL, NULL);
    return s == INVALID_SOCKET ? failed_socket(s) : tuned(s);
}

static int connect_to(const struct addrinfo *a, double seconds) {
    const SOCKET s = new_socket(a->ai_family);
    int error = 0, n = sizeof error;
    if (s == INVALID_SOCKET || tuned(s) < 0) return -1;
    if (!connect(s, a->ai_addr, (int)a->ai_addrlen)) return (int)s;
    if (WSAGetLastError() != WSAEWOULDBLOCK) return failed_socket(s);
    WSASetLastError(WSAETIMEDOUT);
    if (ready_within(s, POLLWRNORM, seconds) < 1) return failed_socket(s);
    if (getsockopt(s, SOL_SOCKET, SO_ERROR, (char *)&error, &n) || error)
        return WSASetLastError(error), failed_socket(s);
    return (int)s;
}

int cr_os_connect(const char *host, int port, double seconds) {
    char service[16];
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    const SOCKET probe = new_socket(AF_INET);       /* starts the sockets */
    if (probe != INVALID_SOCKET) closesocket(probe);
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &want, &all)) return failed_with("Cannot assign requested address"), -1;
    int s = -1;
    for (const struct addrinfo *a = all; a && s < 0; a = a->ai_next) s = connect_to(a, seconds);
    freeaddrinfo(all);
    return s;
}

void cr_os_poll(int n, const int *sockets, bool *ready, double seconds) {
    WSAPOLLFD *p = calloc((size_t)n + 1, sizeof *p);
    int used = 0;
    for (int i = 0; p && i < n; i++)
        if (sockets[i] >= 0) p[used++] = (WSAPOLLFD){.fd = (SOCKET)sockets[i], .events = POLLRDNORM};
    if (p && used) (void)WSAPoll(p, (ULONG)used, (int)(1e3 * seconds));
    else cr_os_sleep(seconds);
    for (int i = 0, k = 0; i < n; i++) ready[i] = sockets[i] >= 0 && (!p || p[k++].revents);
    free(p);
}

bool cr_os_send(int s, const void *data, size_t n) { return send((SOCKET)s, data, (int)n, 0) == (int)n; }

int64_t cr_os_receive(int s, void *data, size_t n) {
    const int got = recv((SOCKET)s, data, n < 1 << 30 ? (int)n : 1 << 30, 0);
    if (got > 0) return got;
    return got < 0 && WSAGetLastError() == WSAEWOULDBLOCK ? 0 : -1;
}

void cr_os_close_socket(int s) { if (s >= 0) closesocket((SOCKET)s); }
