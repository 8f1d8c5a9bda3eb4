/* cache_admin.c - see cache_admin.h. */
#include "cmd/client/cache_admin.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/client/columns.h"
#include "cmd/client/compose.h"
#include "cmd/client/create.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/transfer.h"
#include "lib/base/own.h"
#include "lib/base/str.h"
#include "lib/base/units.h"

/* ---- warm. The session is deleted at the end, also after a failure. */

#define ROWS_MAX 100000
#define SHOWN_MAX 2000 /* bytes of a failed command's output */
#define NOT_FOUND 127  /* exit code of a shell that did not find the program */

#define NPM_OPTIONS \
	"--ignore-scripts --no-audit --no-fund --no-update-notifier --cache /tmp/cordon-warm"

/* In the order in which they are looked for. ---- lockfiles. The table says which package
 * manager reads a lockfile, and how it only downloads. Commands run in a throwaway session, so a
 * hostile lockfile meets the same walls as any other code. */
static const struct lockfile {
	const char *pattern;  /* of the file's name */
	const char *registry; /* by default */
	const char *beside;   /* a file of the same folder that the command needs. NULL: none */
	const char *command;  /* run in the folder of both, with the name as $1 */
} lockfiles[] = {
	{ "package-lock.json", "npm", "package.json", "npm ci " NPM_OPTIONS },
	{ "npm-shrinkwrap.json", "npm", "package.json", "npm ci " NPM_OPTIONS },
	{ "yarn.lock", "npm", "package.json",
	  "$(command -v yarn || command -v yarnpkg || echo yarn) install --frozen-lockfile "
	  "--ignore-scripts --non-interactive" },
	{ "pnpm-lock.yaml", "npm", NULL, "pnpm fetch" },
	{ "Cargo.lock", "cargo", "Cargo.toml",
	  "mkdir -p src && touch src/lib.rs src/main.rs && cargo fetch --locked" },
	{ "go.sum", "go", "go.mod", "go mod download" },
	{ "*requirements*.txt", "pypi", NULL,
	  "pip3 download --no-deps --no-cache-dir --disable-pip-version-check -d /tmp/cordon-warm "
	  "-r \"$1\"" },
};

/* The name decides, as it does for the package managers themselves. */
static const struct lockfile *cache_admin_find(const char *name)
{
	for (size_t i = 0; i < COUNT(lockfiles); i++)
		if (fnmatch(lockfiles[i].pattern, name, 0) == 0)
			return &lockfiles[i];
	return NULL;
}

/* Into the home of the session's user, where commands start. */
static int send_file(struct api_call *a, const char *session, const char *folder, const char *name,
		     struct err *e)
{
	struct transfer_place to = { .session = session, .path = name };
	OWN_JSON *entry = NULL;
	char path[PATH_MAX];
	OWN_FD fd = -1;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return err_set(e, ERR_INVALID, "%.60s: the path is too long", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "%.200s", path);
	return transfer_send_file(a, &to, fd, name, &entry, e);
}

/* The session may reach the lockfile's public registry and nothing else, unless a policy was
 * given. The caller owns the result. */
static json_t *session_body(const struct package_warm *w, const struct lockfile *l, struct err *e)
{
	OWN_JSON *body = json_object();

	if (compose_text(body, "template", "--template", w->template, e) < 0 ||
	    compose_network(body, "network", w->policy, w->allow, e) < 0)
		return NULL;
	if (json_object_get(body, "network") == NULL)
		(void)json_object_set_new(body, "network",
					  json_pack("{s:i,s:{s:[s]}}", "version", 1, "packages",
						    "registries", l->registry));
	return json_incref(body);
}

/* The end of the output, because package managers print the cause last. stderr counts before
 * stdout. */
static void print_failure(const json_t *execution)
{
	const char *text = member_text(execution, "stderr", "");
	size_t n = strlen(text);

	if (n == 0) {
		text = member_text(execution, "stdout", "");
		n = strlen(text);
	}
	show_lines(text + (n > SHOWN_MAX ? n - SHOWN_MAX : 0), stderr);
}

/* Exit code 127 gets a message of its own: the usual fault is a template without the package
 * manager. */
