#include "lib/policy/package_record_text.h"

#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "lib/base/own.h"

static const char *const results[] = { "passed", "hidden",     "refused",      "failed",
				       "cut",	 "downloaded", "hash_mismatch" };
/* The API shows these words, so they never change. */
static_assert(COUNT(results) == PACKAGE_RESULTS, "every result has a name");

/* The valid words of a member, separated by spaces. */
static const char kinds[] = "meta file filemeta publish search audit auth index key other";
static const char sources[] = "index pin name checksum_file sumdb none";
static const char algorithms[] = "sha1 sha256 sha384 sha512 h1";
static const char codes[] = "yes no unknown";
static const char caches[] = "hit miss revalidated stale bypass";

/* The text members: their place in struct package_record, and their valid values. */
static const struct text_member {
	const char *name;
	size_t at, size;
	const char *words; /* NULL: any printable text */
	bool needed;
} texts[] = {
#define TEXT(member, words, needed)                                                    \
	{                                                                              \
#member, offsetof(struct package_record, member),                      \
			sizeof(((struct package_record *)NULL)->member), words, needed \
	}
	TEXT(ecosystem, NULL, true),	    TEXT(kind, kinds, true),
	TEXT(registry, NULL, false),	    TEXT(name, NULL, false),
	TEXT(version, NULL, false),	    TEXT(file, NULL, false),
	TEXT(checksum, NULL, false),	    TEXT(expected, sources, false),
	TEXT(install_code, codes, false),   TEXT(cache, caches, false),
	TEXT(algorithm, algorithms, false),
};

static const struct flag_member {
	const char *name;
	size_t at;
} flags[] = {
	{ "verified", offsetof(struct package_record, verified) },
	{ "direct", offsetof(struct package_record, direct) },
	{ "changed", offsetof(struct package_record, changed) },
	{ "backdated", offsetof(struct package_record, backdated) },
};

const char *package_result_name(enum package_result r)
{
	return results[r];
}

bool package_result_read(const char *text, enum package_result *ret)
{
	for (size_t i = 0; i < COUNT(results); i++)
		if (strcmp(text, results[i]) == 0) {
			*ret = (enum package_result)i;
			return true;
		}
	return false;
}

/* Records are shown in terminals, so no control byte may pass. */
static bool is_printable(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return *text == '\0';
}

/* Is the word in a list? It must match whole, and the empty word is in no list. */
static bool is_one_of(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; n > 0 && (at = strstr(at, word)) != NULL; at += n)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
			return true;
	return false;
}

/* Copy a text member, which may be absent. size: with the NUL. */
static int copy_text(const json_t *object, const char *name, char *ret, size_t size, struct err *e)
{
	const json_t *value = json_object_get(object, name);
	const char *text = json_string_value(value);

	*ret = '\0';
	if (value == NULL)
		return 0;
	if (text == NULL || strlen(text) >= size || strlen(text) != json_string_length(value) ||
	    !is_printable(text))
		return err_set(e, ERR_INVALID, "record: package.%s is not a text", name);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

/* Ecosystem and kind are needed. All other texts may be absent. */
static int read_texts(const json_t *object, struct package_record *ret, struct err *e)
{
	enum ecosystem known;

	for (size_t i = 0; i < COUNT(texts); i++) {
		const struct text_member *m = &texts[i];
		char *to = (char *)ret + m->at;

		if (copy_text(object, m->name, to, m->size, e) < 0)
			return -1;
		if (*to == '\0' ? m->needed : m->words != NULL && !is_one_of(m->words, to))
			return err_set(e, ERR_INVALID, "record: package.%s is unknown", m->name);
	}
	if (!ecosystem_read(ret->ecosystem, strlen(ret->ecosystem), &known))
		return err_set(e, ERR_INVALID, "record: package.ecosystem is unknown");
	return 0;
}

static int read_flags(const json_t *object, struct package_record *ret, struct err *e)
{
	for (size_t i = 0; i < COUNT(flags); i++) {
		const json_t *value = json_object_get(object, flags[i].name);

		if (value != NULL && !json_is_boolean(value))
			return err_set(e, ERR_INVALID, "record: package.%s is not true or false",
				       flags[i].name);
		*(bool *)((char *)ret + flags[i].at) = json_is_true(value);
	}
	return 0;
}

static int read_number(const json_t *object, const char *name, bool *ret_has, uint64_t *ret,
		       struct err *e)
{
	const json_t *value = json_object_get(object, name);

	*ret_has = value != NULL;
	if (value == NULL)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return err_set(e, ERR_INVALID, "record: package.%s is not a number", name);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
}

/* "shaped" says how many versions were hidden from metadata. */
static int read_shaped(const json_t *object, struct package_record *ret, struct err *e)
{
	const json_t *shaped = json_object_get(object, "shaped");
	bool has;

	ret->is_shaped = shaped != NULL;
	if (shaped == NULL)
		return 0;
	if (!json_is_object(shaped))
		return err_set(e, ERR_INVALID, "record: package.shaped is not an object");
	if (read_number(shaped, "hidden", &has, &ret->hidden, e) < 0)
		return -1;
	return copy_text(shaped, "newest_hidden", ret->newest_hidden, sizeof(ret->newest_hidden),
			 e);
}

int package_record_text_read(const json_t *object, struct package_record *ret, struct err *e)
{
	const char *result = json_string_value(json_object_get(object, "result"));

	*ret = (struct package_record){ 0 };
	if (!json_is_object(object))
		return err_set(e, ERR_INVALID, "record: no package");
	if (result == NULL || !package_result_read(result, &ret->result))
		return err_set(e, ERR_INVALID, "record: package.result is unknown");
	if (read_texts(object, ret, e) < 0 || read_flags(object, ret, e) < 0 ||
	    read_number(object, "released_at", &ret->has_time, &ret->released_ms, e) < 0 ||
	    read_number(object, "age_s", &ret->has_age, &ret->age_s, e) < 0)
		return -1;
	return read_shaped(object, ret, e);
}

json_t *package_record_text_write(const struct package_record *r)
{
	json_t *to = json_object();
	int bad = 0;

	for (size_t i = 0; i < COUNT(texts); i++) {
		const char *text = (const char *)r + texts[i].at;

		if (*text != '\0')
			bad |= json_object_set_new(to, texts[i].name, json_string(text));
	}
	for (size_t i = 0; i < COUNT(flags); i++)
		if (*(const bool *)((const char *)r + flags[i].at))
			bad |= json_object_set_new(to, flags[i].name, json_true());
	/* a file: readers must see that nothing verified it */
	if (r->expected[0] != '\0' && !r->verified)
		bad |= json_object_set_new(to, "verified", json_false());
	bad |= json_object_set_new(to, "result", json_string(results[r->result]));
	if (r->has_time)
		bad |= json_object_set_new(to, "released_at",
					   json_integer((json_int_t)r->released_ms));
	if (r->has_age)
		bad |= json_object_set_new(to, "age_s", json_integer((json_int_t)r->age_s));
	if (r->is_shaped)
		bad |= json_object_set_new(to, "shaped",
					   json_pack("{s:I,s:s}", "hidden", (json_int_t)r->hidden,
						     "newest_hidden", r->newest_hidden));
	if (bad == 0)
		return to;
	json_decref(to);
	return NULL;
}
