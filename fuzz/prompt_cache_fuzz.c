/* prompt_cache_fuzz.c - any bytes as a file of keys and values: what loads is found in the prefix
 * tree, and afterwards nothing holds a block.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/prefix_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Room for 16 pages: large files do not fit. */
static const mica__pool_spec specs[] = {
    {MICA__POOL_FULL, 0, 32}, {MICA__POOL_WINDOW, 20, 48}, {MICA__POOL_STATE, 0, 16}};
static const mica__prefix_owner owner = {
    .identity = {.name = "fuzz", .model = "fuzz 1", .kv = "f16", .activations = "int8"},
    .n_vocab = 1000,
    .context = 256};

static void load(const char *path)
{
    mica__kv_store store;
    mica_prefix_load loaded;
    if (mica__kv_store_open(&store, specs, 3, 16 * 4096, true) != MICA_OK)
        abort();
    const mica_status status = mica__prefix_load(&store, &owner, path, NULL, 0, &loaded);
    if (loaded.loaded > loaded.matched || loaded.matched > loaded.stored ||
        (status != MICA_OK && loaded.loaded))
        abort();
    mica__kv_store_forget(&store);
    for (int pool = 0; pool < 3; pool++)
        if (store.pools[pool].n_live)
            abort();
    if (store.tree.n_nodes)
        abort();
    mica__kv_store_close(&store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    const int fd = memfd_create("prompt_cache", MFD_CLOEXEC);
    if (fd < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t done = 0; done < n;) {
        const ssize_t put = write(fd, data + done, n - done);
        if (put < 0)
            abort();
        done += (size_t)put;
    }
    load(path);
    close(fd);
    return 0;
}
