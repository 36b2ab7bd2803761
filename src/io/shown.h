/* shown.h - names from files as they may stand in messages.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_IO_SHOWN_H
#define MICA_IO_SHOWN_H

#include <stdint.h>

#define MICA__SHOWN_BYTES 64

/* At most 63 bytes of a name, everything but printable ASCII shown as '?'. Fills and returns
 * `buffer`. */
static inline const char *mica__shown(char buffer[MICA__SHOWN_BYTES], const char *bytes,
                                      int64_t length)
{
    const int64_t shown = length < MICA__SHOWN_BYTES - 1 ? length : MICA__SHOWN_BYTES - 1;
    for (int64_t i = 0; i < shown; i++)
        buffer[i] = (char)(bytes[i] >= 0x20 && bytes[i] < 0x7f ? bytes[i] : '?');
    buffer[shown] = '\0';
    return buffer;
}

#endif
