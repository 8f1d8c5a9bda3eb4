#include "front/web/spec_recipe.h"

#include <stdlib.h>
#include <string.h>

#include "front/web/json_members.h"

#define REFERENCE_MAX 512
#define AWS_TEXT_MAX 128 /* an access key has 20 characters, its secret 40 */

static int spec_recipe_copy(struct json_members *m, const char *name, const char *text, char **ret)
{
	if (text == NULL || text[0] == '\0')
		return 0;
	*ret = strdup(text);
	return *ret == NULL ? json_members_fail(m, name, "out of memory") : 0;
}

static void read_text(struct json_members *m, const char *name, size_t max, char **ret)
{
	const char *text = NULL;

	json_members_text(m, name, max, &text);
	if (!m->failed)
		IGNORED(spec_recipe_copy(m, name, text, ret), "kept in m");
}

/* ---- the registry */

static void read_registry(struct json_members *outer, struct recipe *ret)
{
	json_t *object = json_members_object(outer, "fromImageRegistry", JSON_MEMBERS_MAX);
	const char *type = "", *user = NULL, *password = NULL, *region = NULL;
	struct json_members m;

	if (object == NULL)
		return;
	json_members_begin(&m, object, "fromImageRegistry", outer->e);
	json_members_text(&m, "type", 32, &type);
	if (strcmp(type, "registry") == 0) {
		json_members_text(&m, "username", RECIPE_TEXT_MAX, &user);
		json_members_text(&m, "password", RECIPE_TEXT_MAX, &password);
	} else if (strcmp(type, "gcp") == 0) {
		user = "_json_key";
		json_members_text(&m, "serviceAccountJson", RECIPE_TEXT_MAX, &password);
	} else if (strcmp(type, "aws") == 0) {
		json_members_text(&m, "awsAccessKeyId", AWS_TEXT_MAX, &user);
		json_members_text(&m, "awsSecretAccessKey", AWS_TEXT_MAX, &password);
		json_members_text(&m, "awsRegion", AWS_TEXT_MAX, &region);
		if (!m.failed && (region == NULL || region[0] == '\0'))
			(void)json_members_fail(&m, "awsRegion", "must be given");
	} else {
		(void)json_members_fail(&m, "type", "must be registry, aws or gcp");
	}
	if (!m.failed && (spec_recipe_copy(&m, "username", user, &ret->registry_user) < 0 ||
			  spec_recipe_copy(&m, "password", password, &ret->registry_password) < 0 ||
			  spec_recipe_copy(&m, "awsRegion", region, &ret->registry_region) < 0))
		m.failed = true;
	if (json_members_end_lenient(&m) < 0)
		outer->failed = true;
}

/* ---- steps */

static int read_args(struct json_members *m, json_t *array, struct recipe_step *s)
{
	json_t *value;
	size_t i;

	if (!json_is_array(array) || json_array_size(array) > RECIPE_ARGS_MAX)
		return json_members_fail(m, "args", "must be an array of up to 256 texts");
	s->args = calloc(json_array_size(array) + 1, sizeof(*s->args));
	if (s->args == NULL)
		return json_members_fail(m, "args", "out of memory");
	json_array_foreach(array, i, value)
	{
		const char *text = json_string_value(value);

		if (text == NULL || strlen(text) != json_string_length(value) ||
		    strlen(text) > RECIPE_TEXT_MAX)
			return json_members_fail(m, "args", "must be texts of up to 64 KiB");
		s->args[i] = strdup(text);
		if (s->args[i] == NULL)
			return json_members_fail(m, "args", "out of memory");
		s->argc++;
	}
	return 0;
}

static int read_step(json_t *object, struct recipe_step *s, struct err *e)
{
	const char *type = "", *hash = "";
	struct json_members m;
	json_t *args;

	if (!json_is_object(object))
		return err_set(e, ERR_INVALID, "steps: must be an array of objects");
	json_members_begin(&m, object, "steps", e);
	json_members_text(&m, "type", 16, &type);
	json_members_text(&m, "filesHash", RECIPE_HASH_MAX - 1, &hash);
	json_members_bool(&m, "force", &s->force);
	args = json_members_take(&m, "args");
	if (!recipe_type_find(type, &s->type))
		(void)json_members_fail(&m, "type", "must be RUN, COPY, ENV, WORKDIR or USER");
	if (hash[0] != '\0' && !recipe_is_hash(hash))
		(void)json_members_fail(&m, "filesHash", "must be 64 lower-case hex digits");
	if (!m.failed && args != NULL)
		IGNORED(read_args(&m, args, s), "kept in m");
	if (!m.failed)
		memcpy(s->hash, hash, strlen(hash) + 1);
	return json_members_end_lenient(&m);
}

static int read_steps(struct json_members *m, struct recipe *ret)
{
	json_t *steps = json_members_array(m, "steps", RECIPE_STEPS_MAX), *value;
	size_t i;

	if (steps == NULL)
		return 0;
	ret->steps = calloc(json_array_size(steps) + 1, sizeof(*ret->steps));
	if (ret->steps == NULL)
		return json_members_fail(m, "steps", "out of memory");
	json_array_foreach(steps, i, value)
	{
		ret->nsteps++;
		if (read_step(value, &ret->steps[i], m->e) < 0) {
			m->failed = true;
			return -1;
		}
	}
	return 0;
}

int spec_recipe_read(const void *body, size_t len, struct recipe *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int rc;

	*ret = (struct recipe){ 0 };
	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	read_text(&m, "fromImage", REFERENCE_MAX, &ret->image);
	read_text(&m, "fromTemplate", REFERENCE_MAX, &ret->template);
	read_text(&m, "startCmd", RECIPE_TEXT_MAX, &ret->start);
	read_text(&m, "readyCmd", RECIPE_TEXT_MAX, &ret->ready);
	read_text(&m, "network", RECIPE_NETWORK_MAX, &ret->network);
	json_members_bool(&m, "force", &ret->force);
	if (!m.failed)
		read_registry(&m, ret);
	if (!m.failed)
		IGNORED(read_steps(&m, ret), "kept in m");
	rc = json_members_end_lenient(&m);
	json_decref(root);
	return rc < 0 ? -1 : recipe_check(ret, e);
}
