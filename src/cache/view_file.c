#include "cache/view_file.h"

#include <string.h>

#include "lib/base/sha256.h"

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

/* Reads or writes, as the codec is made. */
static void view_fields(struct codec *c, struct view *v)
{
	codec_string(c, CACHE_SCOPE_MAX, &v->key.scope);
	codec_string(c, CACHE_REGISTRY_MAX, &v->key.registry);
	codec_string(c, CACHE_PATH_MAX, &v->key.path);
	codec_string(c, CACHE_ETAG_MAX, &v->meta.etag);
	codec_string(c, CACHE_DATE_MAX, &v->meta.last_modified);
	codec_string(c, CACHE_TYPE_MAX, &v->meta.type);
	codec_int(c, 8, v->fetched_ms);
	codec_int(c, 8, v->size);
	codec_bytes(c, v->sha256, sizeof(v->sha256));
}

/* Return the length, or -1 if a text is longer than its bound. The codec writes through pointers to
 * members, so it gets a copy. */
int view_file_write(const struct view *v, uint8_t ret[VIEW_FILE_MAX])
{
	const size_t room = VIEW_FILE_MAX - sizeof(magic) - CHECK;
	struct codec c = codec_writer(ret + sizeof(magic), room);
	uint8_t check[SHA256_SIZE];
	struct view copy = *v;

	memcpy(ret, magic, sizeof(magic));
	view_fields(&c, &copy);
	if (c.bad)
		return -1;
	sha256_of(ret, (size_t)(c.to - ret), check);
	memcpy(c.to, check, CHECK);
	return (int)(c.to - ret) + CHECK;
}

/* The checksum is compared before any field is read. */
static bool view_is_whole(const uint8_t *bytes, size_t len)
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
	struct codec c;

	if (!view_is_whole(bytes, len))
		return false;
	c = codec_reader(bytes + sizeof(magic), len - sizeof(magic) - CHECK);
	view_fields(&c, ret);
	return !c.bad && c.n == 0;
}
