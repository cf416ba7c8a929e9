// Serves devices of this machine to other machines: ggml-rpc-server --help. docs/DISTRIBUTED.md has more.

#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE // macOS: the number of processors, too

#include "ggml-backend.h"
#include "ggml-rpc.h"
#include "ggml-rs.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <unistd.h>
#endif

#define MAX_DEVICES 64

#ifdef _WIN32
#define HAS_LIMITS true
static long processors(void) { return (long) GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }
static int setenv(const char * name, const char * value, int overwrite) { return overwrite ? _putenv_s(name, value) : -1; }
#else
// The original's library does not have it. (On Windows, a name that is weak is not looked for in an import library.)
#pragma weak ggml_rs_set_rpc_server_limit
#define HAS_LIMITS (ggml_rs_set_rpc_server_limit != NULL)
static long processors(void) { return sysconf(_SC_NPROCESSORS_ONLN); }
#endif

static const char USAGE[] =
    "usage: ggml-rpc-server [options]\n"
    "\n"
    "Serves devices of this machine to programs on other machines that use ggml's RPC backend.\n"
    "\n"
    "  -H, --host HOST         address to listen at (default: 127.0.0.1, this machine only)\n"
    "  -p, --port PORT         port (default: 50052)\n"
    "  -d, --device NAME,...   devices (default: all accelerators, or the CPU if there are none)\n"
    "  -t, --threads N         threads of the CPU for each client (default: half of the processors)\n"
    "  -c, --cache             keep weights in LLAMA_CACHE, or in the user's cache folder\n"
    "      --cache-dir DIR     keep weights in this folder\n"
    "      --cache-limit MIB   disk space for them (default: what they take, and 7/8 of what is free)\n"
    "  -k, --key-file FILE     serve only clients with the key in this file\n"
    "  -m, --memory MIB        memory of all clients together\n"
    "      --client-memory MIB buffers of one client (default: the memory of all)\n"
    "      --client-work MIB   its messages and graphs (default: 1/8 of --memory, at least 512)\n"
    "      --clients N         clients at once (default: 16)\n"
    "      --per-address N     clients at once from one address (default: 3/4 of --clients)\n"
    "      --idle SECONDS      disconnect a client after so long without a request (default: a day)\n"
    "      --graph-time SECONDS  stop a graph, or all that a client has sent ahead, if it takes longer, and\n"
    "                          disconnect the client (default: 600)\n"
    "  -h, --help              show this text\n";

static int fail(const char * what, const char * which) {
    fprintf(stderr, "ggml-rpc-server: %s%s; --help lists the options\n", what, which);
    return 1;
}

// A number from 1 to max, or 0.
static long number(const char * text, long max) {
    char * end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    return *text != '\0' && *end == '\0' && errno == 0 && n > 0 && n <= max ? n : 0;
}

// The name of the limit that an option sets, or NULL.
static const char * limit_of(const char * option) {
    static const char * const names[] = {
        "memory", "client-memory", "client-work", "clients", "per-address", "idle", "graph-time", "cache-limit",
    };
    if (strcmp(option, "-m") == 0) {
        return names[0];
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(option, "--", 2) == 0 && strcmp(option + 2, names[i]) == 0) {
            return names[i];
        }
    }
    return NULL;
}

// Limits the server that is started later. If the library does not accept the value, it says why.
static int set_limit(const char * name, const char * value) {
    if (!HAS_LIMITS) {
        return fail("the ggml library that was found is not libggml-rs, and has no limit ", name);
    }
    const long n = number(value, LONG_MAX);
    return n != 0 && ggml_rs_set_rpc_server_limit(name, (uint64_t) n) ? 0 : fail("not a number that can be: ", value);
}

// The folder of the original's server for weights, so that both can use it.
static bool default_cache(char * out, size_t size) {
    const char * base = getenv("LLAMA_CACHE");
    int n;
    if (base != NULL && *base != '\0') {
        n = snprintf(out, size, "%s/rpc", base);
    } else if ((base = getenv("XDG_CACHE_HOME")) != NULL && *base != '\0') {
        n = snprintf(out, size, "%s/llama.cpp/rpc", base);
    } else if ((base = getenv("HOME")) != NULL && *base != '\0') {
        n = snprintf(out, size, "%s/.cache/llama.cpp/rpc", base);
    } else {
        return false;
    }
    return n > 0 && (size_t) n < size;
}

