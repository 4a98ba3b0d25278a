/* config.c - every run-time switch: read from the environment as CHAINRULE_<name>. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name, *doc; } switches[] = {
    {"CHAINRULE_DEVICE", "the default device: cpu or ref"},
    {"CHAINRULE_NUM_THREADS", "threads of the pool, at least 1; default: the processors this process may use"},
    {"CHAINRULE_ISA", "instruction set of the cpu device, at most what the processor has: v2, v3 or v4 (x86-64 levels); given, products of bf16 run in f32"},
};
enum { SWITCHES = sizeof switches / sizeof *switches, PREFIX = sizeof "CHAINRULE_" - 1 };

bool cr_switch_at(int i, const char **name, const char **doc, const char **value) {
    if (i < 0 || i >= SWITCHES) return false;
    if (name) *name = switches[i].name;
    if (doc) *doc = switches[i].doc;
    if (value) *value = getenv(switches[i].name);
    return true;
}

const char *cr_config(const char *name) {
    for (int i = 0; i < SWITCHES; i++)
        if (!strcmp(switches[i].name + PREFIX, name)) {
            const char *v = getenv(switches[i].name);
            return v && *v ? v : NULL;
        }
    CR_ASSERT(!"a switch that is not in the table");
    return NULL;
}
