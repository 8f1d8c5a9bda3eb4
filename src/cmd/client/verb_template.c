/* verb_template.c - cordon template: the templates that sessions are made from.
 *
 * import and debian make a tar archive here and send it (template_import.c), build sends the
 * context and a recipe (template_build.c), and pull has the server fetch the image. The argument of
 * import is a file of this machine, or names a directory of the server's template_dir, used where
 * it is. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/base/options.h"
#include "cmd/client/api_call.h"
#include "cmd/client/compose.h"
#include "cmd/client/member.h"
#include "cmd/client/resource_table.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/template_build.h"
#include "cmd/client/template_import.h"
#include "cmd/client/verbs.h"

/* ---- cordon template pull: asks the server for an image of a registry, and shows its progress.
 * The answer is a stream of events: the image with its digest, its layers one by one, and at the
 * end the template or an error. */

struct template_pull {
	const char *reference;
	const char *name, *secret; /* NULL: none */
	const struct option_list *tags;
	bool quiet; /* no lines about layers */
};

/* 0 if the member is missing. */
static unsigned long long template_number(const json_t *j, const char *name)
{
	return (unsigned long long)json_integer_value(json_object_get(j, name));
}

/* One line for each layer. The bytes of an incoming one on a terminal only. */
static void show_layer(const char *event, const json_t *j, unsigned long long layers)
{
	bool is_terminal = isatty(STDERR_FILENO) == 1;
	double mib = (double)template_number(j, "size") / (1 << 20);

	if (strcmp(event, "progress") == 0) {
		if (is_terminal)
			(void)fprintf(stderr, "\r\033[Klayer %llu of %llu: %.1f of %.1f MiB",
				      template_number(j, "layer"), layers,
				      (double)template_number(j, "bytes") / (1 << 20), mib);
		return;
	}
	(void)fprintf(stderr, "%slayer %llu of %llu: %.1f MiB%s\n", is_terminal ? "\r\033[K" : "",
		      template_number(j, "layer"), layers, mib,
		      json_is_true(json_object_get(j, "shared")) ? ", there already" : "");
}

/* The server's words, which may quote a registry. args_fail() escapes them. */
static int take_error(const json_t *j, struct err *e)
{
	const json_t *error = json_object_get(j, "error");
	const char *message = json_string_value(json_object_get(error, "message"));

	return err_set(e, ERR_SYSTEM, "%s", message == NULL ? "the pull failed" : message);
}

/* 1: the end, *ret is set. 0: more follows. -1. Events of unknown names count as layers. The
 * digest is checked before it is printed, because the registry sent it. */
static int take_event(const struct template_pull *p, const struct client_event *event,
		      unsigned long long *layers, json_t **ret, struct err *e)
{
	OWN_JSON *j = json_loadb(event->data, event->data_len, 0, NULL);

	if (strcmp(event->name, "error") == 0)
		return take_error(j, e);
	if (strcmp(event->name, "template") == 0) {
		*ret = json_incref(j);
		return 1;
	}
	if (strcmp(event->name, "image") == 0) {
		const char *digest = json_string_value(json_object_get(j, "digest"));

		*layers = template_number(j, "layers");
		if (!p->quiet && digest != NULL && strspn(digest, "sha256:abcdef0123456789") == 71)
			(void)fprintf(stderr, "digest %s, %llu layers, %.1f MiB\n", digest, *layers,
				      (double)template_number(j, "bytes") / (1 << 20));
	} else if (!p->quiet) {
		show_layer(event->name, j, *layers);
	}
	return 0;
}

/* Absent members are left out, and the server has the defaults. */
static int template_compose(const struct template_pull *p, json_t *body, struct err *e)
{
	if (compose_text(body, "reference", "the reference", p->reference, e) < 0 ||
	    compose_text(body, "name", "--name", p->name, e) < 0 ||
	    compose_text(body, "secret", "--secret", p->secret, e) < 0)
		return -1;
	return p->tags->n == 0 ? 0
			       : compose_list(body, "tags", "--tag", p->tags->items, p->tags->n, e);
}

/* *ret_name is the template's, owned by the caller. A stream that ends without a template is an
 * error: the pull may continue at the server, but its result is not known. */
static int template_pull(struct api_call *a, const struct template_pull *p, json_t **ret,
			 struct err *e)
{
	OWN_JSON *body = json_object();
	struct client_request r = { .method = "POST", .type = "application/json" };
	struct client_event event;
	unsigned long long layers = 0;
	struct target t;
	char *text;
	int n;

