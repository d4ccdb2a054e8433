/* Names that Ollama's converter gives to tensors, for files that it made. Pure; any thread. */
#ifndef MODEL_OTHER_NAMES_H
#define MODEL_OTHER_NAMES_H

struct gguf;
struct gguf_tensor;

/* The tensor of this name, which is llama.cpp's, or where there is none the one that Ollama's
 * converter calls otherwise; NULL: there is neither. */
const struct gguf_tensor *tensor_named(const struct gguf *g, const char *name);

#endif
