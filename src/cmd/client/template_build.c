/* template_build.c - see template_build.h. In order: the local directory (build_context), files
 * of earlier stages (build_stage), the recipe, and the conversation with the server.
 *
 * One Dockerfile is one build for each of its stages. The stages' versions are removed at the
 * end in every case, and the steps' results stay in the server's cache. */
#include "cmd/client/template_build.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "cmd/base/options.h"
#include "cmd/client/api_call.h"
#include "cmd/client/create.h"
#include "cmd/client/dockerfile.h"
#include "cmd/client/dockerignore.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/pack.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/transfer.h"
#include "lib/base/err.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"
#include "lib/base/units.h"

/* A template's name alone means the version with the tag `default`, so the printed name needs a
 * tag only without that one. */
static bool has_default(const json_t *tags)
{
	const json_t *tag;
	size_t i;

	json_array_foreach(tags, i, tag)
	{
		const char *text = json_string_value(tag);

		if (text != NULL && strcmp(text, "default") == 0)
			return true;
	}
	return false;
}

void template_reference_print(const json_t *answer, const char *member)
{
	const json_t *tags = json_object_get(answer, "tags");
	const char *first = json_string_value(json_array_get(tags, 0));

	show_text(member_text(answer, member, "?"), stdout);
	if (first != NULL && !has_default(tags)) {
		(void)putchar(':');
		show_text(first, stdout);
	}
	(void)putchar('\n');
}

/* ---- the directory of a build on this machine: its files become the archives of COPY. The
 * rules of .dockerignore hold for every COPY. Each COPY gets an archive of its own, named after
 * its hash, so a step whose files did not change is found in the server's cache. The archive is
 * in memory, not on this machine's disk. */

struct build_context {
	const char *dir;
	char *rules_text; /* owned */
	struct dockerignore *rules;
	const char *source; /* of the COPY in the archive */
};

#define BUILD_CONTEXT_PATHS_MAX 8192

/* *ret is the caller's to free, also after a failure. The bound is that of a Dockerfile. */
static int build_context_read(const char *path, char **ret, size_t *ret_len, struct err *e)
{
	ssize_t n;

	*ret = malloc(DOCKERFILE_MAX + 1);
	if (*ret == NULL)
		return err_sys(e, "allocate");
	n = io_read_file(AT_FDCWD, path, *ret, DOCKERFILE_MAX + 1, e);
	if (n < 0)
		return err_wrap(e, "%.200s", path);
	*ret_len = (size_t)n;
	return 0;
}

/* The caller closes it in either case. dir is borrowed. A directory without .dockerignore has no
 * rules. */
static int build_context_open(struct build_context *c, const char *dir, struct err *e)
{
	char path[BUILD_CONTEXT_PATHS_MAX];
	size_t len = 0;

	c->dir = dir;
	c->rules = calloc(1, sizeof(*c->rules));
	if (c->rules == NULL)
		return err_sys(e, "allocate");
	(void)snprintf(path, sizeof(path), "%s/.dockerignore", dir);
	if (access(path, F_OK) < 0)
		return 0;
	if (build_context_read(path, &c->rules_text, &len, e) < 0)
		return -1;
	if (!dockerignore_read(c->rules_text, len, c->rules))
		return err_set(e, ERR_LIMIT, "%.200s: too many rules", path);
	return 0;
}

static void build_context_close(struct build_context *c)
{
	free(c->rules);
	free(c->rules_text);
}

/* A pack_fn. A directory on the way to a match is kept, or the match would have no parent. An
 * excluded directory stays if an exception may keep something in it. */
static bool template_build_keeps(const char *path, bool is_dir, void *arg)
{
	const struct build_context *c = arg;
	enum dockerignore_fit fit = dockerignore_fits(c->source, path);

	if (fit == DOCKERIGNORE_NO || (fit == DOCKERIGNORE_ANCESTOR && !is_dir))
		return false;
	return !dockerignore_excludes(c->rules, path) ||
	       (is_dir && dockerignore_may_keep(c->rules));
}

