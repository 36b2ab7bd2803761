/* file_test.c - views of files, what is refused, atomic writing, paths.
 * SPDX-License-Identifier: MIT
 */
#include "support/check.h"
#include "support/temp_dir.h"

#include "base/file.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static mica_memory_usage usage(void)
{
    mica_memory_usage now;
    mica_memory_read(&now);
    return now;
}

static int set_up(void **state)
{
    *state = temp_dir_new();
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_remove(*state);
    return 0;
}

/* --- views ------------------------------------------------------------------------------------ */

static void a_view_holds_the_bytes_mapped_or_read(void **state)
{
    static const size_t sizes[] = {1, 63, 4095, 4096, 4097, 3000001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *bytes = malloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            bytes[k] = (unsigned char)(k * 31 + k / 255);
        char path[4096];
        strcpy(path, temp_write(*state, "file.bin", bytes, sizes[i]));
        for (int use_map = 0; use_map < 2; use_map++) {
            const mica_memory_usage before = usage();
            mica__file *file;
            assert_ok(mica__file_open(path, use_map, &file));
            assert_int_equal(mica__file_size(file), sizes[i]);
            assert_memory_equal(mica__file_data(file), bytes, sizes[i]);
            assert_int_equal((uintptr_t)mica__file_data(file) % 64, 0);
            assert_int_equal(mica__file_is_mapped(file), use_map);
            assert_string_equal(mica__file_path(file), path);
            const mica_memory_usage open = usage();
            assert_int_equal(open.mapped - before.mapped, use_map ? sizes[i] : 0);
            assert_int_equal(open.by_kind[MICA_MEMORY_WEIGHTS] -
                                 before.by_kind[MICA_MEMORY_WEIGHTS],
                             use_map ? 0 : mica__alloc_cost(sizes[i]));
            mica__file_close(file);
            assert_int_equal(usage().active, before.active);
            assert_int_equal(usage().mapped, before.mapped);
        }
        free(bytes);
    }
}

static void an_empty_file_has_an_address_and_no_bytes(void **state)
{
    const char *path = temp_write_text(*state, "empty", "");
    for (int use_map = 0; use_map < 2; use_map++) {
        mica__file *file;
        assert_ok(mica__file_open(path, use_map, &file));
        assert_int_equal(mica__file_size(file), 0);
        assert_non_null(mica__file_data(file));
        mica__file_close(file);
    }
    mica__file_close(NULL);
}

static void check_refused(const char *path, mica_status status, const char *message)
{
    for (int use_map = 0; use_map < 2; use_map++) {
        mica__file *file;
        assert_status(mica__file_open(path, use_map, &file), status);
        assert_null(file);
        if (!strstr(mica_last_error(), message))
            fail_msg("%s", mica_last_error());
    }
    mica__text text = {.kind = MICA_MEMORY_TEXT};
    assert_status(mica__file_read_text(path, 1000, &text), status);
    mica__text_free(&text);
}

