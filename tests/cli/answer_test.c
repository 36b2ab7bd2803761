/* answer_test.c - the thinking part of an answer, told from the rest as text arrives in pieces.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"

#include "cli/answer.h"

/* Feeds the pieces as events of one token each, then the end. */
static void feed(cli_answer *answer, const char *const *pieces, int n)
{
    for (int i = 0; i < n; i++) {
        const mica_event event = {.kind = MICA_EVENT_TOKEN,
                                  .token = i,
                                  .index = i,
                                  .text = pieces[i],
                                  .n_text = strlen(pieces[i]),
                                  .message = ""};
        assert_int_equal(answer_take(answer, &event), 0);
    }
    const mica_event end = {.kind = MICA_EVENT_FINISHED,
                            .token = -1,
                            .text = "",
                            .message = "",
                            .reason = MICA_FINISH_STOP};
    assert_int_equal(answer_take(answer, &end), 0);
}

static void expect(thinking_state state, const char *const *pieces, int n, const char *reasoning,
                   const char *text)
{
    cli_answer answer = {.state = state};
    feed(&answer, pieces, n);
    assert_string_equal(buffer_text(&answer.text), text);
    assert_string_equal(buffer_text(&answer.reasoning), reasoning ? reasoning : "");
    assert_int_equal(answer.has_reasoning, reasoning != NULL);
    assert_int_equal(answer.n_tokens, n);
    answer_free(&answer);
}

#define EXPECT(state, reasoning, text, ...)                                                        \
    do {                                                                                           \
        const char *const pieces[] = {__VA_ARGS__};                                                \
        expect(state, pieces, (int)(sizeof pieces / sizeof *pieces), reasoning, text);             \
    } while (0)

static void a_model_that_does_not_think_keeps_its_marks(void **state)
{
    (void)state;
    EXPECT(THINKING_NONE, NULL, "<think>x</think>y", "<think>", "x", "</think>", "y");
}

static void a_thinking_part_is_told_apart_wherever_it_is_cut(void **state)
{
    (void)state;
    EXPECT(THINKING_MAYBE, "\nwhy\n", "because", "<think>\nwhy\n</think>\n\nbecause");
    EXPECT(THINKING_MAYBE, "why", "because", "<th", "ink>wh", "y</th", "ink>", "\n", "\n be",
           "cause");
    EXPECT(THINKING_MAYBE, "a", "b", "<", "t", "h", "i", "n", "k", ">", "a", "<", "/", "t", "h",
           "i", "n", "k", ">", "b");
}

static void text_that_only_begins_like_a_mark_is_text(void **state)
{
    (void)state;
    EXPECT(THINKING_MAYBE, NULL, "<thing>", "<thi", "ng>");
    EXPECT(THINKING_MAYBE, NULL, " <", " ", "<");
    EXPECT(THINKING_MAYBE, NULL, "plain <think>", "plain ", "<think>");
    EXPECT(THINKING_INSIDE, "a</thin b", "", "a</thin", " b");
}

static void an_answer_that_ends_while_thinking_is_all_reasoning(void **state)
{
    (void)state;
    EXPECT(THINKING_INSIDE, "on and on </", "", "on and on", " </");
    EXPECT(THINKING_INSIDE, NULL, "", "");
}

static void a_thinking_part_that_the_prompt_opened(void **state)
{
    (void)state;
    EXPECT(THINKING_INSIDE, "hm\n", "ok </think>", "hm\n</think>", "\nok </think>");
}

static void spaces_between_are_left_out_and_later_ones_stay(void **state)
{
    (void)state;
    EXPECT(THINKING_MAYBE, "x", "a \n b", " \n<think>x</think>", " \n", "\n", "a", " \n b");
}

static void a_stop_string_end_keeps_what_was_held(void **state)
{
    (void)state;
    cli_answer answer = {.state = THINKING_MAYBE};
    const mica_event end = {.kind = MICA_EVENT_FINISHED,
                            .token = -1,
                            .text = "<thi",
                            .n_text = 4,
                            .message = "",
                            .reason = MICA_FINISH_STOP_STRING};
    assert_int_equal(answer_take(&answer, &end), 0);
    assert_string_equal(buffer_text(&answer.text), "<thi");
    answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_does_not_think_keeps_its_marks),
        cmocka_unit_test(a_thinking_part_is_told_apart_wherever_it_is_cut),
        cmocka_unit_test(text_that_only_begins_like_a_mark_is_text),
        cmocka_unit_test(an_answer_that_ends_while_thinking_is_all_reasoning),
        cmocka_unit_test(a_thinking_part_that_the_prompt_opened),
        cmocka_unit_test(spaces_between_are_left_out_and_later_ones_stay),
        cmocka_unit_test(a_stop_string_end_keeps_what_was_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