/* The SHA-256 of an archive, also its name. The descriptor is at its beginning again afterwards. */
static int build_context_hash(int fd, char ret_hash[65], struct err *e)
{
	static uint8_t piece[65536];
	uint8_t digest[SHA256_SIZE];
	struct sha256 h;
	ssize_t n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "archive");
	sha256_init(&h);
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		sha256_add(&h, piece, (size_t)n);
	sha256_end(&h, digest);
	hex_encode(digest, sizeof(digest), ret_hash);
	if (n < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "archive");
	return 0;
}

/* The archive of a COPY in memory. A pattern that fits no file is an error, as in Docker. The
 * caller owns the descriptor. */
static int build_context_pack(struct build_context *c, const char *source, struct err *e)
{
	OWN_FD fd = memfd_create("cordon-build", MFD_CLOEXEC);
	uint64_t files;

	if (fd < 0)
		return err_sys(e, "memory for the archive");
	c->source = source;
	if (pack_write(fd, c->dir, template_build_keeps, c, &files, e) < 0)
		return -1;
	if (files == 0 && strpbrk(source, "*?[") != NULL)
		return err_set(e, ERR_INVALID, "COPY %.100s: no file matches", source);
	return TAKE_FD(fd);
}

/* A missing source would be an empty archive. */
static int build_context_check(const char *dir, const char *source, unsigned line, struct err *e)
{
	char path[BUILD_CONTEXT_PATHS_MAX];
	struct stat st;

	if (strpbrk(source, "*?[") != NULL)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, source);
	if (lstat(path, &st) == 0)
		return 0;
	return err_set(e, ERR_INVALID, "Dockerfile:%u: COPY %.100s: there is no such file", line,
		       source);
}

/* ---- COPY --from: a file or directory of an earlier stage as an archive. A session is made
 * from the stage's template, its files are read as root, and the session is deleted. The session
 * has no network and runs no command, so nothing of the stage is executed for this. */

static bool keep_all(const char *path, bool is_dir, void *arg)
{
	return true;
}

/* A file keeps its name, by way of a directory of its own on this machine. */
static int pack_file(struct api_call *a, const struct transfer_place *p, unsigned mode,
		     const char *name, int to, struct err *e)
{
	char dir[] = "/tmp/cordon-stage-XXXXXX", path[sizeof(dir) + NAME_MAX + 1];
	const struct timespec times[2] = { { 0 } };
	uint64_t files;
	int result;

	if (mkdtemp(dir) == NULL)
		return err_sys(e, "%s", dir);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	result = transfer_get_file(a, p, path, e);
	/* One fixed time: the hash of the archive is in the key of the cached step. */
	if (result == 0 &&
	    (chmod(path, mode & 0777) < 0 || utimensat(AT_FDCWD, path, times, 0) < 0))
		result = err_sys(e, "%s", path);
	if (result == 0)
		result = pack_write(to, dir, keep_all, NULL, &files, e);
	(void)unlink(path);
	(void)rmdir(dir);
	return result;
}

/* The kind decides: a directory comes as the server's archive, a file is packed here. p->path is
 * absolute, so it has a slash. */
static int pack_place(struct api_call *a, const struct transfer_place *p, int to,
		      char ret_source[NAME_MAX + 1], struct err *e)
{
	const char *name = strrchr(p->path, '/') + 1;
	enum transfer_kind kind;
	unsigned mode;

	if (transfer_stat(a, p, &kind, &mode, e) < 0)
		return -1;
	str_copy_to(ret_source, NAME_MAX + 1, kind == TRANSFER_FILE ? name : ".");
	if (kind == TRANSFER_DIRECTORY)
		return transfer_get_tar(a, p, to, e);
	if (kind == TRANSFER_FILE && strlen(name) <= NAME_MAX)
		return pack_file(a, p, mode, name, to, e);
	return err_set(e, ERR_INVALID, "COPY --from: %.150s is no file or directory of the stage",
		       p->path);
}

/* Absolute and without a slash at the end. Relative paths are below the root directory. */
static void template_build_clean(const char *path, char ret[PATH_MAX])
{
	size_t n;

	(void)snprintf(ret, PATH_MAX, "/%s", path + strspn(path, "/"));
	for (n = strlen(ret); n > 1 && ret[n - 1] == '/'; n--)
		ret[n - 1] = '\0';
}