static int run_manager(struct api_call *a, const struct package_warm *w, const struct lockfile *l,
		       const char *session, const char *name, struct err *e)
{
	OWN_JSON *body = json_pack("{s:[s,s,s,s,s]}", "argv", "sh", "-c", l->command, "sh", name);
	OWN_JSON *execution = NULL;
	struct target t;

	if (body == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (compose_time(body, "timeout", w->timeout_ms, e) < 0 ||
	    compose_pairs(body, "env", "--env", w->env, e) < 0)
		return -1;
	id_match_target(&t, session, "executions");
	target_query(&t, "wait", "true");
	if (api_call_json(a, "POST", &t, body, &execution, e) < 0)
		return -1;
	if (json_is_integer(json_object_get(execution, "exit_code")) &&
	    member_number(execution, "exit_code", 1) == 0)
		return 0;
	print_failure(execution);
	if (member_number(execution, "exit_code", 1) == NOT_FOUND)
		return err_set(e, ERR_SYSTEM,
			       "the template has no package manager for %.60s (--template): %.100s",
			       name, l->command);
	return err_set(e, ERR_SYSTEM, "the package manager failed: %.100s", l->command);
}

/* Print the packages that arrived before the end. */
static int print_result(struct api_call *a, const char *session, struct err *e)
{
	uint64_t n = 0, bytes = 0, hits = 0;
	OWN_JSON *list = NULL;
	struct target t;
	char size[24];

	id_match_target(&t, session, "packages");
	if (api_call_pages(a, &t, "packages", NULL, ROWS_MAX, &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *row = json_array_get(list, i);

		if (member_number(row, "downloads", 0) > 0) {
			n++;
			bytes += member_number(row, "bytes", 0);
			hits += strcmp(member_text(row, "cache", ""), "hit") == 0;
			continue;
		}
		show_text(member_text(row, "result", "?"), stdout);
		(void)putchar(' ');
		show_text(member_text(row, "name", "?"), stdout);
		(void)putchar(' ');
		show_text(member_text(row, "version", "-"), stdout);
		(void)putchar(' ');
		show_text(member_text(row, "reason", ""), stdout);
		(void)putchar('\n');
	}
	units_format_bytes(bytes, size, sizeof(size));
	(void)printf("%llu packages of %s, %llu of them were in the cache before\n",
		     (unsigned long long)n, size, (unsigned long long)hits);
	return 0;
}

/* The result is printed also after a failure, since packages that arrived are in the cache. The
 * first error counts. */
static int cache_admin_use(struct api_call *a, const struct package_warm *w,
			   const struct lockfile *l, const char *session, const char *path,
			   struct err *e)
{
	char folder_of[PATH_MAX], name_of[PATH_MAX];
	const char *folder, *name;
	struct err later = { 0 };
	int result;

	str_copy(folder_of, path);
	str_copy(name_of, path);
	folder = dirname(folder_of);
	name = basename(name_of);
	if (send_file(a, session, folder, name, e) < 0 ||
	    (l->beside != NULL && send_file(a, session, folder, l->beside, e) < 0))
		return -1;
	result = run_manager(a, w, l, session, name, e);
	if (print_result(a, session, &later) < 0 && result == 0) {
		*e = later;
		return -1;
	}
	return result;
}

/* Signals that could end this program before the session is deleted wait until then. */
static void block_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Print downloads and refusals. ERR_INVALID: no known lockfile. */
static int package_warm(struct api_call *a, const struct package_warm *w, const char *path,
			struct err *e)
{
	const char *slash = strrchr(path, '/');
	const struct lockfile *l = cache_admin_find(slash == NULL ? path : slash + 1);
	OWN_JSON *session = NULL;
	OWN_JSON *body = NULL;
	struct err later = { 0 };
	struct target t;
	int result;

	if (l == NULL)
		return err_set(
			e, ERR_INVALID,
			"%.200s: no lockfile that is known: package-lock.json, "
			"npm-shrinkwrap.json, yarn.lock, pnpm-lock.yaml, Cargo.lock, go.sum, "
			"requirements.txt",
			path);
	if (access(path, R_OK) < 0)
		return err_sys(e, "%.200s", path);
	body = session_body(w, l, e);
	if (body == NULL)
		return -1;
	block_signals();
	if (create_session(a, body, &session, e) < 0)
		return -1;
	result = cache_admin_use(a, w, l, member_text(session, "id", ""), path, e);
	id_match_target(&t, member_text(session, "id", ""), NULL);
	if (api_call_json(a, "DELETE", &t, NULL, NULL, &later) < 0 && result == 0) {
		*e = later;
		return err_wrap(e, "the session could not be deleted");
	}
	return result;
}

/* ---- ls, gc, verify. One route shows the cache, others order work in cordon-cache. The
 * operator's key is needed. */

#define CACHE_PATH "/v1/packages/cache"
#define ENTRIES_MAX 10000

/* Numbers since the start of cordon-cache, and the room in use. */
static void print_stats(const json_t *s)
{
	char bytes[24], max[24];

	units_format_bytes(member_number(s, "bytes", 0), bytes, sizeof(bytes));
	units_format_bytes(member_number(s, "max_bytes", 0), max, sizeof(max));
	(void)printf("%s of %s in %" PRIu64 " objects, %" PRIu64 " views; %" PRIu64
		     " hits, %" PRIu64 " misses, %" PRIu64 " evicted, %" PRIu64
		     " damaged since its start\n",
		     bytes, max, member_number(s, "objects", 0), member_number(s, "views", 0),
		     member_number(s, "hits", 0), member_number(s, "misses", 0),
		     member_number(s, "evicted", 0), member_number(s, "bad", 0));
}

static const char *const heads[] = {
	"SCOPE", "ECOSYSTEM", "HOST", "SIZE", "FETCHED", "USED", "WHAT"
};

/* Sorted by owner, registry and path, so that the versions of one package stand together. */
static int cache_admin_compare(const void *one, const void *other)
{
	static const char *const by[] = { "scope", "registry", "path" };
	const json_t *a = *(const json_t *const *)one, *b = *(const json_t *const *)other;
	int order = 0;

	for (size_t i = 0; i < COUNT(by) && order == 0; i++)
		order = strcmp(member_text(a, by[i], ""), member_text(b, by[i], ""));
	return order;
}

/* The host of a URL, without the usual port. Its path follows. */
static size_t host_of(const char *url, const char **ret_host, const char **ret_path)
{
	const char *host = strstr(url, "://");
	size_t n;

	*ret_host = host == NULL ? url : host + 3;
	n = strcspn(*ret_host, "/ ");
	*ret_path = *ret_host + n;
	return n > 4 && memcmp(*ret_host + n - 4, ":443", 4) == 0 ? n - 4 : n;
}

/* A view is a document, with a path below its registry ("npm https://registry.example:443/"), or a
 * file, with its URL and its digest. */
struct what {
	const char *host, *path;
	size_t nhost, npath;
};

/* The text is borrowed from both strings. Without a URL the host is empty. */
static struct what what_of(const char *registry, const char *path)
{
	const char *url = strchr(registry, ' ');
	struct what w = { 0 };

	w.nhost = host_of(path[0] == '/' ? (url == NULL ? "" : url + 1) : path, &w.host, &w.path);
	if (path[0] == '/')
		w.path = path;
	w.npath = strcspn(w.path, " ");
	return w;
}

/* "2026-11-16T15:24:33Z" to the minute. */
static void add_time(struct columns *t, const char *text)
{
	columns_add(t, "%.10s %.5s", text, strlen(text) > 16 ? text + 11 : "");
}

/* A row of `ls`. `used` is kept to the hour, so the later of both times is shown. */
static void add_entry(struct columns *t, const json_t *entry)
{
	const char *fetched = member_text(entry, "fetched_at", "-");
	const char *used = member_text(entry, "used_at", "-");
	const char *registry = member_text(entry, "registry", "?");
	struct what w = what_of(registry, member_text(entry, "path", "?"));
	char size[24];

	units_format_bytes(member_number(entry, "size", 0), size, sizeof(size));
	columns_add(t, "%s", member_text(entry, "scope", "?"));
	columns_add(t, "%.*s", (int)strcspn(registry, " "), registry);
	columns_add(t, "%.*s", (int)w.nhost, w.host);
	columns_add(t, "%s", size);
	add_time(t, fetched);
	add_time(t, strcmp(used, fetched) < 0 ? fetched : used); /* it is kept to the hour */
	columns_add(t, "%.*s", (int)w.npath, w.path);
}

/* The server lists views in its own order, so the list is sorted here, on borrowed pointers. */
static int print_entries(const json_t *list, struct err *e)
{
	size_t n = json_array_size(list);
	OWN_MEM const json_t **sorted = malloc((n + 1) * sizeof(const json_t *));
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	if (sorted == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		sorted[i] = json_array_get(list, i);
	qsort(sorted, n, sizeof(json_t *), cache_admin_compare);
	for (size_t i = 0; i < n; i++)
		add_entry(&t, sorted[i]);
	columns_print(&t, SIZE_MAX, 0, stdout);
	return 0;
}

/* JSON has the entries only, the table also the numbers of the whole cache. */
static int run_list(const struct cache_admin_options *o, struct api_call *a, struct err *e)
{
	OWN_JSON *list = NULL, *whole = NULL, *stats = NULL;
	struct target t;

	target_init(&t, CACHE_PATH "/entries");
	if (api_call_pages(a, &t, "entries", NULL, ENTRIES_MAX, &list, e) < 0)
		return -1;
	if (o->common->json) {
		whole = json_pack("{s:O}", "entries", list);
		if (whole == NULL)
			return err_set(e, ERR_SYSTEM, "out of memory");
		show_json(whole, true, stdout);
		return 0;
	}
	target_init(&t, CACHE_PATH);
	if (print_entries(list, e) < 0 || api_call_json(a, "GET", &t, NULL, &stats, e) < 0)
		return -1;
	print_stats(stats);
	return 0;
}

/* gc and verify are one POST. Both answer with numbers, in the words of the order. */
static int run_order(const struct cache_admin_options *o, struct api_call *a, const char *order,
		     struct err *e)
{
	OWN_JSON *answer = NULL;
	struct target t;
	char bytes[24];

	target_init(&t, CACHE_PATH);
	target_part(&t, order);
	if (strcmp(order, "gc") == 0) {
		(void)snprintf(bytes, sizeof(bytes), "%" PRIu64, o->to_bytes);
		target_query(&t, "bytes", bytes);
	}
	if (api_call_json(a, "POST", &t, NULL, &answer, e) < 0)
		return -1;
	if (o->common->json) {
		show_json(answer, true, stdout);
		return 0;
	}
	units_format_bytes(member_number(answer, "bytes", 0), bytes, sizeof(bytes));
	if (strcmp(order, "verify") == 0)
		(void)printf("%" PRIu64 " objects, %s, verified; %" PRIu64
			     " were damaged and are removed\n",
			     member_number(answer, "objects", 0), bytes,
			     member_number(answer, "damaged", 0));
	else
		(void)printf("%" PRIu64 " removed, %s\n", member_number(answer, "removed", 0),
			     bytes);
	return 0;
}

static int run_word(const struct cache_admin_options *o, struct api_call *a, const char *word,
		    const char *file, struct err *e)
{
	if (strcmp(word, "ls") == 0)
		return run_list(o, a, e);
	if (strcmp(word, "warm") == 0)
		return package_warm(a, &o->warm, file, e);
	return run_order(o, a, word, e);
}

/* The words are checked before any connection. gc without a size is refused: 0 bytes would empty
 * the cache. */
int cache_admin_run(const struct verb *v, const struct cache_admin_options *o,
		    const char *const *words, size_t n)
{
	static const char *const known[] = { "ls", "gc", "verify", "warm" };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	bool ok = false;

	for (size_t i = 0; n > 0 && i < COUNT(known); i++)
		ok = ok || strcmp(words[0], known[i]) == 0;
	if (!ok || n != (strcmp(words[0], "warm") == 0 ? 2U : 1U))
		return args_wrong(v,
				  "expected: cordon packages cache ls | gc | verify | warm FILE");
	if (strcmp(words[0], "gc") == 0 && o->to_bytes == CACHE_ADMIN_NO_SIZE)
		return args_wrong(v, "cache gc: --to SIZE says how much may stay");
	if (api_call_open(&a, o->common, API_CALL_ANSWER_MS, &e) < 0 ||
	    run_word(o, &a, words[0], words[1], &e) < 0)
		return args_fail(&e);
	return ARGS_OK;
}