static void what_is_no_regular_file_is_refused_by_what_it_is(void **state)
{
    check_refused(temp_path(*state, "nothing"), MICA_E_NOT_FOUND, "/nothing\": No such file");
    temp_write_text(*state, "plain", "x");
    check_refused(temp_path(*state, "plain/below"), MICA_E_NOT_FOUND, "Not a directory");
    check_refused(*state, MICA_E_IO, "is a directory, where a regular file is needed");
    check_refused("/dev/null", MICA_E_IO, "is a device");
    check_refused("", MICA_E_NOT_FOUND, "No such file");
    const char *fifo = temp_path(*state, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    check_refused(fifo, MICA_E_IO, "is a FIFO");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", temp_path(*state, "socket"));
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    check_refused(address.sun_path, MICA_E_IO, "is a socket");
    close(fd);
}

static void a_limit_names_the_file_and_leaves_nothing(void **state)
{
    char path[4096], bytes[5000] = "";
    strcpy(path, temp_write(*state, "weights", bytes, sizeof bytes));
    const mica_memory_usage before = usage();
    mica_set_memory_limit(before.active + before.by_kind[MICA_MEMORY_POOL] + 4000, true);
    for (int use_map = 0; use_map < 2; use_map++) {
        mica__file *file;
        assert_status(mica__file_open(path, use_map, &file), MICA_E_MEMORY);
        assert_non_null(strstr(mica_last_error(), "weights"));
    }
    mica_set_memory_limit(0, false);
    assert_int_equal(usage().active, before.active);
    assert_int_equal(usage().mapped, before.mapped);
}

static void every_refused_allocation_leaves_nothing(void **state)
{
    char path[4096];
    strcpy(path, temp_write_text(*state, "file", "content"));
    const mica_memory_usage before = usage();
    for (int use_map = 0; use_map < 2; use_map++)
        for (int64_t n = 1;; n++) {
            assert_true(n < 20);
            mica__file *file;
            mica__fault_after(n, false);
            const mica_status status = mica__file_open(path, use_map, &file);
            mica__fault_after(0, false);
            mica__file_close(file);
            assert_int_equal(usage().active, before.active);
            assert_int_equal(usage().mapped, before.mapped);
            if (status == MICA_OK)
                break;
            assert_int_equal(status, MICA_E_MEMORY);
        }
}

/* --- writing ---------------------------------------------------------------------------------- */

static void check_content(const char *path, const char *expected)
{
    mica__text text = {.kind = MICA_MEMORY_TEXT};
    assert_ok(mica__file_read_text(path, 1 << 20, &text));
    assert_string_equal(text.bytes ? text.bytes : "", expected);
    mica__text_free(&text);
}

static void writing_creates_and_replaces(void **state)
{
    char path[4096];
    strcpy(path, temp_path(*state, "out.txt"));
    const mode_t mask = umask(027);
    assert_ok(mica__file_write_atomic(path, "first", 5));
    umask(mask);
    check_content(path, "first");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640); /* as the umask says for a new file */
    assert_int_equal(chmod(path, 0604), 0);
    assert_ok(mica__file_write_atomic(path, "second, longer", 14));
    check_content(path, "second, longer");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0604);
    assert_ok(mica__file_write_atomic(path, NULL, 0));
    check_content(path, "");
    assert_int_equal(temp_dir_entries(*state), 1);
}

static void pieces_are_joined_or_abandoned(void **state)
{
    char path[4096];
    strcpy(path, temp_path(*state, "pieces"));
    mica__file_writer *writer;
    assert_ok(mica__file_create(path, &writer));
    assert_false(mica__file_exists(path));
    for (int i = 0; i < 3; i++)
        assert_ok(mica__file_write(writer, "abc", 3));
    assert_ok(mica__file_commit(writer));
    check_content(path, "abcabcabc");
    assert_ok(mica__file_create(path, &writer));
    assert_ok(mica__file_write(writer, "lost", 4));
    mica__file_abandon(writer);
    check_content(path, "abcabcabc");
    assert_int_equal(temp_dir_entries(*state), 1);
}

static void writing_through_a_link_keeps_the_link(void **state)
{
    char path[4096], link[4096];
    strcpy(path, temp_write_text(*state, "deep/target", "old"));
    strcpy(link, temp_path(*state, "link"));
    assert_int_equal(symlink("deep/target", link), 0);
    assert_ok(mica__file_write_atomic(link, "new", 3));
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    check_content(path, "new");
    assert_int_equal(unlink(path), 0);
    assert_status(mica__file_write_atomic(link, "new", 3), MICA_E_NOT_FOUND);
}

static void impossible_targets_are_refused(void **state)
{
    char name[400];
    assert_status(mica__file_write_atomic(temp_path(*state, "no/such/dir"), "x", 1),
                  MICA_E_NOT_FOUND);
    assert_status(mica__file_write_atomic(*state, "x", 1), MICA_E_IO);
    assert_non_null(strstr(mica_last_error(), "is a directory"));
    assert_status(mica__file_write_atomic("/dev/null", "x", 1), MICA_E_IO);
    assert_status(mica__file_write_atomic("", "x", 1), MICA_E_ARGUMENT);
    memset(name, 'n', sizeof name - 1); /* longer than a name can be: fails at the rename */
    name[sizeof name - 1] = '\0';
    assert_status(mica__file_write_atomic(temp_path(*state, name), "x", 1), MICA_E_IO);
    assert_int_equal(temp_dir_entries(*state), 0);
    name[255] = '\0'; /* the longest name works */
    assert_ok(mica__file_write_atomic(temp_path(*state, name), "x", 1));
}