	if (template_compose(p, body, e) < 0)
		return -1;
	text = json_dumps(body, JSON_COMPACT);
	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	r.body = text;
	r.body_len = strlen(text);
	target_init(&t, "/v1/templates/pull");
	n = api_call_send(a, &r, &t, e);
	free(text);
	if (n < 0)
		return -1;
	while ((n = client_sse_next(a->client, &event, e)) > 0) {
		n = take_event(p, &event, &layers, ret, e);
		if (n != 0)
			return n < 0 ? -1 : 0;
	}
	return n < 0 ? -1 : err_set(e, ERR_SYSTEM, "the server ended the stream");
}

/* The fields of all sub-verbs together, since one table of options serves all. */
struct template_fields {
	struct args_common common;
	const char *name, *user, *workdir;
	struct option_list env, mounts;
	const char *file, *ready, *memory, *cpus, *network; /* of build */
	struct option_list args, tags;
	const char *secret;	      /* of pull */
	const char *include, *mirror; /* of debian */
	bool public;
	bool no_cache, no_start;
	const char *from, *suite; /* of interpreter */
	bool science;
};

#define FIELD(name) offsetof(struct template_fields, name)

/* clang-format off */
/* The words before the colon of a help text are the sub-verbs that use the option. */
static const struct option options[] = {
	{ "name", "NAME", OPTION_TEXT, FIELD(name), 0, 0,
	  "import, pull, debian, build, interpreter: its name or NAME:TAG (default: by source)" },
	{ "include", "NAMES", OPTION_TEXT, FIELD(include), 0, 0,
	  "debian: further packages, with commas" },
	{ "mirror", "URL", OPTION_TEXT, FIELD(mirror), 0, 0,
	  "debian: where packages come from (default: as mmdebstrap has it)" },
	{ "public", NULL, OPTION_FLAG, FIELD(public), 0, 0,
	  "import, debian: other tenants may use it" },
	{ "from", "NAME[:TAG]", OPTION_TEXT, FIELD(from), 0, 0,
	  "interpreter: the template whose files its sessions have (default: host)", .values = "@templates" },
	{ "science", NULL, OPTION_FLAG, FIELD(science), 0, 0,
	  "interpreter: of a Debian with IPython, numpy, pandas, matplotlib, scipy and others" },
	{ "suite", "SUITE", OPTION_TEXT, FIELD(suite), 0, 0,
	  "interpreter --science: of which Debian (default: bookworm)" },
	{ "secret", "NAME", OPTION_TEXT, FIELD(secret), 0, 0,
	  "pull: secret with the credentials of the registry, user:password", .values = "@secrets" },
	{ "user", "NAME", OPTION_TEXT, FIELD(user), 0, 0,
	  "import: user of commands that name none (default: user)" },
	{ "workdir", "DIR", OPTION_TEXT, FIELD(workdir), 0, 0,
	  "import: working directory of commands that name none (default: home of the user)" },
	{ "env", "NAME=VALUE", OPTION_LIST, FIELD(env), 0, 0,
	  "import: environment of all commands; may be given again" },
	{ "mount", "SRC:DST[:ro|rw]", OPTION_LIST, FIELD(mounts), 0, 0,
	  "import: a directory of the server that all sessions see; may be given again" },
	{ "file", "FILE", OPTION_TEXT, FIELD(file), 0, 0, "build: the Dockerfile (default: DIR/Dockerfile)", .letter = 'f' },
	{ "tag", "TAG", OPTION_LIST, FIELD(tags), 0, 0, "build, pull, import, debian: a tag; may be given again" },
	{ "build-arg", "NAME=VALUE", OPTION_LIST, FIELD(args), 0, 0, "build: sets an ARG; may be given again" },
	{ "memory", "SIZE", OPTION_TEXT, FIELD(memory), 0, 0, "build: memory of the steps and of sessions" },
	{ "cpus", "COUNT", OPTION_TEXT, FIELD(cpus), 0, 0, "build: processors of the steps and of sessions" },
	{ "network", "PRESET,...", OPTION_TEXT, FIELD(network), 0, 0,
	  "build: presets that its steps may reach, of those allowed (build_networks)" },
	{ "ready-cmd", "COMMAND", OPTION_TEXT, FIELD(ready), 0, 0,
	  "build: a session is ready when this command succeeds" },
	{ "no-cache", NULL, OPTION_FLAG, FIELD(no_cache), 0, 0, "build: run all steps again" },
	{ "no-start", NULL, OPTION_FLAG, FIELD(no_start), 0, 0, "build: sessions do not run CMD and ENTRYPOINT" },
	ARGS_COMMON(struct template_fields),
};
/* clang-format on */

