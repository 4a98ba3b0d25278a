/* builtins.c - the simulated libnvrtc-builtins: nothing but there, since the true NVRTC compiles nothing before it is. */
extern const int cudasim_builtins;
const int cudasim_builtins = 1;
