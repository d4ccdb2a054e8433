/* Attention of rows over one page on a device that runs thousands of lanes at once: what
 * attend.glsl leaves, to the bit, in a fraction of its steps.
 *
 * A work group of 128 lanes has QUERIES queries (a query is a row and a head) of one KV head; y
 * counts the pages of the slab that the sequence has. A lane first asks for its share of all that
 * the group reads, so that one wait is enough, and holds it in registers; from there it goes to
 * shared memory in chunks. For the scores a lane is a key and every other query, for the softmax
 * eight keys of a query, for the values a dim, or two of them, of one or more queries.
 *
 * Pages of f32, f16 and q8_0 are taken, with up to 256 dims of a head, multiples of 8 (q8_0: 32).
 * A number is what lies in 32 bits of shared memory: a float, or with codes a word of four. Sums
 * of floats begin with +0 here, not with their first term. That differs where all terms are -0
 * only, and what keep is applied to afterwards is +0 either way. */
#include "attend_page.glsl"

const uint LANES = 128u; /* the local size */
const uint PER_TEXEL = KV_TYPE == KV_F16 ? 8u : 4u; /* numbers */
const uint PER_NUMBER = HAS_CODES ? 4u : 1u;        /* dims */

/* A chunk of the page. Number n of it is in plane n % PER_TEXEL; neighbours lie in different
 * banks, when lanes write texels and when they read numbers. */
const uint CHUNK_NUMBERS = 2048u;
const uint PLANE = (CHUNK_NUMBERS + 32u) / PER_TEXEL;
shared uint chunk[CHUNK_NUMBERS + 32u];

/* Keys: rows of a number of each key. A chunk has those that eight texels of a query have. */
const uint K_ROWS = DIM_K / PER_NUMBER, ROW_TEXELS = PAGE_LEN / PER_TEXEL;
#ifdef DOT_PACKED
const uint CHUNK_ROWS = 32u;
#else
const uint CHUNK_ROWS = HAS_CODES ? 16u : 32u;
#endif
const uint QUERY_TEXELS = 8u; /* of a chunk; and a query has as many lanes */
const uint ROWS_TEXELS = HAS_CODES ? A8_HALF_TEXELS : 1u; /* of a query, for four rows */
const uint K_CHUNKS = (K_ROWS + CHUNK_ROWS - 1u) / CHUNK_ROWS;
const uint K_SHARE = CHUNK_ROWS * ROW_TEXELS / LANES; /* of a chunk, texels of a lane */

/* Values: whole keys. */
const uint V_NUMBERS = DIM_V / PER_NUMBER; /* of a key */
const uint CHUNK_KEYS = V_NUMBERS > 128u ? 8u : V_NUMBERS > 64u ? 16u : V_NUMBERS > 32u ? 32u : 64u;
const uint V_CHUNKS = PAGE_LEN / CHUNK_KEYS;
const uint V_TEXELS = CHUNK_KEYS * V_NUMBERS / PER_TEXEL; /* of a chunk */
const uint V_SHARE = (V_TEXELS + LANES - 1u) / LANES;

/* Values wait for the keys to be used up where both are more than registers should hold. */
const bool V_EARLY = K_CHUNKS * K_SHARE + V_CHUNKS * V_SHARE <= 32u;

uvec4 own_keys[K_CHUNKS * K_SHARE], own_values[V_CHUNKS * V_SHARE], own_query[K_CHUNKS];

/* Of queries. */
const uint NOWHERE = 0xffffffffu;
shared uvec4 asked[QUERIES * 8];    /* a chunk: floats or codes */
shared uvec4 weights[QUERIES * 16]; /* scores, then what values are multiplied with, by key */
shared int orders[QUERIES * 8];     /* the largest score of eight keys */
shared float runs[QUERIES * 8];     /* and their sum */
shared float query_scale[QUERIES];  /* with codes */
shared float query_slope[QUERIES];  /* with slopes */
shared int own_key[QUERIES];        /* that of the row, counted from the page's first */
shared uint first_key[QUERIES], end_key[QUERIES]; /* that it sees */
shared uint place[QUERIES];         /* in the parts, or NOWHERE */
shared float key_inverse[PAGE_LEN]; /* with codes, by key; see attend.glsl */

