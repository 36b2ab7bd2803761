/* interrupt.c - the signal handler, which does nothing but set a flag.
 * SPDX-License-Identifier: MIT
 */
#include "cli/interrupt.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t flag;

static void on_signal(int number)
{
    flag = number;
}

/* SA_RESETHAND: the next signal has its default effect. No SA_RESTART: a read from a terminal or a
 * pipe ends. */
void interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void)
{
    return flag != 0;
}

bool asked_to_end(void)
{
    return flag == SIGTERM;
}

void interrupt_clear(void)
{
    flag = 0;
    interrupt_install();
}
