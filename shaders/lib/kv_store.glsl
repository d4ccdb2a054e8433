/* What the shaders share that put rows' keys and values into the pages of a slab. x counts work
 * groups, first those of the keys, y pairs of slots, an even one and the odd one behind it, z pages
 * of the slab that the step writes. The slots of a pair share words of 16-bit numbers: who stores one
 * stores the other. */
#include "step.glsl"
#include "numeric.glsl"
#include "kv.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_TYPE = 1;
layout(set = 0, binding = 1, std430) buffer Slab { uint slab[]; };
layout(set = 0, binding = 2, std430) readonly buffer Keys { float key_rows[]; };
layout(set = 0, binding = 3, std430) readonly buffer Values { float value_rows[]; };

struct side {
    uint dim;
    uint in_stride, in_at;
    uint codes_at, scales_at; /* words of a page, of the first head */
};

layout(push_constant) uniform Push {
    uint part, n_heads;
    side keys, values;
    uint head_words, page_words;
    uint list_at; /* words of the step: page number and place in the slab of each page written */
    uint key_groups;
};

/* Of the work group. */
bool is_key;
uint group;               /* among those of the keys, or of the values */
uint dim;
uint codes_at, scales_at; /* words of the slab */

void begin_group()
{
    is_key = gl_WorkGroupID.x < key_groups;
    group = gl_WorkGroupID.x - (is_key ? 0u : key_groups);
    dim = is_key ? keys.dim : values.dim;
    uint base = step_words[list_at + 2u * gl_WorkGroupID.z + 1u] * page_words;
    codes_at = base + (is_key ? keys.codes_at : values.codes_at);
    scales_at = base + (is_key ? keys.scales_at : values.scales_at);
}

/* Slot s of the pair, and the row that goes there; false: none does. */
bool find_slot(uint s, out uint slot, out uint row)
{
    uint begin = step_words[list_at + 2u * gl_WorkGroupID.z] * PAGE_LEN;
    uint pos = step_pos(), end = pos + step_n_rows();
    slot = (pos > begin ? (pos - begin) / 2u * 2u : 0u) + 2u * gl_WorkGroupID.y + s;
    row = begin + slot - pos;
    return slot < PAGE_LEN && begin + slot >= pos && begin + slot < end;
}

/* Value i of all heads of a row. */
float value(uint row, uint i)
{
    return is_key ? key_rows[row * keys.in_stride + keys.in_at + i]
                  : value_rows[row * values.in_stride + values.in_at + i];
}

/* Half h of a word; the other stays. */
void put_half(uint word, uint h, uint bits)
{
    uint shift = 16u * h;
    slab[word] = (slab[word] & ~(0xffffu << shift)) | bits << shift;
}
