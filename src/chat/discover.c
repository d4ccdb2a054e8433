/* A walk over known folders, bounded in depth and in what it looks at; one row per program. */
#include "chat/discover.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"

enum { MAX_DEPTH = 8, MAX_ENTRIES = 20000, MAX_FOUND = 1000, MAX_MANIFEST = 1 << 20 };

static const char ollama[] = "Ollama";

/* One walk over the folders of a program. */
struct walk {
    struct found_models *out;
    const char *where;
    char *root;
    /* Adds the file at path, of that name below root, if it is one. */
    void (*visit)(struct walk *w, const char *path, const char *below);
    size_t n_entries;
};

/* --- Names -------------------------------------------------------------------------------- */

static bool ends_in(const char *s, size_t n, const char *end)
{
    size_t n_end = strlen(end);
    return n >= n_end && ascii_same_n(s + n - n_end, end, n_end);
}

/* "-00002-of-00005" before the end: the number of the part, 0 if it is none. */
static int part_number(const char *s, size_t n)
{
    static const char form[] = "-#####-of-#####";
    const size_t n_form = sizeof form - 1;
    if (n < n_form) return 0;
    const char *tail = s + n - n_form;
    for (size_t i = 0; i < n_form; i++)
        if (form[i] == '#' ? tail[i] < '0' || tail[i] > '9' : tail[i] != form[i]) return 0;
    return atoi(tail + 1);
}

bool discover_is_model_name(const char *name)
{
    size_t n = strlen(name);
    if (!ends_in(name, n, ".gguf")) return false;
    for (const char *s = name; *s; s++)
        if (ascii_same_n(s, "mmproj", 6)) return false;
    return part_number(name, n - 5) <= 1;
}

/* --- What is found ------------------------------------------------------------------------ */