/* What values are for: queries of a lane, dims of it. */
const uint V_SLOTS_MOST = DIM_V > LANES ? 1u : LANES / DIM_V;
const uint V_SLOTS = V_SLOTS_MOST < uint(QUERIES) ? V_SLOTS_MOST : uint(QUERIES);
const uint V_QUERIES = (uint(QUERIES) + V_SLOTS - 1u) / V_SLOTS;
const uint V_DIMS = DIM_V > LANES ? 2u : 1u;
const uint K_QUERIES = (uint(QUERIES) + 1u) / 2u;

float score[K_QUERIES], acc[V_QUERIES * V_DIMS];
int dot_sum[K_QUERIES], code_sum[V_QUERIES * V_DIMS];

/* ---- loads ---- */

void load_keys(uint keys, uint lane)
{
    [[unroll]] for (uint i = 0u; i < K_CHUNKS * K_SHARE; i++) {
        uint at = i * LANES + lane, last = K_ROWS * ROW_TEXELS - 1u;
        at = at < last ? at : last;
        uint first = at % ROW_TEXELS * PER_TEXEL; /* key */
        own_keys[i] = texelFetch(slab, int(keys + key_at(K_ROWS, at / ROW_TEXELS, first) / PER_TEXEL));
    }
}

void load_values(uint values, uint lane)
{
    [[unroll]] for (uint i = 0u; i < V_CHUNKS * V_SHARE; i++) {
        uint at = i % V_SHARE * LANES + lane, last = V_TEXELS - 1u;
        own_values[i] = texelFetch(slab, int(values + i / V_SHARE * V_TEXELS + (at < last ? at : last)));
    }
}

/* A texel of each chunk, of the query that begins at texel `at`. */
void load_query(uint at, uint lane)
{
    [[unroll]] for (uint c = 0u; c < K_CHUNKS; c++) {
        uint t = c * QUERY_TEXELS + lane % QUERY_TEXELS, last = K_ROWS / 4u * ROWS_TEXELS - 1u;
        t = t < last ? t : last;
        if (HAS_CODES) t += t / A8_META; /* what is not codes is left out */
        own_query[c] = texelFetch(queries, int(at + t));
    }
}

void store_texel(uint at, uvec4 texel)
{
    [[unroll]] for (uint i = 0u; i < PER_TEXEL; i++)
        chunk[i * PLANE + at] = KV_TYPE == KV_F16 ? u_of(half_in(texel, i)) : texel[i & 3u];
}

uint place_of(uint number)
{
    return number % PER_TEXEL * PLANE + number / PER_TEXEL;
}

/* ---- scores ---- */

void store_keys(uint c, uint lane)
{
    [[unroll]] for (uint i = 0u; i < K_CHUNKS * K_SHARE; i++)
        if (i / K_SHARE == c) store_texel(i % K_SHARE * LANES + lane, own_keys[i]);
    uvec4 texel = own_query[0];
    [[unroll]] for (uint i = 1u; i < K_CHUNKS; i++)
        if (i == c) texel = own_query[i];
    if (!HAS_CODES)
        [[unroll]] for (uint e = 0u; e < 4u; e++)
            texel[e] = u_of(narrowed(f_of(texel[e])));
    if (lane < uint(QUERIES) * QUERY_TEXELS) asked[lane] = texel;
}

/* The i-th query of one of both slots; of an odd number both have the last. */
uint query_of(uint i, uint slot)
{
    return 2u * i + 1u < uint(QUERIES) ? 2u * i + slot : 2u * i;
}

a8_half asked_half(uint at)
{
    a8_half x;
    x.a = asked[at];
#ifndef DOT_PACKED
    x.b = asked[at + 1u];
#endif
    return x;
}

