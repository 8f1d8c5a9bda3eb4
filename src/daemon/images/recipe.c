#include "daemon/images/recipe.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/oci/oci_ref.h"

static const char *const type_names[RECIPE_TYPES] = { "RUN", "COPY", "ENV", "WORKDIR", "USER" };

const char *recipe_type_name(enum recipe_type type)
{
	return type_names[type];
}

bool recipe_type_find(const char *word, enum recipe_type *ret)
{
	if (strcmp(word, "ADD") == 0)
		word = "COPY";
	else if (strcmp(word, "ARG") == 0)
		word = "ENV";
	for (unsigned i = 0; i < RECIPE_TYPES; i++)
		if (strcmp(word, type_names[i]) == 0) {
			*ret = (enum recipe_type)i;
			return true;
		}
	return false;
}

bool recipe_is_hash(const char *text)
{
	return strlen(text) == RECIPE_HASH_MAX - 1 &&
	       text[strspn(text, "0123456789abcdef")] == '\0';
}

/* ---- is it well-formed? */

/* Octal, up to five digits. "" is allowed. */
static bool is_mode(const char *text)
{
	size_t n = strspn(text, "01234567");

	return n <= 5 && text[n] == '\0';
}

/* A name of a user or group, or a number. "": none. */
static bool is_name(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && strchr("_.-$", text[i]) == NULL)
			return false;
	return n < RECIPE_USER_MAX && (n == 0 || text[0] != '-');
}

/* "NAME", "NAME:GROUP" or ":GROUP". */
static bool is_owner(const char *text)
{
	size_t n = strcspn(text, ":");

	return is_name(text, n) && (text[n] == '\0' || is_name(text + n + 1, strlen(text + n + 1)));
}

static bool is_variable(const char *name)
{
	if (!isalpha((unsigned char)name[0]) && name[0] != '_')
		return false;
	for (; *name != '\0'; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return false;
	return true;
}

/* Source and destination, then owner and mode, both optional. */
static int check_copy(const struct recipe_step *s, unsigned number, struct err *e)
{
	char entry[RECIPE_PATH_MAX];

	if (s->argc < 2 || s->argc > 4)
		return err_set(e, ERR_INVALID, "steps: COPY %u: needs a source and a destination",
			       number);
	if (s->hash[0] == '\0')
		return err_set(e, ERR_INVALID, "steps: COPY %u: filesHash is missing", number);
	if (s->args[1][0] == '\0' || strlen(s->args[1]) >= RECIPE_PATH_MAX)
		return err_set(e, ERR_INVALID, "steps: COPY %u: bad destination", number);
	if (s->argc > 2 && !is_owner(s->args[2]))
		return err_set(e, ERR_INVALID, "steps: COPY %u: bad owner '%.60s'", number,
			       s->args[2]);
	if (s->argc > 3 && !is_mode(s->args[3]))
		return err_set(e, ERR_INVALID, "steps: COPY %u: bad mode '%.60s'", number,
			       s->args[3]);
	return recipe_copy_entry(s->args[0], entry, e);
}

static int check_env(const struct recipe_step *s, unsigned number, struct err *e)
{
	if (s->argc == 0 || s->argc % 2 != 0)
		return err_set(e, ERR_INVALID, "steps: ENV %u: needs pairs of name and value",
			       number);
	for (unsigned i = 0; i < s->argc; i += 2)
		if (!is_variable(s->args[i]))
			return err_set(e, ERR_INVALID, "steps: ENV %u: bad name '%.60s'", number,
				       s->args[i]);
	return 0;
}

/* number counts from 1, as clients show steps. */
static int check_step(const struct recipe_step *s, unsigned number, struct err *e)
{
	if (s->type == RECIPE_COPY)
		return check_copy(s, number, e);
	if (s->type == RECIPE_ENV)
		return check_env(s, number, e);
	if (s->argc == 0 || s->args[0][0] == '\0')
		return err_set(e, ERR_INVALID, "steps: %s %u: its argument is missing",
			       type_names[s->type], number);
	if (s->type == RECIPE_WORKDIR && strlen(s->args[0]) >= RECIPE_PATH_MAX)
		return err_set(e, ERR_INVALID, "steps: WORKDIR %u: path is too long", number);
	if (s->type == RECIPE_USER && !is_owner(s->args[0]))
		return err_set(e, ERR_INVALID, "steps: USER %u: bad name '%.60s'", number,
			       s->args[0]);
	return 0;
}

/* AWS credentials open only AWS registries in their own region. */
static int check_aws(const struct recipe *r, struct err *e)
{
	struct oci_ecr ecr;
	struct oci_ref ref;

	if (r->registry_user == NULL || r->registry_password == NULL)
		return err_set(e, ERR_INVALID,
			       "fromImageRegistry: awsAccessKeyId and awsSecretAccessKey must be "
			       "given");
	if (oci_ref_read(r->image, &ref, e) < 0)
		return err_wrap(e, "fromImage");
	if (!oci_ecr_read(ref.host, &ecr))
		return err_set(e, ERR_INVALID,
			       "fromImageRegistry: credentials of AWS are for registries "
			       "ACCOUNT.dkr.ecr.REGION.amazonaws.com");
	if (strcmp(ecr.region, r->registry_region) != 0)
		return err_set(e, ERR_INVALID,
			       "fromImageRegistry: awsRegion is '%.40s', the registry is in %s",
			       r->registry_region, ecr.region);
	return 0;
}

int recipe_check(const struct recipe *r, struct err *e)
{
	if ((r->image != NULL) == (r->template != NULL))
		return err_set(e, ERR_INVALID,
			       "exactly one of fromImage and fromTemplate must be given");
	if (r->image != NULL && r->registry_region != NULL && check_aws(r, e) < 0) {
		err_sanitize(e);
		return -1;
	}
	for (unsigned i = 0; i < r->nsteps; i++)
		if (check_step(&r->steps[i], i + 1, e) < 0) {
			err_sanitize(e);
			return -1;
		}
	return 0;
}

static void free_secret(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

void recipe_release(struct recipe *r)
{
	for (unsigned i = 0; i < r->nsteps; i++) {
		for (unsigned k = 0; k < r->steps[i].argc; k++)
			free(r->steps[i].args[k]);
		free((void *)r->steps[i].args);
	}
	free(r->steps);
	free(r->image);
	free(r->template);
	free(r->start);
	free(r->ready);
	free(r->network);
	free_secret(r->registry_user);
	free_secret(r->registry_password);
	free(r->registry_region);
	*r = (struct recipe){ 0 };
}
