/* serve.c - chainrule serve: becomes the server of the Python package, python3 -m chainrule.serve, with the
 * same arguments.  A python3 in the program's own folder comes first: in a virtual environment it is the one
 * that the package was installed for. */
#include <stdlib.h>

#include "../core/os.h"
#include "cli.h"

int cli_serve(int argc, char **argv) {
    char beside[4096];
    const int n = cr_os_directory_of(NULL, beside, sizeof beside - sizeof "/python3");
    if (n > 0) snprintf(beside + n, sizeof beside - (size_t)n, "/python3");
    const char **words = calloc((size_t)argc + 3, sizeof *words);
    if (!words) return cli_fail("no memory for %d arguments", argc);
    words[0] = n > 0 && cr_os_exists(beside) ? beside : "python3";
    words[1] = "-m";
    words[2] = "chainrule.serve";
    for (int i = 1; i < argc; i++) words[i + 2] = argv[i];
    const char *why = cr_os_become(words);
    const int code = cli_fail("cannot start %s: %s; the server is a part of the Python package:"
                              " pip install 'chainrule[serve]'", words[0], why);
    free(words);
    return code;
}
