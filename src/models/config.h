/* config.h - config.json, read strictly; weights by name. */
#ifndef CR_CONFIG_H
#define CR_CONFIG_H

#include <chainrule.h>
#include "../io/json.h"

typedef struct cr_entries { const char *op, *path; const cr_json *json; cr_status status; } cr_entries;
/* After a failure each returns its default. */
int64_t cr_entry_size(cr_entries *e, const char *key, int64_t absent, int64_t least);  /* absent -1: it must be there */
double  cr_entry_number(cr_entries *e, const char *key, double absent, double least, double most);
bool    cr_entry_flag(cr_entries *e, const char *key, bool absent);
/* the index of one of these words, "a|b"; absent: an index */
int     cr_entry_word(cr_entries *e, const char *key, const char *words, int absent);
/* refuses everything but this value, where the key is there */
void    cr_entry_only(cr_entries *e, const char *key, double value);
void    cr_entry_refuse(cr_entries *e, const char *key, const char *wanted);   /* "key" must be wanted, it is ... */
const cr_json *cr_entry_at(const cr_entries *e, const char *key);          /* NULL: absent, or null */

/* The same object without this key, with `value`, text in JSON, in its place at the end, or NULL; to be freed.  NULL:
 * an error. */
char   *cr_config_with(const char *op, const char *config, const char *key, const char *value);
bool    cr_config_quantized(const char *config);    /* does it say that cr_lm_quantize packed the weights? */

#endif