/* Return the archive, owned by the caller, or -1. ret_source: the names in COPY for its
 * content. */
static int build_stage_pack(struct api_call *a, const char *template, const char *path,
			    char ret_source[NAME_MAX + 1], struct err *e)
{
	OWN_JSON *body = json_pack("{s:s, s:s}", "template", template, "network", "none");
	OWN_JSON *session = NULL;
	OWN_FD fd = memfd_create("cordon-stage", MFD_CLOEXEC);
	struct transfer_place place = { .user = "root" };
	char absolute[PATH_MAX];
	struct err ignored;
	struct target t;
	int result;

	if (fd < 0 || body == NULL)
		return err_sys(e, "memory for the archive");
	template_build_clean(path, absolute);
	if (create_session(a, body, &session, e) < 0)
		return err_wrap(e, "COPY --from");
	place.session = member_text(session, "id", "");
	place.path = absolute;
	result = pack_place(a, &place, fd, ret_source, e);
	id_match_target(&t, place.session, NULL);
	IGNORED(api_call_json(a, "DELETE", &t, NULL, NULL, &ignored), "it ends by its timeout");
	return result < 0 ? -1 : TAKE_FD(fd);
}

#define BUILDS "/v1/builds"
#define POLL_MS 150
#define PATHS_MAX 8192
#define CPUS_MAX 1024
#define NAME_TEXT_MAX 256
#define FROM_TEMPLATE "cordon/" /* FROM cordon/NAME: a template of the server */

/* The body is the archive, of known length. The descriptor stays the caller's. */
static int template_build_upload(struct api_call *a, const char *build, const char *hash, int fd,
				 struct err *e)
{
	struct client_request r = { .method = "PUT",
				    .type = "application/x-tar",
				    .source = client_source_fd,
				    .source_arg = &fd };
	struct target t;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "archive");
	r.source_len = (uint64_t)st.st_size;
	target_init(&t, BUILDS);
	target_part(&t, build);
	target_part(&t, "files");
	target_part(&t, hash);
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	return client_status(a->client) > 299 ? api_call_refused(a, e) : 0;
}

/* ---- the recipe */

/* Stages but the last are versions of the template with tags of their own. */
static void stage_reference(const struct template_build *b, const struct dockerfile *d,
			    char ret[NAME_TEXT_MAX])
{
	(void)snprintf(ret, NAME_TEXT_MAX, "%.*s:stage-%u", (int)strcspn(b->name, ":"), b->name,
		       d->number);
}

/* Upload the files of a COPY, and name the archive in the step. For a file from a stage the
 * source in the step becomes its name in the archive. The archive is not needed any more when
 * this returns. */
static int add_archive(struct api_call *a, const struct template_build *b, struct build_context *c,
		       const char *build, const struct dockerfile_step *s, json_t *step,
		       struct err *e)
{
	char hash[65], stage[NAME_TEXT_MAX], source[NAME_MAX + 1];
	int packed;

	if (s->stage != NULL) {
		stage_reference(b, s->stage, stage);
		packed = build_stage_pack(a, stage, s->args[0], source, e);
	} else {
		packed = build_context_check(c->dir, s->args[0], s->line, e) < 0
				 ? -1
				 : build_context_pack(c, s->args[0], e);
	}
	OWN_FD fd = packed;

	if (fd < 0 || build_context_hash(fd, hash, e) < 0 ||
	    template_build_upload(a, build, hash, fd, e) < 0)
		return -1;
	IGNORED(json_object_set_new(step, "filesHash", json_string(hash)), "memory");
	if (s->stage != NULL)
		IGNORED(json_array_set_new(json_object_get(step, "args"), 0, json_string(source)),
			"memory");
	return 0;
}

/* One step in the server's form. COPY also uploads its files, so a large build sends them before
 * it starts. */
static int add_step(struct api_call *a, const struct template_build *b, struct build_context *c,
		    const char *build, const struct dockerfile_step *s, json_t *steps,
		    struct err *e)
{
	json_t *step = json_pack("{s:s, s:[]}", "type", s->type, "args"), *args;

