/* builtins.c - the simulated libnvrtc-builtins: empty; as with the true NVRTC, nothing compiles until it is loaded. */
extern const int cudasim_builtins;
const int cudasim_builtins = 1;
