#include "view_file.h"

#include <string.h>

#include "sha256.h"

static const char magic[8] = "cview1\n";
#define CHECK 16 /* bytes of SHA-256 over all before them */

void view_name(const struct cache_key *key, uint8_t ret[32])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, magic, sizeof(magic));
	sha256_add(&s, key->scope, strlen(key->scope) + 1);
	sha256_add(&s, key->registry, strlen(key->registry) + 1);
	sha256_add(&s, key->path, strlen(key->path) + 1);
	sha256_end(&s, ret);
}

static void put_bytes(struct codec_writer *w, const void *bytes, size_t n)
{
	w->bad = w->bad || n > w->n;
	if (w->bad)
		return;
	memcpy(w->p, bytes, n);
	w->p += n;
	w->n -= n;
}

int view_file_write(const struct view *v, uint8_t ret[VIEW_FILE_MAX])
{
	struct codec_writer w = { .p = ret, .n = VIEW_FILE_MAX };
	uint8_t check[SHA256_SIZE];

	put_bytes(&w, magic, sizeof(magic));
	codec_put_string(&w, CACHE_SCOPE_MAX, v->key.scope);
	codec_put_string(&w, CACHE_REGISTRY_MAX, v->key.registry);
	codec_put_string(&w, CACHE_PATH_MAX, v->key.path);
	codec_put_string(&w, CACHE_ETAG_MAX, v->meta.etag);
	codec_put_string(&w, CACHE_DATE_MAX, v->meta.last_modified);
	codec_put_string(&w, CACHE_TYPE_MAX, v->meta.type);
	codec_put(&w, 8, v->fetched_ms);
	codec_put(&w, 8, v->size);
	put_bytes(&w, v->sha256, sizeof(v->sha256));
	if (w.bad)
		return -1;
	sha256_of(ret, (size_t)(w.p - ret), check);
	put_bytes(&w, check, CHECK);
	return w.bad ? -1 : (int)(w.p - ret);
}

static bool is_whole(const uint8_t *bytes, size_t len)
{
	uint8_t check[SHA256_SIZE];

	if (len < sizeof(magic) + CHECK || len > VIEW_FILE_MAX ||
	    memcmp(bytes, magic, sizeof(magic)) != 0)
		return false;
	sha256_of(bytes, len - CHECK, check);
	return memcmp(check, bytes + len - CHECK, CHECK) == 0;
}

bool view_file_read(const uint8_t *bytes, size_t len, struct view *ret)
{
	struct codec_reader r = { .p = bytes + sizeof(magic) };

	if (!is_whole(bytes, len))
		return false;
	r.n = len - sizeof(magic) - CHECK;
	ret->key.scope = codec_get_string(&r, CACHE_SCOPE_MAX);
	ret->key.registry = codec_get_string(&r, CACHE_REGISTRY_MAX);
	ret->key.path = codec_get_string(&r, CACHE_PATH_MAX);
	ret->meta.etag = codec_get_string(&r, CACHE_ETAG_MAX);
	ret->meta.last_modified = codec_get_string(&r, CACHE_DATE_MAX);
	ret->meta.type = codec_get_string(&r, CACHE_TYPE_MAX);
	ret->fetched_ms = codec_get(&r, 8);
	ret->size = codec_get(&r, 8);
	for (size_t i = 0; i < sizeof(ret->sha256); i++)
		ret->sha256[i] = (uint8_t)codec_get(&r, 1);
	return !r.bad && r.n == 0;
}
