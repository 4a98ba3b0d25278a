/* pyconfig.h - what Python.h asks about a system with 64 bits, for the stable ABI only.  tools/release.py uses this
 * file, in place of this machine's, when it builds an extension for another one. */
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_PTHREAD_T 8
#define SIZEOF_TIME_T 8
#define HAVE_WCHAR_H 1
#define HAVE_STDINT_H 1
#define HAVE_INTTYPES_H 1
#define HAVE_SYS_STAT_H 1
#ifdef _WIN32
#define MS_WIN64
#define MS_WINDOWS
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL 1
#define SIZEOF_LONG 4
#define SIZEOF_WCHAR_T 2
#define SIZEOF_OFF_T 4
#define NT_THREADS
typedef long long Py_ssize_t;
#define HAVE_PY_SSIZE_T 1
#define PY_SSIZE_T_MAX 9223372036854775807LL
#else
#define SIZEOF_LONG 8
#define SIZEOF_WCHAR_T 4
#define SIZEOF_OFF_T 8
#define HAVE_SSIZE_T 1
#define HAVE_UNISTD_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_PTHREAD_H 1
#endif