/* One file by another name is the same model unless something else lies beside it. */
static bool is_same(const struct found_model *a, const struct found_model *b)
{
    struct stat x, y;
    for (int part = FOUND_WEIGHTS + 1; part < N_FOUND_PARTS; part++) {
        const char *of_a = a->parts[part], *of_b = b->parts[part];
        if (strcmp(of_a ? of_a : "", of_b ? of_b : "") != 0) return false;
    }
    return stat(a->parts[FOUND_WEIGHTS], &x) == 0 && stat(b->parts[FOUND_WEIGHTS], &y) == 0 &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_there(const struct found_models *list, const struct found_model *m)
{
    for (size_t i = 0; i < list->n; i++)
        if (is_same(&list->items[i], m)) return true;
    return false;
}

void found_model_free(struct found_model *m)
{
    free(m->name);
    for (int part = 0; part < N_FOUND_PARTS; part++)
        free(m->parts[part]);
    *m = (struct found_model){0};
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Takes the model's strings. */
static void add(struct walk *w, struct found_model m)
{
    struct found_models *list = w->out;
    m.where = w->where;
    if (list->n == MAX_FOUND || !is_file(m.parts[FOUND_WEIGHTS])) {
        found_model_free(&m);
        return;
    }
    MEM_GROW(list->items, list->n, list->cap);
    list->items[list->n++] = m;
}

/* From `from` on: of a file that has several names, as by the tags of Ollama, the first stays.
 */
static void drop_again(struct found_models *list, size_t from)
{
    const size_t n = list->n;
    list->n = from;
    for (size_t i = from; i < n; i++) {
        if (is_file(list->items[i].parts[FOUND_WEIGHTS]) && !is_there(list, &list->items[i]))
            list->items[list->n++] = list->items[i];
        else
            found_model_free(&list->items[i]);
    }
}

void found_models_free(struct found_models *list)
{
    for (size_t i = 0; i < list->n; i++)
        found_model_free(&list->items[i]);
    free(list->items);
    *list = (struct found_models){0};
}

/* A file by its name: its folders and its name without the end. */
static void visit_file(struct walk *w, const char *path, const char *below)
{
    const char *slash = strrchr(below, '/');
    if (!discover_is_model_name(slash ? slash + 1 : below)) return;
    add(w, (struct found_model){.name = mem_strndup(below, strlen(below) - 5),
                                .parts = {[FOUND_WEIGHTS] = mem_strdup(path)}});
}

/* models--ORG--NAME/snapshots/REVISION/FILE: "ORG/NAME/FILE". */
static void visit_hub(struct walk *w, const char *path, const char *below)
{
    static const char models[] = "models--", snapshots[] = "/snapshots/";
    const char *slash = strrchr(below, '/'), *middle = strstr(below, snapshots);
    if (!slash || !middle || strncmp(below, models, sizeof models - 1) != 0) return;
    if (!discover_is_model_name(slash + 1)) return;
    const char *file = strchr(middle + sizeof snapshots - 1, '/');
    if (!file) return;
    struct buf name = {0};
    for (const char *s = below + sizeof models - 1; s < middle; s++) {
        bool border = s[0] == '-' && s[1] == '-';
        buf_putc(&name, border ? '/' : *s);
        s += border;
    }
    buf_append(&name, file, strlen(file) - 5);
    add(w, (struct found_model){.name = buf_take(&name),
                                .parts = {[FOUND_WEIGHTS] = mem_strdup(path)}});
}

bool discover_digest(const char *json, size_t n, enum found_part part, char out[65])
{
    static const char *const types[N_FOUND_PARTS] = {
        [FOUND_WEIGHTS] = "model",   [FOUND_ADAPTER] = "adapter",   [FOUND_SYSTEM] = "system",
        [FOUND_SETTINGS] = "params", [FOUND_MESSAGES] = "messages",
    };
    static const char image[] = "application/vnd.ollama.image.";
    static const char sha[] = "sha256:";
    json_t *root = json_loadb(json, n, 0, NULL);
    json_t *layers = json_object_get(root, "layers"), *layer;
    size_t i;
    bool found = false;
    json_array_foreach(layers, i, layer)
    {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (!type || strncmp(type, image, sizeof image - 1) != 0 ||
            strcmp(type + sizeof image - 1, types[part]) != 0 || !digest ||
            strncmp(digest, sha, sizeof sha - 1) != 0)
            continue;
        digest += sizeof sha - 1;
        if (strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64) continue;
        memcpy(out, digest, 65);
        found = true;
        break;
    }
    json_decref(root);
    return found;
}

/* The blobs that a manifest names, beside the manifests. False where one of them has gone: what
 * is left is not that model any more. */
static bool find_parts(const struct walk *w, const struct buf *json, struct found_model *m)
{
    for (int part = 0; part < N_FOUND_PARTS; part++) {
        char digest[65];
        struct buf path = {0};
        if (!discover_digest(buf_str(json), json->len, (enum found_part)part, digest)) continue;
        buf_printf(&path, "%s/../blobs/sha256-%s", w->root, digest);
        m->parts[part] = realpath(path.data, NULL);
        buf_free(&path);
        if (!m->parts[part]) return false;
    }
    return m->parts[FOUND_WEIGHTS] != NULL;
}

/* HOST/OWNER/NAME/TAG below manifests, whose weights lie in blobs beside that: "NAME:TAG". */
static void visit_manifest(struct walk *w, const char *path, const char *below)
{
    static const char usual[] = "registry.ollama.ai/", library[] = "library/";
    const char *tag = strrchr(below, '/');
    struct buf json = {0};
    struct err ignored;
    if (tag && file_read_regular(path, MAX_MANIFEST, &json, &ignored)) {
        struct found_model m = {0};
        if (strncmp(below, usual, sizeof usual - 1) == 0) below += sizeof usual - 1;
        if (strncmp(below, library, sizeof library - 1) == 0) below += sizeof library - 1;
        struct buf name = {0};
        if (tag > below) buf_printf(&name, "%.*s:%s", (int)(tag - below), below, tag + 1);
        m.name = buf_take(&name);
        if (find_parts(w, &json, &m) && *m.name)
            add(w, m);
        else
            found_model_free(&m);
    }
    buf_free(&json);
}

/* --- The walk ----------------------------------------------------------------------------- */

/* Folders that are links are not followed, so that no walk goes in circles; files may be links.
 */
static void walk(struct walk *w, const char *folder, int depth)
{
    DIR *dir = depth < MAX_DEPTH ? opendir(folder) : NULL;
    struct dirent *e;
    while (dir && w->n_entries < MAX_ENTRIES && (e = readdir(dir))) {
        if (e->d_name[0] == '.') continue;
        w->n_entries++;
        struct buf path = {0};
        struct stat st;
        buf_printf(&path, "%s/%s", folder, e->d_name);
        if (lstat(path.data, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                walk(w, path.data, depth + 1);
            else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
                w->visit(w, path.data, path.data + strlen(w->root) + 1);
        }
        buf_free(&path);
    }
    if (dir) closedir(dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct found_model *)a)->name, ((const struct found_model *)b)->name);
}

/* Where a program keeps its models: below the folder that a variable names, or at the end. */
struct place {
    const char *where;
    const char *variable; /* "HOME" as well; NULL: none */
    const char *below;    /* behind the variable's value, or an absolute path */
    void (*visit)(struct walk *w, const char *path, const char *below);
    bool only; /* where it is set, the other places of the program do not count */
};

static char *folder_of(const struct place *place)
{
    const char *value = place->variable ? getenv(place->variable) : "";
    if (!value || (place->variable && *value != '/')) return NULL;
    struct buf path = {0};
    buf_printf(&path, "%s%s", value, place->below);
    char *real = realpath(path.data, NULL);
    buf_free(&path);
    return real;
}

/* With every name of a file, or the first alone. */
static void find(struct found_models *out, bool all_names)
{
    static const struct place places[] = {
        {"llama.cpp", "LLAMA_CACHE", "", visit_file, true},
        {"llama.cpp", "XDG_CACHE_HOME", "/llama.cpp", visit_file, true},
        {"llama.cpp", "HOME", "/.cache/llama.cpp", visit_file, false},
        {"llama.cpp", "HOME", "/Library/Caches/llama.cpp", visit_file, false},
        {"Hugging Face", "HF_HUB_CACHE", "", visit_hub, true},
        {"Hugging Face", "HF_HOME", "/hub", visit_hub, true},
        {"Hugging Face", "XDG_CACHE_HOME", "/huggingface/hub", visit_hub, true},
        {"Hugging Face", "HOME", "/.cache/huggingface/hub", visit_hub, false},
        {ollama, "OLLAMA_MODELS", "/manifests", visit_manifest, true},
        {ollama, "HOME", "/.ollama/models/manifests", visit_manifest, false},
        {ollama, NULL, "/usr/share/ollama/.ollama/models/manifests", visit_manifest, false},
        {"LM Studio", "HOME", "/.lmstudio/models", visit_file, false},
        {"LM Studio", "HOME", "/.cache/lm-studio/models", visit_file, false},
    };
    const char *settled = NULL; /* the program whose places were named */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct place *place = &places[i];
        if (settled && strcmp(settled, place->where) == 0) continue;
        const char *value = place->only ? getenv(place->variable) : NULL;
        if (value && *value) settled = place->where;
        struct walk w = {.out = out, .where = place->where, .visit = place->visit};
        w.root = folder_of(place);
        size_t before = out->n;
        if (w.root) walk(&w, w.root, 0);
        if (out->n > before)
            qsort(out->items + before, out->n - before, sizeof *out->items, by_name);
        if (!all_names) drop_again(out, before);
        free(w.root);
    }
}

