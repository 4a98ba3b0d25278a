/* test_lm.c - pretrained language models in C: the same logits and text from a folder, a GGUF file and
 * a checkpoint, what the formats keep, and what is refused. */
#include "test.h"

#include "folder.h"
