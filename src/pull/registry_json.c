#include "pull/registry_json.h"

#include <jansson.h>
#include <string.h>

#include "lib/http/http1.h"
#include "lib/json/json_size.h"
#include "lib/oci/oci_json.h"

#define DEPTH_MAX 8
#define VALUES_MAX 1000

static json_t *registry_parse(const char *text, size_t len)
{
	if (len > REGISTRY_JSON_MAX || !json_size_fits(text, len, DEPTH_MAX, VALUES_MAX))
		return NULL;
	oci_json_seed();
	return json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
}

/* RFC 6750, 2.1: the characters that may follow "Bearer ". */
static bool registry_is_token(const char *t)
{
	size_t n = t == NULL ? 0 : strlen(t);

	if (n == 0 || n >= REGISTRY_TOKEN_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (t[i] <= ' ' || t[i] > '~' || strchr("\",;\\", t[i]) != NULL)
			return false;
	return true;
}

char *registry_json_token(const char *text, size_t len)
{
	json_t *root = registry_parse(text, len);
	const char *t = json_string_value(json_object_get(root, "token"));
	char *copy = NULL;

	if (t == NULL || t[0] == '\0')
		t = json_string_value(json_object_get(root, "access_token"));
	if (registry_is_token(t))
		copy = strdup(t);
	json_decref(root);
	return copy;
}

char *registry_json_ecr(const char *text, size_t len)
{
	json_t *root = registry_parse(text, len);
	const json_t *first = json_array_get(json_object_get(root, "authorizationData"), 0);
	const char *t = json_string_value(json_object_get(first, "authorizationToken"));
	char *copy = registry_is_token(t) ? strdup(t) : NULL;

	json_decref(root);
	return copy;
}

/* AWS has its word in another place: "com.amazonaws.ecr#AccessDeniedException". */
static const char *registry_word_of(const json_t *root)
{
	const json_t *first = json_array_get(json_object_get(root, "errors"), 0);
	const char *code = json_string_value(json_object_get(first, "code"));
	const char *type = json_string_value(json_object_get(root, "__type")), *hash;

	if (code != NULL || type == NULL)
		return code;
	hash = strrchr(type, '#');
	return hash == NULL ? type : hash + 1;
}

void registry_json_error(const char *text, size_t len, char ret[REGISTRY_ERROR_MAX])
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
				      "abcdefghijklmnopqrstuvwxyz";
	json_t *root = registry_parse(text, len);
	const char *code = registry_word_of(root);

	ret[0] = '\0';
	if (code != NULL && strlen(code) < REGISTRY_ERROR_MAX &&
	    strspn(code, allowed) == strlen(code))
		memcpy(ret, code, strlen(code) + 1);
	json_decref(root);
}
