/* interrupt.c - the signal handler, which sets two flags and wakes up whoever waits.
 * SPDX-License-Identifier: MIT
 */
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/failure.h"

static volatile sig_atomic_t flag;
static mica_engine *_Atomic watched;
static volatile sig_atomic_t at_once, at_once_json;

/* A signal also puts a byte into this pipe, so that waiting for input and for a signal is one wait,
 * whichever thread the signal came to. -1 where the system refused it. */
static int signal_pipe[2] = {-1, -1};

/* Only what a signal handler may call. What waits in stdio's buffers is lost. */
static void end_now(int number)
{
    static const char error[] =
        "{\"error\": {\"code\": \"cancelled\", \"message\": \"interrupted\", \"where\": null}}\n";
    if (at_once_json && write(STDOUT_FILENO, error, sizeof error - 1) < 0)
        _exit(EXIT_FAILED);
    _exit(number == SIGTERM ? EXIT_TERMINATED : EXIT_INTERRUPTED);
}

static void on_signal(int number)
{
    if (at_once)
        end_now(number);
    const int before = errno;
    mica_engine *engine = watched;
    flag = number;
    if (engine)
        mica_engine_interrupt(engine, true);
    if (signal_pipe[1] >= 0 && write(signal_pipe[1], "", 1) < 0)
        flag = number; /* full: somebody wakes up already */
    errno = before;
}

/* SA_RESETHAND: the next signal has its default effect. No SA_RESTART: a read ends. */
void interrupt_install(void)
{
    struct sigaction action;
    if (signal_pipe[0] < 0 && pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        signal_pipe[0] = signal_pipe[1] = -1;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void interrupt_at_once(bool json)
{
    at_once_json = json;
    at_once = true;
    if (interrupted())
        end_now(flag);
}

void interrupt_watch(mica_engine *engine)
{
    watched = engine;
}

bool interrupted(void)
{
    return flag != 0;
}

bool interrupt_wait(int fd)
{
    struct pollfd waits[2] = {{.fd = fd, .events = POLLIN},
                              {.fd = signal_pipe[0], .events = POLLIN}};
    while (!interrupted()) {
        const int n = poll(waits, 2, -1);
        if (n > 0 && !waits[1].revents)
            return true;
        if (n < 0 && errno != EINTR)
            return true; /* the read will say what is wrong */
    }
    return false;
}

bool asked_to_end(void)
{
    return flag == SIGTERM;
}

void interrupt_clear(void)
{
    char bytes[16];
    mica_engine *engine = watched;
    flag = 0;
    while (signal_pipe[0] >= 0 && read(signal_pipe[0], bytes, sizeof bytes) > 0)
        continue;
    if (engine)
        mica_engine_interrupt(engine, false);
    interrupt_install();
}
