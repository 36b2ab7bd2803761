/* event_queue.c - what the engine has to tell, in order.
 *
 * Room for a step's events is reserved before the step changes anything, so no event is ever lost.
 * Text lies in one arena that is emptied when a step begins and everything has been read; events
 * hold offsets, since the arena moves as it grows.
 * SPDX-License-Identifier: MIT
 */
#include "run/event_queue.h"

#include <assert.h>
#include <string.h>

void mica__events_open(mica__event_queue *queue)
{
    memset(queue, 0, sizeof *queue);
    queue->arena.kind = MICA_MEMORY_OTHER;
}

void mica__events_close(mica__event_queue *queue)
{
    mica__free(queue->records);
    mica__text_free(&queue->arena);
    memset(queue, 0, sizeof *queue);
}

mica_status mica__events_reserve(mica__event_queue *queue, int64_t n)
{
    if (queue->count == 0) {
        mica__text_clear(&queue->arena);
        queue->head = 0;
    }
    if (queue->head + queue->count + n > queue->capacity && queue->head > 0) {
        memmove(queue->records, queue->records + queue->head,
                (size_t)queue->count * sizeof *queue->records);
        queue->head = 0;
    }
    return mica__grow(MICA_MEMORY_OTHER, (void **)&queue->records, sizeof *queue->records,
                      queue->head + queue->count + n, &queue->capacity);
}

mica__event_record *mica__events_add(mica__event_queue *queue)
{
    assert(queue->head + queue->count < queue->capacity);
    mica__event_record *record = &queue->records[queue->head + queue->count++];
    memset(record, 0, sizeof *record);
    record->event.token = -1;
    record->text_at = record->message_at = -1;
    return record;
}

static mica_status add_string(mica__event_queue *queue, const char *bytes, size_t n, int64_t *at)
{
    mica__text *arena = &queue->arena;
    const int64_t start = arena->length;
    if (n == 0)
        return MICA_OK;
    mica_status status = mica__text_add(arena, bytes, n);
    if (status == MICA_OK)
        status = mica__text_add_char(arena, '\0');
    if (status == MICA_OK) {
        *at = start;
    } else { /* this string is lost, those before and after it are not */
        arena->length = start;
        arena->status = MICA_OK;
    }
    return status;
}

mica_status mica__events_set_text(mica__event_queue *queue, mica__event_record *record,
                                  const char *bytes, size_t n)
{
    MICA_TRY(add_string(queue, bytes, n, &record->text_at));
    record->event.n_text = n;
    return MICA_OK;
}

mica_status mica__events_set_message(mica__event_queue *queue, mica__event_record *record,
                                     const char *message)
{
    return add_string(queue, message, strlen(message), &record->message_at);
}

bool mica__events_take(mica__event_queue *queue, mica_event *event)
{
    if (queue->count == 0)
        return false;
    const mica__event_record *record = &queue->records[queue->head++];
    queue->count--;
    *event = record->event;
    event->text = record->text_at >= 0 ? queue->arena.bytes + record->text_at : "";
    event->message = record->message_at >= 0 ? queue->arena.bytes + record->message_at : "";
    return true;
}