	args = json_object_get(step, "args");
	for (unsigned i = 0; i < s->argc; i++)
		if (json_array_append_new(args, json_string(s->args[i])) < 0) {
			json_decref(step);
			return err_set(e, ERR_INVALID, "Dockerfile:%u: text is not UTF-8", s->line);
		}
	if (strcmp(s->type, "COPY") == 0 && add_archive(a, b, c, build, s, step, e) < 0) {
		json_decref(step);
		return -1;
	}
	return json_array_append_new(steps, step) < 0 ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

static bool is_template(const char *from)
{
	return strncmp(from, FROM_TEMPLATE, strlen(FROM_TEMPLATE)) == 0;
}

/* A step that the file does not have. */
static int add_state(json_t *steps, const char *type, const char *value, struct err *e)
{
	return json_array_append_new(steps,
				     json_pack("{s:s, s:[s]}", "type", type, "args", value)) < 0
		       ? err_set(e, ERR_SYSTEM, "out of memory")
		       : 0;
}

/* As in Docker and in E2B's SDK: an image begins as root in /, and its sessions are the user's, in
 * its home, unless the file says otherwise. A template has a user and a directory. */
static int add_steps(struct api_call *a, const struct template_build *b, struct build_context *c,
		     const struct dockerfile *d, const char *build, json_t *steps, struct err *e)
{
	bool of_image = !is_template(dockerfile_first(d)->from);

	if (of_image && d->from_stage == NULL &&
	    (add_state(steps, "USER", "root", e) < 0 || add_state(steps, "WORKDIR", "/", e) < 0))
		return -1;
	for (unsigned i = 0; i < d->nsteps; i++)
		if (add_step(a, b, c, build, &d->steps[i], steps, e) < 0)
			return -1;
	if (!of_image || b->is_stage)
		return 0;
	if (!dockerfile_has(d, "USER") && add_state(steps, "USER", "user", e) < 0)
		return -1;
	return dockerfile_has(d, "WORKDIR") ? 0 : add_state(steps, "WORKDIR", "/home/user", e);
}

/* The body of the build's start. FROM is one of three: a stage of this file, a template of the
 * server (cordon/NAME), or an image of a registry. NULL with e set, else the caller owns it. */
static json_t *make_recipe(struct api_call *a, const struct template_build *b,
			   struct build_context *c, const struct dockerfile *d, const char *build,
			   struct err *e)
{
	bool own = is_template(d->from);
	const char *from = d->from + (own ? strlen(FROM_TEMPLATE) : 0);
	char stage[NAME_TEXT_MAX];
	json_t *recipe, *steps;

	if (d->from_stage != NULL) {
		stage_reference(b, d->from_stage, stage);
		from = stage;
		own = true;
	}
	recipe = json_pack("{s:s, s:b, s:[]}", own ? "fromTemplate" : "fromImage", from, "force",
			   b->no_cache, "steps");
	steps = json_object_get(recipe, "steps");

	if (recipe == NULL) {
		IGNORED(err_set(e, ERR_INVALID, "Dockerfile: FROM is not UTF-8"), "NULL");
		return NULL;
	}
	if (add_steps(a, b, c, d, build, steps, e) < 0) {
		json_decref(recipe);
		return NULL;
	}
	if (d->start != NULL && !b->no_start)
		IGNORED(json_object_set_new(recipe, "startCmd", json_string(d->start)), "UTF-8");
	/* Without one the server would wait twenty seconds, as E2B does. */
	if (b->network != NULL)
		IGNORED(json_object_set_new(recipe, "network", json_string(b->network)), "UTF-8");
	if (b->ready != NULL || json_object_get(recipe, "startCmd") != NULL)
		IGNORED(json_object_set_new(recipe, "readyCmd",
					    json_string(b->ready == NULL ? "true" : b->ready)),
			"UTF-8");
	return recipe;
}

/* ---- the conversation
 *
 * A build has three requests: POST makes it and returns its id, PUT brings each archive, and the
 * start gives the recipe. Then its log is asked for until its end. */

/* The name and tags of the result and the machine of the build's session. Nothing is built yet. */
static int template_build_request(struct api_call *a, const struct template_build *b, json_t **ret,
				  struct err *e)
{
	OWN_JSON *body = json_pack("{s:s, s:[]}", "name", b->name, "tags");
	uint64_t cpus = 0;
	struct target t;

