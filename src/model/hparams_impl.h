/* What hparams.c (what all families share), hparams_keys.c (keys to numbers), hparams_experts.c
 * and hparams_parts.c (what some families have) share. See hparams.h; families include only
 * that.
 */
#ifndef MODEL_HPARAMS_IMPL_H
#define MODEL_HPARAMS_IMPL_H

#include "model/hparams.h"

struct gguf_kv;

enum { KEY_CAP = 192, FOUND_CAP = 64 };

/* "<arch>.<key>" in out, which is returned. */
const char *hparams_full_key(const struct hparams *hp, const char *key, char out[KEY_CAP]);
/* What stands at the key, for messages, in out, which is returned. */
const char *hparams_found_text(const struct gguf_kv *kv, char out[FOUND_CAP]);
/* The error of a key that must be there; returns false. */
bool hparams_missing(const struct hparams *hp, const char *key, struct err *err);
/* As hparams_u32, for a key that is one number or an array of n_layer; layer's entry. */
bool hparams_layer_u32(const struct hparams *hp, const char *key, uint32_t layer, uint32_t lo,
                       uint32_t hi, bool required, uint32_t *value, struct err *err);
/* As hparams_u32, not required, for an even number from 2 on. */
bool hparams_even_u32(const struct hparams *hp, const char *key, uint32_t most, uint32_t *value,
                      struct err *err);

/* "expert_count" and what follows from it, of a file that may have none. */
bool hparams_read_experts(struct hparams *hp, struct err *err);

/* Parts of hparams_agree: routers, weights and groups of experts; the base in layers with
 * windows. */
bool hparams_experts_agree(const struct hparams *hp, struct err *err);
bool hparams_bases_agree(const struct hparams *hp, struct err *err);

#endif
