/* bandwidth.h - how fast this machine reads memory, measured in a moment.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_BANDWIDTH_H
#define MICA_CLI_BANDWIDTH_H

/* Bytes a second that `threads` threads together read from memory beyond the caches. Takes at most
 * 0.3 seconds; 0 when there is no memory for it. */
double bandwidth_measure(int threads);

#endif