	if (body == NULL)
		return err_set(e, ERR_INVALID, "--name: not UTF-8");
	for (size_t i = 0; i < b->tags->n; i++)
		IGNORED(json_array_append_new(json_object_get(body, "tags"),
					      json_string(b->tags->items[i])),
			"memory");
	if (b->memory != NULL)
		IGNORED(json_object_set_new(body, "memory", json_string(b->memory)), "memory");
	if (b->cpus != NULL && units_count(b->cpus, 1, CPUS_MAX, &cpus, e) < 0)
		return err_wrap(e, "--cpus");
	if (cpus > 0)
		IGNORED(json_object_set_new(body, "cpus", json_integer((json_int_t)cpus)),
			"memory");
	target_init(&t, BUILDS);
	return api_call_json(a, "POST", &t, body, ret, e);
}

/* On stderr, since stdout has the name of the template alone. Lines come from commands of the
 * build, so they are escaped. */
static void print_entries(const json_t *log)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(log, i, entry)
	{
		show_text(json_string_value(json_object_get(entry, "message")), stderr);
		(void)fputc('\n', stderr);
	}
}

/* Set by SIGINT, read between two requests. The build is then cancelled at the server. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	interrupted = 1;
}

/* The build ends with its command, as with docker build. */
static int template_build_cancel(struct api_call *a, const char *id, struct err *e)
{
	struct target t;

	target_init(&t, BUILDS);
	target_part(&t, id);
	if (api_call_json(a, "DELETE", &t, NULL, NULL, e) < 0)
		return -1;
	return err_set(e, ERR_CONFLICT, "interrupted: the build was cancelled");
}

/* A stage has no result for the user. */
static void print_end(const struct template_build *b, json_t *row)
{
	if (b->is_stage)
		return;
	if (!b->json) {
		template_reference_print(row, "template_id");
		return;
	}
	IGNORED(json_object_del(row, "log"), "it was printed");
	show_json(row, true, stdout);
}

/* Until it has ended and all of its log was printed. */
static int template_build_follow(struct api_call *a, const struct template_build *b, const char *id,
				 struct err *e)
{
	const struct timespec pause = { 0, POLL_MS * 1000000L };
	uint64_t seen = 0;

	/* Calls continue: only the wait between two of them is interrupted. */
	(void)sigaction(SIGINT,
			&(struct sigaction){ .sa_handler = on_interrupt, .sa_flags = SA_RESTART },
			NULL);
	for (;;) {
		OWN_JSON *row = NULL;
		const char *status, *reason;
		struct target t;
		size_t n;

		target_init(&t, BUILDS);
		target_part(&t, id);
		target_query_number(&t, "after", seen);
		if (api_call_json(a, "GET", &t, NULL, &row, e) < 0)
			return -1;
		n = json_array_size(json_object_get(row, "log"));
		seen += n;
		print_entries(json_object_get(row, "log"));
		status = json_string_value(json_object_get(row, "status"));
		if (n == 0 && status != NULL && strcmp(status, "ready") == 0) {
			print_end(b, row);
			return 0;
		}
		if (n == 0 && status != NULL && strcmp(status, "error") == 0) {
			reason = json_string_value(json_object_get(row, "reason"));
			return err_set(e, ERR_CONFLICT, "the build failed: %.200s",
				       reason == NULL ? "" : reason);
		}
		if (interrupted)
			return template_build_cancel(a, id, e);
		if (n == 0)
			(void)nanosleep(&pause, NULL);
	}
}

/* One stage, from the request for a build to its end. */
static int template_build_run(struct api_call *a, const struct template_build *b,
			      struct build_context *c, const struct dockerfile *d, struct err *e)
{
	OWN_JSON *build = NULL;
	OWN_JSON *recipe = NULL;
	OWN_JSON *started = NULL;
	const char *id;
	struct target t;

