/* registry.h - what the program asks about devices beyond the public header. */
#ifndef CR_REGISTRY_H
#define CR_REGISTRY_H

const char *cr_gpu_problem(const char *kind);       /* "cuda", "webgpu", "gpu": why there is none; "": there is one */

#endif
