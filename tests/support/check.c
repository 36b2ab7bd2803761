/* check.c - shared pieces of the tests.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <stdlib.h>
#include <unistd.h>

const char *shared_path(const char *relative)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", MICA_SHARED_DIR, relative);
    return access(path, R_OK) == 0 ? path : NULL;
}

const char *fetched_path(const char *relative)
{
    static char path[4096];
    const char *folder = getenv("MICA_CACHE_DIR");
    snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : MICA_CACHE_DIR, relative);
    return access(path, R_OK) == 0 ? path : NULL;
}