/* The columns of `ls` and the members behind them, in the same order. */
static const char *const heads[] = { "NAME", "VERSION",	 "TAGS",   "OWNER",
				     "SIZE", "SESSIONS", "CREATED" };
static const char *const names[] = { "name",  "version",  "tags",      "owner",
				     "bytes", "sessions", "created_at" };
static const struct resource_table templates = { "/v1/templates", "templates", heads, names,
						 COUNT(heads) };

static int template_list(const void *fields, struct api_call *a, const char *unused, struct err *e)
{
	return resource_table_list(fields, a, &templates, e);
}

/* The word is in the path, so it may be NAME or NAME:TAG. */
static int template_show(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	OWN_JSON *template = NULL;
	struct target t;

	target_init(&t, templates.path);
	target_part(&t, name);
	if (api_call_json(a, "GET", &t, NULL, &template, e) < 0)
		return -1;
	show_json(template, true, stdout);
	return 0;
}

static int remove_one(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	return resource_table_remove(a, templates.path, name, e);
}

/* The server knows the directory by its path, or by its name in template_dir. So a relative path
 * with a slash is made absolute here, and a single word stays. */
static int find_directory(const char *given, char ret[2 * PATH_MAX], struct err *e)
{
	char here[PATH_MAX];
	size_t n;

	if (given[0] == '/' || strchr(given, '/') == NULL) {
		(void)snprintf(ret, 2 * (size_t)PATH_MAX, "%.*s", PATH_MAX, given);
	} else {
		if (getcwd(here, sizeof(here)) == NULL)
			return err_sys(e, "the current directory");
		given += strncmp(given, "./", 2) == 0 ? 2 : 0;
		(void)snprintf(ret, 2 * (size_t)PATH_MAX, "%s/%.*s", here, PATH_MAX - 1, given);
	}
	for (n = strlen(ret); n > 1 && ret[n - 1] == '/'; n--)
		ret[n - 1] = '\0';
	return 0;
}

/* A directory of the server, used where it is. The server checks the owner and the mode of the
 * directory. The name follows from the path if none is given. */
