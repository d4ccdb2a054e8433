/* Models that other programs have put on this machine: the folders of llama.cpp, Hugging Face,
 * Ollama and LM Studio, read and never written.
 *
 * Names and manifests there are hostile: what is read, how deep and how much of it is bounded,
 * and names may hold any bytes. Files are listed by name alone; whoever asks opens them to see
 * what they are. Main thread (it reads the environment). Knows no GGUF and no screen. */
#ifndef CHAT_DISCOVER_H
#define CHAT_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct found_model {
    char *name;        /* as its own program calls it, "qwen3:0.6b", "org/repo/file" */
    char *path;        /* absolute */
    char *adapter;     /* that goes with it, absolute; NULL: none */
    const char *where; /* "llama.cpp", "Hugging Face", "Ollama", "LM Studio"; static */
};

struct found_models {
    struct found_model *items; /* by program, then by name; none twice */
    size_t n, cap;
};

/* All files that may be models: later parts of split models and what is named as a projector
 * are left out. A folder that is missing or cannot be read has none. {0} before; free it after.
 */
void discover_models(struct found_models *out);
void found_models_free(struct found_models *list);

/* The path of the first of that name, to free(), and of its adapter, too (NULL: none). Every
 * name of a file counts, and one of Ollama's without the tag "latest". NULL if there is none:
 * err tells of a word that is neither that nor a file, and which names begin with it. */
char *discover_named(const char *name, char **adapter, struct err *err);

enum discover_layer { LAYER_WEIGHTS, LAYER_ADAPTER };
/* The digest of what an Ollama manifest names, the first of the kind: 64 hexadecimal digits and
 * a NUL into out. False if the JSON names none. Pure. */
bool discover_digest(const char *json, size_t n, enum discover_layer layer, char out[65]);
/* Whether a file of this name may hold a whole model. Pure. */
bool discover_is_model_name(const char *name);

#endif