/* Four rows of a key. */
void score_rows(uint i, uint at, uint k0, uint k1, uint k2, uint k3)
{
    uint k[4] = uint[4](k0, k1, k2, k3);
    if (HAS_CODES) {
        a8_half x = asked_half(at);
        [[unroll]] for (int r = 0; r < 4; r++)
            dot_sum[i] += dot4(k[r], x, r, true);
    } else {
        uvec4 q = asked[at];
        [[unroll]] for (int r = 0; r < 4; r++)
            score[i] = fadd(score[i], fmul(f_of(q[r]), f_of(k[r])));
    }
}

void score_chunk(uint n_rows, uint key, uint slot)
{
    uint from = place_of(key);
    for (uint row = 0u; row < n_rows; row += 8u) {
        uint k[8];
        [[unroll]] for (uint r = 0u; r < 8u; r++)
            k[r] = chunk[from + (row + r) * ROW_TEXELS];
        [[unroll]] for (uint i = 0u; i < K_QUERIES; i++) {
            uint at = query_of(i, slot) * QUERY_TEXELS + row / 4u * ROWS_TEXELS;
            score_rows(i, at, k[0], k[1], k[2], k[3]);
            score_rows(i, at + ROWS_TEXELS, k[4], k[5], k[6], k[7]);
        }
    }
}

/* k_scale, v_scale: with codes, those of the key and of its value. */
void end_scores(uint key, uint slot, float k_scale, float v_scale)
{
    float log2_scale = 0.0;
    if (HAS_CODES) {
        float d = num_weight_scale(v_scale);
        log2_scale = num_weight_log2(d);
        if (slot == 0u) key_inverse[key] = num_weight_inverse(d);
    }
    [[unroll]] for (uint i = 0u; i < K_QUERIES; i++) {
        uint query = query_of(i, slot);
        if (HAS_CODES) score[i] = fmul(fmul(query_scale[query], k_scale), float(dot_sum[i]));
        if (slot == 0u || 2u * i + 1u < uint(QUERIES))
            weights[query * 16u + key / 4u][key & 3u] = u_of(
                score_of(score[i], query_slope[query], int(key) - own_key[query], log2_scale));
    }
}

/* ---- softmax ---- */

bool is_seen(uint key, uint first, uint end)
{
    return key >= first && key < end;
}

/* The largest of the lane's eight scores. */
void find_largest(uint lane, visible seen)
{
    int largest = -2147483647 - 1;
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        int order = num_order(f_of(weights[lane * 2u + j / 4u][j & 3u]));
        if (is_seen(lane % 8u * 8u + j, seen.lo, seen.hi) && order > largest) largest = order;
    }
    orders[lane] = largest;
}

/* Of the lane's query. */
float largest_score(uint lane)
{
    int all = orders[lane & ~7u];
    [[unroll]] for (uint g = 1u; g < 8u; g++) {
        int other = orders[(lane & ~7u) + g];
        all = other > all ? other : all;
    }
    return num_order_back(all);
}

/* The lane's scores become what values are multiplied with: floats, or with codes integers. */
void make_weights(uint lane, visible seen, float m)
{
    uvec4 w[2] = uvec4[2](weights[lane * 2u], weights[lane * 2u + 1u]);
    float run = 0.0;
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        uint key = lane % 8u * 8u + j;
        bool in_it = is_seen(key, seen.lo, seen.hi);
        float p = probability(fsub(f_of(w[j / 4u][j & 3u]), m));
        w[j / 4u][j & 3u] = !in_it ? 0u : HAS_CODES ? uint(num_rne(p)) : u_of(p);
        if (HAS_CODES) p = fmul(p, key_inverse[key]);
        p = in_it ? p : 0.0;
        run = j == 0u ? p : fadd(run, p);
    }
    weights[lane * 2u] = w[0];
    weights[lane * 2u + 1u] = w[1];
    runs[lane] = run;
}

float sum_of_runs(uint lane)
{
    float l = runs[lane];
    [[unroll]] for (uint g = 1u; g < 8u; g++)
        l = fadd(l, runs[lane + g]);
    return l;
}

