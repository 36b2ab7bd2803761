/* event_queue.h - what the engine has to tell, in order.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_RUN_EVENT_QUEUE_H
#define MICA_RUN_EVENT_QUEUE_H

#include <mica/engine.h>

#include "base/text_buffer.h"

/* An event whose text and message lie in the queue's arena. */
typedef struct mica__event_record {
    mica_event event;
    int64_t text_at, message_at; /* offsets into the arena, -1 for "" */
} mica__event_record;

typedef struct mica__event_queue {
    mica__event_record *records; /* [capacity], those in use are [head, head + count) */
    int64_t head, count, capacity;
    mica__text arena;
} mica__event_queue;

void mica__events_open(mica__event_queue *queue);
void mica__events_close(mica__event_queue *queue);

/* Makes sure that the next n additions succeed. When all events were taken their text is forgotten.
 */
mica_status mica__events_reserve(mica__event_queue *queue, int64_t n);

/* Appends a zero event with empty text; room must be reserved. Valid until the next addition. */
mica__event_record *mica__events_add(mica__event_queue *queue);

/* Copies bytes into the arena, NUL-terminated. On failure the event's text (message) stays "". */
mica_status mica__events_set_text(mica__event_queue *queue, mica__event_record *record,
                                  const char *bytes, size_t n);
mica_status mica__events_set_message(mica__event_queue *queue, mica__event_record *record,
                                     const char *message);

/* Takes the oldest event; false when there is none. */
bool mica__events_take(mica__event_queue *queue, mica_event *event);

#endif