static void list_devices(FILE * out) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        fprintf(out, "  %s: %s\n", ggml_backend_dev_name(device), ggml_backend_dev_description(device));
    }
}

static size_t named_devices(char * names, ggml_backend_dev_t * devices) {
    size_t n = 0;
    char * rest = NULL;
    for (char * name = strtok_r(names, ",/", &rest); name != NULL; name = strtok_r(NULL, ",/", &rest)) {
        ggml_backend_dev_t device = ggml_backend_dev_by_name(name);
        if (device == NULL || n == MAX_DEVICES) {
            fprintf(stderr, "ggml-rpc-server: %s: %s; the devices are\n", name, device == NULL ? "no such device" : "too many devices");
            list_devices(stderr);
            return 0;
        }
        devices[n++] = device;
    }
    return n;
}

static size_t default_devices(ggml_backend_dev_t * devices) {
    size_t n = 0;
    for (size_t i = 0; i < ggml_backend_dev_count() && n < MAX_DEVICES; i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        const enum ggml_backend_dev_type type = ggml_backend_dev_type(device);
        if (type != GGML_BACKEND_DEVICE_TYPE_CPU && type != GGML_BACKEND_DEVICE_TYPE_ACCEL) {
            devices[n++] = device;
        }
    }
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (n == 0 && cpu != NULL) {
        devices[n++] = cpu;
    }
    return n;
}

int main(int argc, char ** argv) {
    const char * host = "127.0.0.1";
    long port = 50052;
    long threads = processors() / 2;
    char * names = NULL;
    char cache[4096];
    bool use_cache = false;
    if (threads < 1) {
        threads = 1;
    }
    for (int i = 1; i < argc; i++) {
        const char * option = argv[i];
        if (strcmp(option, "-h") == 0 || strcmp(option, "--help") == 0) {
            fputs(USAGE, stdout);
            return 0;
        }
        if (strcmp(option, "-c") == 0 || strcmp(option, "--cache") == 0) {
            use_cache = true;
            if (!default_cache(cache, sizeof(cache))) {
                return fail("--cache: HOME is not set", "");
            }
            continue;
        }
        if (i + 1 == argc) {
            return fail("no value, or no such option: ", option);
        }
        char * value = argv[++i];
        if (strcmp(option, "-H") == 0 || strcmp(option, "--host") == 0) {
            host = value;
        } else if (strcmp(option, "-p") == 0 || strcmp(option, "--port") == 0) {
            if ((port = number(value, 65535)) == 0) {
                return fail("--port: no port: ", value);
            }
        } else if (strcmp(option, "-t") == 0 || strcmp(option, "--threads") == 0) {
            if ((threads = number(value, 512)) == 0) {
                return fail("--threads: not a number from 1 to 512: ", value);
            }
        } else if (strcmp(option, "-d") == 0 || strcmp(option, "--device") == 0) {
            names = value;
        } else if (strcmp(option, "--cache-dir") == 0) {
            use_cache = true;
            if (strlen(value) == 0 || strlen(value) >= sizeof(cache)) {
                return fail("--cache-dir: no path: ", value);
            }
            strcpy(cache, value);
        } else if (strcmp(option, "-k") == 0 || strcmp(option, "--key-file") == 0) {
            setenv("GGML_RPC_KEY_FILE", value, 1);
        } else {
            const char * limit = limit_of(option);
            if (limit == NULL) {
                return fail("no such option: ", option);
            }
            if (set_limit(limit, value) != 0) {
                return 1;
            }
        }
    }

    ggml_backend_load_all();
    ggml_backend_dev_t devices[MAX_DEVICES];
    const size_t n_devices = names != NULL ? named_devices(names, devices) : default_devices(devices);
    if (n_devices == 0) {
        return fail("there is no device to serve", "");
    }
    char endpoint[512];
    const char * form = strchr(host, ':') != NULL ? "[%s]:%ld" : "%s:%ld";
    const int length = snprintf(endpoint, sizeof(endpoint), form, host, port);
    if (length < 0 || (size_t) length >= sizeof(endpoint)) {
        return fail("--host: no address: ", host);
    }
    // Returns only if it cannot serve, and has logged why.
    ggml_backend_rpc_start_server(endpoint, use_cache ? cache : NULL, (size_t) threads, n_devices, devices);
    return 1;
}
