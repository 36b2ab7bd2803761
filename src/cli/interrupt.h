/* interrupt.h - Ctrl-C and SIGTERM: asked for between steps, so that everything ends cleanly.
 *
 * The first signal only sets a flag. A second one before the flag was cleared ends the program at
 * once, for whoever does not want to wait.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_INTERRUPT_H
#define MICA_CLI_INTERRUPT_H

#include <mica/engine.h>

void interrupt_install(void);

/* From now on a signal ends the program by itself, for work that leaves nothing half done; with
 * --json the error object goes out first. */
void interrupt_at_once(bool json);

/* From now on a signal also ends the step that this engine computes; NULL: none. */
void interrupt_watch(mica_engine *engine);

/* Whether a signal came since the flag was cleared. */
bool interrupted(void);

/* Waits until there is something to read from fd, or its end: true; or until a signal came: false.
 */
bool interrupt_wait(int fd);

/* Whether it was SIGTERM, which ends even what goes on after Ctrl-C. */
bool asked_to_end(void);

/* Forgets it, also in the engine that is watched, and waits for the next one. */
void interrupt_clear(void);

#endif
