#include "lib/wire/file_meta.h"

#include <string.h>

#include "lib/wire/codec.h"

struct file_meta_sum {
	size_t pairs, total;
};

bool file_meta_next(const struct file_meta *m, size_t *at, const char **ret_key,
		    const char **ret_value)
{
	const char *key, *value;
	struct codec c;

	if (*at >= m->len)
		return false;
	c = codec_reader(m->bytes + *at, m->len - *at);
	codec_string(&c, FILE_META_KEY_MAX, &key);
	codec_string(&c, FILE_META_VALUE_MAX, &value);
	if (c.bad || *key == '\0')
		return false;
	*at = m->len - c.n;
	*ret_key = key;
	*ret_value = value;
	return true;
}

/* Sum up the pairs before a place. False if one of them has this key. */
static bool meta_add_up(const struct file_meta *m, size_t before, const char *key,
			struct file_meta_sum *ret)
{
	const struct file_meta part = { m->bytes, before };
	const char *k, *v;
	size_t at = 0;

	*ret = (struct file_meta_sum){ 0 };
	while (file_meta_next(&part, &at, &k, &v)) {
		if (strcmp(k, key) == 0)
			return false;
		ret->pairs++;
		ret->total += strlen(k) + strlen(v);
	}
	return true;
}

static bool meta_fits(const struct file_meta_sum *s, const char *key, const char *value)
{
	return s->pairs < FILE_META_PAIRS_MAX &&
	       s->total + strlen(key) + strlen(value) <= FILE_META_TOTAL_MAX;
}

bool file_meta_add(uint8_t ret[FILE_META_PACKED_MAX], size_t *len, const char *key,
		   const char *value)
{
	const struct file_meta m = { ret, *len };
	struct codec c = codec_writer(ret + *len, FILE_META_PACKED_MAX - *len);
	struct file_meta_sum sum;

	if (*key == '\0' || strlen(key) >= FILE_META_KEY_MAX || !meta_add_up(&m, *len, key, &sum) ||
	    !meta_fits(&sum, key, value))
		return false;
	codec_string(&c, FILE_META_KEY_MAX, &key);
	codec_string(&c, FILE_META_VALUE_MAX, &value);
	if (c.bad)
		return false;
	*len = FILE_META_PACKED_MAX - c.n;
	return true;
}

bool file_meta_valid(const struct file_meta *m)
{
	const char *key, *value;
	size_t at = 0;

	if (m->len > FILE_META_PACKED_MAX)
		return false;
	for (size_t before = 0; before < m->len; before = at) {
		struct file_meta_sum sum;

		if (!file_meta_next(m, &at, &key, &value) || !meta_add_up(m, before, key, &sum) ||
		    !meta_fits(&sum, key, value))
			return false;
	}
	return true;
}
