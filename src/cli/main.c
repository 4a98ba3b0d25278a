/* main.c - the program chainrule: finds and runs the subcommand. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

int cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "chainrule: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    return CLI_FAILED;
}

int cli_fail_library(void) {
    cli_fail("%s", cr_error() ? cr_error() : "failed without a message");
    cr_error_clear();
    return CLI_FAILED;
}

static const char *called = "chainrule";            /* argv[0]: a path, or a name that the shell found */

const char *cli_program(void) { return called; }

const char *shell_word(const char *text, char out[4200]) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    size_t n = 0;
    if (*text && strspn(text, plain) == strlen(text)) return text;
    out[n++] = '\'';
    for (; *text && n < 4190; text++) {
        if (*text == '\'') n += (size_t)snprintf(out + n, 5, "'\\''");
        else out[n++] = *text;
    }
    snprintf(out + n, 2, "'");
    return out;
}

static const struct { const char *name; int (*run)(int, char **); const char *about; } commands[] = {
    {"train",    cli_train,    "train a GPT on text, or resume a run"},
    {"finetune", cli_finetune, "train a pretrained model further: all weights, or an adapter"},
    {"eval",     cli_eval,     "measure a model: loss, perplexity, bits per byte, multiple choice"},
    {"generate", cli_generate, "write text with a trained model"},
    {"chat",     cli_chat,     "chat with a pretrained model"},
    {"embed",    cli_embed,    "write embeddings of texts"},
    {"import",   cli_import,   "convert a pretrained model to a checkpoint"},
    {"export",   cli_export,   "write a model as a Hugging Face folder or a GGUF file"},
    {"serve",    cli_serve,    "serve a model with OpenAI's HTTP API (needs the Python package)"},
    {"checkpoint", cli_checkpoint, "merge a checkpoint of many processes into one"},
    {"quantize", cli_quantize, "write a model with weights of 8 or 4 bits"},
    {"tokenize", cli_tokenize, "turn text into a token file"},
    {"plot",     cli_plot,     "plot the losses of one or more runs"},
    {"bench",    cli_bench,    "benchmark this machine: training steps, products, elementwise operations"},
    {"info",     cli_info,     "version, devices, threads and switches"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void usage_line(FILE *f) {
    char all[256];
    size_t n = 0;
    for (int i = 0; i < COMMANDS; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? " | " : "", commands[i].name);
    const int at = fprintf(f, "usage: chainrule COMMAND [options], COMMAND: ");
    print_wrapped(f, all, at, 8, cr_os_terminal_width(f));
}

static int help(void) {
    const int columns = cr_os_terminal_width(stdout);
    printf("usage: chainrule COMMAND [options]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        print_wrapped(stdout, commands[i].about, printf("  %-10s ", commands[i].name), 13, columns);
    printf("\n");
    print_wrapped(stdout, "chainrule COMMAND --help lists a command's options; chainrule --version prints the version.",
                  0, 0, columns);
    return CLI_OK;
}

static int command_named(const char *name) {
    for (int i = 0; i < COMMANDS; i++) if (!strcmp(name, commands[i].name)) return i;
    return -1;
}

/* "; did you mean 'train'?", or "". */
static const char *meant(const char *name, char out[64]) {
    int best = 99;
    *out = 0;
    for (int i = 0; i < COMMANDS; i++) {
        const int errors = typing_errors(name, commands[i].name);
        if (errors >= best) continue;
        best = errors;
        snprintf(out, 64, "; did you mean '%s'?", commands[i].name);
    }
    return out;
}

/* The program, which the Python extension has too (program.c); of_process: argv is what main was given.  Returns the
 * exit code. */
int cli_main(int argc, char **argv, bool of_process) {
    cr_os_begin(of_process ? &argc : NULL, of_process ? &argv : NULL);
    const char *name = argc > 1 ? argv[1] : NULL;
    cr_os_survive_file_limit();
    /* Mesa's Vulkan layer asks the desktop for its GPU, and complains on stderr where there is none */
    if (!getenv("XDG_RUNTIME_DIR") && !getenv("NODEVICE_SELECT")) cr_os_set_variable("NODEVICE_SELECT", "1");
    if (argc && *argv[0]) called = argv[0];
    if (name && !strcmp(name, "help") && argc == 3 && command_named(argv[2]) >= 0)
        return commands[command_named(argv[2])].run(2, (char *[]){argv[2], (char[]){"--help"}, NULL});
    if (name && (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))) return help();
    if (name && !strcmp(name, "--version")) {
        printf("chainrule %s\n", cr_version());
        return CLI_OK;
    }
    const int found = name ? command_named(name) : -1;
    if (found >= 0) {
        int code = commands[found].run(argc - 1, argv + 1);
        /* The output was lost: a closed pipe or a full disk. */
        if ((fflush(stdout) || ferror(stdout)) && code == CLI_OK)
            code = cli_fail("could not write to standard output");
        return code;
    }
    char nearest[64];
    if (name) cli_fail("there is no command '%s'%s", name, meant(name, nearest));
    else cli_fail("no command was given");
    usage_line(stderr);
    return CLI_USAGE;
}

int main(int argc, char **argv) { return cli_main(argc, argv, true); }
