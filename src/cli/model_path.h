/* model_path.h - which file or folder --model means.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_CLI_MODEL_PATH_H
#define MICA_CLI_MODEL_PATH_H

#define MODEL_PATH_BYTES 4096

/* Finds a model. name: a path; else a name in the cache (MICA_CACHE_DIR, else XDG_CACHE_HOME or
 * ~/.cache with mica/models: NAME or NAME.gguf); else ORG/NAME in the Hugging Face cache
 * (HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub); NULL: the built-in model beside the
 * program. A folder that holds one .gguf file and no config.json means that file.
 * 0, or a failure that says where it was looked for. */
int model_path_find(const char *name, char path[MODEL_PATH_BYTES]);

/* Whether path is a regular file, or a folder. */
int is_file(const char *path);
int is_folder(const char *path);

#endif
