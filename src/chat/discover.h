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

/* The files of a model: its weights, and what Ollama keeps beside them by a Modelfile. */
enum found_part {
    FOUND_WEIGHTS,
    FOUND_ADAPTER,
    FOUND_SYSTEM,   /* a text */
    FOUND_SETTINGS, /* JSON, an object of numbers, texts and lists */
    FOUND_MESSAGES,
    N_FOUND_PARTS
};

struct found_model {
    char *name;                 /* as its own program calls it, "qwen3:0.6b", "org/repo/file" */
    char *parts[N_FOUND_PARTS]; /* absolute paths; NULL: none */
    const char *where;          /* "llama.cpp", "Hugging Face", "Ollama", "LM Studio"; static */
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

/* The first of that name, to free with found_model_free. Every name of a file counts, and one
 * of Ollama's without the tag "latest". False if there is none: err tells of a word that is
 * neither that nor a file, and which names begin with it. */
bool discover_named(const char *name, struct found_model *out, struct err *err);
/* {0} and one that has been freed are fine. */
void found_model_free(struct found_model *m);

/* The digest of a part that an Ollama manifest names, the first of the kind: 64 hexadecimal
 * digits and a NUL into out. False if the JSON names none. Pure. */
bool discover_digest(const char *json, size_t n, enum found_part part, char out[65]);
/* Whether a file of this name may hold a whole model. Pure. */
bool discover_is_model_name(const char *name);

#endif
