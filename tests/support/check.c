/* check.c - shared pieces of the tests.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include <unistd.h>

const char *shared_path(const char *relative)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", MICA_SHARED_DIR, relative);
    return access(path, R_OK) == 0 ? path : NULL;
}
