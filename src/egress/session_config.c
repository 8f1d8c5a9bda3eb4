#include "session_config.h"

#include <stdio.h>
#include <stdlib.h>

#include "secrets.h"

void session_config_release(struct session_config *c)
{
	policy_free(c->policy);
	if (c->secrets != NULL)
		secrets_free(c->secrets);
	json_decref(c->used);
}

/* `cordon run` does not merge: it sends the documents of the layers as texts. */
static json_t *merge(const json_t *layers, struct err *e)
{
	const char *texts[POLICY_LAYERS];
	char *merged = NULL;
	json_t *root;

	if (json_array_size(layers) != POLICY_LAYERS) {
		(void)err_set(e, ERR_INVALID, "session configuration: no policy");
		return NULL;
	}
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		texts[i] = json_string_value(json_array_get(layers, i));
	if (policy_merge(texts, &merged, e) < 0)
		return NULL;
	root = json_loads(merged, 0, NULL);
	free(merged);
	if (root == NULL)
		(void)err_set(e, ERR_SYSTEM, "out of memory");
	return root;
}

static int read_policy(const json_t *root, struct policy **ret, struct err *e)
{
	json_t *policy = json_incref(json_object_get(root, "policy"));
	int read = -1;

	if (policy == NULL)
		policy = merge(json_object_get(root, "layers"), e);
	if (policy != NULL)
		read = policy_read_json(policy, POLICY_LAYERS, ret, e);
	json_decref(policy);
	return read;
}

/* The text may be long, so it is parsed once for all its members. */
int session_config_read(const char *text, size_t len, struct session_config *ret, struct err *e)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	const char *tenant = json_string_value(json_object_get(root, "tenant"));
	int read = -1;

	*ret = (struct session_config){ .used = json_incref(json_object_get(root, "used")) };
	(void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", tenant == NULL ? "" : tenant);
	if (!json_is_object(root))
		(void)err_set(e, ERR_INVALID, "session configuration: not a JSON object");
	else if (read_policy(root, &ret->policy, e) == 0)
		read = secrets_read(root, &ret->secrets, e);
	json_decref(root);
	if (read < 0)
		session_config_release(ret);
	return read;
}

int session_config_read_secrets(const char *text, size_t len, struct secrets **ret, struct err *e)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	int read = -1;

	if (!json_is_object(root))
		(void)err_set(e, ERR_INVALID, "secrets of a session: not a JSON object");
	else
		read = secrets_read(root, ret, e);
	json_decref(root);
	return read;
}
