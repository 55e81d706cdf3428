/* NVIDIA's library as far as Railhead calls it: two GPUs, whose numbers are in the environment.
   "-" is NVML_ERROR_NOT_SUPPORTED (3); before nvmlInit_v2 all is NVML_ERROR_UNINITIALIZED (1). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int begun;
static int places[2];

int nvmlInit_v2(void) {
    const char *code = getenv("FAKE_NVML_INIT");
    if (code && !strcmp(code, "hangs"))
        for (;;) sleep(1000);
    if (code) return atoi(code);
    begun = 1;
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!begun) return 1;
    *count = 2;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (!begun) return 1;
    if (index > 1) return 2;
    *handle = &places[index];
    return 0;
}
static int number(void *handle, const char *name, unsigned long long *value) {
    const char *text = getenv(name);
    if (!begun) return 1;
    if (handle != &places[0] && handle != &places[1]) return 2;
    if (!text || *text == '-') return 3;
    *value = strtoull(text, NULL, 10) + (handle == &places[1]);
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *value) {
    return number(handle, "FAKE_NVML_ENERGY", value);
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *value) {
    unsigned long long wide;
    int code = number(handle, "FAKE_NVML_POWER", &wide);
    if (!code) *value = (unsigned)wide;
    return code;
}
