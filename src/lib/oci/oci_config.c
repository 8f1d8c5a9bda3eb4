#include "lib/oci/oci_config.h"

#include <string.h>

#include "lib/oci/oci_json.h"

/* The index may have promised another platform than the configuration has. The configuration
 * decides, because programs of another machine cannot start. */
static int config_check_platform(const json_t *root, const struct oci_platform *want, struct err *e)
{
	const char *os = oci_json_text(root, "os", OCI_PLATFORM_WORD_MAX, e);
	const char *arch = oci_json_text(root, "architecture", OCI_PLATFORM_WORD_MAX, e);

	if (os == NULL || arch == NULL)
		return err_wrap(e, "config");
	if (strcmp(os, "linux") != 0 || strcmp(arch, want->architecture) != 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "config: the image is for %.32s/%.32s, this machine is linux/%s", os,
			       arch, want->architecture);
	return 0;
}

/* The caller compares them with the layers that it unpacks. An image without layers has no root
 * directory, so it is refused. */
static int config_read_diff_ids(const json_t *root, struct oci_config *ret, struct err *e)
{
	json_t *rootfs, *ids;

	if (oci_json_object(root, "rootfs", &rootfs, e) < 0 ||
	    oci_json_array(rootfs, "diff_ids", OCI_LAYERS_MAX, &ids, e) < 0)
		return -1;
	if (json_array_size(ids) == 0)
		return err_set(e, ERR_UNSUPPORTED, "rootfs: it has no layers");
	for (size_t i = 0; i < json_array_size(ids); i++) {
		const json_t *id = json_array_get(ids, i);

		if (!json_is_string(id))
			return err_set(e, ERR_INVALID, "diff_ids: not text");
		if (oci_digest_read(json_string_value(id), json_string_length(id),
				    &ret->diff_ids[i], e) < 0)
			return err_wrap(e, "diff_ids");
	}
	ret->nlayers = (uint32_t)json_array_size(ids);
	return 0;
}

/* Is this variable set again behind position i? */
static bool config_is_replaced(const json_t *list, size_t i, const char *text, size_t name)
{
	for (size_t k = i + 1; k < json_array_size(list); k++) {
		const char *other = json_string_value(json_array_get(list, k));

		if (other != NULL && strncmp(other, text, name + 1) == 0)
			return true;
	}
	return false;
}

/* Texts without a name or without a '=' are left out. A variable with an empty value is kept. */
static int config_read_env(const json_t *config, struct buf *ret, struct err *e)
{
	json_t *list;

	if (oci_json_array(config, "Env", OCI_ENV_MAX, &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		size_t name;

		if (text == NULL)
			return err_set(e, ERR_INVALID, "Env: not text");
		name = strcspn(text, "=");
		if (name == 0 || text[name] == '\0' || config_is_replaced(list, i, text, name))
			continue;
		if (buf_add(ret, text, strlen(text) + 1, e) < 0)
			return err_wrap(e, "Env");
	}
	return 0;
}

/* Each word is appended with its NUL. A missing list adds nothing. */
static int config_read_words(const json_t *config, const char *name, struct buf *ret, struct err *e)
{
	json_t *list;

	if (oci_json_array(config, name, OCI_COMMAND_MAX, &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text == NULL)
			return err_set(e, ERR_INVALID, "%s: not text", name);
		if (buf_add(ret, text, strlen(text) + 1, e) < 0)
			return err_wrap(e, "%s", name);
	}
	return 0;
}

/* A relative working directory is below the root directory. */
static int config_read_start(const json_t *config, struct oci_config *ret, struct err *e)
{
	const char *user = oci_json_text(config, "User", OCI_USER_MAX - 1, e);
	const char *workdir =
		user == NULL ? NULL : oci_json_text(config, "WorkingDir", OCI_WORKDIR_MAX - 2, e);
	bool slash;

	if (workdir == NULL)
		return -1;
	slash = workdir[0] != '\0' && workdir[0] != '/';
	memcpy(ret->user, user, strlen(user) + 1);
	ret->workdir[0] = '/';
	memcpy(ret->workdir + slash, workdir, strlen(workdir) + 1);
	if (config_read_words(config, "Entrypoint", &ret->command, e) < 0)
		return -1;
	return config_read_words(config, "Cmd", &ret->command, e);
}

/* Buffers are made before the first failure, so oci_config_release() is right in each case. */
int oci_config_read(const void *bytes, size_t len, const struct oci_platform *want,
		    struct oci_config *ret, struct err *e)
{
	OWN_OCI_JSON *root = NULL;
	json_t *config;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->env, OCI_ENV_BYTES_MAX);
	buf_init(&ret->command, OCI_COMMAND_BYTES_MAX);
	root = oci_json_parse(bytes, len, false, "config", e);
	if (root == NULL || config_check_platform(root, want, e) < 0)
		return -1;
	if (config_read_diff_ids(root, ret, e) < 0 ||
	    oci_json_object(root, "config", &config, e) < 0)
		return err_wrap(e, "config");
	if (config != NULL &&
	    (config_read_env(config, &ret->env, e) < 0 || config_read_start(config, ret, e) < 0))
		return err_wrap(e, "config");
	return 0;
}

void oci_config_release(struct oci_config *c)
{
	buf_release(&c->env);
	buf_release(&c->command);
}