static int register_directory(const struct template_fields *f, struct api_call *a,
			      const char *given, struct err *e)
{
	OWN_JSON *body = json_object();
	OWN_JSON *added = NULL;
	char directory[2 * PATH_MAX];
	const char *const layers[] = { directory };
	json_t *root = json_pack("{s:s}", "kind", "layers");
	struct target t;
	const char *slash;

	if (json_object_set_new(body, "root", root) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (find_directory(given, directory, e) < 0)
		return -1;
	slash = strrchr(directory, '/');
	if (compose_text(body, "name", "--name",
			 f->name != NULL ? f->name
			 : slash == NULL ? directory
					 : slash + 1,
			 e) < 0 ||
	    compose_list(root, "layers", "the directory", layers, 1, e) < 0 ||
	    compose_text(body, "user", "--user", f->user, e) < 0 ||
	    compose_text(body, "workdir", "--workdir", f->workdir, e) < 0 ||
	    compose_pairs(body, "env", "--env", &f->env, e) < 0 ||
	    compose_mounts(body, "mounts", &f->mounts, e) < 0)
		return -1;
	target_init(&t, templates.path);
	if (api_call_json(a, "POST", &t, body, &added, e) < 0)
		return -1;
	resource_table_show(&f->common, added, "name");
	return 0;
}

/* Is it a directory directly in the server's template_dir? Only the operator learns its path.
 * Others get an empty text, which is no directory, so their directory is packed and sent. */
static int is_registered(struct api_call *a, const char *given, bool *ret, struct err *e)
{
	OWN_JSON *node = NULL;
	char path[PATH_MAX];
	const char *dir, *slash;
	struct target t;
	struct stat st;

	*ret = stat(given, &st) < 0; /* a name that only the server knows */
	if (*ret || !S_ISDIR(st.st_mode))
		return 0;
	target_init(&t, "/v1/node");
	if (api_call_json(a, "GET", &t, NULL, &node, e) < 0)
		return -1;
	dir = member_text(node, "template_dir", "");
	slash = realpath(given, path) == NULL ? NULL : strrchr(path, '/');
	*ret = slash != NULL && strlen(dir) == (size_t)(slash - path) &&
	       strncmp(dir, path, (size_t)(slash - path)) == 0;
	return 0;
}

/* The name with a tag if it needs one. */
static void show_made(const struct template_fields *f, const json_t *made)
{
	if (f->common.json)
		show_json(made, true, stdout);
	else
		template_reference_print(made, "name");
}

/* The routes of import and debian take one tag. pull and build take several. */
static int first_tag(const struct template_fields *f, const char **ret, struct err *e)
{
	if (f->tags.n > 1)
		return err_set(e, ERR_INVALID,
			       "--tag: one at a time here; see cordon template tag");
	*ret = f->tags.n == 0 ? NULL : f->tags.items[0];
	return 0;
}

/* Three meanings of the argument, in this order: a directory in template_dir, a name that exists
 * at the server only, a file or directory here. */
static int verb_template_import(const void *fields, struct api_call *a, const char *given,
				struct err *e)
{
	const struct template_fields *f = fields;
	struct template_import t = {
		.name = f->name, .user = f->user, .workdir = f->workdir, .public = f->public
	};
	OWN_JSON *made = NULL;
	bool registered;

	if (is_registered(a, given, &registered, e) < 0)
		return -1;
	if (registered && register_directory(f, a, given, e) < 0)
		return access(given, F_OK) == 0 ? -1
						: err_wrap(e,
							   "no file %.60s here, so a directory of "
							   "the server was meant",
							   given);
	if (registered)
		return 0;
	if (f->env.n > 0 || f->mounts.n > 0)
		return err_set(
			e, ERR_INVALID,
			"--env and --mount: only for a directory of the server's template_dir");
	if (first_tag(f, &t.tag, e) < 0 || template_import(a, &t, given, &made, e) < 0)
		return -1;
	show_made(f, made);
	return 0;
}

/* Made here, then sent like any archive. */
static int template_debian(const void *fields, struct api_call *a, const char *suite, struct err *e)
{
	const struct template_fields *f = fields;
	struct template_import t = {
		.name = f->name, .user = f->user, .workdir = f->workdir, .public = f->public
	};
	OWN_JSON *made = NULL;

	if (first_tag(f, &t.tag, e) < 0 ||
	    template_import_debian(a, &t, suite, f->include, f->mirror, &made, e) < 0)
		return -1;
	show_made(f, made);
	return 0;
}

static int verb_template_interpreter(const void *fields, struct api_call *a, const char *unused,
				     struct err *e)
{
	const struct template_fields *f = fields;
	const struct template_interpreter t = { .from = f->from,
						.name = f->name,
						.science = f->science,
						.suite = f->suite,
						.include = f->include,
						.mirror = f->mirror };
	OWN_JSON *made = NULL;

	if (template_interpreter(a, &t, &made, e) < 0)
		return -1;
	show_made(f, made);
	return 0;
}

/* A tag means one version. The former version keeps its other tags. */
static int verb_template_tag(const void *fields, struct api_call *a, const char *name,
			     const char *new_tag, struct err *e)
{
	OWN_JSON *body = json_pack("{s:[s]}", "tags", new_tag);
	OWN_JSON *tagged = NULL;
	struct target t;

	if (body == NULL)
		return err_set(e, ERR_INVALID, "malformed tag");
	target_init(&t, templates.path);
	target_part(&t, name);
	target_part(&t, "tags");
	return api_call_json(a, "POST", &t, body, &tagged, e);
}

/* NAME comes without a tag here, because the tag is the second word. */
static int template_untag(const void *fields, struct api_call *a, const char *name,
			  const char *old_tag, struct err *e)
{
	struct target t;

	target_init(&t, templates.path);
	target_part(&t, name);
	target_part(&t, "tags");
	target_part(&t, old_tag);
	return api_call_json(a, "DELETE", &t, NULL, NULL, e);
}

/* The name is that of the directory if none is given, so `build .` looks at the real path. */
static int verb_template_build(const void *fields, struct api_call *a, const char *dir,
			       struct err *e)
{
	const struct template_fields *f = fields;
	struct template_build b = { .dir = dir,
				    .file = f->file,
				    .name = f->name,
				    .ready = f->ready,
				    .args = &f->args,
				    .tags = &f->tags,
				    .memory = f->memory,
				    .cpus = f->cpus,
				    .network = f->network,
				    .no_cache = f->no_cache,
				    .no_start = f->no_start,
				    .json = f->common.json };
	char real[PATH_MAX];
	const char *slash;

	if (realpath(dir, real) == NULL)
		return err_sys(e, "%.200s", dir);
	slash = strrchr(real, '/');
	if (b.name == NULL)
		b.name = slash == NULL ? real : slash + 1;
	return template_build(a, &b, e);
}

/* With a tag in the answer NAME:TAG is printed. */
static int verb_template_pull(const void *fields, struct api_call *a, const char *reference,
			      struct err *e)
{
	const struct template_fields *f = fields;
	const struct template_pull p = {
		.reference = reference, .name = f->name, .secret = f->secret, .tags = &f->tags
	};
	OWN_JSON *made = NULL;

	const char *tag;

	if (template_pull(a, &p, &made, e) < 0)
		return -1;
	tag = json_string_value(json_object_get(made, "tag"));
	if (f->common.json || tag == NULL) {
		resource_table_show(&f->common, made, "name");
		return 0;
	}
	show_text(member_text(made, "name", "?"), stdout);
	(void)putchar(':');
	show_text(tag, stdout);
	(void)putchar('\n');
	return 0;
}

/* One directory of the template, at most 4096 entries. */
static int template_files(const void *fields, struct api_call *a, const char *name,
			  const char *path, struct err *e)
{
	static const char *const titles[] = { "MODE", "UID", "GID", "SIZE", "NAME", "TARGET" };
	static const char *const members[] = { "mode", "uid", "gid", "size", "name", "target" };
	const struct template_fields *f = fields;
	OWN_JSON *found = NULL;
	struct target t;

	target_init(&t, templates.path);
	target_part(&t, name);
	target_part(&t, "files");
	target_query(&t, "path", path);
	target_query(&t, "limit", "4096");
	if (api_call_json(a, "GET", &t, NULL, &found, e) < 0)
		return -1;
	if (f->common.json)
		show_json(found, true, stdout);
	else
		resource_table_print(titles, members, COUNT(titles),
				     json_object_get(found, "entries"));
	return 0;
}

static int files_at_top(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	return template_files(fields, a, name, "/", e);
}

/* The word "files" has two rows: with a path and without. */
static const struct subverb subverbs[] = {
	{ "pull", true, verb_template_pull },
	{ "build", true, verb_template_build, .reads_files = true },
	{ "ls", false, template_list },
	{ "show", true, template_show },
	{ "import", true, verb_template_import },
	{ "rm", true, remove_one },
	{ "debian", true, template_debian },
	{ "files", true, files_at_top },
	{ "files", .run_two = template_files },
	{ "interpreter", false, verb_template_interpreter },
	{ "tag", .run_two = verb_template_tag },
	{ "untag", .run_two = template_untag },
};

static int template_run(int argc, char **argv)
{
	static struct template_fields f;

	return subverb_run(&verb_template, subverbs, COUNT(subverbs), argc, argv, &f);
}

const struct verb verb_template = {
	.name = "template",
	.usage = "ls | show NAME | files NAME [PATH] | import [--name NAME[:TAG]] [options] FILE | "
		 "pull [--name "
		 "NAME[:TAG]] "
		 "[--secret NAME] REFERENCE | debian [--include NAMES] [options] SUITE | "
		 "interpreter [--from "
		 "NAME[:TAG]] [--science] [--name NAME] | build [-f "
		 "FILE] "
		 "[--name NAME[:TAG]] [options] DIR | tag NAME[:TAG] NEW-TAG | untag NAME TAG | rm "
		 "NAME",
	.summary =
		"Lists, shows, imports, pulls, builds, tags and removes templates, which sessions "
		"are made from.",
	.text = "import takes an OCI layout or a root file system, as directory or as tar archive "
		"(also\n"
		"compressed with gzip or zstd), or a docker-archive (docker save). A directory "
		"that the\n"
		"operator prepared in the server's template_dir is used where it is; it must "
		"belong to\n"
		"root, and no other user may write to it.\n\n"
		"pull takes an image of a registry, such as docker.io/library/python:3.12-slim or "
		"one\n"
		"with a digest (NAME@sha256:...), which is then the only one that is accepted.\n\n"
		"debian makes a Debian of a suite such as trixie on this machine, by mmdebstrap, "
		"and\n"
		"imports it.\n\n"
		"interpreter makes a template whose sessions run the code interpreter, as those "
		"of\n"
		"code-interpreter-v1 do, with the files of any other template. Its name is "
		"FROM-interpreter, or science,\nunless --name gives another.\n\n"
		"build runs the Dockerfile of a directory on the server, prints what it says, and "
		"then\n"
		"the id of the template, with a tag (ID:TAG) if it has not the tag default. Only "
		"the\n"
		"files that COPY names, and .dockerignore does not, are sent. CMD and ENTRYPOINT "
		"become the\nstart command of sessions.\n\n"
		"A name that exists gets a new version; tag lets a tag mean the version that\n"
		"NAME or NAME:TAG means. Sessions that run keep what they were made from.\n",
	.examples = "cordon template pull docker.io/library/python:3.12-slim --name python\n"
		    "cordon template build --name app:v2 .\n"
		    "cordon create --template app:v2\n"
		    "cordon template ls\n",
	.options = options,
	.noptions = COUNT(options),
	.run = template_run,
};
