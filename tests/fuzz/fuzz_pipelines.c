/* A file of pipelines over any bytes: its size and checksum are made right first. What is taken
 * for a device is of that device, and of no other. */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "target.h"
#include "vulkan/pipeline_file.h"

static void repair(uint8_t *file, size_t n_bytes)
{
    if (n_bytes < PIPELINE_FILE_HEADER) return;
    const uint64_t n = n_bytes - PIPELINE_FILE_HEADER;
    const uint64_t sum = XXH3_64bits(file + PIPELINE_FILE_HEADER, (size_t)n);
    memcpy(file + 40, &n, sizeof n);
    memcpy(file + 48, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    uint8_t *file = mem_alloc(n_bytes);
    if (n_bytes) memcpy(file, data, n_bytes);
    struct pipeline_id id = {0}, other;
    pipeline_file_holds(file, n_bytes, &id);
    repair(file, n_bytes);
    if (n_bytes >= PIPELINE_FILE_HEADER) {
        memcpy(&id.vendor, file + 12, 4);
        memcpy(&id.device, file + 16, 4);
        memcpy(&id.driver, file + 20, 4);
        memcpy(id.uuid, file + 24, sizeof id.uuid);
    }
    other = id;
    other.uuid[n_bytes % PIPELINE_UUID_BYTES] ^= 1;
    const bool sound = pipeline_file_holds(file, n_bytes, NULL);
    if (pipeline_file_holds(file, n_bytes, &id) != sound) abort();
    if (pipeline_file_holds(file, n_bytes, &other)) abort();
    if (sound && (n_bytes < PIPELINE_FILE_HEADER || memcmp(file, "HEARTHPL", 8) != 0)) abort();
    /* What is written of it is the same file, but for the bytes that mean nothing. */
    struct buf again = {0};
    if (sound) {
        pipeline_file_make(&id, file + PIPELINE_FILE_HEADER, n_bytes - PIPELINE_FILE_HEADER,
                           &again);
        if (again.len != n_bytes || memcmp(again.data, file, 56) != 0 ||
            memcmp(again.data + PIPELINE_FILE_HEADER, file + PIPELINE_FILE_HEADER,
                   n_bytes - PIPELINE_FILE_HEADER) != 0)
            abort();
    }
    buf_free(&again);
    free(file);
    return 0;
}
