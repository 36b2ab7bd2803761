/* make_builtin_model.c - make_builtin_model FOLDER OUT.gguf: the built-in model from its
 * checkpoint.
 *
 * Products become Q5_1 (rows of 384 divide by 32, not by 256), the embedding table, which is the
 * head too, Q8_0. SPDX-License-Identifier: MIT
 */
#include <stdio.h>

#include <mica/status.h>

#include "support/to_gguf.h"

int main(int argc, char **argv)
{
    const to_gguf_options options = {
        .name = "tales-19m",
        .description = "A small story model trained on public-domain books; part of mica",
        .license = "mit",
        .matrices = MICA__Q5_1,
        .embedding = MICA__Q8_0,
    };
    if (argc != 3) {
        fprintf(stderr, "usage: make_builtin_model FOLDER OUT.gguf\n");
        return 2;
    }
    if (to_gguf(argv[1], argv[2], &options) != MICA_OK) {
        fprintf(stderr, "%s\n", mica_last_error());
        return 1;
    }
    return 0;
}
