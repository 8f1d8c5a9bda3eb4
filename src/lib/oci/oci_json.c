#include "lib/oci/oci_json.h"

#include <string.h>

#include "lib/base/rand.h"
#include "lib/json/json_size.h"

/* Of real documents: some thousand values. The bound is for the time and memory of parsing, which
 * cordond does in its loop. */
#define DEPTH_MAX 32
#define VALUES_MAX 20000

/* The library takes the first seed only. */
void oci_json_seed(void)
{
	static bool is_done;
	size_t seed;

	if (is_done)
		return;
	is_done = true;
	rand_bytes(&seed, sizeof(seed));
	json_object_seed(seed | 1);
}

/* The caller owns the result (OWN_OCI_JSON). The bounds are checked on the text, before the library
 * allocates. */
json_t *oci_json_parse(const void *bytes, size_t len, bool array, const char *what, struct err *e)
{
	json_error_t why;
	json_t *root;

	if (len > OCI_JSON_MAX) {
		(void)err_set(e, ERR_INVALID, "%s: larger than %u bytes", what, OCI_JSON_MAX);
		return NULL;
	}
	if (!json_size_fits(bytes, len, DEPTH_MAX, VALUES_MAX)) {
		(void)err_set(e, ERR_INVALID, "%s: more than %d values, or nested deeper than %d",
			      what, VALUES_MAX, DEPTH_MAX);
		return NULL;
	}
	oci_json_seed();
	root = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &why);
	if (root == NULL) {
		(void)err_set(e, ERR_INVALID, "%s: not JSON: %.120s", what, why.text);
		return NULL;
	}
	if (array ? json_is_array(root) : json_is_object(root))
		return root;
	json_decref(root);
	(void)err_set(e, ERR_INVALID, "%s: not %s", what, array ? "an array" : "an object");
	return NULL;
}

/* Control characters could change a terminal or a log that shows the text. */
static bool json_is_plain(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

const char *oci_json_text(const json_t *object, const char *name, size_t max, struct err *e)
{
	const json_t *member = json_object_get(object, name);

	if (member == NULL || json_is_null(member))
		return "";
	if (!json_is_string(member) || json_string_length(member) > max ||
	    !json_is_plain(json_string_value(member))) {
		(void)err_set(e, ERR_INVALID, "%s: not text of at most %zu bytes", name, max);
		return NULL;
	}
	return json_string_value(member);
}

int oci_json_array(const json_t *object, const char *name, size_t max, json_t **ret, struct err *e)
{
	json_t *member = json_object_get(object, name);

	*ret = NULL;
	if (member == NULL || json_is_null(member))
		return 0;
	if (!json_is_array(member))
		return err_set(e, ERR_INVALID, "%s: not an array", name);
	if (json_array_size(member) > max)
		return err_set(e, ERR_INVALID, "%s: more than %zu", name, max);
	*ret = member;
	return 0;
}

int oci_json_object(const json_t *object, const char *name, json_t **ret, struct err *e)
{
	json_t *member = json_object_get(object, name);

	*ret = NULL;
	if (member == NULL || json_is_null(member))
		return 0;
	if (!json_is_object(member))
		return err_set(e, ERR_INVALID, "%s: not an object", name);
	*ret = member;
	return 0;
}