void discover_models(struct found_models *out)
{
    find(out, false);
}

/* The first that is called name, with the tag behind it. */
static struct found_model *called(const struct found_models *list, const char *name,
                                  const char *tag)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < list->n; i++) {
        struct found_model *m = &list->items[i];
        if (strncmp(m->name, name, n) == 0 && strcmp(m->name + n, tag) == 0 &&
            (!*tag || strcmp(m->where, ollama) == 0))
            return m;
    }
    return NULL;
}

/* Up to a few names that begin with this one, whatever the case of letters. */
static void put_longer(const struct found_models *list, const char *name, struct buf *out)
{
    enum { MANY = 5 };
    const char *last = "";
    int n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const char *longer = list->items[i].name;
        char shown[96];
        if (!ascii_same_n(longer, name, strlen(name)) || strcmp(longer, last) == 0) continue;
        last = longer;
        n++;
        if (n <= MANY)
            buf_printf(out, "%s%s", n == 1 ? "; names that begin so: " : ", ",
                       printable(shown, sizeof shown, longer, strlen(longer)));
    }
    if (n > MANY) buf_printf(out, " and %d more", n - MANY);
}

bool discover_named(const char *name, struct found_model *out, struct err *err)
{
    struct found_models found = {0};
    find(&found, true);
    struct found_model *m = called(&found, name, "");
    /* Ollama's tag may be left out where it is the usual one. */
    if (!m) m = called(&found, name, ":latest");
    const bool is_there = m != NULL;
    *out = (struct found_model){0};
    if (m) {
        *out = *m;
        *m = (struct found_model){0};
    } else {
        struct buf longer = {0};
        char shown[256];
        put_longer(&found, name, &longer);
        err_set(err, ERR_IO,
                "%s: there is no such file, and no model of that name among those that hearth "
                "models lists%s",
                printable(shown, sizeof shown, name, strlen(name)), buf_str(&longer));
        buf_free(&longer);
    }
    found_models_free(&found);
    return is_there;
}
