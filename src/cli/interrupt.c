/* interrupt.c - the signal handler, which does nothing but set two flags.
 * SPDX-License-Identifier: MIT
 */
#include "cli/interrupt.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t flag;
static mica_engine *_Atomic watched;

static void on_signal(int number)
{
    flag = number;
    mica_engine *engine = watched;
    if (engine)
        mica_engine_interrupt(engine, true);
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

void interrupt_watch(mica_engine *engine)
{
    watched = engine;
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
    mica_engine *engine = watched;
    flag = 0;
    if (engine)
        mica_engine_interrupt(engine, false);
    interrupt_install();
}
