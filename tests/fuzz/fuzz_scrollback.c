/* What is shown of any text at any width: rows that hold every character that is no blank, in
 * order, and none wider than the screen. The first byte is the width, the second the pieces. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/sanitise.h"
#include "target.h"
#include "ui/scrollback.h"
#include "ui/style.h"
#include "ui/wrap.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t';
}

/* All rows of all blocks, without blanks, are all texts without blanks. */
static void check_rows(struct scrollback *s, int columns)
{
    const size_t n = scrollback_n_rows(s), n_blocks = scrollback_n_blocks(s);
    size_t at = 0, block = 0;
    for (size_t i = 0; i < n; i++) {
        const struct scrollback_row row = scrollback_row(s, i);
        if (row.is_gap || row.is_folded) continue;
        must(row.margin >= 0 && row.margin < columns && row.block < n_blocks);
        size_t len = row.len; /* blanks may stand beyond the edge */
        while (len > 0 && is_blank(row.text[len - 1]))
            len--;
        int wide;
        must(wrap_width(row.text, len, 0) <= columns - row.margin ||
             wrap_cluster(row.text, len, &wide) == len);
        for (; block < row.block; block++, at = 0) {
            const struct scrollback_block b = scrollback_block(s, block);
            for (; at < b.len; at++)
                must(is_blank(b.text[at]));
        }
        const struct scrollback_block b = scrollback_block(s, block);
        for (; at < row.at; at++)
            must(is_blank(b.text[at]));
        must(row.at == at && row.at + row.len <= b.len);
        at += row.len;
        /* A place in the text is where it is. */
        must(scrollback_row_of(s, scrollback_place(s, i)) <= i);
    }
}

static void check_looks(struct scrollback *s)
{
    for (size_t i = 0; i < scrollback_n_blocks(s); i++) {
        size_t n_spans;
        scrollback_spans(s, i, &n_spans);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 3) return 0;
    const int columns = 4 + data[0] % 90;
    const size_t piece = 1 + data[1] % 40;
    struct buf text = {0};
    sanitise_all((const char *)data + 2, n_bytes - 2, &text);
    struct scrollback *s = scrollback_new(), *later = scrollback_new();
    scrollback_set_width(s, columns);
    scrollback_set_width(later, columns / 2 < 4 ? 4 : columns / 2);
    static const enum block_kind kinds[] = {BLOCK_USER, BLOCK_REASONING, BLOCK_REPLY};
    for (size_t k = 0; k < 3; k++) {
        scrollback_add(s, kinds[k], k);
        scrollback_add(later, kinds[k], k);
        for (size_t at = 0; at < text.len;) {
            size_t n = piece < text.len - at ? piece : text.len - at;
            /* Whole characters, as the filter gives them. */
            while (at + n < text.len && (text.data[at + n] & 0xc0) == 0x80)
                n++;
            scrollback_append(s, text.data + at, n);
            scrollback_append(later, text.data + at, n);
            if (data[1] & 1) scrollback_n_rows(s);
            at += n;
        }
    }
    check_rows(s, columns);
    check_looks(s);
    /* Another width, and back: as if it had been so from the start. */
    scrollback_n_rows(later);
    scrollback_set_width(later, columns);
    must(scrollback_n_rows(later) == scrollback_n_rows(s));
    for (size_t i = 0; i < scrollback_n_rows(s); i++) {
        const struct scrollback_row a = scrollback_row(s, i), b = scrollback_row(later, i);
        must(a.at == b.at && a.len == b.len && a.block == b.block && a.margin == b.margin);
    }
    struct scrollback_place found;
    if (text.len > 2) {
        char *words = mem_strndup(text.data, text.len < 8 ? text.len : 8);
        scrollback_find(s, words, data[1] & 2, (struct scrollback_place){0}, &found);
        free(words);
    }
    scrollback_free(s);
    scrollback_free(later);
    buf_free(&text);
    return 0;
}