static void a_full_disk_leaves_the_old_file(void **state)
{
    char path[4096];
    static char bytes[100000];
    strcpy(path, temp_write_text(*state, "kept", "old"));
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 50000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const mica_status status = mica__file_write_atomic(path, bytes, sizeof bytes);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, MICA_E_IO);
    assert_non_null(strstr(mica_last_error(), "after 50000 bytes"));
    check_content(path, "old");
    assert_int_equal(temp_dir_entries(*state), 1);
}

static void every_refused_allocation_keeps_the_old_file(void **state)
{
    char path[4096];
    strcpy(path, temp_write_text(*state, "kept", "old"));
    const int64_t before = usage().active;
    for (int64_t n = 1;; n++) {
        assert_true(n < 20);
        mica__fault_after(n, false);
        const mica_status status = mica__file_write_atomic(path, "new", 3);
        mica__fault_after(0, false);
        assert_int_equal(usage().active, before);
        assert_int_equal(temp_dir_entries(*state), 1);
        if (status == MICA_OK)
            break;
        check_content(path, "old");
    }
    check_content(path, "new");
}

/* --- reading in pieces ------------------------------------------------------------------------ */

static void pieces_are_read_where_they_are(void **state)
{
    char path[4096], bytes[8] = "";
    mica__file_reader *reader;
    strcpy(path, temp_write_text(*state, "pieces", "0123456789"));
    assert_ok(mica__file_reader_open(path, &reader));
    assert_int_equal(mica__file_reader_size(reader), 10);
    assert_ok(mica__file_read_at(reader, 6, bytes, 4));
    assert_memory_equal(bytes, "6789", 4);
    assert_ok(mica__file_read_at(reader, 0, bytes, 2));
    assert_memory_equal(bytes, "0189", 4);
    assert_ok(mica__file_read_at(reader, 10, bytes, 0));
    assert_status(mica__file_read_at(reader, 7, bytes, 4), MICA_E_IO);
    assert_non_null(strstr(mica_last_error(), "has 10 bytes"));
    assert_status(mica__file_read_at(reader, -1, bytes, 1), MICA_E_IO);
    assert_status(mica__file_read_at(reader, INT64_MAX, bytes, 1), MICA_E_IO);
    assert_status(mica__file_read_at(reader, 1, bytes, SIZE_MAX), MICA_E_IO);
    temp_write_text(*state, "pieces", "0123"); /* it became shorter meanwhile */
    assert_status(mica__file_read_at(reader, 2, bytes, 4), MICA_E_IO);
    assert_non_null(strstr(mica_last_error(), "changed while it was read"));
    mica__file_reader_close(reader);
    mica__file_reader_close(NULL);
    assert_status(mica__file_reader_open(*state, &reader), MICA_E_IO);
    assert_status(mica__file_reader_open("/nowhere/file", &reader), MICA_E_NOT_FOUND);
    assert_null(reader);
}

static void readers_survive_refused_memory(void **state)
{
    char path[4096];
    mica__file_reader *reader = NULL;
    strcpy(path, temp_write_text(*state, "pieces", "x"));
    for (int64_t n = 1; !reader; n++) {
        mica__fault_after(n, false);
        const mica_status status = mica__file_reader_open(path, &reader);
        mica__fault_after(0, false);
        assert_true(status == MICA_OK || status == MICA_E_MEMORY);
    }
    mica__file_reader_close(reader);
}

/* --- text and paths --------------------------------------------------------------------------- */