/* ---- values ---- */

void store_values(uint c, uint lane)
{
    [[unroll]] for (uint i = 0u; i < V_CHUNKS * V_SHARE; i++) {
        uint at = i % V_SHARE * LANES + lane;
        if (i / V_SHARE == c && at < V_TEXELS) store_texel(at, own_values[i]);
    }
}

/* The i-th query of a slot; behind the last there are none, and the last is taken again. */
uint weighed_query(uint i, uint slot)
{
    uint query = i * V_SLOTS + slot, last = uint(QUERIES) - 1u;
    return query < last ? query : last;
}

/* The keys of a chunk, of which the first is key 0 here. all_seen: no key is masked. */
void weigh_chunk(uint first, uint dim, uint slot, bool all_seen)
{
    uint from[2] = uint[2](place_of(dim / PER_NUMBER), 0u);
    from[1] = place_of((dim + LANES < DIM_V ? dim + LANES : dim) / PER_NUMBER);
    for (uint key = 0u; key < CHUNK_KEYS; key += 8u) {
        uint v[8u * V_DIMS];
        [[unroll]] for (uint j = 0u; j < 8u; j++)
            [[unroll]] for (uint d = 0u; d < V_DIMS; d++) {
                uint number = chunk[from[d] + (key + j) * (V_NUMBERS / PER_TEXEL)];
                if (HAS_CODES) number = uint(int(number << (24u - 8u * (dim & 3u))) >> 24);
                v[j * V_DIMS + d] = number;
            }
        [[unroll]] for (uint i = 0u; i < V_QUERIES; i++) {
            uint query = weighed_query(i, slot), at = query * 16u + (first + key) / 4u;
            uvec4 w[2] = uvec4[2](weights[at], weights[at + 1u]);
            uint lo = first_key[query], hi = end_key[query];
            [[unroll]] for (uint j = 0u; j < 8u; j++) {
                bool in_it = all_seen || is_seen(first + key + j, lo, hi);
                [[unroll]] for (uint d = 0u; d < V_DIMS; d++) {
                    uint one = w[j / 4u][j & 3u], number = v[j * V_DIMS + d], n = i * V_DIMS + d;
                    if (HAS_CODES) {
                        code_sum[n] += int(one) * int(number);
                    } else {
                        float sum = fadd(acc[n], fmul(f_of(one), f_of(number)));
                        acc[n] = in_it ? sum : acc[n];
                    }
                }
            }
        }
    }
}

void store_results(uint dim, uint slot)
{
    [[unroll]] for (uint i = 0u; i < V_QUERIES; i++) {
        if (i * V_SLOTS + slot >= uint(QUERIES)) continue;
        uint to = place[i * V_SLOTS + slot];
        [[unroll]] for (uint d = 0u; d < V_DIMS; d++) {
            uint n = i * V_DIMS + d;
            if (to != NOWHERE && dim + d * LANES < DIM_V)
                parts[to + 2u + dim + d * LANES] = HAS_CODES ? float(code_sum[n]) : num_keep(acc[n]);
        }
    }
}

/* ---- all of it ---- */

void score_page(uint lane)
{
    [[unroll]] for (uint i = 0u; i < K_QUERIES; i++)
        score[i] = 0.0, dot_sum[i] = 0;
    for (uint c = 0u; c < K_CHUNKS; c++) {
        uint left = K_ROWS - c * CHUNK_ROWS;
        store_keys(c, lane);
        barrier();
        score_chunk(left < CHUNK_ROWS ? left : CHUNK_ROWS, lane % PAGE_LEN, lane / PAGE_LEN);
        barrier();
    }
}

/* asks: the lane has eight keys of a query, which are summed up at parts[to]. */
void softmax(uint lane, bool asks, visible seen, uint to)
{
    float m = 0.0;
    barrier();
    if (asks) find_largest(lane, seen);
    barrier();
    if (asks) {
        m = largest_score(lane);
        make_weights(lane, seen, m);
    }
    barrier();
    if (asks && lane % 8u == 0u && to != NOWHERE) {
        parts[to] = m;
        parts[to + 1u] = sum_of_runs(lane);
    }
}

