/* serve.c - chainrule serve: becomes the server of the Python package, as python3 -m chainrule.serve is, with the
 * same arguments.  Ctrl-C waits until Python runs, and then ends its imports without a traceback.  A python3 in the
 * program's own folder comes first: in a virtual environment it is the one that the package was installed for. */
#include <stdlib.h>

#include "../core/os.h"
#include "cli.h"

static const char program[] =
    "import signal, sys\n"
    "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])\n"
    "try:\n"
    "    from chainrule.serve.__main__ import main\n"
    "except ModuleNotFoundError as error:\n"
    "    if error.name not in ('chainrule', 'chainrule.serve'):\n"
    "        raise\n"
    "    sys.exit('chainrule: the server is a part of the Python package, which ' + sys.executable + ' lacks: '\n"
    "             \"pip install 'chainrule[serve]'\")\n"
    "sys.exit(main())\n";

int cli_serve(int argc, char **argv) {
    char beside[4096];
    const int n = cr_os_directory_of(NULL, beside, sizeof beside - sizeof "/python3");
    if (n > 0) snprintf(beside + n, sizeof beside - (size_t)n, "/python3");
    const char **words = calloc((size_t)argc + 3, sizeof *words);
    if (!words) return cli_fail("no memory for %d arguments", argc);
    words[0] = n > 0 && cr_os_exists(beside) ? beside : "python3";
    words[1] = "-c";
    words[2] = program;
    for (int i = 1; i < argc; i++) words[i + 2] = argv[i];
    cr_os_hold_ctrl_c();
    const char *why = cr_os_become(words);
    const int code = cli_fail("cannot start %s: %s; the server is a part of the Python package:"
                              " pip install 'chainrule[serve]'", words[0], why);
    free(words);
    return code;
}
