/* lock_json.c - writes pins as JSON. A lockfile may have one version in several places, so repeated
 * strings are added once. */
#include "lib/packages/lock_json.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"

#define KEY_MAX (PACKAGE_NAME_MAX + 8)
#define PIN_MAX (PACKAGE_VERSION_MAX + DIGEST_TEXT_MAX + 1)

/* Is the text near the end of the list? Entries of one version are close to each other in
 * lockfiles. */
static bool lock_json_has(const json_t *list, const char *text)
{
	size_t n = json_array_size(list), from = n > 64 ? n - 64 : 0;

	for (size_t i = from; i < n; i++)
		if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
			return true;
	return false;
}

/* Write SHA-512 in base64, a third shorter than in hex. Every pin of npm has one. */
static void write_digest(const struct digest *d, char ret[DIGEST_TEXT_MAX])
{
	size_t n;

	digest_write(d, ret);
	if (d->alg != DIGEST_SHA512)
		return;
	n = strlen(digest_alg_name(d->alg));
	ret[n] = '-';
	base64_encode(d->bytes, digest_size(d->alg), ret + n + 1);
}

static int lock_json_add_digest(json_t *list, const char *version, const struct digest *d,
				struct err *e)
{
	char text[PIN_MAX], digest[DIGEST_TEXT_MAX] = "";

	if (d != NULL)
		write_digest(d, digest);
	(void)snprintf(text, sizeof(text), "%s%s%s", version, d == NULL ? "" : " ", digest);
	if (lock_json_has(list, text))
		return 0;
	if (json_array_append_new(list, json_string(text)) < 0)
		return err_set(e, ERR_SYSTEM, "no memory for pins");
	return 0;
}

static int on_pin(void *arg, const struct lock_pin *pin, struct err *e)
{
	char key[KEY_MAX];
	json_t *list;

	(void)snprintf(key, sizeof(key), "%s:%s", ecosystem_name(pin->ecosystem), pin->name);
	list = json_object_get(arg, key);
	if (list == NULL) {
		list = json_array();
		if (json_object_set_new(arg, key, list) < 0)
			return err_set(e, ERR_SYSTEM, "no memory for pins");
	}
	if (pin->ndigests == 0)
		return lock_json_add_digest(list, pin->version, NULL, e);
	/* Old lockfiles have SHA-1 only, too weak for a pin. Then the pin fixes the version
	 * only. */
	for (size_t i = 0; i < pin->ndigests; i++)
		if (lock_json_add_digest(
			    list, pin->version,
			    digest_is_strong(&pin->digests[i]) ? &pin->digests[i] : NULL, e) < 0)
			return -1;
	return 0;
}

int lock_json_add(const char *name, const char *text, size_t len, json_t *pins, struct err *e)
{
	return lock_read(name, text, len, on_pin, pins, e);
}

struct lock_reader *lock_json_reader(const char *name, const char *text, size_t len, json_t *pins,
				     struct err *e)
{
	return lock_reader_new(name, text, len, on_pin, pins, e);
}