void weigh_page(uint lane, bool all_seen)
{
    uint slot = DIM_V > LANES ? 0u : lane / DIM_V, dim = DIM_V > LANES ? lane : lane % DIM_V;
    [[unroll]] for (uint i = 0u; i < V_QUERIES * V_DIMS; i++)
        acc[i] = 0.0, code_sum[i] = 0;
    for (uint c = 0u; c < V_CHUNKS; c++) {
        if (c > 0u) barrier();
        store_values(c, lane);
        barrier();
        if (slot < V_SLOTS) {
            if (HAS_CODES || all_seen) /* weights of masked keys are 0 */
                weigh_chunk(c * CHUNK_KEYS, dim, slot, true);
            else
                weigh_chunk(c * CHUNK_KEYS, dim, slot, false);
        }
    }
    if (slot < V_SLOTS) store_results(dim, slot);
}

float scale_at(uint scales, uint key)
{
    return f_of(scale_bits(texelFetch(slab, int(scales + key / 8u)), key % 8u));
}

void main()
{
    uint lane = gl_LocalInvocationID.x, key = lane % PAGE_LEN;
    uint kv_head = gl_WorkGroupID.x % n_kv_heads, first = gl_WorkGroupID.x / n_kv_heads * uint(QUERIES);
    uint entry = list_at + 2u * gl_WorkGroupID.y, page = step_words[entry];
    uint base = step_words[entry + 1u] * page_texels + kv_head * head_texels;
    uint row_0 = step_first_row(part) + first_row, end = step_n_rows();
    uint n_rows = end - row_0 < n_block_rows ? end - row_0 : n_block_rows;
    if (row_0 >= end || first >= n_rows * n_group) return;

    /* What the rows in between see lies between what the first and the last do. */
    uint last = n_rows * n_group - 1u, end_query = first + uint(QUERIES) - 1u;
    uint pos = step_pos() + row_0;
    visible low = visible_keys(page, pos + first / n_group, window);
    visible high = visible_keys(page, pos + (end_query < last ? end_query : last) / n_group, window);
    if (high.hi == 0u || low.lo >= PAGE_LEN) return;
    bool all_seen = high.lo == 0u && low.hi == PAGE_LEN;

    /* Lanes without a query have that of the last for what they load. */
    bool asks = lane < uint(QUERIES) * QUERY_TEXELS;
    uint own = first + (asks ? lane / QUERY_TEXELS : uint(QUERIES) - 1u);
    uint query = own < last ? own : last, head = kv_head * n_group + query % n_group;
    uint query_at = query_texel(row_0 + query / n_group, head);
    uint values = base + v_at;
    float k_scale = 0.0, v_scale = 0.0, q_scale = 0.0;
    load_keys(base + k_at, lane);
    load_query(query_at, lane);
    if (HAS_CODES) {
        k_scale = scale_at(base + k_scales_at, key);
        v_scale = scale_at(base + v_scales_at, key);
        q_scale = f_of(texelFetch(queries, int(query_at + A8_META)).x);
    }
    if (V_EARLY) load_values(values, lane);

    visible seen = visible_keys(page, pos + query / n_group, window);
    uint to = own > last || seen.lo >= seen.hi ? NOWHERE : part_place(query / n_group, head, page);
    if (asks && lane % QUERY_TEXELS == 0u) {
        uint i = lane / QUERY_TEXELS;
        query_scale[i] = q_scale;
        query_slope[i] = slope_of(head);
        own_key[i] = int(pos + query / n_group) - int(page * PAGE_LEN);
        first_key[i] = seen.lo;
        end_key[i] = seen.hi;
        place[i] = to;
    }
    score_page(lane);
    if (!V_EARLY) load_values(values, lane);
    end_scores(key, lane / PAGE_LEN, k_scale, v_scale);
    softmax(lane, asks, seen, to);
    weigh_page(lane, all_seen);
}
