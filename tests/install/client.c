/* client.c - the smallest program that uses libmica, valid as C17 and as C++17.
 * SPDX-License-Identifier: MIT
 */
#include <mica/mica.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    mica_memory_usage usage;
    mica_memory_read(&usage);
    if (usage.active < 0 || strcmp(mica_status_name(MICA_E_MEMORY), "memory") != 0) {
        printf("client: the library gives wrong answers\n");
        return 1;
    }
    return 0;
}
