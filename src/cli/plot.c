/* plot.c - chainrule plot: the losses in run.jsonl files as one picture. */
#include "cli.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

/* "runs/a" names runs/a/run.jsonl, and so do that file and the folder. */
static void name_run(const char *path, char name[4096], char file[4096]) {
    static const char log[] = "run.jsonl";
    size_t n = strlen(path);
    const bool folder = cr_os_is_directory(path);
    while (folder && n > 1 && path[n - 1] == '/') n--;
    snprintf(file, 4096, "%.*s%s%s", (int)n, path, folder ? "/" : "", folder ? log : "");
    const bool ours = !folder && n > sizeof log && path[n - sizeof log] == '/' &&
                      !strcmp(path + n - sizeof log + 1, log);
    snprintf(name, 4096, "%.*s", (int)(ours ? n - sizeof log : n), path);
}

/* The picture is SVG, whatever the name says: NULL, or the ending that says something else. */
static const char *other_picture(const char *path) {
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".pdf", ".gif", ".webp", ".eps", ".ps", ".bmp",
                                          ".tif", ".tiff", ".html"};
    const char *dot = strrchr(path, '.');
    char lower[8] = "";
    for (size_t i = 0; dot && dot[i] && i < sizeof lower - 1; i++) lower[i] = (char)tolower((unsigned char)dot[i]);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) if (!strcmp(lower, endings[i])) return endings[i];
    return NULL;
}

int cli_plot(int argc, char **argv) {
    file_list files = {0};
    const char *out = "curves.svg", *title = "", *log = "none";
    option options[] = {
        {.name = "out", .text = &out, .what = "FILE", .help = "the SVG file to write; also -o"},
        {.name = "log", .text = &log, .words = "none|x|y|xy", .help = "logarithmic axes: steps (x), losses (y)"},
        {.name = "title", .text = &title, .what = "TEXT", .help = "title of the plot"},
    };
    const command c = {"plot",
                       "RUN... [-o FILE] [--log none|x|y|xy] [--title TEXT]",
                       "Plots training and validation losses over the steps, from folders of chainrule train or from "
                       "files with lines such as\n{\"step\": 1, \"loss\": 4.2} or {\"step\": 250, \"val_loss\": "
                                                                                          "2.5}.",
                       options,
                       sizeof options / sizeof *options,
                       &files, NULL,
                       "plot run\n"
                       "plot runs/a runs/b --log x -o both.svg\n"};
    static char names[MAX_CURVES][4096];
    picture p = {.unit = "loss"};
    char file[4096];
    int code;
    if (!options_parse(&c, argc, argv, &code)) goto done;
    code = CLI_FAILED;
    p.title = title;
    p.log_x = *log == 'x';
    p.log_y = log[strlen(log) - 1] == 'y';
    if (other_picture(out)) {
        code = usage_error(&c, "--out %s: the picture is SVG, not %s; give a name that ends in .svg", out,
                           other_picture(out) + 1);
        goto done;
    }
    if (!files.n) { code = usage_error(&c, "nothing to plot: name a run.jsonl, or the folder of a run"); goto done; }
    if (files.n > MAX_CURVES) {
        code = usage_error(&c, "%d runs in one picture: %d can be told apart", files.n, MAX_CURVES);
        goto done;
    }
    for (; p.n < files.n; ) {
        losses *run = &p.run[p.n];
        name_run(files.path[p.n], names[p.n], file);
        run->name = names[p.n++];
        if (!runlog_read(file, INT64_MAX, NULL, &run->train, &run->val)) { cli_fail_library(); goto done; }
        if (!run->train.n && !run->val.n) {
            cli_fail("'%s' has no losses: each needs a line such as {\"step\": 1, \"loss\": 4.2}", file);
            goto done;
        }
    }
    if (!curve_write(out, &p)) goto done;
    printf("%s\n", out);
    code = CLI_OK;
done:
    for (int i = 0; i < p.n; i++) { free(p.run[i].train.at); free(p.run[i].val.at); }
    free(files.path);
    return code;
}