	if (template_build_request(a, b, &build, e) < 0)
		return -1;
	id = json_string_value(json_object_get(build, "id"));
	if (id == NULL)
		return err_set(e, ERR_INVALID, "the server gave the build no id");
	recipe = make_recipe(a, b, c, d, id, e);
	if (recipe == NULL)
		return -1;
	target_init(&t, BUILDS);
	target_part(&t, id);
	target_part(&t, "start");
	if (api_call_json(a, "POST", &t, recipe, &started, e) < 0)
		return -1;
	return template_build_follow(a, b, id, e);
}

/* The stages before this one, the first one first, because a stage may begin with an earlier one
 * or copy from it. Each becomes a version of the template under a tag of its own, without a
 * start command. */
static int run_stages(struct api_call *a, const struct template_build *b, struct build_context *c,
		      const struct dockerfile *d, struct err *e)
{
	static const struct option_list no_tags;
	struct template_build stage = *b;
	char name[NAME_TEXT_MAX];

	if (d == NULL)
		return 0;
	if (run_stages(a, b, c, d->before, e) < 0)
		return -1;
	stage_reference(b, d, name);
	stage.name = name;
	stage.tags = &no_tags;
	stage.ready = NULL;
	stage.no_start = stage.is_stage = true;
	return template_build_run(a, &stage, c, d, e);
}

/* Their versions go. The steps' results stay in the cache. */
static void drop_stages(struct api_call *a, const struct template_build *b,
			const struct dockerfile *d)
{
	char name[NAME_TEXT_MAX], *tag;
	struct err ignored;
	struct target t;

	for (; d != NULL; d = d->before) {
		stage_reference(b, d, name);
		tag = strchr(name, ':');
		*tag = '\0';
		target_init(&t, "/v1/templates");
		target_part(&t, name);
		target_part(&t, "tags");
		target_part(&t, tag + 1);
		IGNORED(api_call_json(a, "DELETE", &t, NULL, NULL, &ignored), "it was not built");
	}
}

/* The server looks at the name of the last stage when the others are done. */
static int check_name(const char *name, struct err *e)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789-_./";
	size_t n = strspn(name, good);

	if (n > 0 && name[n] == ':' && name[n + 1] != '\0')
		n += 1 + strspn(name + n + 1, good);
	if (n == 0 || name[n] != '\0')
		return err_set(e, ERR_INVALID,
			       "--name: '%.100s' is not NAME or NAME:TAG, of letters, digits, '-', "
			       "'_' and '.'",
			       name);
	return 0;
}

/* Errors name the file given. dockerfile_read() knows the text only and says "Dockerfile". */
static void name_file(const struct template_build *b, struct err *e)
{
	static const char usual[] = "Dockerfile:";
	const char *slash = b->file == NULL ? NULL : strrchr(b->file, '/');
	char why[sizeof(e->msg)];

	if (b->file == NULL || strncmp(e->msg, usual, sizeof(usual) - 1) != 0)
		return;
	str_copy(why, e->msg + sizeof(usual) - 2);
	IGNORED(err_set(e, e->code, "%.100s%.300s", slash == NULL ? b->file : slash + 1, why),
		"it failed before");
}

/* The stages' tags are removed in every case, so a failed build leaves no version behind. */
int template_build(struct api_call *a, const struct template_build *b, struct err *e)
{
	struct build_context c = { 0 };
	struct dockerfile d = { 0 };
	char path[PATHS_MAX];
	OWN_MEM char *text = NULL;
	size_t len = 0;
	int rc = -1;

	(void)snprintf(path, sizeof(path), "%s/Dockerfile", b->dir);
	if (check_name(b->name, e) < 0)
		return -1;
	if (build_context_read(b->file != NULL ? b->file : path, &text, &len, e) < 0)
		return -1;
	if (dockerfile_read(text, len, b->args->items, b->args->n, &d, e) == 0 &&
	    build_context_open(&c, b->dir, e) == 0)
		rc = run_stages(a, b, &c, d.before, e) < 0 ? -1
							   : template_build_run(a, b, &c, &d, e);
	drop_stages(a, b, d.before);
	build_context_close(&c);
	dockerfile_release(&d);
	if (rc < 0)
		name_file(b, e);
	return rc;
}
