#include "file_meta.h"

#include <string.h>

#include "codec.h"

struct sum {
	size_t pairs, total;
};

bool file_meta_next(const struct file_meta *m, size_t *at, const char **ret_key,
		    const char **ret_value)
{
	struct codec_reader r = { NULL, 0, false };
	const char *key, *value;

	if (*at >= m->len)
		return false;
	r.p = m->bytes + *at;
	r.n = m->len - *at;
	key = codec_get_string(&r, FILE_META_KEY_MAX);
	value = codec_get_string(&r, FILE_META_VALUE_MAX);
	if (r.bad || *key == '\0')
		return false;
	*at = m->len - r.n;
	*ret_key = key;
	*ret_value = value;
	return true;
}

/* Sums up the pairs before a place; false if one of them has this key. */
static bool add_up(const struct file_meta *m, size_t before, const char *key, struct sum *ret)
{
	const struct file_meta part = { m->bytes, before };
	const char *k, *v;
	size_t at = 0;

	*ret = (struct sum){ 0 };
	while (file_meta_next(&part, &at, &k, &v)) {
		if (strcmp(k, key) == 0)
			return false;
		ret->pairs++;
		ret->total += strlen(k) + strlen(v);
	}
	return true;
}

static bool fits(const struct sum *s, const char *key, const char *value)
{
	return s->pairs < FILE_META_PAIRS_MAX &&
	       s->total + strlen(key) + strlen(value) <= FILE_META_TOTAL_MAX;
}

bool file_meta_add(uint8_t ret[FILE_META_PACKED_MAX], size_t *len, const char *key,
		   const char *value)
{
	const struct file_meta m = { ret, *len };
	struct codec_writer w = { ret + *len, FILE_META_PACKED_MAX - *len, false };
	struct sum sum;

	if (*key == '\0' || strlen(key) >= FILE_META_KEY_MAX || !add_up(&m, *len, key, &sum) ||
	    !fits(&sum, key, value))
		return false;
	codec_put_string(&w, FILE_META_KEY_MAX, key);
	codec_put_string(&w, FILE_META_VALUE_MAX, value);
	if (w.bad)
		return false;
	*len = FILE_META_PACKED_MAX - w.n;
	return true;
}

bool file_meta_valid(const struct file_meta *m)
{
	const char *key, *value;
	size_t at = 0;

	if (m->len > FILE_META_PACKED_MAX)
		return false;
	for (size_t before = 0; before < m->len; before = at) {
		struct sum sum;

		if (!file_meta_next(m, &at, &key, &value) || !add_up(m, before, key, &sum) ||
		    !fits(&sum, key, value))
			return false;
	}
	return true;
}
