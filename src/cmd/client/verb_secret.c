/* verb_secret.c - cordon secret: secrets are set, listed, shown without their values, removed.
 *
 * `set` changes an existing secret (PUT) and creates a missing one (POST). A value comes from a
 * file, standard input or an environment variable, never from an argument, which other processes
 * could read. It is wiped here after it is copied into the body. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/compose.h"
#include "cmd/client/member.h"
#include "cmd/client/resource_table.h"
#include "cmd/client/verbs.h"

#define PATH "/v1/secrets"
#define VALUE_MAX 65536

/* The fields of set. The others use only the common ones. */
struct verb_secret_fields {
	struct args_common common;
	const char *from_file, *value_env, *ttl;
	struct option_list hosts, methods, paths, in, ways, metadata;
};

#define FIELD(name) offsetof(struct verb_secret_fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "from-file", "FILE", OPTION_TEXT, FIELD(from_file), 0, 0,
	  "set: the value is this file, without its last newline; -: standard input" },
	{ "value-env", "VAR", OPTION_TEXT, FIELD(value_env), 0, 0,
	  "set: the value is in this variable" },
	{ "host", "NAME", OPTION_LIST, FIELD(hosts), 0, 0,
	  "set: a host it may be sent to, or *.NAME; may be repeated, like the following", .member = "hosts" },
	{ "method", "METHOD", OPTION_LIST, FIELD(methods), 0, 0, "set: only in requests with this method", .member = "methods" },
	{ "path", "PATTERN", OPTION_LIST, FIELD(paths), 0, 0,
	  "set: only in requests for this path, such as /v1/**", .member = "paths" },
	{ "in", "PLACE", OPTION_LIST, FIELD(in), 0, 0,
	  "set: where it is inserted: header, basic, body:FIELD (default: the first two)", .member = "in" },
	{ "way", "WAY", OPTION_LIST, FIELD(ways), 0, 0,
	  "set: how sessions may get it: broker, env, file, socket (default: all)", .member = "ways", .values = "broker env file socket" },
	{ "metadata", "K=V", OPTION_PAIRS, FIELD(metadata), 0, 0, "set: metadata", .member = "metadata" },
	{ "ttl", "TIME", OPTION_SPAN, FIELD(ttl), 0, 0,
	  "set: how long it is valid from now on; 0: no limit", .member = "ttl" },
	ARGS_COMMON(struct verb_secret_fields),
};
/* clang-format on */

/* At most VALUE_MAX bytes, and the newline that editors leave. */
static int read_all(int fd, char ret[VALUE_MAX + 2], struct err *e)
{
	size_t n = 0;

	while (n < VALUE_MAX + 1) {
		ssize_t got = read(fd, ret + n, VALUE_MAX + 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, "--from-file");
		if (got == 0)
			break;
		n += (size_t)got;
	}
	if (n > 0 && ret[n - 1] == '\n')
		n--;
	if (n > VALUE_MAX || memchr(ret, '\0', n) != NULL)
		return err_set(e, ERR_INVALID, "--from-file: must be text of at most %d bytes",
			       VALUE_MAX);
	ret[n] = '\0';
	return 0;
}

/* The value of --value-env comes from this process's environment, which other users cannot read.
 * It is copied, so the caller can wipe the copy. */
static int read_value(const struct verb_secret_fields *f, char ret[VALUE_MAX + 2], struct err *e)
{
	OWN_FD fd = -1;
	const char *set;

	if (f->value_env != NULL) {
		set = secure_getenv(f->value_env);
		if (set == NULL || strlen(set) > VALUE_MAX)
			return err_set(e, ERR_INVALID, "--value-env: %.60s is not set, or too long",
				       f->value_env);
		memcpy(ret, set, strlen(set) + 1);
		return 0;
	}
	if (strcmp(f->from_file, "-") == 0)
		return read_all(STDIN_FILENO, ret, e);
	fd = open(f->from_file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "--from-file: %.200s", f->from_file);
	return read_all(fd, ret, e);
}

/* The given members. The others of an existing secret stay as they are. The value is wiped from
 * the stack after it was copied into the body. NULL with e set, else the caller owns the body. */
static json_t *secret_compose(const struct verb_secret_fields *f, struct err *e)
{
	json_t *body = json_object();
	char value[VALUE_MAX + 2];
	int done = body == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : 0;

	if (done == 0 && (f->from_file != NULL || f->value_env != NULL)) {
		done = read_value(f, value, e);
		if (done == 0)
			done = compose_text(body, "value", "the value", value, e);
		explicit_bzero(value, sizeof(value));
	}
	if (done == 0)
		done = compose_options(body, options, COUNT(options), f, e);
	if (done == 0)
		return body;
	json_decref(body);
	return NULL;
}

static const char *const heads[] = { "NAME",	"VERSION", "HOSTS",  "WAYS",
				     "UPDATED", "EXPIRES", "PROBLEM" };
static const char *const names[] = { "name",	   "version",	 "hosts",  "ways",
				     "updated_at", "expires_at", "problem" };
static const struct resource_table secrets = { PATH, "secrets", heads, names, COUNT(heads) };

/* PUT changes an existing secret. A missing one (404) is created by POST, which needs a value. */
static int secret_set(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	const struct verb_secret_fields *f = fields;
	OWN_JSON *body = NULL;
	OWN_JSON *secret = NULL;
	struct target t;

	if (f->from_file != NULL && f->value_env != NULL)
		return err_set(e, ERR_INVALID, "--from-file and --value-env: one of the two");
	body = secret_compose(f, e);
	if (body == NULL)
		return -1;
	target_init(&t, PATH);
	target_part(&t, name);
	if (api_call_json(a, "PUT", &t, body, &secret, e) < 0) {
		if (a->status != 404)
			return -1;
		if (json_object_get(body, "value") == NULL)
			return err_set(e, ERR_INVALID,
				       "secret %.64s does not exist yet, and no value was given: "
				       "--from-file FILE (-: standard input) or --value-env VAR",
				       name);
		if (compose_text(body, "name", "the name", name, e) < 0)
			return -1;
		target_init(&t, PATH);
		if (api_call_json(a, "POST", &t, body, &secret, e) < 0)
			return -1;
	}
	resource_table_show(&f->common, secret, "name");
	return 0;
}

/* A row without a function is one request (resource_table.h). */
static const struct subverb subverbs[] = {
	{ "ls", .list = &secrets },
	{ "set", true, secret_set },
	{ "show", true, .method = "GET", .path = PATH, .shown = "" },
	{ "rm", true, .method = "DELETE", .path = PATH },
};

static int secret_run(int argc, char **argv)
{
	static struct verb_secret_fields f;

	return subverb_run(&verb_secret, subverbs, COUNT(subverbs), argc, argv, &f);
}

const struct verb verb_secret = {
	.name = "secret",
	.usage = "ls | set NAME [options] | show NAME | rm NAME",
	.summary = "Lists, sets, shows and removes secrets.",
	.text = "The value of a secret is never shown. set creates a secret or changes an existing "
		"one:\n"
		"options that are not given leave its settings as they are. rm also removes it "
		"from\n"
		"all sessions that use it. doc/secrets.md describes how sessions get secrets.\n",
	.examples =
		"cordon secret set github_token --value-env GITHUB_TOKEN --host api.github.com\n"
		"cordon create --secret github_token\n"
		"cordon secret ls\n",
	.options = options,
	.noptions = COUNT(options),
	.run = secret_run,
};
