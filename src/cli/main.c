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

static const struct { const char *name; int (*run)(int, char **); const char *about; } commands[] = {
    {"train",    cli_train,    "train a GPT on text, or go on with a run"},
    {"finetune", cli_finetune, "train a pretrained model on your text, all of it or an adapter"},
    {"eval",     cli_eval,     "measure a model: loss, perplexity, bits per byte, multiple choice"},
    {"generate", cli_generate, "write text with a trained model"},
    {"chat",     cli_chat,     "talk with a pretrained model"},
    {"import",   cli_import,   "turn a pretrained model of other programs into a checkpoint"},
    {"export",   cli_export,   "write a model for other programs"},
    {"serve",    cli_serve,    "answer requests in OpenAI's form over HTTP (by the Python package)"},
    {"checkpoint", cli_checkpoint, "join what many processes wrote into the files of one"},
    {"quantize", cli_quantize, "write a model with weights of 8 or 4 bits"},
    {"tokenize", cli_tokenize, "turn text into a token file"},
    {"plot",     cli_plot,     "draw the losses of one run or several"},
    {"bench",    cli_bench,    "measure this machine: training steps, products, elementwise operations"},
    {"info",     cli_info,     "version, devices, threads and switches"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void usage_line(FILE *f) {
    fprintf(f, "usage: chainrule ");
    for (int i = 0; i < COMMANDS; i++) fprintf(f, "%s%s", i ? " | " : "", commands[i].name);
    fprintf(f, " [options]\n");
}

static int help(void) {
    usage_line(stdout);
    printf("\n");
    for (int i = 0; i < COMMANDS; i++) printf("  %-10s %s\n", commands[i].name, commands[i].about);
    printf("\nchainrule COMMAND --help lists a command's options; chainrule --version prints the version.\n");
    return CLI_OK;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    cr_os_survive_file_limit();
    /* Mesa's Vulkan layer asks the desktop for its GPU, and complains on stderr where there is none */
    if (!getenv("XDG_RUNTIME_DIR") && !getenv("NODEVICE_SELECT")) cr_os_set_variable("NODEVICE_SELECT", "1");
    if (name && (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))) return help();
    if (name && !strcmp(name, "--version")) {
        printf("chainrule %s\n", cr_version());
        return CLI_OK;
    }
    for (int i = 0; name && i < COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) {
            int code = commands[i].run(argc - 1, argv + 1);
            /* The output was lost: a closed pipe or a full disk. */
            if ((fflush(stdout) || ferror(stdout)) && code == CLI_OK)
                code = cli_fail("could not write to standard output");
            return code;
        }
    if (name) cli_fail("there is no command '%s'", name);
    else cli_fail("no command was given");
    usage_line(stderr);
    return CLI_USAGE;
}
