/* The bundled models, from the root of the repository, where tests run. */
#ifndef TESTS_GUIDE_H
#define TESTS_GUIDE_H

#define GUIDE "examples/guide/guide-q8_0.gguf"
#define GUIDE_DRAFT "examples/guide/guide-draft-q8_0.gguf"

#endif