static void text_is_appended_within_bounds(void **state)
{
    char path[4096];
    strcpy(path, temp_write_text(*state, "text", "0123456789"));
    mica__text text = {.kind = MICA_MEMORY_TEXT};
    mica__text_add_string(&text, "> ");
    assert_status(mica__file_read_text(path, 9, &text), MICA_E_BUDGET);
    assert_non_null(strstr(mica_last_error(), "longer than the 9 bytes"));
    assert_string_equal(text.bytes, "> ");
    assert_ok(mica__file_read_text(path, 10, &text));
    assert_string_equal(text.bytes, "> 0123456789");
    assert_ok(mica__file_read_text(path, INT64_MAX, &text));
    assert_int_equal(text.length, 22);
    text.max = 31;
    assert_status(mica__file_read_text(path, INT64_MAX, &text), MICA_E_BUDGET);
    text.max = 32;
    assert_ok(mica__file_read_text(path, INT64_MAX, &text));
    mica__text_clear(&text);
    text.max = 0;
    assert_ok(mica__file_read_text("/proc/self/status", 1 << 20, &text)); /* stat says 0 bytes */
    assert_non_null(strstr(text.bytes, "Threads:"));
    const int64_t length = text.length;
    assert_status(mica__file_read_text("/proc/self/status", 20, &text), MICA_E_BUDGET);
    assert_int_equal(text.length, length);
    assert_int_equal(text.bytes[length], '\0');
    mica__text_free(&text);
}

static void check_text(char *text, const char *expected)
{
    assert_non_null(text);
    assert_string_equal(text, expected);
    mica__free(text);
}

static void paths_are_joined_and_taken_apart(void **state)
{
    check_text(mica__path_join("a", "b"), "a/b");
    check_text(mica__path_join("a/", "b/c"), "a/b/c");
    check_text(mica__path_join("a///", "b"), "a/b");
    check_text(mica__path_join("/", "b"), "/b");
    check_text(mica__path_join("///", "b"), "/b");
    check_text(mica__path_join("", "b"), "b");
    check_text(mica__path_join("a", "/b"), "/b");
    check_text(mica__path_join("a", ""), "a/");
    check_text(mica__path_directory("a/b"), "a");
    check_text(mica__path_directory("a//b"), "a");
    check_text(mica__path_directory("a/b/"), "a");
    check_text(mica__path_directory("/a"), "/");
    check_text(mica__path_directory("//a"), "/");
    check_text(mica__path_directory("/"), "/");
    check_text(mica__path_directory("a"), ".");
    check_text(mica__path_directory(""), ".");
    assert_string_equal(mica__path_name("a/b.c"), "b.c");
    assert_string_equal(mica__path_name("b.c"), "b.c");
    assert_string_equal(mica__path_name("a/"), "");
    temp_write_text(*state, "f", "");
    assert_true(mica__file_exists(temp_path(*state, "f")));
    assert_false(mica__file_exists(temp_path(*state, "g")));
    assert_false(mica__file_exists(*state));
    assert_true(mica__directory_exists(*state));
    assert_false(mica__directory_exists(temp_path(*state, "f")));
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIR(a_view_holds_the_bytes_mapped_or_read),
        WITH_DIR(an_empty_file_has_an_address_and_no_bytes),
        WITH_DIR(what_is_no_regular_file_is_refused_by_what_it_is),
        WITH_DIR(a_limit_names_the_file_and_leaves_nothing),
        WITH_DIR(every_refused_allocation_leaves_nothing),
        WITH_DIR(writing_creates_and_replaces),
        WITH_DIR(pieces_are_joined_or_abandoned),
        WITH_DIR(writing_through_a_link_keeps_the_link),
        WITH_DIR(impossible_targets_are_refused),
        WITH_DIR(a_full_disk_leaves_the_old_file),
        WITH_DIR(every_refused_allocation_keeps_the_old_file),
        WITH_DIR(pieces_are_read_where_they_are),
        WITH_DIR(readers_survive_refused_memory),
        WITH_DIR(text_is_appended_within_bounds),
        WITH_DIR(paths_are_joined_and_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
