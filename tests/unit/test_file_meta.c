/* Goal: what is packed comes out as it was, within its bounds, and nothing else counts as packed.
 */
#include "lib/wire/file_meta.h"

#include "support.h"

static uint8_t packed[FILE_META_PACKED_MAX];

static void round_trip(void)
{
	const struct file_meta none = { NULL, 0 };
	const char *key = "untouched", *value = "untouched";
	size_t len = 0, at = 0;

	CHECK(file_meta_valid(&none) && !file_meta_next(&none, &at, &key, &value));
	CHECK(file_meta_add(packed, &len, "a", "1") && file_meta_add(packed, &len, "b\n=", "") &&
	      file_meta_add(packed, &len, "\xff", "\x01\xfe"));
	uint8_t *copy = exact_copy(packed, len);
	const struct file_meta m = { copy, len };

	CHECK(file_meta_valid(&m));
	CHECK(file_meta_next(&m, &at, &key, &value));
	CHECK_STR(key, "a");
	CHECK_STR(value, "1");
	CHECK(file_meta_next(&m, &at, &key, &value));
	CHECK_STR(key, "b\n=");
	CHECK_STR(value, "");
	CHECK(file_meta_next(&m, &at, &key, &value));
	CHECK_STR(key, "\xff");
	CHECK_STR(value, "\x01\xfe");
	CHECK(!file_meta_next(&m, &at, &key, &value) && at == len);
	for (size_t less = 1; less < len; less++) {
		uint8_t *part = exact_copy(packed, less);
		bool whole = file_meta_valid(&(struct file_meta){ part, less });

		/* A pair takes 6 bytes and its text: 8, then 9, then 9. */
		CHECK(whole == (less == 8 || less == 17));
		free(part);
	}
	free(copy);
}

static void bounds(void)
{
	char key[FILE_META_KEY_MAX + 1] = "", value[FILE_META_VALUE_MAX + 1] = "";
	size_t len = 0;

	CHECK(!file_meta_add(packed, &len, "", "v") && len == 0);
	memset(key, 'k', FILE_META_KEY_MAX);
	CHECK(!file_meta_add(packed, &len, key, "v") && len == 0);
	key[FILE_META_KEY_MAX - 1] = '\0';
	memset(value, 'v', FILE_META_TOTAL_MAX - FILE_META_KEY_MAX + 2);
	CHECK(!file_meta_add(packed, &len, key, value) && len == 0);
	value[FILE_META_TOTAL_MAX - FILE_META_KEY_MAX + 1] = '\0';
	CHECK(file_meta_add(packed, &len, key, value));
	CHECK(file_meta_valid(&(struct file_meta){ packed, len }));
	CHECK(!file_meta_add(packed, &len, "a", "")); /* the total is used up */
	len = 0;
	CHECK(file_meta_add(packed, &len, "a", "1"));
	CHECK(!file_meta_add(packed, &len, "a", "2"));
	CHECK(file_meta_add(packed, &len, "A", "2"));
	len = 0;
	for (unsigned i = 0; i <= FILE_META_PAIRS_MAX; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		CHECK(file_meta_add(packed, &len, key, "v") == (i < FILE_META_PAIRS_MAX));
	}
	CHECK(file_meta_valid(&(struct file_meta){ packed, len }));
}

static void not_packed(void)
{
	static const struct {
		const char *name;
		const char *bytes;
		size_t len;
	} bad[] = {
		{ "no value", "\x01\0k", 4 },
		{ "empty key", "\0\0\0\0\0", 6 },
		{ "NUL in a key", "\x02\0k\0\0\0\0\0", 8 },
		{ "no NUL", "\x01\0kx\0\0", 7 },
		{ "a byte too many", "\x01\0k\0\0\0\0x", 8 },
		{ "the same key twice", "\x01\0k\0\0\0\0\x01\0k\0\0\0", 14 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t *copy = exact_copy(bad[i].bytes, bad[i].len);

		CHECK_CASE(bad[i].name, !file_meta_valid(&(struct file_meta){ copy, bad[i].len }));
		free(copy);
	}
}

/* What could not have been added does not count either. */
static void over_the_bounds(void)
{
	static uint8_t many[2 * FILE_META_PACKED_MAX];
	size_t len = 0;

	for (unsigned i = 0; i <= FILE_META_PAIRS_MAX; i++) {
		uint8_t one[] = {
			2, 0, (uint8_t)('A' + i / 16), (uint8_t)('A' + i % 16), 0, 0, 0, 0
		};

		memcpy(many + len, one, sizeof(one));
		len += sizeof(one);
	}
	CHECK(!file_meta_valid(&(struct file_meta){ many, len }));
	CHECK(file_meta_valid(&(struct file_meta){ many, len - 8 }));
	memset(many, 'v', sizeof(many));
	memcpy(many, "\x01\0k\0\0\x10", 6); /* a value of 4096 bytes, and a key */
	many[6 + 4096] = '\0';
	CHECK(!file_meta_valid(&(struct file_meta){ many, 6 + 4097 }));
	memcpy(many, "\x01\0k\0\xff\x0f", 6);
	many[6 + 4095] = '\0';
	CHECK(file_meta_valid(&(struct file_meta){ many, 6 + 4096 }));
}

TEST_MAIN({ "what is packed comes out", round_trip }, { "bounds", bounds },
	  { "what is not packed", not_packed }, { "over the bounds", over_the_bounds })
